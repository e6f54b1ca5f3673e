/* arena: see arena.h. */
#include "base/arena.h"

#include <stdalign.h>

#include "base/mem.h"

#define BLOCK_BYTES ((size_t)8192)

struct arena_block {
	struct arena_block *next;
	size_t used;
	size_t room;
	alignas(max_align_t) char bytes[];
};

void *arena_alloc(struct arena *arena, size_t size)
{
	if (size > SIZE_MAX / 2)
		return NULL;
	size = ((size ? size : 1) + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
	if (arena->cap != 0 && size > arena->cap - arena->given)
		return NULL;
	struct arena_block *block = arena->blocks;
	if (!block || block->room - block->used < size) {
		/* What is larger than a block gets one of its own. */
		size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;
		block = mem_zalloc(1, sizeof(*block) + room);
		if (!block)
			return NULL;
		block->room = room;
		block->next = arena->blocks;
		arena->blocks = block;
	}
	void *ptr = block->bytes + block->used;
	block->used += size;
	arena->given += size;
	return ptr;
}

struct span arena_copy(struct arena *arena, struct span bytes)
{
	char *copy = arena_alloc(arena, bytes.len + 1);
	if (!copy)
		return SPAN_EMPTY;
	if (bytes.len > 0)
		memcpy(copy, bytes.ptr, bytes.len);
	return span_of(copy, bytes.len);
}

void arena_free(struct arena *arena)
{
	while (arena->blocks) {
		struct arena_block *block = arena->blocks;
		arena->blocks = block->next;
		if (arena->wipe)
			explicit_bzero(block->bytes, block->room);
		mem_free(block);
	}
	arena->given = 0;
}
