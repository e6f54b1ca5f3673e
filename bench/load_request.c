/*
 * load_request: what is sent, and how little of an answer must be read.
 *
 * A plain event is an object with an id, as a shop's webhook posts it. A Genesys
 * one is an EventBridge envelope around a Genesys Cloud event, the shape that an
 * API destination posts. The counted digits stand in the id and in the order's or
 * session's id, so that an event is new by its transport id and by its natural key,
 * or a duplicate by both.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "load.h"

#define COUNTED "CCCCCCCCCCCC"

static const char *const plain_format =
	"{\"id\":\"%08x-50e2-45f8-950f-" COUNTED "\",\"type\":\"order.updated\","
	"\"created\":\"2025-12-10T08:43:58.648Z\",\"data\":{"
	"\"order\":\"%08x-8b1d-4c6e-a3d5-" COUNTED "\","
	"\"customer\":{\"name\":\"Ada Example\",\"email\":\"ada@example.com\","
	"\"address\":{\"street\":\"Long Lane 17\",\"city\":\"Berlin\",\"zip\":\"10115\"}},"
	"\"lines\":[{\"sku\":\"A-100\",\"count\":2,\"price\":19.99},"
	"{\"sku\":\"B-7\",\"count\":1,\"price\":5},{\"sku\":\"C-42\",\"count\":12,\"price\":0.5}],"
	"\"paid\":true,\"coupon\":null,\"total\":50.98,\"currency\":\"EUR\","
	"\"shipping\":{\"method\":\"standard\",\"eta\":\"2025-12-14\",\"tracked\":true},"
	"\"note\":\"%s\"}}";

static const char *const genesys_format =
	"{\"version\":\"0\",\"id\":\"%08x-50e2-45f8-950f-" COUNTED "\","
	"\"detail-type\":\"v2.detail.events.conversation.{id}.acd.start\","
	"\"source\":\"aws.partner/genesys.com/cloud/23faea37-1117-4c0a-88a2-572c46780b03/crm\","
	"\"account\":\"123456789012\",\"time\":\"2025-12-10T08:43:58Z\",\"region\":\"eu-central-1\","
	"\"resources\":[],\"detail\":{\"topicName\":"
	"\"v2.detail.events.conversation.8f1d1a4e-2d5c-4a40-9f2b-0c7c1f0a8a11.acd.start\","
	"\"version\":\"2\",\"eventBody\":{\"eventTime\":1765356238647,"
	"\"conversationId\":\"8f1d1a4e-2d5c-4a40-9f2b-0c7c1f0a8a11\","
	"\"participantId\":\"5a3f0f1b-77c0-4e0e-8f6d-3f5f0b0f7d52\","
	"\"sessionId\":\"%08x-8b1d-4c6e-a3d5-" COUNTED "\","
	"\"mediaType\":\"VOICE\",\"provider\":\"Edge\",\"direction\":\"INBOUND\","
	"\"ani\":\"tel:+4930123456\",\"dnis\":\"tel:+4930654321\","
	"\"queueId\":\"1e3a0d5b-4f4e-4a53-9a6e-6d1a2c0b9f77\","
	"\"note\":\"%s\"},"
	"\"metadata\":{\"CorrelationId\":\"b61df0b3-9e33-444b-a455-1c92a33ef4e2\"},"
	"\"timestamp\":\"2025-12-10T08:43:58.648Z\"}}";

static const char *const head_format = "POST %s HTTP/1.1\r\n"
				       "Host: %s:%u\r\n"
				       "User-Agent: Amazon/EventBridge/ApiDestinations\r\n"
				       "Content-Type: application/json; charset=utf-8\r\n"
				       "%s"
				       "Content-Length: %d\r\n"
				       "\r\n";

static int print_body(char *out, size_t room, const struct load_options *options, const char *note)
{
	/* The format is a constant of this file. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	const char *format = options->event == LOAD_EVENT_GENESYS ? genesys_format : plain_format;
	return snprintf(out, room, format, options->prefix, options->prefix, note);
#pragma GCC diagnostic pop
}

static int print_head(char *out, size_t room, const struct load_options *options, int body_bytes)
{
	const char *connection = options->mode == LOAD_CLOSE ? "Connection: close\r\n" : "";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	return snprintf(out, room, head_format, options->path, options->host, options->port,
	                connection, body_bytes);
#pragma GCC diagnostic pop
}

/* One event of the wanted size; its length, or -1. */
static int build_event(char *out, size_t room, const struct load_options *options)
{
	static char note[LOAD_REQUEST_MAX];
	int least = print_body(out, room, options, "");
	int missing = (int)options->body_bytes > least ? (int)options->body_bytes - least : 0;
	if ((size_t)(least + missing) >= room || (size_t)missing >= sizeof(note))
		return -1;
	for (int i = 0; i < missing; i++)
		note[i] = (char)('a' + i % 26);
	note[missing] = '\0';
	return print_body(out, room, options, note);
}

/* All events of a request, in an array if it is a batch; its length, or -1. */
static int build_body(char *out, size_t room, const struct load_options *options)
{
	uint32_t events = options->batch ? options->batch : 1;
	int size = 0;
	for (uint32_t i = 0; i < events; i++) {
		if (options->batch)
			out[size++] = i == 0 ? '[' : ',';
		int more = build_event(out + size, room - (size_t)size - 1, options);
		if (more < 0)
			return -1;
		size += more;
	}
	if (options->batch)
		out[size++] = ']';
	return size;
}

static void find_digits(struct load_request *request)
{
	char *at = request->bytes, *end = request->bytes + request->size;
	for (uint32_t i = 0; i < request->events; i++) {
		for (int k = 0; k < 2; k++) {
			at = memmem(at, (size_t)(end - at), COUNTED, 12);
			request->id_digits[i][k] = at;
			at += 12;
		}
	}
}

int load_request_build(struct load_request *request, const struct load_options *options)
{
	static char body[LOAD_REQUEST_MAX];
	int body_bytes = build_body(body, sizeof(body), options);
	if (body_bytes < 0)
		return -1;
	int head_bytes = print_head(request->bytes, sizeof(request->bytes), options, body_bytes);
	if (head_bytes < 0 || (size_t)(head_bytes + body_bytes) > sizeof(request->bytes))
		return -1;
	memcpy(request->bytes + head_bytes, body, (size_t)body_bytes);
	request->size = (size_t)(head_bytes + body_bytes);
	request->events = options->batch ? options->batch : 1;
	find_digits(request);
	return 0;
}

static void number_event(char *const digits_at[2], uint64_t number)
{
	static const char digits[] = "0123456789abcdef";
	char *out = digits_at[0];
	for (int i = 11; i >= 0; i--) {
		out[i] = digits[number & 15];
		number >>= 4;
	}
	memcpy(digits_at[1], out, 12);
}

void load_request_number(struct load_request *request, uint64_t number)
{
	for (uint32_t i = 0; i < request->events; i++)
		number_event(request->id_digits[i], number * request->events + i);
}

/* The value of a header, by the end of its name in lower case, which needs no
 * search that ignores case: "ength: ", "erdict: ". */
static const char *find_value(const char *head, size_t size, const char *name_end)
{
	size_t length = strlen(name_end);
	const char *at = memmem(head, size, name_end, length);
	return at ? at + length : NULL;
}

static enum load_verdict read_verdict(const char *value)
{
	switch (*value) {
	case 'n': return LOAD_NEW;
	case 'd': return LOAD_DUPLICATE;
	default: return LOAD_OTHER;
	}
}

/* A few comparisons at known places instead of three searches. The size is the
 * same and so are the ends of head and length, hence the answer is whole. */
static bool has_shape(const struct load_shape *shape, const char *bytes, size_t size)
{
	return size == shape->size && memcmp(bytes + shape->head - 4, "\r\n\r\n", 4) == 0 &&
	       memcmp(bytes + shape->length_at - 7, "ength: ", 7) == 0 &&
	       memcmp(bytes + shape->length_at, shape->length, strlen(shape->length)) == 0 &&
	       (shape->verdict == 0 || memcmp(bytes + shape->verdict - 8, "erdict: ", 8) == 0);
}

static void note_shape(struct load_shape *shape, const char *bytes, size_t size, size_t head)
{
	const char *length = find_value(bytes, head, "ength: ");
	const char *verdict = find_value(bytes, head, "erdict: ");
	const char *end = memchr(length, '\n', head - (size_t)(length - bytes));
	size_t digits = end ? (size_t)(end - length) : 0;
	shape->size = 0;
	if (digits == 0 || digits >= sizeof(shape->length))
		return;
	memcpy(shape->length, length, digits);
	shape->length[digits] = '\0';
	shape->size = size;
	shape->head = head;
	shape->length_at = (size_t)(length - bytes);
	shape->verdict = verdict ? (size_t)(verdict - bytes) : 0;
}

static void fill_answer(struct load_answer *answer, const struct load_shape *shape,
                        const char *bytes)
{
	answer->ok = memcmp(bytes, "HTTP/1.1 200", 12) == 0;
	answer->fresh = 0;
	answer->verdict = shape->verdict ? read_verdict(bytes + shape->verdict) : LOAD_NONE;
}

long load_answer_read(struct load_shape *shape, const char *bytes, size_t size,
                      struct load_answer *ret_answer)
{
	if (has_shape(shape, bytes, size)) {
		fill_answer(ret_answer, shape, bytes);
		return (long)size;
	}
	const char *end = memmem(bytes, size, "\r\n\r\n", 4);
	if (!end)
		return size < LOAD_ANSWER_MAX ? 0 : -1;
	size_t head = (size_t)(end - bytes) + 4;
	const char *length = find_value(bytes, head, "ength: ");
	if (!length)
		return -1;
	size_t whole = head + strtoul(length, NULL, 10);
	if (whole > size)
		return whole <= LOAD_ANSWER_MAX ? 0 : -1;
	note_shape(shape, bytes, whole, head);
	fill_answer(ret_answer, shape, bytes);
	static const char sum[] = "{\"new\":"; /* an answer to a batch begins so */
	if (whole - head > sizeof(sum) && memcmp(end + 4, sum, sizeof(sum) - 1) == 0) {
		shape->size = 0; /* the next one has other sums */
		ret_answer->fresh = strtoul(end + 4 + sizeof(sum) - 1, NULL, 10);
	}
	return (long)whole;
}
