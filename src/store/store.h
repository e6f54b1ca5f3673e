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

/*
 * Take all claims of an event, or none. New: the event gets a ticket and is
 * kept until that is settled. Otherwise the verdict tells of the first claim,
 * in the order given, that was taken already.
 */
struct store_admit {
	struct store_op op;
	/* in */
	struct claim claims[CLAIMS_MAX];
	uint32_t claim_count; /* 1 … CLAIMS_MAX */
	bool no_ticket;       /* claims only: nothing is kept for delivery */
	uint16_t flags;       /* the caller's (STORE_EVENT_…): kept, and given back by take */
	struct span source;   /* at most STORE_SOURCE_MAX bytes */
	struct span payload;  /* at most STORE_PAYLOAD_MAX bytes */
	/* out */
	enum verdict verdict;
	uint32_t matched;       /* index of the claim that was taken already */
	uint64_t ticket;        /* its own, or the original's */
	uint64_t first_seen_ms; /* unix, of that ticket */
	uint64_t seen;          /* how often a duplicate of it came, with this one */
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

/* Who holds this claim? Changes nothing. `taken` false: nobody, or expired. */
struct store_lookup {
	struct store_op op;
	struct digest digest; /* in */
	bool taken;           /* out, and the rest if so */
	bool open;            /* its ticket waits for its outcome */
	uint64_t ticket;
	uint64_t first_seen_ms;
	uint64_t seen;
};

/* Counters and sizes, readable from any thread (relaxed atomics inside). */
struct store_stats {
	uint64_t live_claims;
	uint64_t expired_claims; /* ever removed for age */
	uint64_t index_bytes;
	uint64_t open_tickets;
	uint64_t due_tickets;   /* open and not leased */
	uint64_t commits;       /* durable writes */
	uint64_t commit_ops;    /* operations in them */
	uint64_t journal_bytes; /* on disk now */
	uint64_t written_bytes; /* ever */
	uint64_t segments;
	uint64_t clock_held_ms; /* how far the wall clock is ahead of what can be explained */
	uint64_t io_errors;
	bool writable; /* admits would be accepted now */
};

struct histogram;
struct store;

struct store_methods {
	void (*submit)(struct store *store, struct store_op *op);
	void (*flush)(struct store *store);
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
};

static inline void store_submit(struct store *store, struct store_op *op)
{
	store->methods->submit(store, op);
}

static inline void store_flush(struct store *store)
{
	store->methods->flush(store);
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
