/* claims: see claims.h. A request from its head to what is asked of the store, and its end. */
#include "door/claims/claims.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "codec/http1.h"
#include "codec/json_write.h"
#include "door/claims/claims_internal.h"
#include "gate/ticket.h"
#include "sys/clock.h"

#define PATH SPAN("/v1/claims")

const size_t claims_scratch_size = sizeof(struct claims_request);

static void plan_init(struct claims_plan *plan)
{
	const struct {
		const char *name;
		uint8_t *node;
	} members[] = {
		{ "key", &plan->key },         { "scope", &plan->scope },
		{ "payload", &plan->payload }, { "payload_digest", &plan->payload_digest },
		{ "window", &plan->window },   { "lease", &plan->lease },
		{ "source", &plan->source },   { "event", &plan->event },
		{ "outcome", &plan->outcome }, { "status", &plan->status },
	};

	json_plan_init(&plan->plan);
	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		struct json_path path;
		struct json_problem problem;
		int r = json_path_parse(span_str(members[i].name), &path, &problem);
		CHECK(r == 0);
		r = json_plan_add(&plan->plan, &path, members[i].node);
		CHECK(r == 0);
	}
	json_plan_seal(&plan->plan);
}

int claims_init(struct claims *claims, const struct claims_options *options)
{
	*claims = (struct claims){ .options = *options };
	claims->decided_tail = &claims->decided;
	claims->plan = mem_zalloc(1, sizeof(*claims->plan));
	if (!claims->plan)
		return -ENOMEM;
	plan_init(claims->plan);
	lease_token_key_init(&claims->token_key, options->key);
	return 0;
}

/* ---- items and operations ---- */

static void items_free(struct claims_request *it)
{
	for (uint32_t i = 0; i < it->count; i++)
		buf_free(&it->items[i].cell.value);
}

void claims_release(struct claims *claims)
{
	for (struct claims_request *it = claims->live; it; it = it->live_next) {
		items_free(it);
		arena_free(&it->arena);
	}
	claims->plan = mem_free(claims->plan);
	recipe_scratch_free(&claims->recipe_scratch);
	key_claim_scratch_free(&claims->key_scratch);
}

struct claims_item *claims_add_items(struct claims_request *it, uint32_t count)
{
	it->items = arena_alloc(&it->arena, count * sizeof(*it->items));
	if (!it->items)
		return NULL;
	it->count = count;
	for (uint32_t i = 0; i < count; i++)
		it->items[i].it = it;
	return it->items;
}

/* Runs inside the store's flush: the answer is written after it. */
void claims_finish(struct claims_item *item)
{
	struct claims_request *it = item->it;

	CHECK(it->left > 0);
	if (--it->left > 0)
		return;
	it->next = NULL;
	*it->claims->decided_tail = it;
	it->claims->decided_tail = &it->next;
}

void claims_submit(struct claims_item *item, struct store_op *op, enum store_op_kind kind,
                   void (*done)(struct store_op *op))
{
	struct claims *claims = item->it->claims;

	*op = (struct store_op){ .kind = kind, .done = done, .user = item };
	claims->asked = true;
	store_submit(claims->options.store, op);
}

/* ---- the end of a request ---- */

void claims_respond(struct claims_request *it, const struct http_response *response)
{
	struct arena arena = it->arena; /* the answer frees the request */

	if (it->live_next)
		it->live_next->live_before = it->live_before;
	if (it->live_before)
		it->live_before->live_next = it->live_next;
	else
		it->claims->live = it->live_next;
	items_free(it);
	http_respond(it->request, response);
	arena_free(&arena);
}

void claims_respond_problem(struct claims_request *it, uint16_t status, const char *code,
                            const char *detail, struct span headers)
{
	char bytes[1024];
	struct buf out = buf_on(bytes, sizeof(bytes));

	json_object_begin(&out, NULL);
	json_add_string(&out, "type", "about:blank");
	json_add_string(&out, "title", http1_reason(status));
	json_add_u64(&out, "status", status);
	json_add_string(&out, "code", code);
	json_add_string(&out, "detail", detail);
	json_object_end(&out);
	buf_append_char(&out, '\n');
	CHECK(!out.failed);
	claims_respond(it,
	               &(struct http_response){ .status = status,
	                                        .content_type = SPAN("application/problem+json"),
	                                        .headers = headers,
	                                        .body = buf_span(&out) });
}

void claims_refuse(struct claims_request *it, int error, const char *text)
{
	bool invalid = error == ERR_INVALID || error == ERR_TOO_LARGE;

	struct source_meters *meters = &it->rules.meters[it->claims->options.thread];
	meter_add(invalid ? &meters->refused : &meters->overload, 1);
	if (!invalid)
		claims_respond_problem(it, 503, "unavailable",
		                       "out of memory for the request; send it again",
		                       SPAN("Retry-After: 1\r\n"));
	else
		claims_respond_problem(it, error == ERR_TOO_LARGE ? 413 : 400,
		                       error == ERR_TOO_LARGE ? "too_large" : "invalid", text,
		                       SPAN_EMPTY);
}

void claims_answer(struct claims *claims)
{
	struct claims_request *it = claims->decided;

	claims->decided = NULL;
	claims->decided_tail = &claims->decided;
	while (it) {
		struct claims_request *next = it->next;
		if (it->act == CLAIMS_CLAIM)
			claims_answer_claims(it);
		else if (it->act == CLAIMS_LOOKUP)
			claims_answer_lookup(it);
		else
			claims_answer_settle(it);
		it = next;
	}
}

/* ---- bodies ----
 *
 * A body is one claim, an array of them, or NDJSON. An error in one claim of several fails
 * that claim; an error in the text fails the whole request. */

#define WINDOW_MIN_MS 1000u
#define WINDOW_MAX_MS (UINT64_C(3650) * 86400000)
#define ITEMS_ROOM 16u

/* The state of reading one body. */
struct reading {
	struct claims_request *it;
	const struct source_set *set;
	struct json_doc doc;
	struct span text; /* of `doc` */
	struct error_text *problem;
	uint32_t room; /* of it->items */
};

/* An unknown member may be a mistake for a known one: "ttl" for "window". */
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

/* A string's value; empty if it is not there. */
static int read_text(struct reading *reading, uint8_t node, const char *name, struct span *ret_text)
{
	struct json_value value = json_get(&reading->doc, node);
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

/* For lists of tickets. */
static int put_payload(struct reading *reading, struct store_admit *admit, struct span scope,
                       const struct json_value *key)
{
	struct buf out = { 0 };

	json_object_begin(&out, NULL);
	json_add_text(&out, "scope", scope.len ? scope : KEY_CLAIM_SCOPE);
	json_add_raw(&out, "key",
	             key->type == JSON_STRING /* with its quotes */
	                     ? span_of(key->text.ptr - 1, key->text.len + 2)
	                     : key->text);
	json_object_end(&out);
	admit->payload = out.failed ? SPAN_EMPTY : arena_copy(&reading->it->arena, buf_span(&out));
	buf_free(&out);
	return admit->payload.ptr ? 0 : -ENOMEM;
}

static int read_key(struct reading *reading, struct claims_item *item)
{
	struct claims *claims = reading->it->claims;
	const struct claims_plan *plan = claims->plan;
	struct key_claim key = { .key = json_get(&reading->doc, plan->key),
		                 .payload = json_get(&reading->doc, plan->payload),
		                 .payload_digest = json_get(&reading->doc, plan->payload_digest) };
	struct json_value window = json_get(&reading->doc, plan->window);
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

static int read_event(struct reading *reading, struct claims_item *item)
{
	const struct claims_plan *plan = reading->it->claims->plan;
	struct json_value event = json_get(&reading->doc, plan->event);
	struct store_admit *admit = &item->admit;
	struct recipe_result result;
	struct span name;

	int r = read_text(reading, plan->source, "source", &name);
	if (r < 0)
		return r;
	const struct source *source = source_named(reading->set, name);
	if (!source)
		return error_fill(reading->problem, ERR_INVALID,
		                  "no such source: expected the name of a configured source");
	if (event.type != JSON_OBJECT)
		return error_fill(reading->problem, ERR_INVALID,
		                  "expected an object in event, found %s",
		                  json_type_name(event.type));
	/* The recipe may read headers: the caller can pass on those that it received. */
	const struct http1_head *head = &reading->it->request->head;
	struct recipe_input input = { .body = event.text,
		                      .headers = head->headers,
		                      .header_count = head->header_count,
		                      .path = source->path,
		                      .query = head->query };
	r = recipe_run(source->recipe, &reading->it->claims->recipe_scratch, &input, &result,
	               reading->problem);
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

uint64_t claims_window_end_ms(uint64_t ticket, uint64_t whole_s)
{
	uint64_t window_ms = whole_s > 2 ? (whole_s - 2) * 1000 * 256 / 257 : 0;

	return ticket_time_ms(ticket) + window_ms;
}

/* The first is the list for error texts. */
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
	struct json_value lease = json_get(&reading->doc, plan->lease);
	uint64_t lease_ms = it->rules.options.lease_ms;
	bool by_source = json_get(&reading->doc, plan->source).type != JSON_NONE;

	int r = claims_read_time(&lease, "lease", CLAIMS_LEASE_MIN_MS, CLAIMS_LEASE_MAX_MS,
	                         &lease_ms, reading->problem);
	if (r < 0)
		return r;
	if (by_source && json_get(&reading->doc, plan->key).type != JSON_NONE)
		return error_fill(reading->problem, ERR_INVALID,
		                  "found key and source, expected one of them");
	r = claims_expect_members(reading->text, by_source ? of_source : of_key, reading->problem);
	if (r < 0)
		return r;
	r = by_source ? read_event(reading, item) : read_key(reading, item);
	if (r < 0)
		return r;
	/* A claim must not be forgotten during its lease: another caller would get it too. */
	uint32_t lease_s = (uint32_t)((lease_ms + 999) / 1000);
	uint64_t longest_s = 1;
	for (uint32_t i = 0; i < item->admit.claim_count; i++) {
		struct claim *claim = &item->admit.claims[i];
		if (claim->window_s < lease_s)
			claim->window_s = lease_s;
		if (claim->window_s > longest_s)
			longest_s = claim->window_s;
	}
	/* The store rounds windows up by 1/256 at most, and the clock loses a second. */
	uint64_t whole_s = longest_s + longest_s / 256 + 2;
	item->lease_ms = (uint32_t)lease_ms;
	item->window_s = whole_s < UINT32_MAX ? (uint32_t)whole_s : UINT32_MAX;
	item->leg = (struct store_leg){ .sink = STORE_SINK_CALLER,
		                        .order = (uint64_t)item->window_s * 1000 };
	item->admit.lease_ms = item->lease_ms;
	item->admit.busy_if_open = true;
	item->admit.on_conflict = STORE_CONFLICT_REJECT;
	item->admit.flags = STORE_EVENT_JSON;
	return 0;
}

/* ---- several ---- */

/* The array moves when it grows: nothing may point into it before all are read. */
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

/* `error`: of this claim. Returns 0, or an error of the whole request. */
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

/* The claims of a body, filled so that they can be submitted: 0, or an error of the whole
 * request. */
static int read_body(struct claims_request *it, const struct source_set *set,
                     struct error_text *ret_problem)
{
	struct span body = json_trim(it->request->body);
	struct reading reading; /* large: only these members are set here */

	reading.it = it;
	reading.set = set;
	reading.problem = ret_problem;
	reading.room = 0;
	reading.text = body;
	const struct span *type = http1_header_find(&it->request->head, SPAN("content-type"));
	bool lines = type && (http1_is_media_type(*type, SPAN("application/x-ndjson")) ||
	                      http1_is_media_type(*type, SPAN("application/ndjson")) ||
	                      http1_is_media_type(*type, SPAN("application/jsonl")));
	it->batch = lines || (body.len > 0 && body.ptr[0] == '[');
	if (lines)
		return read_lines(&reading, body);
	if (it->batch)
		return read_array(&reading, body);
	int r = claims_scan(it->claims, body, &reading.doc, ret_problem);
	return r < 0 ? r : add_claim(&reading, 0);
}

/* ---- requests ---- */

/* Prefer: wait=SECONDS (RFC 7240). */
static uint64_t wait_of(const struct http1_head *head)
{
	const struct span *prefer = http1_header_find(head, SPAN("prefer"));
	struct span rest = prefer ? *prefer : SPAN_EMPTY;
	uint64_t seconds = 0;

	while (rest.len > 0) {
		struct span item = span_cut_item(&rest, ',');
		struct span value = span_cut_item(&item, ';'); /* what follows are its parameters */
		struct span name = json_trim(span_cut_item(&value, '='));
		value = json_trim(value);
		if (value.len >= 2 && value.ptr[0] == '"' && value.ptr[value.len - 1] == '"')
			value = span_of(value.ptr + 1, value.len - 2);
		if (!span_eq_nocase(name, SPAN("wait")))
			continue;
		int r = text_parse_u64(value, &seconds);
		if (r == ERR_TOO_LARGE)
			seconds = CLAIMS_WAIT_MAX_S;
		if (r == 0 || r == ERR_TOO_LARGE)
			break;
	}
	return seconds < CLAIMS_WAIT_MAX_S ? seconds : CLAIMS_WAIT_MAX_S;
}

static void claim(struct claims_request *it, const struct source_set *set)
{
	struct error_text problem = { "" };

	int r = read_body(it, set, &problem);
	if (r < 0) {
		claims_refuse(it, r, problem.text);
		return;
	}
	uint64_t wait_s = wait_of(&it->request->head);
	it->until_boot_ms = wait_s ? clock_read(clock_system()).boot_ms + wait_s * 1000 : 0;
	it->left = 1; /* until all are submitted */
	for (uint32_t i = 0; i < it->count; i++)
		it->left += it->items[i].status == 0;
	for (uint32_t i = 0; i < it->count; i++)
		if (it->items[i].status == 0)
			claims_decide(&it->items[i]);
	if (--it->left == 0)
		claims_answer_claims(it);
}

static bool act_of(enum http1_method method, bool with_token, enum claims_act *ret_act)
{
	static const struct {
		enum http1_method method;
		bool with_token;
		enum claims_act act;
	} acts[] = {
		{ HTTP1_POST, false, CLAIMS_CLAIM },    { HTTP1_GET, false, CLAIMS_LOOKUP },
		{ HTTP1_PUT, true, CLAIMS_SETTLE },     { HTTP1_PATCH, true, CLAIMS_RENEW },
		{ HTTP1_DELETE, true, CLAIMS_RELEASE },
	};

	for (size_t i = 0; i < ARRAY_LEN(acts); i++) {
		if (acts[i].method != method || acts[i].with_token != with_token)
			continue;
		*ret_act = acts[i].act;
		return true;
	}
	return false;
}

/* False: another path. `ret_token` is empty for the collection itself. */
static bool path_of(struct span path, struct span *ret_token)
{
	if (!span_cut_start(&path, PATH) || (path.len > 0 && path.ptr[0] != '/'))
		return false;
	*ret_token = span_skip(path, 1);
	return true;
}

static void begin(struct claims_request *it, const struct source_set *set, struct span token)
{
	if (token.len > 0 && lease_token_read(&it->claims->token_key, token, &it->token) < 0) {
		claims_respond_problem(
			it, 404, "unknown",
			"no open claim has this token: it is wrong, or its window has ended",
			SPAN_EMPTY);
		return;
	}
	switch (it->act) {
	case CLAIMS_CLAIM: claim(it, set); break;
	case CLAIMS_SETTLE: claims_settle(it); break;
	case CLAIMS_RENEW: claims_renew(it); break;
	case CLAIMS_RELEASE: claims_give_back(it); break;
	case CLAIMS_LOOKUP: claims_lookup(it); break;
	}
}

bool claims_wants_body(const struct source_set *set, const struct http_request *request)
{
	enum http1_method method = request->head.method;
	struct span token;

	/* The body of a DELETE is ignored, but a signature may cover it. */
	if ((method != HTTP1_POST && method != HTTP1_PUT && method != HTTP1_PATCH &&
	     method != HTTP1_DELETE) ||
	    set->claims.options.mode != SOURCE_CLAIMS_ON || !path_of(request->head.path, &token))
		return false;
	return trust_head(set->claims.auth, request);
}

#define UNGUARDED                                                                  \
	"the claims API is disabled: other machines can reach this listener, and " \
	"claims.auth is missing"

#define NOT_OURS                                                                                 \
	"without claims.auth only requests from this machine are accepted: to a loopback name, " \
	"without a proxy and not from a web page"

/* The listener is on loopback, but a proxy may forward to it, and a browser sends what any web
 * page asks for, even one whose own name resolves to this machine. */
static bool may_be_remote(const struct http_request *request)
{
	static const struct span signs[] = {
		{ "Forwarded", 9 }, { "X-Forwarded-For", 15 }, { "X-Real-IP", 9 },
		{ "Via", 3 },       { "Origin", 6 },
	};

	for (size_t i = 0; i < ARRAY_LEN(signs); i++)
		if (http1_header_find(&request->head, signs[i]))
			return true;
	const struct span *host = http1_header_find(&request->head, SPAN("Host"));
	const struct span *site = http1_header_find(&request->head, SPAN("Sec-Fetch-Site"));
	if (site && !span_eq(*site, SPAN("none")))
		return true;
	return !host || !ip_is_loopback_host(*host);
}

bool claims_handle(struct claims *claims, const struct source_set *set,
                   struct http_request *request)
{
	const struct source_claims *rules = &set->claims;
	enum claims_act act;
	struct span token;

	if (rules->options.mode == SOURCE_CLAIMS_OFF || !path_of(request->head.path, &token))
		return false;
	if (rules->options.mode == SOURCE_CLAIMS_UNGUARDED) {
		http_respond_problem(request, 403, UNGUARDED, SPAN_EMPTY);
		return true;
	}
	if (!rules->auth && may_be_remote(request)) {
		meter_add(&rules->meters[claims->options.thread].unauthorized, 1);
		http_respond_problem(request, 403, NOT_OURS, SPAN_EMPTY);
		return true;
	}
	if (request->unread && claims_wants_body(set, request)) {
		/* The configuration changed after the head was checked. Before the signature:
		 * without its body that is wrong. */
		http_respond_problem(request, 503,
		                     "the configuration has just changed; send the request again",
		                     SPAN("Retry-After: 1\r\n"));
		return true;
	}
	const struct trust trust = { .auth = rules->auth,
		                     .source = SOURCE_CLAIMS_NAME,
		                     .meters = &rules->meters[claims->options.thread] };
	if (!trust_request(&trust, request))
		return true;
	if (!act_of(request->head.method, token.len > 0, &act)) {
		http_respond_problem(
			request, 405,
			token.len > 0
				? "method not allowed: PUT settles a token, PATCH renews it, DELETE gives it back"
				: "method not allowed: POST makes claims, GET looks them up",
			token.len > 0 ? SPAN("Allow: PUT, PATCH, DELETE\r\n")
				      : SPAN("Allow: GET, POST\r\n"));
		return true;
	}
	struct claims_request *it = request->scratch;
	*it = (struct claims_request){
		.claims = claims, .request = request, .rules = *rules, .act = act
	};
	it->live_next = claims->live;
	if (it->live_next)
		it->live_next->live_before = it;
	claims->live = it;
	begin(it, set, token);
	return true;
}
