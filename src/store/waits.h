/*
 * waits: callers that wait for the outcome of an event (STORE_WAIT), for stores.
 *
 * A wait hangs in a small hash by its event's ticket. Whenever a leg of an event is
 * not to be delivered any more, the store says so (waits_tell()); the event is done
 * with when its legs say so. That an event is done is not written down anywhere: it is
 * known from being closed, and not among the few of which the store was told that they
 * were closed otherwise (waits_note_dropped()). Those are kept in a ring; what is
 * older than the ring, or than the store's start, nobody knows.
 *
 * Room:      store. Threads: the store's owner.
 * Ownership: an operation stays with its caller; it is handed back through done().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "store/store.h"

#define WAITS_BUCKETS 1024u
#define WAITS_DROPPED_MAX 1024u

/* What the open legs of an event say. */
struct waits_legs {
	bool pending; /* one is due, leased or held */
	bool parked;
	bool dead;
};

struct waits {
	struct store_op *buckets[WAITS_BUCKETS];
	uint32_t count;
	uint64_t floor;                      /* events up to here: closed, who knows how */
	uint64_t dropped[WAITS_DROPPED_MAX]; /* events of which a leg was closed undone */
	uint32_t dropped_count;              /* ever */
	struct waits_legs (*legs)(void *user, uint64_t event);
	void *user;
};

/* Of events up to `floor` nothing is known but what is open. */
void waits_init(struct waits *waits, uint64_t floor,
                struct waits_legs (*legs)(void *user, uint64_t event), void *user);

/* True: it is kept. False: it has its answer, or error, and is not done() yet. */
bool waits_add(struct waits *waits, struct store_wait *wait);

/* A leg was closed without being done: dropped, or dead and forgotten. */
void waits_note_dropped(struct waits *waits, uint64_t event);

/* A leg of the event has left delivery. Calls done() of those that waited for that. */
void waits_tell(struct waits *waits, uint64_t event);

/* Ends those whose time is over. */
void waits_expire(struct waits *waits, uint64_t boot_ms);
void waits_fail(struct waits *waits, int error); /* all of them */

void waits_check(const struct waits *waits); /* every invariant; for tests */
