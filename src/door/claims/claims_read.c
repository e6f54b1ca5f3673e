/*
 * claims_read: from the body of a POST to admissions.
 *
 * A body is one claim, an array of them, or NDJSON. What is wrong with one claim of
 * several is that one's; what is wrong with the text is everyone's.
 */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "codec/http1.h"
#include "codec/json_write.h"
#include "door/claims/claims_internal.h"
#include "gate/ticket.h"
#include "sys/clock.h"

#define WINDOW_MIN_MS 1000u
#define WINDOW_MAX_MS (UINT64_C(3650) * 86400000)
#define ITEMS_ROOM 16u

/* The whole reading of one body. */
struct reading {
	struct claims_request *it;
	const struct source_set *set;
	struct json_doc doc;
	struct span text; /* that it is of */
	struct error_text *problem;
	uint32_t room; /* of it->items */
};

/* One that nobody reads may be one that was meant otherwise: "ttl" for "window". */
int claims_expect_members(struct span object, const char *const *names,
                          struct error_text *ret_problem)
{
	char bytes[64];
	struct span name, value;

	while (json_member_next(&object, &name, &value)) {
		const char *const *known = names;
		size_t len = 0;
		if (json_decode(name, bytes, sizeof(bytes), &len) < 0)
			len = 0;
		while (*known && !span_eq(span_str(*known), span_of(bytes, len)))
			known++;
		if (!*known)
			return error_fill(ret_problem, ERR_INVALID,
			                  "there is no member \"%.*s\" here; expected %s",
			                  (int)(name.len < 64 ? name.len : 64), name.ptr, *names);
	}
	return 0;
}

int claims_scan(const struct claims *claims, struct span body, struct json_doc *doc,
                struct error_text *ret_problem)
{
	int r = json_scan(body, &claims->plan->plan, doc);

	if (r == 0 && doc->root != JSON_OBJECT)
		return error_fill(ret_problem, ERR_INVALID, "expected a JSON object, found %s",
		                  json_type_name(doc->root));
	if (r < 0)
		return error_fill(ret_problem, r,
		                  "expected JSON; at byte %zu of the body: expected %s",
		                  doc->problem.offset, doc->problem.expected);
	return 0;
}

int claims_read_time(const struct json_value *value, const char *name, uint64_t min_ms,
                     uint64_t max_ms, uint64_t *ret_ms, struct error_text *ret_problem)
{
	char least[TEXT_DURATION_MAX], most[TEXT_DURATION_MAX];
	uint64_t ms = 0;

	if (value->type == JSON_NONE || value->type == JSON_NULL)
		return 0;
	text_duration(least, min_ms);
	text_duration(most, max_ms);
	if (value->type != JSON_STRING || text_parse_duration(value->text, &ms, NULL) < 0 ||
	    ms < min_ms || ms > max_ms)
		return error_fill(ret_problem, ERR_INVALID,
		                  "expected a time from %s to %s in %s, such as \"30s\"", least,
		                  most, name);
	*ret_ms = ms;
	return 0;
}

static struct json_value value_of(const struct reading *reading, uint8_t node)
{
	return json_get(&reading->doc, node);
}

/* A string's value; empty if it is not there. */
static int read_text(struct reading *reading, uint8_t node, const char *name, struct span *ret_text)
{
	struct json_value value = value_of(reading, node);
	size_t len;

	*ret_text = SPAN_EMPTY;
	if (value.type == JSON_NONE)
		return 0;
	if (value.type != JSON_STRING)
		return error_fill(reading->problem, ERR_INVALID,
		                  "expected a string in %s, found %s", name,
		                  json_type_name(value.type));
	*ret_text = value.text;
	if (!value.escaped || value.text.len == 0)
		return 0;
	char *bytes = arena_alloc(&reading->it->arena, value.text.len);
	if (!bytes)
		return -ENOMEM;
	int r = json_decode(value.text, bytes, value.text.len, &len);
	*ret_text = span_of(bytes, len);
	return r;
}

/* ---- a key ---- */

static struct span raw_of(const struct json_value *value)
{
	return value->type == JSON_STRING ? span_of(value->text.ptr - 1, value->text.len + 2)
	                                  : value->text;
}

/* What lists of tickets show of it. */
static int put_payload(struct reading *reading, struct store_admit *admit, struct span scope,
                       const struct json_value *key)
{
	struct buf out = { 0 };

	json_object_begin(&out, NULL);
	json_add_text(&out, "scope", scope.len ? scope : KEY_CLAIM_SCOPE);
	json_add_raw(&out, "key", raw_of(key));
	json_object_end(&out);
	admit->payload = out.failed ? SPAN_EMPTY : arena_copy(&reading->it->arena, buf_span(&out));
	buf_free(&out);
	return admit->payload.ptr ? 0 : -ENOMEM;
}

static int read_key(struct reading *reading, struct claims_item *item)
{
	struct claims *claims = reading->it->claims;
	const struct claims_plan *plan = claims->plan;
	struct key_claim key = { .key = value_of(reading, plan->key),
		                 .payload = value_of(reading, plan->payload),
		                 .payload_digest = value_of(reading, plan->payload_digest) };
	struct json_value window = value_of(reading, plan->window);
	struct store_admit *admit = &item->admit;
	uint64_t window_ms = (uint64_t)reading->it->rules.options.window_s * 1000;

	int r = read_text(reading, plan->scope, "scope", &key.scope);
	if (r == 0)
		r = claims_read_time(&window, "window", WINDOW_MIN_MS, WINDOW_MAX_MS, &window_ms,
		                     reading->problem);
	if (r == 0)
		r = key_claim_digest(&key, claims->options.key, &claims->key_scratch,
		                     &admit->claims[0].digest, reading->problem);
	if (r < 0)
		return r;
	admit->claim_count = 1;
	admit->claims[0].window_s = (uint32_t)((window_ms + 999) / 1000);
	admit->source = SOURCE_CLAIMS_NAME;
	item->meters = &reading->it->rules.meters[claims->options.thread];
	item->content = digest_check(&admit->claims[0].digest);
	item->id = item->key_text = key.key.text;
	return put_payload(reading, admit, key.scope, &key.key);
}

/* ---- an event and a source's recipe ---- */

static int keep_text(struct reading *reading, struct event_text text, struct span *ret_text)
{
	char bytes[DIGEST_PART_MAX];
	struct span value;

	if (text.coding == EVENT_TEXT_NONE ||
	    event_text_value(text, bytes, sizeof(bytes), &value) < 0)
		return 0;
	*ret_text = arena_copy(&reading->it->arena, value);
	return ret_text->ptr ? 0 : -ENOMEM;
}

/* The recipe may look at headers: whoever claims can send on those that it got. */
static int run_recipe(struct reading *reading, const struct source *source, struct span event,
                      struct recipe_result *ret_result)
{
	const struct http1_head *head = &reading->it->request->head;
	struct recipe_input input = {
		.body = event,
		.headers = head->headers,
		.header_count = head->header_count,
		.path = source->path,
		.query = head->query,
	};

	return recipe_run(source->recipe, &reading->it->claims->recipe_scratch, &input, ret_result,
	                  reading->problem);
}

static int read_event(struct reading *reading, struct claims_item *item)
{
	const struct claims_plan *plan = reading->it->claims->plan;
	struct json_value event = value_of(reading, plan->event);
	struct store_admit *admit = &item->admit;
	struct recipe_result result;
	struct span name;

	int r = read_text(reading, plan->source, "source", &name);
	if (r < 0)
		return r;
	const struct source *source = source_named(reading->set, name);
	if (!source)
		return error_fill(reading->problem, ERR_INVALID, "no such source");
	if (event.type != JSON_OBJECT)
		return error_fill(reading->problem, ERR_INVALID,
		                  "expected an object in event, found %s",
		                  json_type_name(event.type));
	r = run_recipe(reading, source, event.text, &result);
	if (r < 0)
		return r;
	admit->claim_count = result.claim_count;
	memcpy(admit->claims, result.claims, sizeof(result.claims));
	admit->source = arena_copy(&reading->it->arena, source->name);
	admit->payload = event.text;
	item->meters = &source->meters[reading->it->claims->options.thread];
	item->content = result.event.content;
	r = keep_text(reading, result.event.id, &item->id);
	if (r == 0)
		r = keep_text(reading, result.event.type, &item->type);
	return admit->source.ptr ? r : -ENOMEM;
}

/* ---- one claim ---- */

static uint32_t longest_window_s(const struct store_admit *admit)
{
	uint32_t longest = 1;

	for (uint32_t i = 0; i < admit->claim_count; i++)
		if (admit->claims[i].window_s > longest)
			longest = admit->claims[i].window_s;
	return longest;
}

/* The store rounds windows up by 1/256 at most, and a second is lost to the clock. */
static uint32_t whole_window_s(const struct store_admit *admit)
{
	uint64_t window_s = longest_window_s(admit);
	uint64_t whole_s = window_s + window_s / 256 + 2;

	return whole_s < UINT32_MAX ? (uint32_t)whole_s : UINT32_MAX;
}

uint64_t claims_window_end_ms(uint64_t ticket, uint64_t whole_s)
{
	uint64_t window_ms = whole_s > 2 ? (whole_s - 2) * 1000 * 256 / 257 : 0;

	return ticket_time_ms(ticket) + window_ms;
}

/* What is leased must not be forgotten meanwhile: another would get it too. */
static void outlast_lease(struct store_admit *admit, uint64_t lease_ms)
{
	uint32_t lease_s = (uint32_t)((lease_ms + 999) / 1000);

	for (uint32_t i = 0; i < admit->claim_count; i++)
		if (admit->claims[i].window_s < lease_s)
			admit->claims[i].window_s = lease_s;
}

/* The first is what is told of all. */
static const char *const of_key[] = {
	"key, scope, payload, payload_digest, window, lease",
	"key",
	"scope",
	"payload",
	"payload_digest",
	"window",
	"lease",
	NULL,
};
static const char *const of_source[] = {
	"source, event, lease", "source", "event", "lease", NULL,
};

static int read_claim(struct reading *reading, struct claims_item *item)
{
	struct claims_request *it = reading->it;
	const struct claims_plan *plan = it->claims->plan;
	struct json_value lease = value_of(reading, plan->lease);
	uint64_t lease_ms = it->rules.options.lease_ms;
	bool by_source = value_of(reading, plan->source).type != JSON_NONE;

	int r = claims_read_time(&lease, "lease", CLAIMS_LEASE_MIN_MS, CLAIMS_LEASE_MAX_MS,
	                         &lease_ms, reading->problem);
	if (r < 0)
		return r;
	if (by_source && value_of(reading, plan->key).type != JSON_NONE)
		return error_fill(reading->problem, ERR_INVALID,
		                  "found key and source, expected one of them");
	r = claims_expect_members(reading->text, by_source ? of_source : of_key, reading->problem);
	if (r < 0)
		return r;
	r = by_source ? read_event(reading, item) : read_key(reading, item);
	if (r < 0)
		return r;
	outlast_lease(&item->admit, lease_ms);
	item->lease_ms = (uint32_t)lease_ms;
	item->window_s = whole_window_s(&item->admit);
	item->leg = (struct store_leg){ .sink = STORE_SINK_CALLER,
		                        .order = (uint64_t)item->window_s * 1000 };
	item->admit.lease_ms = item->lease_ms;
	item->admit.busy_if_open = true;
	item->admit.on_conflict = STORE_CONFLICT_REJECT;
	item->admit.flags = STORE_EVENT_JSON;
	return 0;
}

/* ---- several ---- */

/* The array moves when it grows: nothing points into it before all are read. */
static struct claims_item *next_item(struct reading *reading)
{
	struct claims_request *it = reading->it;

	if (it->count == reading->room) {
		uint32_t room = reading->room ? reading->room * 2 : ITEMS_ROOM;
		struct claims_item *items = arena_alloc(&it->arena, room * sizeof(*items));
		if (!items)
			return NULL;
		if (it->count > 0)
			memcpy(items, it->items, it->count * sizeof(*items));
		it->items = items;
		reading->room = room;
	}
	it->items[it->count].it = it;
	return &it->items[it->count++];
}

/* What is wrong with this one: 0, or an error for all. */
static int add_claim(struct reading *reading, int error)
{
	struct claims_request *it = reading->it;

	if (it->count == CLAIMS_ITEMS_MAX)
		return error_fill(reading->problem, ERR_TOO_LARGE,
		                  "expected at most %u claims in one request", CLAIMS_ITEMS_MAX);
	struct claims_item *item = next_item(reading);
	if (!item)
		return -ENOMEM;
	if (error == 0)
		error = read_claim(reading, item);
	if (error == 0 || error == -ENOMEM || !it->batch)
		return error;
	item->status = 400;
	item->problem = arena_copy(&it->arena, span_str(reading->problem->text));
	return item->problem.ptr ? 0 : -ENOMEM;
}

static int read_array(struct reading *reading, struct span body)
{
	struct claims *claims = reading->it->claims;
	struct json_elements elements;
	struct span element;

	reading->doc.problem = (struct json_problem){ .expected = "an array" };
	int more = json_elements_begin(&elements, body);
	while (more == 0 && (more = json_elements_next(&elements, &claims->plan->plan,
	                                               &reading->doc, &element)) == 1) {
		int r = 0;
		reading->text = element;
		if (reading->doc.root != JSON_OBJECT)
			r = error_fill(reading->problem, ERR_INVALID, "expected a JSON object");
		more = add_claim(reading, r);
	}
	if (more == ERR_INVALID)
		return error_fill(reading->problem, ERR_INVALID,
		                  "expected an array of claims; at byte %zu of it: expected %s",
		                  reading->doc.problem.offset, reading->doc.problem.expected);
	return more;
}

static int read_lines(struct reading *reading, struct span body)
{
	int r = 0;

	while (body.len > 0 && r == 0) {
		struct span line = json_trim(span_cut_item(&body, '\n'));
		reading->text = line;
		if (line.len > 0)
			r = add_claim(reading, claims_scan(reading->it->claims, line, &reading->doc,
			                                   reading->problem));
	}
	return r;
}

static bool is_ndjson(const struct http1_head *head)
{
	const struct span *type = http1_header_find(head, SPAN("content-type"));

	return type && (http1_is_media_type(*type, SPAN("application/x-ndjson")) ||
	                http1_is_media_type(*type, SPAN("application/ndjson")) ||
	                http1_is_media_type(*type, SPAN("application/jsonl")));
}

int claims_read(struct claims_request *it, const struct source_set *set,
                struct error_text *ret_problem)
{
	struct span body = json_trim(it->request->body);
	struct reading reading; /* large, and written by what follows, but for: */

	reading.it = it;
	reading.set = set;
	reading.problem = ret_problem;
	reading.room = 0;
	reading.text = body;
	bool lines = is_ndjson(&it->request->head);
	it->batch = lines || (body.len > 0 && body.ptr[0] == '[');
	if (lines)
		return read_lines(&reading, body);
	if (it->batch)
		return read_array(&reading, body);
	int r = claims_scan(it->claims, body, &reading.doc, ret_problem);
	return r < 0 ? r : add_claim(&reading, 0);
}
