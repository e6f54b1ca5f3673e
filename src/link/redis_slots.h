/*
 * redis_slots: which slot of a Redis Cluster a key is in, and which node has it.
 *
 * Room: link. Threads: pure.
 */
#pragma once

#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "link/redis_login.h"

#define REDIS_SLOTS 16384u

/* By the part in the first {…} that is not empty, or the whole key. */
uint32_t redis_slot_of(struct span key);

/*
 * Walks the reply of CLUSTER SLOTS: calls `range` for each range of slots with the host
 * of its master. A node that does not know its own name is called `asked`. False: it is no
 * such reply; some ranges may have been told by then.
 */
struct redis_slots_range {
	uint32_t first, last;
	struct redis_host master;
	uint32_t replicas;
};

bool redis_slots_walk(struct span reply, const struct redis_host *asked,
                      void (*range)(void *user, const struct redis_slots_range *range), void *user);
