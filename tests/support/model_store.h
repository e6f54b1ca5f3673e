/*
 * model_store: the model of a store, in memory. The model test compares every store
 * with it, and tests that need some store use it because it needs no disk. It is written
 * to be obviously right.
 *
 * It decides by rules of its own: it shares no rule of a decision with src/store, or the
 * model test would compare a rule with itself. It does share what the contract fixes:
 * which operations are well-formed, the form of items, the key of a conflict that is kept
 * aside, and the waits (store/waits.h).
 *
 * The oracle (support/oracle.h) is another model of the same contract, for another
 * question. This one says what a store must answer: it is a store itself, and knows one
 * state. The oracle says what may be found after a crash or a fault: it keeps what was
 * acknowledged and, for each operation without an answer, every state that is then
 * possible; and it makes the operations itself, since an outcome that failed is tried
 * again.
 *
 * Room:      tests.
 * Threads:   store.h's rule: one owner thread; stats from any.
 * Ownership: model_store_open() gives a struct store, store_free() takes it.
 * Failure:   ERR_FULL when memory or max_open_tickets is used up; nothing was
 *            decided then. Nothing is durable, and nothing else can fail.
 * Time:      the wall clock of `clock`, never backwards. A caller that wants
 *            jumps of the wall judged gives a clock that judges them.
 */
#pragma once

#include <stdint.h>

#include "base/check.h"
#include "store/store.h"
#include "sys/clock.h"

struct model_store_options {
	const struct clock *clock; /* NULL: the machine's */
	uint32_t max_open_tickets; /* 0: 16 Mi */
	uint64_t dead_keep_ms;     /* 0: STORE_DEAD_KEEP_MS */
};

int model_store_open(const struct model_store_options *options,
                     struct store **ret_store) must_check;

/* What a restart does to a store that remembers: leases are gone, so what was leased
 * is due again; its attempts go on from the last of which something was noted. Takes
 * and waits end with ERR_CLOSING. For the model tests. */
void model_store_restart(struct store *store);

/* The same of a store that others share: leases with an end go on. */
void model_store_restart_shared(struct store *store);
