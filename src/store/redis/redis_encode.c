/* redis_encode: operations as arguments of redis_script.lua, which describes them. */
#include "base/text.h"
#include "codec/resp.h"
#include "store/redis/redis_internal.h"

#define NUMBER_MAX ((UINT64_C(1) << 53) - 1) /* the largest that is exact in Lua */
#define CLAIM_LEN 42u
#define LEG_LEN 12u
#define HEAD_MAX (20u + CLAIMS_MAX * (CLAIM_LEN + 1) + STORE_LEGS_MAX * LEG_LEN + STORE_TEXT_MAX)

/* A head that is being written, in memory of the caller. */
struct head {
	char *at;
};

static void put_u8(struct head *head, unsigned value)
{
	*head->at++ = (char)value;
}

static void put_u16(struct head *head, uint16_t value)
{
	put_u8(head, value >> 8);
	put_u8(head, value & 0xffu);
}

static void put_u32(struct head *head, uint32_t value)
{
	uint32_t big = __builtin_bswap32(value);

	memcpy(head->at, &big, sizeof(big));
	head->at += sizeof(big);
}

static void put_u64(struct head *head, uint64_t value)
{
	uint64_t big = __builtin_bswap64(value);

	memcpy(head->at, &big, sizeof(big));
	head->at += sizeof(big);
}

static void put_number(struct head *head, uint64_t value)
{
	put_u64(head, value < NUMBER_MAX ? value : NUMBER_MAX);
}

static void put_span(struct head *head, struct span span)
{
	if (span.len)
		memcpy(head->at, span.ptr, span.len);
	head->at += span.len;
}

static void put_key(struct head *head, const struct digest *digest)
{
	put_u64(head, digest->word[0]);
	put_u32(head, (uint32_t)(digest->word[1] >> 32));
}

/* ---- events ---- */

static void put_claim(struct head *head, const struct claim *claim, bool foreign)
{
	struct claim aside = store_aside_claim(claim);

	put_u8(head, claim->kind);
	put_u8(head,
	       (claim->shadow ? 1u : 0u) | (claim->equal_drops ? 2u : 0u) | (foreign ? 4u : 0u));
	put_u32(head, claim->window_s);
	put_u32(head, digest_check(&claim->digest));
	put_key(head, &claim->digest);
	put_u64(head, claim->order);
	put_key(head, &aside.digest);
}

/* The claims of one shard: to reserve, or to confirm. */
static void put_cross(struct head *head, const struct redis_part *part)
{
	const struct redis_cross *cross = part->cross;
	bool confirms = part->kind == REDIS_PART_CONFIRM;

	put_u8(head, confirms ? 'Q' : 'P');
	put_span(head, span_of(cross->token, sizeof(cross->token)));
	if (confirms)
		put_u64(head, cross->ticket);
	else
		put_u32(head, REDIS_CROSS_LEASE_MS);
	char *count = head->at;
	put_u8(head, 0);
	for (uint32_t i = 0; i < cross->admit->claim_count; i++) {
		if (cross->shards[i] != part->shard)
			continue;
		if (confirms)
			put_u8(head, cross->acts[i]);
		put_claim(head, &cross->admit->claims[i], false);
		++*count;
	}
}

static void put_admit(struct head *head, const struct store_admit *admit,
                      const struct redis_cross *cross)
{
	put_u8(head,
	       (admit->no_ticket ? 1u : 0u) | (admit->busy_if_open ? 2u : 0u) | (cross ? 4u : 0u));
	put_u8(head, (unsigned)admit->on_conflict);
	put_u8(head, admit->claim_count);
	put_u8(head, admit->leg_count);
	put_u32(head, admit->lease_ms);
	for (uint32_t i = 0; i < admit->claim_count; i++)
		put_claim(head, &admit->claims[i], cross && cross->shards[i] != cross->home);
	for (uint32_t i = 0; i < admit->leg_count; i++) {
		put_u32(head, admit->legs[i].sink);
		put_u64(head, admit->legs[i].order);
	}
}

uint32_t redis_group_count(const struct redis_part *leader)
{
	uint32_t count = 1;

	CHECK(leader->only_decides && !leader->follows);
	for (const struct redis_part *part = leader->next; part && part->follows; part = part->next)
		count++;
	return count;
}

/* Admits in a row that only decide: the heads of all, then the keys of all. */
static uint32_t encode_group(const struct redis_shard *shard, const struct redis_part *leader,
                             struct buf *out)
{
	uint32_t count = redis_group_count(leader), claims = 0;
	char bytes[HEAD_MAX];
	const struct redis_part *part = leader;
	size_t len = 5;

	for (uint32_t i = 0; i < count; i++, part = part->next) {
		const struct store_admit *admit = container_of(part->op, struct store_admit, op);
		claims += admit->claim_count;
		len += 8u + admit->claim_count * CLAIM_LEN + admit->leg_count * LEG_LEN;
	}
	uint32_t keys = claims * (shard->redis->shard_count > 1 ? 2 : 1);
	resp_request_open(out, len);
	struct head first = { bytes };
	put_u8(&first, 'M');
	put_u16(&first, (uint16_t)count);
	put_u16(&first, (uint16_t)keys);
	buf_append(out, bytes, (size_t)(first.at - bytes));
	part = leader;
	for (uint32_t i = 0; i < count; i++, part = part->next) {
		struct head head = { bytes };
		put_admit(&head, container_of(part->op, struct store_admit, op), NULL);
		buf_append(out, bytes, (size_t)(head.at - bytes));
	}
	resp_request_close(out);
	part = leader;
	/* The keys of the claims, in a cluster each followed by the key of its reservation. */
	for (uint32_t i = 0; i < count; i++, part = part->next) {
		const struct store_admit *admit = container_of(part->op, struct store_admit, op);
		for (uint32_t k = 0; k < admit->claim_count; k++) {
			const struct claim *claim = &admit->claims[k];
			char reserved[2] = { 'q', (char)('0' + claim->kind) };
			struct head key = { bytes };
			put_key(&key, &claim->digest);
			struct span parts[] = { span_str(shard->prefix),
				                claim->kind == CLAIM_NEWEST ? SPAN("n") : SPAN("c"),
				                span_of(bytes, (size_t)(key.at - bytes)) };
			resp_request_add_parts(out, parts, ARRAY_LEN(parts));
			parts[1] = span_of(reserved, sizeof(reserved));
			if (shard->redis->shard_count > 1)
				resp_request_add_parts(out, parts, ARRAY_LEN(parts));
		}
	}
	return 1 + keys;
}

/* Behind the head: the event; of a cross-shard admit what the other shards answered. */
static uint32_t add_event(const struct store_admit *admit, const struct redis_cross *cross,
                          struct buf *out)
{
	char bytes[16];
	struct head body = { bytes }, token = { bytes };

	put_u16(&body, admit->flags);
	put_u8(&body, (unsigned)admit->source.len);
	put_u16(&body, (uint16_t)admit->metadata.len);
	struct span parts[] = { span_of(bytes, REDIS_BODY_HEAD_LEN), admit->source, admit->metadata,
		                admit->payload };
	resp_request_add_parts(out, parts, admit->no_ticket ? 0 : ARRAY_LEN(parts));
	if (!cross)
		return 1;
	put_span(&token, span_of(cross->token, sizeof(cross->token)));
	put_u64(&token, cross->ends_ms);
	resp_request_add(out, span_of(bytes, sizeof(bytes)));
	for (uint32_t i = 0; i < admit->claim_count; i++) {
		resp_request_add(out, buf_span(&cross->stored[i]));
		resp_request_add(out, buf_span(&cross->aside_stored[i]));
	}
	return 2 + 2 * admit->claim_count;
}

/* ---- cells ---- */

static void put_expiry(struct head *head, const struct store_cell_value *cell)
{
	put_u8(head, cell->keep_expiry ? 2 : cell->expiry_ms ? 1 : 0);
	put_number(head, cell->expiry_ms ? cell->expiry_ms : cell->ttl_ms);
}

static void put_cell(struct head *head, const struct store_cell *cell)
{
	put_u8(head, 'C');
	put_u8(head, (unsigned)cell->act);
	put_u8(head, (unsigned)cell->when);
	put_u8(head, cell->want_value);
	put_expiry(head, &cell->cell);
	put_key(head, &cell->cell.digest);
	put_number(head, cell->cell.wall_ms);
}

/* Behind the head: what a put stores. An outcome's answer has its key and expiry before it. */
static uint32_t add_stored(const struct store_cell_value *cell, bool with_key, struct buf *out)
{
	char bytes[32];
	struct head head = { bytes };

	if (with_key) {
		put_key(&head, &cell->digest);
		put_expiry(&head, cell);
	}
	put_u32(&head, (uint32_t)cell->name.len);
	struct span parts[] = { span_of(bytes, (size_t)(head.at - bytes)), cell->name,
		                cell->value };
	resp_request_add_parts(out, parts, ARRAY_LEN(parts));
	return 1;
}

/* ---- tickets ---- */

/* The answer of an outcome goes with it. */
static bool has_answer(const struct redis_store *redis, const struct store_settle *settle)
{
	return settle->answer && !redis_answer_is_elsewhere(redis, &settle->op);
}

static void put_settle(struct head *head, const struct store_settle *settle, bool answers)
{
	put_u8(head, 'S');
	put_u64(head, settle->ticket);
	put_u32(head, settle->attempt);
	put_u8(head, (unsigned)settle->outcome);
	put_u8(head, (settle->forget ? 1u : 0u) | (answers ? 2u : 0u));
	put_u16(head, settle->status);
	put_number(head, settle->due_ms);
	put_span(head, store_text_cut(settle->text));
}

static void put_note(struct head *head, const struct store_note *note)
{
	put_u8(head, 'N');
	put_u64(head, note->ticket);
	put_u32(head, note->attempt);
	put_u8(head, (unsigned)note->mark);
	put_u16(head, note->status);
	put_number(head, note->due_ms);
	put_span(head, store_text_cut(note->text));
}

static void put_lease(struct head *head, const struct redis_store *redis, uint32_t lease_ms)
{
	put_u64(head, lease_ms == 0 && !redis->fake_clock ? REDIS_LEASE_MS : lease_ms);
}

static void put_take(struct head *head, const struct redis_store *redis,
                     const struct store_take *take)
{
	if (take->ticket) {
		put_u8(head, 'U');
		put_u64(head, take->ticket);
		put_u32(head, take->sink);
	} else {
		put_u8(head, 'T');
		put_u32(head, take->sink);
		put_u32(head, take->max_items);
		put_u32(head, take->max_bytes);
	}
	put_lease(head, redis, take->lease_ms);
	put_u8(head, take->without_payload);
}

static void put_renew(struct head *head, const struct redis_store *redis,
                      const struct store_renew *renew)
{
	put_u8(head, 'E');
	put_u64(head, renew->ticket);
	put_u32(head, renew->attempt);
	put_lease(head, redis, renew->lease_ms);
	put_number(head, renew->until_ms);
}

static void put_scan(struct head *head, const struct store_scan *scan)
{
	put_u8(head, 'F');
	put_number(head, scan->cursor.word[0] > scan->from ? scan->cursor.word[0] : scan->from);
	put_number(head, scan->to ? scan->to : UINT64_MAX);
	put_u32(head, scan->states);
	put_u32(head, scan->sink);
	put_u32(head, scan->max_items);
	put_u32(head, scan->max_bytes);
	put_u8(head, scan->with_payload);
}

/* An opcode, a ticket and bits. */
static void put_bits(struct head *head, char opcode, uint64_t ticket, unsigned bits)
{
	put_u8(head, (unsigned char)opcode);
	put_u64(head, ticket);
	put_u8(head, bits);
}

/* ---- all ---- */

static void put_op(struct head *head, const struct redis_store *redis,
                   const struct redis_part *part)
{
	struct store_op *op = part->op;

	if (op->kind == (enum store_op_kind)REDIS_OP_ASK) {
		put_u8(head, 'W');
		put_u64(head, container_of(op, struct redis_wait, ask)->ticket);
		return;
	}
	switch (op->kind) {
	case STORE_ADMIT:
		put_u8(head, 'A');
		put_admit(head, container_of(op, struct store_admit, op), part->cross);
		return;
	case STORE_SETTLE: {
		const struct store_settle *settle = container_of(op, struct store_settle, op);
		put_settle(head, settle, has_answer(redis, settle));
		return;
	}
	case STORE_TAKE: put_take(head, redis, container_of(op, struct store_take, op)); return;
	case STORE_LOOKUP: {
		const struct store_lookup *lookup = container_of(op, struct store_lookup, op);
		put_u8(head, 'L');
		put_u8(head, (unsigned)lookup->kind);
		put_key(head, &lookup->digest);
		return;
	}
	case STORE_RELEASE: {
		const struct store_release *release = container_of(op, struct store_release, op);
		put_bits(head, 'R', release->ticket,
		         (release->drop ? 1u : 0u) | (release->whole_event ? 2u : 0u) |
		                 store_release_states(release) << 1);
		return;
	}
	case STORE_NOTE: put_note(head, container_of(op, struct store_note, op)); return;
	case STORE_READ: {
		const struct store_read *read = container_of(op, struct store_read, op);
		put_bits(head, 'G', read->ticket, read->history);
		return;
	}
	case STORE_SCAN: put_scan(head, container_of(op, struct store_scan, op)); return;
	case STORE_RENEW: put_renew(head, redis, container_of(op, struct store_renew, op)); return;
	case STORE_HELD: {
		const struct store_held *held = container_of(op, struct store_held, op);
		put_u8(head, 'H');
		put_number(head, held->before ? held->before : UINT64_MAX);
		put_u32(head, held->max);
		return;
	}
	case STORE_CELL: put_cell(head, container_of(op, struct store_cell, op)); return;
	case STORE_CELL_SCAN: {
		const struct store_cell_scan *scan = container_of(op, struct store_cell_scan, op);
		put_u8(head, 'K');
		put_u32(head, scan->max_names ? scan->max_names : 1);
		head->at += text_u64(head->at, scan->cursor.word[0]);
		return;
	}
	case STORE_WAIT: break;
	}
	CHECK(false); /* a wait stays with the owner */
}

/* What stands behind the head, see arguments_of() of the script; how many arguments. */
static uint32_t add_arguments(const struct redis_store *redis, const struct redis_part *part,
                              struct buf *out)
{
	const struct store_op *op = part->op;

	if (!op)
		return 0;
	if (op->kind == STORE_ADMIT)
		return add_event(container_of(op, const struct store_admit, op), part->cross, out);
	if (op->kind == STORE_SETTLE) {
		const struct store_settle *settle = container_of(op, const struct store_settle, op);
		if (part->kind == REDIS_PART_ANSWER)
			return add_stored(settle->answer, false, out);
		return has_answer(redis, settle) ? add_stored(settle->answer, true, out) : 0;
	}
	if (op->kind != STORE_CELL)
		return 0;
	const struct store_cell *cell = container_of(op, const struct store_cell, op);
	if (cell->act == STORE_CELL_PUT)
		return add_stored(&cell->cell, false, out);
	resp_request_add(out, SPAN_EMPTY);
	return 1;
}

uint32_t redis_encode(const struct redis_shard *shard, const struct redis_part *part,
                      struct buf *out)
{
	char bytes[HEAD_MAX];
	struct head head = { bytes };

	if (part->follows)
		return 0;
	if (part->only_decides)
		return encode_group(shard, part, out);
	switch (part->kind) {
	case REDIS_PART_OP:
	case REDIS_PART_TAKE:
	case REDIS_PART_GATHER:
	case REDIS_PART_DECIDE: put_op(&head, shard->redis, part); break;
	case REDIS_PART_SWEEP:
		put_u8(&head, 'X');
		put_number(&head, part->ticket);
		break;
	case REDIS_PART_ANSWER:
		put_cell(
			&head,
			&(struct store_cell){
				.act = STORE_CELL_PUT,
				.cell = *container_of(part->op, struct store_settle, op)->answer });
		break;
	case REDIS_PART_RENEW:
		put_renew(&head, shard->redis,
		          &(struct store_renew){ .ticket = part->ticket,
		                                 .attempt = part->attempt });
		break;
	case REDIS_PART_GIVE_BACK:
		put_u8(&head, 'B');
		put_u64(&head, part->ticket);
		put_u32(&head, part->attempt);
		break;
	case REDIS_PART_RESERVE:
	case REDIS_PART_CONFIRM: put_cross(&head, part); break;
	case REDIS_PART_FORGET:
		put_u8(&head, 'V');
		put_u64(&head, part->ticket);
		break;
	}
	CHECK(head.at > bytes && head.at <= bytes + sizeof(bytes));
	resp_request_add(out, span_of(bytes, (size_t)(head.at - bytes)));
	return 1 + add_arguments(shard->redis, part, out);
}

bool redis_part_writes(const struct redis_part *part)
{
	const struct store_op *op = part->op;

	if (part->kind != REDIS_PART_OP && part->kind != REDIS_PART_TAKE &&
	    part->kind != REDIS_PART_GATHER)
		return true;
	return op->kind == STORE_ADMIT || op->kind == STORE_SETTLE || op->kind == STORE_RELEASE ||
	       op->kind == STORE_NOTE || op->kind == STORE_RENEW || op->kind == STORE_CELL ||
	       (op->kind == STORE_TAKE && container_of(op, struct store_take, op)->ticket != 0);
}
