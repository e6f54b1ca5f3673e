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
#include "gate/metadata.h"
#include "gate/ticket.h"
#include "sys/clock.h"
#include "sys/feed.h"

/* Items of a batch at first: BATCH_ROOM, and one for each BATCH_ITEM_BYTES of the body. */
#define BATCH_ROOM 8u
#define BATCH_ITEM_BYTES 768u
#define BATCH_ROOM_MAX 1024u

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

/* Releases older sets that no waiting request uses. */
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
	/* Out of memory: try again with the next request. */
	struct source_set *none = NULL;
	if (!atomic_compare_exchange_strong(&webhook->offered, &none, set))
		source_set_release(set); /* a newer set was offered meanwhile */
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
 * Only for sets with routes. Without routes every event goes to standard output, and only
 * the bytes of the event.
 */

_Static_assert(ROUTE_LEGS_MAX == STORE_LEGS_MAX, "a store keeps as many legs as routes give");

#define DECODED_MAX 2048u /* longer texts are left out */

/* A text's value; empty if it has none or cannot be decoded. */
static struct span value_of(struct event_text text, char bytes[static DECODED_MAX])
{
	struct span value = SPAN_EMPTY;
	if (text.coding == EVENT_TEXT_NONE || text.raw.len == 0)
		return value;
	if (text.coding == EVENT_TEXT_PLAIN)
		return text.raw;
	return event_text_value(text, bytes, DECODED_MAX, &value) == 0 ? value : SPAN_EMPTY;
}

static void read_headers(const struct recipe_input *input, struct metadata *metadata)
{
	static const struct {
		struct span name;
		enum metadata_field field;
	} wanted[] = {
		{ { "content-type", 12 }, METADATA_CONTENT_TYPE },
		{ { "traceparent", 11 }, METADATA_TRACEPARENT },
		{ { "tracestate", 10 }, METADATA_TRACESTATE },
	};
	for (uint32_t i = 0; i < input->header_count; i++)
		for (size_t j = 0; j < ARRAY_LEN(wanted); j++)
			if (span_eq_nocase(input->headers[i].name, wanted[j].name))
				metadata->texts[wanted[j].field] = input->headers[i].value;
}

/* The content type of a JSON event is JSON, whatever its sender wrote; that of a batch is
 * not the type of its events. Empty: the type follows from the event. */
static struct metadata make_metadata(const struct webhook_request *post, const struct event *event,
                                     const struct recipe_input *input, char (*bytes)[DECODED_MAX])
{
	struct metadata metadata = { .texts = {
					     [METADATA_ID] = value_of(event->id, bytes[0]),
					     [METADATA_TYPE] = value_of(event->type, bytes[1]),
					     [METADATA_ENTITY] = value_of(event->entity, bytes[2]),
					     [METADATA_TIME] = value_of(event->time, bytes[3]),
					     [METADATA_CORRELATION] = value_of(event->correlation,
		                                                               bytes[4]),
				     } };
	read_headers(input, &metadata);
	struct span type = metadata.texts[METADATA_CONTENT_TYPE];
	bool json = type.len >= 4 && memmem(type.ptr, type.len, "json", 4);
	if (post->batch || (event->json && !json))
		metadata.texts[METADATA_CONTENT_TYPE] = SPAN_EMPTY;
	return metadata;
}

static bool keep_metadata(struct webhook_request *post, struct store_admit *admit,
                          const struct metadata *metadata)
{
	char bytes[METADATA_BYTES_MAX];
	bool own = !post->batch; /* the request has room for one that is not too long */
	struct buf out = own ? buf_on(post->metadata, sizeof(post->metadata))
	                     : buf_on(bytes, sizeof(bytes));
	metadata_write(metadata, &out);
	if (own && out.failed) {
		own = false;
		out = buf_on(bytes, sizeof(bytes));
		metadata_write(metadata, &out);
	}
	CHECK(!out.failed);
	admit->metadata = own ? buf_span(&out) : arena_copy(&post->arena, buf_span(&out));
	return admit->metadata.ptr != NULL || admit->metadata.len == 0;
}

static bool keep_legs(struct webhook_request *post, struct store_admit *admit,
                      const struct route_match *match)
{
	struct store_leg *own = post->legs;
	if (post->batch)
		own = arena_alloc(&post->arena, match->count * sizeof(*own));
	if (!own)
		return false;
	for (uint32_t i = 0; i < match->count; i++)
		own[i] = (struct store_leg){ .sink = match->legs[i].sink,
			                     .order = match->legs[i].order };
	admit->legs = own;
	admit->leg_count = match->count;
	return true;
}

static int route_event(struct webhook_request *post, struct webhook_item *item,
                       const struct recipe_input *input, struct error_text *ret_problem)
{
	const struct source_set *set = post->use->set;
	struct route_match match;
	char bytes[5][DECODED_MAX];
	struct recipe_input own = *input;
	own.body = item->admit.payload;
	struct route_question question = { post->source->routes, &item->event, &own };
	int error = route_set_match(set->routes, &post->webhook->route_scratch, &question, &match,
	                            ret_problem);
	if (error != 0)
		return error;
	if (match.count == 0 && item->admit.claim_count == 0)
		return error_fill(ret_problem, ERR_INVALID,
		                  "%s, and it takes no claim, so there is nothing to decide",
		                  match.found ? "the route of this event has no sink"
		                              : "no route matches this event");
	/* Decided and remembered, but not delivered. */
	item->admit.no_ticket = match.count == 0;
	item->unrouted = !match.found;
	if (match.count == 0)
		return 0;
	struct metadata metadata = make_metadata(post, &item->event, input, bytes);
	bool kept = keep_metadata(post, &item->admit, &metadata) &&
	            keep_legs(post, &item->admit, &match);
	return kept ? 0 : -ENOMEM;
}

/* ---- from a request to operations ---- */

/* Runs inside the store's flush: it only queues the request, so that all answers of a
 * round share one reading of the clock. */
void webhook_item_done(struct webhook_request *post)
{
	struct webhook *webhook = post->webhook;

	CHECK(post->left > 0);
	if (--post->left > 0)
		return;
	post->next = NULL;
	*webhook->decided_tail = post;
	webhook->decided_tail = &post->next;
}

static void decided(struct store_op *op)
{
	webhook_item_done(op->user);
}

static bool is_inside(struct span text, const struct buf *buf)
{
	uintptr_t at = (uintptr_t)text.ptr, start = (uintptr_t)buf->ptr;

	return buf->ptr && at >= start && at < start + buf->len;
}

/* The texts of an event that was a string inside another event are in the scratch, which
 * the next event overwrites: copy them. */
static bool keep_text(struct webhook_request *post, struct event_text *text)
{
	const struct recipe_scratch *scratch = &post->webhook->scratch;

	for (size_t i = 0; i < ARRAY_LEN(scratch->inner); i++) {
		if (!is_inside(text->raw, &scratch->inner[i]))
			continue;
		text->raw = arena_copy(&post->arena, text->raw);
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

/* 0, -ENOMEM, or ERR_INVALID and a text for the sender. */
static int fill_item(struct webhook_request *post, struct webhook_item *item,
                     struct reading *reading)
{
	const struct recipe_result *result = &reading->result;
	struct store_admit *admit = &item->admit;
	const struct source *source = post->source;

	item->status = 0;
	item->unrouted = item->awaited = item->unheard = item->released = false;
	item->outcome = OUTCOME_NONE;
	item->event = result->event;
	admit->op = (struct store_op){ .kind = STORE_ADMIT, .done = decided, .user = post };
	admit->no_ticket = false;
	admit->flags = (uint16_t)((result->event.json ? STORE_EVENT_JSON : 0) |
	                          (result->event.line ? STORE_EVENT_LINE : 0));
	admit->claim_count = result->claim_count;
	memcpy(admit->claims, result->claims, result->claim_count * sizeof(result->claims[0]));
	admit->source = result->event.source;
	admit->payload = result->payload;
	admit->metadata = SPAN_EMPTY;
	admit->legs = NULL;
	admit->leg_count = 0;
	admit->lease_ms = 0;
	admit->on_conflict = source->options.on_conflict;
	admit->busy_if_open = source->options.wait_ms > 0;
	admit->spool = source->options.spool;
	admit->beyond_limit = false;
	if (!keep_text(post, &item->event.id) || !keep_text(post, &item->event.type))
		return -ENOMEM;
	if (!post->use->set->routes)
		return 0;
	return route_event(post, item, reading->input, &reading->problem);
}

static struct source_meters *meters_of(const struct webhook_request *post)
{
	return &post->source->meters[post->webhook->options.thread];
}

static void submit_all(struct webhook_request *post)
{
	struct store *store = post->webhook->options.store;

	post->use->waiting++;
	/* A full port completes an operation inside submit, and the last completion may free
	 * the request: count instead of reading it after the last submit. */
	uint32_t submitted = 0, all = post->left;
	for (uint32_t i = 0; submitted < all; i++) {
		if (post->items[i].status != 0)
			continue;
		submitted++;
		store_submit(store, &post->items[i].admit.op);
	}
}

static void refuse(struct webhook_request *post, int error, const char *text)
{
	struct source_meters *meters = meters_of(post);

	arena_free(&post->arena);
	if (error == -ENOMEM) {
		meter_add(&meters->overload, 1);
		http_respond_problem(post->request, 503,
		                     "out of memory for the request; send it again",
		                     SPAN("Retry-After: 1\r\n"));
		return;
	}
	meter_add(&meters->refused, 1);
	bool too_many = post->batch && error == ERR_TOO_LARGE;
	http_respond_problem(post->request, too_many ? 413 : 400, text, SPAN_EMPTY);
}

/* The next item, number post->count; NULL without memory. The array is moved when it
 * grows, so a large body has many items at once. */
static struct webhook_item *batch_room(struct webhook_request *post, uint32_t *room)
{
	if (post->count == *room) {
		size_t first = post->request->body.len / BATCH_ITEM_BYTES + BATCH_ROOM;
		uint32_t more = first < BATCH_ROOM_MAX ? (uint32_t)first : BATCH_ROOM_MAX;
		if (*room > 0)
			more = *room * 2;
		struct webhook_item *items = arena_alloc(&post->arena, more * sizeof(*items));
		if (!items)
			return NULL;
		if (post->count > 0)
			memcpy(items, post->items, post->count * sizeof(*items));
		post->items = items;
		*room = more;
	}
	return &post->items[post->count];
}

/* One item of a batch is read. 0, or an error for the whole request. */
static int keep_item(struct webhook_request *post, struct webhook_item *item,
                     struct reading *reading)
{
	if (reading->step == RECIPE_BROKEN)
		return reading->items.error;
	post->count++;
	int r = reading->step == RECIPE_EVENT ? fill_item(post, item, reading) : ERR_INVALID;
	if (r == 0 || r == -ENOMEM)
		return r;
	meter_add(&meters_of(post)->refused, 1);
	item->status = 400;
	item->problem = arena_copy(&post->arena, span_str(reading->problem.text));
	return item->problem.ptr ? 0 : -ENOMEM;
}

/* The items of a batch, the first of which is read: 0, or an error for the whole request. */
static int read_batch(struct webhook_request *post, struct reading *reading)
{
	uint32_t room = 0;
	int r = 0;

	post->batch = true;
	while (r == 0 && reading->step != RECIPE_END) {
		struct webhook_item *item = batch_room(post, &room);
		if (!item)
			return -ENOMEM;
		if (post->count > 0)
			reading->step = recipe_items_next(&reading->items, &reading->result,
			                                  &reading->problem);
		if (reading->step != RECIPE_END)
			r = keep_item(post, item, reading);
	}
	return r;
}

static void read_events(struct webhook_request *post)
{
	struct http_request *request = post->request;
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

	recipe_items_begin(&reading.items, post->source->recipe, &post->webhook->scratch, &input);
	reading.step = recipe_items_next(&reading.items, &reading.result, &reading.problem);
	int r = reading.items.error;
	if (reading.items.batch) {
		r = read_batch(post, &reading);
	} else if (reading.step == RECIPE_EVENT) {
		post->count = 1;
		post->items = &post->one;
		r = fill_item(post, &post->one, &reading);
	}
	if (r < 0) {
		refuse(post, r, reading.problem.text);
		return;
	}
	post->left = 0;
	for (uint32_t i = 0; i < post->count; i++)
		post->left += post->items[i].status == 0;
	if (post->left == 0)
		webhook_respond(post); /* a batch of none, or of none that can be decided */
	else
		submit_all(post);
}

/*
 * ---- traces: the records of decisions that `stile why` reads ----
 *
 * An event that was dropped (or would have been) is described in full: the claim, its
 * parts and their values, which are read again from the request. Of one that passed the id,
 * claims and keys are kept, and only if the log samples it.
 */

/* The whole text; the log cuts what it cannot keep. */
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

static bool read_words(struct webhook_request *post, const struct webhook_item *item,
                       uint32_t claim, struct recipe_words *ret_words)
{
	struct http_request *request = post->request;
	struct recipe_input input = {
		.body = item->admit.payload,
		.headers = request->head.headers,
		.header_count = request->head.header_count,
		.path = request->head.path,
		.query = request->head.query,
	};

	return recipe_words(post->source->recipe, &post->webhook->scratch, &input, claim,
	                    &post->webhook->words, ret_words);
}

/* The values of the first claims, all in one buffer. It may move while it grows, so the
 * spans are made at the end. */
static void add_keys(struct webhook_request *post, const struct webhook_item *item,
                     struct trace *trace)
{
	struct buf *memory = &post->webhook->words;
	size_t ends[TRACE_KEYS_MAX], lens[TRACE_KEYS_MAX];
	struct recipe_words words;
	uint32_t count = 0;

	buf_clear(memory);
	while (count < TRACE_KEYS_MAX && count < item->admit.claim_count &&
	       read_words(post, item, count, &words)) {
		lens[count] = words.key.len;
		ends[count++] = memory->len;
	}
	for (uint32_t i = 0; i < count; i++)
		trace->keys[i] = span_of(memory->ptr + ends[i] - lens[i], lens[i]);
}

/* Only claims of the kind `once` compare the content of events. */
static void add_content(struct trace *trace, const struct claim *matched)
{
	bool same = trace->verdict == VERDICT_DUPLICATE;

	if (trace->content == 0 || matched->kind != CLAIM_ONCE ||
	    (!same && trace->verdict != VERDICT_CONFLICT))
		return;
	/* The store keeps only a part of the original's digest, which tells same from other. */
	trace->original_content = same ? trace->content : ~trace->content;
	trace->flags |= TRACE_CONTENT | TRACE_ORIGINAL_CONTENT;
}

static void trace_drop(struct webhook_request *post, const struct webhook_item *item,
                       struct trace *trace)
{
	const struct store_admit *admit = &item->admit;
	/* A conflict that passes is traced as a conflict, whatever a shadow claim says. */
	bool shadow = admit->would != VERDICT_NONE && admit->verdict == VERDICT_NEW;
	char address[IP_TEXT_MAX], parts[TRACE_PARTS_MAX];
	struct recipe_words words;

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
	ip_format(&post->request->peer->address, address);
	trace->peer = span_str(address);
	add_content(trace, &admit->claims[trace->matched]);
	buf_clear(&post->webhook->words);
	if (read_words(post, item, trace->matched, &words)) {
		trace->rule = words.rule;
		trace->parts = trace_parts(words.parts, parts);
		trace->keys[0] = words.key;
	}
	trace_log_add(post->webhook->options.traces, trace);
	trace->peer = trace->parts = SPAN_EMPTY;
}

static void trace_item(struct webhook_request *post, const struct webhook_item *item)
{
	const struct store_admit *admit = &item->admit;
	struct trace_log *log = post->webhook->options.traces;
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
		.source = post->source->name,
		.id = text_of(item->event.id, id, sizeof(id)),
		.type = text_of(item->event.type, type, sizeof(type)),
		.entity = text_of(item->event.entity, entity, sizeof(entity)),
		.correlation = text_of(item->event.correlation, correlation, sizeof(correlation)),
		.claim_count = claim_count,
	};
	memcpy(trace.claims, claims, sizeof(claims[0]) * claim_count);
	if (plain) {
		trace.ticket = admit->ticket;
		add_keys(post, item, &trace);
		trace_log_add(log, &trace);
	} else {
		trace_drop(post, item, &trace);
	}
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

static void publish_item(const struct webhook_request *post, const struct webhook_item *item)
{
	const struct store_admit *admit = &item->admit;
	char bytes[STREAM_MESSAGE_MAX];
	struct buf out = buf_on(bytes, sizeof(bytes));
	buf_append_span(&out, SPAN("event: decision\ndata: "));
	json_object_begin(&out, NULL);
	json_add_time(&out, "time", admit->decided_ms);
	json_add_text(&out, "source", post->source->name);
	json_add_string(&out, "verdict", verdict_name(admit->verdict));
	ticket_add(&out, "ticket", admit->ticket);
	put_text(&out, "id", item->event.id);
	put_text(&out, "type", item->event.type);
	json_object_end(&out);
	buf_append_span(&out, SPAN("\n\n"));
	if (!out.failed)
		feed_say(post->webhook->options.feed, buf_span(&out));
}

/* ---- who may send ---- */

bool webhook_wants_body(const struct webhook *webhook, const struct http_request *request)
{
	if (request->head.method != HTTP1_POST)
		return false;
	/* A new set, not used yet, may have a source there. */
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
		/* The set changed after webhook_wants_body() had refused the body. */
		http_respond_problem(request, 503,
		                     "the configuration has just changed; send the request again",
		                     SPAN("Retry-After: 1\r\n"));
		return true;
	}
	struct webhook_request *post = request->scratch;
	post->webhook = webhook;
	post->use = webhook->use;
	post->source = source;
	post->request = request;
	post->arena = (struct arena){ .blocks = NULL };
	post->batch = false;
	post->waited = false;
	post->count = 0;
	post->items = NULL;
	read_events(post);
	return true;
}

/* ---- answers ---- */

/* Traces the decisions and puts them into the stream. */
static void record_decisions(struct webhook_request *post)
{
	const struct webhook_options *options = &post->webhook->options;
	bool heard = unlikely(feed_heard(options->feed));
	for (uint32_t i = 0; i < post->count; i++) {
		const struct webhook_item *item = &post->items[i];
		if (item->status != 0 || item->admit.op.error != 0)
			continue;
		if (options->traces)
			trace_item(post, item);
		if (heard)
			publish_item(post, item);
	}
}

void webhook_answer(struct webhook *webhook, uint64_t now_ns)
{
	struct webhook_request *post = webhook->decided;

	webhook->decided = NULL;
	webhook->decided_tail = &webhook->decided;
	while (post) {
		struct webhook_request *next = post->next;
		bool first = !post->waited;
		if (first)
			record_decisions(post);
		/* Its sender may wait for the outcome of its events. */
		if (!first || post->source->options.wait_ms == 0 ||
		    !webhook_await(post, clock_read(clock_system()).boot_ms)) {
			struct webhook_use *use = post->use;
			uint64_t arrived_ns = post->request->arrived_ns;
			histogram_record(webhook->answer_us,
			                 now_ns > arrived_ns ? (now_ns - arrived_ns) / 1000 : 0);
			webhook_respond(post); /* frees the request */
			use->waiting--;
		}
		post = next;
	}
	if (unlikely(webhook->use->next))
		drop_unused(webhook);
}
