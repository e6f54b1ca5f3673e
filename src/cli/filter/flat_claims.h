/*
 * flat_claims: who holds which claim, in one flat table, for decisions that need
 * not outlive the process (stile filter).
 *
 * The verdicts are those of store.h, but for `busy`, since nothing is settled here.
 * What differs is time: it is that of the events, which may go back.
 *
 *   once, content  Two events with one key are the same when their times are less
 *                  than the window apart, whichever came first. An event that
 *                  passes takes the claim over.
 *   newest         An event is judged by its order unless it is a window or more
 *                  younger than the last one that passed; however old it is, it
 *                  is stale.
 *
 * Claims leave when the last FLAT_CLAIMS_RECENT events (up to twice as many) all
 * were a window or more younger. So the verdict on an event is exact unless it is
 * older than every one of that many events before it; and memory is that of one
 * window, as far as events come in order.
 *
 * Claims stand one after the other as they came, 32 bytes each, and an index of
 * buckets tells where: 64 bytes for at most eleven of them on average, a single line of
 * the cache, which is nearly all that a new event touches of old memory. Growing makes an
 * index twice as large, in one pass through the claims; it makes one decision wait, which
 * nobody notices in a filter.
 *
 * Memory is asked for in small pages, shortly before it is used: where the host of a
 * virtual machine has taken free memory back, huge pages are those that it has to find
 * again, which took 2 ms a MB against 0.4.
 *
 * Room:      app. Threads: one owner.
 * Ownership: flat_claims_new() gives it, flat_claims_free() takes it.
 * Failure:   -ENOMEM: nothing was decided.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "gate/claim.h"
#include "store/store.h"

#define FLAT_CLAIMS_RECENT 65536u
#define FLAT_CLAIMS_EXPECTED_MAX 20000000u /* 116 MB of index */
#define FLAT_CLAIMS_WINDOWS_MAX 1024u      /* different ones in one table */

struct flat_claims;

struct flat_event {
	const struct claim *claims;
	uint32_t claim_count; /* 0: it passes, and takes nothing */
	enum store_conflict on_conflict;
	uint64_t time_ms; /* below 1 << 48 */
	uint64_t number;  /* below 1 << 40: whom a later one is told of */
};

struct flat_verdict {
	enum verdict verdict;
	bool passes;
	uint32_t matched;       /* not new: index of the claim that decided */
	uint64_t first;         /* number of the event that holds it */
	uint64_t first_time_ms; /* its time, of `newest` the latest */
	enum verdict would;     /* it passes, and this shadow claim would drop it; or NONE */
};

struct flat_claims_stats {
	uint64_t claims;    /* with the expired that were not swept out yet */
	uint64_t forgotten; /* ever swept out */
	uint64_t bytes;
};

int flat_claims_new(struct flat_claims **ret_claims) must_check;
struct flat_claims *flat_claims_free(struct flat_claims *claims); /* accepts NULL, returns NULL */

/* So many claims may come: makes a larger index at once, of FLAT_CLAIMS_EXPECTED_MAX at
 * most. It is no promise either way. */
void flat_claims_expect(struct flat_claims *claims, uint64_t count);

/* Starts to fetch what the decision will touch: of the index first; then, when that is
 * there, of the claims that are known already. */
void flat_claims_prefetch(const struct flat_claims *claims, const struct flat_event *event);
void flat_claims_prefetch_known(const struct flat_claims *claims, const struct flat_event *event);

int flat_claims_decide(struct flat_claims *claims, const struct flat_event *event,
                       struct flat_verdict *ret_verdict) must_check;

struct flat_claims_stats flat_claims_get_stats(const struct flat_claims *claims);
