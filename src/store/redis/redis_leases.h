/*
 * redis_leases: the tickets that are leased to this process by takes of sinks.
 *
 * Room:      store/redis. Threads: the store's own.
 * Ownership: a zeroed struct is empty; redis_leases_free() takes the memory.
 * Failure:   one that finds no memory is not remembered: its lease then ends by itself.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct redis_lease {
	uint64_t ticket;  /* 0: none */
	uint64_t ends_ms; /* by the loop's clock, of one that the taker renews; 0: the store does */
	uint32_t attempt;
	uint16_t place;  /* in the */
	uint64_t parcel; /* that it came in; 0: none */
};

struct redis_leases {
	struct redis_lease *slots; /* open addressing; the next free one ends a chain */
	uint32_t room;             /* a power of two */
	uint32_t count;
};

void redis_leases_put(struct redis_leases *leases, struct redis_lease lease);
struct redis_lease *redis_leases_find(struct redis_leases *leases, uint64_t ticket); /* or NULL */
void redis_leases_remove(struct redis_leases *leases, uint64_t ticket);
/* Forgets those that have ended. */
void redis_leases_sweep(struct redis_leases *leases, uint64_t now_ms);
void redis_leases_free(struct redis_leases *leases);
