/* http_result: how a request ended. See http_internal.h, and http_outlet.h for the rules. */
#include <stdio.h>
#include <string.h>

#include "base/secret.h"
#include "sink/http/http_internal.h"

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
	size_t len = transfer->call.kept;
	memcpy(copy, transfer->call.answer, len);
	bool cut = transfer->call.answer_bytes > transfer->call.kept;
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
	uint16_t status = transfer->call.status;
	bool probe = transfer->lane == &transfer->outlet->lanes[1];
	result->status = status;
	result->retry_after_ms = transfer->call.retry_after_ms;
	result->answer = status < 300 ? OUTLET_DONE : OUTLET_REFUSED;
	if (probe && (status == 404 || status == 410))
		result->answer = OUTLET_NOT_FOUND;
	put_answer(transfer, result);
}

static void put_connect_error(const struct http_transfer *transfer, struct outlet_result *result)
{
	const struct http_call *call = &transfer->call;
	char ip[IP_TEXT_MAX];
	char text[OUTLET_TEXT_MAX];
	unsigned port = transfer->lane->target->port;
	ip_format(&call->peer, ip);
	if (!call->has_peer)
		snprintf(text, sizeof(text), "cannot connect: %.200s", call->error);
	else if (call->refusal)
		snprintf(text, sizeof(text), "%s is %s address: not allowed", ip, call->refusal);
	else if (call->connect_error == ECONNREFUSED)
		snprintf(text, sizeof(text), "connection refused by %s port %u", ip, port);
	else
		snprintf(text, sizeof(text), "cannot connect to %s port %u: %s", ip, port,
		         error_name(-call->connect_error));
	put_text(result, text);
}

static void put_not_sent(const struct http_transfer *transfer, enum http_end end,
                         struct outlet_result *result)
{
	char text[OUTLET_TEXT_MAX + 64];
	if (end == HTTP_END_CONNECT || transfer->call.refusal) {
		put_connect_error(transfer, result);
		return;
	}
	if (end == HTTP_END_TIMEOUT)
		snprintf(text, sizeof(text), "no connection to %.160s within %u ms",
		         transfer->lane->target->host, transfer->outlet->plan->options.connect_ms);
	else
		snprintf(text, sizeof(text), "no connection: %.200s", transfer->call.error);
	put_text(result, text);
}

static void put_unknown(const struct http_transfer *transfer, enum http_end end,
                        struct outlet_result *result)
{
	char text[OUTLET_TEXT_MAX + 64];
	if (end == HTTP_END_TIMEOUT)
		snprintf(text, sizeof(text), "no answer within %u ms",
		         transfer->outlet->plan->options.timeout_ms);
	else if (end == HTTP_END_NO_ANSWER || transfer->call.again)
		snprintf(text, sizeof(text), "the connection was closed before an answer came");
	else
		snprintf(text, sizeof(text), "no answer that can be understood: %.200s",
		         transfer->call.error);
	put_text(result, text);
}

void http_result_of(const struct http_transfer *transfer, enum http_end end,
                    struct outlet_result *ret_result)
{
	const struct http_call *call = &transfer->call;
	*ret_result = (struct outlet_result){ .answer = OUTLET_NOT_SENT };
	if (call->answered) {
		judge_status(transfer, ret_result);
	} else if (!call->written || call->unprocessed) {
		ret_result->permanent = end == HTTP_END_URL;
		put_not_sent(transfer, end, ret_result);
	} else {
		ret_result->answer = OUTLET_UNKNOWN;
		put_unknown(transfer, end, ret_result);
	}
}
