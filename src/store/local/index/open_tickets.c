/* open_tickets: see open_tickets.h. */
#include "store/local/index/open_tickets.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "store/store.h"

/*
 * Three parts: how many open tickets each segment of the journal holds (a sorted array:
 * there are few, and mostly the newest is asked for), the tickets themselves in sorted
 * blocks, and what each sink has due.
 *
 * Blocks hold up to 512 tickets; a directory of places says with which number each block
 * begins. Tickets that are gone stay in their blocks until those are packed. Blocks of
 * which all are gone are freed, sparse ones are joined. `moves` changes whenever an entry
 * may stand elsewhere than before, so that a kept index and entry can be checked.
 *
 * Invariants (open_tickets_check()):
 * 1. first of a place <= all tickets of its block < first of the next place.
 * 2. open and due of a block count its tickets in those states; only the last
 *    block may have none open.
 * 3. No due ticket of a sink is below the sink's `from`; the sink of a due ticket
 *    has its bit in due_sinks of the ticket's block.
 * 4. No ticket of a block that is open has a segment below segment_min.
 * 5. The segments' counts are those of the open tickets in them; segments ascend, and
 *    no count is zero.
 */

struct segment_use {
	uint32_t segment;
	uint32_t count;
};

struct segment_uses {
	struct segment_use *uses; /* ascending */
	uint32_t count;
	uint32_t room;
};

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

/* --- segments in use -------------------------------------------------------- */

/* The first with a number of at least `segment`. */
static uint32_t segment_seek(const struct segment_uses *uses, uint32_t segment)
{
	uint32_t low = 0;
	uint32_t high = uses->count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (uses->uses[middle].segment < segment)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int segment_uses_reserve(struct segment_uses *uses)
{
	if (uses->count < uses->room)
		return 0;
	uint32_t room = uses->room ? uses->room * 2 : 16;
	struct segment_use *grown = mem_realloc(uses->uses, room * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	uses->uses = grown;
	uses->room = room;
	return 0;
}

static void segment_uses_add(struct segment_uses *uses, uint32_t segment)
{
	uint32_t at = segment_seek(uses, segment);
	struct segment_use *use = &uses->uses[at];
	if (at == uses->count || use->segment != segment) {
		CHECK(uses->count < uses->room);
		memmove(use + 1, use, (uses->count - at) * sizeof(*use));
		*use = (struct segment_use){ .segment = segment };
		uses->count++;
	}
	use->count++;
}

static void segment_uses_subtract(struct segment_uses *uses, uint32_t segment)
{
	uint32_t at = segment_seek(uses, segment);
	CHECK(at < uses->count && uses->uses[at].segment == segment);
	struct segment_use *use = &uses->uses[at];
	if (--use->count > 0)
		return;
	uses->count--;
	memmove(use, use + 1, (uses->count - at) * sizeof(*use));
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

static uint32_t ticket_blocks_seek_place(const struct ticket_blocks *blocks, uint64_t ticket)
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

static uint32_t ticket_block_seek(struct ticket_block *block, uint64_t ticket)
{
	if (is_place(block, block->used, ticket))
		return block->used;
	/* The same again, or the next: outcomes come in the order of delivery. */
	if (is_place(block, block->sought, ticket))
		return block->sought;
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

static struct open_ticket *ticket_blocks_seek(const struct ticket_blocks *blocks, uint64_t ticket,
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

static int ticket_blocks_reserve(struct ticket_blocks *blocks, uint32_t count)
{
	uint32_t room = 0;
	if (blocks->count > 0)
		room = TICKET_BLOCK_MAX - ticket_block_at(blocks, blocks->count - 1)->used;
	uint32_t more = count > room ? (count - room + TICKET_BLOCK_MAX - 1) / TICKET_BLOCK_MAX : 0;
	int error = places_reserve(blocks, more + 1);
	return error ? error : spare_reserve(blocks, more);
}

static int ticket_blocks_reserve_for(struct ticket_blocks *blocks, uint64_t ticket)
{
	int error = places_reserve(blocks, 1);
	if (error)
		return error;
	if (blocks->count > 0) {
		uint32_t index = ticket_blocks_seek_place(blocks, ticket);
		if (ticket_block_at(blocks, index)->used < TICKET_BLOCK_MAX)
			return 0;
	}
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

static struct open_ticket *ticket_blocks_add(struct ticket_blocks *blocks, uint64_t ticket,
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

static void ticket_blocks_tidy(struct ticket_blocks *blocks, uint32_t index)
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

/* --- all of them ------------------------------------------------------------- */

/* Those that ever had a ticket; a gateway has a few. */
struct sink_use {
	uint32_t sink;
	uint64_t due;
	uint64_t from; /* nothing of it is due below this number, */
	/* which stands here, or would: place and entry, while nothing has moved since */
	uint32_t index;
	uint32_t at;
	uint64_t moves;
};

struct open_tickets {
	uint64_t max_open;
	uint64_t open;
	uint64_t callers; /* of them, of STORE_SINK_CALLER */
	uint64_t counts[OPEN_TICKET_STATES];
	struct ticket_blocks blocks;
	struct segment_uses segments;
	struct sink_use *sinks;
	uint32_t sink_count;
	uint32_t sink_room;
	struct sink_use *sought_sink; /* the last that was looked for, or NULL */
};

static inline struct ticket_block *block_at(const struct open_tickets *tickets, uint32_t index)
{
	return ticket_block_at(&tickets->blocks, index);
}

static inline struct open_ticket *seek(const struct open_tickets *tickets, uint64_t ticket,
                                       uint32_t *ret_index)
{
	return ticket_blocks_seek(&tickets->blocks, ticket, ret_index);
}

int open_tickets_new(uint64_t max_open, struct open_tickets **ret_tickets)
{
	struct open_tickets *tickets = mem_zalloc(1, sizeof(*tickets));
	if (!tickets)
		return -ENOMEM;
	tickets->max_open = max_open;
	*ret_tickets = tickets;
	return 0;
}

struct open_tickets *open_tickets_free(struct open_tickets *tickets)
{
	if (!tickets)
		return NULL;
	struct ticket_blocks *blocks = &tickets->blocks;
	for (uint32_t i = 0; i < blocks->count; i++)
		mem_free(ticket_block_at(blocks, i));
	while (blocks->spare) {
		struct ticket_block *next = blocks->spare->next;
		mem_free(blocks->spare);
		blocks->spare = next;
	}
	mem_free(blocks->places);
	mem_free(tickets->segments.uses);
	mem_free(tickets->sinks);
	return mem_free(tickets);
}

bool open_tickets_find(const struct open_tickets *tickets, uint64_t ticket,
                       struct open_ticket *ret_ticket)
{
	uint32_t index;
	const struct open_ticket *found = seek(tickets, ticket, &index);
	if (found)
		*ret_ticket = *found;
	return found != NULL;
}

/* --- sinks ---------------------------------------------------------------- */

static struct sink_use *sink_search(const struct open_tickets *tickets, uint32_t sink)
{
	for (uint32_t i = 0; i < tickets->sink_count; i++)
		if (tickets->sinks[i].sink == sink)
			return &tickets->sinks[i];
	return NULL;
}

/* A caller that asks for one continues to ask for it. */
static inline struct sink_use *sink_find(struct open_tickets *tickets, uint32_t sink)
{
	if (likely(tickets->sought_sink && tickets->sought_sink->sink == sink))
		return tickets->sought_sink;
	return tickets->sought_sink = sink_search(tickets, sink);
}

/* So that sink_find() finds it. */
static int sink_reserve(struct open_tickets *tickets, uint32_t sink)
{
	if (likely(sink_find(tickets, sink)))
		return 0;
	if (tickets->sink_count == tickets->sink_room) {
		uint32_t room = tickets->sink_room ? tickets->sink_room * 2 : 4;
		struct sink_use *sinks = mem_realloc(tickets->sinks, room * sizeof(*sinks));
		if (!sinks)
			return -ENOMEM;
		tickets->sinks = sinks;
		tickets->sink_room = room;
		tickets->sought_sink = NULL;
	}
	tickets->sinks[tickets->sink_count++] = (struct sink_use){ .sink = sink };
	return 0;
}

/* Sinks beyond the 64th share bits. */
static uint64_t sink_bit(const struct open_tickets *tickets, const struct sink_use *use)
{
	return UINT64_C(1) << (use - tickets->sinks) % 64;
}

/* --- states --------------------------------------------------------------- */

/* Every change of state goes through here, so that the counts follow. */
static inline void set_state(struct open_tickets *tickets, uint32_t index,
                             struct open_ticket *ticket, enum open_ticket_state state)
{
	struct ticket_block *block = block_at(tickets, index);
	if (ticket->state == OPEN_TICKET_DUE) {
		sink_find(tickets, ticket->sink)->due--;
		if (--block->due == 0)
			block->due_sinks = 0;
	}
	tickets->counts[ticket->state]--;
	tickets->counts[state]++;
	ticket->state = (uint8_t)state;
	if (state != OPEN_TICKET_DUE)
		return;
	struct sink_use *use = sink_find(tickets, ticket->sink);
	CHECK(use); /* see sink_reserve() */
	use->due++;
	if (unlikely(ticket->ticket < use->from)) {
		use->from = ticket->ticket;
		use->moves = UINT64_MAX;
	}
	block->due++;
	block->due_sinks |= sink_bit(tickets, use);
}

/* --- insert ---------------------------------------------------------------- */

int open_tickets_reserve(struct open_tickets *tickets, uint32_t count)
{
	if (tickets->max_open && tickets->open + count > tickets->max_open)
		return ERR_FULL;
	return open_tickets_reserve_beyond(tickets, count);
}

int open_tickets_reserve_beyond(struct open_tickets *tickets, uint32_t count)
{
	int error = ticket_blocks_reserve(&tickets->blocks, count);
	if (!error)
		error = segment_uses_reserve(&tickets->segments);
	return error;
}

static void relocate(struct open_tickets *tickets, uint32_t index, struct open_ticket *at,
                     const struct open_ticket *to)
{
	struct ticket_block *block = block_at(tickets, index);
	segment_uses_add(&tickets->segments, to->segment);
	segment_uses_subtract(&tickets->segments, at->segment);
	at->segment = to->segment;
	at->offset = to->offset;
	at->length = to->length;
	at->note_segment = to->note_segment;
	at->note_offset = to->note_offset;
	if (at->segment < block->segment_min)
		block->segment_min = at->segment;
}

int open_tickets_relocate(struct open_tickets *tickets, const struct open_ticket *ticket)
{
	uint32_t index;
	struct open_ticket *at = seek(tickets, ticket->ticket, &index);
	if (!at)
		return -ENOENT;
	if (segment_uses_reserve(&tickets->segments) != 0)
		return -ENOMEM;
	relocate(tickets, index, at, ticket);
	return 0;
}

static bool is_aside(uint8_t state)
{
	return state == OPEN_TICKET_HELD || state == OPEN_TICKET_PARKED ||
	       state == OPEN_TICKET_DEAD;
}

int open_tickets_insert(struct open_tickets *tickets, const struct open_ticket *ticket)
{
	CHECK(ticket->ticket != 0);
	uint32_t index;
	struct open_ticket *entry = seek(tickets, ticket->ticket, &index);
	if (segment_uses_reserve(&tickets->segments) != 0)
		return -ENOMEM;
	if (entry) {
		struct open_ticket to = *ticket;
		to.note_segment = entry->note_segment;
		to.note_offset = entry->note_offset;
		relocate(tickets, index, entry, &to);
		return 0;
	}
	if (ticket_blocks_reserve_for(&tickets->blocks, ticket->ticket) != 0 ||
	    sink_reserve(tickets, ticket->sink) != 0)
		return -ENOMEM;
	entry = ticket_blocks_add(&tickets->blocks, ticket->ticket, &index);
	*entry = *ticket;
	entry->state = OPEN_TICKET_GONE;
	struct ticket_block *block = block_at(tickets, index);
	block->open++;
	tickets->open++;
	tickets->callers += entry->sink == STORE_SINK_CALLER;
	if (entry->segment < block->segment_min)
		block->segment_min = entry->segment;
	segment_uses_add(&tickets->segments, entry->segment);
	set_state(tickets, index, entry, is_aside(ticket->state) ? ticket->state : OPEN_TICKET_DUE);
	return 0;
}

/* --- take, settle, drop ------------------------------------------------------ */

/* The first of the sink's from `at` on. A block that has none at all forgets the
 * sink, and is skipped next time. */
static struct open_ticket *block_first_due(const struct open_tickets *tickets,
                                           struct ticket_block *block, uint32_t at,
                                           const struct sink_use *use)
{
	for (uint32_t i = at; i < block->used; i++) {
		struct open_ticket *ticket = &block->tickets[i];
		if (ticket->state == OPEN_TICKET_DUE && ticket->sink == use->sink)
			return ticket;
	}
	if (at == 0 && tickets->sink_count <= 64)
		block->due_sinks &= ~sink_bit(tickets, use);
	return NULL;
}

static struct open_ticket *seek_due(struct open_tickets *tickets, struct sink_use *use)
{
	if (unlikely(use->moves != tickets->blocks.moves)) {
		use->index = ticket_blocks_seek_place(&tickets->blocks, use->from);
		use->at = ticket_block_seek(block_at(tickets, use->index), use->from);
		use->moves = tickets->blocks.moves;
	}
	uint64_t bit = sink_bit(tickets, use);
	struct open_ticket *ticket = NULL;
	for (;; use->index++, use->at = 0) {
		CHECK(use->index < tickets->blocks.count);
		struct ticket_block *block = block_at(tickets, use->index);
		if (block->due_sinks & bit)
			ticket = block_first_due(tickets, block, use->at, use);
		if (ticket)
			break;
	}
	use->from = ticket->ticket;
	use->at = (uint32_t)(ticket - block_at(tickets, use->index)->tickets);
	return ticket;
}

static inline struct open_ticket *first_due(struct open_tickets *tickets, uint32_t sink,
                                            uint32_t *ret_index)
{
	struct sink_use *use = sink_find(tickets, sink);
	if (!use || use->due == 0)
		return NULL;
	/* Mostly it is the one that was looked at just now, or the next. */
	if (likely(use->moves == tickets->blocks.moves)) {
		struct ticket_block *block = block_at(tickets, use->index);
		struct open_ticket *ticket = &block->tickets[use->at];
		*ret_index = use->index;
		if (use->at < block->used && ticket->state == OPEN_TICKET_DUE &&
		    ticket->sink == sink) {
			use->from = ticket->ticket;
			return ticket;
		}
	}
	struct open_ticket *ticket = seek_due(tickets, use);
	*ret_index = use->index;
	return ticket;
}

const struct open_ticket *open_tickets_peek(struct open_tickets *tickets, uint32_t sink)
{
	uint32_t index;
	return first_due(tickets, sink, &index);
}

const struct open_ticket *open_tickets_take(struct open_tickets *tickets, uint32_t sink)
{
	uint32_t index;
	struct open_ticket *ticket = first_due(tickets, sink, &index);
	if (!ticket)
		return NULL;
	set_state(tickets, index, ticket, OPEN_TICKET_LEASED);
	ticket->attempt = (uint16_t)store_attempt_next(ticket->attempt);
	struct sink_use *use = tickets->sought_sink; /* set_state() sought it */
	use->from = ticket->ticket + 1;
	use->at++;
	return ticket;
}

void open_tickets_update(struct open_tickets *tickets, const struct open_ticket *ticket)
{
	uint32_t index;
	struct open_ticket *found = seek(tickets, ticket->ticket, &index);
	CHECK(found);
	CHECK(found->sink == ticket->sink && found->leg == ticket->leg);
	found->order = ticket->order;
	found->due_ms = ticket->due_ms;
	found->note_segment = ticket->note_segment;
	found->note_offset = ticket->note_offset;
	found->attempt = ticket->attempt;
	found->status = ticket->status;
	found->last = ticket->last;
	found->was = ticket->was;
	set_state(tickets, index, found, ticket->state);
}

bool open_tickets_drop(struct open_tickets *tickets, uint64_t ticket)
{
	uint32_t index;
	struct open_ticket *found = seek(tickets, ticket, &index);
	if (!found)
		return false;
	set_state(tickets, index, found, OPEN_TICKET_GONE);
	segment_uses_subtract(&tickets->segments, found->segment);
	block_at(tickets, index)->open--;
	tickets->open--;
	tickets->callers -= found->sink == STORE_SINK_CALLER;
	ticket_blocks_tidy(&tickets->blocks, index);
	return true;
}

/* --- walks -------------------------------------------------------------------- */

bool open_tickets_next(const struct open_tickets *tickets, uint64_t after,
                       struct open_ticket *ret_ticket)
{
	if (tickets->blocks.count == 0)
		return false;
	for (uint32_t i = ticket_blocks_seek_place(&tickets->blocks, after + 1);
	     i < tickets->blocks.count; i++) {
		struct ticket_block *block = block_at(tickets, i);
		for (uint32_t at = ticket_block_seek(block, after + 1); at < block->used; at++) {
			if (block->tickets[at].state == OPEN_TICKET_GONE)
				continue;
			*ret_ticket = block->tickets[at];
			return true;
		}
	}
	return false;
}

/* The first open ticket from `at` on whose segment is low enough. A block that
 * has none at all learns its true segment_min, and is skipped next time. */
static const struct open_ticket *block_next_before(struct ticket_block *block, uint32_t at,
                                                   uint32_t segment)
{
	uint32_t lowest = UINT32_MAX;
	for (uint32_t i = at; i < block->used; i++) {
		const struct open_ticket *ticket = &block->tickets[i];
		if (ticket->state == OPEN_TICKET_GONE)
			continue;
		if (ticket->segment <= segment)
			return ticket;
		lowest = ticket->segment < lowest ? ticket->segment : lowest;
	}
	if (at == 0)
		block->segment_min = lowest;
	return NULL;
}

bool open_tickets_next_before(struct open_tickets *tickets, uint64_t after, uint32_t segment,
                              struct open_ticket *ret_ticket)
{
	if (tickets->blocks.count == 0)
		return false;
	for (uint32_t i = ticket_blocks_seek_place(&tickets->blocks, after + 1);
	     i < tickets->blocks.count; i++) {
		struct ticket_block *block = block_at(tickets, i);
		if (block->segment_min > segment)
			continue;
		const struct open_ticket *found =
			block_next_before(block, ticket_block_seek(block, after + 1), segment);
		if (found) {
			*ret_ticket = *found;
			return true;
		}
	}
	return false;
}

uint64_t open_tickets_count(const struct open_tickets *tickets)
{
	return tickets->open;
}

uint64_t open_tickets_callers(const struct open_tickets *tickets)
{
	return tickets->callers;
}

uint64_t open_tickets_in(const struct open_tickets *tickets, enum open_ticket_state state)
{
	return tickets->counts[state];
}

bool open_tickets_held_before(const struct open_tickets *tickets, uint64_t before,
                              struct open_ticket *ret_ticket)
{
	uint64_t below = before > 0 ? before : UINT64_MAX;
	for (uint32_t i = tickets->blocks.count; i > 0; i--) {
		const struct ticket_block *block = block_at(tickets, i - 1);
		if (ticket_place_at(&tickets->blocks, i - 1)->first >= below ||
		    block->open == block->due)
			continue;
		for (uint32_t at = block->used; at > 0; at--) {
			const struct open_ticket *ticket = &block->tickets[at - 1];
			bool held = ticket->state == OPEN_TICKET_HELD ||
			            (ticket->state == OPEN_TICKET_CHANGING &&
			             ticket->was == OPEN_TICKET_HELD);
			if (!held || ticket->ticket >= below)
				continue;
			*ret_ticket = *ticket;
			return true;
		}
	}
	return false;
}

uint64_t open_tickets_in_segment(const struct open_tickets *tickets, uint32_t segment)
{
	const struct segment_uses *uses = &tickets->segments;
	uint32_t at = segment_seek(uses, segment);
	return at < uses->count && uses->uses[at].segment == segment ? uses->uses[at].count : 0;
}

bool open_tickets_oldest_segment(const struct open_tickets *tickets, uint32_t *ret_segment)
{
	if (tickets->segments.count == 0)
		return false;
	*ret_segment = tickets->segments.uses[0].segment;
	return true;
}

uint64_t open_tickets_bytes(const struct open_tickets *tickets)
{
	const struct ticket_blocks *blocks = &tickets->blocks;
	return sizeof(*tickets) + blocks->room * sizeof(struct ticket_place) +
	       ((uint64_t)blocks->count + blocks->spare_count) * sizeof(struct ticket_block) +
	       tickets->segments.room * sizeof(struct segment_use) +
	       tickets->sink_room * sizeof(struct sink_use);
}

static void check_block(const struct open_tickets *tickets, uint32_t index, uint64_t *counts)
{
	const struct ticket_block *block = block_at(tickets, index);
	bool is_last = index + 1 == tickets->blocks.count;
	uint32_t open = 0, due = 0;
	uint64_t before = ticket_place_at(&tickets->blocks, index)->first - 1;
	for (uint32_t i = 0; i < block->used; i++) {
		const struct open_ticket *ticket = &block->tickets[i];
		CHECK(ticket->ticket > before); /* 1 */
		before = ticket->ticket;
		counts[ticket->state]++;
		if (ticket->state == OPEN_TICKET_GONE)
			continue;
		open++;
		CHECK(ticket->segment >= block->segment_min); /* 4 */
		if (ticket->state != OPEN_TICKET_DUE)
			continue;
		due++;
		const struct sink_use *use = sink_search(tickets, ticket->sink);
		CHECK(use && use->from <= ticket->ticket); /* 3 */
		CHECK(block->due_sinks & sink_bit(tickets, use));
	}
	CHECK(is_last || before < ticket_place_at(&tickets->blocks, index + 1)->first); /* 1 */
	CHECK(open == block->open && due == block->due);                                /* 2 */
	CHECK(open > 0 || is_last);                                                     /* 2 */
}

static uint64_t due_of_sink(const struct open_tickets *tickets, uint32_t sink)
{
	uint64_t due = 0;
	for (uint32_t i = 0; i < tickets->blocks.count; i++)
		for (uint32_t at = 0; at < block_at(tickets, i)->used; at++) {
			const struct open_ticket *ticket = &block_at(tickets, i)->tickets[at];
			due += ticket->state == OPEN_TICKET_DUE && ticket->sink == sink;
		}
	return due;
}

void open_tickets_check(const struct open_tickets *tickets)
{
	uint64_t open = 0;
	uint64_t due = 0;
	uint64_t counts[OPEN_TICKET_STATES] = { 0 };
	for (uint32_t i = 0; i < tickets->blocks.count; i++) {
		check_block(tickets, i, counts);
		open += block_at(tickets, i)->open;
	}
	CHECK(open == tickets->open);
	for (int i = OPEN_TICKET_DUE; i < OPEN_TICKET_STATES; i++)
		CHECK(counts[i] == tickets->counts[i]);
	for (uint32_t i = 0; i < tickets->sink_count; i++) {
		CHECK(tickets->sinks[i].due == due_of_sink(tickets, tickets->sinks[i].sink));
		due += tickets->sinks[i].due;
	}
	CHECK(due == counts[OPEN_TICKET_DUE]);
	uint64_t held = 0;
	for (uint32_t i = 0; i < tickets->segments.count; i++) { /* 5 */
		const struct segment_use *use = &tickets->segments.uses[i];
		CHECK(use->count > 0 && (i == 0 || use[-1].segment < use->segment));
		held += use->count;
	}
	CHECK(held == open);
}
