/* http_transfer: one request in libcurl. See http_internal.h. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "codec/socket_address.h"
#include "sink/http/http_internal.h"

/* The last word on where a connection goes. */
static curl_socket_t open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct http_transfer *transfer = user;
	(void)purpose;
	transfer->peer = socket_address_ip(&address->addr); /* other families: refused as :: is */
	transfer->has_peer = true;
	const char *refusal = http_plan_refusal(transfer->outlet->plan, &transfer->peer);
	if (refusal) {
		transfer->refusal = refusal;
		return CURL_SOCKET_BAD;
	}
	return http_socket_new(transfer->outlet, address);
}

/* libcurl is about to write the request. It may, once: or again, if the server has
 * said that it did nothing with the first. */
static int may_write(void *user, char *peer_ip, char *own_ip, int peer_port, int own_port)
{
	struct http_transfer *transfer = user;
	if (transfer->written && !transfer->unprocessed) {
		transfer->again = true;
		return CURL_PREREQFUNC_ABORT;
	}
	transfer->written = true;
	transfer->unprocessed = false;
	transfer->way = (struct http_way){ .peer_port = peer_port, .own_port = own_port };
	snprintf(transfer->way.peer_ip, sizeof(transfer->way.peer_ip), "%s", peer_ip);
	snprintf(transfer->way.own_ip, sizeof(transfer->way.own_ip), "%s", own_ip);
	transfer->stream = 0;
	return CURL_PREREQFUNC_OK;
}

/* "HTTP/1.1 200 OK", "HTTP/2 200": 0 if it is something else. */
static uint16_t status_of(struct span line)
{
	uint64_t status;
	if (!span_cut_start(&line, SPAN("HTTP/")))
		return 0;
	(void)span_cut_item(&line, ' ');
	struct span digits = span_of(line.ptr, line.len < 3 ? line.len : 3);
	return text_parse_u64(digits, &status) || status < 100 ? 0 : (uint16_t)status;
}

static struct span trimmed(struct span text)
{
	while (text.len > 0 && text.ptr[text.len - 1] <= ' ' && text.ptr[text.len - 1] >= 0)
		text.len--;
	while (text.len > 0 && (text.ptr[0] == ' ' || text.ptr[0] == '\t'))
		text = span_skip(text, 1);
	return text;
}

static size_t take_header(char *ptr, size_t unit, size_t count, void *user)
{
	struct http_transfer *transfer = user;
	struct span line = trimmed(span_of(ptr, unit * count));
	if (transfer->answered) /* a trailer */
		return unit * count;
	uint16_t status = status_of(line);
	if (status) {
		transfer->status = status;
		transfer->retry_after_ms = 0;
	} else if (line.len == 0) {
		transfer->answered = transfer->status >= 200;
	} else if (span_eq_nocase(span_cut_item(&line, ':'), SPAN("Retry-After"))) {
		uint64_t now_ms = clock_read(transfer->outlet->clock).wall_ms;
		transfer->retry_after_ms = http_retry_after(trimmed(line), now_ms);
	}
	return unit * count;
}

static size_t take_body(char *ptr, size_t unit, size_t count, void *user)
{
	struct http_transfer *transfer = user;
	size_t len = unit * count;
	size_t room = HTTP_ANSWER_KEPT - transfer->kept;
	size_t kept = len < room ? len : room;
	if (kept > 0) /* libcurl calls it with nothing, too */
		memcpy(transfer->answer + transfer->kept, ptr, kept);
	transfer->kept += (uint32_t)kept;
	transfer->answer_bytes += len;
	if (transfer->outlet->plan->verdicts)
		buf_append(&transfer->whole, ptr, len);
	return transfer->answer_bytes > transfer->outlet->plan->answer_max ? len + 1 : len;
}

static CURLcode set_callbacks(struct http_transfer *transfer)
{
	CURL *easy = transfer->easy;
	CURLcode code = curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
	code |= curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error);
	code |= curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	code |= curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfer);
	code |= curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, http_socket_end);
	code |= curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, transfer->outlet);
	code |= curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, may_write);
	code |= curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer);
	code |= curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
	code |= curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
	code |= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
	code |= curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
	return code;
}

static CURLcode set_connection(CURL *easy, const struct http_plan *plan, bool https)
{
	bool http2 = https && !plan->http1;
	long version = http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1;
	CURLcode code = curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	code |= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, https ? "https" : "http");
	code |= curl_easy_setopt(easy, CURLOPT_PROXY, "");
	code |= curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	code |= curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, version);
	code |= curl_easy_setopt(easy, CURLOPT_PIPEWAIT, http2 ? 1L : 0L);
	code |= curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)plan->connect_ms);
	code |= curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)plan->timeout_ms);
	code |= curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, plan->idle_s ? (long)plan->idle_s : 1L);
	code |= curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, plan->fresh ? 1L : 0L);
	code |= curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, plan->fresh ? 1L : 0L);
	/* Taken and given back with each request: no larger than they need be. */
	code |= curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 8192L);
	code |= curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 16384L);
	return code;
}

static CURLcode set_tls(CURL *easy, const struct http_plan *plan)
{
	CURLcode code = curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (plan->ca_file) {
		code |= curl_easy_setopt(easy, CURLOPT_CAINFO, plan->ca_file);
		code |= curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	}
	if (plan->cert_file) {
		code |= curl_easy_setopt(easy, CURLOPT_SSLCERT, plan->cert_file);
		code |= curl_easy_setopt(easy, CURLOPT_SSLKEY, plan->key_file);
	}
	return code;
}

static CURLcode set_request(CURL *easy, const struct http_plan *plan,
                            const struct http_target *target)
{
	static const char *const methods[] = { [HTTP_PUT] = "PUT", [HTTP_PATCH] = "PATCH" };
	bool probe = target == &plan->probe;
	CURLcode code = probe ? curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L)
	                      : curl_easy_setopt(easy, CURLOPT_POST, 1L);
	if (!probe && plan->method != HTTP_POST)
		code |= curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, methods[plan->method]);
	if (target->url)
		code |= curl_easy_setopt(easy, CURLOPT_URL, target->url);
	return code;
}

static int new_transfer(struct http_lane *lane, struct http_transfer **ret_transfer)
{
	const struct http_plan *plan = lane->outlet->plan;
	struct http_transfer *transfer = mem_zalloc(1, sizeof(*transfer));
	if (!transfer)
		return -ENOMEM;
	transfer->outlet = lane->outlet;
	transfer->lane = lane;
	transfer->easy = curl_easy_init();
	CURLcode code = transfer->easy ? CURLE_OK : CURLE_OUT_OF_MEMORY;
	if (!code)
		code = set_callbacks(transfer);
	if (!code)
		code = set_connection(transfer->easy, plan, lane->target->https);
	if (!code)
		code = set_tls(transfer->easy, plan);
	if (!code)
		code = set_request(transfer->easy, plan, lane->target);
	if (!code && lane->target->https && !plan->http1)
		code = http2_refusals_watch(transfer);
	if (code) {
		http_transfer_free(transfer);
		return -ENOMEM;
	}
	*ret_transfer = transfer;
	return 0;
}

int http_transfer_take(struct http_lane *lane, struct http_transfer **ret_transfer)
{
	struct http_transfer *transfer = lane->spare;
	if (!transfer)
		return new_transfer(lane, ret_transfer);
	lane->spare = transfer->next;
	buf_clear(&transfer->text);
	buf_clear(&transfer->body);
	buf_clear(&transfer->whole);
	transfer->line_count = 0;
	transfer->written = false;
	transfer->unprocessed = false;
	transfer->again = false;
	transfer->refusal = NULL;
	transfer->has_peer = false;
	transfer->status = 0;
	transfer->answered = false;
	transfer->retry_after_ms = 0;
	transfer->answer_bytes = 0;
	transfer->kept = 0;
	transfer->error[0] = '\0';
	*ret_transfer = transfer;
	return 0;
}

void http_transfer_free(struct http_transfer *transfer)
{
	curl_easy_cleanup(transfer->easy);
	buf_free(&transfer->text);
	buf_free(&transfer->body);
	buf_free(&transfer->whole);
	mem_free(transfer);
}

static struct curl_slist *tie_headers(struct http_transfer *transfer)
{
	struct curl_slist *next = transfer->lane->target->fixed;
	for (uint32_t i = transfer->line_count; i-- > 0;) {
		struct curl_slist *node = &transfer->nodes[i];
		*node = (struct curl_slist){ .data = transfer->text.ptr + transfer->lines[i],
			                     .next = next };
		next = node;
	}
	return next;
}

static CURLcode set_body(struct http_transfer *transfer)
{
	bool made = transfer->outlet->plan->has_body || transfer->batch;
	struct span body = made ? buf_span(&transfer->body) : transfer->chain->payload;
	CURL *easy = transfer->easy;
	CURLcode code = curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len);
	return code | curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.len ? body.ptr : "");
}

int http_transfer_start(struct http_transfer *transfer)
{
	struct http_outlet *outlet = transfer->outlet;
	struct http_lane *lane = transfer->lane;
	CURL *easy = transfer->easy;
	CURLcode code = curl_easy_setopt(easy, CURLOPT_HTTPHEADER, tie_headers(transfer));
	if (!lane->target->url)
		code |= curl_easy_setopt(easy, CURLOPT_URL, transfer->text.ptr);
	if (lane == &outlet->lanes[0])
		code |= set_body(transfer);
	if (lane->pin)
		code |= curl_easy_setopt(easy, CURLOPT_RESOLVE, &lane->pin_node);
	if (code || curl_multi_add_handle(outlet->multi, easy) != CURLM_OK)
		return -ENOMEM;
	lane->pin = false;
	outlet->added = true;
	transfer->before = NULL;
	transfer->next = outlet->active;
	if (outlet->active)
		outlet->active->before = transfer;
	outlet->active = transfer;
	return 0;
}
