/*
 * claims: which event holds which claim, in memory, for decisions that need not outlive
 * the process (stile filter).
 *
 * The verdicts are those of store.h, except `busy`, since nothing is settled here.
 * What differs is time: it is that of the events, and it may go back.
 *
 *   once, content  Two events with one key are the same when their times are less
 *                  than the window apart, in either order. An event that passes
 *                  takes the claim over.
 *   newest         An event is judged by its order unless it is a window or more
 *                  younger than the last one that passed; however old it is, it
 *                  is stale.
 *
 * A claim is forgotten when the last FILTER_CLAIMS_RECENT events (up to twice as many)
 * were all a window or more younger. So the verdict on an event is exact unless it is
 * older than every one of that many events before it; and memory is that of one
 * window, as far as events come in order.
 *
 * Room:      cli. Threads: one owner.
 * Ownership: filter_claims_new() gives the table, filter_claims_free() takes it.
 * Failure:   -ENOMEM: nothing was decided.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "gate/claim.h"
#include "store/store.h"

#define FILTER_CLAIMS_RECENT 65536u

struct filter_claims;

struct filter_event {
	const struct claim *claims;
	uint32_t claim_count; /* 0: it passes, and takes nothing */
	enum store_conflict on_conflict;
	uint64_t time_ms; /* larger than 48 bits: the largest of them */
	uint64_t number;  /* below 1 << 40 */
};

struct filter_verdict {
	enum verdict verdict;
	bool passes;
	uint32_t matched;       /* not new: index of the claim that decided */
	uint64_t first;         /* number of the event that holds it */
	uint64_t first_time_ms; /* its time; of `newest` the latest */
	enum verdict would;     /* it passes, and this shadow claim would drop it; or NONE */
};

struct filter_claims_stats {
	uint64_t claims;    /* with the expired ones that are still in the table */
	uint64_t forgotten; /* removed since the beginning */
	uint64_t bytes;
};

int filter_claims_new(struct filter_claims **ret_claims) must_check;
struct filter_claims *filter_claims_free(struct filter_claims *claims); /* accepts NULL */

int filter_claims_decide(struct filter_claims *claims, const struct filter_event *event,
                         struct filter_verdict *ret_verdict) must_check;

struct filter_claims_stats filter_claims_get_stats(const struct filter_claims *claims);
