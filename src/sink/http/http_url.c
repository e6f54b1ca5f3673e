/* http_url: see http_url.h. */
#include "sink/http/http_url.h"

#include <string.h>

#include "link/http.h"

/* A URL, cut behind its host and port. */
struct halves {
	struct span front;
	struct span rest;
};

static int refuse(struct error_text *ret_text, const char *expected)
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
		return refuse(ret_text, "http://… or https://…");
	size_t authority = find_any(after, "/?#");
	struct span host = span_of(after.ptr, authority);
	if (find_any(host, "{}") < host.len)
		return refuse(ret_text, "a fixed host: places are for the path and the query");
	if (find_any(host, "@\\%") < host.len)
		return refuse(ret_text, "a host and a port, without a user");
	struct span rest = span_skip(after, authority);
	if (find_any(rest, "#") < rest.len)
		return refuse(ret_text, "no #: a fragment is not sent");
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
		return refuse(ret_text, "an address between the brackets");
	const char *special = target->literal ? http_plan_refusal(plan, &ip) : NULL;
	if (special)
		return error_fill(ret_text, ERR_CONFIG,
		                  "url: %s is %s address; such networks are named under allow",
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
	if (!target->name || http_plan_add_line(plan, target, line))
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
		return refuse(ret_text, "http:// or https://, a host and a port from 1 to 65535, "
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
		error = refuse(ret_text, "a URL that can be read");
	if (!error && template_is_fixed(plan->templates, target->path)) {
		target->url = arena_copy(&plan->arena, span_of(out.ptr, out.len - 1)).ptr;
		error = target->url ? 0 : -ENOMEM;
	}
	buf_free(&out);
	return error;
}

int http_url_compile(struct http_plan *plan, struct http_target *target, struct span url,
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
		return error_fill(ret_text, ERR_INVALID,
		                  "a value in the URL's path is . or .., or has such a part");
	buf_append_char(out, '\0');
	return out->failed ? -ENOMEM : 0;
}
