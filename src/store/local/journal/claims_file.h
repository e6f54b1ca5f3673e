/*
 * claims_file: the claims of one sealed segment without its payloads, so that
 * the segment can leave while its claims are remembered, and recovery reads
 * less.
 *
 * Format:    format.h
 * Threads:   a list has one owner at a time (writer, then keeper).
 * Ownership: claims_list_free() takes the records; a zeroed list is empty.
 * Failure:   -errno, ERR_DAMAGED, ERR_VERSION; a failed write leaves no file
 *            of that name.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/error.h"
#include "store/local/journal/segment.h"

struct claims_list {
	struct claims_record *records;
	size_t count;
	size_t room;
	bool dropped; /* incomplete: too long, or no memory */
};

/* Adds, or drops the whole list when it would pass `max` records. */
void claims_list_add(struct claims_list *list, const struct claims_record *record, size_t max);
void claims_list_drop(struct claims_list *list);
void claims_list_free(struct claims_list *list);

struct claims_summary {
	uint64_t number;
	uint64_t record_count;
	uint64_t max_expiry_ms;
	uint64_t max_ticket;
	uint64_t sealed_ms;
	uint64_t previous_end; /* of the segment before, as the segment's header tells */
	uint64_t previous_sequence;
	uint64_t previous_expiry_ms;
};

/* Durable under its name when it returns 0. record_count is the list's. */
int claims_file_write(const struct folder *folder, const struct claims_summary *summary,
                      const struct claims_list *list) must_check;

/* Hands over the records in runs. A non-zero return ends the reading. */
struct claims_visitor {
	int (*each)(void *user, const struct claims_record *records, size_t count);
	void *user;
};
int claims_file_read(const struct folder *folder, uint64_t number,
                     const struct claims_visitor *visitor, struct claims_summary *ret_summary,
                     struct error_text *text) must_check;
/* The header alone. */
int claims_file_summary(const struct folder *folder, uint64_t number,
                        struct claims_summary *ret_summary, struct error_text *text) must_check;

static inline uint64_t claims_file_bytes(uint64_t records)
{
	return FORMAT_BLOCK * (1 + (records + CLAIMS_BLOCK_RECORDS - 1) / CLAIMS_BLOCK_RECORDS);
}
