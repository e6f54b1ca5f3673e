/* claims: see claims.h. */
#include "door/claims/claims.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "codec/json_write.h"
#include "door/claims/claims_internal.h"
#include "sys/clock.h"

#define PATH SPAN("/v1/claims")

const size_t claims_scratch_size = sizeof(struct claims_request);

static int add_path(struct json_plan *plan, const char *text, uint8_t *ret_node)
{
	struct json_path path;
	struct json_problem problem;

	int r = json_path_parse(span_str(text), &path, &problem);
	return r < 0 ? r : json_plan_add(plan, &path, ret_node);
}

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
		int r = add_path(&plan->plan, members[i].name, members[i].node);
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

/* ---- a request's life ---- */

static void items_free(struct claims_request *it)
{
	for (uint32_t i = 0; i < it->count; i++)
		buf_free(&it->items[i].cell.value);
}

static void unlist(struct claims_request *it)
{
	if (it->live_next)
		it->live_next->live_before = it->live_before;
	if (it->live_before)
		it->live_before->live_next = it->live_next;
	else
		it->claims->live = it->live_next;
}

static void list(struct claims_request *it)
{
	it->live_before = NULL;
	it->live_next = it->claims->live;
	if (it->live_next)
		it->live_next->live_before = it;
	it->claims->live = it;
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

/* ---- ends ---- */

void claims_respond(struct claims_request *it, const struct http_response *response)
{
	struct arena arena = it->arena; /* the answer frees the request */

	unlist(it);
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

static struct source_meters *meters_of(const struct claims_request *it)
{
	return &it->rules.meters[it->claims->options.thread];
}

void claims_refuse(struct claims_request *it, int error, const char *text)
{
	bool invalid = error == ERR_INVALID || error == ERR_TOO_LARGE;

	meter_add(invalid ? &meters_of(it)->refused : &meters_of(it)->overload, 1);
	if (!invalid)
		claims_respond_problem(it, 503, "unavailable", "no memory for the request now",
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

/* ---- beginnings ---- */

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

	int r = claims_read(it, set, &problem);
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

/* False: not mine. `ret_token` is empty for the collection itself. */
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
		claims_respond_problem(it, 404, "unknown", "no claim has this token", SPAN_EMPTY);
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

	/* That of a DELETE means nothing, but a signature may be over it. */
	if ((method != HTTP1_POST && method != HTTP1_PUT && method != HTTP1_PATCH &&
	     method != HTTP1_DELETE) ||
	    set->claims.options.mode != SOURCE_CLAIMS_ON || !path_of(request->head.path, &token))
		return false;
	return trust_head(set->claims.auth, request);
}

#define UNGUARDED                                                                       \
	"the claims API is off: others than this machine can reach this listener, and " \
	"claims.auth is missing"

#define NOT_OURS                                                                             \
	"without claims.auth this is answered to this machine only, under a loopback name, " \
	"through no proxy and to no web page"

/* The listener is of this machine alone, but a proxy may stand before it, and a browser sends
 * what any page wants, also one that has made its own name lead here. */
static bool is_from_afar(const struct http_request *request)
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
	if (!rules->auth && is_from_afar(request)) {
		meter_add(&rules->meters[claims->options.thread].unauthorized, 1);
		http_respond_problem(request, 403, NOT_OURS, SPAN_EMPTY);
		return true;
	}
	if (request->unread && claims_wants_body(set, request)) {
		/* Another configuration was asked, and said no. Before the signature: without
		 * its body that is wrong. */
		http_respond_problem(request, 503,
		                     "the configuration has just changed; send it again",
		                     SPAN("Retry-After: 1\r\n"));
		return true;
	}
	const struct trust trust = { .auth = rules->auth,
		                     .source = SOURCE_CLAIMS_NAME,
		                     .meters = &rules->meters[claims->options.thread] };
	if (!trust_request(&trust, request))
		return true;
	if (!act_of(request->head.method, token.len > 0, &act)) {
		http_respond_problem(request, 405,
		                     token.len > 0
		                             ? "a token is settled with PUT, renewed with "
		                               "PATCH, given back with DELETE"
		                             : "claims are made with POST, looked up with GET",
		                     token.len > 0 ? SPAN("Allow: PUT, PATCH, DELETE\r\n")
		                                   : SPAN("Allow: GET, POST\r\n"));
		return true;
	}
	struct claims_request *it = request->scratch;
	*it = (struct claims_request){
		.claims = claims, .request = request, .rules = *rules, .act = act
	};
	list(it);
	begin(it, set, token);
	return true;
}
