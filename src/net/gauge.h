/*
 * gauge: limits on connections, in all and per address, and on the bytes of what they
 * send, shared by all servers of the process; and the counters of one server.
 *
 * IPv6 addresses count by their /64, since that is what one customer gets.
 * Addresses are hashed with a random key, so no peer can choose collisions.
 *
 * Room:      net. Threads: any; counters are written by the server's thread and read by any
 *            (relaxed).
 * Ownership: a slot from gauge_take() must be returned by gauge_release().
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/check.h"

struct gauge;
struct gauge_slot;

struct gauge_limits {
	uint32_t connections; /* in all */
	uint32_t connections_per_address;
};

int gauge_new(struct gauge **ret_gauge) must_check;
struct gauge *gauge_free(struct gauge *gauge);

enum gauge_result { GAUGE_OK = 0, GAUGE_FULL, GAUGE_ADDRESS_FULL, GAUGE_NO_MEMORY };

enum gauge_result gauge_take(struct gauge *gauge, const struct sockaddr *address,
                             const struct gauge_limits *limits,
                             struct gauge_slot **ret_slot) must_check;
void gauge_release(struct gauge *gauge, struct gauge_slot *slot);

/* Bytes of large inputs, counted by the pools of all servers (base/pool.h). */
atomic_uint_fast64_t *gauge_bytes(struct gauge *gauge);

/* What the connections of one server have done. */
struct wire_counters {
	atomic_uint_fast64_t accepted, open, bytes_in, bytes_out;
	atomic_uint_fast64_t refused; /* over a limit on connections */
	atomic_uint_fast64_t timeouts;
	atomic_uint_fast64_t tls_handshakes, tls_resumed, tls_failed;
};

/* One writer: no locked instruction needed. */
static inline void counter_add(atomic_uint_fast64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
	                      memory_order_relaxed);
}
