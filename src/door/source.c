/* source: see source.h. */
#include "door/source.h"

#include <string.h>

#include "base/mem.h"
#include "sys/clock.h"

/* Also without a secret, when only some networks may send. */
static int make_auth(const struct auth_spec *spec, struct auth **ret_auth,
                     struct error_text *ret_text)
{
	if (spec->kind == AUTH_NONE && spec->network_count == 0)
		return 0;
	return auth_new(spec, ret_auth, ret_text);
}

static int compile(struct source *source, const struct source_options *options,
                   const unsigned char *key, struct error_text *ret_text)
{
	struct recipe_problem problem;

	int r = recipe_compile(options->recipe, key, &source->recipe, &problem);
	if (r == ERR_CONFIG)
		return error_fill(ret_text, r, "source %.*s: %s", (int)source->name.len,
		                  source->name.ptr, problem.text.text);
	if (r < 0)
		return error_fill(ret_text, r, "%s", error_name(r));
	struct error_text text = { "" };
	r = make_auth(options->auth, &source->auth, &text);
	if (r < 0)
		return error_fill(ret_text, r, "source %.*s: %s", (int)source->name.len,
		                  source->name.ptr, text.text[0] ? text.text : error_name(r));
	return 0;
}

static int source_init(struct source *source, struct arena *arena,
                       const struct source_options *options, const struct source_set_options *all,
                       struct error_text *ret_text)
{
	source->name = arena_copy(arena, options->recipe->source);
	source->path = arena_copy(arena, options->path);
	source->meters = source_meters_of(all->counts, options->recipe->source);
	if (!source->name.ptr || !source->path.ptr || !source->meters)
		return error_fill(ret_text, -ENOMEM, "%s", error_name(-ENOMEM));
	if (source->path.len > 2 && memcmp(source->path.ptr + source->path.len - 2, "/*", 2) == 0) {
		source->path.len -= 2;
		source->below = true;
	}
	source->options = *options;
	source->options.path = SPAN_EMPTY;
	source->options.recipe = NULL;
	source->options.auth = NULL;
	source->routes = all->routes ? route_set_from(all->routes, source->name) : 0;
	CHECK(!all->routes || route_set_reach(all->routes, source->routes) <= ROUTE_LEGS_MAX);
	int r = compile(source, options, all->key, ret_text);
	if (r < 0)
		return r;
	source->window_ms = (uint64_t)recipe_window_s(source->recipe) * 1000;
	const char *warning = source->auth ? auth_warning(source->auth) : NULL;
	if (warning && all->warn)
		all->warn(source->name, warning);
	return 0;
}

static int claims_init(struct source_set *set, const struct source_set_options *all,
                       struct error_text *ret_text)
{
	const struct source_claims_options *options = &all->claims;
	struct source_claims *claims = &set->claims;
	struct error_text text = { "" };

	claims->options = *options;
	claims->options.auth = NULL;
	if (options->mode == SOURCE_CLAIMS_OFF)
		return 0;
	claims->meters = source_meters_of(all->counts, SOURCE_CLAIMS_NAME);
	int r = claims->meters ? make_auth(options->auth, &claims->auth, &text) : -ENOMEM;
	if (r < 0)
		return error_fill(ret_text, r, "claims: %s",
		                  text.text[0] ? text.text : error_name(r));
	const char *warning = claims->auth ? auth_warning(claims->auth) : NULL;
	if (warning && all->warn)
		all->warn(SOURCE_CLAIMS_NAME, warning);
	return 0;
}

static void destroy(struct source_set *set)
{
	auth_free(set->claims.auth);
	for (uint32_t i = 0; i < set->count; i++) {
		recipe_free(set->sources[i].recipe);
		auth_free(set->sources[i].auth);
	}
	route_set_free(set->routes);
	arena_free(&set->arena);
	mem_free(set);
}

int source_set_new(const struct source_set_options *options, struct source_set **ret_set,
                   struct error_text *ret_text)
{
	struct source_set *set = mem_zalloc(1, sizeof(*set));

	CHECK(options->count > 0);
	if (set)
		set->sources = arena_alloc(&set->arena, options->count * sizeof(struct source));
	if (!set || !set->sources) {
		mem_free(set);
		return error_fill(ret_text, -ENOMEM, "%s", error_name(-ENOMEM));
	}
	atomic_init(&set->holds, 1);
	for (; set->count < options->count; set->count++) {
		struct source *source = &set->sources[set->count];
		int r = source_init(source, &set->arena, &options->sources[set->count], options,
		                    ret_text);
		if (r < 0) {
			set->count++; /* what it has so far goes too */
			destroy(set);
			return r;
		}
	}
	int error = claims_init(set, options, ret_text);
	if (error < 0) {
		destroy(set);
		return error;
	}
	set->routes = options->routes;
	*ret_set = set;
	return 0;
}

void source_set_hold(struct source_set *set)
{
	atomic_fetch_add_explicit(&set->holds, 1, memory_order_relaxed);
}

void source_set_release(struct source_set *set)
{
	if (set && atomic_fetch_sub_explicit(&set->holds, 1, memory_order_acq_rel) == 1)
		destroy(set);
}

static bool is_at(const struct source *source, struct span path)
{
	if (path.len == source->path.len)
		return memcmp(path.ptr, source->path.ptr, path.len) == 0;
	return source->below && path.len > source->path.len && path.ptr[source->path.len] == '/' &&
	       memcmp(path.ptr, source->path.ptr, source->path.len) == 0;
}

const struct source *source_named(const struct source_set *set, struct span name)
{
	for (uint32_t i = 0; i < set->count; i++)
		if (span_eq(set->sources[i].name, name))
			return &set->sources[i];
	return NULL;
}

const struct source *source_find(const struct source_set *set, struct span path)
{
	const struct source *found = NULL;

	/* The longest one: /in/orders/eu is not a part of /in/orders. Of two with one
	 * path the one that is for the path alone. */
	for (uint32_t i = 0; i < set->count; i++) {
		const struct source *source = &set->sources[i];
		if (!is_at(source, path))
			continue;
		if (!found || source->path.len > found->path.len ||
		    (source->path.len == found->path.len && !source->below))
			found = source;
	}
	return found;
}

/* ---- trust ---- */

static struct auth_request question_of(const struct http_request *request)
{
	return (struct auth_request){
		.head = &request->head,
		.body = request->body,
		.peer = request->peer,
		.now_s = clock_read(clock_system()).wall_ms / 1000,
	};
}

bool trust_request(const struct trust *trust, struct http_request *request)
{
	if (!trust->auth)
		return true;
	struct error_text why;
	struct auth_request question = question_of(request);
	enum auth_result result = auth_check(trust->auth, &question, &why);
	if (result == AUTH_OK)
		return true;
	meter_add(&trust->meters->unauthorized, 1);
	char address[IP_TEXT_MAX];
	ip_format(&request->peer->address, address);
	log_warn_of(&trust->meters->refusals, "request rejected", log_span("source", trust->source),
	            log_str("peer", address), log_str("reason", auth_result_name(result)),
	            log_str("text", why.text));
	uint16_t status = auth_status(result);
	http_respond_problem(request, status, auth_detail(result),
	                     status == 401   ? auth_challenge(trust->auth)
	                     : status == 503 ? SPAN("Retry-After: 1\r\n")
	                                     : SPAN_EMPTY);
	return false;
}

bool trust_head(const struct auth *auth, const struct http_request *request)
{
	if (!auth)
		return true;
	struct auth_request question = question_of(request);
	return auth_check_head(auth, &question) == AUTH_OK;
}
