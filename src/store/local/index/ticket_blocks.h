/*
 * ticket_blocks: tickets in the order of their numbers; what open_tickets stands on.
 *
 * Sorted blocks of up to 512 tickets, and a directory of places that says with which
 * number each block begins. Tickets that are gone stay in their blocks until those are
 * packed. Blocks of which all are gone are freed, sparse ones are joined.
 *
 * Which ticket is open or due, at which sink, in which segment, is the owner's business:
 * it keeps the counts of a block, and this keeps them right when blocks are split and
 * joined. `moves` changes whenever an entry may stand elsewhere than before, so that
 * whoever has kept index and entry knows whether they still hold.
 *
 * Invariants (ticket_blocks_check()):
 * 1. first of a place <= all tickets of its block < first of the next place.
 * 2. open and due of a block count its tickets in those states; only the last
 *    block may have none open.
 *
 * Room:      store/local. Threads: one owner.
 * Ownership: a member of its owner, all zero at first; ticket_blocks_clear() frees
 *            what it holds.
 * Failure:   only the reserving can fail with -ENOMEM, and then changes nothing.
 */
#pragma once

#include <stdint.h>

#include "base/check.h"
#include "store/local/index/open_tickets.h"

#define TICKET_BLOCK_MAX 512u

struct ticket_block {
	struct ticket_block *next; /* of the spare ones */
	uint32_t used;
	uint32_t open;
	uint32_t due;
	uint32_t segment_min; /* no open ticket here has a lower segment */
	uint32_t sought;      /* where ticket_block_seek() was last */
	uint64_t due_sinks;   /* bits of sinks that may have due tickets here */
	struct open_ticket tickets[TICKET_BLOCK_MAX];
};

struct ticket_place {
	uint64_t first;
	struct ticket_block *block;
};

struct ticket_blocks {
	/* The directory: places[head … head + count) of room. */
	struct ticket_place *places;
	uint32_t head;
	uint32_t count;
	uint32_t room;
	uint32_t spare_count;
	struct ticket_block *spare;
	uint64_t moves; /* how often entries were moved, or blocks */
};

static inline struct ticket_place *ticket_place_at(const struct ticket_blocks *blocks,
                                                   uint32_t index)
{
	return &blocks->places[blocks->head + index];
}

static inline struct ticket_block *ticket_block_at(const struct ticket_blocks *blocks,
                                                   uint32_t index)
{
	return ticket_place_at(blocks, index)->block;
}

void ticket_blocks_clear(struct ticket_blocks *blocks);

/* So that the next `count` tickets can be added at the end. */
int ticket_blocks_reserve(struct ticket_blocks *blocks, uint32_t count) must_check;
/* So that this one can be added, wherever its place is. */
int ticket_blocks_reserve_for(struct ticket_blocks *blocks, uint64_t ticket) must_check;

/* The last place whose first is not above the ticket; 0 if there is none. */
uint32_t ticket_blocks_seek_place(const struct ticket_blocks *blocks, uint64_t ticket);

/* The first in the block that is not below the ticket; `used` if all are. */
uint32_t ticket_block_seek(struct ticket_block *block, uint64_t ticket);

/* The entry of a ticket that is not gone, and the index of its block; or NULL. */
struct open_ticket *ticket_blocks_seek(const struct ticket_blocks *blocks, uint64_t ticket,
                                       uint32_t *ret_index);

/* An entry, gone and in no count yet, for this ticket, for which was reserved and
 * which ticket_blocks_seek() does not find. */
struct open_ticket *ticket_blocks_add(struct ticket_blocks *blocks, uint64_t ticket,
                                      uint32_t *ret_index);

/*
 * After a ticket of the block at `index` is gone and no longer counted. The last block
 * stays as it is, since ticket_blocks_reserve() counts on its room; others go when
 * empty and are joined when sparse.
 */
void ticket_blocks_tidy(struct ticket_blocks *blocks, uint32_t index);

uint64_t ticket_blocks_bytes(const struct ticket_blocks *blocks); /* on the heap */
void ticket_blocks_check(const struct ticket_blocks *blocks);     /* 1, 2; for tests */
