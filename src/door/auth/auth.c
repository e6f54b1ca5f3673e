/* Networks, keys in headers, certificates, and the answers. See auth.h. */
#include "door/auth/auth.h"

#include "base/secret.h"
#include "door/auth/auth_private.h"

enum auth_result auth_find_header(const struct auth_request *request, struct span name,
                                  struct span *ret_value, struct error_text *ret_why)
{
	const struct http1_head *head = request->head;
	const struct span *found = NULL;
	for (uint32_t i = 0; i < head->header_count; i++) {
		if (!span_eq_nocase(head->headers[i].name, name))
			continue;
		if (found)
			return AUTH_REFUSE(ret_why, AUTH_WRONG, "header %.*s is there twice",
			                   AUTH_TEXT(name));
		found = &head->headers[i].value;
	}
	if (!found)
		return AUTH_REFUSE(ret_why, AUTH_MISSING, "header %.*s is missing",
		                   AUTH_TEXT(name));
	if (found->len == 0)
		return AUTH_REFUSE(ret_why, AUTH_WRONG, "header %.*s is empty", AUTH_TEXT(name));
	*ret_value = *found;
	return AUTH_OK;
}

static enum auth_result check_network(const struct auth *auth, const struct auth_request *request,
                                      struct error_text *ret_why)
{
	char text[IP_TEXT_MAX];
	for (uint32_t i = 0; i < auth->network_count; i++)
		if (ip_network_has(&auth->networks[i], &request->peer->address))
			return AUTH_OK;
	ip_format(&request->peer->address, text);
	return AUTH_REFUSE(ret_why, AUTH_NETWORK, "%s is in none of the allowed networks", text);
}

/* "Basic", blanks, the rest; false for another scheme. */
static bool cut_scheme(struct span *value, struct span scheme)
{
	if (value->len <= scheme.len || !span_eq_nocase(span_of(value->ptr, scheme.len), scheme) ||
	    value->ptr[scheme.len] != ' ')
		return false;
	*value = span_skip(*value, scheme.len);
	while (value->len > 0 && value->ptr[0] == ' ')
		*value = span_skip(*value, 1);
	return true;
}

/* A2: every credential is compared, whichever fits. */
static enum auth_result check_credential(const struct auth *auth,
                                         const struct auth_request *request,
                                         struct error_text *ret_why)
{
	struct span value;
	bool fits = false;
	enum auth_result result = auth_find_header(request, auth->header, &value, ret_why);
	if (result != AUTH_OK)
		return result;
	if (auth->prefix.len > 0 && !cut_scheme(&value, auth->prefix))
		return AUTH_REFUSE(ret_why, AUTH_WRONG, "header %.*s is not of the scheme %.*s",
		                   AUTH_TEXT(auth->header), AUTH_TEXT(auth->prefix));
	for (uint32_t i = 0; i < auth->credential_count; i++)
		fits |= secret_equal(value, auth->credentials[i]);
	if (!fits)
		return AUTH_REFUSE(ret_why, AUTH_WRONG, "header %.*s holds none of the %u secrets",
		                   AUTH_TEXT(auth->header), auth->credential_count);
	return AUTH_OK;
}

static bool name_is_wanted(const struct auth *auth, const struct peer_name *name)
{
	for (uint32_t i = 0; i < auth->name_count; i++)
		if (name->dns ? span_eq_nocase(name->text, auth->names[i])
		              : span_eq(name->text, auth->names[i]))
			return true;
	return false;
}

static enum auth_result check_certificate(const struct auth *auth,
                                          const struct auth_request *request,
                                          struct error_text *ret_why)
{
	const struct http_peer *peer = request->peer;
	if (!peer->certified)
		return AUTH_REFUSE(ret_why, AUTH_MISSING, "no client certificate was shown");
	if (auth->name_count == 0)
		return AUTH_OK;
	for (uint32_t i = 0; i < peer->name_count; i++)
		if (name_is_wanted(auth, &peer->names[i]))
			return AUTH_OK;
	return AUTH_REFUSE(ret_why, AUTH_WRONG,
	                   "none of the %u names of the client certificate is allowed",
	                   peer->name_count);
}

enum auth_result auth_check(const struct auth *auth, const struct auth_request *request,
                            struct error_text *ret_why)
{
	CHECK(request->head && request->peer);
	enum auth_result result = auth->network_count > 0 ? check_network(auth, request, ret_why)
	                                                  : AUTH_OK;
	if (result != AUTH_OK)
		return result;
	switch (auth->kind) {
	case AUTH_NONE: return AUTH_OK;
	case AUTH_HEADER:
	case AUTH_BASIC:
	case AUTH_BEARER: return check_credential(auth, request, ret_why);
	case AUTH_STANDARD_WEBHOOKS: return auth_check_standard(auth, request, ret_why);
	case AUTH_STRIPE: return auth_check_stripe(auth, request, ret_why);
	case AUTH_TWILIO: return auth_check_twilio(auth, request, ret_why);
	case AUTH_CERTIFICATE: return check_certificate(auth, request, ret_why);
	case AUTH_HMAC:
	case AUTH_GENESYS:
	case AUTH_GITHUB:
	case AUTH_SHOPIFY: break;
	}
	return auth_check_hmac(auth, request, ret_why);
}

static bool is_of_head(enum auth_kind kind)
{
	return kind == AUTH_NONE || kind == AUTH_HEADER || kind == AUTH_BASIC ||
	       kind == AUTH_BEARER || kind == AUTH_CERTIFICATE;
}

enum auth_result auth_check_head(const struct auth *auth, const struct auth_request *request)
{
	struct auth_request bare = *request;
	bare.body = SPAN_EMPTY;
	enum auth_result result = auth_check(auth, &bare, NULL);
	bool final = is_of_head(auth->kind) || result == AUTH_MISSING || result == AUTH_NETWORK;
	return final ? result : AUTH_OK;
}

const char *auth_warning(const struct auth *auth)
{
	return auth->warning[0] ? auth->warning : NULL;
}

uint16_t auth_status(enum auth_result result)
{
	switch (result) {
	case AUTH_OK: return 200;
	case AUTH_NETWORK: return 403;
	case AUTH_NO_MEMORY: return 503;
	default: return 401;
	}
}

const char *auth_detail(enum auth_result result)
{
	switch (result) {
	case AUTH_OK: return "authenticated";
	case AUTH_MISSING: return "authentication is required";
	case AUTH_STALE: return "the signature's time stamp is too far from this server's time";
	case AUTH_NETWORK: return "this address may not send here";
	case AUTH_NO_MEMORY: return "the request could not be judged now, send it again";
	case AUTH_WRONG: break;
	}
	return "authentication failed";
}

const char *auth_result_name(enum auth_result result)
{
	static const char *const names[] = {
		[AUTH_OK] = "ok",       [AUTH_MISSING] = "missing", [AUTH_WRONG] = "wrong",
		[AUTH_STALE] = "stale", [AUTH_NETWORK] = "network", [AUTH_NO_MEMORY] = "no_memory",
	};
	CHECK((size_t)result < ARRAY_LEN(names));
	return names[result];
}

struct span auth_challenge(const struct auth *auth)
{
	if (auth->kind == AUTH_BASIC)
		return SPAN("WWW-Authenticate: Basic realm=\"stile\", charset=\"UTF-8\"\r\n");
	if (auth->kind == AUTH_BEARER)
		return SPAN("WWW-Authenticate: Bearer realm=\"stile\"\r\n");
	return SPAN_EMPTY;
}
