/* redis_encode: operations as arguments of redis_script.lua, which says what each holds. */
#include "base/text.h"
#include "codec/resp_reply.h"
#include "store/redis/redis_internal.h"

#define NUMBER_MAX ((UINT64_C(1) << 53) - 1) /* that the script can count with */
#define CLAIM_LEN 42u
#define LEG_LEN 12u
#define HEAD_MAX (20u + CLAIMS_MAX * (CLAIM_LEN + 1) + STORE_LEGS_MAX * LEG_LEN + STORE_TEXT_MAX)

/* A head in the making, on memory of the caller. */
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

static void add(struct buf *out, const char *bytes, const struct head *head)
{
	resp_request_add(out, span_of(bytes, (size_t)(head->at - bytes)));
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

/* What the other shards said. */
static uint32_t add_span(const struct redis_span *span, struct buf *out)
{
	char bytes[16];
	struct head head = { bytes };

	put_span(&head, span_of(span->token, sizeof(span->token)));
	put_u64(&head, span->ends_ms);
	add(out, bytes, &head);
	for (uint32_t i = 0; i < span->admit->claim_count; i++) {
		resp_request_add(out, buf_span(&span->met[i]));
		resp_request_add(out, buf_span(&span->aside_met[i]));
	}
	return 1 + 2 * span->admit->claim_count;
}

/* The claims of one shard, before its home decides or after. */
static uint32_t encode_span(const struct redis_span *span, char letter, uint32_t shard,
                            struct buf *out)
{
	char bytes[HEAD_MAX];
	struct head head = { bytes };

	put_u8(&head, (unsigned char)letter);
	put_span(&head, span_of(span->token, sizeof(span->token)));
	if (letter == 'P')
		put_u32(&head, REDIS_SPAN_LEASE_MS);
	else
		put_u64(&head, span->ticket);
	char *count = head.at;
	put_u8(&head, 0);
	for (uint32_t i = 0; i < span->admit->claim_count; i++) {
		if (span->shards[i] != shard)
			continue;
		if (letter == 'Q')
			put_u8(&head, span->acts[i]);
		put_claim(&head, &span->admit->claims[i], false);
		++*count;
	}
	add(out, bytes, &head);
	return 1;
}

static void put_admit(struct head *head, const struct store_admit *admit,
                      const struct redis_span *span)
{
	put_u8(head,
	       (admit->no_ticket ? 1u : 0u) | (admit->busy_if_open ? 2u : 0u) | (span ? 4u : 0u));
	put_u8(head, (unsigned)admit->on_conflict);
	put_u8(head, admit->claim_count);
	put_u8(head, admit->leg_count);
	put_u32(head, admit->lease_ms);
	for (uint32_t i = 0; i < admit->claim_count; i++)
		put_claim(head, &admit->claims[i], span && span->shards[i] != span->home);
	for (uint32_t i = 0; i < admit->leg_count; i++) {
		put_u32(head, admit->legs[i].sink);
		put_u64(head, admit->legs[i].order);
	}
}

size_t redis_admit_head_len(const struct store_admit *admit)
{
	return 8u + (size_t)admit->claim_count * CLAIM_LEN + (size_t)admit->leg_count * LEG_LEN;
}

void redis_encode_admit_head(const struct store_admit *admit, struct buf *out)
{
	char bytes[HEAD_MAX];
	struct head head = { bytes };

	put_admit(&head, admit, NULL);
	CHECK((size_t)(head.at - bytes) == redis_admit_head_len(admit));
	buf_append(out, bytes, (size_t)(head.at - bytes));
}

static void add_key(const struct redis_shard *shard, struct span letters,
                    const struct digest *digest, struct buf *out)
{
	char key[12];
	struct head head = { key };

	put_key(&head, digest);
	struct span parts[] = { span_str(shard->place), letters, span_of(key, sizeof(key)) };
	resp_request_add_parts(out, parts, ARRAY_LEN(parts));
}

uint32_t redis_encode_keys(const struct redis_shard *shard, const struct store_admit *admit,
                           struct buf *out)
{
	bool cluster = shard->redis->shard_count > 1;

	for (uint32_t i = 0; i < admit->claim_count; i++) {
		const struct claim *claim = &admit->claims[i];
		char reserved[2] = { 'q', (char)('0' + claim->kind) };
		add_key(shard, claim->kind == CLAIM_NEWEST ? SPAN("n") : SPAN("c"), &claim->digest,
		        out);
		if (cluster)
			add_key(shard, span_of(reserved, sizeof(reserved)), &claim->digest, out);
	}
	return admit->claim_count * (cluster ? 2u : 1u);
}

static void put_body(struct head *head, const struct store_admit *admit)
{
	put_u16(head, admit->flags);
	put_u8(head, (unsigned)admit->source.len);
	put_u16(head, (uint16_t)admit->letter.len);
}

void redis_encode_body(const struct store_admit *admit, struct buf *out)
{
	char bytes[REDIS_BODY_HEAD_LEN];
	struct head head = { bytes };

	put_body(&head, admit);
	buf_append(out, bytes, sizeof(bytes));
	buf_append_span(out, admit->source);
	buf_append_span(out, admit->letter);
	buf_append_span(out, admit->payload);
}

static uint32_t encode_admit(const struct store_admit *admit, const struct redis_span *span,
                             struct buf *out)
{
	char bytes[HEAD_MAX], event[REDIS_BODY_HEAD_LEN];
	struct head head = { bytes }, body = { event };

	put_u8(&head, 'A');
	put_admit(&head, admit, span);
	add(out, bytes, &head);
	put_body(&body, admit);
	struct span parts[] = { span_of(event, sizeof(event)), admit->source, admit->letter,
		                admit->payload };
	resp_request_add_parts(out, parts, admit->no_ticket ? 0 : ARRAY_LEN(parts));
	return 2 + (span ? add_span(span, out) : 0);
}

static uint32_t encode_lookup(const struct store_lookup *lookup, struct buf *out)
{
	char bytes[16];
	struct head head = { bytes };

	put_u8(&head, 'L');
	put_u8(&head, (unsigned)lookup->kind);
	put_key(&head, &lookup->digest);
	add(out, bytes, &head);
	return 1;
}

/* ---- cells ---- */

static void put_expiry(struct head *head, const struct store_cell_value *cell)
{
	put_u8(head, cell->keep_expiry ? 2 : cell->expiry_ms ? 1 : 0);
	put_number(head, cell->expiry_ms ? cell->expiry_ms : cell->ttl_ms);
}

static void add_stored(const struct store_cell_value *cell, struct buf *out)
{
	char len[4];
	struct head head = { len };

	put_u32(&head, (uint32_t)cell->name.len);
	struct span parts[] = { span_of(len, sizeof(len)), cell->name, cell->value };
	resp_request_add_parts(out, parts, ARRAY_LEN(parts));
}

static uint32_t encode_cell(const struct store_cell *cell, struct buf *out)
{
	char bytes[40];
	struct head head = { bytes };

	put_u8(&head, 'C');
	put_u8(&head, (unsigned)cell->act);
	put_u8(&head, (unsigned)cell->when);
	put_u8(&head, cell->want_value);
	put_expiry(&head, &cell->cell);
	put_key(&head, &cell->cell.digest);
	put_number(&head, cell->cell.wall_ms);
	add(out, bytes, &head);
	if (cell->act == STORE_CELL_PUT)
		add_stored(&cell->cell, out);
	else
		resp_request_add(out, SPAN_EMPTY);
	return 2;
}

static void add_answer(const struct store_cell_value *answer, struct buf *out)
{
	char bytes[32];
	struct head head = { bytes };

	put_key(&head, &answer->digest);
	put_expiry(&head, answer);
	put_u32(&head, (uint32_t)answer->name.len);
	struct span parts[] = { span_of(bytes, (size_t)(head.at - bytes)), answer->name,
		                answer->value };
	resp_request_add_parts(out, parts, ARRAY_LEN(parts));
}

static uint32_t encode_cell_scan(const struct store_cell_scan *scan, struct buf *out)
{
	char bytes[8 + TEXT_U64_MAX];
	struct head head = { bytes };

	put_u8(&head, 'K');
	put_u32(&head, scan->max_names ? scan->max_names : 1);
	head.at += text_u64(head.at, scan->cursor.word[0]);
	add(out, bytes, &head);
	return 1;
}

/* ---- tickets ---- */

static uint32_t encode_settle(const struct store_settle *settle, bool answers, struct buf *out)
{
	char bytes[HEAD_MAX];
	struct head head = { bytes };

	put_u8(&head, 'S');
	put_u64(&head, settle->ticket);
	put_u32(&head, settle->attempt);
	put_u8(&head, (unsigned)settle->outcome);
	put_u8(&head, (settle->forget ? 1u : 0u) | (answers ? 2u : 0u));
	put_u16(&head, settle->status);
	put_number(&head, settle->due_ms);
	put_span(&head, store_text_cut(settle->text));
	add(out, bytes, &head);
	if (!answers)
		return 1;
	add_answer(settle->answer, out);
	return 2;
}

static uint32_t encode_note(const struct store_note *note, struct buf *out)
{
	char bytes[HEAD_MAX];
	struct head head = { bytes };

	put_u8(&head, 'N');
	put_u64(&head, note->ticket);
	put_u32(&head, note->attempt);
	put_u8(&head, (unsigned)note->mark);
	put_u16(&head, note->status);
	put_number(&head, note->due_ms);
	put_span(&head, store_text_cut(note->text));
	add(out, bytes, &head);
	return 1;
}

uint64_t redis_lease_ms(const struct redis_store *redis, uint32_t lease_ms)
{
	return lease_ms == 0 && !redis->fake_clock ? REDIS_LEASE_MS : lease_ms;
}

static uint32_t encode_take(const struct redis_store *redis, const struct redis_part *part,
                            struct buf *out)
{
	const struct store_take *take = container_of(part->op, struct store_take, op);
	char bytes[32];
	struct head head = { bytes };

	if (take->ticket) {
		put_u8(&head, 'U');
		put_u64(&head, take->ticket);
		put_u32(&head, take->sink);
	} else {
		put_u8(&head, 'T');
		put_u32(&head, take->sink);
		put_u32(&head, take->max_items);
		put_u32(&head, take->max_bytes);
	}
	put_u64(&head, redis_lease_ms(redis, take->lease_ms));
	put_u8(&head, take->without_payload);
	put_u8(&head, part->offer);
	add(out, bytes, &head);
	return 1;
}

static uint32_t encode_scan(const struct store_scan *scan, struct buf *out)
{
	char bytes[64];
	struct head head = { bytes };
	uint64_t from = scan->cursor.word[0] > scan->from ? scan->cursor.word[0] : scan->from;

	put_u8(&head, 'F');
	put_number(&head, from);
	put_number(&head, scan->to ? scan->to : UINT64_MAX);
	put_u32(&head, scan->states);
	put_u32(&head, scan->sink);
	put_u32(&head, scan->max_items);
	put_u32(&head, scan->max_bytes);
	put_u8(&head, scan->with_payload);
	add(out, bytes, &head);
	return 1;
}

static uint32_t encode_held(const struct store_held *held, struct buf *out)
{
	char bytes[16];
	struct head head = { bytes };

	put_u8(&head, 'H');
	put_number(&head, held->before ? held->before : UINT64_MAX);
	put_u32(&head, held->max);
	add(out, bytes, &head);
	return 1;
}

/* A letter, a ticket, then up to two numbers. */
static uint32_t encode_small(char letter, uint64_t ticket, const uint32_t *attempt,
                             const uint64_t *number, struct buf *out)
{
	char bytes[32];
	struct head head = { bytes };

	put_u8(&head, (unsigned char)letter);
	put_u64(&head, ticket);
	if (attempt)
		put_u32(&head, *attempt);
	if (number)
		put_u64(&head, *number);
	add(out, bytes, &head);
	return 1;
}

static uint32_t encode_bits(char letter, uint64_t ticket, unsigned bits, struct buf *out)
{
	char bytes[16];
	struct head head = { bytes };

	put_u8(&head, (unsigned char)letter);
	put_u64(&head, ticket);
	put_u8(&head, bits);
	add(out, bytes, &head);
	return 1;
}

static uint32_t encode_renew(const struct redis_store *redis, const struct store_renew *renew,
                             struct buf *out)
{
	char bytes[32];
	struct head head = { bytes };

	put_u8(&head, 'E');
	put_u64(&head, renew->ticket);
	put_u32(&head, renew->attempt);
	put_u64(&head, redis_lease_ms(redis, renew->lease_ms));
	put_number(&head, renew->until_ms);
	add(out, bytes, &head);
	return 1;
}

static uint32_t encode_own(const struct redis_store *redis, const struct redis_part *part,
                           struct buf *out)
{
	switch (part->letter) {
	case 'E':
		return encode_renew(redis,
		                    &(struct store_renew){ .ticket = part->ticket,
		                                           .attempt = part->attempt },
		                    out);
	case 'B': return encode_small('B', part->ticket, &part->attempt, NULL, out);
	case 'P':
	case 'Q': return encode_span(part->span, part->letter, part->attempt, out);
	case 'V': return encode_small('V', part->ticket, NULL, NULL, out);
	case 'C': {
		const struct store_settle *settle = container_of(part->op, struct store_settle, op);
		struct store_cell cell = { .act = STORE_CELL_PUT, .cell = *settle->answer };
		return encode_cell(&cell, out);
	}
	default: break;
	}
	CHECK(part->letter == 'X');
	return encode_small('X', part->ticket < NUMBER_MAX ? part->ticket : NUMBER_MAX, NULL, NULL,
	                    out);
}

static uint32_t encode_release(const struct store_release *release, struct buf *out)
{
	unsigned bits = (release->drop ? 1u : 0u) | (release->whole_event ? 2u : 0u) |
	                store_release_states(release) << 1;

	return encode_bits('R', release->ticket, bits, out);
}

uint32_t redis_encode(const struct redis_shard *shard, const struct redis_part *part,
                      struct buf *out)
{
	const struct redis_store *redis = shard->redis;
	const struct store_op *op = part->op;

	if (part->letter)
		return encode_own(redis, part, out);
	if (redis_part_is_grouped(part))
		return redis_encode_group(shard, part, out);
	if (op->kind == (enum store_op_kind)REDIS_OP_ASK)
		return encode_small('W', container_of(op, struct redis_wait, ask)->ticket, NULL,
		                    NULL, out);
	switch (op->kind) {
	case STORE_ADMIT:
		return encode_admit(container_of(op, struct store_admit, op), part->span, out);
	case STORE_SETTLE: {
		const struct store_settle *settle = container_of(op, struct store_settle, op);
		bool answers = settle->answer && !redis_answer_is_elsewhere(redis, op);
		return encode_settle(settle, answers, out);
	}
	case STORE_TAKE: return encode_take(redis, part, out);
	case STORE_LOOKUP: return encode_lookup(container_of(op, struct store_lookup, op), out);
	case STORE_RELEASE: return encode_release(container_of(op, struct store_release, op), out);
	case STORE_NOTE: return encode_note(container_of(op, struct store_note, op), out);
	case STORE_READ: {
		const struct store_read *read = container_of(op, struct store_read, op);
		return encode_bits('G', read->ticket, read->history, out);
	}
	case STORE_SCAN: return encode_scan(container_of(op, struct store_scan, op), out);
	case STORE_RENEW: return encode_renew(redis, container_of(op, struct store_renew, op), out);
	case STORE_HELD: return encode_held(container_of(op, struct store_held, op), out);
	case STORE_CELL: return encode_cell(container_of(op, struct store_cell, op), out);
	case STORE_CELL_SCAN:
		return encode_cell_scan(container_of(op, struct store_cell_scan, op), out);
	case STORE_WAIT: break;
	}
	CHECK(false); /* only what goes to the script comes here */
	return 0;
}

bool redis_part_writes(const struct redis_part *part)
{
	const struct store_op *op = part->op;

	if (part->letter)
		return true;
	return op->kind == STORE_ADMIT || op->kind == STORE_SETTLE || op->kind == STORE_RELEASE ||
	       op->kind == STORE_NOTE || op->kind == STORE_RENEW || op->kind == STORE_CELL ||
	       (op->kind == STORE_TAKE && container_of(op, struct store_take, op)->ticket != 0);
}
