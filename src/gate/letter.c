/* letter: see letter.h. */
#include "gate/letter.h"

#include "base/error.h"
#include "base/utf8.h"

#define HEAD_BYTES 3u

static const char *const names[LETTER_FIELD_COUNT] = { [LETTER_ID] = "id",
	                                               [LETTER_TYPE] = "type",
	                                               [LETTER_ENTITY] = "entity",
	                                               [LETTER_TIME] = "time",
	                                               [LETTER_CONTENT_TYPE] = "content-type",
	                                               [LETTER_TRACEPARENT] = "traceparent",
	                                               [LETTER_TRACESTATE] = "tracestate",
	                                               [LETTER_CORRELATION] = "correlation",
	                                               [LETTER_REPLAY_OF] = "replay-of" };

void letter_write(const struct letter *letter, struct buf *out)
{
	size_t left = LETTER_BYTES_MAX;

	for (uint32_t i = 0; i < LETTER_FIELD_COUNT; i++) {
		struct span text = letter->texts[i];
		if (text.len == 0 || left <= HEAD_BYTES)
			continue;
		size_t room = left - HEAD_BYTES < LETTER_TEXT_MAX ? left - HEAD_BYTES
		                                                  : LETTER_TEXT_MAX;
		size_t len = utf8_cut(text.ptr, text.len, room);
		if (len == 0)
			continue;
		unsigned char head[HEAD_BYTES] = { (unsigned char)i, (unsigned char)len,
			                           (unsigned char)(len >> 8) };
		buf_append(out, head, sizeof(head));
		buf_append(out, text.ptr, len);
		left -= HEAD_BYTES + len;
	}
}

int letter_read(struct span bytes, struct letter *ret_letter)
{
	struct letter letter = { 0 };
	int last = -1;

	while (bytes.len > 0) {
		const unsigned char *head = (const unsigned char *)bytes.ptr;
		if (bytes.len < HEAD_BYTES || head[0] <= last)
			return ERR_DAMAGED;
		size_t len = head[1] | (size_t)head[2] << 8;
		if (len == 0 || len > bytes.len - HEAD_BYTES)
			return ERR_DAMAGED;
		last = head[0];
		if (head[0] < LETTER_FIELD_COUNT)
			letter.texts[head[0]] = span_of(bytes.ptr + HEAD_BYTES, len);
		bytes = span_skip(bytes, HEAD_BYTES + len);
	}
	*ret_letter = letter;
	return 0;
}

int letter_field_parse(struct span name)
{
	for (int i = 0; i < LETTER_FIELD_COUNT; i++)
		if (span_eq(span_str(names[i]), name))
			return i;
	return -1;
}

const char *letter_field_name(enum letter_field field)
{
	return names[field];
}
