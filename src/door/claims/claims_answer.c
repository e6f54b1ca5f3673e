/* claims_answer: what callers are told. docs/claims.md has it as users see it. */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "door/claims/claims_internal.h"
#include "gate/ticket.h"

#define NOT_NOW "the store cannot decide now; send it again"

static const struct span retry_after = { "Retry-After: 1\r\n", 16 };

void claims_put_time(struct buf *out, const char *name, uint64_t unix_ms)
{
	char text[TEXT_TIME_LEN];

	text_time(text, unix_ms);
	buf_printf(out, ",\"%s\":\"%.*s\"", name, unix_ms ? TEXT_TIME_LEN : 0, text);
}

void claims_put_ticket(struct buf *out, const char *name, uint64_t ticket)
{
	char text[TICKET_TEXT_LEN];

	ticket_text(ticket, text);
	buf_printf(out, ",\"%s\":\"%.*s\"", name, ticket ? TICKET_TEXT_LEN : 0, text);
}

static void put_number(struct buf *out, const char *name, uint64_t number)
{
	buf_printf(out, ",\"%s\":%llu", name, (unsigned long long)number);
}

/* ---- claims ---- */

/* By the store's clock, of which the ticket's number tells. */
static uint32_t expiry_s(const struct claims_item *item)
{
	uint64_t end_s = ticket_time_ms(item->ticket) / 1000 + item->window_s;

	return end_s < UINT32_MAX ? (uint32_t)end_s : UINT32_MAX;
}

static void put_token(struct buf *out, const struct claims_item *item)
{
	char text[LEASE_TOKEN_LEN];

	lease_token_write(&item->it->claims->token_key,
	                  &(struct lease_token){ .ticket = item->ticket,
	                                         .attempt = item->attempt,
	                                         .expiry_s = expiry_s(item) },
	                  text);
	buf_printf(out, ",\"token\":\"%.*s\"", LEASE_TOKEN_LEN, text);
}

static void put_outcome(struct buf *out, const struct claims_item *item)
{
	static const struct claims_outcome none = { .coding = CLAIMS_NO_OUTCOME };
	const struct claims_outcome *outcome = item->has_outcome ? &item->outcome : &none;

	buf_append_span(out, SPAN(",\"outcome\":"));
	claims_outcome_put(outcome, out);
	buf_printf(out, ",\"outcome_coding\":\"%s\",\"outcome_type\":",
	           claims_coding_name(outcome->coding));
	buf_append_json(out, outcome->type);
	put_number(out, "outcome_status", outcome->status);
	claims_put_time(out, "settled", outcome->settled_ms);
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
	buf_printf(out, "{\"verdict\":\"%s\"", verdict_name(item->verdict));
	claims_put_ticket(out, "ticket", item->ticket);
	claims_put_time(out, "first_seen", item->admit.first_seen_ms);
	switch (item->verdict) {
	case VERDICT_NEW:
		put_token(out, item);
		put_number(out, "attempt", item->attempt);
		put_number(out, "lease_ms", item->lease_ms);
		claims_put_time(out, "lease_until", item->lease_until_ms);
		break;
	case VERDICT_DUPLICATE:
		put_number(out, "seen", item->admit.seen);
		buf_printf(out, ",\"state\":\"%s\"", state_name(item->state));
		put_outcome(out, item);
		break;
	case VERDICT_BUSY:
		put_number(out, "seen", item->admit.seen);
		put_number(out, "attempt", item->attempt);
		put_number(out, "retry_after_ms", item->retry_ms);
		claims_put_time(out, "lease_until", item->lease_until_ms);
		break;
	default: break;
	}
	buf_append_char(out, '}');
}

static uint16_t status_of(const struct claims_item *item)
{
	switch (item->verdict) {
	case VERDICT_NEW: return 201;
	case VERDICT_BUSY: return 409;
	case VERDICT_CONFLICT: return 422;
	default: return 200;
	}
}

static void put_headers(struct buf *out, const struct claims_item *item)
{
	char text[TICKET_TEXT_LEN];

	ticket_text(item->ticket, text);
	buf_printf(out, "Stile-Verdict: %s\r\nStile-Ticket: %.*s\r\n", verdict_name(item->verdict),
	           TICKET_TEXT_LEN, text);
	if (item->verdict == VERDICT_BUSY)
		buf_printf(out, "Retry-After: %llu\r\n",
		           (unsigned long long)(item->retry_ms + 999) / 1000);
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
		                       "it does not fit into one journal frame", SPAN_EMPTY);
	else
		claims_respond_problem(it, 503, "unavailable", NOT_NOW, retry_after);
}

static void put_refused(struct buf *out, uint16_t status, struct span problem)
{
	buf_append_span(out, SPAN("{\"error\":"));
	buf_append_json(out, problem);
	buf_printf(out, ",\"status\":%u}", status);
}

static void put_item(struct buf *out, const struct claims_item *item)
{
	if (item->status != 0)
		put_refused(out, item->status, item->problem);
	else if (item->error == ERR_TOO_LARGE)
		put_refused(out, 413, SPAN("it does not fit into one journal frame"));
	else if (item->error != 0)
		put_refused(out, 503, SPAN(NOT_NOW));
	else
		put_verdict(out, item);
}

/* Each has its own answer: what one was given must not be lost for another's sake. */
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
	buf_append_char(&body, '{');
	for (int i = VERDICT_NEW; i < VERDICT_COUNT; i++)
		buf_printf(&body, "\"%s\":%llu,", verdict_name((enum verdict)i),
		           (unsigned long long)verdicts[i]);
	buf_printf(&body, "\"refused\":%llu,\"claims\":[", (unsigned long long)refused);
	for (uint32_t i = 0; i < it->count; i++) {
		if (i > 0)
			buf_append_char(&body, ',');
		put_item(&body, &it->items[i]);
	}
	buf_append_span(&body, SPAN("]}"));
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
		put_headers(&headers, item);
		put_verdict(&body, item);
		respond(it, status_of(item), buf_span(&headers), &body);
	}
}

/* ---- tokens ---- */

#define FENCED                                                                               \
	"the lease of this token is over: the claim was settled, or given back, or is with " \
	"another caller, or waits for one"
#define SETTLED "this token has settled its claim with another outcome"

static void put_done(struct buf *out, const struct claims_item *item)
{
	buf_printf(out, "{\"state\":\"%s\"",
	           item->it->act == CLAIMS_SETTLE  ? "settled"
	           : item->it->act == CLAIMS_RENEW ? "renewed"
	                                           : "released");
	claims_put_ticket(out, "ticket", item->ticket);
	put_number(out, "attempt", item->attempt);
	if (item->it->act == CLAIMS_SETTLE)
		buf_printf(out, ",\"repeated\":%s", item->repeated ? "true" : "false");
	if (item->it->act == CLAIMS_RENEW) {
		put_number(out, "lease_ms", item->lease_ms);
		claims_put_time(out, "lease_until", item->lease_until_ms);
	}
	buf_append_char(out, '}');
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

	buf_printf(out, "{\"found\":%s,\"state\":\"%s\"", item->found ? "true" : "false",
	           item->found ? state_name(item->state) : "none");
	claims_put_ticket(out, "ticket", item->ticket);
	claims_put_time(out, "first_seen", item->admit.first_seen_ms);
	put_number(out, "age_s",
	           item->found ? since_s(item->admit.first_seen_ms, item->now_ms) : 0);
	put_number(out, "seen", item->admit.seen);
	put_number(out, "attempt", item->attempt);
	claims_put_time(out, "lease_until", item->lease_until_ms);
	put_number(out, "lease_left_s", since_s(item->now_ms, item->lease_until_ms));
	buf_printf(out, ",\"has_outcome\":%s,\"outcome\":", item->has_outcome ? "true" : "false");
	claims_outcome_put_text(outcome, out);
	buf_printf(out, ",\"outcome_coding\":\"%s\",\"outcome_type\":",
	           claims_coding_name(outcome->coding));
	buf_append_json(out, outcome->type);
	put_number(out, "outcome_status", outcome->status);
	claims_put_time(out, "settled", outcome->settled_ms);
	buf_append_char(out, '}');
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
