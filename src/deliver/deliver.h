/*
 * deliver: takes due tickets from the store, hands their events to a sink and
 * settles them by what the sink says.
 *
 * A thread of its own, so that a sink that blocks delays nobody. It keeps three
 * batches in turn: while one is with the sink, the store fills the next from
 * what it commits and records the outcomes of the one before. A sink that fails
 * makes the thread back off (100 ms, doubling to 6.4 s); the tickets stay open
 * meanwhile.
 *
 * Room:      deliver.
 * Threads:   deliver_start() makes the thread; counters are for any thread.
 * Ownership: borrows port and sink until deliver_free() has returned.
 * Failure:   of a delivery: the ticket is due again. Nothing is lost.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "gate/verdict.h"
#include "sink/sink.h"

struct deliver;
struct port;

struct deliver_counters {
	atomic_uint_fast64_t outcomes[OUTCOME_COUNT]; /* attempts by what came of them */
};

int deliver_start(struct port *port, struct sink *sink, struct deliver **ret_deliver) must_check;

/* Asks it to leave: a blocked sink is interrupted, what the sink did is settled,
 * the rest stays open. Does not wait; the store must still run, to take the
 * settles, until deliver_ended(). */
void deliver_end(struct deliver *deliver);
bool deliver_ended(const struct deliver *deliver);

/* Ends it if need be and waits for its thread, which gives the store some
 * seconds to record outcomes. */
void deliver_join(struct deliver *deliver);

/* Joins it if need be. A store that may be unable to record outcomes must be
 * closed between deliver_join() and this, so that it has answered every settle.
 * Accepts NULL, returns NULL. */
struct deliver *deliver_free(struct deliver *deliver);

const struct deliver_counters *deliver_counters(const struct deliver *deliver);
