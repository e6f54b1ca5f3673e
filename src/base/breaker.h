/*
 * breaker: a circuit breaker: stops calls to a peer that fails (a sink, a shared store).
 *
 *   closed     attempts are made. It opens after `failures` in a row, or when `per_cent` of at
 *              least `calls` attempts in the last window failed.
 *   open       no attempts until the open time is over. It doubles each time: first, 2 · first,
 *              … max, less up to a random fifth, so that several gateways do not retry
 *              together.
 *   half-open  `probes` attempts at a time. `successes` in a row close it, one
 *              failure opens it again.
 *
 * The open time starts anew only when the breaker has stayed closed for as long as
 * it was open last: a sink that flaps is tried less and less often.
 *
 * An attempt that began before the state last changed says nothing about the state
 * now: it carries the breaker's turn of its beginning, and is not counted.
 *
 * The caller decides what counts as a failure; for sinks see deliver/judge.h.
 *
 * Room:    base. Threads: one owner; `now_ms` is a parameter and never goes
 *          back. Failure: none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BREAKER_SLICES 10u /* of the window */
#define BREAKER_NO_LIMIT UINT32_MAX

enum breaker_state { BREAKER_CLOSED = 0, BREAKER_OPEN, BREAKER_HALF_OPEN };

struct breaker_policy {
	uint32_t failures;  /* in a row; 0: not judged by that */
	uint32_t per_cent;  /* of the window; 0: not judged by that */
	uint32_t calls;     /* in the window, at least */
	uint32_t window_ms; /* at least BREAKER_SLICES */
	uint32_t first_ms;  /* open time */
	uint32_t max_ms;
	uint32_t probes;    /* at a time when half-open, at least 1 */
	uint32_t successes; /* that close it, at least 1 */
};

struct breaker_slice {
	uint64_t number; /* of the slice since time began */
	uint32_t calls;
	uint32_t failures;
};

struct breaker {
	const struct breaker_policy *policy;
	enum breaker_state state;
	uint32_t turn; /* moves on with each change of state */
	uint32_t in_row;
	uint32_t probing;
	uint32_t successes;
	uint64_t until_ms; /* open */
	uint64_t open_ms;  /* how long it was open last; 0: never */
	uint64_t closed_at_ms;
	struct breaker_slice slices[BREAKER_SLICES];
	struct breaker_slice *slice; /* the latest; NULL: none yet */
	uint64_t slice_from_ms;
};

enum breaker_says {
	BREAKER_SUCCESS,
	BREAKER_FAILURE,
	BREAKER_NOTHING, /* neither: not tried, or the event was at fault */
};

struct breaker_end {
	uint32_t turn; /* as breaker_begin() gave it */
	enum breaker_says says;
	uint64_t now_ms;
	uint64_t random;
};

void breaker_init(struct breaker *breaker, const struct breaker_policy *policy, uint64_t now_ms);

/* How many attempts may begin now; becomes half-open when the open time is over. */
uint32_t breaker_room(struct breaker *breaker, uint64_t now_ms);

/* Starts an attempt; there must be room. Returns the turn, for breaker_end(). */
uint32_t breaker_begin(struct breaker *breaker);

/* Returns whether the state has changed. */
bool breaker_end(struct breaker *breaker, const struct breaker_end *end);

/* On request of an operator: half-open at once if it is open. */
void breaker_try_now(struct breaker *breaker);

const char *breaker_state_name(enum breaker_state state); /* "closed", "open", "half-open" */
