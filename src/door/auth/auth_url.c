/*
 * How the sender called us, for signatures that cover the URL. See auth_private.h.
 *
 * What is signed is what the sender believes: behind a proxy that is not what
 * arrives here, so public_url says it. Without it the request itself is asked,
 * which is the right URL when nothing stands in between.
 */
#include "base/text.h"
#include "door/auth/auth_private.h"

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

/* People write the whole URL too: then its end is the request's own path. */
static void cut_own_path(struct auth_url *url, struct span path)
{
	if (path.len > 0 && path.ptr && url->prefix.len >= path.len && url->prefix.ptr &&
	    span_eq(span_skip(url->prefix, url->prefix.len - path.len), path))
		url->prefix.len -= path.len;
}

enum auth_result auth_url_read(const struct auth *auth, const struct auth_request *request,
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
	cut_own_path(&url, request->head->path);
	url.target = request->head->target;
	*ret_url = url;
	return AUTH_OK;
}
