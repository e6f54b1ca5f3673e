/* http_result: what came of a request. See http_internal.h, and http_outlet.h for the rules. */
#include <stdio.h>
#include <string.h>

#include "base/secret.h"
#include "base/text.h"
#include "sink/http/http_internal.h"

#define RETRY_AFTER_MAX_MS (UINT64_C(365) * 86400 * 1000)

uint64_t http_retry_after(struct span value, uint64_t now_ms)
{
	uint64_t seconds;
	char copy[64];
	int error = text_parse_u64(value, &seconds);
	if (error == ERR_TOO_LARGE)
		return RETRY_AFTER_MAX_MS;
	if (error == 0)
		return seconds < RETRY_AFTER_MAX_MS / 1000 ? seconds * 1000 : RETRY_AFTER_MAX_MS;
	if (value.len >= sizeof(copy) || (value.len > 0 && memchr(value.ptr, '\0', value.len)))
		return 0;
	memcpy(copy, value.ptr, value.len);
	copy[value.len] = '\0';
	time_t at = curl_getdate(copy, NULL);
	uint64_t at_ms = at > 0 ? (uint64_t)at * 1000 : 0;
	if (at_ms <= now_ms)
		return 0;
	return at_ms - now_ms < RETRY_AFTER_MAX_MS ? at_ms - now_ms : RETRY_AFTER_MAX_MS;
}

static void put_text(struct outlet_result *result, const char *text)
{
	outlet_result_text(result, span_str(text));
}

void http_result_not_sent(struct outlet_result *ret_result, bool permanent, const char *why)
{
	*ret_result = (struct outlet_result){ .answer = OUTLET_NOT_SENT, .permanent = permanent };
	put_text(ret_result, why);
}

/* Secrets that the answer repeats become ***. */
static size_t blot(const struct http_plan *plan, char *text, size_t len, bool cut)
{
	for (uint32_t i = 0; i < plan->blot_count; i++)
		len = secret_blot(text, len, plan->blots[i], cut);
	return len;
}

/* A secret of which only the beginning was kept must not be seen either. */
static void put_answer(const struct http_transfer *transfer, struct outlet_result *result)
{
	const struct http_plan *plan = transfer->outlet->plan;
	char copy[HTTP_ANSWER_KEPT];
	size_t len = transfer->kept;
	memcpy(copy, transfer->answer, len);
	bool cut = transfer->answer_bytes > transfer->kept;
	len = outlet_clean(copy, blot(plan, copy, len, cut));
	outlet_result_text(result, span_of(copy, len));
}

void http_result_text(const struct http_plan *plan, struct span text, struct outlet_result *result)
{
	char copy[HTTP_ANSWER_KEPT];
	size_t len = text.len < sizeof(copy) ? text.len : sizeof(copy);
	memcpy(copy, text.ptr, len);
	len = outlet_clean(copy, blot(plan, copy, len, text.len > len));
	outlet_result_text(result, span_of(copy, len));
}

static void judge_status(const struct http_transfer *transfer, struct outlet_result *result)
{
	uint16_t status = transfer->status;
	bool probe = transfer->lane == &transfer->outlet->lanes[1];
	result->status = status;
	result->retry_after_ms = transfer->retry_after_ms;
	result->answer = status < 300 ? OUTLET_DONE : OUTLET_REFUSED;
	if (probe && (status == 404 || status == 410))
		result->answer = OUTLET_NOT_FOUND;
	put_answer(transfer, result);
}

static void put_connect_error(const struct http_transfer *transfer, struct outlet_result *result)
{
	char ip[IP_TEXT_MAX];
	char text[OUTLET_TEXT_MAX];
	long error = 0;
	unsigned port = transfer->lane->target->port;
	curl_easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &error);
	ip_format(&transfer->peer, ip);
	if (!transfer->has_peer)
		snprintf(text, sizeof(text), "cannot connect: %.200s", transfer->error);
	else if (transfer->refusal)
		snprintf(text, sizeof(text), "%s is %s address: not allowed", ip,
		         transfer->refusal);
	else if (error == ECONNREFUSED)
		snprintf(text, sizeof(text), "connection refused by %s port %u", ip, port);
	else
		snprintf(text, sizeof(text), "cannot connect to %s port %u: %s", ip, port,
		         error_name(-(int)error));
	put_text(result, text);
}

static void put_not_sent(const struct http_transfer *transfer, CURLcode code,
                         struct outlet_result *result)
{
	char text[OUTLET_TEXT_MAX + 64];
	const char *curl_text = transfer->error[0] ? transfer->error : curl_easy_strerror(code);
	if (code == CURLE_COULDNT_CONNECT || transfer->refusal) {
		put_connect_error(transfer, result);
		return;
	}
	if (code == CURLE_OPERATION_TIMEDOUT)
		snprintf(text, sizeof(text), "no connection to %.160s within %u ms",
		         transfer->lane->target->host, transfer->outlet->plan->connect_ms);
	else
		snprintf(text, sizeof(text), "no connection: %.200s", curl_text);
	put_text(result, text);
}

static void put_unknown(const struct http_transfer *transfer, CURLcode code,
                        struct outlet_result *result)
{
	char text[OUTLET_TEXT_MAX + 64];
	const char *curl_text = transfer->error[0] ? transfer->error : curl_easy_strerror(code);
	if (code == CURLE_OPERATION_TIMEDOUT)
		snprintf(text, sizeof(text), "no answer within %u ms",
		         transfer->outlet->plan->timeout_ms);
	else if (code == CURLE_GOT_NOTHING || transfer->again)
		snprintf(text, sizeof(text), "the connection was closed before an answer came");
	else
		snprintf(text, sizeof(text), "no answer that can be understood: %.200s", curl_text);
	put_text(result, text);
}

void http_result_of(const struct http_transfer *transfer, CURLcode code,
                    struct outlet_result *ret_result)
{
	*ret_result = (struct outlet_result){ .answer = OUTLET_NOT_SENT };
	if (transfer->answered) {
		judge_status(transfer, ret_result);
	} else if (!transfer->written || transfer->unprocessed) {
		ret_result->permanent = code == CURLE_URL_MALFORMAT;
		put_not_sent(transfer, code, ret_result);
	} else {
		ret_result->answer = OUTLET_UNKNOWN;
		put_unknown(transfer, code, ret_result);
	}
}
