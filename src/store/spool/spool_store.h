/*
 * spool_store: a shared store that may be unreachable, and what this node does meanwhile.
 *
 * It stands in front of the shared store and passes everything on. When that fails again
 * and again a breaker opens: from then on nothing is sent to it but a probe now and then,
 * and until one is answered
 *
 *   admits    with `spool` are kept in the local store, durable and undecided, and
 *             answered `spooled`; others are ERR_AWAY at once;
 *   outcomes  wait, and are recorded when the store is back. Takes wait too;
 *   others    are ERR_AWAY at once.
 *
 * When the store is back, what was spooled is admitted in the order in which it came,
 * with its windows counted from then, and closed in the local store after. Until the
 * spool is empty, events that may be spooled are added to it, so that they stay in order.
 * (Except for events of a part of the store that stays away: others overtake them.)
 * Delivery is by the tickets of the shared store alone.
 *
 * A shared store that is unreachable at the start is opened later, by a thread of the
 * spool's own; until then every operation on it is ERR_AWAY.
 *
 * Never twice. An admission can succeed and its answer be lost: with the connection, or
 * with this process. The event is then spooled, or still in the spool, and is admitted
 * once more. What proves that it was admitted is one of its own claims, or a mark: a claim
 * that no other event has. Every admission out of the spool has a mark, and so has one that
 * may be spooled but has no claim of its own that holds for SPOOL_SURE_S (of kind once or
 * content, and no shadow). An event that would need a mark, but has all its claims already,
 * is not spooled: ERR_AWAY.
 *
 * Room:      store/spool. Only serve/ and tests include this header.
 * Threads:   store.h's rule. Stats are for any thread.
 * Ownership: takes both stores on success, and frees them. Freeing a spool whose shared
 *            store is being opened waits for that.
 * Failure:   as store.h; -ENOMEM; an error of thread_start().
 */
#pragma once

#include "base/check.h"
#include "base/error.h"
#include "store/store.h"
#include "sys/clock.h"

#define SPOOL_SURE_S 86400u
#define SPOOL_MARK_S (30u * 86400u) /* how long a mark is remembered */
#define SPOOL_SINK 2u               /* of the tickets in the local store */

enum spool_level { SPOOL_INFO, SPOOL_WARNING, SPOOL_ERROR };

struct spool_store_options {
	struct store *shared;      /* NULL: open() opens it */
	struct store *local;       /* NULL: nothing is spooled. Its outcomes are not lazy */
	const struct clock *clock; /* NULL: the system's */
	bool in_parts;             /* a part of it can be away while others are reachable */
	bool ready_when_away;      /* there are sources that spool: events can come */

	/* On a thread of its own, every `open_every_ms` until it does not return ERR_AWAY. */
	int (*open)(void *user, struct store **ret_store, struct error_text *ret_text);
	/* On that thread, once: open() returned another error, and is not called again. */
	void (*refused)(void *user, int error, const char *text);
	void *open_user;
	uint32_t open_every_ms; /* 0: a second */

	/* Messages for the operator, MESSAGE or MESSAGE: DETAILS; on the owner's thread. */
	void (*log)(void *user, enum spool_level level, const char *text);
	void *log_user;
};

int spool_store_open(const struct spool_store_options *options,
                     struct store **ret_store) must_check;
