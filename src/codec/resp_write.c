/* resp_write: see resp_write.h. */
#include "codec/resp_write.h"

#include <math.h>

const char *resp_error_word(enum resp_error error)
{
	static const char *const words[RESP_ERROR_COUNT] = {
		[RESP_ERR] = "ERR",
		[RESP_NOAUTH] = "NOAUTH",
		[RESP_WRONGPASS] = "WRONGPASS",
		[RESP_NOPROTO] = "NOPROTO",
		[RESP_EXECABORT] = "EXECABORT",
		[RESP_OOM] = "OOM",
		[RESP_MISCONF] = "MISCONF",
		[RESP_LOADING] = "LOADING",
	};
	CHECK(error < RESP_ERROR_COUNT);
	return words[error];
}

void resp_write_error(struct buf *out, enum resp_error error, struct span text)
{
	buf_append_char(out, '-');
	buf_append_span(out, span_str(resp_error_word(error)));
	buf_append_char(out, ' ');
	for (size_t i = 0; i < text.len; i++) {
		bool breaks = text.ptr[i] == '\r' || text.ptr[i] == '\n';
		buf_append_char(out, breaks ? ' ' : text.ptr[i]);
	}
	buf_append(out, "\r\n", 2);
}

void resp_write_double(struct buf *out, double value, enum resp_version version)
{
	char text[40];
	int len = isinf(value) ? snprintf(text, sizeof(text), "%s", value < 0 ? "-inf" : "inf")
	                       : snprintf(text, sizeof(text), "%.17g", value);
	struct span span = span_of(text, (size_t)len);
	if (version == RESP_3)
		resp_write_line(out, ',', span);
	else
		resp_write_bulk(out, span);
}
