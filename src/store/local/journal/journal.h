/*
 * journal: the append-only record. Puts frames together, writes each with one
 * durable write, moves to the next segment.
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
#include "gate/verdict.h"
#include "store/local/journal/claims_file.h"
#include "store/local/journal/format.h"
#include "store/local/journal/keeper.h"
#include "store/local/journal/segment.h"
#include "store/store.h"

/*
 * frame: where a group commit is put together, and where it can be read again
 * while it is young.
 *
 * Frames are built in a ring: the one for offset `o` of its segment stands at
 * `o` modulo the ring's size (running on into a slack behind the ring rather
 * than wrapping). So what was written last stays readable without a copy, and
 * a sink that keeps up never reads the disk.
 *
 * Format:  format.h
 * Threads: the owner's.
 * Failure: frame_init() -ENOMEM. An entry that does not fit is a bug of the
 *          caller: frame_fits() tells.
 */

struct frame {
	unsigned char *memory;
	uint32_t ring_bytes;
	uint32_t frame_max; /* most bytes of one frame; the slack has as many */
	/* the frame being built */
	uint64_t segment;
	uint64_t epoch;
	uint32_t offset; /* in its segment */
	uint32_t limit;  /* most bytes it may get */
	uint32_t len;    /* so far, with the header; 0: none is being built */
	uint32_t entry_count;
	/* what can still be read of that segment: [cached_from, cached_end) */
	uint32_t cached_from;
	uint32_t cached_end;
	uint32_t spill_from; /* the latest frame that ran into the slack */
	uint32_t spill_end;
};

int frame_init(struct frame *frame, uint32_t ring_bytes, uint32_t frame_max) must_check;
void frame_free(struct frame *frame);

struct frame_place {
	uint64_t segment;
	uint64_t epoch;
	uint32_t offset;
	uint32_t limit; /* at most frame_max is used */
};
void frame_begin(struct frame *frame, const struct frame_place *place);

static inline bool frame_fits(const struct frame *frame, uint32_t size)
{
	return frame->len + ((size + 7) & ~UINT32_C(7)) <= frame->limit;
}

static inline bool frame_empty(const struct frame *frame)
{
	return frame->entry_count == 0;
}

/* What an event takes: of `claims`, those whose bit is set. */
struct frame_claims {
	const struct claim *claims;
	uint32_t once;       /* once and content: in the EVENT, */
	uint32_t once_count; /* so many; */
	uint32_t newest;     /* each a NEWEST */
};

/* Has it what makes its entry a ROUTED one? */
static inline bool frame_is_routed(const struct store_admit *admit)
{
	return (admit->leg_count | admit->metadata.len) != 0;
}

/* Bytes of the EVENT entry of an admit. */
static inline uint32_t frame_event_size(const struct store_admit *admit, uint32_t claim_count)
{
	size_t size = sizeof(struct entry_event) + claim_count * sizeof(struct entry_claim) +
	              admit->source.len + admit->payload.len;

	if (unlikely(frame_is_routed(admit)))
		size += sizeof(struct entry_routing) + admit->leg_count * sizeof(struct entry_leg) +
		        admit->metadata.len;
	return (uint32_t)size;
}

/* Bytes of a copy of this EVENT for one leg. */
static inline uint32_t frame_carried_size(const struct entry *event)
{
	size_t size = sizeof(struct entry_event) + event->source.len + event->payload.len;

	if (event->leg_count | event->metadata.len)
		size += sizeof(struct entry_routing) + event->metadata.len +
		        (event->leg_count ? sizeof(struct entry_leg) : 0);
	return (uint32_t)size;
}

struct frame_carried {
	uint64_t ticket;
	uint16_t attempt;
	uint8_t flags; /* EVENT_HELD or 0 */
	uint8_t leg;   /* which of its event's */
};

static inline uint32_t frame_settle_size(const struct store_settle *settle)
{
	return settle->due_ms && settle->outcome == OUTCOME_RELEASED
	               ? sizeof(struct entry_settle_due)
	               : sizeof(struct entry_settle);
}

static inline uint32_t frame_note_size(struct span text)
{
	return (uint32_t)(sizeof(struct entry_note) + text.len);
}

/* Of a cell; name and value only of what puts it. */
struct frame_cell {
	struct digest digest; /* its check does not matter */
	enum entry_cell_act act;
	uint64_t expiry_ms;
	struct span name;
	struct span value;
};

static inline uint32_t frame_cell_size(const struct frame_cell *cell)
{
	return (uint32_t)(sizeof(struct entry_cell) + cell->name.len + cell->value.len);
}

/* Each appends one entry, which must fit; returns its offset in the segment. Flags:
 * EVENT_HELD or 0. */
uint32_t frame_add_event(struct frame *frame, const struct store_admit *admit,
                         const struct frame_claims *claims, uint64_t ticket, uint8_t flags);
uint32_t frame_add_carried(struct frame *frame, const struct entry *event,
                           const struct frame_carried *carried);
uint32_t frame_add_settle(struct frame *frame, const struct store_settle *settle);
/* Size, kind and check are filled in. */
uint32_t frame_add_note(struct frame *frame, struct entry_note *note, struct span text);
uint32_t frame_add_seen(struct frame *frame, const struct entry_seen *seen);
uint32_t frame_add_newest(struct frame *frame, const struct entry_newest *newest);
uint32_t frame_add_cell(struct frame *frame, const struct frame_cell *cell);

struct frame_stamp {
	uint64_t sequence;
	uint64_t steady_ms;
	uint64_t wall_ms;
};
/* Seals it and tells what to write at its offset: ret_span bytes, whole blocks. */
const unsigned char *frame_finish(struct frame *frame, const struct frame_stamp *stamp,
                                  uint32_t *ret_span);
/* What was finished is on disk, and can be read until the ring comes around. */
void frame_written(struct frame *frame, uint32_t span);
/* It is not: the frame is lost. */
void frame_drop(struct frame *frame);

/* Bytes of the frame being built, which nobody may be told of yet, or NULL. */
const unsigned char *frame_building(const struct frame *frame, uint64_t segment, uint32_t offset,
                                    uint32_t len);
/* Bytes of a segment that are still here, or NULL. */
const unsigned char *frame_cached(const struct frame *frame, uint64_t segment, uint32_t offset,
                                  uint32_t len);

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
	struct segment_list *segments;
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
	struct segment_info item;
};

/* Where recovery found the end. */
struct journal_end {
	struct journal_position position;
	bool exact; /* nothing was ever written behind it (F9) */
	/* of the last segment */
	struct segment_info item;
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
