/* Heads of answers. See http1.h. */
#include <time.h>

#include "codec/http1.h"

const char *http1_reason(uint16_t status)
{
	static const struct {
		uint16_t status;
		const char *reason;
	} known[] = {
		{ 200, "OK" },
		{ 201, "Created" },
		{ 202, "Accepted" },
		{ 204, "No Content" },
		{ 304, "Not Modified" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 411, "Length Required" },
		{ 413, "Content Too Large" },
		{ 414, "URI Too Long" },
		{ 415, "Unsupported Media Type" },
		{ 417, "Expectation Failed" },
		{ 422, "Unprocessable Content" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 502, "Bad Gateway" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
		{ 505, "HTTP Version Not Supported" },
	};
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (known[i].status == status)
			return known[i].reason;
	return "Unknown";
}

static inline char *put(char *out, const void *ptr, size_t len)
{
	memcpy(out, ptr, len);
	return out + len;
}

#define PUT(out, literal) put((out), (literal), sizeof(literal) - 1)

static char *put_number(char *out, uint64_t value)
{
	char digits[20];
	size_t at = sizeof(digits);
	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value > 0);
	return put(out, digits + at, sizeof(digits) - at);
}

static char *put_status_line(char *out, uint16_t status)
{
	if (likely(status == 200))
		return PUT(out, "HTTP/1.1 200 OK\r\n");
	const char *reason = http1_reason(status);
	out = PUT(out, "HTTP/1.1 ");
	out = put_number(out, status);
	*out++ = ' ';
	out = put(out, reason, strlen(reason));
	return PUT(out, "\r\n");
}

size_t http1_write_head(const struct http1_answer *answer, char *out)
{
	char *start = out;
	out = put_status_line(out, answer->status);
	out = PUT(out, "Date: ");
	out = put(out, answer->date, HTTP1_DATE_LEN);
	out = PUT(out, "\r\n");
	if (answer->content_type.len > 0) {
		out = PUT(out, "Content-Type: ");
		out = put(out, answer->content_type.ptr, answer->content_type.len);
		out = PUT(out, "\r\n");
	}
	if (answer->status != 204 && answer->status != 304 && !answer->endless) {
		out = PUT(out, "Content-Length: ");
		out = put_number(out, answer->content_length);
		out = PUT(out, "\r\n");
	}
	if (answer->close)
		out = PUT(out, "Connection: close\r\n");
	else if (answer->say_keep_alive)
		out = PUT(out, "Connection: keep-alive\r\n");
	if (answer->headers.len > 0)
		out = put(out, answer->headers.ptr, answer->headers.len);
	if (answer->fixed.len > 0)
		out = put(out, answer->fixed.ptr, answer->fixed.len);
	out = PUT(out, "\r\n");
	return (size_t)(out - start);
}

static char *put_two(char *out, int value)
{
	*out++ = (char)('0' + value / 10 % 10);
	*out++ = (char)('0' + value % 10);
	return out;
}

void http1_format_date(uint64_t unix_s, char out[HTTP1_DATE_LEN])
{
	static const char days[] = "SunMonTueWedThuFriSat";
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	time_t when = (time_t)(unix_s % 253402300800u); /* the year has four digits */
	struct tm tm = { 0 };
	gmtime_r(&when, &tm);
	out = put(out, days + 3 * (tm.tm_wday % 7), 3);
	out = PUT(out, ", ");
	out = put_two(out, tm.tm_mday);
	*out++ = ' ';
	out = put(out, months + 3 * (tm.tm_mon % 12), 3);
	*out++ = ' ';
	out = put_two(out, (tm.tm_year + 1900) / 100);
	out = put_two(out, (tm.tm_year + 1900) % 100);
	*out++ = ' ';
	out = put_two(out, tm.tm_hour);
	*out++ = ':';
	out = put_two(out, tm.tm_min);
	*out++ = ':';
	out = put_two(out, tm.tm_sec);
	PUT(out, " GMT");
}
