/*
 * claims_decide: the operations of a request at the store: claiming, settling and renewing,
 * looking up; and the traces of claims, so that `why` can explain them.
 *
 *   admit ──► new: leased, attempt 1
 *     │
 *     ├─ busy ──► take ──► new: the lease was over or released; the next attempt
 *     │            ▲ │
 *     │            │ └─ none ──► read ──► busy until its lease is over
 *     │            │              │ │
 *     │            └── wait ◄─────┘ └─ closed meanwhile ──┐
 *     │                 └─ it has its outcome ────────────┤
 *     └─ duplicate ───────────────────────────────────────┴──► the outcome's cell
 *
 * A claim that is stale because another has the same order is handled as busy if that other
 * is a caller's: it is the same event again. Otherwise it stays stale.
 *
 * A wait takes one slice at most, since the end of a lease wakes nobody. In a batch nothing
 * waits any more after the first grant: the lease is running.
 *
 * An error ends it: while a store closes nothing more is asked of it.
 *
 * A settle that is fenced may repeat one that was accepted, whose answer was lost: then the
 * stored outcome says so. A token whose lease is over is refused even if nobody else has the
 * claim: a caller that may not act any more must not look as if it had.
 *
 * A lookup asks the store three times: who has the claim, the state of its ticket, and its
 * outcome.
 */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "codec/ip.h"
#include "codec/json_number.h"
#include "codec/url.h"
#include "door/claims/claims_internal.h"
#include "gate/ticket.h"
#include "sys/clock.h"

#define SLICE_MS 500u
#define OTHERS_RETRY_MS 1000u /* if it is not leased to a caller */

static struct claims_item *item_of(struct store_op *op)
{
	return op->user;
}

static uint64_t boot_ms(void)
{
	return clock_read(clock_system()).boot_ms;
}

static void fail(struct claims_item *item, int error)
{
	item->error = error;
	claims_finish(item);
}

static void grant(struct claims_item *item, uint32_t attempt, uint64_t now_ms)
{
	item->verdict = VERDICT_NEW;
	item->attempt = attempt;
	item->now_ms = now_ms;
	item->lease_until_ms = now_ms + item->lease_ms;
	item->it->until_boot_ms = 0; /* of a batch: the others wait no more */
	claims_finish(item);
}

/* ---- the outcome ---- */

#define BATCH_OUTCOME_BYTES (4u << 20)

/* A small request must not have an answer without limit. False for a single claim. */
static bool is_too_much(struct claims_item *item)
{
	struct claims_request *it = item->it;

	it->outcome_bytes += item->cell.value.len;
	if (!it->batch || it->outcome_bytes <= BATCH_OUTCOME_BYTES)
		return false;
	it->outcome_bytes -= item->cell.value.len;
	buf_free(&item->cell.value);
	item->status = 413;
	item->problem = SPAN(
		"it is a duplicate, but the outcomes of the batch are larger than 4 MiB: look this one up alone");
	return true;
}

/* Without an outcome it is an event of stile's own: its state is that of its delivery. */
static void state_done(struct store_op *op)
{
	struct claims_item *item = item_of(op);
	struct store_item found;
	struct store_parts parts;
	size_t at = 0;
	int error = op->error;

	if (error == 0 && store_item_next(buf_span(&item->read.items), &at, &found, &parts))
		item->state = (enum store_state)found.state;
	buf_free(&item->read.items);
	if (error < 0 && error != -ENOENT)
		fail(item, error);
	else
		claims_finish(item);
}

static void cell_done(struct store_op *op)
{
	struct claims_item *item = item_of(op);

	if (op->error < 0) {
		fail(item, op->error);
		return;
	}
	if (is_too_much(item)) {
		claims_finish(item);
		return;
	}
	item->has_outcome = item->cell.found &&
	                    claims_outcome_read(buf_span(&item->cell.value), &item->outcome);
	if (item->has_outcome && item->verdict == VERDICT_STALE)
		item->verdict = VERDICT_DUPLICATE;
	if (item->has_outcome || item->verdict != VERDICT_DUPLICATE) {
		claims_finish(item);
		return;
	}
	item->read = (struct store_read){ .ticket = item->ticket };
	claims_submit(item, &item->read.op, STORE_READ, state_done);
}

/* The outcome of item->ticket, then claims_finish(). */
static void fetch_outcome(struct claims_item *item)
{
	const struct claims *claims = item->it->claims;

	item->cell.act = STORE_CELL_GET;
	item->cell.want_value = true;
	item->cell.cell.digest = key_claim_answer(item->ticket, claims->options.key);
	claims_submit(item, &item->cell.op, STORE_CELL, cell_done);
}

/* ---- busy claims ---- */

static void take_done(struct store_op *op);

static void take(struct claims_item *item)
{
	item->take = (struct store_take){ .ticket = item->ticket,
		                          .sink = STORE_SINK_CALLER,
		                          .lease_ms = item->lease_ms,
		                          .without_payload = true };
	claims_submit(item, &item->take.op, STORE_TAKE, take_done);
}

static void settled(struct claims_item *item)
{
	if (item->verdict == VERDICT_BUSY)
		item->verdict = VERDICT_DUPLICATE;
	fetch_outcome(item);
}

/* Never grant a claim to a disconnected client: nobody would settle it. */
static bool waits_on(const struct claims_item *item)
{
	const struct claims_request *it = item->it;

	return boot_ms() < it->until_boot_ms && !it->claims->ending &&
	       !http_peer_has_ended(it->request);
}

static void wait_done(struct store_op *op)
{
	struct claims_item *item = item_of(op);

	if (op->error < 0)
		claims_finish(item); /* still busy, as far as we know */
	else if (item->wait.outcome != OUTCOME_NONE)
		settled(item);
	else if (waits_on(item))
		take(item);
	else
		claims_finish(item);
}

static void await(struct claims_item *item)
{
	uint64_t now_ms = boot_ms(), until_ms = item->it->until_boot_ms;
	uint64_t slice_ms = item->retry_ms < SLICE_MS ? item->retry_ms + 1 : SLICE_MS;

	if (item->it->batch && slice_ms > item->lease_ms / 4)
		slice_ms = item->lease_ms / 4; /* another claim of the batch may be granted */
	if (!waits_on(item)) {
		claims_finish(item);
		return;
	}
	item->wait = (struct store_wait){
		.ticket = item->ticket,
		.until_boot_ms = until_ms < now_ms + slice_ms ? until_ms : now_ms + slice_ms,
	};
	claims_submit(item, &item->wait.op, STORE_WAIT, wait_done);
}

/* False: it is stale. */
static bool note_holder(struct claims_item *item, struct span items)
{
	struct store_item found;
	struct store_parts parts;
	size_t at = 0;

	bool told = store_item_next(items, &at, &found, &parts);
	CHECK(told);
	if (item->verdict == VERDICT_STALE && found.sink != STORE_SINK_CALLER)
		return false;
	item->verdict = VERDICT_BUSY;
	bool with_caller = found.sink == STORE_SINK_CALLER && found.due_ms > item->now_ms;
	item->attempt = found.attempt;
	item->retry_ms = with_caller ? found.due_ms - item->now_ms : OTHERS_RETRY_MS;
	item->lease_until_ms = with_caller && found.state == STORE_STATE_LEASED ? found.due_ms : 0;
	return true;
}

static void read_done(struct store_op *op)
{
	struct claims_item *item = item_of(op);
	int error = op->error;

	bool busy = error == 0 && note_holder(item, buf_span(&item->read.items));
	buf_free(&item->read.items);
	if (error == -ENOENT)
		settled(item);
	else if (error < 0)
		fail(item, error);
	else if (busy)
		await(item);
	else
		claims_finish(item);
}

static void finish_busy(struct claims_item *item)
{
	item->verdict = VERDICT_BUSY;
	item->retry_ms = OTHERS_RETRY_MS;
	item->lease_until_ms = 0;
	claims_finish(item);
}

static void shorten_done(struct store_op *op)
{
	struct claims_item *item = item_of(op);

	if (op->error == 0)
		grant(item, item->attempt, item->now_ms);
	else if (op->error == ERR_FENCED)
		finish_busy(item);
	else
		fail(item, op->error);
}

/* Takes a claim over from a caller that did not settle it, for the rest of its window. */
static void take_over(struct claims_item *item, const struct store_item *taken)
{
	if (taken->order / 1000 <= UINT32_MAX)
		item->window_s = (uint32_t)(taken->order / 1000);
	uint64_t end_ms = claims_window_end_ms(item->ticket, item->window_s);

	item->attempt = taken->attempt;
	if (item->now_ms + item->lease_ms <= end_ms) {
		grant(item, item->attempt, item->now_ms);
	} else if (item->now_ms + CLAIMS_LEASE_MIN_MS > end_ms) {
		finish_busy(item); /* it is about to be forgotten */
	} else {
		item->lease_ms = (uint32_t)(end_ms - item->now_ms);
		item->renew = (struct store_renew){ .ticket = item->ticket,
			                            .attempt = item->attempt,
			                            .lease_ms = item->lease_ms,
			                            .until_ms = end_ms };
		claims_submit(item, &item->renew.op, STORE_RENEW, shorten_done);
	}
}

static void take_done(struct store_op *op)
{
	struct claims_item *item = item_of(op);
	struct store_item taken = { 0 };
	struct store_parts parts;
	size_t at = 0;
	int error = op->error;

	if (error == 0 && item->take.count > 0)
		(void)store_item_next(buf_span(&item->take.items), &at, &taken, &parts);
	item->now_ms = item->take.now_ms;
	buf_free(&item->take.items);
	if (error < 0) {
		fail(item, error);
		return;
	}
	/* There is no number after the last one to fence with: it is not granted. */
	if (taken.attempt > 0 && taken.attempt < STORE_ATTEMPT_MAX) {
		take_over(item, &taken);
		return;
	}
	item->read = (struct store_read){ .ticket = item->ticket };
	claims_submit(item, &item->read.op, STORE_READ, read_done);
}

/* ---- the trace ---- */

static void trace(const struct claims_item *item)
{
	const struct store_admit *admit = &item->admit;
	struct trace_log *log = item->it->claims->options.traces;
	struct trace_claim claims[CLAIMS_MAX];
	char address[IP_TEXT_MAX];
	uint8_t count = 0;

	for (uint32_t i = 0; i < admit->claim_count; i++)
		if (admit->claims[i].kind != CLAIM_NEWEST)
			claims[count++] = (struct trace_claim){ admit->claims[i].digest.word[0],
				                                admit->claims[i].window_s };
	bool is_new = admit->verdict == VERDICT_NEW;
	if (is_new ? !trace_log_wants_new(log, claims, count) : !trace_log_wants_suppressed(log))
		return;
	ip_format(&item->it->request->peer->address, address);
	struct trace line = {
		.time_ms = admit->decided_ms,
		.verdict = admit->verdict,
		.content = item->content,
		.source = admit->source,
		.id = item->id,
		.type = item->type,
		.keys = { item->key_text },
		.peer = span_str(address),
		.ticket = is_new ? admit->ticket : 0,
		.claim_count = count,
	};
	if (!is_new) {
		line.matched = (uint8_t)admit->matched;
		line.original = admit->ticket;
		if (admit->decided_ms > admit->first_seen_ms)
			line.gap_ms = admit->decided_ms - admit->first_seen_ms;
		line.rule = SPAN("key");
	}
	memcpy(line.claims, claims, sizeof(claims[0]) * count);
	trace_log_add(log, &line);
}

/* ---- the decision ---- */

static void admit_done(struct store_op *op)
{
	struct claims_item *item = item_of(op);
	const struct store_admit *admit = &item->admit;

	if (op->error < 0) {
		fail(item, op->error);
		return;
	}
	item->verdict = admit->verdict;
	item->ticket = admit->ticket;
	item->now_ms = admit->decided_ms;
	trace(item);
	switch (admit->verdict) {
	case VERDICT_NEW: grant(item, 1, admit->decided_ms); break;
	case VERDICT_DUPLICATE: fetch_outcome(item); break;
	case VERDICT_BUSY: take(item); break;
	case VERDICT_STALE:
		item->admit.seen = 1; /* stores do not count stale events */
		if (admit->order == admit->claims[admit->matched].order)
			take(item);
		else
			claims_finish(item);
		break;
	default: claims_finish(item); break;
	}
}

void claims_decide(struct claims_item *item)
{
	item->admit.legs = &item->leg;
	item->admit.leg_count = 1;
	claims_submit(item, &item->admit.op, STORE_ADMIT, admit_done);
}

/* ---- tokens: settle, renew, release ---- */

static struct claims_item *begin(struct claims_request *it)
{
	struct claims_item *item = claims_add_items(it, 1);

	if (!item) {
		claims_refuse(it, -ENOMEM, "");
		return NULL;
	}
	it->left = 1;
	item->ticket = it->token.ticket;
	item->attempt = it->token.attempt;
	item->expiry_s = it->token.expiry_s;
	return item;
}

static void done(struct store_op *op)
{
	struct claims_item *item = op->user;

	item->error = op->error;
	claims_finish(item);
}

static bool is_utf8(struct span text)
{
	for (size_t at = 0, len; at < text.len; at += len) {
		len = utf8_sequence(text.ptr + at, text.len - at);
		if (len == 0)
			return false;
	}
	return true;
}

static int read_json(struct claims_request *it, struct claims_outcome *outcome,
                     struct error_text *ret_problem)
{
	static const char *const members[] = { "outcome, status", "outcome", "status", NULL };
	const struct claims_plan *plan = it->claims->plan;
	struct json_doc doc;

	int r = claims_scan(it->claims, it->request->body, &doc, ret_problem);
	if (r == 0)
		r = claims_expect_members(it->request->body, members, ret_problem);
	if (r < 0)
		return r;
	struct json_value value = json_get(&doc, plan->outcome);
	struct json_value status = json_get(&doc, plan->status);
	if (value.type == JSON_NONE)
		return error_fill(ret_problem, ERR_INVALID,
		                  "expected {\"outcome\": …}, or a body with a type of its own");
	outcome->coding = CLAIMS_JSON;
	outcome->type = SPAN("application/json");
	outcome->body = value.text;
	if (value.type == JSON_STRING) /* with its quotes */
		outcome->body = span_of(value.text.ptr - 1, value.text.len + 2);
	uint64_t number = 0;
	if (status.type != JSON_NONE &&
	    (status.type != JSON_NUMBER || text_parse_u64(status.text, &number) < 0 ||
	     number > UINT16_MAX))
		return error_fill(ret_problem, ERR_INVALID,
		                  "expected a number from 0 to 65535 in status");
	outcome->status = (uint16_t)number;
	return 0;
}

static int read_outcome(struct claims_request *it, struct claims_outcome *outcome,
                        struct error_text *ret_problem)
{
	struct span body = it->request->body, type;

	if (body.len > it->rules.options.outcome_bytes)
		return error_fill(ret_problem, ERR_TOO_LARGE,
		                  "expected at most %u bytes of outcome",
		                  it->rules.options.outcome_bytes);
	if (body.len == 0)
		return 0;
	const struct span *header = http1_header_find(&it->request->head, SPAN("content-type"));
	/* The form type is curl's default. */
	bool json = !header || http1_is_media_type(*header, SPAN("application/json")) ||
	            http1_is_media_type(*header, SPAN("application/x-www-form-urlencoded"));
	type = header ? *header : SPAN_EMPTY;
	if (json)
		return read_json(it, outcome, ret_problem);
	if (type.len > CLAIMS_TYPE_MAX)
		return error_fill(ret_problem, ERR_INVALID,
		                  "expected at most %u bytes of content type", CLAIMS_TYPE_MAX);
	outcome->coding = is_utf8(body) ? CLAIMS_TEXT : CLAIMS_BYTES;
	outcome->type = type;
	outcome->body = body;
	return 0;
}

/* The stored outcome says whether it was this very settle. */
static void compare_done(struct store_op *op)
{
	struct claims_item *item = op->user;
	struct claims_outcome kept;

	item->error = op->error < 0 ? op->error : ERR_FENCED;
	if (op->error == 0 && item->cell.found &&
	    claims_outcome_read(buf_span(&item->cell.value), &kept) &&
	    kept.attempt == item->attempt) {
		item->has_outcome = true;
		item->repeated = claims_outcome_same(&kept, &item->outcome);
		item->error = item->repeated ? 0 : ERR_FENCED;
	}
	claims_finish(item);
}

static void settle_done(struct store_op *op)
{
	struct claims_item *item = op->user;

	if (op->error != ERR_FENCED) {
		done(op);
		return;
	}
	item->cell.act = STORE_CELL_GET;
	item->cell.want_value = true;
	item->cell.cell.digest = item->answer.digest;
	claims_submit(item, &item->cell.op, STORE_CELL, compare_done);
}

static int fill_answer(struct claims_request *it, struct claims_item *item)
{
	struct buf value = { 0 };

	item->outcome.attempt = item->attempt;
	item->outcome.settled_ms = clock_read(clock_system()).wall_ms;
	int r = claims_outcome_write(&item->outcome, &value);
	item->answer = (struct store_cell_value){
		.digest = key_claim_answer(item->ticket, it->claims->options.key),
		.value = r < 0 ? SPAN_EMPTY : arena_copy(&it->arena, buf_span(&value)),
		.expiry_ms = (uint64_t)item->expiry_s * 1000,
	};
	buf_free(&value);
	return item->answer.value.ptr ? 0 : -ENOMEM;
}

void claims_settle(struct claims_request *it)
{
	struct error_text problem = { "" };
	struct claims_item *item = begin(it);

	if (!item)
		return;
	int r = read_outcome(it, &item->outcome, &problem);
	if (r == 0)
		r = fill_answer(it, item);
	if (r < 0) {
		claims_refuse(it, r, problem.text);
		return;
	}
	item->settle = (struct store_settle){ .ticket = item->ticket,
		                              .attempt = item->attempt,
		                              .outcome = OUTCOME_DONE,
		                              .answer = &item->answer };
	claims_submit(item, &item->settle.op, STORE_SETTLE, settle_done);
}

void claims_renew(struct claims_request *it)
{
	static const char *const members[] = { "lease", "lease", NULL };
	struct error_text problem = { "" };
	uint64_t lease_ms = it->rules.options.lease_ms;
	struct json_doc doc;
	int r = 0;

	if (it->request->body.len > 0) {
		r = claims_scan(it->claims, it->request->body, &doc, &problem);
		if (r == 0)
			r = claims_expect_members(it->request->body, members, &problem);
		struct json_value lease = { .type = JSON_NONE };
		if (r == 0)
			lease = json_get(&doc, it->claims->plan->lease);
		if (r == 0)
			r = claims_read_time(&lease, "lease", CLAIMS_LEASE_MIN_MS,
			                     CLAIMS_LEASE_MAX_MS, &lease_ms, &problem);
	}
	if (r < 0) {
		claims_refuse(it, r, problem.text);
		return;
	}
	struct claims_item *item = begin(it);
	if (!item)
		return;
	item->lease_ms = (uint32_t)lease_ms;
	uint64_t begin_s = ticket_time_ms(it->token.ticket) / 1000, end_s = it->token.expiry_s;
	uint64_t until_ms = claims_window_end_ms(it->token.ticket,
	                                         end_s > begin_s ? end_s - begin_s : 0);
	item->lease_until_ms = clock_read(clock_system()).wall_ms + lease_ms;
	if (item->lease_until_ms > until_ms)
		item->lease_until_ms = until_ms;
	item->renew = (struct store_renew){ .ticket = item->ticket,
		                            .attempt = item->attempt,
		                            .lease_ms = item->lease_ms,
		                            .until_ms = until_ms };
	claims_submit(item, &item->renew.op, STORE_RENEW, done);
}

void claims_give_back(struct claims_request *it)
{
	struct claims_item *item = begin(it);

	if (!item)
		return;
	item->settle = (struct store_settle){ .ticket = item->ticket,
		                              .attempt = item->attempt,
		                              .outcome = OUTCOME_RELEASED };
	claims_submit(item, &item->settle.op, STORE_SETTLE, done);
}

/* ---- the lookup ---- */

static void lookup_read_done(struct store_op *op)
{
	struct claims_item *item = op->user;
	struct store_item found;
	struct store_parts parts;
	size_t at = 0;
	int error = op->error;

	if (error == 0 && store_item_next(buf_span(&item->read.items), &at, &found, &parts)) {
		item->state = (enum store_state)found.state;
		item->attempt = found.attempt;
		item->lease_until_ms = found.state == STORE_STATE_LEASED ? found.due_ms : 0;
	}
	buf_free(&item->read.items);
	if (error == 0 || error == -ENOENT) {
		fetch_outcome(item);
		return;
	}
	item->error = error;
	claims_finish(item);
}

static void lookup_done(struct store_op *op)
{
	struct claims_item *item = op->user;
	const struct store_lookup found = item->lookup; /* `read` shares its memory */

	item->found = op->error == 0 && found.taken;
	item->error = op->error;
	if (!item->found) {
		claims_finish(item);
		return;
	}
	item->ticket = found.ticket;
	item->admit.first_seen_ms = found.first_seen_ms;
	item->admit.seen = found.seen;
	item->state = STORE_STATE_CLOSED;
	item->read = (struct store_read){ .ticket = item->ticket };
	claims_submit(item, &item->read.op, STORE_READ, lookup_read_done);
}

/* A parameter's value; its ptr is NULL if it is not there. */
static int param(struct claims_request *it, const char *name, struct span *ret_text,
                 struct error_text *ret_problem)
{
	struct span raw = SPAN_EMPTY;
	uint32_t count = url_param_find(it->request->head.query, span_str(name), &raw);
	size_t len;

	*ret_text = SPAN_EMPTY;
	if (count == 0)
		return 0;
	if (count > 1)
		return error_fill(ret_problem, ERR_INVALID, "expected %s only once", name);
	char *bytes = arena_alloc(&it->arena, raw.len + 1);
	if (!bytes)
		return -ENOMEM;
	if (url_form_decode(raw, bytes, raw.len, &len) < 0)
		return error_fill(ret_problem, ERR_INVALID, "expected percent-encoding in %s",
		                  name);
	*ret_text = span_of(bytes, len);
	return 0;
}

/* `key` is a string; `parts` a JSON array, for keys of several parts or other types. */
static int read_key(struct claims_request *it, struct key_claim *key,
                    struct error_text *ret_problem)
{
	struct span text = SPAN_EMPTY, parts = SPAN_EMPTY;
	struct json_doc doc;

	int r = param(it, "key", &text, ret_problem);
	if (r == 0)
		r = param(it, "parts", &parts, ret_problem);
	if (r == 0)
		r = param(it, "scope", &key->scope, ret_problem);
	if (r < 0)
		return r;
	if ((text.ptr != NULL) == (parts.ptr != NULL))
		return error_fill(ret_problem, ERR_INVALID,
		                  "expected one of key=TEXT and parts=[…] in the query");
	key->key = (struct json_value){ .type = JSON_STRING, .text = text };
	if (text.ptr)
		return 0;
	if (json_scan(parts, NULL, &doc) < 0 || doc.root != JSON_ARRAY)
		return error_fill(ret_problem, ERR_INVALID, "expected a JSON array in parts");
	key->key = (struct json_value){ .type = JSON_ARRAY, .text = json_trim(parts) };
	return 0;
}

void claims_lookup(struct claims_request *it)
{
	struct error_text problem = { "" };
	struct key_claim key = { .scope = SPAN_EMPTY };
	struct digest digest;

	int r = read_key(it, &key, &problem);
	if (r == 0)
		r = key_claim_digest(&key, it->claims->options.key, &it->claims->key_scratch,
		                     &digest, &problem);
	struct claims_item *item = r == 0 ? claims_add_items(it, 1) : NULL;
	if (!item) {
		claims_refuse(it, r < 0 ? r : -ENOMEM, problem.text);
		return;
	}
	it->left = 1;
	item->now_ms = clock_read(clock_system()).wall_ms;
	item->lookup = (struct store_lookup){ .digest = digest, .kind = CLAIM_ONCE };
	claims_submit(item, &item->lookup.op, STORE_LOOKUP, lookup_done);
}
