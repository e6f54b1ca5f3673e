/*
 * redis_decode: results of redis_script.lua as the answers of operations. A result of another
 * form (another script, a broken server) is ERR_INVALID.
 */
#include "base/error.h"
#include "base/text.h"
#include "codec/resp.h"
#include "gate/ticket.h"
#include "store/redis/redis_internal.h"

#define ADMIT_LEN 55u
#define RECORD_LEN 46u
#define ITEM_LEN (8u + RECORD_LEN)
#define NOTE_LEN 24u
#define LOOKUP_LEN 18u
#define CELL_LEN 18u
#define GROUP_LEN 16u /* before the bits of each admit */

enum group_bits { GROUP_NUMBER_USED = 1, GROUP_HAS_ANSWER = 2 };

bool redis_text_next(struct span reply, size_t *at, struct span *ret_text)
{
	struct resp_reply value;

	if (!resp_reply_next(reply, at, &value) || value.kind != RESP_REPLY_TEXT)
		return false;
	*ret_text = value.text;
	return true;
}

int redis_decode_admit(struct store_admit *admit, struct span reply, struct span *ret_text)
{
	struct resp_reply value;
	size_t offset = 0;

	if (!resp_reply_next(reply, &offset, &value))
		return ERR_INVALID;
	if (value.kind == RESP_REPLY_NUMBER && value.number < 0)
		return (int)value.number;
	if (value.kind != RESP_REPLY_TEXT || value.text.len != ADMIT_LEN)
		return ERR_INVALID;
	const char *at = value.text.ptr;
	admit->verdict = (enum verdict)at[0];
	admit->matched = (uint32_t)at[1];
	admit->would = (enum verdict)at[2];
	admit->would_matched = (uint32_t)at[3];
	admit->ticket = big_u64(at + 4);
	admit->own_ticket = big_u64(at + 12);
	admit->would_ticket = big_u64(at + 20);
	admit->seen = big_u64(at + 28);
	admit->decided_ms = big_u64(at + 36);
	admit->order = big_u64(at + 44);
	admit->first_seen_ms = ticket_time_ms(admit->ticket);
	*ret_text = value.text;
	return 0;
}

/* ---- admits that only decide ---- */

static int decode_group(struct redis_shard *shard, const struct redis_part *part, struct span reply)
{
	struct store_admit *admit = container_of(part->op, struct store_admit, op);
	struct redis_group *group = &shard->group;
	int r = 0;

	if (!part->follows) { /* the first reads what is common to all */
		struct resp_reply value;
		size_t at = 0;
		*group = (struct redis_group){ .reply = reply, .error = ERR_INVALID };
		if (!resp_reply_next(reply, &at, &value))
			return ERR_INVALID;
		if (value.kind == RESP_REPLY_NUMBER && value.number < 0)
			group->error = (int)value.number;
		if (value.kind == RESP_REPLY_ARRAY && resp_reply_next(reply, &at, &value) &&
		    value.kind == RESP_REPLY_TEXT &&
		    value.text.len == GROUP_LEN + redis_group_count(part)) {
			group->error = 0;
			group->at = at;
			group->bits = value.text.ptr + GROUP_LEN;
			group->now_ms = big_u64(value.text.ptr);
			group->ticket = big_u64(value.text.ptr + 8);
		}
	}
	if (group->error < 0)
		return group->error;
	unsigned bits = (unsigned char)*group->bits++;
	if (bits & GROUP_HAS_ANSWER) {
		struct span text;
		size_t from = group->at;
		resp_reply_skip(group->reply, &group->at);
		r = redis_decode_admit(admit, span_of(group->reply.ptr + from, group->at - from),
		                       &text);
	} else {
		admit->verdict = VERDICT_NEW;
		admit->would = VERDICT_NONE;
		admit->matched = admit->would_matched = 0;
		admit->ticket = admit->own_ticket = group->ticket;
		admit->would_ticket = admit->seen = admit->order = 0;
		admit->decided_ms = group->now_ms;
		admit->first_seen_ms = ticket_time_ms(group->ticket);
	}
	if (bits & GROUP_NUMBER_USED)
		group->ticket += redis_ticket_step(shard->redis);
	return r;
}

static int decode_lookup(struct store_lookup *lookup, struct span text)
{
	lookup->taken = text.len > 0;
	lookup->open = lookup->held = false;
	if (!lookup->taken)
		return 0;
	if (text.len < LOOKUP_LEN + (lookup->kind == CLAIM_NEWEST ? 8u : 0u))
		return ERR_INVALID;
	lookup->open = text.ptr[0] != 0;
	lookup->held = text.ptr[1] != 0;
	lookup->check = lookup->kind == CLAIM_NEWEST ? 0 : big_u32(text.ptr + 2);
	lookup->seen = lookup->kind == CLAIM_NEWEST ? 0 : big_u32(text.ptr + 6);
	lookup->ticket = big_u64(text.ptr + 10);
	lookup->first_seen_ms = ticket_time_ms(lookup->ticket);
	lookup->order = lookup->kind == CLAIM_NEWEST ? big_u64(text.ptr + LOOKUP_LEN) : 0;
	return 0;
}

/* ---- tickets ---- */

/* How the caller wants an item. */
struct wanted {
	bool taken; /* its due time stays, instead of the end of its lease */
	bool alone; /* without parts */
	bool with_payload;
};

static int parts_read(struct span stored, struct store_item *item, struct store_parts *ret_parts)
{
	struct span body = span_skip(stored, RECORD_LEN);

	if (!body.ptr || body.len < REDIS_BODY_HEAD_LEN)
		return ERR_INVALID;
	size_t source = (unsigned char)body.ptr[2], metadata = big_u16(body.ptr + 3);
	item->flags = big_u16(body.ptr);
	body = span_skip(body, REDIS_BODY_HEAD_LEN);
	if (body.len < source + metadata)
		return ERR_INVALID;
	*ret_parts = (struct store_parts){ .source = span_of(body.ptr, source),
		                           .metadata = span_of(body.ptr + source, metadata),
		                           .payload = span_skip(body, source + metadata) };
	return 0;
}

/* `head`: the number and the record; `stored`: what is stored of the event. */
static int item_append(struct buf *items, struct span head, struct span stored,
                       struct wanted wanted, struct store_item *ret_item)
{
	const char *record = head.ptr + 8;
	struct store_parts parts = { 0 };

	if (head.len != ITEM_LEN)
		return ERR_INVALID;
	struct store_item item = {
		.ticket = big_u64(head.ptr),
		.event = big_u64(record),
		.due_ms = big_u64(record + 8),
		.order = big_u64(record + 16),
		.sink = big_u32(record + 32),
		.attempt = big_u16(record + 36),
		.status = big_u16(record + 40),
		.state = (uint8_t)record[42],
		.last = (uint8_t)record[43],
		.bare = !wanted.with_payload,
	};
	uint64_t ends_ms = big_u64(record + 24);
	if (!wanted.taken && item.state == STORE_STATE_LEASED && ends_ms != 0)
		item.due_ms = ends_ms;
	int r = wanted.alone ? 0 : parts_read(stored, &item, &parts);
	if (!wanted.with_payload)
		parts.payload = SPAN_EMPTY;
	if (r == 0)
		r = store_item_append(items, &item, &parts);
	*ret_item = item;
	return r;
}

/* Tickets taken by sink, or without an end, are remembered as leased to this process. */
static int decode_take(struct redis_store *redis, struct store_take *take, struct span reply)
{
	struct wanted wanted = { .taken = true,
		                 .alone = take->without_payload,
		                 .with_payload = !take->without_payload };
	uint64_t now_ms = loop_now_ms(redis->loop);
	struct resp_reply whole;
	struct span head, stored;
	size_t offset = 0, *at = &offset;
	int r = 0;

	buf_clear(&take->items);
	take->count = 0;
	if (!resp_reply_next(reply, at, &whole))
		return ERR_INVALID;
	if (whole.kind == RESP_REPLY_NUMBER)
		return (int)whole.number;
	if (whole.kind != RESP_REPLY_ARRAY || !redis_text_next(reply, at, &head) || head.len != 8)
		return ERR_INVALID;
	take->now_ms = big_u64(head.ptr);
	for (int64_t i = 1; i + 1 < whole.number; i += 2) {
		struct store_item item = { 0 };
		if (!redis_text_next(reply, at, &head) || !redis_text_next(reply, at, &stored))
			return ERR_INVALID;
		if (r == 0)
			r = item_append(&take->items, head, stored, wanted, &item);
		if (r < 0)
			continue; /* its lease ends by itself */
		take->count++;
		if (take->ticket == 0 || take->lease_ms == 0)
			redis_lease_put(redis,
			                (struct redis_lease){
						.ticket = item.ticket,
						.attempt = item.attempt,
						.ends_ms = take->lease_ms ? now_ms + take->lease_ms
			                                                  : 0 });
	}
	return take->count > 0 ? 0 : r;
}

static int decode_read(struct store_read *read, int64_t count, struct span reply, size_t *at)
{
	struct span head, stored;
	struct store_item item;

	buf_clear(&read->items);
	if (count < 2 || !redis_text_next(reply, at, &head) || !redis_text_next(reply, at, &stored))
		return ERR_INVALID;
	int r = item_append(&read->items, head, stored, (struct wanted){ .with_payload = true },
	                    &item);
	for (int64_t i = 2; i < count; i++) {
		if (!redis_text_next(reply, at, &stored))
			return ERR_INVALID;
		if (r == 0 && stored.len < NOTE_LEN)
			r = ERR_INVALID;
		if (r < 0)
			continue;
		struct store_history history = { .at_ms = big_u64(stored.ptr),
			                         .due_ms = big_u64(stored.ptr + 8),
			                         .attempt = big_u32(stored.ptr + 16),
			                         .mark = big_u16(stored.ptr + 20),
			                         .status = big_u16(stored.ptr + 22) };
		r = store_history_append(&read->items, history, span_skip(stored, NOTE_LEN));
	}
	return r;
}

/* ---- several tickets ---- */

/* What one shard found, while it is read. */
struct found {
	struct span reply;
	size_t at;
	int64_t left;       /* items that are not read yet */
	uint64_t following; /* where that shard continues; 0: it has no more */
	struct span head, stored;
	uint64_t ticket; /* of the item that was read; 0: there is none */
};

static bool found_next(struct found *found)
{
	found->ticket = 0;
	if (found->left == 0)
		return true;
	if (!redis_text_next(found->reply, &found->at, &found->head) ||
	    !redis_text_next(found->reply, &found->at, &found->stored) ||
	    found->head.len != ITEM_LEN)
		return false;
	found->left--;
	found->ticket = big_u64(found->head.ptr);
	return true;
}

static bool found_begin(struct found *found, struct span reply)
{
	struct resp_reply whole;
	struct span following;

	*found = (struct found){ .reply = reply };
	if (!resp_reply_next(reply, &found->at, &whole) || whole.kind != RESP_REPLY_ARRAY ||
	    !redis_text_next(reply, &found->at, &following) || following.len != 8)
		return false;
	found->following = big_u64(following.ptr);
	found->left = (whole.number - 1) / 2;
	return found_next(found);
}

static int scan_merge(struct store_scan *scan, struct found *found, uint32_t count)
{
	uint64_t bound = UINT64_MAX; /* the first number that some shard has not looked at yet */
	struct store_item item;

	buf_clear(&scan->items);
	scan->count = 0;
	for (uint32_t i = 0; i < count; i++)
		if (found[i].following != 0 && found[i].following < bound)
			bound = found[i].following;
	for (;;) {
		struct found *least = NULL;
		for (uint32_t i = 0; i < count; i++)
			if (found[i].ticket != 0 && (!least || found[i].ticket < least->ticket))
				least = &found[i];
		if (!least || least->ticket >= bound)
			break;
		size_t len = sizeof(item) + least->stored.len;
		if (scan->count >= scan->max_items ||
		    (scan->count > 0 && scan->items.len + len > scan->max_bytes)) {
			bound = least->ticket; /* no room: the next scan begins here */
			break;
		}
		int r = item_append(&scan->items, least->head, least->stored,
		                    (struct wanted){ .with_payload = scan->with_payload }, &item);
		if (r == 0 && !found_next(least))
			r = ERR_INVALID;
		if (r < 0)
			return r;
		scan->count++;
	}
	scan->end = bound == UINT64_MAX;
	scan->cursor.word[0] = bound;
	return 0;
}

static int held_merge(struct store_held *held, const struct span *texts, uint32_t count)
{
	size_t at[REDIS_SHARDS_MAX] = { 0 };

	for (held->count = 0; held->count < held->max; held->count++) {
		uint64_t greatest = 0;
		uint32_t from = 0;
		for (uint32_t i = 0; i < count; i++) {
			uint64_t ticket = at[i] + 8 <= texts[i].len ? big_u64(texts[i].ptr + at[i])
			                                            : 0;
			if (ticket > greatest) {
				greatest = ticket;
				from = i;
			}
		}
		if (greatest == 0)
			break;
		held->tickets[held->count] = greatest;
		at[from] += 8;
	}
	return 0;
}

int redis_decode_gathered(struct store_op *op, const struct redis_gather *gather, uint32_t shards)
{
	struct found found[REDIS_SHARDS_MAX];
	struct span texts[REDIS_SHARDS_MAX];

	CHECK(gather->missing == 0);
	if (gather->error < 0)
		return gather->error;
	for (uint32_t i = 0; i < shards; i++) {
		struct span reply = buf_span(&gather->replies[i]);
		size_t at = 0;
		if (op->kind == STORE_SCAN ? !found_begin(&found[i], reply)
		                           : !redis_text_next(reply, &at, &texts[i]))
			return ERR_INVALID;
	}
	if (op->kind == STORE_SCAN)
		return scan_merge(container_of(op, struct store_scan, op), found, shards);
	return held_merge(container_of(op, struct store_held, op), texts, shards);
}

/* ---- cells ---- */

static int decode_cell(struct store_cell *cell, int64_t count, struct span reply, size_t *at)
{
	struct span head, stored = SPAN_EMPTY;

	buf_clear(&cell->value);
	if (count < 1 || !redis_text_next(reply, at, &head) || head.len != CELL_LEN ||
	    (count > 1 && !redis_text_next(reply, at, &stored)))
		return ERR_INVALID;
	cell->found = head.ptr[0] != 0;
	cell->changed = head.ptr[1] != 0;
	cell->expiry_ms = big_u64(head.ptr + 2);
	cell->now_ms = big_u64(head.ptr + 10);
	if (count < 2)
		return 0;
	if (stored.len < 12 || stored.len - 12 < big_u32(stored.ptr + 8))
		return ERR_INVALID;
	buf_append_span(&cell->value, span_skip(stored, 12 + big_u32(stored.ptr + 8)));
	return cell->value.failed;
}

static int decode_cell_scan(struct redis_store *redis, struct store_cell_scan *scan, int64_t count,
                            struct span reply, size_t *at)
{
	struct span cursor, name;
	int r = 0;

	buf_clear(&scan->names);
	scan->count = 0;
	if (count < 1 || !redis_text_next(reply, at, &cursor) ||
	    text_parse_u64(cursor, &scan->cursor.word[0]) < 0)
		return ERR_INVALID;
	for (int64_t i = 1; i < count; i++) {
		if (!redis_text_next(reply, at, &name))
			return ERR_INVALID;
		if (r == 0)
			r = store_name_append(&scan->names, name);
		scan->count++;
	}
	if (scan->cursor.word[0] == 0)
		scan->cursor.word[1]++;
	scan->end = scan->cursor.word[1] >= redis->shard_count;
	return r;
}

/* ---- all ---- */

int redis_decode(struct redis_shard *shard, const struct redis_part *part, struct span reply)
{
	struct redis_store *redis = shard->redis;
	struct store_op *op = part->op;
	struct resp_reply value;
	struct span text;
	size_t at = 0;

	if (part->only_decides)
		return decode_group(shard, part, reply);
	if (op->kind == STORE_ADMIT)
		return redis_decode_admit(container_of(op, struct store_admit, op), reply, &text);
	if (op->kind == STORE_TAKE)
		return decode_take(redis, container_of(op, struct store_take, op), reply);
	if (!resp_reply_next(reply, &at, &value))
		return ERR_INVALID;
	if (value.kind == RESP_REPLY_NUMBER && op->kind == (enum store_op_kind)REDIS_OP_ASK) {
		container_of(op, struct redis_wait, ask)->bits = (uint32_t)value.number;
		return 0;
	}
	if (value.kind == RESP_REPLY_NUMBER && value.number <= 0)
		return (int)value.number;
	if (value.kind == RESP_REPLY_TEXT && op->kind == STORE_LOOKUP)
		return decode_lookup(container_of(op, struct store_lookup, op), value.text);
	if (value.kind == RESP_REPLY_TEXT && op->kind == STORE_HELD)
		return held_merge(container_of(op, struct store_held, op), &value.text, 1);
	if (value.kind != RESP_REPLY_ARRAY)
		return ERR_INVALID;
	if (op->kind == STORE_READ)
		return decode_read(container_of(op, struct store_read, op), value.number, reply,
		                   &at);
	if (op->kind == STORE_CELL)
		return decode_cell(container_of(op, struct store_cell, op), value.number, reply,
		                   &at);
	if (op->kind == STORE_CELL_SCAN)
		return decode_cell_scan(redis, container_of(op, struct store_cell_scan, op),
		                        value.number, reply, &at);
	struct found found;
	if (op->kind != STORE_SCAN || !found_begin(&found, reply))
		return ERR_INVALID;
	return scan_merge(container_of(op, struct store_scan, op), &found, 1);
}
