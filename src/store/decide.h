/*
 * decide: the law of admission. Which claims of an event are free, and what follows.
 *
 * The local and the PostgreSQL store share this code. redis_script.lua is its twin in a
 * Redis server, and the model in tests/support is written apart, to test all three.
 *
 * The claims are judged in the order given, each alone:
 *
 *   free       no ticket has the claim within its window: the event takes it. Or (newest)
 *              the entity has no order yet, or a lower one, or the same without
 *              equal_drops: the event moves it forward.
 *   stale      (newest) the entity has a higher order, or the same with equal_drops.
 *   conflict   (once) the claim is taken, and both contents are known and differ.
 *   busy       (once, content) the claim is taken, the sender asked for busy_if_open, and
 *              the original still has a leg to deliver: due, leased or held.
 *   duplicate  (once, content) the claim is taken.
 *
 * A claim that is not free drops the event, and its verdict is the event's, with two
 * exceptions, after which the next claim is judged:
 *
 *   shadow     never drops. The first one that would have is answered as `would`. It is
 *              not taken.
 *   pass       a conflict with STORE_CONFLICT_PASS. The first one is the event's verdict;
 *              the event takes the claim away from the original.
 *
 * An event that is dropped takes nothing, and `would` is empty. With a conflict and
 * STORE_CONFLICT_ASIDE it is kept all the same, `held`, under one claim only, made of key
 * and content together (store_aside_claim()). If that one is taken too, the event is a
 * duplicate (or busy) of the held one. Without a ticket there is nothing to keep aside.
 *
 * An event that no claim drops is kept: it is `new`, or a `conflict` that passed.
 * Only a duplicate and a busy event add to the count of repeats (`seen`).
 *
 * Room:      store. No I/O, no clock: `find` answers for the time now_ms.
 * Threads:   the caller's.
 * Ownership: nothing is kept after the call.
 * Failure:   0; ERR_INVALID or ERR_TOO_LARGE: the event is not well-formed and has no
 *            answer. Whatever else keep() returned: the decision does not count.
 */
#pragma once

#include "store/store.h"

/* Who has a claim, or moved an entity forward last. */
struct decide_hit {
	uint64_t ticket;
	uint64_t order;     /* of the entity */
	uint64_t expiry_ms; /* of a claim: its repeats are counted until then */
	uint32_t check;     /* of a claim: its content; 0: not known */
};

/* What an event is kept with. Bit i stands for claims[i]. */
struct decide_kept {
	const struct claim *claims;
	uint32_t once;       /* once and content: taken */
	uint32_t once_count; /* bits of `once` */
	uint32_t newest;     /* entities: moved forward */
	uint32_t moved;      /* of `once`: taken away from another ticket */
	bool held;           /* kept aside: its ticket waits for a release */
};

/* The store's part. `user` is that of decide_admit(). */
struct decide_hooks {
	/* Is the claim taken now? `index`: of the event's claim; with `aside` the claim
	 * asked for is the one made of that. */
	bool (*find)(void *user, const struct claim *claim, uint32_t index, bool aside,
	             struct decide_hit *ret_hit);
	/* Has the event of this ticket a leg to deliver (store_state_pending())? */
	bool (*is_open)(void *user, uint64_t ticket);
	/* One more repeat of the original; returns how many there were. */
	uint64_t (*count)(void *user, const struct decide_hit *hit);
	/* Gives the event its own_ticket, and the claims. */
	int (*keep)(void *user, const struct decide_kept *kept);
};

int decide_admit(struct store_admit *admit, uint64_t now_ms, const struct decide_hooks *hooks,
                 void *user) must_check;

/* The answer of an event that was kept without a claim being asked for. */
void decide_new(struct store_admit *admit, uint64_t now_ms, uint64_t ticket);
