/*
 * arena: memory that is allocated in pieces and freed all at once.
 *
 * Room:      base. Threads: one owner.
 * Ownership: arena_free() takes all pieces; a zeroed struct is an empty arena
 *            without a cap. With `wipe` the bytes are overwritten first: for memory that may
 *            hold a secret.
 * Failure:   NULL when memory is short or the cap is reached; what was given
 *            before stays.
 */
#pragma once

#include "base/check.h"
#include "base/span.h"

struct arena {
	struct arena_block *blocks; /* newest first */
	size_t given;
	size_t cap; /* most bytes given in all; 0 is no cap */
	bool wipe;
};

/* Zeroed and aligned for any type. */
void *arena_alloc(struct arena *arena, size_t size) must_check;

/* A copy, NUL-terminated; its ptr is NULL on failure, never otherwise. */
struct span arena_copy(struct arena *arena, struct span bytes) must_check;

void arena_free(struct arena *arena); /* leaves an empty arena with the same cap */
