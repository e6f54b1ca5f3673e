/*
 * webhook_answer: waits for outcomes if the source says so, then answers the sender.
 * docs/reference.md has the answers as users see them.
 *
 * The answer to a single event is built on the stack, that to a batch in a buf.
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
 * event makes the event due again, once, under its old key, and waits: the sender's retry
 * retries the delivery. A parked event stays parked: a copy does not tell whether the
 * event had its effect.
 *
 * The delivery continues whether or not a sender waits.
 */

/* The ticket whose outcome the sender gets; 0: none. */
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

static void wait_done(struct store_op *op);

static void ask(struct webhook_request *post, struct webhook_item *item)
{
	item->wait = (struct store_wait){
		.op = { .kind = STORE_WAIT, .done = wait_done, .user = post },
		.ticket = awaited(item),
		.until_boot_ms = post->until_boot_ms,
		.over = &post->webhook->waits_over,
	};
	post->webhook->asked = true;
	store_submit(post->webhook->options.store, &item->wait.op);
}

static void release_done(struct store_op *op)
{
	struct webhook_item *item = container_of(op, struct webhook_item, release.op);
	struct webhook_request *post = op->user;
	if (op->error == 0) {
		item->outcome = OUTCOME_NONE;
		ask(post, item);
		return;
	}
	/* Somebody else released or dropped it meanwhile: the sender's next try sees that. */
	webhook_item_done(post);
}

static void wait_done(struct store_op *op)
{
	struct webhook_item *item = container_of(op, struct webhook_item, wait.op);
	struct webhook_request *post = op->user;
	item->outcome = op->error == 0 ? item->wait.outcome : OUTCOME_NONE;
	item->unheard = op->error != 0;
	bool again = item->outcome == OUTCOME_DEAD && item->admit.verdict == VERDICT_DUPLICATE &&
	             !item->released;
	if (!again) {
		webhook_item_done(post);
		return;
	}
	item->released = true;
	item->release = (struct store_release){
		.op = { .kind = STORE_RELEASE, .done = release_done, .user = post },
		.ticket = item->wait.ticket,
		.states = 1u << STORE_STATE_DEAD,
		.whole_event = true,
	};
	post->webhook->asked = true;
	store_submit(post->webhook->options.store, &item->release.op);
}

bool webhook_await(struct webhook_request *post, uint64_t boot_ms)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < post->count; i++) {
		post->items[i].awaited = awaited(&post->items[i]) != 0;
		count += post->items[i].awaited;
	}
	post->waited = true;
	post->left = count;
	post->until_boot_ms = boot_ms + post->source->options.wait_ms;
	/* A port that is full completes inside submit, and the last one may free the request. */
	for (uint32_t i = 0, asked = 0; asked < count; i++) {
		if (!post->items[i].awaited)
			continue;
		asked++;
		ask(post, &post->items[i]);
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
	/* A duplicate of an event that was closed so long ago that its outcome is not kept. */
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

/* A store that is away may have decided; so the text does not deny it. */
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

static void respond_single(struct webhook_request *post)
{
	const struct store_admit *admit = &post->items->admit;
	char header_bytes[SINGLE_BYTES], body_bytes[SINGLE_BYTES];
	struct buf headers = buf_on(header_bytes, sizeof(header_bytes));
	struct buf body = buf_on(body_bytes, sizeof(body_bytes));

	if (admit->op.error == ERR_TOO_LARGE) {
		http_respond_problem(post->request, 413, TOO_LARGE, SPAN_EMPTY);
		return;
	}
	if (admit->op.error != 0) {
		http_respond_problem(post->request, 503, not_now(admit->op.error), retry_after);
		return;
	}
	uint16_t status = status_of(post->items);
	put_headers(&headers, post->items, status);
	put_verdict(&body, post->items);
	buf_append_char(&body, '\n');
	CHECK(!headers.failed && !body.failed);
	http_respond(post->request, &(struct http_response){
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
	uint64_t not_now;             /* not taken by the store: the sender repeats the batch */
	int why_not;                  /* the error of one of these */
	uint64_t open, dead, unknown; /* outcomes other than delivered */
};

static struct sums sum_up(const struct webhook_request *post)
{
	struct sums sums = { .refused = 0 };

	for (uint32_t i = 0; i < post->count; i++) {
		const struct webhook_item *item = &post->items[i];
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

/* A sender can only repeat the whole batch. 503 asks for that if any event was not decided,
 * is busy or has no outcome yet; events that were decided are duplicates then. */
static uint16_t batch_status(const struct webhook_request *post, const struct sums *sums)
{
	if (post->count > 0 && sums->refused == post->count)
		return 400;
	if (sums->open > 0)
		return 503;
	if (sums->dead > 0)
		return 502;
	if (sums->unknown > 0)
		return 504;
	return sums->verdicts[VERDICT_SPOOLED] > 0 ? 202 : 200;
}

static void respond_batch(struct webhook_request *post)
{
	struct sums sums = sum_up(post);
	struct buf body = { .cap = BATCH_BYTES_MAX };

	if (sums.not_now > 0) {
		http_respond_problem(post->request, 503, not_now(sums.why_not), retry_after);
		return;
	}
	json_object_begin(&body, NULL);
	for (int i = VERDICT_NEW; i < VERDICT_COUNT; i++)
		if (i != VERDICT_SPOOLED || sums.verdicts[i] > 0) /* most gateways never spool */
			json_add_u64(&body, verdict_name((enum verdict)i), sums.verdicts[i]);
	json_add_u64(&body, "refused", sums.refused);
	json_array_begin(&body, "events");
	for (uint32_t i = 0; i < post->count; i++)
		put_item(&body, &post->items[i]);
	json_array_end(&body);
	json_object_end(&body);
	buf_append_char(&body, '\n');
	uint16_t status = batch_status(post, &sums);
	if (body.failed)
		http_respond_problem(post->request, 503, NOT_NOW, retry_after);
	else
		http_respond(post->request,
		             &(struct http_response){
				     .status = status,
				     .content_type = SPAN("application/json"),
				     .headers = status == 503 ? retry_after : SPAN_EMPTY,
				     .body = buf_span(&body),
			     });
	buf_free(&body);
}

void webhook_respond(struct webhook_request *post)
{
	struct source_meters *meters = &post->source->meters[post->webhook->options.thread];
	struct arena arena = post->arena; /* the answer frees the request */

	for (uint32_t i = 0; i < post->count; i++) {
		struct webhook_item *item = &post->items[i];
		/* A copy whose original has its outcome now is not busy any more. */
		if (item->outcome != OUTCOME_NONE && item->admit.verdict == VERDICT_BUSY)
			item->admit.verdict = VERDICT_DUPLICATE;
		count(meters, item);
	}
	if (post->batch)
		respond_batch(post);
	else
		respond_single(post);
	arena_free(&arena);
}
