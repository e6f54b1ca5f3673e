/*
 * gauge: how many connections there are, in all and per address, and how many bytes
 * of what they send; the private side of struct http_gauge (http_server.h).
 *
 * An IPv6 address counts by its /64, since that is what one customer gets.
 * Addresses are hashed with a random key, so no peer can choose collisions.
 *
 * Room: net. Threads: any. Ownership: a slot from gauge_take() goes back
 * through gauge_release(), bytes through gauge_release_bytes().
 */
#pragma once

#include <stdint.h>
#include <sys/socket.h>

#include "base/check.h"
#include "net/http_server.h"

struct gauge_slot;

enum gauge_result { GAUGE_OK = 0, GAUGE_FULL, GAUGE_ADDRESS_FULL, GAUGE_NO_MEMORY };

enum gauge_result gauge_take(struct http_gauge *gauge, const struct sockaddr *address,
                             const struct http_limits *limits,
                             struct gauge_slot **ret_slot) must_check;
void gauge_release(struct http_gauge *gauge, struct gauge_slot *slot);

/* False: it would be more than `most` in all, and none were taken. */
bool gauge_take_bytes(struct http_gauge *gauge, uint64_t bytes, uint64_t most) must_check;
void gauge_release_bytes(struct http_gauge *gauge, uint64_t bytes);
