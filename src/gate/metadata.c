/* metadata: see metadata.h. */
#include "gate/metadata.h"

#include "base/error.h"
#include "base/utf8.h"

#define HEAD_BYTES 3u

static const char *const names[METADATA_FIELD_COUNT] = { [METADATA_ID] = "id",
	                                                 [METADATA_TYPE] = "type",
	                                                 [METADATA_ENTITY] = "entity",
	                                                 [METADATA_TIME] = "time",
	                                                 [METADATA_CONTENT_TYPE] = "content-type",
	                                                 [METADATA_TRACEPARENT] = "traceparent",
	                                                 [METADATA_TRACESTATE] = "tracestate",
	                                                 [METADATA_CORRELATION] = "correlation",
	                                                 [METADATA_REPLAY_OF] = "replay-of" };

void metadata_write(const struct metadata *metadata, struct buf *out)
{
	size_t left = METADATA_BYTES_MAX;

	for (uint32_t i = 0; i < METADATA_FIELD_COUNT; i++) {
		struct span text = metadata->texts[i];
		if (text.len == 0 || left <= HEAD_BYTES)
			continue;
		size_t room = left - HEAD_BYTES < METADATA_TEXT_MAX ? left - HEAD_BYTES
		                                                    : METADATA_TEXT_MAX;
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

int metadata_read(struct span bytes, struct metadata *ret_metadata)
{
	struct metadata metadata = { 0 };
	int last = -1;

	while (bytes.len > 0) {
		const unsigned char *head = (const unsigned char *)bytes.ptr;
		if (bytes.len < HEAD_BYTES || head[0] <= last)
			return ERR_DAMAGED;
		size_t len = head[1] | (size_t)head[2] << 8;
		if (len == 0 || len > bytes.len - HEAD_BYTES)
			return ERR_DAMAGED;
		last = head[0];
		if (head[0] < METADATA_FIELD_COUNT)
			metadata.texts[head[0]] = span_of(bytes.ptr + HEAD_BYTES, len);
		bytes = span_skip(bytes, HEAD_BYTES + len);
	}
	*ret_metadata = metadata;
	return 0;
}

int metadata_field_parse(struct span name)
{
	for (int i = 0; i < METADATA_FIELD_COUNT; i++)
		if (span_eq(span_str(names[i]), name))
			return i;
	return -1;
}

const char *metadata_field_name(enum metadata_field field)
{
	return names[field];
}
