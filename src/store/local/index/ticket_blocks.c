/* ticket_blocks: see ticket_blocks.h. */
#include "store/local/index/ticket_blocks.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

void ticket_blocks_clear(struct ticket_blocks *blocks)
{
	for (uint32_t i = 0; i < blocks->count; i++)
		mem_free(ticket_block_at(blocks, i));
	while (blocks->spare) {
		struct ticket_block *next = blocks->spare->next;
		mem_free(blocks->spare);
		blocks->spare = next;
	}
	mem_free(blocks->places);
	*blocks = (struct ticket_blocks){ 0 };
}

/* --- the directory, and blocks for it ---------------------------------------- */

static int spare_reserve(struct ticket_blocks *blocks, uint32_t count)
{
	while (blocks->spare_count < count) {
		struct ticket_block *block = mem_alloc(sizeof(*block));
		if (!block)
			return -ENOMEM;
		block->next = blocks->spare;
		blocks->spare = block;
		blocks->spare_count++;
	}
	return 0;
}

static struct ticket_block *spare_take(struct ticket_blocks *blocks)
{
	CHECK(blocks->spare_count > 0);
	struct ticket_block *block = blocks->spare;
	blocks->spare = block->next;
	blocks->spare_count--;
	block->used = block->open = block->due = block->sought = 0;
	block->due_sinks = 0;
	block->segment_min = UINT32_MAX;
	return block;
}

/* Room in the directory for `count` more places at its end. */
static int places_reserve(struct ticket_blocks *blocks, uint32_t count)
{
	if (blocks->head + blocks->count + count <= blocks->room)
		return 0;
	if (blocks->head < blocks->room / 2 || blocks->count + count > blocks->room) {
		uint32_t room = (blocks->count + count) * 2 + 16;
		struct ticket_place *places = mem_realloc(blocks->places,
		                                          (blocks->head + room) * sizeof(*places));
		if (!places)
			return -ENOMEM;
		blocks->places = places;
		blocks->room = blocks->head + room;
	}
	if (blocks->head > 0)
		memmove(blocks->places, ticket_place_at(blocks, 0),
		        blocks->count * sizeof(struct ticket_place));
	blocks->head = 0;
	return 0;
}

/* A place at `index`; a spare block and room were reserved. */
static struct ticket_block *place_insert(struct ticket_blocks *blocks, uint32_t index,
                                         uint64_t first)
{
	CHECK(index <= blocks->count);
	CHECK(blocks->head + blocks->count < blocks->room);
	struct ticket_place *place = ticket_place_at(blocks, index);
	memmove(place + 1, place, (blocks->count - index) * sizeof(*place));
	*place = (struct ticket_place){ first, spare_take(blocks) };
	blocks->count++;
	blocks->moves++;
	return place->block;
}

static void place_remove(struct ticket_blocks *blocks, uint32_t index)
{
	CHECK(index < blocks->count);
	struct ticket_place *place = ticket_place_at(blocks, index);
	mem_free(place->block);
	if (index == 0)
		blocks->head++;
	else
		memmove(place, place + 1, (blocks->count - index - 1) * sizeof(*place));
	blocks->count--;
	blocks->moves++;
}

/* --- seeking --------------------------------------------------------------- */

uint32_t ticket_blocks_seek_place(const struct ticket_blocks *blocks, uint64_t ticket)
{
	uint32_t low = 0;
	uint32_t high = blocks->count;
	/* New tickets come at the end, outcomes mostly near the beginning. */
	if (high > 0 && ticket_place_at(blocks, high - 1)->first <= ticket)
		return high - 1;
	if (high > 1 && ticket_place_at(blocks, 1)->first > ticket)
		return 0;
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		if (ticket_place_at(blocks, middle)->first <= ticket)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Is this the first in the block that is not below the ticket? */
static bool is_place(const struct ticket_block *block, uint32_t at, uint64_t ticket)
{
	return at <= block->used && (at == block->used || block->tickets[at].ticket >= ticket) &&
	       (at == 0 || block->tickets[at - 1].ticket < ticket);
}

uint32_t ticket_block_seek(struct ticket_block *block, uint64_t ticket)
{
	if (is_place(block, block->used, ticket))
		return block->used;
	/* Outcomes come in the order of delivery. */
	if (is_place(block, block->sought + 1, ticket))
		return ++block->sought;
	uint32_t low = 0;
	uint32_t high = block->used;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (block->tickets[middle].ticket < ticket)
			low = middle + 1;
		else
			high = middle;
	}
	block->sought = low;
	return low;
}

struct open_ticket *ticket_blocks_seek(const struct ticket_blocks *blocks, uint64_t ticket,
                                       uint32_t *ret_index)
{
	if (blocks->count == 0)
		return NULL;
	uint32_t index = ticket_blocks_seek_place(blocks, ticket);
	struct ticket_block *block = ticket_block_at(blocks, index);
	uint32_t at = ticket_block_seek(block, ticket);
	if (at == block->used || block->tickets[at].ticket != ticket)
		return NULL;
	if (block->tickets[at].state == OPEN_TICKET_GONE)
		return NULL;
	*ret_index = index;
	return &block->tickets[at];
}

/* --- adding ------------------------------------------------------------------- */

int ticket_blocks_reserve(struct ticket_blocks *blocks, uint32_t count)
{
	uint32_t room = 0;
	if (blocks->count > 0)
		room = TICKET_BLOCK_MAX - ticket_block_at(blocks, blocks->count - 1)->used;
	uint32_t more = count > room ? (count - room + TICKET_BLOCK_MAX - 1) / TICKET_BLOCK_MAX : 0;
	int error = places_reserve(blocks, more + 1);
	return error ? error : spare_reserve(blocks, more);
}

static bool has_room_for(const struct ticket_blocks *blocks, uint64_t ticket)
{
	if (blocks->count == 0)
		return false;
	uint32_t index = ticket_blocks_seek_place(blocks, ticket);
	return ticket_block_at(blocks, index)->used < TICKET_BLOCK_MAX;
}

int ticket_blocks_reserve_for(struct ticket_blocks *blocks, uint64_t ticket)
{
	int error = places_reserve(blocks, 1);
	if (error || has_room_for(blocks, ticket))
		return error;
	return spare_reserve(blocks, 1);
}

/* Where the block is full: its upper part from `at` on goes to a block of its
 * own, so that a run of late tickets then finds room at the end of the lower. */
static void split(struct ticket_blocks *blocks, uint32_t index, uint32_t at)
{
	struct ticket_block *lower = ticket_block_at(blocks, index);
	struct ticket_block *upper = place_insert(blocks, index + 1, lower->tickets[at].ticket);
	upper->used = lower->used - at;
	memcpy(upper->tickets, lower->tickets + at, upper->used * sizeof(upper->tickets[0]));
	lower->used = at; /* moves: place_insert() */
	upper->segment_min = lower->segment_min;
	for (uint32_t i = 0; i < upper->used; i++) {
		upper->open += upper->tickets[i].state != OPEN_TICKET_GONE;
		upper->due += upper->tickets[i].state == OPEN_TICKET_DUE;
	}
	upper->due_sinks = lower->due_sinks;
	lower->open -= upper->open;
	lower->due -= upper->due;
	if (upper->open == 0 && index + 2 < blocks->count)
		place_remove(blocks, index + 1); /* 2 */
}

struct open_ticket *ticket_blocks_add(struct ticket_blocks *blocks, uint64_t ticket,
                                      uint32_t *ret_index)
{
	if (blocks->count == 0)
		place_insert(blocks, 0, ticket);
	uint32_t index = ticket_blocks_seek_place(blocks, ticket);
	struct ticket_block *block = ticket_block_at(blocks, index);
	uint32_t at = ticket_block_seek(block, ticket);
	if (at < block->used && block->tickets[at].ticket == ticket) {
		*ret_index = index; /* was here and is gone */
		return &block->tickets[at];
	}
	if (block->used == TICKET_BLOCK_MAX) {
		if (at == TICKET_BLOCK_MAX) {
			block = place_insert(blocks, ++index, ticket);
		} else if (at == 0) {
			/* Its own first may be gone, and be lower than the ticket: invariant 1. */
			ticket_place_at(blocks, index)->first = block->tickets[0].ticket;
			block = place_insert(blocks, index, ticket);
		} else {
			split(blocks, index, at);
		}
		at = block->used;
	}
	struct open_ticket *entry = &block->tickets[at];
	if (at < block->used) {
		memmove(entry + 1, entry, (block->used - at) * sizeof(*entry));
		blocks->moves++;
	}
	*entry = (struct open_ticket){ .ticket = ticket };
	block->used++;
	if (ticket < ticket_place_at(blocks, index)->first)
		ticket_place_at(blocks, index)->first = ticket;
	*ret_index = index;
	return entry;
}

/* --- tidying ------------------------------------------------------------------ */

static void block_pack(struct ticket_block *block)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < block->used; i++) {
		if (block->tickets[i].state != OPEN_TICKET_GONE)
			block->tickets[kept++] = block->tickets[i];
	}
	CHECK(kept == block->open);
	block->used = kept;
}

/* Puts the block at index + 1 behind the tickets of the one at index. */
static void join(struct ticket_blocks *blocks, uint32_t index)
{
	struct ticket_block *lower = ticket_block_at(blocks, index);
	struct ticket_block *upper = ticket_block_at(blocks, index + 1);
	block_pack(lower);
	block_pack(upper);
	memcpy(lower->tickets + lower->used, upper->tickets,
	       upper->used * sizeof(upper->tickets[0]));
	lower->used += upper->used;
	lower->open += upper->open;
	lower->due += upper->due;
	lower->due_sinks |= upper->due_sinks;
	if (upper->segment_min < lower->segment_min)
		lower->segment_min = upper->segment_min;
	place_remove(blocks, index + 1);
}

void ticket_blocks_tidy(struct ticket_blocks *blocks, uint32_t index)
{
	struct ticket_block *block = ticket_block_at(blocks, index);
	if (index + 1 == blocks->count) {
		if (block->open == 0) {
			block->used = 0;
			blocks->moves++;
		}
		return;
	}
	if (block->open == 0) {
		place_remove(blocks, index);
		return;
	}
	if (block->open > TICKET_BLOCK_MAX / 4)
		return;
	if (index > 0 &&
	    ticket_block_at(blocks, index - 1)->open + block->open <= TICKET_BLOCK_MAX / 2)
		join(blocks, index - 1);
	else if (index + 2 < blocks->count &&
	         ticket_block_at(blocks, index + 1)->open + block->open <= TICKET_BLOCK_MAX / 2)
		join(blocks, index);
}

uint64_t ticket_blocks_bytes(const struct ticket_blocks *blocks)
{
	return blocks->room * sizeof(struct ticket_place) +
	       ((uint64_t)blocks->count + blocks->spare_count) * sizeof(struct ticket_block);
}

static void check_block(const struct ticket_blocks *blocks, uint32_t index)
{
	const struct ticket_block *block = ticket_block_at(blocks, index);
	bool is_last = index + 1 == blocks->count;
	uint32_t open = 0;
	uint32_t due = 0;
	uint64_t before = ticket_place_at(blocks, index)->first - 1;
	for (uint32_t i = 0; i < block->used; i++) {
		CHECK(block->tickets[i].ticket > before); /* 1 */
		before = block->tickets[i].ticket;
		open += block->tickets[i].state != OPEN_TICKET_GONE;
		due += block->tickets[i].state == OPEN_TICKET_DUE;
	}
	CHECK(is_last || before < ticket_place_at(blocks, index + 1)->first); /* 1 */
	CHECK(open == block->open && due == block->due);                      /* 2 */
	CHECK(open > 0 || is_last);                                           /* 2 */
}

void ticket_blocks_check(const struct ticket_blocks *blocks)
{
	for (uint32_t i = 0; i < blocks->count; i++)
		check_block(blocks, i);
}
