/*
 * http1_drive: runs a request through the parser as a server would, with the
 * input cut where the test wants. Used by test_http1.c and the fuzz targets.
 */
#pragma once

#include <stdlib.h>

#include "codec/http1.h"

#define DRIVE_BODY_MAX (1024u * 1024u)

struct drive {
	struct http1_head head;
	struct http1_scan scan;
	struct http1_chunked chunked;
	struct http1_refusal refusal;
	bool have_head;
	size_t head_len, raw; /* raw: bytes of the chunked body that were taken */
	char *body;           /* decoded, at least as large as the input */
	size_t body_len, used;
};

static inline void drive_free(struct drive *drive)
{
	free(drive->body);
}

static inline int drive_refused(struct drive *drive)
{
	return drive->refusal.status;
}

/* 200, 0 for more, or the refusal. Once it is not 0, it is not called again. */
static inline int drive_step(struct drive *drive, const char *bytes, size_t len)
{
	static const struct http1_limits limits = { .head_bytes = 16384, .headers = 100 };
	if (!drive->have_head) {
		enum http1_status status = http1_scan_head(&drive->scan, span_of(bytes, len),
		                                           &limits, &drive->head_len,
		                                           &drive->refusal);
		if (status != HTTP1_DONE)
			return status == HTTP1_MORE ? 0 : drive_refused(drive);
		struct span head = span_of(bytes + drive->scan.start,
		                           drive->head_len - drive->scan.start);
		if (http1_parse_head(head, &limits, &drive->head, &drive->refusal))
			return drive_refused(drive);
		if (drive->head.encoded)
			return 415;
		if (drive->head.content_length > DRIVE_BODY_MAX)
			return 413;
		drive->have_head = true;
		drive->chunked.limit = DRIVE_BODY_MAX;
	}
	if (!drive->head.chunked) {
		drive->body_len = (size_t)drive->head.content_length;
		drive->used = drive->head_len + drive->body_len;
		if (len < drive->used)
			return 0;
		memcpy(drive->body, bytes + drive->head_len, drive->body_len);
		return 200;
	}
	size_t taken, given, at = drive->head_len + drive->raw;
	enum http1_status status = http1_chunked_decode(&drive->chunked,
	                                                span_of(bytes + at, len - at),
	                                                drive->body + drive->body_len, &taken,
	                                                &given, &drive->refusal);
	drive->raw += taken;
	drive->body_len += given;
	drive->used = drive->head_len + drive->raw;
	return status == HTTP1_DONE ? 200 : status == HTTP1_MORE ? 0 : drive_refused(drive);
}

/* The input as prefixes that grow by `step` bytes, after a first one of `first`. */
static inline int drive_cut(struct drive *drive, const char *bytes, size_t len, size_t first,
                            size_t step)
{
	memset(drive, 0, sizeof(*drive));
	drive->body = malloc(len + 1);
	if (!drive->body)
		abort();
	for (size_t at = first < len ? first : len;; at = len - at > step ? at + step : len) {
		int status = drive_step(drive, bytes, at);
		if (status != 0 || at == len)
			return status;
	}
}
