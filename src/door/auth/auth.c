/*
 * auth: see auth.h. From the spec to a struct auth; then networks, keys in headers and
 * certificates, and the answers. Signatures are in auth_signature.c.
 */
#include "door/auth/auth.h"

#include <stdarg.h>

#include "base/base64.h"
#include "base/mem.h"
#include "base/secret.h"
#include "door/auth/auth_private.h"
/* ---- from the spec ---- */

#define SECRET_MAX 1024
#define WHSEC_MIN 24 /* what Standard Webhooks asks for */
#define WHSEC_MAX 64

/* The kinds that are HMAC over the body, in other words. */
static const struct preset {
	enum auth_kind kind;
	struct span header, prefix;
	enum auth_encoding encoding;
} presets[] = {
	{ AUTH_GENESYS, { "X-Hub-Signature-256", 19 }, { "sha256=", 7 }, AUTH_BASE64 },
	{ AUTH_GITHUB, { "X-Hub-Signature-256", 19 }, { "sha256=", 7 }, AUTH_HEX },
	{ AUTH_SHOPIFY, { "X-Shopify-Hmac-Sha256", 21 }, { "", 0 }, AUTH_BASE64 },
};

static struct span keep(struct auth *auth, struct span text)
{
	char *copy = auth->memory + auth->memory_len;
	CHECK(text.len <= auth->memory_room - auth->memory_len);
	if (text.len > 0)
		memcpy(copy, text.ptr, text.len);
	auth->memory_len += text.len;
	return span_of(copy, text.len);
}

/* The first warning is kept: once it is fixed, the next one appears. */
static void warn(struct auth *auth, const char *format, ...) printf_like(2, 3);
static void warn(struct auth *auth, const char *format, ...)
{
	va_list args;
	if (auth->warning[0])
		return;
	va_start(args, format);
	vsnprintf(auth->warning, sizeof(auth->warning), format, args);
	va_end(args);
}

static int check_header_name(struct span name, struct error_text *ret_text)
{
	if (http1_is_token(name) && name.len <= 128)
		return 0;
	return error_fill(ret_text, ERR_CONFIG, "\"%.*s\" is no name of a header",
	                  (int)(name.len < 64 ? name.len : 64), name.ptr);
}

static bool ends_in_blank(struct span text)
{
	return text.len > 0 && (unsigned char)text.ptr[text.len - 1] <= ' ';
}

/* `given`: another system chose the secrets, so a short one is a warning only. */
static int check_secrets(struct auth *auth, const struct auth_spec *spec, bool given,
                         struct error_text *ret_text)
{
	if (spec->secret_count == 0)
		return error_fill(ret_text, ERR_CONFIG, "a secret is needed");
	for (uint32_t i = 0; i < spec->secret_count; i++) {
		size_t len = spec->secrets[i].len;
		if (len == 0)
			return error_fill(ret_text, ERR_CONFIG, "secret %u is empty", i + 1);
		if (len > SECRET_MAX)
			return error_fill(ret_text, ERR_CONFIG,
			                  "secret %u has %zu bytes, at most %d are allowed", i + 1,
			                  len, SECRET_MAX);
		if (len < AUTH_SECRET_MIN && !given)
			return error_fill(ret_text, ERR_CONFIG,
			                  "secret %u has %zu bytes, at least %d are needed", i + 1,
			                  len, AUTH_SECRET_MIN);
		if (len < AUTH_SECRET_MIN)
			warn(auth, "secret %u has only %zu bytes and could be guessed", i + 1, len);
		if (ends_in_blank(spec->secrets[i]))
			warn(auth,
			     "secret %u ends in a blank or a line end; check whether it belongs to it",
			     i + 1);
	}
	return 0;
}

/* HEADER and BEARER. */
static int set_credentials(struct auth *auth, const struct auth_spec *spec,
                           struct error_text *ret_text)
{
	int error = check_header_name(auth->header, ret_text);
	if (!error)
		error = check_secrets(auth, spec, true, ret_text);
	for (uint32_t i = 0; i < spec->secret_count && !error; i++) {
		/* A secret that no header can carry would never match. */
		struct span secret = spec->secrets[i];
		bool valid = !ends_in_blank(secret) && secret.ptr[0] != ' ' &&
		             secret.ptr[0] != '\t';
		for (size_t at = 0; at < secret.len && valid; at++)
			valid = http1_is_value_char(secret.ptr[at]);
		if (!valid)
			return error_fill(ret_text, ERR_CONFIG,
			                  "secret %u cannot be sent in a header: it has control "
			                  "characters, or a blank or a line end around it",
			                  i + 1);
		auth->credentials[auth->credential_count++] = keep(auth, secret);
	}
	return error;
}

/* What a client sends: base64 of user, colon, password. */
static struct span keep_basic(struct auth *auth, struct span user, struct span secret)
{
	char *start = auth->memory + auth->memory_len;
	keep(auth, user);
	keep(auth, SPAN(":"));
	keep(auth, secret);
	struct span plain = span_of(start, user.len + 1 + secret.len);
	struct buf text = buf_on(auth->memory + auth->memory_len,
	                         auth->memory_room - auth->memory_len);
	base64_append(&text, plain);
	CHECK(!text.failed);
	auth->memory_len += text.len;
	return buf_span(&text);
}

static int add_key(struct auth *auth, struct span secret, struct error_text *ret_text)
{
	int error = hmac_key_new(auth->algorithm, secret, &auth->keys[auth->key_count]);
	if (error)
		return error_fill(ret_text, error, "no memory for a secret");
	auth->key_count++;
	return 0;
}

static int set_keys(struct auth *auth, const struct auth_spec *spec, bool given,
                    struct error_text *ret_text)
{
	int error = check_secrets(auth, spec, given, ret_text);
	for (uint32_t i = 0; i < spec->secret_count && !error; i++)
		error = add_key(auth, spec->secrets[i], ret_text);
	return error;
}

/* whsec_ is a secret, whpk_ a public key. */
static int add_standard(struct auth *auth, struct span text, uint32_t number,
                        struct error_text *ret_text)
{
	unsigned char bytes[WHSEC_MAX];
	size_t len;
	bool shared = span_cut_start(&text, SPAN("whsec_"));
	if (!shared && !span_cut_start(&text, SPAN("whpk_")))
		return error_fill(ret_text, ERR_CONFIG,
		                  "secret %u must start with whsec_ (HMAC) or whpk_ (ed25519)",
		                  number);
	int error = base64_decode(text, bytes, sizeof(bytes), &len);
	if (error == ERR_INVALID)
		return error_fill(ret_text, ERR_CONFIG, "secret %u is not base64 after its prefix",
		                  number);
	size_t least = shared ? WHSEC_MIN : SIGN_PUBLIC_LEN;
	size_t most = shared ? WHSEC_MAX : SIGN_PUBLIC_LEN;
	if (error || len < least || len > most)
		error = error_fill(ret_text, ERR_CONFIG, "secret %u must hold %zu to %zu bytes",
		                   number, least, most);
	else if (shared)
		error = add_key(auth, span_of(bytes, len), ret_text);
	else
		memcpy(auth->public_keys[auth->public_count++], bytes, SIGN_PUBLIC_LEN);
	secret_wipe(bytes, sizeof(bytes));
	return error;
}

static int set_url(struct auth *auth, const struct auth_spec *spec, struct error_text *ret_text)
{
	if (spec->public_url.len == 0)
		return 0;
	struct span text = keep(auth, spec->public_url);
	if (auth_url_parse(text, &auth->url))
		return error_fill(ret_text, ERR_CONFIG,
		                  "public_url \"%.*s\" is not of the form "
		                  "https://HOST[:PORT][/PREFIX]",
		                  (int)(text.len < 128 ? text.len : 128), text.ptr);
	auth->has_url = true;
	return 0;
}

static int parse_part(struct auth *auth, struct span text, struct auth_part *ret_part,
                      struct error_text *ret_text)
{
	static const struct {
		struct span word;
		enum auth_part_kind kind;
	} words[] = {
		{ { "body", 4 }, AUTH_PART_BODY },
		{ { "path", 4 }, AUTH_PART_PATH },
		{ { "method", 6 }, AUTH_PART_METHOD },
		{ { "url", 3 }, AUTH_PART_URL },
	};
	struct span rest = text;
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (span_eq(text, words[i].word)) {
			*ret_part = (struct auth_part){ .kind = words[i].kind };
			return 0;
		}
	if (span_cut_start(&rest, SPAN("header:"))) {
		*ret_part = (struct auth_part){ AUTH_PART_HEADER, keep(auth, rest) };
		return check_header_name(rest, ret_text);
	}
	if (span_cut_start(&rest, SPAN("const:"))) {
		*ret_part = (struct auth_part){ AUTH_PART_TEXT, keep(auth, rest) };
		return 0;
	}
	return error_fill(ret_text, ERR_CONFIG,
	                  "\"%.*s\" cannot be signed: expected body, header:NAME, path, method, "
	                  "url or const:TEXT",
	                  (int)(text.len < 64 ? text.len : 64), text.ptr);
}

static int set_parts(struct auth *auth, const struct auth_spec *spec, struct error_text *ret_text)
{
	bool body = spec->signed_count == 0;
	int error = 0;
	auth->part_count = 1; /* the default: the body */
	for (uint32_t i = 0; i < spec->signed_count && !error; i++) {
		error = parse_part(auth, spec->signed_parts[i], &auth->parts[i], ret_text);
		body |= !error && auth->parts[i].kind == AUTH_PART_BODY;
		auth->part_count = i + 1;
	}
	if (!error && !body)
		warn(auth, "the body is not among the signed parts: a third party can change it");
	/* A time stamp that is not signed could be replaced by anybody. */
	struct span name = spec->timestamp;
	if (error || name.len == 0)
		return error;
	if (span_cut_start(&name, SPAN("header:")))
		for (uint32_t i = 0; i < auth->part_count; i++)
			if (auth->parts[i].kind == AUTH_PART_HEADER &&
			    span_eq_nocase(auth->parts[i].text, name)) {
				auth->timestamp = auth->parts[i].text;
				return 0;
			}
	return error_fill(ret_text, ERR_CONFIG,
	                  "the time stamp must be one of the signed parts, as header:NAME");
}

static int set_hmac(struct auth *auth, const struct auth_spec *spec, struct error_text *ret_text)
{
	static const enum hmac_algorithm algorithms[] = {
		[AUTH_SHA256] = HMAC_SHA256, [AUTH_SHA1] = HMAC_SHA1, [AUTH_SHA512] = HMAC_SHA512
	};
	CHECK((size_t)spec->algorithm < ARRAY_LEN(algorithms));
	auth->header = keep(auth, spec->header);
	auth->prefix = keep(auth, spec->prefix);
	auth->algorithm = algorithms[spec->algorithm];
	auth->encoding = spec->encoding;
	int error = check_header_name(auth->header, ret_text);
	if (!error)
		error = set_parts(auth, spec, ret_text);
	if (!error)
		error = set_url(auth, spec, ret_text);
	return error ? error : set_keys(auth, spec, false, ret_text);
}

static int set_kind(struct auth *auth, const struct auth_spec *spec, struct error_text *ret_text)
{
	const struct preset *preset = presets;
	int error;
	switch (spec->kind) {
	case AUTH_NONE: return 0;
	case AUTH_HEADER:
		auth->header = keep(auth, spec->header);
		return set_credentials(auth, spec, ret_text);
	case AUTH_BASIC:
		auth->header = SPAN("Authorization");
		auth->prefix = SPAN("Basic");
		if (spec->user.len == 0 || spec->user.len > 256 ||
		    memchr(spec->user.ptr, ':', spec->user.len))
			return error_fill(
				ret_text, ERR_CONFIG,
				"basic needs a user of 1 to 256 characters without a colon");
		error = check_secrets(auth, spec, true, ret_text);
		for (uint32_t i = 0; i < spec->secret_count && !error; i++)
			auth->credentials[auth->credential_count++] = keep_basic(auth, spec->user,
			                                                         spec->secrets[i]);
		return error;
	case AUTH_BEARER:
		auth->header = SPAN("Authorization");
		auth->prefix = SPAN("Bearer");
		return set_credentials(auth, spec, ret_text);
	case AUTH_STANDARD_WEBHOOKS:
		auth->header = SPAN("webhook-signature");
		error = check_secrets(auth, spec, false, ret_text);
		for (uint32_t i = 0; i < spec->secret_count && !error; i++)
			error = add_standard(auth, spec->secrets[i], i + 1, ret_text);
		return error;
	case AUTH_STRIPE:
		auth->header = SPAN("Stripe-Signature");
		return set_keys(auth, spec, false, ret_text);
	case AUTH_TWILIO:
		auth->header = SPAN("X-Twilio-Signature");
		auth->algorithm = HMAC_SHA1;
		error = set_url(auth, spec, ret_text);
		return error ? error : set_keys(auth, spec, true, ret_text);
	case AUTH_CERTIFICATE:
		for (uint32_t i = 0; i < spec->name_count; i++) {
			if (spec->names[i].len == 0)
				return error_fill(ret_text, ERR_CONFIG,
				                  "certificate name %u is empty", i + 1);
			auth->names[auth->name_count++] = keep(auth, spec->names[i]);
		}
		return 0;
	case AUTH_HMAC: return set_hmac(auth, spec, ret_text);
	case AUTH_GENESYS:
	case AUTH_GITHUB:
	case AUTH_SHOPIFY: break;
	}
	while (preset->kind != spec->kind)
		CHECK(++preset < presets + ARRAY_LEN(presets));
	auth->header = preset->header;
	auth->prefix = preset->prefix;
	auth->encoding = preset->encoding;
	auth->part_count = 1; /* the body */
	return set_keys(auth, spec, false, ret_text);
}

int auth_new(const struct auth_spec *spec, struct auth **ret_auth, struct error_text *ret_text)
{
	CHECK(spec->secret_count <= AUTH_SECRETS_MAX && spec->signed_count <= AUTH_SIGNED_MAX);
	CHECK(spec->name_count <= AUTH_NETWORKS_MAX && spec->network_count <= AUTH_NETWORKS_MAX);
	struct auth *auth = mem_zalloc(1, sizeof(*auth));
	if (!auth)
		return error_fill(ret_text, -ENOMEM, "no memory for authentication");
	auth->kind = spec->kind;
	auth->tolerance_s = spec->tolerance_s ? spec->tolerance_s : AUTH_TOLERANCE_S;
	/* More than any kind can keep: everything once, and what Basic makes of it. */
	auth->memory_room = spec->header.len + spec->prefix.len + spec->public_url.len + 1;
	for (uint32_t i = 0; i < spec->secret_count; i++) {
		size_t plain = spec->user.len + 1 + spec->secrets[i].len;
		auth->memory_room += plain + BASE64_LEN(plain) + 1;
	}
	for (uint32_t i = 0; i < spec->signed_count; i++)
		auth->memory_room += spec->signed_parts[i].len;
	for (uint32_t i = 0; i < spec->name_count; i++)
		auth->memory_room += spec->names[i].len;
	auth->memory = mem_alloc(auth->memory_room);
	int error = auth->memory ? set_kind(auth, spec, ret_text)
	                         : error_fill(ret_text, -ENOMEM, "no memory for authentication");
	for (uint32_t i = 0; i < spec->network_count && !error; i++) {
		error = ip_network_parse(spec->networks[i], &auth->networks[i], ret_text)
		                ? ERR_CONFIG
		                : 0;
		auth->network_count = i + 1;
	}
	if (error) {
		auth_free(auth);
		return error;
	}
	*ret_auth = auth;
	return 0;
}

struct auth *auth_free(struct auth *auth)
{
	if (!auth)
		return NULL;
	for (uint32_t i = 0; i < auth->key_count; i++)
		hmac_key_free(auth->keys[i]);
	if (auth->memory)
		secret_wipe(auth->memory, auth->memory_room);
	mem_free(auth->memory);
	return mem_free(auth);
}

/* ---- checks ---- */

enum auth_result auth_find_header(const struct auth_request *request, struct span name,
                                  struct span *ret_value, struct error_text *ret_why)
{
	const struct http1_head *head = request->head;
	const struct span *found = NULL;
	for (uint32_t i = 0; i < head->header_count; i++) {
		if (!span_eq_nocase(head->headers[i].name, name))
			continue;
		if (found)
			return AUTH_REFUSE(ret_why, AUTH_WRONG, "header %.*s appears twice",
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

/* A2: every credential is compared, even after one fits. */
static enum auth_result check_credential(const struct auth *auth,
                                         const struct auth_request *request,
                                         struct error_text *ret_why)
{
	struct span value;
	bool fits = false;
	enum auth_result result = auth_find_header(request, auth->header, &value, ret_why);
	if (result != AUTH_OK)
		return result;
	struct span scheme = auth->prefix; /* "Basic", then blanks */
	if (scheme.len > 0) {
		if (value.len <= scheme.len || value.ptr[scheme.len] != ' ' ||
		    !span_eq_nocase(span_of(value.ptr, scheme.len), scheme))
			return AUTH_REFUSE(ret_why, AUTH_WRONG,
			                   "header %.*s is not of the scheme %.*s",
			                   AUTH_TEXT(auth->header), AUTH_TEXT(scheme));
		value = span_skip(value, scheme.len);
		while (value.len > 0 && value.ptr[0] == ' ')
			value = span_skip(value, 1);
	}
	for (uint32_t i = 0; i < auth->credential_count; i++)
		fits |= secret_equal(value, auth->credentials[i]);
	if (!fits)
		return AUTH_REFUSE(ret_why, AUTH_WRONG, "header %.*s holds none of the %u secrets",
		                   AUTH_TEXT(auth->header), auth->credential_count);
	return AUTH_OK;
}

static enum auth_result check_certificate(const struct auth *auth,
                                          const struct auth_request *request,
                                          struct error_text *ret_why)
{
	const struct http_peer *peer = request->peer;
	if (!peer->certified)
		return AUTH_REFUSE(ret_why, AUTH_MISSING, "the client sent no certificate");
	if (auth->name_count == 0)
		return AUTH_OK;
	for (uint32_t i = 0; i < peer->name_count; i++) {
		const struct peer_name *name = &peer->names[i];
		for (uint32_t k = 0; k < auth->name_count; k++)
			if (name->dns ? span_eq_nocase(name->text, auth->names[k])
			              : span_eq(name->text, auth->names[k]))
				return AUTH_OK;
	}
	return AUTH_REFUSE(ret_why, AUTH_WRONG,
	                   "none of the %u names of the client certificate is allowed",
	                   peer->name_count);
}

enum auth_result auth_check(const struct auth *auth, const struct auth_request *request,
                            struct error_text *ret_why)
{
	CHECK(request->head && request->peer);
	char address[IP_TEXT_MAX];
	bool allowed = auth->network_count == 0;
	for (uint32_t i = 0; i < auth->network_count && !allowed; i++)
		allowed = ip_network_has(&auth->networks[i], &request->peer->address);
	if (!allowed) {
		ip_format(&request->peer->address, address);
		return AUTH_REFUSE(ret_why, AUTH_NETWORK, "%s is in none of the allowed networks",
		                   address);
	}
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

enum auth_result auth_check_head(const struct auth *auth, const struct auth_request *request)
{
	struct auth_request bare = *request;
	bare.body = SPAN_EMPTY;
	enum auth_result result = auth_check(auth, &bare, NULL);
	bool final = auth->kind == AUTH_NONE || auth->kind == AUTH_HEADER ||
	             auth->kind == AUTH_BASIC || auth->kind == AUTH_BEARER ||
	             auth->kind == AUTH_CERTIFICATE || result == AUTH_MISSING ||
	             result == AUTH_NETWORK;
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
	case AUTH_NETWORK: return "this address is not in an allowed network";
	case AUTH_NO_MEMORY: return "the request could not be checked now; send it again";
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
