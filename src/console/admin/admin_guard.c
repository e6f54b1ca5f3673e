/*
 * admin_guard: who may ask. See admin.h.
 *
 * A browser on this machine reaches the loopback for every page that it shows. So
 * without a token: the name that it asked for must be one of the loopback (a page may
 * have made its own name lead here), and a page may only ask what it came from. No
 * browser reaches a unix socket, and who may open it the file system says.
 */
#include "base/secret.h"
#include "codec/ip.h"
#include "console/admin/admin.h"

static struct span header(const struct http_request *request, struct span name)
{
	const struct span *found = http1_header_find(&request->head, name);
	return found ? *found : SPAN_EMPTY;
}

/* A page sends Origin with what could change something; it must be our own page. */
static bool is_own_origin(const struct admin *admin, const struct http_request *request)
{
	struct span origin = header(request, SPAN("Origin"));
	struct span site = header(request, SPAN("Sec-Fetch-Site"));
	if (site.len > 0 && !span_eq(site, SPAN("same-origin")) && !span_eq(site, SPAN("none")))
		return false;
	if (!http1_header_find(&request->head, SPAN("Origin")))
		return true;
	return span_cut_start(&origin, admin->options.tls ? SPAN("https://") : SPAN("http://")) &&
	       span_eq_nocase(origin, header(request, SPAN("Host")));
}

static bool has_token(const struct admin *admin, const struct http_request *request)
{
	struct span given = header(request, SPAN("Authorization"));
	struct span scheme = span_cut_item(&given, ' ');
	bool found = false;
	if (!span_eq_nocase(scheme, SPAN("Bearer")))
		return false;
	for (uint32_t i = 0; i < admin->options.token_count; i++)
		found |= secret_equal(given, admin->options.tokens[i]);
	return found;
}

/* What proxies say of themselves, and of whom they ask for. */
static bool came_by_proxy(const struct http_request *request)
{
	static const struct span signs[] = {
		{ "Forwarded", 9 }, { "X-Forwarded-For", 15 }, { "X-Real-IP", 9 }, { "Via", 3 }
	};
	for (size_t i = 0; i < ARRAY_LEN(signs); i++)
		if (http1_header_find(&request->head, signs[i]))
			return true;
	return false;
}

static bool is_this_machine(const struct http_request *request)
{
	bool here = request->peer->local || (ip_is_loopback(&request->peer->address) &&
	                                     ip_is_loopback_host(header(request, SPAN("Host"))));
	return here && !came_by_proxy(request);
}

bool admin_guard(const struct admin *admin, struct http_request *request)
{
	if (!is_own_origin(admin, request))
		http_respond_problem(request, 403,
		                     "requests of web pages from another origin are rejected",
		                     SPAN_EMPTY);
	else if (admin->options.token_count > 0 && !has_token(admin, request))
		http_respond_problem(request, 401, "a token is required: Authorization: Bearer …",
		                     SPAN("WWW-Authenticate: Bearer realm=\"stile\"\r\n"));
	else if (admin->options.token_count == 0 && !is_this_machine(request))
		http_respond_problem(
			request, 403,
			"a token is required: without one, only requests from this machine to a loopback name and without a proxy are accepted",
			SPAN_EMPTY);
	else
		return true;
	return false;
}
