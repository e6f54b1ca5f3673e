/*
 * redis_leases: the tickets that takes by sink leased to this process.
 *
 * Room:      store/redis. Threads: the store's own.
 * Ownership: a zeroed struct is empty; redis_leases_free() takes the memory.
 * Failure:   without memory a ticket is not remembered: its lease ends at the server.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct redis_lease {
	uint64_t ticket;  /* 0: none */
	uint64_t ends_ms; /* by the loop's clock, if the taker renews it; 0: the store renews it */
	uint32_t attempt;
};

struct redis_leases {
	struct redis_lease *slots; /* open addressing; the next free one ends a chain */
	uint32_t room;             /* a power of two */
	uint32_t count;
};

void redis_leases_put(struct redis_leases *leases, struct redis_lease lease);
struct redis_lease *redis_leases_find(struct redis_leases *leases, uint64_t ticket); /* or NULL */
void redis_leases_remove(struct redis_leases *leases, uint64_t ticket);
/* Removes those that have ended. */
void redis_leases_sweep(struct redis_leases *leases, uint64_t now_ms);
void redis_leases_free(struct redis_leases *leases);
