/* buf: see buf.h. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/utf8.h"

#define BUF_FIRST_ROOM 256u

int buf_reserve(struct buf *buf, size_t more)
{
	CHECK(buf->len <= buf->room);
	if (more <= buf->room - buf->len)
		return 0;
	if (more > SIZE_MAX / 4 - buf->len || (buf->cap && buf->len + more > buf->cap))
		return ERR_TOO_LARGE;
	size_t need = buf->len + more;
	size_t room = buf->room < BUF_FIRST_ROOM ? BUF_FIRST_ROOM : buf->room;
	while (room < need)
		room = room > SIZE_MAX / 2 ? need : room * 2;
	if (buf->cap && room > buf->cap)
		room = buf->cap;
	char *ptr = mem_realloc(buf->ptr, room);
	if (!ptr)
		return -ENOMEM;
	buf->ptr = ptr;
	buf->room = room;
	return 0;
}

void buf_append_slow(struct buf *buf, const void *ptr, size_t len)
{
	if (len == 0 || buf->failed)
		return;
	buf->failed = buf_reserve(buf, len);
	if (buf->failed)
		return;
	memcpy(buf->ptr + buf->len, ptr, len);
	buf->len += len;
}

void buf_append_u64(struct buf *buf, uint64_t value)
{
	char digits[TEXT_U64_MAX];
	buf_append(buf, digits, text_u64(digits, value));
}

void buf_printf(struct buf *buf, const char *format, ...)
{
	char text[512];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n < 0) {
		buf_fail(buf, -errno);
		return;
	}
	size_t len = (size_t)n;
	if (len < sizeof(text)) {
		buf_append(buf, text, len);
		return;
	}
	/* vsnprintf() wants one byte more than it counts, for the NUL. */
	if (!buf->failed)
		buf->failed = buf_reserve(buf, len + 1);
	if (buf->failed)
		return;
	va_start(args, format);
	vsnprintf(buf->ptr + buf->len, len + 1, format, args);
	va_end(args);
	buf->len += len;
}

static void append_escape(struct buf *buf, unsigned code)
{
	static const char hex[] = "0123456789abcdef";
	switch (code) {
	case '"': buf_append(buf, "\\\"", 2); return;
	case '\\': buf_append(buf, "\\\\", 2); return;
	case '\n': buf_append(buf, "\\n", 2); return;
	case '\r': buf_append(buf, "\\r", 2); return;
	case '\t': buf_append(buf, "\\t", 2); return;
	default: break;
	}
	const char text[6] = {
		'\\',          'u', hex[code >> 12 & 15], hex[code >> 8 & 15], hex[code >> 4 & 15],
		hex[code & 15]
	};
	buf_append(buf, text, sizeof(text));
}

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* Writes what is not a run of plain ASCII: one escape or one sequence. Returns
 * how many bytes it took. */
static size_t append_special(struct buf *buf, const char *at, size_t left)
{
	unsigned char c = (unsigned char)*at;
	if (c < 0x80) {
		append_escape(buf, c);
		return 1;
	}
	size_t n = utf8_sequence(at, left);
	if (n == 0) {
		buf_append(buf, "\xef\xbf\xbd", 3);
		return 1;
	}
	if (utf8_steers(at, n))
		append_escape(buf, utf8_code(at, n));
	else
		buf_append(buf, at, n);
	return n;
}

void buf_append_json(struct buf *buf, struct span text)
{
	buf_append_char(buf, '"');
	size_t i = 0;
	while (i < text.len) {
		size_t start = i;
		while (i < text.len && is_plain((unsigned char)text.ptr[i]))
			i++;
		buf_append(buf, text.ptr + start, i - start);
		if (i < text.len)
			i += append_special(buf, text.ptr + i, text.len - i);
	}
	buf_append_char(buf, '"');
}

void buf_clear(struct buf *buf)
{
	buf->len = 0;
	buf->failed = 0;
}

void buf_free(struct buf *buf)
{
	buf->ptr = mem_free(buf->ptr);
	buf->len = 0;
	buf->room = 0;
	buf->failed = 0;
}
