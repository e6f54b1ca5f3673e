/*
 * spool_store: a shared store that may be away, with what this node does meanwhile.
 *
 * It stands before the shared store and passes everything on. When that fails again and
 * again a breaker opens: from then on nothing is sent to it but a probe now and then,
 * and until one is answered
 *
 *   admits    with `spool` are kept in the local store, durable and undecided, and
 *             answered `spooled`; others are ERR_AWAY at once;
 *   outcomes  wait, and are recorded when the store is back. Takes wait too;
 *   others    are ERR_AWAY at once.
 *
 * When the store is back, what was spooled is admitted in the order in which it came,
 * with its windows counted from then, and closed in the local store after. Until the
 * spool is empty, events that may be spooled go behind it, so that they stay in order.
 * (Not so those for a part of the store that stays away: others overtake them.)
 * Delivery is by the tickets of the shared store alone.
 *
 * Never twice. An admission can be made and its answer be lost: with the connection, or
 * with this process. The event is then spooled, or still in the spool, and is admitted
 * once more. What tells that it was is one of its own claims, and beside them a mark,
 * a claim that no other event has: every admission out of the spool has it, and so has
 * one that may be spooled but has no claim of its own that holds for SPOOL_SURE_S (of
 * kind once or content, and no shadow). One that would need it, but has all its claims
 * already, is not spooled: ERR_AWAY.
 *
 * Room:      store. Only serve/ and tests name this header.
 * Threads:   store.h's rule. Stats are for any thread.
 * Ownership: takes both stores when it is made, and frees them.
 * Failure:   as store.h; -ENOMEM.
 */
#pragma once

#include "base/check.h"
#include "store/store.h"
#include "sys/clock.h"

#define SPOOL_SURE_S 86400u
#define SPOOL_MARK_S (30u * 86400u) /* how long a mark is remembered */
#define SPOOL_SINK 2u               /* of the tickets in the local store */

enum spool_level { SPOOL_INFO, SPOOL_WARNING, SPOOL_ERROR };

struct spool_store_options {
	struct store *shared;
	struct store *local;       /* NULL: nothing is spooled. Its outcomes are not lazy */
	const struct clock *clock; /* NULL: the machine's */
	bool in_parts;             /* a part of it can be away while the others are there */
	bool ready_when_away;      /* there are sources that spool: events can come */
	/* What an operator should read; on the owner's thread. */
	void (*log)(void *user, enum spool_level level, const char *text);
	void *log_user;
};

int spool_store_open(const struct spool_store_options *options,
                     struct store **ret_store) must_check;
