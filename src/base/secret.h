/*
 * secret: bytes that nobody may learn, neither from our time nor from our memory.
 *
 * Room: base (libsodium). Threads: pure.
 */
#pragma once

#include "base/check.h"
#include "base/span.h"

/* Are they equal? Lengths are compared first and are no secret; the time for
 * equal lengths tells nothing of the bytes. Two empty spans are not equal: what
 * is empty proves nothing. */
bool secret_equal(struct span a, struct span b) must_check;

/* Overwrites, also where a compiler would think that nobody looks any more. */
void secret_wipe(void *ptr, size_t len);
