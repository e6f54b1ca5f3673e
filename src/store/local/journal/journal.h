/*
 * journal: the append-only record. Puts frames together, writes each with one
 * durable write, goes on to the next segment.
 *
 * The caller asks for room (journal_reserve()), appends with frame_add_…() and
 * journal_note_…(), and writes. Room for settles is kept at the end of each
 * segment, so that they still fit when no next segment can be had.
 *
 * One frame is written at a time (F4): a loss of power leaves one torn frame at most, with
 * nothing behind it.
 *
 * A failed write seals the segment before the failed frame: the next segment's
 * header tells so, and what the write left is never looked at (F3). Until that
 * header is durable a start may still find the failed frame whole, and take it:
 * so a segment's claims are handed to the keeper only then.
 *
 * Format:    format.h
 * Threads:   the owner's; the keeper prepares segments beside it.
 * Ownership: journal_init() fills it, journal_close() takes what it holds.
 * Failure:   journal_reserve(): ERR_FULL, ERR_TOO_LARGE. journal_write():
 *            -errno of the write; the frame is dropped then, and the caller takes
 *            back what it decided for it.
 */
#pragma once

#include <stdint.h>

#include "base/check.h"
#include "store/local/journal/claims_file.h"
#include "store/local/journal/frame.h"
#include "store/local/journal/keeper.h"
#include "store/local/journal/segment.h"
#include "store/local/journal/shelf.h"

struct journal;

/* How far the journal goes. */
struct journal_position {
	uint64_t segment;
	uint64_t end;
	uint64_t sequence; /* of the last frame */
};

struct journal_options {
	const struct folder *folder;
	struct keeper *keeper;
	struct shelf *shelf;
	uint32_t frame_max;
	/* Makes a superblock with this position durable (F3). */
	int (*mark)(void *user, const struct journal_position *position);
	/* The oldest segment with an open ticket, or the current one. */
	uint64_t (*scan_from)(void *user, uint64_t current);
	void *user;
};

struct journal {
	struct journal_options options;
	struct frame frame;
	struct journal_position durable;
	bool open; /* the current segment takes frames */
	int fd;    /* of the current segment, or -1 */
	uint64_t epoch;
	uint32_t limit;      /* where the reserve begins */
	int reserve_reason;  /* why the frame being built stands in the reserve; or 0 */
	int next_fd;         /* the next segment's, prepared, or -1 */
	bool header_written; /* the next segment's */
	struct segment_header next_header;
	/* of the current segment */
	struct claims_list claims;
	size_t claims_max;
	uint64_t claim_count;
	bool was_dense;  /* the one before: then gathering is not worth it */
	bool claims_due; /* it is sealed, and its claims go to the keeper next */
	struct shelf_item item;
};

/* Where recovery found the end. */
struct journal_end {
	struct journal_position position;
	bool exact; /* nothing was ever written behind it (F9) */
	/* of the last segment */
	struct shelf_item item;
	uint64_t claim_count;
};

int journal_init(struct journal *journal, const struct journal_options *options) must_check;
/* Takes up the end; nothing is written yet. */
void journal_resume(struct journal *journal, const struct journal_end *end);
/* Goes on in the last segment, whose end is exact. If that fails, the next one is
 * to be begun, as with an end that is not. */
int journal_go_on(struct journal *journal, const struct journal_end *end) must_check;
void journal_close(struct journal *journal);

/* Begins the next segment if none is open or this one is full: 0 or -errno;
 * -EAGAIN: it is being prepared (never with `wait`). */
int journal_ready(struct journal *journal, uint64_t now_ms, bool wait) must_check;
/* Asks again for a next segment after one could not be had. */
void journal_retry(struct journal *journal);

/* NOTE: what is needed to go on delivering may have half of the reserve. URGENT: what
 * came of a delivery may have all of it. */
enum journal_room { JOURNAL_NORMAL, JOURNAL_NOTE, JOURNAL_URGENT };
#define JOURNAL_COMMIT_FIRST 1
/* Room for an entry of `size` bytes in the current frame. COMMIT_FIRST: ask again when
 * that is written. */
int journal_reserve(struct journal *journal, uint32_t size, enum journal_room room,
                    uint64_t now_ms) must_check;

/* Where the next entry will stand. */
static inline uint32_t journal_next_offset(const struct journal *journal)
{
	return journal->frame.offset + journal->frame.len;
}

void journal_note_claim(struct journal *journal, const struct claims_record *record,
                        uint64_t expiry_ms);
void journal_note_seen(struct journal *journal, const struct entry_seen *seen);
void journal_note_newest(struct journal *journal, const struct entry_newest *newest);

static inline bool journal_pending(const struct journal *journal)
{
	return !frame_empty(&journal->frame);
}

/* Only what is urgent may join this frame. */
static inline bool journal_in_reserve(const struct journal *journal)
{
	return journal_pending(journal) && journal->reserve_reason < 0;
}

struct journal_times {
	uint64_t steady_ms;
	uint64_t wall_ms;
};
/* Writes the frame: it is durable, *ret_bytes long on the disk, or -errno. */
int journal_write(struct journal *journal, const struct journal_times *times,
                  uint32_t *ret_bytes) must_check;
