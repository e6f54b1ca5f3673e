/*
 * newest: how far each entity is. Digest in; order, ticket and window out.
 *
 * An entity is known by the key of its digest, and remembered until its ticket's
 * time plus its window (rounded as in window.h); every event that moves it on
 * renews that. What an order means is the caller's.
 *
 * A map (base/map.h) of 32 bytes an entity; with the empty slots 43 to 128, about 70 on
 * the average.
 *
 * Room:      store/local. Threads: one owner.
 * Ownership: newest_new() gives it, newest_free() takes it.
 * Failure:   -ENOMEM leaves all as it was. Only newest_put() of an entity that is
 *            not there can fail, and not right after the newest_remove() of one
 *            of the same digest.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "gate/claim.h"
#include "gate/ticket.h"

struct newest;

struct newest_record {
	struct digest digest; /* its check is not kept */
	uint64_t order;
	uint64_t ticket;
	uint32_t window_s; /* given back as kept: rounded up */
};

static inline uint64_t newest_expiry_ms(const struct newest_record *record)
{
	return ticket_time_ms(record->ticket) + (uint64_t)record->window_s * 1000;
}

int newest_new(struct newest **ret_newest) must_check;
struct newest *newest_free(struct newest *newest); /* accepts NULL, returns NULL */

/* False: nothing is known of it, or its window has passed (never with now_ms 0). */
bool newest_find(const struct newest *newest, const struct digest *digest, uint64_t now_ms,
                 struct newest_record *ret_record) must_check;

/* If the entity is there already, the higher ticket stays with all it says: so
 * recovery may read in any order. */
int newest_put(struct newest *newest, const struct newest_record *record) must_check;
bool newest_remove(struct newest *newest, const struct digest *digest);

/* Looks at about `budget` slots, removes the expired, gives memory back. Returns
 * how many were removed. To go once around within T, spend newest_slots()/T. */
uint64_t newest_sweep(struct newest *newest, uint64_t now_ms, uint64_t budget);

uint64_t newest_count(const struct newest *newest); /* with the expired not yet swept */
uint64_t newest_slots(const struct newest *newest);
uint64_t newest_bytes(const struct newest *newest);
void newest_check(const struct newest *newest); /* every invariant; for tests */
