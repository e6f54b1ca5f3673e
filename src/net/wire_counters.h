/*
 * wire_counters: what the connections of one server have done, whatever they speak.
 *
 * Room: net. Threads: written by the server's thread, read by any (relaxed).
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

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
