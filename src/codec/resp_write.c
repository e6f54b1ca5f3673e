/* resp_write: see resp_write.h. */
#include "codec/resp_write.h"

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
