/*
 * lane: the deliveries of one sink, without a thread of its own.
 *
 * It takes the sink's tickets from the store, decides which attempt starts when
 * (schedule, limiter, breaker), hands it to the outlet, and records the result.
 * Whoever runs it calls lane_run() whenever something has happened (completions of
 * the store, an outlet's done(), its time); everything it decides depends on the
 * clock that it was given.
 *
 * What it promises (never two at once, honest about the unknown):
 *   - a ticket has at most one attempt: it is with the schedule or with one attempt,
 *     never both, and the lease keeps other lanes away;
 *   - after success was recorded nothing of it starts: its ticket leaves the schedule
 *     before the outcome goes to the store, and the number of the attempt fences off
 *     a late outcome;
 *   - where an unknown outcome must not be sent again blindly (park, probe), a note is
 *     durable before the attempt leaves. A ticket that comes with such a note as its
 *     last, or one that says "unknown", is asked about, or parked, first;
 *   - nothing starts when the lease is over.
 *
 * An ordered ticket's successor starts when the outcome of the one before is on its
 * way to the store, in that order: so what a crash makes to be sent again is the end of
 * an entity's events, in order.
 *
 * Room:      deliver. Threads: one owner, which is also the outlet's.
 * Ownership: borrows store, port, outlet and clock until lane_free().
 * Memory:    attempts are pooled; schedule.h has the rest.
 * Failure:   of memory or store: tickets are given back or tried later. Nothing is
 *            lost.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "deliver/lane_view.h"
#include "deliver/policy.h"
#include "sink/outlet.h"
#include "store/store.h"

struct clock;
struct feed;
struct lane;
struct port;

struct lane_options {
	const char *name; /* of the sink, at most LANE_NAME_MAX */
	uint32_t sink;
	struct deliver_policy policy;
	struct outlet *outlet;
	struct store *store;       /* a port's, or one of the same thread */
	struct port *port;         /* of `store`, or NULL */
	const struct clock *clock; /* NULL: the machine's */
	uint64_t seed;             /* of its randomness */
	uint32_t lease_ms;         /* 0: leases do not end */
	struct feed *feed;         /* NULL: no listener */
};

int lane_new(const struct lane_options *options, struct lane **ret_lane) must_check;

/* When the store has answered everything and the outlet has nothing. Accepts NULL. */
struct lane *lane_free(struct lane *lane);

/* Does what can be done now. Returns in how many milliseconds it has to run again even
 * if nothing happens; UINT64_MAX: not at all. */
uint64_t lane_run(struct lane *lane);

/* After each run: what it submitted goes to the store. */
void lane_flush(struct lane *lane);

/* Starts nothing any more. What has no outcome yet stays open: with leases that end
 * it is given back, else the end of the process does it. */
void lane_stop(struct lane *lane);
bool lane_is_still(const struct lane *lane); /* stopped, and the outlet has nothing */

/* From here on nothing starts, until lane_change(), which waits for lane_is_idle(): that
 * nothing is under way. Then it continues with the other outlet and policy as if it were
 * new, with the tickets that it has. */
void lane_prepare_change(struct lane *lane);
bool lane_is_idle(const struct lane *lane);
void lane_change(struct lane *lane, struct outlet *outlet, const struct deliver_policy *policy);
void lane_cancel_change(struct lane *lane);
/* It is called so from here on; whether it is paused is asked anew, by that name. */
void lane_rename(struct lane *lane, const char *name);

/* Is saved: lane_is_state_saved() says when, or that it failed for now. A lane
 * reads it from the store before it takes anything. */
void lane_pause(struct lane *lane);
void lane_resume(struct lane *lane); /* also one that is disabled; tries at once */
bool lane_is_state_saved(const struct lane *lane);

/* As paused, by nobody's saved: until lane_change(). With leases that end it takes nothing
 * meanwhile, and what it holds and has not begun is given back: another lane may have the
 * sink. */
void lane_remove(struct lane *lane);

/* Of a ticket that the lane holds. 0, -ENOENT: it does not; ERR_BUSY: it is under
 * way, or (retry) another of its entity is before it. */
int lane_retry_now(struct lane *lane, uint64_t ticket);

/* The same; closed, without a dead letter. After 0 `drop` is the lane's until done(), which
 * comes when the store has it, or has refused it: ERR_FENCED, the ticket is somebody
 * else's; ERR_CLOSING. */
struct lane_drop {
	void (*done)(struct lane_drop *drop, int error);
};

int lane_drop(struct lane *lane, uint64_t ticket, struct lane_drop *drop);

void lane_view(struct lane *lane, struct lane_view *ret_view);
