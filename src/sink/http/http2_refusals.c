/*
 * http2_refusals: requests that a server has not begun. See http_internal.h.
 *
 * A server that winds a connection of HTTP/2 down (nginx does so after a thousand
 * requests) sends GOAWAY with the number of the last stream that it takes care of:
 * all later ones were not and will not be processed (RFC 9113, 6.8). They are not
 * unknown, and may be sent again. libcurl has no call that tells of it, but it says so
 * to those who listen: the number of each request's stream, and every GOAWAY. What is
 * not understood here changes nothing: the request is unknown, as without it.
 */
#include <string.h>

#include "base/text.h"
#include "sink/http/http_internal.h"

/* The number that begins the text; false if there is none. */
static bool take_number(struct span text, uint64_t *ret_value)
{
	size_t len = 0;
	while (len < text.len && text.ptr[len] >= '0' && text.ptr[len] <= '9')
		len++;
	return len > 0 && text_parse_u64(span_of(text.ptr, len), ret_value) == 0;
}

static bool is_same(const struct http_way *a, const struct http_way *b)
{
	return a->own_port == b->own_port && a->peer_port == b->peer_port &&
	       strcmp(a->peer_ip, b->peer_ip) == 0 && strcmp(a->own_ip, b->own_ip) == 0;
}

/* All that is under way on the same connection, behind the last stream. */
static void note_goaway(struct http_transfer *heard, uint64_t last)
{
	if (!heard->written)
		return;
	for (struct http_transfer *at = heard->outlet->active; at; at = at->next)
		if (at->written && is_same(&at->way, &heard->way) && at->stream > last &&
		    !at->answered)
			at->unprocessed = true;
}

/* "recveived GOAWAY, error=0, last_stream=1999", so spelt in 7.88. */
void http2_refusals_hear(struct http_transfer *transfer, struct span text)
{
	uint64_t number;
	if (span_cut_start(&text, SPAN("Using Stream ID: "))) {
		if (take_number(text, &number) && number <= UINT32_MAX)
			transfer->stream = (uint32_t)number;
		return;
	}
	if (!span_cut_start(&text, SPAN("recveived GOAWAY, error=")) &&
	    !span_cut_start(&text, SPAN("received GOAWAY, error=")))
		return;
	(void)span_cut_item(&text, ',');
	if (span_cut_start(&text, SPAN(" last_stream=")) && take_number(text, &number))
		note_goaway(transfer, number);
}

static int listen_to(CURL *easy, curl_infotype type, char *ptr, size_t len, void *user)
{
	(void)easy;
	if (type == CURLINFO_TEXT)
		http2_refusals_hear(user, span_of(ptr, len));
	return 0;
}

CURLcode http2_refusals_watch(struct http_transfer *transfer)
{
	CURLcode code = curl_easy_setopt(transfer->easy, CURLOPT_DEBUGFUNCTION, listen_to);
	code |= curl_easy_setopt(transfer->easy, CURLOPT_DEBUGDATA, transfer);
	return code | curl_easy_setopt(transfer->easy, CURLOPT_VERBOSE, 1L);
}
