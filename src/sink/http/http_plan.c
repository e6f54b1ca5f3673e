/* http_plan: see http_plan.h. */
#include "sink/http/http_plan.h"

#include <string.h>

#include "base/base64.h"
#include "base/mem.h"
#include "base/secret.h"
#include "codec/http1.h"
#include "link/http.h"

#define SECRET_MIN 24
#define SECRET_MAX 64
#define PATH_BLOT_MIN 16u
#define PART_BLOT_MIN 8u

static const char *const builtin_names[HTTP_BUILTIN_COUNT] = {
	[HTTP_KEY] = "Idempotency-Key",
	[HTTP_ATTEMPT] = "Stile-Attempt",
	[HTTP_SOURCE] = "Stile-Source",
	[HTTP_TICKETS] = "Stile-Tickets",
	[HTTP_CONTENT_TYPE] = "Content-Type",
	[HTTP_TRACEPARENT] = "traceparent",
	[HTTP_TRACESTATE] = "tracestate",
	[HTTP_CORRELATION] = "X-Correlation-Id",
	[HTTP_WEBHOOK_ID] = "webhook-id",
	[HTTP_WEBHOOK_TIMESTAMP] = "webhook-timestamp",
	[HTTP_WEBHOOK_SIGNATURE] = "webhook-signature",
	[HTTP_USER_AGENT] = "User-Agent",
};

/* What says where a message goes or ends, and what is signed, is not for others. */
static const char *const forbidden_names[] = {
	"Host",       "Content-Length",    "Transfer-Encoding",
	"Connection", "Keep-Alive",        "TE",
	"Trailer",    "Upgrade",           "Expect",
	"webhook-id", "webhook-timestamp", "webhook-signature",
};

static const char *const secret_names[] = { "auth", "cookie", "key", "token", "secret", "passw" };

struct span http_builtin_name(enum http_builtin builtin)
{
	return span_str(builtin_names[builtin]);
}

const char *http_plan_refusal(const struct http_plan *plan, const struct ip_address *address)
{
	const char *special = ip_special(address);
	for (uint32_t i = 0; special && i < plan->allow_count; i++)
		if (ip_network_has(&plan->allow[i], address))
			special = NULL;
	return special;
}

static int add_blot(struct http_plan *plan, struct span secret)
{
	if (secret.len < SECRET_BLOT_MIN)
		return 0;
	for (uint32_t i = 0; i < plan->blot_count; i++)
		if (span_eq(plan->blots[i], secret))
			return 0;
	if (plan->blot_count == HTTP_BLOTS_MAX)
		return ERR_TOO_LARGE;
	struct span copy = arena_copy(&plan->arena, secret);
	if (!copy.ptr)
		return -ENOMEM;
	plan->blots[plan->blot_count++] = copy;
	return 0;
}

/* "Bearer abc": all of it, and abc alone. */
static int add_header_blots(struct http_plan *plan, struct span value)
{
	struct span last = value;
	for (size_t i = 0; i < value.len; i++)
		if (value.ptr[i] == ' ')
			last = span_skip(value, i + 1);
	int error = add_blot(plan, value);
	if (!error && last.len < value.len)
		error = add_blot(plan, last);
	return error;
}

/* What stands between `ends` and is long enough; but for places, which the event fills. */
static int add_part_blots(struct http_plan *plan, struct span text, const char *ends, size_t least)
{
	size_t begin = 0;
	bool place = false;
	int error = 0;
	for (size_t i = 0; !error && i <= text.len; i++) {
		char c = i < text.len ? text.ptr[i] : '}';
		if (c == '\0' || (c != '{' && c != '}' && !strchr(ends, c)))
			continue;
		if (!place && i - begin >= least)
			error = add_blot(plan, span_of(text.ptr + begin, i - begin));
		begin = i + 1;
		place = c == '{' || (place && c != '}');
	}
	return error;
}

/* Behind the host of a URL that could be read. */
static struct span find_path(struct span url)
{
	CHECK(url.ptr);
	const char *slashes = memmem(url.ptr, url.len, "://", 3);
	struct span rest = slashes ? span_skip(url, (size_t)(slashes - url.ptr) + 3) : url;
	while (rest.len > 0 && rest.ptr[0] != '/' && rest.ptr[0] != '?')
		rest = span_skip(rest, 1);
	return rest;
}

/* The query is often where a secret is, and long names of the path may be some, as in
 * https://hooks.example.com/services/SECRET. */
static int add_url_blots(struct http_plan *plan, struct span url)
{
	struct span path = find_path(url);
	const char *mark = path.len ? memchr(path.ptr, '?', path.len) : NULL;
	size_t len = mark ? (size_t)(mark - path.ptr) : path.len;
	int error = add_part_blots(plan, span_of(path.ptr, len), "/", PATH_BLOT_MIN);
	return error ? error : add_part_blots(plan, span_skip(path, len), "?&=", PART_BLOT_MIN);
}

static bool has_nocase(struct span text, const char *part)
{
	struct span wanted = span_str(part);
	for (size_t i = 0; i + wanted.len <= text.len; i++)
		if (span_eq_nocase(span_of(text.ptr + i, wanted.len), wanted))
			return true;
	return false;
}

static bool is_secret(const struct http_header_option *header)
{
	bool secret = header->secret || header->hidden;
	for (size_t i = 0; !secret && i < ARRAY_LEN(secret_names); i++)
		secret = has_nocase(header->name, secret_names[i]);
	return secret;
}

static int judge_name(struct span name, struct error_text *ret_text)
{
	bool token = name.len > 0 && name.len <= 128;
	for (size_t i = 0; token && i < name.len; i++)
		token = http1_is_token_char(name.ptr[i]);
	if (!token)
		return error_fill(ret_text, ERR_CONFIG, "headers: expected a header's name");
	for (size_t i = 0; i < ARRAY_LEN(forbidden_names); i++)
		if (span_eq_nocase(name, span_str(forbidden_names[i])))
			return error_fill(ret_text, ERR_CONFIG, "headers: %s cannot be set",
			                  forbidden_names[i]);
	return 0;
}

static int judge_secret(struct span value, struct error_text *ret_text)
{
	for (size_t i = 0; i < value.len; i++)
		if (!http1_is_value_char(value.ptr[i]))
			return error_fill(ret_text, ERR_CONFIG,
			                  "headers: a secret with a line end or control character");
	return 0;
}

static int add_line(struct http_plan *plan, struct http_target *target,
                    const struct span parts[static 3])
{
	struct http_line *node = arena_alloc(&plan->arena, sizeof(*node));
	size_t len = parts[0].len + parts[1].len + parts[2].len;
	char *line = arena_alloc(&plan->arena, len + 1);
	if (!node || !line)
		return -ENOMEM;
	struct buf out = buf_on(line, len);
	for (size_t i = 0; i < 3; i++)
		buf_append_span(&out, parts[i]);
	*node = (struct http_line){ .text = line, .next = target->fixed };
	target->fixed = node;
	return 0;
}

/* "Name: value", or "Name;" which is libcurl's way to write an empty one. */
static int add_fixed(struct http_plan *plan, struct http_target *target, struct span name,
                     struct span value)
{
	const struct span parts[] = { name, value.len ? SPAN(": ") : SPAN(";"), value };
	return add_line(plan, target, parts);
}

static void mark_replaced(const struct http_plan *plan, struct http_target *target,
                          struct span name)
{
	for (uint32_t i = 0; i < HTTP_BUILTIN_COUNT; i++) {
		bool correlation = i == HTTP_CORRELATION;
		struct span builtin = correlation ? plan->options.correlation_header
		                                  : http_builtin_name((enum http_builtin)i);
		if (span_eq_nocase(name, builtin))
			target->replaced |= 1u << i;
	}
}

static int add_header(struct http_plan *plan, struct http_target *target,
                      const struct http_header_option *header, struct error_text *ret_text)
{
	uint32_t number = 0;
	int error = judge_name(header->name, ret_text);
	if (error)
		return error;
	mark_replaced(plan, target, header->name);
	bool fixed = header->secret; /* never a template: it may hold any character */
	if (fixed) {
		error = judge_secret(header->value, ret_text);
	} else {
		struct error_text text = { "" };
		error = templates_add(plan->templates, header->value, TEMPLATE_HEADER, &number,
		                      &text);
		if (error && error != -ENOMEM)
			return error_fill(ret_text, ERR_CONFIG, "headers: %.*s: %s",
			                  (int)header->name.len, header->name.ptr, text.text);
		fixed = !error && template_is_fixed(plan->templates, number);
	}
	if (!error && is_secret(header))
		error = fixed ? add_header_blots(plan, header->value)
		              : add_part_blots(plan, header->value, " ;,=", PART_BLOT_MIN);
	for (uint32_t i = 0; !error && i < header->part_count; i++)
		error = add_blot(plan, header->parts[i]);
	if (!error && fixed)
		return add_fixed(plan, target, header->name, header->value);
	struct span name = arena_copy(&plan->arena, header->name);
	if (error || !name.ptr)
		return error ? error : -ENOMEM;
	target->own[target->own_count++] = (struct http_own_header){ name, number };
	return 0;
}

static int add_headers(struct http_plan *plan, struct http_target *target,
                       const struct http_headers *headers, struct error_text *ret_text)
{
	if (headers->count > HTTP_HEADERS_MAX)
		return error_fill(ret_text, ERR_CONFIG, "headers: at most %u", HTTP_HEADERS_MAX);
	/* "Name:" is libcurl's way to leave one out: it would ask before it sends much. */
	const struct span no_expect[] = { SPAN("Expect:"), SPAN_EMPTY, SPAN_EMPTY };
	int error = add_line(plan, target, no_expect);
	for (uint32_t i = 0; !error && i < headers->count; i++)
		error = add_header(plan, target, &headers->list[i], ret_text);
	if (!error && !(target->replaced & 1u << HTTP_USER_AGENT))
		error = add_fixed(plan, target, SPAN("User-Agent"), SPAN("stile/" STILE_VERSION));
	return error;
}

/* ---- URLs ---- */

/* A URL, cut behind its host and port. */
struct halves {
	struct span front;
	struct span rest;
};

static int refuse_url(struct error_text *ret_text, const char *expected)
{
	return error_fill(ret_text, ERR_CONFIG, "url: expected %s", expected);
}

static size_t find_any(struct span text, const char *any_of)
{
	size_t at = 0;
	CHECK(text.ptr || text.len == 0);
	while (at < text.len && !(text.ptr[at] && strchr(any_of, text.ptr[at])))
		at++;
	return at;
}

static int cut_url(struct span url, struct halves *ret_halves, struct error_text *ret_text)
{
	struct span after = span_skip(url, find_any(url, ":"));
	if (!after.ptr || !span_cut_start(&after, SPAN("://")))
		return refuse_url(ret_text, "http://… or https://…");
	size_t authority = find_any(after, "/?#");
	struct span host = span_of(after.ptr, authority);
	if (find_any(host, "{}") < host.len)
		return refuse_url(ret_text,
		                  "a fixed host: placeholders are allowed in path and query only");
	if (find_any(host, "@\\%") < host.len)
		return refuse_url(ret_text, "a host and a port, without a user");
	struct span rest = span_skip(after, authority);
	if (find_any(rest, "#") < rest.len)
		return refuse_url(ret_text, "no #: a fragment is not sent");
	*ret_halves = (struct halves){ span_of(url.ptr, (size_t)(host.ptr - url.ptr) + host.len),
		                       rest };
	return 0;
}

static int fill_host(struct http_plan *plan, struct http_target *target, struct span host,
                     struct error_text *ret_text)
{
	struct ip_address ip;
	bool bracketed = host.len > 2 && host.ptr[0] == '[';
	struct span bare = bracketed ? span_of(host.ptr + 1, host.len - 2) : host;
	target->host = arena_copy(&plan->arena, bare).ptr;
	target->name = arena_copy(&plan->arena, host).ptr;
	if (!target->host || !target->name)
		return -ENOMEM;
	target->literal = ip_parse(bare, &ip) == 0;
	if (bracketed && !target->literal)
		return refuse_url(ret_text, "an address between the brackets");
	const char *special = target->literal ? http_plan_refusal(plan, &ip) : NULL;
	if (special)
		return error_fill(ret_text, ERR_CONFIG,
		                  "url: %s is %s address; list such networks in allow",
		                  target->host, special);
	return 0;
}

static int put_prefix(struct http_plan *plan, struct http_target *target)
{
	char memory[640];
	struct buf out = buf_on(memory, sizeof(memory));
	buf_append_span(&out, target->https ? SPAN("https://") : SPAN("http://"));
	buf_append_span(&out, span_str(target->name));
	if (target->port != (target->https ? 443 : 80))
		buf_printf(&out, ":%u", target->port);
	if (out.failed)
		return -ENOMEM;
	target->prefix = arena_copy(&plan->arena, buf_span(&out));
	return target->prefix.ptr ? 0 : -ENOMEM;
}

/* The URL gets the name that TLS verifies, the request the host that was meant. */
static int set_tls_name(struct http_plan *plan, struct http_target *target, struct span name,
                        struct error_text *ret_text)
{
	if (!target->https)
		return error_fill(ret_text, ERR_CONFIG, "tls: the URL begins with http:");
	if (name.len > 255 || find_any(name, "/?#@:[]\\%{} ") < name.len)
		return error_fill(ret_text, ERR_CONFIG, "tls: expected the name of a server");
	struct span host = span_skip(target->prefix, strlen("https://"));
	const struct span line[] = { SPAN("Host: "), host, SPAN_EMPTY };
	target->name = arena_copy(&plan->arena, name).ptr;
	if (!target->name || add_line(plan, target, line))
		return -ENOMEM;
	return put_prefix(plan, target);
}

static int fill_front(struct http_plan *plan, struct http_target *target, struct span front,
                      struct error_text *ret_text)
{
	struct http_url url;
	char copy[512];
	int error = ERR_INVALID;
	if (front.ptr && front.len < sizeof(copy) && !memchr(front.ptr, '\0', front.len)) {
		memcpy(copy, front.ptr, front.len);
		copy[front.len] = '\0';
		error = http_url_read(copy, &url);
	}
	if (error == ERR_INVALID)
		return refuse_url(ret_text,
		                  "http:// or https://, a host and a port from 1 to 65535, "
		                  "if any");
	if (error)
		return error;
	target->https = url.https;
	target->port = url.port;
	error = fill_host(plan, target, span_str(url.host), ret_text);
	return error ? error : put_prefix(plan, target);
}

/* The path is never empty, as it is in the request. */
static int add_path(struct http_plan *plan, struct http_target *target, struct span rest,
                    struct error_text *ret_text)
{
	struct error_text text = { "" };
	struct buf path = { .cap = TEMPLATE_TEXT_MAX };
	if (rest.len == 0 || rest.ptr[0] != '/')
		buf_append_char(&path, '/');
	buf_append_span(&path, rest);
	int error = path.failed ? -ENOMEM
	                        : templates_add(plan->templates, buf_span(&path), TEMPLATE_URL,
	                                        &target->path, &text);
	if (error && error != -ENOMEM)
		error = error_fill(ret_text, ERR_CONFIG, "url: behind the host, %s", text.text);
	size_t query = find_any(buf_span(&path), "?");
	target->places_in_path = find_any(buf_span(&path), "{") < query;
	buf_free(&path);
	return error;
}

/* The whole URL once, as an example or, without places, for good. */
static int judge_whole(struct http_plan *plan, struct http_target *target,
                       struct error_text *ret_text)
{
	struct buf out = { .cap = 2 * TEMPLATE_TEXT_MAX };
	buf_append_span(&out, target->prefix);
	template_sample(plan->templates, target->path, &out);
	buf_append_char(&out, '\0');
	int error = out.failed ? -ENOMEM : 0;
	if (!error && !http_url_is_valid(out.ptr))
		error = refuse_url(ret_text, "a URL that can be read");
	if (!error && template_is_fixed(plan->templates, target->path)) {
		target->url = arena_copy(&plan->arena, span_of(out.ptr, out.len - 1)).ptr;
		error = target->url ? 0 : -ENOMEM;
	}
	buf_free(&out);
	return error;
}

static int compile_url(struct http_plan *plan, struct http_target *target, struct span url,
                       struct span tls_name, struct error_text *ret_text)
{
	struct halves halves = { 0 };
	int error = cut_url(url, &halves, ret_text);
	if (!error)
		error = fill_front(plan, target, halves.front, ret_text);
	if (!error && tls_name.len > 0)
		error = set_tls_name(plan, target, tls_name, ret_text);
	if (!error)
		error = add_path(plan, target, halves.rest, ret_text);
	return error ? error : judge_whole(plan, target, ret_text);
}

/* Many servers decode a name before they look for its slashes. */
static size_t slash_at(struct span text)
{
	if (text.ptr[0] == '/')
		return 1;
	struct span code = text.len >= 3 ? span_of(text.ptr, 3) : SPAN_EMPTY;
	return span_eq_nocase(code, SPAN("%2F")) || span_eq_nocase(code, SPAN("%5C")) ? 3 : 0;
}

static struct span cut_name(struct span *path)
{
	size_t len = 0, slash = 0;
	while (len < path->len && (slash = slash_at(span_skip(*path, len))) == 0)
		len++;
	struct span name = span_of(path->ptr, len);
	*path = span_skip(*path, len + slash);
	return name;
}

/* A value of dots would climb out of the path: . and .. are no names there. */
static bool climbs(struct span path)
{
	CHECK(path.ptr);
	path = span_of(path.ptr, find_any(path, "?"));
	while (path.len > 0) {
		struct span name = cut_name(&path);
		if (span_eq(name, SPAN(".")) || span_eq(name, SPAN("..")))
			return true;
	}
	return false;
}

int http_url_put(const struct http_target *target, const struct template_run *run, struct buf *out,
                 struct error_text *ret_text)
{
	buf_append_span(out, target->prefix);
	size_t path = out->len;
	int error = template_put(run, target->path, out, ret_text);
	if (error)
		return error;
	if (target->places_in_path && climbs(span_skip(buf_span(out), path)))
		return error_fill(
			ret_text, ERR_INVALID,
			"a value in the URL's path is . or .., or contains such a segment");
	buf_append_char(out, '\0');
	return out->failed ? -ENOMEM : 0;
}

/* ---- the plan as a whole ---- */

static int add_target(struct http_plan *plan, struct http_target *target, struct span url,
                      const struct http_outlet_options *options, struct error_text *ret_text)
{
	int error = compile_url(plan, target, url, options->server_name, ret_text);
	if (!error)
		error = add_headers(plan, target, &options->headers, ret_text);
	const char *query = !error && target->url ? strchr(target->url, '?') : NULL;
	if (query)
		error = add_blot(plan, span_str(query + 1));
	if (!error)
		error = add_url_blots(plan, url);
	return error == ERR_TOO_LARGE
	               ? error_fill(ret_text, ERR_CONFIG, "url: too many values in the query")
	               : error;
}

static int add_secret(struct http_plan *plan, struct span secret, struct error_text *ret_text)
{
	unsigned char bytes[SECRET_MAX];
	size_t len;
	int error = add_blot(plan, secret);
	span_cut_start(&secret, SPAN("whsec_"));
	if (error)
		return error;
	if (base64_decode(secret, bytes, sizeof(bytes), &len) || len < SECRET_MIN)
		return error_fill(ret_text, ERR_CONFIG,
		                  "sign: expected whsec_ and base64 of %d to %d bytes", SECRET_MIN,
		                  SECRET_MAX);
	sign_hmac_key_init(&plan->sign_keys[plan->sign_count++], span_of(bytes, len));
	secret_wipe(bytes, sizeof(bytes));
	return add_blot(plan, secret);
}

static int copy_lists(struct http_plan *plan, const struct http_outlet_options *options,
                      struct error_text *ret_text)
{
	int error = 0;
	if (options->sign_count > HTTP_SECRETS_MAX)
		return error_fill(ret_text, ERR_CONFIG, "sign: at most %u secrets",
		                  HTTP_SECRETS_MAX);
	for (uint32_t i = 0; !error && i < options->sign_count; i++)
		error = add_secret(plan, options->sign[i], ret_text);
	if (options->allow_count > HTTP_ALLOW_MAX)
		return error_fill(ret_text, ERR_CONFIG, "allow: at most %u networks",
		                  HTTP_ALLOW_MAX);
	for (uint32_t i = 0; !error && i < options->allow_count; i++) {
		struct error_text text;
		if (ip_network_parse(options->allow[i], &plan->allow[plan->allow_count++], &text) !=
		    0)
			error = error_fill(ret_text, ERR_CONFIG, "allow: %s", text.text);
	}
	return error;
}

static int copy_path(struct http_plan *plan, const char *path, const char **ret_copy)
{
	if (!path)
		return 0;
	*ret_copy = arena_copy(&plan->arena, span_str(path)).ptr;
	return *ret_copy ? 0 : -ENOMEM;
}

static void set_default(uint32_t *value, uint32_t by_default)
{
	if (*value == 0)
		*value = by_default;
}

static int copy_options(struct http_plan *plan, const struct http_outlet_options *options,
                        struct error_text *ret_text)
{
	struct http_outlet_options *own = &plan->options;
	*own = *options;
	set_default(&own->batch_events, 100);
	set_default(&own->batch_bytes, 1u << 20);
	set_default(&own->connect_ms, 10000);
	set_default(&own->timeout_ms, 30000);
	set_default(&own->name_ms, HTTP_NAME_MS);
	set_default(&own->idle_ms, 4000);
	set_default(&own->answer_max, 1u << 20);
	own->fresh = own->fresh || own->idle_ms < 1000;
	if (own->verdicts)
		own->batch = HTTP_BATCH_NDJSON;
	if (own->batch == HTTP_BATCH_NONE)
		own->batch_events = 1;
	if (own->batch_events > HTTP_BATCH_MAX)
		return error_fill(ret_text, ERR_CONFIG, "batch: at most %u events", HTTP_BATCH_MAX);
	if (!own->cert_file != !own->key_file)
		return error_fill(ret_text, ERR_CONFIG,
		                  "tls: a client certificate and its key are needed together");
	struct span name = options->correlation_header;
	int error = name.len ? judge_name(name, ret_text) : 0;
	own->correlation_header = name.len ? arena_copy(&plan->arena, name)
	                                   : http_builtin_name(HTTP_CORRELATION);
	if (!error && !own->correlation_header.ptr)
		error = -ENOMEM;
	if (!error)
		error = copy_path(plan, options->ca_file, &own->ca_file);
	if (!error)
		error = copy_path(plan, options->cert_file, &own->cert_file);
	return error ? error : copy_path(plan, options->key_file, &own->key_file);
}

static int add_body(struct http_plan *plan, const struct http_outlet_options *options,
                    struct error_text *ret_text)
{
	struct error_text text = { "" };
	bool form = options->body_is_form;
	if (plan->options.batch == HTTP_BATCH_NDJSON)
		plan->content_type = SPAN("application/x-ndjson");
	else if (options->body.len > 0 && form)
		plan->content_type = SPAN("application/x-www-form-urlencoded");
	else if (options->body.len > 0 || plan->options.batch)
		plan->content_type = SPAN("application/json");
	if (options->body.len == 0)
		return 0;
	if (plan->options.batch && form)
		return error_fill(ret_text, ERR_CONFIG, "body: a batch has bodies of JSON only");
	plan->has_body = true;
	int error = templates_add(plan->templates, options->body,
	                          form ? TEMPLATE_URL : TEMPLATE_JSON, &plan->body, &text);
	if (error == 0 && template_has_attempt(plan->templates, plan->body))
		return error_fill(ret_text, ERR_CONFIG,
		                  "body: {attempt} would make another body under the same key; the "
		                  "header Stile-Attempt has it");
	if (error == 0 || error == -ENOMEM)
		return error;
	return error_fill(ret_text, ERR_CONFIG, "body: %s", text.text);
}

/* A batch is of many events: there is none to take a value of. */
static int judge_batch(const struct http_plan *plan, struct error_text *ret_text)
{
	if (!plan->options.batch || (plan->request.url && plan->request.own_count == 0))
		return 0;
	return error_fill(ret_text, ERR_CONFIG,
	                  "batch: the URL and headers of a batch cannot have placeholders");
}

static int fill_plan(struct http_plan *plan, const struct http_outlet_options *options,
                     struct error_text *ret_text)
{
	int error = templates_new(&plan->templates);
	if (!error)
		error = copy_options(plan, options, ret_text);
	if (!error)
		error = copy_lists(plan, options, ret_text);
	if (!error)
		error = add_target(plan, &plan->request, options->url, options, ret_text);
	if (!error && options->probe.len > 0)
		error = add_target(plan, &plan->probe, options->probe, options, ret_text);
	if (!error)
		error = add_body(plan, options, ret_text);
	if (!error)
		error = judge_batch(plan, ret_text);
	if (error)
		return error;
	templates_seal(plan->templates);
	struct http_outlet_options *own = &plan->options; /* these texts are the caller's */
	own->url = own->probe = own->body = own->server_name = SPAN_EMPTY;
	own->headers = (struct http_headers){ 0 };
	own->sign_count = own->allow_count = 0;
	return 0;
}

int http_plan_new(const struct http_outlet_options *options, struct http_plan **ret_plan,
                  struct error_text *ret_text)
{
	struct http_plan *plan = mem_zalloc(1, sizeof(*plan));
	if (!plan)
		return -ENOMEM;
	plan->arena.wipe = true;
	int error = fill_plan(plan, options, ret_text);
	if (error) {
		http_plan_free(plan);
		return error;
	}
	*ret_plan = plan;
	return 0;
}

struct http_plan *http_plan_free(struct http_plan *plan)
{
	if (!plan)
		return NULL;
	templates_free(plan->templates);
	arena_free(&plan->arena);
	secret_wipe(plan, sizeof(*plan));
	return mem_free(plan);
}
