/*
 * Twilio: HMAC-SHA1, in base64, over the URL that it called, followed by every
 * parameter of a form, name and value, sorted, with nothing in between. A
 * parameter that is there twice with one value counts once. A body that is no
 * form is covered by bodySHA256 in the query, which the URL carries.
 *
 * Whether the port stands in the signed URL has differed between Twilio's own
 * products, so its libraries try both, and so does this.
 *
 * See auth.h.
 */
#include <stdlib.h>

#include "base/base64.h"
#include "base/hex.h"
#include "base/mem.h"
#include "base/secret.h"
#include "codec/url.h"
#include "door/auth/auth_private.h"

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

static void form_free(struct form *form)
{
	mem_free(form->parameters);
	mem_free(form->bytes);
}

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

static int add_parameter(struct form *form, struct span piece)
{
	struct parameter *parameter = &form->parameters[form->count++];
	parameter->name = span_cut_item(&piece, '=');
	parameter->value = piece;
	int error = decode(&parameter->name);
	return error ? error : decode(&parameter->value);
}

static int split(struct form *form, size_t len)
{
	struct span left = span_of(form->bytes, len);
	int error = 0;
	while (left.len > 0 && !error) {
		struct span piece = span_cut_item(&left, '&');
		if (piece.len > 0)
			error = form->count < PARAMETERS_MAX ? add_parameter(form, piece)
			                                     : ERR_TOO_LARGE;
	}
	return error;
}

static void sort_and_unite(struct form *form)
{
	size_t kept = 0;
	if (form->count == 0)
		return;
	qsort(form->parameters, form->count, sizeof(form->parameters[0]), compare_parameters);
	for (size_t i = 1; i < form->count; i++)
		if (compare_parameters(&form->parameters[kept], &form->parameters[i]) != 0)
			form->parameters[++kept] = form->parameters[i];
	form->count = kept + 1;
}

/* ERR_INVALID: no form. ERR_TOO_LARGE: too many. Free it whatever comes back. */
static int form_read(struct form *form, struct span body)
{
	form->bytes = mem_alloc(body.len);
	form->parameters = mem_alloc(PARAMETERS_MAX * sizeof(form->parameters[0]));
	if (!form->bytes || !form->parameters)
		return -ENOMEM;
	memcpy(form->bytes, body.ptr, body.len);
	int error = split(form, body.len);
	if (!error)
		sort_and_unite(form);
	return error;
}

static bool is_form(const struct http1_head *head)
{
	const struct span *value = http1_header_find(head, SPAN("Content-Type"));
	return value && http1_is_media_type(*value, SPAN("application/x-www-form-urlencoded"));
}

static enum auth_result check_body_digest(struct span text, struct span body,
                                          struct error_text *ret_why)
{
	unsigned char given[SHA256_LEN], digest[HMAC_MAX];
	if (hmac_digest(HMAC_SHA256, body, digest))
		return AUTH_REFUSE(ret_why, AUTH_NO_MEMORY, "no memory to check a signature");
	if (text.len != sizeof(given) * 2 || !hex_decode(text, given, sizeof(given)) ||
	    !secret_equal(span_of(given, sizeof(given)), span_of(digest, sizeof(given))))
		return AUTH_REFUSE(ret_why, AUTH_WRONG,
		                   "the body does not fit to the signed bodySHA256");
	return AUTH_OK;
}

static void feed(struct hmac *hmac, const struct auth_url *url, bool with_port,
                 const struct form *form)
{
	struct span port = url->port;
	if (port.len == 0)
		port = url->secure ? SPAN("443") : SPAN("80");
	hmac_update(hmac, url->secure ? SPAN("https://") : SPAN("http://"));
	hmac_update(hmac, url->host);
	if (with_port) {
		hmac_update(hmac, SPAN(":"));
		hmac_update(hmac, port);
	}
	hmac_update(hmac, url->prefix);
	hmac_update(hmac, url->target);
	for (size_t i = 0; i < form->count; i++) {
		hmac_update(hmac, form->parameters[i].name);
		hmac_update(hmac, form->parameters[i].value);
	}
}

/* A2: every secret with both forms of the URL. */
static int try_keys(const struct auth *auth, const struct auth_url *url, const struct form *form,
                    struct span signature, bool *ret_fits)
{
	unsigned char code[HMAC_MAX];
	struct hmac hmac = { 0 };
	bool fits = false;
	int error = 0;
	for (uint32_t i = 0; i < auth->key_count * 2 && !error; i++) {
		hmac_begin(&hmac, auth->keys[i / 2]);
		feed(&hmac, url, i % 2, form);
		error = hmac_end(&hmac, code);
		if (!error)
			fits |= secret_equal(span_of(code, SHA1_LEN), signature);
	}
	hmac_close(&hmac);
	secret_wipe(code, sizeof(code));
	*ret_fits = fits;
	return error;
}

static enum auth_result check_form(const struct auth *auth, const struct auth_url *url,
                                   struct span body, struct span signature,
                                   struct error_text *ret_why)
{
	struct form form = { 0 };
	bool fits = false;
	int error = body.len > 0 ? form_read(&form, body) : 0;
	if (!error)
		error = try_keys(auth, url, &form, signature, &fits);
	form_free(&form);
	if (error == -ENOMEM)
		return AUTH_REFUSE(ret_why, AUTH_NO_MEMORY, "no memory to check a signature");
	if (error)
		return AUTH_REFUSE(ret_why, AUTH_WRONG,
		                   "the body is no form of at most %d parameters", PARAMETERS_MAX);
	if (!fits)
		return AUTH_REFUSE(ret_why, AUTH_WRONG,
		                   "none of the %u secrets gives the signature in header %.*s%s",
		                   auth->key_count, AUTH_TEXT(auth->header),
		                   auth->has_url ? ""
		                                 : " (there is no public_url: the signed URL was "
		                                   "taken from the request)");
	return AUTH_OK;
}

enum auth_result auth_check_twilio(const struct auth *auth, const struct auth_request *request,
                                   struct error_text *ret_why)
{
	unsigned char signature[SHA1_LEN];
	struct span value, digest, body = request->body;
	struct auth_url url;
	size_t len = 0;
	enum auth_result result = auth_find_header(request, auth->header, &value, ret_why);
	if (result == AUTH_OK)
		result = auth_url_read(auth, request, &url, ret_why);
	if (result != AUTH_OK)
		return result;
	if (value.len != BASE64_LEN(SHA1_LEN) ||
	    base64_decode(value, signature, sizeof(signature), &len) || len != SHA1_LEN)
		return AUTH_REFUSE(ret_why, AUTH_WRONG,
		                   "header %.*s holds no whole signature of the expected kind",
		                   AUTH_TEXT(auth->header));
	bool digested = url_param_find(request->head->query, SPAN("bodySHA256"), &digest) > 0;
	if (!digested && body.len > 0 && !is_form(request->head))
		return AUTH_REFUSE(ret_why, AUTH_WRONG,
		                   "the body is no form, and no bodySHA256 in the query covers it");
	result = check_form(auth, &url, digested ? SPAN_EMPTY : body,
	                    span_of(signature, sizeof(signature)), ret_why);
	if (result == AUTH_OK && digested)
		result = check_body_digest(digest, body, ret_why);
	return result;
}
