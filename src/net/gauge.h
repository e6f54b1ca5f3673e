/*
 * gauge: how many connections there are, in all and per address, and how many bytes
 * of what they send; shared by all servers of the process.
 *
 * An IPv6 address counts by its /64, since that is what one customer gets.
 * Addresses are hashed with a random key, so no peer can choose collisions.
 *
 * Room: net. Threads: any. Ownership: a slot from gauge_take() goes back
 * through gauge_release().
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
