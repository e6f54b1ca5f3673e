/*
 * pool: the memory that requests pass through, kept for the next one.
 *
 * Inputs hold what was received. A whole request is never moved: its spans
 * point into its input, which therefore counts who needs it (the connection
 * that still reads into it, and each unanswered request). Outputs hold what is
 * to be sent. What is spare is used again last in, first out, so that a busy server
 * works in memory that is still in the cache, and an idle connection holds none.
 *
 * Room: base. Threads: one owner. Failure: NULL or -ENOMEM when there is no memory.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"

/* With their headers, 65 and 33 cache lines: an odd count
 * spreads the first lines of many buffers over all sets of a cache, where a
 * power of two would put them all into one. */
#define POOL_INPUT_ROOM (65u * 64u - 16u)
#define POOL_OUTPUT_ROOM (33u * 64u - 16u)
#define POOL_SPARE_MAX 1024 /* of each kind; more are freed */

/* Unused buffers. Their addresses are kept here and not in the buffers themselves: so taking
 * one does not touch it, and the next ones can be prefetched. */
struct spares {
	uint32_t count;
	void *items[POOL_SPARE_MAX];
};

#define SPARES_AHEAD 4u

/* NULL if there is none. */
static inline void *spares_take(struct spares *spares)
{
	if (unlikely(spares->count == 0))
		return NULL;
	uint32_t last = --spares->count;
	if (last >= SPARES_AHEAD)
		__builtin_prefetch(spares->items[last - SPARES_AHEAD], 1);
	return spares->items[last];
}

/* False: there are enough of them, and it remains the caller's. */
static inline bool spares_put(struct spares *spares, void *item)
{
	if (unlikely(spares->count == POOL_SPARE_MAX))
		return false;
	spares->items[spares->count++] = item;
	return true;
}

void spares_free(struct spares *spares);

struct input {
	uint32_t refs;
	uint32_t room;
	char bytes[];
};

struct output {
	size_t room;
	char bytes[];
};

/* Bytes on their way out: [at, len) of buffer. Zeroed is empty. */
struct outgoing {
	struct output *buffer;
	size_t at, len;
};

struct pool {
	struct spares inputs, outputs;
	uint32_t input_room;         /* of an ordinary input; 0: POOL_INPUT_ROOM */
	atomic_uint_fast64_t *bytes; /* in inputs that are larger, of all pools that share this */
	uint64_t bytes_max;          /* of those */
	uint64_t output_bytes;       /* in outputs that are larger than ordinary ones */
};

void pool_free(struct pool *pool);

/* With one reference. -ENOMEM; ERR_FULL: bytes_max would be exceeded. */
int pool_take_input(struct pool *pool, size_t room, struct input **ret_input) must_check;
void pool_drop_input(struct pool *pool, struct input *input); /* accepts NULL */

static inline size_t outgoing_pending(const struct outgoing *outgoing)
{
	return outgoing->len - outgoing->at;
}

/* Where `room` more bytes can be written; outgoing->len is then moved by the
 * caller. NULL when there is no memory. */
char *outgoing_reserve(struct pool *pool, struct outgoing *outgoing, size_t room) must_check;
int outgoing_append(struct pool *pool, struct outgoing *outgoing, const void *ptr,
                    size_t len) must_check;
void outgoing_clear(struct pool *pool, struct outgoing *outgoing);
