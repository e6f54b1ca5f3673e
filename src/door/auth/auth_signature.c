/*
 * Signatures over the message: generic HMAC (of which GitHub, Genesys and Shopify are
 * cases), Stripe, Standard Webhooks, and Twilio's over URL and parameters. See auth.h.
 *
 * All but Twilio's do the same: collect the signatures in the request (given), and what the
 * sender must have signed (message), then try every secret on every signature.
 */
#include <stdlib.h>

#include "base/base64.h"
#include "base/hex.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/text.h"
#include "codec/url.h"
#include "door/auth/auth_private.h"

/* ---- the URL that the sender called ---- */

/* The sender signs the URL that it knows. Behind a proxy that is not the one that arrives
 * here, so public_url gives it. Without public_url it is taken from the request, which is
 * right when there is no proxy. */

/* "host", "host:8443", "[::1]:8443"; false for anything that cannot be one. */
static bool split_authority(struct span text, struct auth_url *url)
{
	uint64_t port;
	size_t len = text.len;
	while (len > 0 && text.ptr[len - 1] >= '0' && text.ptr[len - 1] <= '9')
		len--;
	url->host = text;
	url->port = SPAN_EMPTY;
	if (len > 0 && text.ptr[len - 1] == ':' && !(len > 1 && text.ptr[len - 2] == ':')) {
		url->host = span_of(text.ptr, len - 1);
		url->port = span_skip(text, len);
	}
	for (size_t i = 0; i < url->host.len; i++)
		if (url->host.ptr[i] <= ' ' || memchr("/?#@\\", url->host.ptr[i], 5))
			return false;
	return url->host.len > 0 && (url->port.len == 0 || (text_parse_u64(url->port, &port) == 0 &&
	                                                    port > 0 && port <= 65535));
}

int auth_url_parse(struct span text, struct auth_url *ret_url)
{
	struct auth_url url = { .secure = span_cut_start(&text, SPAN("https://")) };
	if (!url.secure && !span_cut_start(&text, SPAN("http://")))
		return ERR_INVALID;
	const char *slash = text.len ? memchr(text.ptr, '/', text.len) : NULL;
	size_t len = slash ? (size_t)(slash - text.ptr) : text.len;
	if (!split_authority(span_of(text.ptr, len), &url))
		return ERR_INVALID;
	url.prefix = span_skip(text, len);
	for (size_t i = 0; i < url.prefix.len; i++)
		if (url.prefix.ptr[i] <= ' ' || memchr("?#", url.prefix.ptr[i], 2))
			return ERR_INVALID;
	while (url.prefix.len > 0 && url.prefix.ptr[url.prefix.len - 1] == '/')
		url.prefix.len--;
	*ret_url = url;
	return 0;
}

/* With the request's target. */
static enum auth_result url_read(const struct auth *auth, const struct auth_request *request,
                                 struct auth_url *ret_url, struct error_text *ret_why)
{
	struct auth_url url = auth->url;
	if (!auth->has_url) {
		struct span host;
		enum auth_result result = auth_find_header(request, SPAN("Host"), &host, ret_why);
		if (result != AUTH_OK)
			return result;
		if (!split_authority(host, &url))
			return AUTH_REFUSE(ret_why, AUTH_WRONG, "header Host names no host");
		url.secure = request->peer->tls;
	}
	/* public_url may be the whole URL: then it ends in the request's own path. */
	struct span path = request->head->path;
	if (path.len > 0 && path.ptr && url.prefix.len >= path.len && url.prefix.ptr &&
	    span_eq(span_skip(url.prefix, url.prefix.len - path.len), path))
		url.prefix.len -= path.len;
	url.target = request->head->target;
	*ret_url = url;
	return AUTH_OK;
}

/* ---- signatures over parts of the message ---- */

#define GIVEN_MAX 8 /* signatures in one header: rotation needs two or three */
/* Each try of a public key reads the whole body and costs about 50 µs more, before the
 * sender is known. Two signatures with every key are enough for a rotation. */
#define PUBLIC_TRIES_MAX (2 * AUTH_SECRETS_MAX)
#define URL_PIECES 6
#define MESSAGE_MAX (AUTH_SIGNED_MAX * URL_PIECES)

_Static_assert(SIGN_SIGNATURE_LEN <= HMAC_MAX, "one buffer for both");

struct given {
	uint32_t count;
	struct {
		bool by_public_key;
		unsigned char bytes[HMAC_MAX];
		size_t len;
	} list[GIVEN_MAX];
};

struct message {
	uint32_t count;
	struct span parts[MESSAGE_MAX];
};

static void add_part(struct message *message, struct span part)
{
	CHECK(message->count < MESSAGE_MAX);
	message->parts[message->count++] = part;
}

/* The length is checked first (A2); a text that cannot be a signature of this kind is skipped
 * (A3). False: too many signatures. */
static bool add_given(struct given *given, struct span text, enum auth_encoding encoding,
                      size_t len, bool by_public_key)
{
	size_t i = given->count, decoded = len;
	if (text.len != (encoding == AUTH_HEX ? len * 2 : BASE64_LEN(len)))
		return true;
	if (i == GIVEN_MAX)
		return false;
	unsigned char *bytes = given->list[i].bytes;
	bool valid = encoding == AUTH_HEX ? hex_decode(text, bytes, HMAC_MAX)
	                                  : !base64_decode(text, bytes, HMAC_MAX, &decoded);
	if (!valid || decoded != len)
		return true;
	given->list[i].len = len;
	given->list[i].by_public_key = by_public_key;
	given->count++;
	return true;
}

/* A2: every key with every signature, without an early end. */
static int try_keys(const struct auth *auth, const struct message *message,
                    const struct given *given, bool *ret_fits)
{
	unsigned char code[HMAC_MAX];
	struct hmac hmac = { 0 };
	size_t len = hmac_len(auth->algorithm);
	bool fits = false;
	int error = 0;
	for (uint32_t k = 0; k < auth->key_count && !error; k++) {
		hmac_begin(&hmac, auth->keys[k]);
		for (uint32_t i = 0; i < message->count; i++)
			hmac_update(&hmac, message->parts[i]);
		error = hmac_end(&hmac, code);
		for (uint32_t i = 0; i < given->count && !error; i++)
			if (!given->list[i].by_public_key)
				fits |= secret_equal(span_of(code, len),
				                     span_of(given->list[i].bytes, len));
	}
	hmac_close(&hmac);
	secret_wipe(code, sizeof(code));
	*ret_fits = fits;
	return error;
}

static char *join(const struct message *message, size_t *ret_len)
{
	size_t len = 0;
	for (uint32_t i = 0; i < message->count; i++)
		len += message->parts[i].len;
	char *bytes = mem_alloc(len + 1), *at = bytes;
	if (!bytes)
		return NULL;
	for (uint32_t i = 0; i < message->count; i++) {
		if (message->parts[i].len > 0)
			memcpy(at, message->parts[i].ptr, message->parts[i].len);
		at += message->parts[i].len;
	}
	*ret_len = len;
	return bytes;
}

/* Nothing here is secret, so the first match is enough. After PUBLIC_TRIES_MAX tries without
 * one there is none. */
static int try_public_keys(const struct auth *auth, const struct message *message,
                           const struct given *given, bool *ret_fits)
{
	cleanup_free char *bytes = NULL;
	uint32_t tries = 0;
	size_t len = 0;
	for (uint32_t i = 0; i < given->count; i++) {
		if (!given->list[i].by_public_key)
			continue;
		if (!bytes && !(bytes = join(message, &len)))
			return -ENOMEM;
		for (uint32_t k = 0; k < auth->public_count && !*ret_fits; k++) {
			if (tries++ == PUBLIC_TRIES_MAX)
				return 0;
			*ret_fits = sign_verify(auth->public_keys[k], given->list[i].bytes,
			                        span_of(bytes, len));
		}
	}
	return 0;
}

/* `header` is where the signatures were. */
static enum auth_result match(const struct auth *auth, struct span header,
                              const struct message *message, const struct given *given,
                              struct error_text *ret_why)
{
	bool fits = false;
	int error = 0;
	if (given->count == 0)
		return AUTH_REFUSE(ret_why, AUTH_WRONG,
		                   "header %.*s holds no whole signature of the expected kind",
		                   AUTH_TEXT(header));
	error = try_keys(auth, message, given, &fits);
	if (!error && auth->public_count > 0)
		error = try_public_keys(auth, message, given, &fits);
	if (error)
		return AUTH_REFUSE(ret_why, AUTH_NO_MEMORY, "no memory to check a signature");
	if (!fits)
		return AUTH_REFUSE(ret_why, AUTH_WRONG,
		                   "none of the %u secrets gives the signature in header %.*s",
		                   auth->key_count + auth->public_count, AUTH_TEXT(header));
	return AUTH_OK;
}

static enum auth_result too_many(struct span header, struct error_text *ret_why)
{
	return AUTH_REFUSE(ret_why, AUTH_WRONG, "header %.*s holds more than %d signatures",
	                   AUTH_TEXT(header), GIVEN_MAX);
}

/* A4: only called when the signature was right. */
static enum auth_result check_time(const struct auth *auth, struct span text, uint64_t now_s,
                                   struct error_text *ret_why)
{
	uint64_t time_s;
	if (text_parse_u64(text, &time_s))
		return AUTH_REFUSE(ret_why, AUTH_STALE,
		                   "the signed time stamp is not a number of seconds");
	bool past = time_s <= now_s;
	uint64_t gap_s = past ? now_s - time_s : time_s - now_s;
	if (gap_s > auth->tolerance_s)
		return AUTH_REFUSE(ret_why, AUTH_STALE,
		                   "the signed time stamp is %llu s %s, %u s are allowed",
		                   (unsigned long long)gap_s, past ? "old" : "ahead",
		                   auth->tolerance_s);
	return AUTH_OK;
}

static enum auth_result add_url(const struct auth *auth, const struct auth_request *request,
                                struct message *message, struct error_text *ret_why)
{
	struct auth_url url;
	enum auth_result result = url_read(auth, request, &url, ret_why);
	if (result != AUTH_OK)
		return result;
	add_part(message, url.secure ? SPAN("https://") : SPAN("http://"));
	add_part(message, url.host);
	add_part(message, url.port.len > 0 ? SPAN(":") : SPAN_EMPTY);
	add_part(message, url.port);
	add_part(message, url.prefix);
	add_part(message, url.target);
	return AUTH_OK;
}

static enum auth_result add_signed_part(const struct auth *auth, const struct auth_part *part,
                                        const struct auth_request *request, struct message *message,
                                        struct error_text *ret_why)
{
	struct span value;
	enum auth_result result;
	switch (part->kind) {
	case AUTH_PART_URL: return add_url(auth, request, message, ret_why);
	case AUTH_PART_HEADER:
		result = auth_find_header(request, part->text, &value, ret_why);
		if (result != AUTH_OK)
			return result;
		break;
	case AUTH_PART_BODY: value = request->body; break;
	case AUTH_PART_PATH: value = request->head->path; break;
	case AUTH_PART_METHOD: value = request->head->method_text; break;
	default: value = part->text; break;
	}
	add_part(message, value);
	return AUTH_OK;
}

enum auth_result auth_check_hmac(const struct auth *auth, const struct auth_request *request,
                                 struct error_text *ret_why)
{
	struct span value, time;
	struct given given = { .count = 0 };
	struct message message = { .count = 0 };
	enum auth_result result = auth_find_header(request, auth->header, &value, ret_why);
	if (result == AUTH_OK && span_cut_start(&value, auth->prefix))
		add_given(&given, value, auth->encoding, hmac_len(auth->algorithm), false);
	for (uint32_t i = 0; i < auth->part_count && result == AUTH_OK; i++)
		result = add_signed_part(auth, &auth->parts[i], request, &message, ret_why);
	if (result == AUTH_OK)
		result = match(auth, auth->header, &message, &given, ret_why);
	if (result != AUTH_OK || auth->timestamp.len == 0)
		return result;
	/* It is one of the signed parts, so it is there once. */
	result = auth_find_header(request, auth->timestamp, &time, ret_why);
	return result == AUTH_OK ? check_time(auth, time, request->now_s, ret_why) : result;
}

enum auth_result auth_check_stripe(const struct auth *auth, const struct auth_request *request,
                                   struct error_text *ret_why)
{
	struct span value, time = SPAN_EMPTY;
	struct given given = { .count = 0 };
	enum auth_result result = auth_find_header(request, auth->header, &value, ret_why);
	if (result != AUTH_OK)
		return result;
	/* "t=1492774577,v1=…,v1=…,v0=…": unknown schemes are ignored. */
	while (value.len > 0) {
		struct span item = span_cut_item(&value, ',');
		if (span_cut_start(&item, SPAN("v1="))) {
			if (!add_given(&given, item, AUTH_HEX, hmac_len(auth->algorithm), false))
				return too_many(auth->header, ret_why);
		} else if (span_cut_start(&item, SPAN("t="))) {
			if (time.ptr)
				return AUTH_REFUSE(ret_why, AUTH_WRONG,
				                   "header %.*s holds two time stamps",
				                   AUTH_TEXT(auth->header));
			time = item;
		}
	}
	if (time.len == 0)
		return AUTH_REFUSE(ret_why, AUTH_WRONG, "header %.*s holds no time stamp",
		                   AUTH_TEXT(auth->header));
	struct message message = { 3, { time, SPAN("."), request->body } };
	result = match(auth, auth->header, &message, &given, ret_why);
	return result == AUTH_OK ? check_time(auth, time, request->now_s, ret_why) : result;
}

/* The names of the specification, and older ones that many still send. */
static const struct standard_names {
	struct span id, time, signature;
} standard_names = { { "webhook-id", 10 },
	             { "webhook-timestamp", 17 },
	             { "webhook-signature", 17 } },
  svix_names = { { "svix-id", 7 }, { "svix-timestamp", 14 }, { "svix-signature", 14 } };

/* The id must not hold the dot that ends it: else one signature would fit several
 * triples of id, time and body. The specification forbids it to senders. */
enum auth_result auth_check_standard(const struct auth *auth, const struct auth_request *request,
                                     struct error_text *ret_why)
{
	/* One set of names or the other, never both: an unsigned header must not replace a signed
	 * one. So any header of the first set selects that set. */
	const struct http1_head *head = request->head;
	bool standard = http1_header_find(head, standard_names.id) ||
	                http1_header_find(head, standard_names.time) ||
	                http1_header_find(head, standard_names.signature);
	bool svix = http1_header_find(head, svix_names.id) ||
	            http1_header_find(head, svix_names.time) ||
	            http1_header_find(head, svix_names.signature);
	const struct standard_names *names = svix && !standard ? &svix_names : &standard_names;
	struct span value, id, time;
	struct given given = { .count = 0 };
	enum auth_result result = auth_find_header(request, names->signature, &value, ret_why);
	if (result == AUTH_OK)
		result = auth_find_header(request, names->id, &id, ret_why);
	if (result == AUTH_OK)
		result = auth_find_header(request, names->time, &time, ret_why);
	if (result == AUTH_OK && memchr(id.ptr, '.', id.len))
		result = AUTH_REFUSE(ret_why, AUTH_WRONG, "header %.*s holds a dot",
		                     AUTH_TEXT(names->id));
	/* "v1,BASE64 v1a,BASE64 …": unknown versions are ignored. */
	while (result == AUTH_OK && value.len > 0) {
		struct span item = span_cut_item(&value, ' ');
		bool room = true;
		if (auth->key_count > 0 && span_cut_start(&item, SPAN("v1,")))
			room = add_given(&given, item, AUTH_BASE64, hmac_len(auth->algorithm),
			                 false);
		else if (auth->public_count > 0 && span_cut_start(&item, SPAN("v1a,")))
			room = add_given(&given, item, AUTH_BASE64, SIGN_SIGNATURE_LEN, true);
		if (!room)
			result = too_many(names->signature, ret_why);
	}
	if (result == AUTH_OK) {
		struct message message = { 5, { id, SPAN("."), time, SPAN("."), request->body } };
		result = match(auth, names->signature, &message, &given, ret_why);
	}
	return result == AUTH_OK ? check_time(auth, time, request->now_s, ret_why) : result;
}

/* ---- Twilio ---- */

/*
 * HMAC-SHA1, in base64, over the URL that Twilio called, followed by every parameter of a
 * form, name and value, sorted, with nothing between them. A parameter that is there twice
 * with one value counts once. A body that is not a form is covered by bodySHA256 in the
 * query, which is part of the URL.
 *
 * Whether the port is in the signed URL differs between Twilio's own products, so its
 * libraries try both, and so does this.
 */
#define PARAMETERS_MAX 1024
#define SHA1_LEN 20
#define SHA256_LEN 32

struct parameter {
	struct span name, value;
};

struct form {
	size_t count;
	struct parameter *parameters; /* sorted, each once */
	char *bytes;                  /* what they point into */
};

static int compare_spans(struct span a, struct span b)
{
	size_t len = a.len < b.len ? a.len : b.len;
	int order = len > 0 ? memcmp(a.ptr, b.ptr, len) : 0;
	return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_parameters(const void *left, const void *right)
{
	const struct parameter *a = left, *b = right;
	int order = compare_spans(a->name, b->name);
	return order != 0 ? order : compare_spans(a->value, b->value);
}

/* Decodes in place: decoded text is never longer. */
static int decode(struct span *text)
{
	char *bytes = (char *)(uintptr_t)text->ptr; /* form->bytes, which is ours */
	return url_form_decode(*text, bytes, text->len, &text->len);
}

/* ERR_INVALID: not a form. ERR_TOO_LARGE: too many parameters. The caller frees it always. */
static int form_read(struct form *form, struct span body)
{
	size_t kept = 0;
	int error = 0;
	form->bytes = mem_alloc(body.len);
	form->parameters = mem_alloc(PARAMETERS_MAX * sizeof(form->parameters[0]));
	if (!form->bytes || !form->parameters)
		return -ENOMEM;
	memcpy(form->bytes, body.ptr, body.len);
	for (struct span left = span_of(form->bytes, body.len); left.len > 0 && !error;) {
		struct span piece = span_cut_item(&left, '&');
		if (piece.len == 0)
			continue;
		if (form->count == PARAMETERS_MAX)
			return ERR_TOO_LARGE;
		struct parameter *parameter = &form->parameters[form->count++];
		parameter->name = span_cut_item(&piece, '=');
		parameter->value = piece;
		error = decode(&parameter->name);
		if (!error)
			error = decode(&parameter->value);
	}
	if (error || form->count == 0)
		return error;
	qsort(form->parameters, form->count, sizeof(form->parameters[0]), compare_parameters);
	for (size_t i = 1; i < form->count; i++)
		if (compare_parameters(&form->parameters[kept], &form->parameters[i]) != 0)
			form->parameters[++kept] = form->parameters[i];
	form->count = kept + 1;
	return 0;
}

/* A2: every secret with both forms of the URL. */
static int twilio_try_keys(const struct auth *auth, const struct auth_url *url,
                           const struct form *form, struct span signature, bool *ret_fits)
{
	unsigned char code[HMAC_MAX];
	struct hmac hmac = { 0 };
	bool fits = false;
	int error = 0;
	for (uint32_t i = 0; i < auth->key_count * 2 && !error; i++) {
		hmac_begin(&hmac, auth->keys[i / 2]);
		hmac_update(&hmac, url->secure ? SPAN("https://") : SPAN("http://"));
		hmac_update(&hmac, url->host);
		if (i % 2) { /* with the port */
			hmac_update(&hmac, SPAN(":"));
			hmac_update(&hmac, url->port.len > 0 ? url->port
			                   : url->secure     ? SPAN("443")
			                                     : SPAN("80"));
		}
		hmac_update(&hmac, url->prefix);
		hmac_update(&hmac, url->target);
		for (size_t k = 0; k < form->count; k++) {
			hmac_update(&hmac, form->parameters[k].name);
			hmac_update(&hmac, form->parameters[k].value);
		}
		error = hmac_end(&hmac, code);
		if (!error)
			fits |= secret_equal(span_of(code, SHA1_LEN), signature);
	}
	hmac_close(&hmac);
	secret_wipe(code, sizeof(code));
	*ret_fits = fits;
	return error;
}

enum auth_result auth_check_twilio(const struct auth *auth, const struct auth_request *request,
                                   struct error_text *ret_why)
{
	unsigned char signature[SHA1_LEN], given[SHA256_LEN], computed[HMAC_MAX];
	struct span value, digest, body = request->body;
	struct auth_url url;
	size_t len = 0;
	enum auth_result result = auth_find_header(request, auth->header, &value, ret_why);
	if (result == AUTH_OK)
		result = url_read(auth, request, &url, ret_why);
	if (result != AUTH_OK)
		return result;
	if (value.len != BASE64_LEN(SHA1_LEN) ||
	    base64_decode(value, signature, sizeof(signature), &len) || len != SHA1_LEN)
		return AUTH_REFUSE(ret_why, AUTH_WRONG,
		                   "header %.*s holds no whole signature of the expected kind",
		                   AUTH_TEXT(auth->header));
	bool digested = url_param_find(request->head->query, SPAN("bodySHA256"), &digest) > 0;
	const struct span *type = http1_header_find(request->head, SPAN("Content-Type"));
	bool is_form = type &&
	               http1_is_media_type(*type, SPAN("application/x-www-form-urlencoded"));
	if (!digested && body.len > 0 && !is_form)
		return AUTH_REFUSE(
			ret_why, AUTH_WRONG,
			"the body is not a form, and no bodySHA256 in the query covers it");
	struct form form = { 0 };
	bool fits = false;
	int error = body.len > 0 && !digested ? form_read(&form, body) : 0;
	if (!error)
		error = twilio_try_keys(auth, &url, &form, span_of(signature, sizeof(signature)),
		                        &fits);
	mem_free(form.parameters);
	mem_free(form.bytes);
	if (!error && fits && digested)
		error = hmac_digest(HMAC_SHA256, body, computed) ? -ENOMEM : 0;
	if (error == -ENOMEM)
		return AUTH_REFUSE(ret_why, AUTH_NO_MEMORY, "no memory to check a signature");
	if (error)
		return AUTH_REFUSE(ret_why, AUTH_WRONG,
		                   "the body is not a form of at most %d parameters",
		                   PARAMETERS_MAX);
	if (!fits)
		return AUTH_REFUSE(ret_why, AUTH_WRONG,
		                   "none of the %u secrets gives the signature in header %.*s%s",
		                   auth->key_count, AUTH_TEXT(auth->header),
		                   auth->has_url ? ""
		                                 : " (there is no public_url: the signed URL was "
		                                   "taken from the request)");
	if (digested &&
	    (digest.len != sizeof(given) * 2 || !hex_decode(digest, given, sizeof(given)) ||
	     !secret_equal(span_of(given, sizeof(given)), span_of(computed, sizeof(given)))))
		return AUTH_REFUSE(ret_why, AUTH_WRONG,
		                   "the body does not match the signed bodySHA256");
	return AUTH_OK;
}
