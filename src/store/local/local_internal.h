/*
 * local_internal: the parts of a local store, for the files that make it up.
 *
 *   local_store.c  open, free, submit, tick, stats; do all parts agree? (for tests)
 *   admit.c        the decision about an event, and undoing it
 *   commit.c       flush: decide in order, one durable write, complete
 *   settle.c       notes, outcomes that keep a ticket open, releases
 *   cell.c         operations on cells, answers of outcomes, reading cells back
 *   take.c         leases: of due tickets, of one ticket, and their ends
 *   read.c         bytes of the journal, one ticket with its history, scans
 *   retention.c    which files may leave; moving open tickets and cells forward
 *   recovery.c     from the files to the index
 *
 * Threads: the owner's, but for the atomics.
 */
#pragma once

#include <stdatomic.h>

#include "base/histogram.h"
#include "gate/ticket.h"
#include "store/local/cells.h"
#include "store/local/index/leases.h"
#include "store/local/index/newest.h"
#include "store/local/index/open_tickets.h"
#include "store/local/index/table.h"
#include "store/local/index/tally.h"
#include "store/local/journal/journal.h"
#include "store/local/journal/keeper.h"
#include "store/local/journal/reader.h"
#include "store/local/journal/segment.h"
#include "store/local/journal/steady_clock.h"
#include "store/local/journal/superblock.h"
#include "store/local/local_store.h"
#include "store/op_queue.h"
#include "store/waits.h"

/* An event that could not be read is tried again with the next tick. */
struct read_retry {
	bool waits; /* for the tick */
	uint32_t tries;
	uint64_t ticket;
};

struct local_counters {
	atomic_uint_fast64_t live_claims, live_entities, live_cells, expired_claims, index_bytes;
	atomic_uint_fast64_t open_tickets, due_tickets, held_tickets, parked_tickets, dead_tickets;
	atomic_uint_fast64_t caller_tickets;
	atomic_uint_fast64_t waits;
	atomic_uint_fast64_t commits, commit_ops, journal_bytes, written_bytes, segments;
	atomic_uint_fast64_t clock_held_ms, io_errors;
	atomic_bool writable;
};

/*
 * Decided, not yet durable: what a decision changes is in the index at once, so that the
 * next decision of the same frame meets it, and each change has an item in the undo list,
 * in the order of the changes. When the frame is durable the list is emptied, and the
 * operations complete. When the frame is lost the list is undone from its end; then the
 * operations fail, but for settles: they wait in `deferred` for a frame with room, since
 * the delivery has happened. A ticket whose new state waits for the frame is
 * OPEN_TICKET_CHANGING: nothing else may begin with it.
 */
enum undo_kind {
	UNDO_EVENT,  /* an event was kept: its claims, tickets and count of repeats go */
	UNDO_CLAIM,  /* a claim moved from another ticket */
	UNDO_ENTITY, /* an entity got a newer order */
	UNDO_TICKET, /* a ticket changed */
	UNDO_CELL,   /* a cell was put, removed or given another end */
	UNDO_SEEN,   /* a count of repeats was written */
};

struct undo_cell {
	struct digest digest;
	struct cell old;
	bool there; /* else there was none */
	bool moved; /* its old place is not needed once the frame is durable */
};

struct undo {
	enum undo_kind kind;
	union {
		const struct store_admit *event;
		uint64_t seen; /* the ticket */
		struct table_record claim;
		struct newest_record entity; /* ticket 0: there was none */
		struct open_ticket ticket;
		struct undo_cell cell;
	};
};

struct undo_list {
	struct undo *items;
	uint32_t count;
	uint32_t room;
};

#define SEEN_PER_FRAME 1024u
#define DEFERRED_SETTLES_MAX 65536u
#define TOUCHED_BITS 16384u
#define CELL_WINDOWS 8u

/* What is decided together and rests on one frame. */
struct batch {
	struct op_queue ops; /* waiting for the frame */
	uint32_t events;     /* what makes it worth a write */
	uint32_t seen_count; /* counts of repeats in the frame */
	/* The digests of cells that it changes, as bits: some more may seem to be. */
	uint64_t touched[TOUCHED_BITS / 64];
	bool touches;
};

/* A place in the journal that is there: the next entry, or frame. */
struct journal_cursor {
	uint64_t segment;
	uint32_t at;
	uint32_t body_end; /* of the frame; 0: at a frame's header */
	uint64_t epoch;    /* of the segment; 0: not known yet */
};

struct local_store {
	struct store store;
	struct local_store_options options;
	char *path;
	struct folder folder;
	int lock_fd;
	struct superblock superblock;
	struct steady_clock clock;
	struct table *table;
	struct newest *newest;
	struct tally *tally;
	struct open_tickets *tickets;
	struct leases leases; /* those that have an end */
	struct cells *cells;
	struct segment_list segments;
	struct keeper *keeper;
	struct journal journal;
	struct segment_window window; /* for payloads that are no longer in memory */
	struct segment_window cell_windows[CELL_WINDOWS]; /* by the segment's number */
	struct read_retry retry;
	struct buf cell_bytes;          /* of a cell that is written again */
	struct journal_cursor carrying; /* cells; segment 0: none is under way */
	uint32_t carry_walks;           /* through that segment, in vain */
	bool has_cells;                 /* and the superblock says so (F12) */

	struct batch batch;    /* of the frame being built */
	struct op_queue queue; /* submitted, not decided */
	struct op_queue ready; /* decided, waiting for the end of the flush */
	struct op_queue takes; /* waiting for due tickets */
	struct op_queue reads; /* reads and scans: after what was decided with them */
	struct waits waits;
	uint64_t dead_at;         /* where the look for old dead letters is */
	struct op_queue deferred; /* settles that found no room */
	uint64_t last_ticket;     /* ever given */
	uint64_t durable_ticket;  /* the last whose frame is on disk */
	uint64_t oldest;          /* the lowest number that is still needed */
	uint64_t live_claims;     /* about; made exact by tick */
	struct undo_list undo;
	uint64_t frames_lost; /* ever */
	bool full;            /* the last admit found no room on disk */
	bool refused;         /* one did since the last tick */
	bool told_full;       /* and the operator was told */
	bool crowded;         /* as many tickets are open as may be, and that was told */
	bool ending;          /* see store_end_waits() */
	bool flushing;
	bool superblock_dirty;
	uint64_t superblock_boot_ms; /* when it was written last */
	uint64_t seen_boot_ms;       /* when duplicates were written down last */
	uint64_t retry_boot_ms;      /* when a next segment was asked for last */
	uint64_t retry_ms;           /* how long until it is asked for again */
	bool room_awaited;           /* the keeper is at it */

	struct local_counters counters;
	struct histogram commit_us;
	struct histogram commit_batch;
};

static inline struct local_store *local_of(const struct store *store)
{
	return container_of(store, struct local_store, store);
}

/* By the store's clock, as the last flush or tick read it. */
static inline uint64_t local_now_ms(const struct local_store *local)
{
	return steady_clock_last(&local->clock);
}

/* See window_flags(). */
static inline uint64_t tally_expiry_ms(const struct table_hit *hit)
{
	uint32_t n = hit->flags >> 1;
	uint64_t longest_ms = ticket_time_ms(hit->ticket) + (UINT64_C(4000) << 2 * n);

	return n && longest_ms > hit->expiry_ms ? longest_ms : hit->expiry_ms;
}

void local_log(const struct local_store *local, enum local_store_level level, const char *format,
               ...) printf_like(3, 4);
/* Makes the present state durable in the superblock. */
int local_mark(struct local_store *local, const struct journal_position *position,
               uint32_t flags) must_check;
void local_publish(struct local_store *local); /* counters that are cheap to read */

/* admit.c */
/* `probes` are those of its claims. */
void local_decide_admit(struct local_store *local, struct store_admit *admit,
                        struct table_probe *probes);
void local_drop_event(struct local_store *local, const struct store_admit *admit);

/* commit.c */
/* Room for `count` items; then each change pushes its own, and undoing goes back to a
 * number of items that the list had before. */
int local_undo_reserve(struct local_store *local, uint32_t count) must_check;
static inline struct undo *local_undo_push(struct local_store *local, enum undo_kind kind)
{
	CHECK(local->undo.count < local->undo.room);
	struct undo *undo = &local->undo.items[local->undo.count++];
	undo->kind = kind;
	return undo;
}
void local_undo_to(struct local_store *local, uint32_t count);
/* Room for the entries, after writing what is there if need be. */
int local_reserve(struct local_store *local, uint32_t size, enum journal_room room) must_check;
void local_flush(struct store *store);
/* Writes and completes the batch. */
void local_commit(struct local_store *local);
void local_write_seen(struct local_store *local, uint32_t max_frames);
void local_retry_settles(struct local_store *local);

/* It could not be written: it waits for the next frame, or fails with this error. */
void local_defer(struct local_store *local, struct store_settle *settle, int error);

/* cell.c */
/* `probe` is that of its digest. */
void local_decide_cell(struct local_store *local, struct store_cell *cell,
                       struct table_probe *probe);
int local_decide_cell_scan(struct local_store *local, struct store_cell_scan *scan) must_check;
/* Has a change of it not been written yet? */
bool local_cell_touched(const struct local_store *local, const struct digest *digest);
void local_undo_cell(struct local_store *local, const struct undo_cell *undo);
/* The cell that goes with an outcome; NULL is none. Its bytes in the frame, with those of
 * the outcome, which are so many. */
uint32_t local_answer_size(const struct store_settle *settle, uint32_t size);
/* There is room in the frame and the undo list. ERR_FULL: nothing was changed. */
int local_put_answer(struct local_store *local, const struct store_settle *settle) must_check;

/* retention.c: cells */
void local_carry_cells(struct local_store *local, uint64_t segment); /* a piece of them */

/* read.c: steps through the journal */
enum cursor_step {
	CURSOR_END,   /* all that is durable was seen */
	CURSOR_MOVED, /* on to something else: go on */
	CURSOR_ENTRY, /* at an entry */
};
enum cursor_step cursor_look(struct local_store *local, struct journal_cursor *cursor,
                             struct entry_head *ret_head) must_check;
/* So many bytes from there on; false: they cannot be read. As local_read_bytes(). */
bool cursor_read(struct local_store *local, const struct journal_cursor *cursor, uint32_t len,
                 const unsigned char **ret_bytes, bool *ret_from_disk) must_check;
void cursor_pass(struct journal_cursor *cursor, const struct entry_head *head);
void cursor_next_segment(struct journal_cursor *cursor);

/* settle.c */
struct waits_legs local_legs(const struct local_store *local, uint64_t event);
int local_decide_note(struct local_store *local, const struct store_note *note) must_check;
/* Leased with this very attempt: 0 or ERR_FENCED. */
int local_find_leased(const struct local_store *local, uint64_t ticket, uint32_t attempt,
                      struct open_ticket *ret_ticket) must_check;
/* The ticket as it is now comes back if the frame is lost; there is room. */
void local_save_ticket(struct local_store *local, const struct open_ticket *ticket);
/* Appends a note of the ticket, which has it as its last from then on. */
void local_append_note(struct local_store *local, struct open_ticket *ticket,
                       struct entry_note note, struct span text);
/* False: it waits in `deferred`, and does not join the batch. */
bool local_decide_settle(struct local_store *local, struct store_settle *settle) must_check;
void local_settle_is_durable(struct local_store *local, const struct store_settle *settle);
int local_decide_release(struct local_store *local, struct store_release *release) must_check;
void local_release_is_durable(struct local_store *local, const struct store_release *release);
void local_close_ticket(struct local_store *local, uint64_t ticket, bool done);
/* Those that are too old, after a look at so many tickets; the next call resumes there. */
void local_drop_dead(struct local_store *local, uint32_t looks);

/* read.c */
/* An open ticket as others see it; `entry` may be NULL: then without flags. */
struct store_item local_item(const struct local_store *local, const struct open_ticket *ticket,
                             const struct entry *entry);
enum store_state local_state(const struct open_ticket *ticket);
/* The note at a place; its text stays until the next read or frame. */
int local_read_note(struct local_store *local, const struct open_ticket *ticket,
                    struct entry *ret_entry) must_check;
/* Is its last note in a frame that is not durable yet? */
bool local_note_waits(const struct local_store *local, const struct open_ticket *ticket);
void local_serve_reads(struct local_store *local);

/* read.c: scans */
#define SCAN_READ_BYTES (256u << 10) /* from disk, in one operation */
int local_scan_tickets(struct local_store *local, struct store_scan *scan) must_check;
int local_scan_events(struct local_store *local, struct store_scan *scan) must_check;
/* False: it does not fit any more, and the scan ends before it. */
bool local_scan_put(struct store_scan *scan, struct store_item item, struct store_parts parts,
                    int *ret_error);

/* take.c */
void local_serve_takes(struct local_store *local);
void local_fail_takes(struct local_store *local, int error);
/* The event of an open ticket; the entry's spans stay until the next call or
 * frame. ERR_DAMAGED or -errno. */
int local_read_event(struct local_store *local, const struct open_ticket *ticket,
                     struct entry *ret_entry) must_check;
/* Bytes of a segment that were durable, from memory or disk: at least `len`, if the
 * segment has them; *ret_from_disk: they are not checked yet. They stay until the next
 * read or frame. */
struct reader_place {
	uint64_t segment;
	uint32_t offset;
	uint32_t len;
	uint32_t ahead;                /* read so much at least, for what comes next */
	struct segment_window *window; /* NULL: the store's own */
};
int local_read_bytes(struct local_store *local, struct reader_place place,
                     const unsigned char **ret_bytes, bool *ret_from_disk) must_check;
uint64_t local_segment_end(const struct local_store *local, uint64_t segment);
/* Closes the windows of a segment whose file will be removed; 0: of all. */
void local_close_windows(struct local_store *local, uint64_t segment);

/* take.c: one ticket */
/* What store_admit.lease_ms needs beside the event, and then making it so. */
#define LOCAL_START_SIZE ((uint32_t)sizeof(struct entry_note))
void local_start(struct local_store *local, uint64_t ticket, uint32_t lease_ms);
int local_decide_take(struct local_store *local, struct store_take *take) must_check;
void local_take_is_durable(struct local_store *local, struct store_take *take);
int local_decide_renew(struct local_store *local, const struct store_renew *renew) must_check;
void local_set_lease(struct local_store *local, uint64_t ticket, uint32_t lease_ms);
void local_end_leases(struct local_store *local); /* that are over */

/* retention.c */
void local_retain(struct local_store *local);
uint64_t local_scan_from(const struct local_store *local, uint64_t current);
/* A damaged event or cell cannot be carried, and what is left of it is not thrown away. */
void local_tell_stays(struct local_store *local, uint64_t segment);

/* recovery.c */
int local_recover(struct local_store *local, struct journal_end *ret_end,
                  struct error_text *text) must_check;
