/*
 * webhook_answer: waits for outcomes if the source says so, then answers the sender.
 * docs/reference.md has the answers as users see them.
 *
 * A single event is answered from memory of the stack; a batch into a buf.
 */
#include <string.h>

#include "codec/json_write.h"
#include "door/webhook/webhook_request.h"
#include "gate/ticket.h"

/*
 * ---- waiting for the outcome (`ack: delivered`) ----
 *
 * When all items of a request are decided, each that has an event of its own, or is a copy
 * of one, waits at the store for the outcome, until the source's limit. A copy of a dead
 * event makes it due again, once, under its old key, and waits: so the sender's retry is a
 * retry. A parked event stays parked: nobody knows whether it had its effect, and a copy
 * does not tell.
 *
 * The delivery continues whether or not somebody waits.
 */

/* The event whose outcome the sender is told; 0: there is none. */
static uint64_t awaited(const struct webhook_item *item)
{
	const struct store_admit *admit = &item->admit;
	if (item->status != 0 || admit->op.error != 0 || admit->no_ticket)
		return 0;
	switch (admit->verdict) {
	case VERDICT_NEW:
	case VERDICT_DUPLICATE:
	case VERDICT_BUSY: return admit->ticket;
	case VERDICT_CONFLICT: return webhook_passed(admit) ? admit->own_ticket : 0;
	case VERDICT_STALE:
	case VERDICT_SPOOLED:
	case VERDICT_NONE: break;
	}
	return 0;
}

/* What the store says is told by webhook_answer(), with all of the round. */
static void finish(struct webhook_request *it)
{
	CHECK(it->left > 0);
	if (--it->left == 0)
		webhook_decided(it);
}

static void wait_done(struct store_op *op);

static void ask(struct webhook_request *it, struct webhook_item *item)
{
	item->wait = (struct store_wait){
		.op = { .kind = STORE_WAIT, .done = wait_done, .user = it },
		.ticket = awaited(item),
		.until_boot_ms = it->until_boot_ms,
		.over = &it->webhook->waits_over,
	};
	it->webhook->asked = true;
	store_submit(it->webhook->options.store, &item->wait.op);
}

static void release_done(struct store_op *op)
{
	struct webhook_item *item = container_of(op, struct webhook_item, release.op);
	struct webhook_request *it = op->user;
	if (op->error == 0) {
		item->outcome = OUTCOME_NONE;
		ask(it, item);
		return;
	}
	/* Somebody else released or dropped it: the copy's own retry will see. */
	finish(it);
}

static void wait_done(struct store_op *op)
{
	struct webhook_item *item = container_of(op, struct webhook_item, wait.op);
	struct webhook_request *it = op->user;
	item->outcome = op->error == 0 ? item->wait.outcome : OUTCOME_NONE;
	item->unheard = op->error != 0;
	bool again = item->outcome == OUTCOME_DEAD && item->admit.verdict == VERDICT_DUPLICATE &&
	             !item->released;
	if (!again) {
		finish(it);
		return;
	}
	item->released = true;
	item->release = (struct store_release){
		.op = { .kind = STORE_RELEASE, .done = release_done, .user = it },
		.ticket = item->wait.ticket,
		.states = 1u << STORE_STATE_DEAD,
		.whole_event = true,
	};
	it->webhook->asked = true;
	store_submit(it->webhook->options.store, &item->release.op);
}

bool webhook_await(struct webhook_request *it, uint64_t boot_ms)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < it->count; i++) {
		it->items[i].awaited = awaited(&it->items[i]) != 0;
		count += it->items[i].awaited;
	}
	it->waited = true;
	it->left = count;
	it->until_boot_ms = boot_ms + it->source->options.wait_ms;
	/* A port that is full completes inside submit, the last one with finish(). */
	for (uint32_t i = 0, asked = 0; asked < count; i++) {
		if (!it->items[i].awaited)
			continue;
		asked++;
		ask(it, &it->items[i]);
	}
	return count > 0;
}

static uint16_t outcome_status(const struct webhook_item *item)
{
	if (!item->awaited)
		return 200;
	switch (item->outcome) {
	case OUTCOME_DEAD: return 502;
	case OUTCOME_UNKNOWN: return 504;
	case OUTCOME_NONE: break;
	default: return 200;
	}
	/* A duplicate of something that was closed so long ago that nobody knows how. */
	bool settled = item->admit.verdict == VERDICT_DUPLICATE && !item->released &&
	               !item->unheard;
	return settled ? 200 : 503;
}

/* ---- answers ---- */

#define SINGLE_BYTES 512u
#define BATCH_BYTES_MAX (1u << 20) /* a thousand items need a fifth of it */

static const struct span retry_after = { "Retry-After: 1\r\n", 16 };

static void add_original(struct buf *out, const struct store_admit *admit)
{
	ticket_add(out, "ticket", admit->ticket);
	json_add_time(out, "first_seen", admit->first_seen_ms);
}

/* {"verdict":…}, without a line break. */
static void put_verdict(struct buf *out, const struct webhook_item *item)
{
	const struct store_admit *admit = &item->admit;

	json_object_begin(out, NULL);
	json_add_string(out, "verdict", verdict_name(admit->verdict));
	switch (admit->verdict) {
	case VERDICT_NEW:
	case VERDICT_SPOOLED: ticket_add(out, "ticket", admit->ticket); break;
	case VERDICT_DUPLICATE:
		add_original(out, admit);
		json_add_u64(out, "seen", admit->seen);
		break;
	case VERDICT_CONFLICT:
		add_original(out, admit);
		if (admit->on_conflict == STORE_CONFLICT_PASS)
			ticket_add(out, "passed_as", admit->own_ticket);
		else if (admit->on_conflict == STORE_CONFLICT_ASIDE)
			ticket_add(out, "aside", admit->own_ticket);
		break;
	case VERDICT_STALE:
	case VERDICT_BUSY:
	case VERDICT_NONE: add_original(out, admit); break;
	}
	if (admit->would != VERDICT_NONE) {
		json_add_string(out, "would", verdict_name(admit->would));
		ticket_add(out, "would_original", admit->would_ticket);
	}
	if (item->outcome != OUTCOME_NONE)
		json_add_string(out, "outcome", outcome_name(item->outcome));
	json_object_end(out);
}

static void put_headers(struct buf *out, const struct webhook_item *item, uint16_t status)
{
	const struct store_admit *admit = &item->admit;
	bool passed_anew = admit->verdict == VERDICT_CONFLICT && webhook_passed(admit);
	char ticket[TICKET_TEXT_LEN];

	buf_append_span(out, SPAN("Stile-Verdict: "));
	buf_append_span(out, span_str(verdict_name(admit->verdict)));
	buf_append_span(out, SPAN("\r\nStile-Ticket: "));
	ticket_text(passed_anew ? admit->own_ticket : admit->ticket, ticket);
	buf_append(out, ticket, sizeof(ticket));
	buf_append_span(out, SPAN("\r\n"));
	if (admit->would != VERDICT_NONE) {
		buf_append_span(out, SPAN("Stile-Would: "));
		buf_append_span(out, span_str(verdict_name(admit->would)));
		buf_append_span(out, SPAN("\r\n"));
	}
	if (item->outcome != OUTCOME_NONE) {
		buf_append_span(out, SPAN("Stile-Outcome: "));
		buf_append_span(out, span_str(outcome_name(item->outcome)));
		buf_append_span(out, SPAN("\r\n"));
	}
	if (status == 503)
		buf_append_span(out, retry_after);
}

/* A copy that has waited is busy no more. */
static void end_wait(struct webhook_item *item)
{
	if (item->outcome != OUTCOME_NONE && item->admit.verdict == VERDICT_BUSY)
		item->admit.verdict = VERDICT_DUPLICATE;
}

static void count(struct source_meters *meters, const struct webhook_item *item)
{
	const struct store_admit *admit = &item->admit;

	if (item->status != 0)
		return; /* counted when it was refused */
	if (admit->op.error == ERR_TOO_LARGE)
		meter_add(&meters->refused, 1);
	else if (admit->op.error != 0)
		meter_add(&meters->overload, 1);
	else
		meter_add(&meters->verdicts[admit->verdict], 1);
	if (admit->op.error == 0 && item->unrouted && admit->verdict == VERDICT_NEW)
		meter_add(&meters->unrouted, 1);
	if (admit->op.error == 0 && admit->would != VERDICT_NONE)
		meter_add(&meters->would[admit->would], 1);
}

#define TOO_LARGE "the event is too large for one journal frame"
#define NOT_NOW "the store cannot accept events now; nothing was decided, send it again"
#define AWAY "the shared store is unreachable; send it again"

/* Of one that is away nobody knows whether it has decided. */
static const char *not_now(int error)
{
	return error == ERR_AWAY ? AWAY : NOT_NOW;
}

static uint16_t status_of(const struct webhook_item *item)
{
	const struct store_admit *admit = &item->admit;

	if (admit->verdict == VERDICT_BUSY)
		return 503;
	if (admit->verdict == VERDICT_SPOOLED)
		return 202;
	if (admit->verdict == VERDICT_CONFLICT && admit->on_conflict == STORE_CONFLICT_REJECT)
		return 422;
	return outcome_status(item);
}

static void respond_single(struct webhook_request *it)
{
	const struct store_admit *admit = &it->items->admit;
	char header_bytes[SINGLE_BYTES], body_bytes[SINGLE_BYTES];
	struct buf headers = buf_on(header_bytes, sizeof(header_bytes));
	struct buf body = buf_on(body_bytes, sizeof(body_bytes));

	if (admit->op.error == ERR_TOO_LARGE) {
		http_respond_problem(it->request, 413, TOO_LARGE, SPAN_EMPTY);
		return;
	}
	if (admit->op.error != 0) {
		http_respond_problem(it->request, 503, not_now(admit->op.error), retry_after);
		return;
	}
	uint16_t status = status_of(it->items);
	put_headers(&headers, it->items, status);
	put_verdict(&body, it->items);
	buf_append_char(&body, '\n');
	CHECK(!headers.failed && !body.failed);
	http_respond(it->request, &(struct http_response){
					  .status = status,
					  .content_type = SPAN("application/json"),
					  .headers = buf_span(&headers),
					  .body = buf_span(&body),
				  });
}

static void put_refused(struct buf *out, uint16_t status, struct span problem)
{
	json_object_begin(out, NULL);
	json_add_text(out, "error", problem);
	json_add_u64(out, "status", status);
	json_object_end(out);
}

static void put_item(struct buf *out, const struct webhook_item *item)
{
	if (item->status != 0)
		put_refused(out, item->status, item->problem);
	else if (item->admit.op.error != 0)
		put_refused(out, 413, SPAN(TOO_LARGE));
	else
		put_verdict(out, item);
}

struct sums {
	uint64_t verdicts[VERDICT_COUNT];
	uint64_t refused;
	uint64_t not_now;             /* the store could not take it: all is to be sent again, */
	int why_not;                  /* and an error of one of them */
	uint64_t open, dead, unknown; /* outcomes that are not as the sender wants them */
};

static struct sums sum_up(const struct webhook_request *it)
{
	struct sums sums = { .refused = 0 };

	for (uint32_t i = 0; i < it->count; i++) {
		const struct webhook_item *item = &it->items[i];
		int error = item->status != 0 ? ERR_INVALID : item->admit.op.error;
		uint16_t status = error == 0 ? status_of(item) : 0;
		sums.open += status == 503;
		sums.dead += status == 502;
		sums.unknown += status == 504;
		bool refused = error == ERR_INVALID || error == ERR_TOO_LARGE;
		sums.refused += refused;
		if (error == 0)
			sums.verdicts[item->admit.verdict]++;
		if (error == 0 || refused)
			continue;
		sums.why_not = error;
		sums.not_now++;
	}
	return sums;
}

static void put_sums(struct buf *out, const struct sums *sums)
{
	for (int i = VERDICT_NEW; i < VERDICT_COUNT; i++) {
		if (i == VERDICT_SPOOLED && sums->verdicts[i] == 0)
			continue; /* most gateways never spool */
		json_add_u64(out, verdict_name((enum verdict)i), sums->verdicts[i]);
	}
	json_add_u64(out, "refused", sums->refused);
}

/* A sender can only repeat the whole batch: it is asked to if any event of it was
 * not decided, is busy or without an outcome; what was decided is a duplicate then. */
static uint16_t batch_status(const struct webhook_request *it, const struct sums *sums)
{
	if (it->count > 0 && sums->refused == it->count)
		return 400;
	if (sums->open > 0)
		return 503;
	if (sums->dead > 0)
		return 502;
	if (sums->unknown > 0)
		return 504;
	return sums->verdicts[VERDICT_SPOOLED] > 0 ? 202 : 200;
}

static void respond_batch(struct webhook_request *it)
{
	struct sums sums = sum_up(it);
	struct buf body = { .cap = BATCH_BYTES_MAX };

	if (sums.not_now > 0) {
		http_respond_problem(it->request, 503, not_now(sums.why_not), retry_after);
		return;
	}
	json_object_begin(&body, NULL);
	put_sums(&body, &sums);
	json_array_begin(&body, "events");
	for (uint32_t i = 0; i < it->count; i++)
		put_item(&body, &it->items[i]);
	json_array_end(&body);
	json_object_end(&body);
	buf_append_char(&body, '\n');
	uint16_t status = batch_status(it, &sums);
	if (body.failed)
		http_respond_problem(it->request, 503, NOT_NOW, retry_after);
	else
		http_respond(it->request,
		             &(struct http_response){
				     .status = status,
				     .content_type = SPAN("application/json"),
				     .headers = status == 503 ? retry_after : SPAN_EMPTY,
				     .body = buf_span(&body),
			     });
	buf_free(&body);
}

void webhook_respond(struct webhook_request *it)
{
	struct source_meters *meters = &it->source->meters[it->webhook->options.thread];
	struct arena arena = it->arena; /* the answer frees the request */

	for (uint32_t i = 0; i < it->count; i++) {
		end_wait(&it->items[i]);
		count(meters, &it->items[i]);
	}
	if (it->batch)
		respond_batch(it);
	else
		respond_single(it);
	arena_free(&arena);
}
