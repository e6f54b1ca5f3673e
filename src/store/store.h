/*
 * store: what remembers. The contract that every store keeps.
 *
 * A caller fills an operation, store_submit()s it, and at the end of its round
 * store_flush()es. Submitting only queues. Flushing decides everything that
 * waits, in the order of submission, makes it durable together, and then calls
 * each operation's done(). A completion means durable: "new" and "duplicate" are
 * reported after the claim they rest on reached the disk. Outcomes
 * may be completed later, by another flush or the tick, if the store was told so.
 *
 * All that was submitted before a flush becomes durable in one step, as far as it
 * fits one write of the store (local: frame_bytes_max); what does not fit follows
 * in the next. So the events of one request are admitted together by one flush.
 *
 * A shared store works while its owner continues. Then a flush can
 * return before what it decided is durable, and store_under_way() says so: a later
 * flush, or the tick, completes it. An owner that set `written` is called when a flush is
 * due for it, and no flush waits for the disk. Without, a flush waits for the write that
 * an earlier one began: an owner that has more to submit does that first, so that
 * deciding and writing overlap, and one that has not flushes once more.
 *
 * Room:      store. Others see only this header; serve/ alone names a concrete
 *            store (local/local_store.h, …).
 * Threads:   a store has one owner thread that calls everything here. Other
 *            threads go through a port (store/port.h), which is a store too.
 * Ownership: an operation belongs to the store from submit to done(); what its
 *            spans point to must stay until then. done() may submit again, but
 *            must not flush.
 * Failure:   op->error is 0 or a negative error. ERR_FULL: no room (disk or
 *            memory) now, nothing was decided. ERR_POISONED: a sync failed;
 *            nothing was decided for this operation. ERR_AWAY: a shared store
 *            is unreachable; the operation was done wholly or not at all.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/span.h"
#include "gate/claim.h"
#include "gate/verdict.h"

#define STORE_SOURCE_MAX 64 /* bytes of a source's name */
#define STORE_PAYLOAD_MAX (16u << 20)
#define STORE_METADATA_MAX 4096u
#define STORE_LEGS_MAX 16u
#define STORE_TEXT_MAX 256u                           /* of a note; what is longer is cut */
#define STORE_WAITS_MAX 4096u                         /* at a time */
#define STORE_NAME_MAX 4096u                          /* bytes of a cell's name, */
#define STORE_VALUE_MAX (1u << 20)                    /* and of its value */
#define STORE_EXPIRY_MAX_MS ((UINT64_C(1) << 43) - 1) /* unix, in 2248: what is later is that */
#define STORE_ATTEMPT_MAX 65535u /* the number of an attempt goes no further, and stays */
#define STORE_DEAD_KEEP_MS (UINT64_C(30) * 24 * 60 * 60 * 1000) /* by default */
#define STORE_HURRY_MS 2000u                                    /* see store_hurry() */

enum store_op_kind {
	STORE_ADMIT = 1,
	STORE_SETTLE,
	STORE_TAKE,
	STORE_LOOKUP,
	STORE_RELEASE,
	STORE_NOTE,
	STORE_READ,
	STORE_SCAN,
	STORE_WAIT,
	STORE_RENEW,
	STORE_HELD,
	STORE_CELL,
	STORE_CELL_SCAN,
};

struct store_op {
	struct store_op *next; /* the store's, from submit to done() */
	enum store_op_kind kind;
	int error;
	void (*done)(struct store_op *op);
	void *user; /* the caller's */
};

/* Flags of an event; the store keeps them and does not look at them. */
enum store_event_flags {
	STORE_EVENT_JSON = 1, /* the payload is valid JSON, */
	STORE_EVENT_LINE = 2, /* and known to be without line breaks */
};

/*
 * One sink that an event goes to. An event with n legs gets n ticket numbers in a
 * row: leg i has the event's ticket + i, and is an open ticket of its own, with a
 * state, attempts and a due time of its own. An event without legs has one, of
 * sink 0 and order 0.
 */
struct store_leg {
	uint32_t sink;  /* what takes ask for; 0: the only one of a gateway without routes */
	uint64_t order; /* the caller's; kept, and given back by take */
};

/* The sink of legs that no lane delivers: the caller that claimed the event acts on it. */
#define STORE_SINK_CALLER 1u

/* Where an open ticket stands. The numbers are bits of store_scan's states. */
enum store_state {
	STORE_STATE_DUE = 1,    /* waits to be taken, at once or at a time ahead */
	STORE_STATE_LEASED = 2, /* with a taker, or its outcome is on the way to the disk */
	STORE_STATE_HELD = 3,   /* a conflict kept aside, until a person releases it */
	STORE_STATE_PARKED = 4, /* its outcome is unknown, and a person has to decide */
	STORE_STATE_DEAD = 5,   /* a dead letter: kept until it is dropped, released, or too old */
	STORE_STATE_CLOSED = 6, /* not open any more; only from a scan of all events */
};

#define STORE_STATES_ASIDE \
	(1u << STORE_STATE_HELD | 1u << STORE_STATE_PARKED | 1u << STORE_STATE_DEAD)

/* What is remembered of a ticket beside its outcome; the numbers stand in the
 * journal. A caller notes the first three. */
enum store_mark {
	STORE_MARK_NONE = 0,
	STORE_MARK_STARTED = 1,  /* an attempt is about to be made */
	STORE_MARK_FAILED = 2,   /* it came to nothing, and is made again */
	STORE_MARK_UNKNOWN = 3,  /* its result is unknown */
	STORE_MARK_DEAD = 4,     /* settled as dead */
	STORE_MARK_PARKED = 5,   /* settled as unknown */
	STORE_MARK_RELEASED = 6, /* a person released it after that */
};

/* What becomes of an event that says something else under a key that is taken. */
enum store_conflict {
	STORE_CONFLICT_ASIDE = 0, /* kept, held until a person releases it */
	STORE_CONFLICT_PASS,      /* delivered as a new one, which has the claim from then on */
	STORE_CONFLICT_REJECT,    /* not kept */
};

/*
 * Take the claims of an event, or none. They are asked in the order given; the
 * first that drops the event decides:
 *
 *   once     taken already, with the same content or one of both unknown:
 *            `duplicate`, or `busy` if that was asked for and the ticket that has
 *            it still has a leg to deliver (due, leased or held). With other content:
 *            `conflict`, see on_conflict.
 *   content  taken already: `duplicate` or `busy`.
 *   newest   the entity has a higher order, or the same and equal_drops: `stale`.
 *
 * If none does, the event is `new`: it gets a ticket, takes the claims and moves
 * its entities on, and is kept until the ticket is settled. With a conflict that
 * passes the same happens, and the verdict is `conflict`.
 *
 * Shadow claims never drop: the first that would have is told with an event that
 * passes (`would`); one that is taken stays with the ticket that has it.
 *
 * A claim that changes hands, and an entity that is moved on, is remembered as
 * long as its new window says and at least as long as it was going to be.
 *
 * A conflict kept aside takes one claim only, of its key and content together: so
 * that when it comes again it is a duplicate of the held ticket. With no_ticket
 * there is nothing to keep.
 */
struct store_admit {
	struct store_op op;
	/* in */
	struct claim claims[CLAIMS_MAX];
	uint32_t claim_count; /* 0 … CLAIMS_MAX; 0 only with a ticket: always new */
	bool no_ticket;       /* claims only: nothing is kept for delivery */
	bool busy_if_open;    /* the sender waits for the outcome */
	enum store_conflict on_conflict;
	uint16_t flags;       /* the caller's (STORE_EVENT_…): kept, and given back by take */
	struct span source;   /* at most STORE_SOURCE_MAX bytes */
	struct span metadata; /* at most STORE_METADATA_MAX bytes; not with no_ticket */
	struct span payload;  /* at most STORE_PAYLOAD_MAX bytes */
	const struct store_leg *legs; /* stay until done(); not with no_ticket */
	uint32_t leg_count;           /* at most STORE_LEGS_MAX; 0: one, of sink 0 */
	/* Not 0, with one leg: a new event is leased to the caller from the beginning, for
	 * so long, as attempt 1, which counts as started (STORE_MARK_STARTED). */
	uint32_t lease_ms;
	/* While a shared store is away the event may be kept on this node, durable, without
	 * a decision: `spooled`, with `ticket` a number of this node's alone. It is decided
	 * as any other when the store is back. Without, or if the store is no shared one:
	 * ERR_AWAY. Not with lease_ms. */
	bool spool;
	/* It repeats an open ticket that its lane is done with: no limit of open tickets
	 * refuses it, since what waits for it would never close. */
	bool beyond_limit;
	/* out */
	enum verdict verdict;
	uint32_t matched;       /* not new: index of the claim that decided */
	uint64_t ticket;        /* new: its own; else the original's */
	uint64_t own_ticket;    /* new, conflict aside or passed: its own; else 0 */
	uint64_t first_seen_ms; /* unix, of `ticket` */
	uint64_t decided_ms;    /* unix, by the clock that tickets are of */
	uint64_t seen;          /* duplicate, busy: how often one of it came, with this one */
	uint64_t order;         /* stale: what the entity has */
	enum verdict would;     /* of a shadow claim, if the event passes; else VERDICT_NONE */
	uint32_t would_matched; /* index of that claim */
	uint64_t would_ticket;  /* the original's */
};

/*
 * Attempts. A take gives the number of the attempt to make, and that number is the
 * lease: a note or an outcome with any other is ERR_FENCED, and so is one of a
 * ticket that is not leased. Numbers only go up. A failed attempt that is noted moves
 * the number on by one, and the lease stays; a ticket that is given back uses its
 * number up. After a crash a number of which nothing was noted is given again. After
 * STORE_ATTEMPT_MAX attempts are still made, all of them with that number, which then
 * fences no other holder off any more.
 */

/*
 * A cell: a name with a value, kept until a time. Cells are known by the key of a
 * digest, as claims are, and share nothing with them: a digest may be both. One
 * operation does one of these at a time, after all that was submitted before it:
 *
 *   GET     changes nothing.
 *   PUT     writes name, value and expiry anew, if `when` holds.
 *   EXPIRE  another expiry for a cell that is there, if `when` holds; one that is over
 *           removes it.
 *   REMOVE  a cell that is there is forgotten.
 *
 * The store's clock says when a cell is over; from that moment on it is not found.
 */
enum store_cell_act { STORE_CELL_GET = 1, STORE_CELL_PUT, STORE_CELL_EXPIRE, STORE_CELL_REMOVE };

/* ABSENT and PRESENT are of PUT, the others of EXPIRE. To have no expiry is the latest of
 * all. */
enum store_when {
	STORE_ALWAYS = 0,
	STORE_IF_ABSENT,
	STORE_IF_PRESENT,
	STORE_IF_TIMELESS, /* it has no expiry */
	STORE_IF_TIMED,
	STORE_IF_LATER,         /* than the one that it has */
	STORE_IF_EARLIER,       /* … or it has none */
	STORE_IF_TIMED_EARLIER, /* than the one that it has */
};

#define STORE_AHEAD_MS 1000u

/* How far a store's clock is before another, if that is more than a little. */
static inline uint64_t store_ahead_ms(uint64_t now_ms, uint64_t wall_ms)
{
	return now_ms > wall_ms && now_ms - wall_ms > STORE_AHEAD_MS ? now_ms - wall_ms : 0;
}

/* What a cell is to be. At most one of ttl_ms, expiry_ms and keep_expiry. */
struct store_cell_value {
	struct digest digest; /* its check is not looked at */
	/* At most STORE_NAME_MAX bytes; scans give it back. Empty: a cell of the gateway's
	 * own, not one that a client put. */
	struct span name;
	struct span value;  /* at most STORE_VALUE_MAX bytes */
	uint64_t ttl_ms;    /* from now; */
	uint64_t expiry_ms; /* or unix, by the store's clock; both 0: never */
	/* 0, or what the clock says by which expiry_ms was said: of a store whose clock is
	 * more than STORE_AHEAD_MS before that one, since that was set back, it is the time
	 * that is left which counts. */
	uint64_t wall_ms;
	bool keep_expiry; /* that of the cell that is there */
};

struct store_cell {
	struct store_op op;
	/* in */
	enum store_cell_act act;
	enum store_when when;
	bool want_value; /* of the cell as it was before */
	struct store_cell_value cell;
	/* out */
	bool found;         /* it was there before */
	bool changed;       /* it was put, moved or removed; not by a GET */
	uint64_t expiry_ms; /* found: as it was before; 0: never */
	uint64_t now_ms;    /* by the store's clock */
	struct buf value;   /* the caller's; cleared by the store when it answers */
};

/* Where a scan is. */
struct store_cursor {
	uint64_t word[2]; /* opaque; zero: from the beginning */
};

/*
 * Names of cells in no order. A cell that is there from the first operation of a scan to
 * the last is told at least once; others, and twice, may be. Bounded work, as
 * STORE_SCAN: go on with the cursor until `end`. Each name is appended to `names` as
 * four bytes of length and its bytes: store_name_next().
 */
struct store_cell_scan {
	struct store_op op;
	/* in */
	uint32_t max_names; /* about */
	/* in, out */
	struct store_cursor cursor;
	/* out */
	struct buf names; /* the caller's; cleared by the store when it answers */
	uint32_t count;
	bool end;
};

bool store_name_next(struct span names, size_t *offset, struct span *ret_name);

/*
 * The outcome of a leased ticket.
 *
 *   DONE      closed.
 *   DEAD      a dead letter, or closed if `forget`.
 *   UNKNOWN   parked.
 *   RELEASED  given back: due at due_ms.
 *
 * Of DEAD and UNKNOWN status and text are kept (STORE_MARK_DEAD, _PARKED).
 */
struct store_settle {
	struct store_op op;
	uint64_t ticket;
	uint32_t attempt;
	enum outcome outcome;
	uint64_t due_ms; /* RELEASED: by the store's clock; 0: at once */
	struct span text;
	uint16_t status; /* the caller's */
	bool forget;
	bool awaited; /* a caller waits for it to be durable: it is worth a write of its own */
	/* NULL, or a cell that is put in the same write if the outcome is accepted; stays
	 * until done(). How a later caller learns the outcome. Its digest has the place
	 * of the ticket (digest_with_place()); else a store that is spread may lose it. */
	const struct store_cell_value *answer;
};

/*
 * Something to remember of a leased ticket.
 *
 *   STARTED  before an attempt whose outcome must not stay open: it completes when
 *            it is durable, and is worth a write of its own. Nothing else changes. A
 *            ticket that is taken again with this as its last mark has an attempt
 *            behind it of which nobody knows what it came to.
 *   FAILED, UNKNOWN
 *            the attempt has ended so; the next has the next number, and is due at
 *            due_ms. The lease stays. May complete later, as outcomes do.
 *
 * An error leaves the ticket and its number as they were (outcomes wait for room on a
 * full disk, notes do not). So the next attempt begins when the note is complete.
 */
struct store_note {
	struct store_op op;
	uint64_t ticket;
	uint32_t attempt;
	enum store_mark mark;
	uint64_t due_ms; /* by the store's clock; 0: at once */
	struct span text;
	uint16_t status; /* the caller's */
};

/*
 * A ticket that is in one of the `states` becomes due at once, under its old number, or
 * is dropped: closed. ERR_FENCED if it is in none. ERR_FULL and ERR_POISONED leave it
 * as it was. With `whole_event` the same for every leg of the event that the ticket
 * belongs to; ERR_FENCED if that is none.
 *
 * Held, parked, dead and due ones can be released. A due one is with no taker, and what
 * was noted of it stays noted: an attempt of which nobody knows stays unknown.
 */
struct store_release {
	struct store_op op;
	uint64_t ticket;
	uint32_t states; /* bits 1 << enum store_state; 0: STORE_STATES_ASIDE */
	bool drop;
	bool whole_event;
	uint64_t event; /* the store's: whose, */
	uint32_t legs;  /* and which legs it has met, as bits */
};

/* Go on with a lease for `lease_ms` more. ERR_FENCED if it is not there any more. */
struct store_renew {
	struct store_op op;
	uint64_t ticket;
	uint32_t attempt;
	uint32_t lease_ms; /* 0: for ever */
	uint64_t until_ms; /* not beyond this time of the store's clock; 0: any */
};

/* For stores. False: its end has come. */
static inline bool store_renew_lease(const struct store_renew *renew, uint64_t now_ms,
                                     uint32_t *ret_lease_ms)
{
	*ret_lease_ms = renew->lease_ms;
	if (renew->until_ms == 0)
		return true;
	uint64_t left_ms = renew->until_ms > now_ms ? renew->until_ms - now_ms : 0;
	if (renew->lease_ms == 0 || left_ms < renew->lease_ms)
		*ret_lease_ms = left_ms < UINT32_MAX ? (uint32_t)left_ms : UINT32_MAX;
	return left_ms > 0;
}

/*
 * Lease the oldest due tickets of a sink, also those whose time lies ahead: to wait
 * for it is the taker's. Waits (stays with the store over many flushes) until there is
 * one; ERR_CLOSING when the store closes. Each item is appended to `items` as a struct
 * store_item, then its parts; walk them with store_item_next(). An item larger than
 * max_bytes comes alone.
 *
 * A lease that is neither renewed nor settled in time is over: the ticket is due again,
 * and its number is used up. (The leases of a local store end with its process, too.)
 */
struct store_take {
	struct store_op op;
	/* in */
	/* Not 0: this one alone, of this sink, if it is due and its time has come, and at once:
	 * none if not. Its attempt counts as started, and the take completes when that is
	 * durable. */
	uint64_t ticket;
	uint32_t sink;
	uint32_t max_items;
	uint32_t max_bytes;
	uint32_t lease_ms;    /* 0: for ever */
	bool without_payload; /* the items alone, without their parts: STORE_READ has them */
	/* out */
	struct buf items; /* the caller's; cleared by the store when it answers */
	uint32_t count;
	uint64_t now_ms; /* by the store's clock, which due_ms is of */
};

/* Is it a take that may wait for long? */
static inline bool store_take_waits(const struct store_op *op)
{
	return op->kind == STORE_TAKE && container_of(op, const struct store_take, op)->ticket == 0;
}

struct store_item {
	uint64_t ticket;
	uint64_t event; /* its first leg's ticket: the one that the sender was told */
	uint64_t order; /* of its leg */
	/* 0: at once; parked and dead: since when; leased with an end: that */
	uint64_t due_ms;
	uint32_t sink; /* of its leg */
	/* Taken: the attempt to make, 1 is the first. Else the last number that was used,
	 * or that of the attempt under way. */
	uint32_t attempt;
	uint32_t flags; /* as admitted */
	uint32_t source_len;
	uint32_t metadata_len;
	uint32_t payload_len;
	uint8_t state;   /* enum store_state */
	uint8_t last;    /* enum store_mark: of the last note, */
	uint16_t status; /* and its status */
	bool bare;       /* left out, as asked: the payload; of a take all parts, and flags */
};

struct store_parts {
	struct span source;
	struct span metadata;
	struct span payload;
};

/* Reads the item at *offset of `items` and steps on; false at the end. */
bool store_item_next(struct span items, size_t *offset, struct store_item *ret_item,
                     struct store_parts *ret_parts);

/*
 * An open ticket, with its parts. -ENOENT if it is not open. With `history` what was
 * noted of it follows the item, the newest first: walk it with store_history_next(). It
 * may not go back to the beginning: the last note is always there.
 */
struct store_read {
	struct store_op op;
	/* in */
	uint64_t ticket;
	bool history;
	/* out */
	struct buf items; /* the caller's; cleared by the store when it answers */
};

struct store_history {
	uint64_t at_ms; /* by the store's clock */
	uint64_t due_ms;
	uint32_t attempt;
	uint16_t mark; /* enum store_mark */
	uint16_t status;
	uint32_t text_len;
};

/* As store_item_next(), behind the item of a read. */
bool store_history_next(struct span items, size_t *offset, struct store_history *ret_history,
                        struct span *ret_text);

/*
 * Tickets in the order of their numbers. One operation does a bounded piece of work, so
 * it may come back with few items or none and not be at the end: go on with the cursor
 * that it gave, until `end`.
 *
 * With `all` the events of the journal in the order in which they stand there, also
 * those that are closed, as far back as they are kept. That is the order in which they
 * were admitted, but for the few that were moved later, which may come twice.
 */
struct store_scan {
	struct store_op op;
	/* in */
	uint32_t states; /* bits 1 << enum store_state; 0: all */
	uint32_t sink;   /* 0: any */
	uint64_t from;   /* ticket numbers, */
	uint64_t to;     /* inclusive; 0: no end */
	uint32_t max_items;
	uint32_t max_bytes; /* an item that is larger comes alone */
	bool all;
	bool with_payload; /* else the parts are there but for the payload */
	bool items_only;   /* parts and flags are not read: a store may leave them out */
	/* in, out */
	struct store_cursor cursor;
	/* out */
	struct buf items; /* the caller's; cleared by the store when it answers */
	uint32_t count;
	bool end;
};

/*
 * What came of an event. Completes when no leg of it is due, leased or held any more:
 * UNKNOWN if one is parked, else DEAD if one is dead or was dropped, else DONE. NONE:
 * until_boot_ms came first, or it was closed so long ago that nobody knows. (What was
 * closed before the store was opened is not known; of an event that is still open such
 * legs are not counted. A shared store does not know either of an event that was admitted
 * before it was opened, and is closed when it is asked for.) ERR_FULL: STORE_WAITS_MAX wait
 * already.
 */
struct store_wait {
	struct store_op op;
	uint64_t ticket;         /* the event's */
	uint64_t until_boot_ms;  /* CLOCK_BOOTTIME; looked at by tick */
	const atomic_bool *over; /* as if that came when it is true; NULL: no such */
	enum outcome outcome;    /* out */
	bool was_open;           /* the store's */
};

/*
 * Who holds this claim? Changes nothing. `taken` false: nobody, or expired. A
 * claim of kind newest is an entity: its ticket is the one that set its order.
 */
struct store_lookup {
	struct store_op op;
	struct digest digest; /* in; its check is not looked at */
	enum claim_kind kind; /* in */
	bool taken;           /* out, and the rest if so */
	bool open;            /* its event waits for an outcome: a leg is due, leased or held */
	bool held;            /* and the first leg of it is held */
	uint32_t check;       /* of the content that took it; 0: unknown */
	uint64_t order;       /* newest */
	uint64_t ticket;
	uint64_t first_seen_ms;
	uint64_t seen; /* not of an entity */
};

/*
 * The events of which a leg is held, newest first, of those that are durable. Changes
 * nothing.
 */
struct store_held {
	struct store_op op;
	/* in */
	uint64_t before;   /* only lower numbers; 0: from the newest */
	uint64_t *tickets; /* the caller's, room for `max` */
	uint32_t max;
	/* out */
	uint32_t count; /* less than max: there are no more */
};

/* Counters and sizes, readable from any thread (relaxed atomics inside). */
struct store_stats {
	uint64_t live_claims;    /* once and content */
	uint64_t live_entities;  /* newest */
	uint64_t live_cells;     /* those whose time is over may still be counted */
	uint64_t expired_claims; /* ever removed for age */
	uint64_t index_bytes;
	uint64_t open_tickets;   /* all that are not closed */
	uint64_t due_tickets;    /* open, to be taken, now or at a time ahead */
	uint64_t held_tickets;   /* open, until they are released */
	uint64_t parked_tickets; /* the same */
	uint64_t dead_tickets;   /* the same, or they are too old */
	uint64_t caller_tickets; /* open, and not delivered by a lane: STORE_SINK_CALLER */
	uint64_t waits;          /* operations that wait for an outcome */
	uint64_t commits;        /* durable writes */
	uint64_t commit_ops;     /* operations in them */
	uint64_t journal_bytes;  /* on disk now */
	uint64_t written_bytes;  /* ever */
	uint64_t segments;
	uint64_t clock_held_ms; /* how far the wall clock is ahead of what can be explained */
	uint64_t io_errors;
	bool writable; /* admits would be accepted now, as far as is known */
	/* Of a shared store. */
	bool away;               /* it is unreachable now, as far as is known */
	uint64_t away_times;     /* so often it was */
	uint64_t spooled_events; /* kept on this node until they can be decided */
};

struct histogram;
struct store;

struct store_methods {
	void (*submit)(struct store *store, struct store_op *op);
	void (*flush)(struct store *store);
	/* NULL if a flush completes all it decided. See store_under_way(). */
	bool (*under_way)(struct store *store);
	/* NULL if there is no bound. See store_room(). */
	uint32_t (*room)(const struct store *store);
	/* Housekeeping: expiry, lazy writes, take-overs from helpers. Call it a
	 * few times a second; bounded work (well under 10 ms). */
	void (*tick)(struct store *store);
	void (*stats)(struct store *store, struct store_stats *ret_stats);
	/* NULL if nothing ever waits. The end is near: from the next tick on an
	 * outcome that cannot be written comes back with ERR_CLOSING instead of
	 * waiting for room, and its ticket stays open; and so do waits. */
	void (*end_waits)(struct store *store);
	/* NULL if there is no server to wait for. See store_hurry(). */
	void (*hurry)(struct store *store);
	/* Fails waiting takes and waits with ERR_CLOSING, makes all durable, frees. */
	void (*free)(struct store *store);
};

struct store {
	const struct store_methods *methods;
	/* Microseconds per durable write and operations per durable write; the
	 * store records, metrics read. Set by the store's open, never NULL. */
	struct histogram *commit_us;
	struct histogram *commit_batch;
	/* The owner's, or NULL: a write that was under way has ended, flush soon. Called
	 * on a thread of the store's, and not any more when the store is freed. */
	void (*written)(void *user);
	void *written_user;
};

static inline void store_submit(struct store *store, struct store_op *op)
{
	store->methods->submit(store, op);
}

static inline void store_flush(struct store *store)
{
	store->methods->flush(store);
}

/* Something that was flushed is not completed: another flush is due (see above). */
static inline bool store_under_way(struct store *store)
{
	return store->methods->under_way && store->methods->under_way(store);
}

/* So many can be submitted now before one is refused for want of a place: for those that
 * must all be taken, or none. */
static inline uint32_t store_room(const struct store *store)
{
	return store->methods->room ? store->methods->room(store) : UINT32_MAX;
}

static inline void store_tick(struct store *store)
{
	store->methods->tick(store);
}

static inline void store_end_waits(struct store *store)
{
	if (store->methods->end_waits)
		store->methods->end_waits(store);
}

/* The process is about to end: what a server has not answered STORE_HURRY_MS from now, or
 * after it was asked, is given up as ERR_AWAY, if it has more time otherwise. */
static inline void store_hurry(struct store *store)
{
	if (store->methods->hurry)
		store->methods->hurry(store);
}

static inline void store_stats(struct store *store, struct store_stats *ret_stats)
{
	store->methods->stats(store, ret_stats);
}

struct store *store_free(struct store *store); /* accepts NULL, returns NULL */

/* For stores. Is the operation well-formed? 0, ERR_INVALID, ERR_TOO_LARGE. */
int store_admit_check(const struct store_admit *admit) must_check;

/* For stores. Do both claims know their content, and is it another? */
static inline bool store_conflicts(const struct claim *claim, uint32_t taken_check)
{
	uint32_t check = digest_check(&claim->digest);

	return claim->kind == CLAIM_ONCE && check != 0 && taken_check != 0 && check != taken_check;
}

/* For stores. The window of a claim that changes hands at `now_ms`. */
static inline uint32_t store_window_s(uint32_t window_s, uint64_t expiry_ms, uint64_t now_ms)
{
	uint64_t left_s = expiry_ms > now_ms ? (expiry_ms - now_ms + 999) / 1000 : 0;

	if (left_s <= window_s)
		return window_s;
	return left_s < UINT32_MAX ? (uint32_t)left_s : UINT32_MAX;
}

/* For stores. The claim that a conflict kept aside takes, made of the whole digest
 * it came with: key and check. */
struct claim store_aside_claim(const struct claim *claim);

/* For stores. How many tickets an admit's event gets. */
static inline uint32_t store_leg_count(const struct store_admit *admit)
{
	return admit->leg_count ? admit->leg_count : 1;
}

/* The number of the attempt after that one. */
static inline uint32_t store_attempt_next(uint32_t attempt)
{
	return attempt < STORE_ATTEMPT_MAX ? attempt + 1 : attempt;
}

/* For stores. Text of a note, cut to what is kept. */
static inline struct span store_text_cut(struct span text)
{
	return span_of(text.ptr, text.len < STORE_TEXT_MAX ? text.len : STORE_TEXT_MAX);
}

/* For stores. Is it one that a caller may note, of an outcome that it may give? */
static inline bool store_mark_valid(enum store_mark mark)
{
	return mark >= STORE_MARK_STARTED && mark <= STORE_MARK_UNKNOWN;
}

static inline bool store_outcome_valid(enum outcome outcome)
{
	return outcome > OUTCOME_NONE && outcome < OUTCOME_COUNT;
}

/* For stores. Is a ticket in this state still to be delivered? */
static inline bool store_state_pending(enum store_state state)
{
	return state == STORE_STATE_DUE || state == STORE_STATE_LEASED || state == STORE_STATE_HELD;
}

/* For stores. Is the time of a wait over? */
static inline bool store_wait_is_over(const struct store_wait *wait, uint64_t boot_ms)
{
	return wait->until_boot_ms <= boot_ms || (wait->over && atomic_load(wait->over));
}

/* For stores. The states that a release is about, as bits. */
static inline uint32_t store_release_states(const struct store_release *release)
{
	uint32_t states = release->states ? release->states : STORE_STATES_ASIDE;

	return states & (STORE_STATES_ASIDE | 1u << STORE_STATE_DUE);
}

/* For stores. Appends an item and its parts, whose lengths it gets, or nothing: -ENOMEM,
 * ERR_TOO_LARGE. */
int store_item_append(struct buf *items, struct store_item *item,
                      const struct store_parts *parts) must_check;
int store_history_append(struct buf *items, struct store_history history,
                         struct span text) must_check;
int store_name_append(struct buf *names, struct span name) must_check;

/* For stores. As store_admit_check(). */
int store_cell_check(const struct store_cell *cell) must_check;
int store_cell_value_check(const struct store_cell_value *value) must_check;

/* For stores. Is a PUT to be done, with a cell there or none? */
static inline bool store_when_holds(enum store_when when, bool found)
{
	return when == STORE_ALWAYS || found == (when == STORE_IF_PRESENT);
}

/* For stores. Is an EXPIRE to be done, from one expiry to another? 0: never. */
bool store_when_moves(enum store_when when, uint64_t old_ms, uint64_t new_ms);

/* For stores. When a cell that is put at `now_ms` is over; `old_ms`: that of the one that
 * is there, which is what keep_expiry keeps. 0: never. */
uint64_t store_cell_expiry(const struct store_cell_value *value, uint64_t now_ms, uint64_t old_ms);
