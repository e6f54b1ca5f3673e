/* gateway: see gateway.h. */
#include "cli/gateway.h"

#include <stdio.h>

#include "base/exit_code.h"
#include "base/mem.h"
#include "base/secret.h"
#include "cli/answer.h"
#include "codec/http1.h"
#include "codec/json.h"
#include "codec/url.h"
#include "link/http.h"
#include "sys/file.h"

#define LIMIT_S 10
#define TOKEN_MAX 4096u

/* "Authorization: …" of the file, which may end with a line break. `line` has room for
 * all of it: growing would leave copies of a token. */
static int read_token(const char *path, struct buf *line, struct error_text *ret_text)
{
	char *bytes = NULL;
	size_t len = 0;
	int r = file_read_whole(file_system_real(), path, TOKEN_MAX, &bytes, &len);
	if (r < 0)
		return error_fill(ret_text, r, "%s: %s", path, error_name(r));
	while (len > 0 && (bytes[len - 1] == '\n' || bytes[len - 1] == '\r'))
		len--;
	buf_append_span(line, SPAN("Authorization: Bearer "));
	buf_append(line, bytes, len);
	buf_append_char(line, '\0');
	secret_wipe(bytes, len);
	mem_free(bytes);
	return line->failed ? error_fill(ret_text, line->failed, "%s: too long", path) : 0;
}

static int failed(const struct gateway_options *options, const struct http_url *parts, int error,
                  const struct error_text *why, struct error_text *ret_text)
{
	char where[HTTP_HOST_MAX + 16];
	if (option_is_unix(options->url))
		snprintf(where, sizeof(where), "%.255s", options->url + strlen("unix:"));
	else
		snprintf(where, sizeof(where), "%s port %u", parts->host, parts->port);
	if (error == ERR_INVALID)
		return error_fill(ret_text, error, "%s is no gateway%s", where,
		                  parts->https ? ""
		                               : "; if it listens with TLS, ask https://…, "
		                                 "with its certificate as --ca");
	if (error == -ECONNREFUSED || error == -ENOENT || error == -EHOSTUNREACH)
		return error_fill(ret_text, error, "no gateway answers at %s: %s", where,
		                  why->text);
	return error_fill(ret_text, error, "%s: %s", where, why->text);
}

/* The "detail" of a problem, else the status in words. */
static int refused(struct span body, uint16_t status, struct error_text *ret_text)
{
	struct span value = SPAN_EMPTY;
	char detail[256];
	size_t len = 0;
	if (answer_value(body, "detail", &value) == 0 && value.len > 0 &&
	    json_decode(value, detail, sizeof(detail), &len) == 0)
		return error_fill(ret_text, ERR_INVALID, "the gateway says %u: %.*s", status,
		                  (int)len, detail);
	return error_fill(ret_text, ERR_INVALID, "the gateway says %u %s", status,
	                  http1_reason(status));
}

static int ask(const struct gateway_options *options, const char *method, struct span target,
               struct buf *out, struct error_text *ret_text)
{
	struct http_url parts = { .https = false };
	struct error_text why = { "" };
	char memory[TOKEN_MAX + 64];
	struct buf token = buf_on(memory, sizeof(memory));
	struct buf url = { 0 };
	struct buf body = { .cap = GATEWAY_ANSWER_MAX };
	uint16_t status = 0;
	bool local = option_is_unix(options->url);
	int r = local ? 0 : http_url_read(options->url, &parts);
	/* Only the part in front of the target. */
	if (r != -ENOMEM && !local && (r != 0 || !parts.bare))
		r = error_fill(ret_text, ERR_INVALID,
		               "\"%.100s\" is not an address: expected http://HOST:PORT, https://… "
		               "or unix:/PATH",
		               options->url);
	if (r == 0 && options->ca && !parts.https)
		r = error_fill(ret_text, ERR_INVALID, "--ca needs an https:// address");
	if (r == 0 && options->token_file)
		r = read_token(options->token_file, &token, ret_text);
	if (r < 0)
		goto end;
	struct http_line line = { .text = memory };
	if (local)
		buf_append_span(&url, SPAN("http://localhost"));
	else
		buf_printf(&url, "%s://%s:%u", parts.https ? "https" : "http", parts.host,
		           parts.port);
	buf_append_span(&url, target);
	buf_append_char(&url, '\0');
	struct http_ask question = {
		.method = method,
		.url = url.ptr,
		.unix_path = local ? options->url + strlen("unix:") : NULL,
		.ca_file = options->ca,
		.lines = options->token_file ? &line : NULL,
		.limit_s = LIMIT_S,
		.answer_max = GATEWAY_ANSWER_MAX,
	};
	r = url.failed ? error_fill(ret_text, url.failed, "not enough memory for the request")
	               : http_ask(&question, &status, &body, &why);
	if (r < 0 && !url.failed)
		failed(options, &parts, r, &why, ret_text);
	else if (r == 0 && status / 100 != 2)
		r = refused(buf_span(&body), status, ret_text);
	if (r == 0)
		buf_append_span(out, buf_span(&body));
	if (r == 0 && out->failed)
		r = error_fill(ret_text, -ENOMEM, "not enough memory for the answer");
end:
	secret_wipe(memory, sizeof(memory));
	buf_free(&url);
	buf_free(&body);
	return r;
}

int gateway_get(const struct gateway_options *options, struct span target, struct buf *out,
                struct error_text *ret_text)
{
	return ask(options, "GET", target, out, ret_text);
}

int gateway_post(const struct gateway_options *options, struct span target, struct buf *out,
                 struct error_text *ret_text)
{
	return ask(options, "POST", target, out, ret_text);
}

int gateway_print(const char *command, const struct gateway_options *options, const char *method,
                  struct buf *target, bool json, answer_write_fn *write)
{
	struct buf answer = { .cap = GATEWAY_ANSWER_MAX };
	struct error_text text = { "" };
	int code = EXIT_CODE_FAILED;
	int r = target->failed ? error_fill(&text, ERR_TOO_LARGE, "the request is too long")
	                       : ask(options, method, buf_span(target), &answer, &text);
	if (r < 0)
		fprintf(stderr, "stile %s: %s\n", command, text.text);
	else
		code = answer_print(command, buf_span(&answer), json, write);
	buf_free(&answer);
	buf_free(target);
	return code;
}

void gateway_add_parameter(struct buf *target, const char *name, const char *value)
{
	if (!value)
		return;
	buf_printf(target, "&%s=", name);
	url_percent_encode(span_str(value), target);
}
