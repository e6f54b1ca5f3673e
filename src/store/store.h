/*
 * store: what remembers. The contract that every store keeps.
 *
 * A caller fills an operation, store_submit()s it, and at the end of its round
 * store_flush()es. Submitting only queues. Flushing decides everything that
 * waits, in the order of submission, makes it durable together, and then calls
 * each operation's done(). A completion means durable: whoever is told "new"
 * or "duplicate" is told so after the claim it rests on reached the disk. Outcomes
 * may be completed later, by another flush or the tick, if the store was told so.
 *
 * All that was submitted before a flush becomes durable in one step, as far as it
 * fits one write of the store (local: frame_bytes_max); what does not fit follows
 * in the next. So the events of one request are admitted together by one flush.
 *
 * A store may write while its owner goes on (local: beside_bytes). Then a flush can
 * return before what it decided is durable, and store_under_way() says so: a later
 * flush, or the tick, completes it. An owner that set `written` is told when a flush is
 * due for it, and no flush waits for the disk. Without, a flush waits for the write that
 * an earlier one began: an owner that has more to submit does that first, so that
 * deciding and writing overlap, and one that has not flushes once more.
 *
 * Room:      store. Others see only this header; app/ alone names a concrete
 *            store (memory/memory_store.h, local/local_store.h).
 * Threads:   a store has one owner thread that calls everything here. Other
 *            threads go through a port (store/port.h), which is a store too.
 * Ownership: an operation belongs to the store from submit to done(); what its
 *            spans point to must stay until then. done() may submit again, but
 *            must not flush.
 * Failure:   op->error is 0 or a negative error. ERR_FULL: no room (disk or
 *            memory) now, nothing was decided. ERR_POISONED: a sync failed;
 *            nothing was decided for this operation.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/span.h"
#include "gate/claim.h"
#include "gate/verdict.h"

#define STORE_SOURCE_MAX 64 /* bytes of a source's name */
#define STORE_PAYLOAD_MAX (16u << 20)

enum store_op_kind {
	STORE_ADMIT = 1,
	STORE_SETTLE,
	STORE_TAKE,
	STORE_LOOKUP,
	STORE_RELEASE,
	STORE_HELD,
};

struct store_op {
	struct store_op *next; /* the store's, from submit to done() */
	enum store_op_kind kind;
	int error;
	void (*done)(struct store_op *op);
	void *user; /* the caller's */
};

/* Flags of an event; the store keeps them and does not look at them. */
enum store_event_flags { STORE_EVENT_JSON = 1 /* the payload is valid JSON */ };

/* What becomes of an event that says something else under a key that is taken. */
enum store_conflict {
	STORE_CONFLICT_ASIDE = 0, /* kept, held until somebody releases it */
	STORE_CONFLICT_PASS,      /* delivered as a new one, which has the claim from then on */
	STORE_CONFLICT_REJECT,    /* not kept */
};

/*
 * Take the claims of an event, or none. They are asked in the order given; the
 * first that drops the event decides:
 *
 *   once     taken already, with the same content or one of both unknown:
 *            `duplicate`, or `busy` if that was asked for and the ticket that has
 *            it is still open. With other content: `conflict`, see on_conflict.
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
	uint16_t flags;      /* the caller's (STORE_EVENT_…): kept, and given back by take */
	struct span source;  /* at most STORE_SOURCE_MAX bytes */
	struct span payload; /* at most STORE_PAYLOAD_MAX bytes */
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
 * The outcome of a leased ticket. `attempt` is the one that take gave; any
 * other is ERR_FENCED, and so is a ticket that is not open.
 */
struct store_settle {
	struct store_op op;
	uint64_t ticket;
	uint32_t attempt;
	enum outcome outcome; /* DONE, DEAD: closed. RELEASED: due again, at once */
};

/*
 * A ticket that is held (a conflict kept aside) becomes due, or is dropped:
 * settled as dead. ERR_FENCED if it is not held. ERR_FULL and ERR_POISONED leave
 * it held.
 */
struct store_release {
	struct store_op op;
	uint64_t ticket;
	bool drop;
};

/*
 * Lease the oldest due tickets for delivery. Waits (stays with the store over
 * many flushes) until at least one is due; ERR_CLOSING when the store closes.
 * Each item is appended to `items` as a struct store_item, then its source,
 * then its payload; walk them with store_item_next(). An item larger than
 * max_bytes comes alone.
 */
struct store_take {
	struct store_op op;
	/* in */
	uint32_t max_items;
	uint32_t max_bytes;
	/* out */
	struct buf items; /* the caller's; cleared by the store when it answers */
	uint32_t count;
};

struct store_item {
	uint64_t ticket;
	uint32_t attempt; /* 1 is the first */
	uint32_t source_len;
	uint32_t payload_len;
	uint32_t flags; /* as admitted */
};

/* Reads the item at *offset of `items` and steps on; false at the end. */
bool store_item_next(struct span items, size_t *offset, struct store_item *ret_item,
                     struct span *ret_source, struct span *ret_payload);

/*
 * Who holds this claim? Changes nothing. `taken` false: nobody, or expired. A
 * claim of kind newest is an entity: its ticket is the one that set its order.
 */
struct store_lookup {
	struct store_op op;
	struct digest digest; /* in; its check is not looked at */
	enum claim_kind kind; /* in */
	bool taken;           /* out, and the rest if so */
	bool open;            /* its ticket waits for its outcome */
	bool held;            /* and is not to be delivered before it is released */
	uint32_t check;       /* of the content that took it; 0: unknown */
	uint64_t order;       /* newest */
	uint64_t ticket;
	uint64_t first_seen_ms;
	uint64_t seen; /* not of an entity */
};

/*
 * The tickets that are held, newest first, of those that are durable. Changes
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
	uint64_t expired_claims; /* ever removed for age */
	uint64_t index_bytes;
	uint64_t open_tickets;
	uint64_t due_tickets;   /* open, neither leased nor held */
	uint64_t held_tickets;  /* open, until they are released */
	uint64_t commits;       /* durable writes */
	uint64_t commit_ops;    /* operations in them */
	uint64_t journal_bytes; /* on disk now */
	uint64_t written_bytes; /* ever */
	uint64_t segments;
	uint64_t clock_held_ms; /* how far the wall clock is ahead of what can be explained */
	uint64_t io_errors;
	bool writable; /* admits would be accepted now, as far as is known */
};

struct histogram;
struct store;

struct store_methods {
	void (*submit)(struct store *store, struct store_op *op);
	void (*flush)(struct store *store);
	/* NULL if a flush completes all it decided. See store_under_way(). */
	bool (*under_way)(struct store *store);
	/* Housekeeping: expiry, lazy writes, take-overs from helpers. Call it a
	 * few times a second; bounded work (well under 10 ms). */
	void (*tick)(struct store *store);
	void (*stats)(struct store *store, struct store_stats *ret_stats);
	/* NULL if nothing ever waits. The end is near: from the next tick on an
	 * outcome that cannot be written comes back with ERR_CLOSING instead of
	 * waiting for room, and its ticket stays open. */
	void (*end_waits)(struct store *store);
	/* Fails waiting takes with ERR_CLOSING, makes all durable, frees. */
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

static inline void store_tick(struct store *store)
{
	store->methods->tick(store);
}

static inline void store_end_waits(struct store *store)
{
	if (store->methods->end_waits)
		store->methods->end_waits(store);
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
