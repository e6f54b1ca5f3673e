/*
 * claims_answer: answers, as docs/claims.md describes them, and outcomes, which are the value
 * of a cell:
 *
 *   bytes  what, little-endian
 *   1      format: 1
 *   1      coding: enum claims_coding
 *   2      status
 *   4      attempt
 *   8      when it was settled: unix ms
 *   1      n, length of the content type
 *   n      content type
 *          body (the rest)
 */
#include <endian.h>
#include <string.h>

#include "base/error.h"
#include "codec/json_write.h"
#include "door/claims/claims_internal.h"
#include "gate/ticket.h"

#define NOT_NOW "the store cannot decide now; send the request again"

static const struct span retry_after = { "Retry-After: 1\r\n", 16 };

/* ---- outcomes ---- */

#define FORMAT 1

struct head {
	uint8_t format;
	uint8_t coding;
	uint16_t status;
	uint32_t attempt;
	uint64_t settled_ms;
};

_Static_assert(sizeof(struct head) == 16, "as in the table above");

int claims_outcome_write(const struct claims_outcome *outcome, struct buf *out)
{
	struct head head = { .format = FORMAT,
		             .coding = (uint8_t)outcome->coding,
		             .status = htole16(outcome->status),
		             .attempt = htole32(outcome->attempt),
		             .settled_ms = htole64(outcome->settled_ms) };

	CHECK(outcome->type.len <= CLAIMS_TYPE_MAX);
	buf_append(out, &head, sizeof(head));
	buf_append_char(out, (char)outcome->type.len);
	buf_append_span(out, outcome->type);
	buf_append_span(out, outcome->body);
	return out->failed;
}

bool claims_outcome_read(struct span bytes, struct claims_outcome *ret_outcome)
{
	struct head head;

	if (!bytes.ptr || bytes.len <= sizeof(head))
		return false;
	memcpy(&head, bytes.ptr, sizeof(head));
	struct span rest = span_of(bytes.ptr + sizeof(head), bytes.len - sizeof(head));
	size_t type_len = (unsigned char)rest.ptr[0];
	rest = span_skip(rest, 1);
	if (head.format != FORMAT || head.coding > CLAIMS_BYTES || rest.len < type_len)
		return false;
	*ret_outcome = (struct claims_outcome){ .coding = (enum claims_coding)head.coding,
		                                .status = le16toh(head.status),
		                                .attempt = le32toh(head.attempt),
		                                .settled_ms = le64toh(head.settled_ms),
		                                .type = span_of(rest.ptr, type_len),
		                                .body = span_skip(rest, type_len) };
	return true;
}

bool claims_outcome_same(const struct claims_outcome *a, const struct claims_outcome *b)
{
	return a->coding == b->coding && a->status == b->status && span_eq(a->type, b->type) &&
	       span_eq(a->body, b->body);
}

/* As a text, whatever it is. */
static void outcome_add_text(struct buf *out, const char *name,
                             const struct claims_outcome *outcome)
{
	if (outcome->coding == CLAIMS_BYTES)
		json_add_base64(out, name, outcome->body);
	else
		json_add_text(out, name, outcome->body);
}

/* As JSON, with its own type. */
static void outcome_add(struct buf *out, const char *name, const struct claims_outcome *outcome)
{
	if (outcome->coding == CLAIMS_JSON)
		json_add_raw(out, name, outcome->body);
	else if (outcome->coding == CLAIMS_NO_OUTCOME)
		json_add_null(out, name);
	else
		outcome_add_text(out, name, outcome);
}

static const char *coding_name(enum claims_coding coding)
{
	static const char *const names[] = {
		[CLAIMS_NO_OUTCOME] = "none",
		[CLAIMS_JSON] = "json",
		[CLAIMS_TEXT] = "text",
		[CLAIMS_BYTES] = "base64",
	};

	CHECK((size_t)coding < ARRAY_LEN(names));
	return names[coding];
}

/* ---- members ---- */

static void add_time(struct buf *out, const char *name, uint64_t unix_ms)
{
	if (unix_ms)
		json_add_time(out, name, unix_ms);
	else
		json_add_text(out, name, SPAN_EMPTY);
}

static void add_ticket(struct buf *out, const char *name, uint64_t ticket)
{
	if (ticket)
		ticket_add(out, name, ticket);
	else
		json_add_text(out, name, SPAN_EMPTY);
}

/* ---- claims ---- */

static void put_token(struct buf *out, const struct claims_item *item)
{
	char text[LEASE_TOKEN_LEN];
	/* By the store's clock, which made the ticket's number. */
	uint64_t end_s = ticket_time_ms(item->ticket) / 1000 + item->window_s;

	lease_token_write(&item->it->claims->token_key,
	                  &(struct lease_token){ .ticket = item->ticket,
	                                         .attempt = item->attempt,
	                                         .expiry_s = end_s < UINT32_MAX ? (uint32_t)end_s
	                                                                        : UINT32_MAX },
	                  text);
	json_add_text(out, "token", span_of(text, LEASE_TOKEN_LEN));
}

static void put_outcome(struct buf *out, const struct claims_item *item)
{
	static const struct claims_outcome none = { .coding = CLAIMS_NO_OUTCOME };
	const struct claims_outcome *outcome = item->has_outcome ? &item->outcome : &none;

	outcome_add(out, "outcome", outcome);
	json_add_string(out, "outcome_coding", coding_name(outcome->coding));
	json_add_text(out, "outcome_type", outcome->type);
	json_add_u64(out, "outcome_status", outcome->status);
	add_time(out, "settled", outcome->settled_ms);
}

static const char *state_name(enum store_state state)
{
	switch (state) {
	case STORE_STATE_DUE: return "due";
	case STORE_STATE_LEASED: return "leased";
	case STORE_STATE_HELD: return "held";
	case STORE_STATE_PARKED: return "parked";
	case STORE_STATE_DEAD: return "dead";
	case STORE_STATE_CLOSED: break;
	}
	return "done";
}

static void put_verdict(struct buf *out, const struct claims_item *item)
{
	json_object_begin(out, NULL);
	json_add_string(out, "verdict", verdict_name(item->verdict));
	add_ticket(out, "ticket", item->ticket);
	add_time(out, "first_seen", item->admit.first_seen_ms);
	switch (item->verdict) {
	case VERDICT_NEW:
		put_token(out, item);
		json_add_u64(out, "attempt", item->attempt);
		json_add_u64(out, "lease_ms", item->lease_ms);
		add_time(out, "lease_until", item->lease_until_ms);
		break;
	case VERDICT_DUPLICATE:
		json_add_u64(out, "seen", item->admit.seen);
		json_add_string(out, "state", state_name(item->state));
		put_outcome(out, item);
		break;
	case VERDICT_BUSY:
		json_add_u64(out, "seen", item->admit.seen);
		json_add_u64(out, "attempt", item->attempt);
		json_add_u64(out, "retry_after_ms", item->retry_ms);
		add_time(out, "lease_until", item->lease_until_ms);
		break;
	default: break;
	}
	json_object_end(out);
}

static void count(const struct claims_item *item)
{
	struct source_meters *meters = item->meters;
	uint32_t thread = item->it->claims->options.thread;

	if (item->status != 0)
		meter_add(&item->it->rules.meters[thread].refused, 1);
	else if (item->error == ERR_TOO_LARGE)
		meter_add(&meters->refused, 1);
	else if (item->error != 0)
		meter_add(&meters->overload, 1);
	else
		meter_add(&meters->verdicts[item->verdict], 1);
}

static void respond(struct claims_request *it, uint16_t status, struct span headers,
                    struct buf *body)
{
	buf_append_char(body, '\n');
	if (body->failed)
		claims_respond_problem(it, 503, "unavailable", NOT_NOW, retry_after);
	else
		claims_respond(it,
		               &(struct http_response){ .status = status,
		                                        .content_type = SPAN("application/json"),
		                                        .headers = headers,
		                                        .body = buf_span(body) });
	buf_free(body);
}

static void respond_error(struct claims_request *it, int error)
{
	if (error == ERR_TOO_LARGE)
		claims_respond_problem(it, 413, "too_large",
		                       "the claim is too large for one journal frame", SPAN_EMPTY);
	else
		claims_respond_problem(it, 503, "unavailable", NOT_NOW, retry_after);
}

static void put_refused(struct buf *out, uint16_t status, struct span problem)
{
	json_object_begin(out, NULL);
	json_add_text(out, "error", problem);
	json_add_u64(out, "status", status);
	json_object_end(out);
}

static void put_item(struct buf *out, const struct claims_item *item)
{
	if (item->status != 0)
		put_refused(out, item->status, item->problem);
	else if (item->error == ERR_TOO_LARGE)
		put_refused(out, 413, SPAN("the claim is too large for one journal frame"));
	else if (item->error != 0)
		put_refused(out, 503, SPAN(NOT_NOW));
	else
		put_verdict(out, item);
}

/* Each claim has its own answer: one that was granted must not be lost for another's error. */
static void answer_batch(struct claims_request *it)
{
	uint64_t verdicts[VERDICT_COUNT] = { 0 }, refused = 0;
	struct buf body = { 0 };

	for (uint32_t i = 0; i < it->count; i++) {
		const struct claims_item *item = &it->items[i];
		bool decided = item->status == 0 && item->error == 0;
		refused += !decided;
		if (decided)
			verdicts[item->verdict]++;
	}
	json_object_begin(&body, NULL);
	for (int i = VERDICT_NEW; i < VERDICT_COUNT; i++)
		json_add_u64(&body, verdict_name((enum verdict)i), verdicts[i]);
	json_add_u64(&body, "refused", refused);
	json_array_begin(&body, "claims");
	for (uint32_t i = 0; i < it->count; i++)
		put_item(&body, &it->items[i]);
	json_array_end(&body);
	json_object_end(&body);
	respond(it, 200, SPAN_EMPTY, &body);
}

void claims_answer_claims(struct claims_request *it)
{
	char bytes[256];
	struct buf headers = buf_on(bytes, sizeof(bytes)), body = { 0 };
	const struct claims_item *item = it->items;

	for (uint32_t i = 0; i < it->count; i++)
		count(&it->items[i]);
	if (it->batch) {
		answer_batch(it);
	} else if (item->error != 0) {
		respond_error(it, item->error);
	} else {
		char ticket[TICKET_TEXT_LEN];
		ticket_text(item->ticket, ticket);
		buf_printf(&headers, "Stile-Verdict: %s\r\nStile-Ticket: %.*s\r\n",
		           verdict_name(item->verdict), TICKET_TEXT_LEN, ticket);
		if (item->verdict == VERDICT_BUSY)
			buf_printf(&headers, "Retry-After: %llu\r\n",
			           (unsigned long long)(item->retry_ms + 999) / 1000);
		put_verdict(&body, item);
		uint16_t status = item->verdict == VERDICT_NEW        ? 201
		                  : item->verdict == VERDICT_BUSY     ? 409
		                  : item->verdict == VERDICT_CONFLICT ? 422
		                                                      : 200;
		respond(it, status, buf_span(&headers), &body);
	}
}

/* ---- tokens ---- */

#define FENCED                                                                  \
	"your lease of this claim has ended: it was settled or given back, or " \
	"another caller may have it; do not act on it, claim it again"
#define SETTLED "this token already settled its claim with another outcome"

static void put_done(struct buf *out, const struct claims_item *item)
{
	json_object_begin(out, NULL);
	json_add_string(out, "state",
	                item->it->act == CLAIMS_SETTLE  ? "settled"
	                : item->it->act == CLAIMS_RENEW ? "renewed"
	                                                : "released");
	add_ticket(out, "ticket", item->ticket);
	json_add_u64(out, "attempt", item->attempt);
	if (item->it->act == CLAIMS_SETTLE)
		json_add_bool(out, "repeated", item->repeated);
	if (item->it->act == CLAIMS_RENEW) {
		json_add_u64(out, "lease_ms", item->lease_ms);
		add_time(out, "lease_until", item->lease_until_ms);
	}
	json_object_end(out);
}

void claims_answer_settle(struct claims_request *it)
{
	const struct claims_item *item = it->items;
	struct buf body = { 0 };

	if (item->error == ERR_FENCED && item->has_outcome) {
		claims_respond_problem(it, 409, "settled", SETTLED, SPAN_EMPTY);
	} else if (item->error == ERR_FENCED) {
		claims_respond_problem(it, 409, "fenced", FENCED, SPAN_EMPTY);
	} else if (item->error != 0) {
		respond_error(it, item->error);
	} else {
		put_done(&body, item);
		respond(it, 200, SPAN_EMPTY, &body);
	}
}

/* ---- the flat lookup ---- */

static uint64_t since_s(uint64_t from_ms, uint64_t to_ms)
{
	return to_ms > from_ms ? (to_ms - from_ms) / 1000 : 0;
}

/* Every member, always, and always of the same type. */
static void put_lookup(struct buf *out, const struct claims_item *item)
{
	static const struct claims_outcome none = { .coding = CLAIMS_NO_OUTCOME };
	const struct claims_outcome *outcome = item->has_outcome ? &item->outcome : &none;

	json_object_begin(out, NULL);
	json_add_bool(out, "found", item->found);
	json_add_string(out, "state", item->found ? state_name(item->state) : "none");
	add_ticket(out, "ticket", item->ticket);
	add_time(out, "first_seen", item->admit.first_seen_ms);
	json_add_u64(out, "age_s",
	             item->found ? since_s(item->admit.first_seen_ms, item->now_ms) : 0);
	json_add_u64(out, "seen", item->admit.seen);
	json_add_u64(out, "attempt", item->attempt);
	add_time(out, "lease_until", item->lease_until_ms);
	json_add_u64(out, "lease_left_s", since_s(item->now_ms, item->lease_until_ms));
	json_add_bool(out, "has_outcome", item->has_outcome);
	outcome_add_text(out, "outcome", outcome);
	json_add_string(out, "outcome_coding", coding_name(outcome->coding));
	json_add_text(out, "outcome_type", outcome->type);
	json_add_u64(out, "outcome_status", outcome->status);
	add_time(out, "settled", outcome->settled_ms);
	json_object_end(out);
}

void claims_answer_lookup(struct claims_request *it)
{
	const struct claims_item *item = it->items;
	struct buf body = { 0 };

	if (item->error != 0) {
		respond_error(it, item->error);
		return;
	}
	put_lookup(&body, item);
	respond(it, 200, SPAN("Cache-Control: no-store\r\n"), &body);
}
