/* webhook: see webhook.h. Requests become operations; traces, the stream and the answers follow. */
#include "door/webhook/webhook.h"

#include <errno.h>
#include <string.h>

#include "base/histogram.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "codec/ip.h"
#include "codec/json_write.h"
#include "door/webhook/webhook_request.h"
#include "gate/digest.h"
#include "gate/letter.h"
#include "gate/ticket.h"
#include "sys/clock.h"
#include "sys/feed.h"

#define BATCH_ROOM 8u         /* items, at first, */
#define BATCH_ITEM_BYTES 768u /* and one for so many bytes of the body, */
#define BATCH_ROOM_MAX 1024u  /* up to so many */

const size_t webhook_scratch_size = sizeof(struct webhook_request);

/* ---- sets of sources ---- */

static int use_set(struct webhook *webhook, struct source_set *set)
{
	struct webhook_use *use = mem_zalloc(1, sizeof(*use));

	if (!use)
		return -ENOMEM;
	use->set = set;
	use->next = webhook->use;
	webhook->use = use;
	return 0;
}

/* Older sets go when nobody waits who came by them. */
static void drop_unused(struct webhook *webhook)
{
	struct webhook_use **at = &webhook->use->next;

	while (*at) {
		struct webhook_use *use = *at;
		if (use->waiting > 0) {
			at = &use->next;
			continue;
		}
		*at = use->next;
		source_set_release(use->set);
		mem_free(use);
	}
}

void webhook_offer(struct webhook *webhook, struct source_set *set)
{
	source_set_hold(set);
	source_set_release(atomic_exchange(&webhook->offered, set));
}

void webhook_end_waits(struct webhook *webhook)
{
	atomic_store(&webhook->waits_over, true);
}

static void accept_offer(struct webhook *webhook)
{
	struct source_set *set = atomic_exchange(&webhook->offered, NULL);

	if (!set)
		return;
	if (use_set(webhook, set) == 0)
		return;
	/* Without memory for it now: at the next request. */
	struct source_set *none = NULL;
	if (!atomic_compare_exchange_strong(&webhook->offered, &none, set))
		source_set_release(set); /* a newer one came meanwhile */
}

int webhook_init(struct webhook *webhook, const struct webhook_options *options)
{
	*webhook = (struct webhook){ .options = *options };
	webhook->decided_tail = &webhook->decided;
	webhook->answer_us = mem_zalloc(1, sizeof(struct histogram));
	if (!webhook->answer_us || use_set(webhook, options->sources) < 0) {
		mem_free(webhook->answer_us);
		webhook->answer_us = NULL;
		return -ENOMEM;
	}
	source_set_hold(options->sources);
	return 0;
}

void webhook_release(struct webhook *webhook)
{
	while (webhook->use) {
		struct webhook_use *use = webhook->use;
		webhook->use = use->next;
		source_set_release(use->set);
		mem_free(use);
	}
	source_set_release(atomic_exchange(&webhook->offered, NULL));
	webhook->answer_us = mem_free(webhook->answer_us);
	recipe_scratch_free(&webhook->scratch);
	recipe_scratch_free(&webhook->route_scratch);
	buf_free(&webhook->words);
}

/*
 * ---- where an event goes, and what goes with it ----
 *
 * Only for sets with routes: without, standard output gets everything, and nothing but
 * the bytes of the event.
 */

_Static_assert(ROUTE_LEGS_MAX == STORE_LEGS_MAX, "a store keeps as many legs as routes give");

#define DECODED_MAX 2048u /* longer texts are left out */

/* A text's value; empty: it has none that can be read. */
static struct span value_of(struct event_text text, char bytes[static DECODED_MAX])
{
	struct span value = SPAN_EMPTY;
	if (text.coding == EVENT_TEXT_NONE || text.raw.len == 0)
		return value;
	if (text.coding == EVENT_TEXT_PLAIN)
		return text.raw;
	return event_text_value(text, bytes, DECODED_MAX, &value) == 0 ? value : SPAN_EMPTY;
}

static void read_headers(const struct recipe_input *input, struct letter *letter)
{
	static const struct {
		struct span name;
		enum letter_field field;
	} wanted[] = {
		{ { "content-type", 12 }, LETTER_CONTENT_TYPE },
		{ { "traceparent", 11 }, LETTER_TRACEPARENT },
		{ { "tracestate", 10 }, LETTER_TRACESTATE },
	};
	for (uint32_t i = 0; i < input->header_count; i++)
		for (size_t j = 0; j < ARRAY_LEN(wanted); j++)
			if (span_eq_nocase(input->headers[i].name, wanted[j].name))
				letter->texts[wanted[j].field] = input->headers[i].value;
}

static bool says_json(struct span type)
{
	return type.len >= 4 && memmem(type.ptr, type.len, "json", 4) != NULL;
}

/* What is JSON is called so, also if its sender said something else, or the whole
 * batch was of another kind. */
static struct letter make_letter(const struct webhook_request *it, const struct event *event,
                                 const struct recipe_input *input, char (*bytes)[DECODED_MAX])
{
	struct letter letter = { .texts = {
					 [LETTER_ID] = value_of(event->id, bytes[0]),
					 [LETTER_TYPE] = value_of(event->type, bytes[1]),
					 [LETTER_ENTITY] = value_of(event->entity, bytes[2]),
					 [LETTER_TIME] = value_of(event->time, bytes[3]),
					 [LETTER_CORRELATION] = value_of(event->correlation,
		                                                         bytes[4]),
				 } };
	read_headers(input, &letter);
	if (it->batch || (event->json && !says_json(letter.texts[LETTER_CONTENT_TYPE])))
		letter.texts[LETTER_CONTENT_TYPE] = SPAN_EMPTY;
	return letter;
}

static bool keep_letter(struct webhook_request *it, struct store_admit *admit,
                        const struct letter *letter)
{
	char bytes[LETTER_BYTES_MAX];
	bool own = !it->batch; /* the request has room for one that is not too long */
	struct buf out = own ? buf_on(it->letter, sizeof(it->letter))
	                     : buf_on(bytes, sizeof(bytes));
	letter_write(letter, &out);
	if (own && out.failed) {
		own = false;
		out = buf_on(bytes, sizeof(bytes));
		letter_write(letter, &out);
	}
	CHECK(!out.failed);
	admit->letter = own ? buf_span(&out) : arena_copy(&it->arena, buf_span(&out));
	return admit->letter.ptr != NULL || admit->letter.len == 0;
}

static bool keep_legs(struct webhook_request *it, struct store_admit *admit,
                      const struct route_match *match)
{
	struct store_leg *own = it->legs;
	if (it->batch)
		own = arena_alloc(&it->arena, match->count * sizeof(*own));
	if (!own)
		return false;
	for (uint32_t i = 0; i < match->count; i++)
		own[i] = (struct store_leg){ .sink = match->legs[i].sink,
			                     .order = match->legs[i].order };
	admit->legs = own;
	admit->leg_count = match->count;
	return true;
}

static int route_event(struct webhook_request *it, struct webhook_item *item,
                       const struct recipe_input *input, struct error_text *ret_problem)
{
	const struct source_set *set = it->use->set;
	struct route_match match;
	char bytes[5][DECODED_MAX];
	struct recipe_input own = *input;
	own.body = item->admit.payload;
	struct route_question question = { it->source->routes, &item->event, &own };
	int error = route_set_match(set->routes, &it->webhook->route_scratch, &question, &match,
	                            ret_problem);
	if (error != 0)
		return error;
	if (match.count == 0 && item->admit.claim_count == 0)
		return error_fill(ret_problem, ERR_INVALID,
		                  "%s, and it takes no claim, so there is nothing to decide",
		                  match.found ? "the route of this event has no sink"
		                              : "no route matches this event");
	/* Decided and remembered, but there is nobody to deliver it to. */
	item->admit.no_ticket = match.count == 0;
	item->unrouted = !match.found;
	if (match.count == 0)
		return 0;
	struct letter letter = make_letter(it, &item->event, input, bytes);
	bool kept = keep_letter(it, &item->admit, &letter) && keep_legs(it, &item->admit, &match);
	return kept ? 0 : -ENOMEM;
}

/* ---- from a request to operations ---- */

/* Runs inside the store's flush: only notes the decision, so that all answers
 * of a round share one reading of the clock. */
void webhook_decided(struct webhook_request *it)
{
	struct webhook *webhook = it->webhook;

	it->next = NULL;
	*webhook->decided_tail = it;
	webhook->decided_tail = &it->next;
}

static void decided(struct store_op *op)
{
	struct webhook_request *it = op->user;

	CHECK(it->left > 0);
	if (--it->left == 0)
		webhook_decided(it);
}

static bool is_inside(struct span text, const struct buf *buf)
{
	uintptr_t at = (uintptr_t)text.ptr, start = (uintptr_t)buf->ptr;

	return buf->ptr && at >= start && at < start + buf->len;
}

/* Texts of an event that was a string inside another stand in the scratch, which
 * the next event overwrites. */
static bool keep_text(struct webhook_request *it, struct event_text *text)
{
	const struct recipe_scratch *scratch = &it->webhook->scratch;

	for (size_t i = 0; i < ARRAY_LEN(scratch->inner); i++) {
		if (!is_inside(text->raw, &scratch->inner[i]))
			continue;
		text->raw = arena_copy(&it->arena, text->raw);
		return text->raw.ptr != NULL;
	}
	return true;
}

/* A request's events, one after the other. */
struct reading {
	const struct recipe_input *input;
	struct recipe_items items;
	struct recipe_result result;
	struct error_text problem;
	enum recipe_step step;
};

/* What the decision needs; where the event goes is another's. */
static bool fill_admit(struct webhook_request *it, struct webhook_item *item,
                       const struct recipe_result *result)
{
	struct store_admit *admit = &item->admit;
	const struct source *source = it->source;

	item->status = 0;
	item->unrouted = item->awaited = item->unheard = item->released = false;
	item->outcome = OUTCOME_NONE;
	item->event = result->event;
	admit->op = (struct store_op){ .kind = STORE_ADMIT, .done = decided, .user = it };
	admit->no_ticket = false;
	admit->flags = (uint16_t)((result->event.json ? STORE_EVENT_JSON : 0) |
	                          (result->event.line ? STORE_EVENT_LINE : 0));
	admit->claim_count = result->claim_count;
	memcpy(admit->claims, result->claims, result->claim_count * sizeof(result->claims[0]));
	admit->source = result->event.source;
	admit->payload = result->payload;
	admit->letter = SPAN_EMPTY;
	admit->legs = NULL;
	admit->leg_count = 0;
	admit->lease_ms = 0;
	admit->on_conflict = source->options.on_conflict;
	admit->busy_if_open = source->options.wait_ms > 0;
	admit->spool = source->options.spool;
	admit->beyond_limit = false;
	return keep_text(it, &item->event.id) && keep_text(it, &item->event.type);
}

/* 0, -ENOMEM, or ERR_INVALID and a text for the sender. */
static int fill_item(struct webhook_request *it, struct webhook_item *item, struct reading *reading)
{
	if (!fill_admit(it, item, &reading->result))
		return -ENOMEM;
	if (!it->use->set->routes)
		return 0;
	return route_event(it, item, reading->input, &reading->problem);
}

static struct source_meters *meters_of(const struct webhook_request *it)
{
	return &it->source->meters[it->webhook->options.thread];
}

static uint32_t count_decidable(const struct webhook_request *it)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < it->count; i++)
		count += it->items[i].status == 0;
	return count;
}

static void submit_all(struct webhook_request *it)
{
	struct store *store = it->webhook->options.store;

	it->use->waiting++;
	/* A port that is full completes inside submit: the last must be the last. */
	uint32_t submitted = 0, all = it->left;
	for (uint32_t i = 0; submitted < all; i++) {
		if (it->items[i].status != 0)
			continue;
		submitted++;
		store_submit(store, &it->items[i].admit.op);
	}
}

static void refuse(struct webhook_request *it, int error, const char *text)
{
	struct source_meters *meters = meters_of(it);

	arena_free(&it->arena);
	if (error == -ENOMEM) {
		meter_add(&meters->overload, 1);
		http_respond_problem(it->request, 503,
		                     "out of memory for the request; send it again",
		                     SPAN("Retry-After: 1\r\n"));
		return;
	}
	meter_add(&meters->refused, 1);
	bool too_many = it->batch && error == ERR_TOO_LARGE;
	http_respond_problem(it->request, too_many ? 413 : 400, text, SPAN_EMPTY);
}

/* Growing means to copy; so large events have room at once. */
static uint32_t first_room(size_t body_len)
{
	size_t items = body_len / BATCH_ITEM_BYTES + BATCH_ROOM;
	return items < BATCH_ROOM_MAX ? (uint32_t)items : BATCH_ROOM_MAX;
}

/* Room for another item, whose number is it->count; NULL without memory. */
static struct webhook_item *batch_room(struct webhook_request *it, uint32_t *room)
{
	if (it->count == *room) {
		uint32_t more = *room ? *room * 2 : first_room(it->request->body.len);
		struct webhook_item *items = arena_alloc(&it->arena, more * sizeof(*items));
		if (!items)
			return NULL;
		if (it->count > 0)
			memcpy(items, it->items, it->count * sizeof(*items));
		it->items = items;
		*room = more;
	}
	return &it->items[it->count];
}

static bool refuse_item(struct webhook_request *it, struct webhook_item *item,
                        const struct error_text *problem)
{
	meter_add(&meters_of(it)->refused, 1);
	item->status = 400;
	item->problem = arena_copy(&it->arena, span_str(problem->text));
	return item->problem.ptr != NULL;
}

/* One item of a batch is read. 0, or an error for the whole request. */
static int keep_item(struct webhook_request *it, struct webhook_item *item, struct reading *reading)
{
	if (reading->step == RECIPE_BROKEN)
		return reading->items.error;
	it->count++;
	int r = reading->step == RECIPE_EVENT ? fill_item(it, item, reading) : ERR_INVALID;
	if (r == -ENOMEM || (r < 0 && !refuse_item(it, item, &reading->problem)))
		return -ENOMEM;
	return 0;
}

/* The items of a batch, the first of which is read: 0, or an error for the whole request. */
static int read_batch(struct webhook_request *it, struct reading *reading)
{
	uint32_t room = 0;
	int r = 0;

	it->batch = true;
	while (r == 0 && reading->step != RECIPE_END) {
		struct webhook_item *item = batch_room(it, &room);
		if (!item)
			return -ENOMEM;
		if (it->count > 0)
			reading->step = recipe_items_next(&reading->items, &reading->result,
			                                  &reading->problem);
		if (reading->step != RECIPE_END)
			r = keep_item(it, item, reading);
	}
	return r;
}

static int read_one(struct webhook_request *it, struct reading *reading)
{
	if (reading->step != RECIPE_EVENT)
		return reading->items.error;
	it->count = 1;
	it->items = &it->one;
	return fill_item(it, &it->one, reading);
}

static void read_events(struct webhook_request *it)
{
	struct http_request *request = it->request;
	struct recipe_input input = {
		.body = request->body,
		.headers = request->head.headers,
		.header_count = request->head.header_count,
		.path = request->head.path,
		.query = request->head.query,
	};
	struct reading reading; /* large, and written by what follows, but for: */
	reading.input = &input;
	reading.problem.text[0] = '\0';

	recipe_items_begin(&reading.items, it->source->recipe, &it->webhook->scratch, &input);
	reading.step = recipe_items_next(&reading.items, &reading.result, &reading.problem);
	int r = reading.items.batch ? read_batch(it, &reading) : read_one(it, &reading);
	if (r < 0) {
		refuse(it, r, reading.problem.text);
		return;
	}
	it->left = count_decidable(it);
	if (it->left == 0)
		webhook_respond(it); /* a batch of none, or of none that can be decided */
	else
		submit_all(it);
}

/*
 * ---- traces: what is remembered of a decision, so that people can ask why ----
 *
 * An event that was dropped (or would have been) is described in full: the claim, its
 * parts and their values, which are read again from the request. One that passed leaves
 * its id, claims and keys, and only if the log wants it: a few out of many a second.
 */

/* As long as it is; the log cuts what it cannot keep. */
static struct span text_of(struct event_text text, char *bytes, size_t room)
{
	struct span value;

	if (text.coding == EVENT_TEXT_PLAIN)
		return text.raw;
	if (text.coding == EVENT_TEXT_NONE || event_text_value(text, bytes, room, &value) < 0)
		return SPAN_EMPTY;
	return value;
}

static uint8_t claims_of(const struct store_admit *admit, struct trace_claim *ret_claims)
{
	uint8_t count = 0;

	for (uint32_t i = 0; i < admit->claim_count; i++) {
		const struct claim *claim = &admit->claims[i];
		if (claim->kind != CLAIM_NEWEST)
			ret_claims[count++] = (struct trace_claim){ claim->digest.word[0],
				                                    claim->window_s };
	}
	return count;
}

static bool read_words(struct webhook_request *it, const struct webhook_item *item, uint32_t claim,
                       struct recipe_words *ret_words)
{
	struct http_request *request = it->request;
	struct recipe_input input = {
		.body = item->admit.payload,
		.headers = request->head.headers,
		.header_count = request->head.header_count,
		.path = request->head.path,
		.query = request->head.query,
	};

	return recipe_words(it->source->recipe, &it->webhook->scratch, &input, claim,
	                    &it->webhook->words, ret_words);
}

/* Which claim, of which parts with which values. */
static void add_words(struct webhook_request *it, const struct webhook_item *item,
                      struct trace *trace, char room[static TRACE_PARTS_MAX])
{
	struct recipe_words words;

	buf_clear(&it->webhook->words);
	if (!read_words(it, item, trace->matched, &words))
		return;
	trace->rule = words.rule;
	trace->parts = trace_parts(words.parts, room);
	trace->keys[0] = words.key;
}

/* The values of the first claims. Each stands at the end of what was read by then;
 * the memory may move until all are. */
static void add_keys(struct webhook_request *it, const struct webhook_item *item,
                     struct trace *trace)
{
	struct buf *memory = &it->webhook->words;
	size_t ends[TRACE_KEYS_MAX], lens[TRACE_KEYS_MAX];
	struct recipe_words words;
	uint32_t count = 0;

	buf_clear(memory);
	while (count < TRACE_KEYS_MAX && count < item->admit.claim_count &&
	       read_words(it, item, count, &words)) {
		lens[count] = words.key.len;
		ends[count++] = memory->len;
	}
	for (uint32_t i = 0; i < count; i++)
		trace->keys[i] = span_of(memory->ptr + ends[i] - lens[i], lens[i]);
}

/* Only claims of kind once compare what is called an event's content. */
static void add_content(struct trace *trace, const struct claim *matched)
{
	bool same = trace->verdict == VERDICT_DUPLICATE;

	if (trace->content == 0 || matched->kind != CLAIM_ONCE ||
	    (!same && trace->verdict != VERDICT_CONFLICT))
		return;
	/* Of the original only a part of its digest is kept: enough to tell. */
	trace->original_content = same ? trace->content : ~trace->content;
	trace->flags |= TRACE_CONTENT | TRACE_ORIGINAL_CONTENT;
}

static void trace_drop(struct webhook_request *it, const struct webhook_item *item,
                       struct trace *trace)
{
	const struct store_admit *admit = &item->admit;
	/* A conflict that passes is told as what it is, whatever is on trial beside. */
	bool shadow = admit->would != VERDICT_NONE && admit->verdict == VERDICT_NEW;
	char address[IP_TEXT_MAX], parts[TRACE_PARTS_MAX];

	trace->verdict = shadow ? admit->would : admit->verdict;
	trace->matched = (uint8_t)(shadow ? admit->would_matched : admit->matched);
	trace->original = shadow ? admit->would_ticket : admit->ticket;
	trace->flags |= shadow ? TRACE_SHADOW : 0;
	uint64_t since_ms = ticket_time_ms(trace->original);
	trace->gap_ms = trace->time_ms > since_ms ? trace->time_ms - since_ms : 0;
	if (shadow)
		trace->ticket = admit->ticket;
	else if (admit->verdict == VERDICT_CONFLICT)
		trace->ticket = admit->own_ticket;
	if (trace->ticket != 0 && !shadow && admit->on_conflict == STORE_CONFLICT_ASIDE)
		trace->flags |= TRACE_ASIDE;
	ip_format(&it->request->peer->address, address);
	trace->peer = span_str(address);
	add_content(trace, &admit->claims[trace->matched]);
	add_words(it, item, trace, parts);
	trace_log_add(it->webhook->options.traces, trace);
	trace->peer = trace->parts = SPAN_EMPTY;
}

static void trace_item(struct webhook_request *it, const struct webhook_item *item)
{
	const struct store_admit *admit = &item->admit;
	struct trace_log *log = it->webhook->options.traces;
	struct trace_claim claims[CLAIMS_MAX];
	char id[DIGEST_PART_MAX], type[DIGEST_PART_MAX];
	char entity[DIGEST_PART_MAX], correlation[DIGEST_PART_MAX];

	uint8_t claim_count = claims_of(admit, claims);
	bool plain = admit->verdict == VERDICT_SPOOLED ||
	             (admit->verdict == VERDICT_NEW && admit->would == VERDICT_NONE);
	if (plain ? !trace_log_wants_new(log, claims, claim_count)
	          : !trace_log_wants_suppressed(log))
		return;
	struct trace trace = {
		.time_ms = admit->decided_ms,
		.verdict = admit->verdict,
		.flags = item->event.replay ? TRACE_REPLAY : 0,
		.content = item->event.content,
		.source = it->source->name,
		.id = text_of(item->event.id, id, sizeof(id)),
		.type = text_of(item->event.type, type, sizeof(type)),
		.entity = text_of(item->event.entity, entity, sizeof(entity)),
		.correlation = text_of(item->event.correlation, correlation, sizeof(correlation)),
		.claim_count = claim_count,
	};
	memcpy(trace.claims, claims, sizeof(claims[0]) * claim_count);
	if (plain) {
		trace.ticket = admit->ticket;
		add_keys(it, item, &trace);
		trace_log_add(log, &trace);
	} else {
		trace_drop(it, item, &trace);
	}
}

static void trace_items(struct webhook_request *it)
{
	for (uint32_t i = 0; i < it->count; i++)
		if (it->items[i].status == 0 && it->items[i].admit.op.error == 0)
			trace_item(it, &it->items[i]);
}

/* ---- the stream of decisions ---- */

#define STREAM_MESSAGE_MAX \
	(16u << 10) /* a message of every event fits: texts are DIGEST_PART_MAX */

static void put_text(struct buf *out, const char *name, struct event_text text)
{
	char bytes[DIGEST_PART_MAX];
	struct span value = text.raw;
	if (text.coding == EVENT_TEXT_NONE ||
	    (text.coding != EVENT_TEXT_PLAIN &&
	     event_text_value(text, bytes, sizeof(bytes), &value) < 0))
		return;
	json_add_text(out, name, value);
}

static void publish_item(const struct webhook_request *it, const struct webhook_item *item)
{
	const struct store_admit *admit = &item->admit;
	char bytes[STREAM_MESSAGE_MAX];
	struct buf out = buf_on(bytes, sizeof(bytes));
	buf_append_span(&out, SPAN("event: decision\ndata: "));
	json_object_begin(&out, NULL);
	json_add_time(&out, "time", admit->decided_ms);
	json_add_text(&out, "source", it->source->name);
	json_add_string(&out, "verdict", verdict_name(admit->verdict));
	ticket_add(&out, "ticket", admit->ticket);
	put_text(&out, "id", item->event.id);
	put_text(&out, "type", item->event.type);
	json_object_end(&out);
	buf_append_span(&out, SPAN("\n\n"));
	if (!out.failed)
		feed_say(it->webhook->options.feed, buf_span(&out));
}

static void publish_items(const struct webhook_request *it)
{
	for (uint32_t i = 0; i < it->count; i++)
		if (it->items[i].status == 0 && it->items[i].admit.op.error == 0)
			publish_item(it, &it->items[i]);
}

/* ---- who may send ---- */

bool webhook_wants_body(const struct webhook *webhook, const struct http_request *request)
{
	if (request->head.method != HTTP1_POST)
		return false;
	/* A new set that waits for its first request may want any. */
	if (atomic_load_explicit(&webhook->offered, memory_order_relaxed))
		return true;
	const struct source *source = source_find(webhook->use->set, request->head.path);
	return source && trust_head(source->auth, request);
}

bool webhook_handle(struct webhook *webhook, struct http_request *request)
{
	if (unlikely(atomic_load_explicit(&webhook->offered, memory_order_relaxed)))
		accept_offer(webhook);
	const struct source *source = source_find(webhook->use->set, request->head.path);
	if (!source)
		return false;
	if (request->head.method != HTTP1_POST) {
		http_respond_problem(request, 405, "method not allowed: use POST",
		                     SPAN("Allow: POST\r\n"));
		return true;
	}
	const struct trust trust = { .auth = source->auth,
		                     .source = source->name,
		                     .meters = &source->meters[webhook->options.thread] };
	if (!trust_request(&trust, request))
		return true;
	if (request->unread) {
		/* Other sources than these were asked whether they want the body. */
		http_respond_problem(request, 503,
		                     "the configuration has just changed; send the request again",
		                     SPAN("Retry-After: 1\r\n"));
		return true;
	}
	struct webhook_request *it = request->scratch;
	it->webhook = webhook;
	it->use = webhook->use;
	it->source = source;
	it->request = request;
	it->arena = (struct arena){ .blocks = NULL };
	it->batch = false;
	it->waited = false;
	it->count = 0;
	it->items = NULL;
	read_events(it);
	return true;
}

/* ---- answers ---- */

/* True: its sender waits for what comes of its events. */
static bool goes_on(struct webhook_request *it)
{
	if (it->waited)
		return false;
	if (it->webhook->options.traces)
		trace_items(it);
	if (unlikely(feed_heard(it->webhook->options.feed)))
		publish_items(it);
	return it->source->options.wait_ms > 0 &&
	       webhook_await(it, clock_read(clock_system()).boot_ms);
}

static void answer(struct webhook_request *it, uint64_t now_ns)
{
	struct webhook_use *use = it->use;
	uint64_t arrived_ns = it->request->arrived_ns;

	histogram_record(it->webhook->answer_us,
	                 now_ns > arrived_ns ? (now_ns - arrived_ns) / 1000 : 0);
	webhook_respond(it); /* frees the request */
	use->waiting--;
}

void webhook_answer(struct webhook *webhook, uint64_t now_ns)
{
	struct webhook_request *it = webhook->decided;

	webhook->decided = NULL;
	webhook->decided_tail = &webhook->decided;
	while (it) {
		struct webhook_request *next = it->next;
		if (!goes_on(it))
			answer(it, now_ns);
		it = next;
	}
	if (unlikely(webhook->use->next))
		drop_unused(webhook);
}
