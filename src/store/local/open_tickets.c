/* open_tickets: see open_tickets.h. */
#include "store/local/open_tickets.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/store.h"

#define BLOCK_TICKETS 512u

/*
 * Tickets in ascending order, the gone among them until the block is packed.
 *
 * Invariants (open_tickets_check()):
 * 1. first of a place <= all tickets of its block < first of the next place.
 * 2. open and due of a block count its tickets in those states; only the last
 *    block may have none open.
 * 3. No due ticket of a sink is below the sink's `from`; the sink of a due ticket
 *    has its bit in due_sinks of the ticket's block.
 * 4. No ticket of a block that is open has a segment below segment_min.
 * 5. The segments' counts are those of the open tickets in them, none is zero.
 */
struct block {
	struct block *next; /* of the spare ones */
	uint32_t used;
	uint32_t open;
	uint32_t due;
	uint32_t segment_min;
	uint32_t sought;    /* where block_seek() was last */
	uint64_t due_sinks; /* bits of sinks that may have due tickets here */
	struct open_ticket tickets[BLOCK_TICKETS];
};

struct place {
	uint64_t first;
	struct block *block;
};

struct segment_use {
	uint32_t segment;
	uint32_t count;
};

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
	uint64_t moves; /* how often entries were moved, or blocks */
	/* The directory: places[head … head + count) of room. */
	struct place *places;
	uint32_t head;
	uint32_t count;
	uint32_t room;
	struct block *spare;
	uint32_t spare_count;
	struct segment_use *segments; /* ascending */
	uint32_t segment_count;
	uint32_t segment_room;
	struct sink_use *sinks;
	uint32_t sink_count;
	uint32_t sink_room;
	struct sink_use *sought_sink; /* the last that was looked for, or NULL */
};

static struct place *place_at(const struct open_tickets *tickets, uint32_t index)
{
	return &tickets->places[tickets->head + index];
}

static struct block *block_at(const struct open_tickets *tickets, uint32_t index)
{
	return place_at(tickets, index)->block;
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
	for (uint32_t i = 0; i < tickets->count; i++)
		mem_free(block_at(tickets, i));
	while (tickets->spare) {
		struct block *next = tickets->spare->next;
		mem_free(tickets->spare);
		tickets->spare = next;
	}
	mem_free(tickets->places);
	mem_free(tickets->segments);
	mem_free(tickets->sinks);
	return mem_free(tickets);
}

/* --- segments ----------------------------------------------------------- */

/* The first with a number of at least `segment`. */
static uint32_t segment_seek(const struct open_tickets *tickets, uint32_t segment)
{
	uint32_t low = 0;
	uint32_t high = tickets->segment_count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (tickets->segments[middle].segment < segment)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int segment_reserve(struct open_tickets *tickets)
{
	if (tickets->segment_count < tickets->segment_room)
		return 0;
	uint32_t room = tickets->segment_room ? tickets->segment_room * 2 : 16;
	struct segment_use *segments = mem_realloc(tickets->segments, room * sizeof(*segments));
	if (!segments)
		return -ENOMEM;
	tickets->segments = segments;
	tickets->segment_room = room;
	return 0;
}

static void segment_add(struct open_tickets *tickets, uint32_t segment)
{
	uint32_t at = segment_seek(tickets, segment);
	struct segment_use *use = &tickets->segments[at];
	if (at == tickets->segment_count || use->segment != segment) {
		CHECK(tickets->segment_count < tickets->segment_room);
		memmove(use + 1, use, (tickets->segment_count - at) * sizeof(*use));
		*use = (struct segment_use){ .segment = segment };
		tickets->segment_count++;
	}
	use->count++;
}

static void segment_subtract(struct open_tickets *tickets, uint32_t segment)
{
	uint32_t at = segment_seek(tickets, segment);
	CHECK(at < tickets->segment_count && tickets->segments[at].segment == segment);
	struct segment_use *use = &tickets->segments[at];
	if (--use->count > 0)
		return;
	tickets->segment_count--;
	memmove(use, use + 1, (tickets->segment_count - at) * sizeof(*use));
}

bool open_tickets_oldest_segment(const struct open_tickets *tickets, uint32_t *ret_segment)
{
	if (tickets->segment_count == 0)
		return false;
	*ret_segment = tickets->segments[0].segment;
	return true;
}

uint64_t open_tickets_in_segment(const struct open_tickets *tickets, uint32_t segment)
{
	uint32_t at = segment_seek(tickets, segment);
	if (at == tickets->segment_count || tickets->segments[at].segment != segment)
		return 0;
	return tickets->segments[at].count;
}

/* --- sinks ---------------------------------------------------------------- */

static struct sink_use *sink_search(const struct open_tickets *tickets, uint32_t sink)
{
	for (uint32_t i = 0; i < tickets->sink_count; i++)
		if (tickets->sinks[i].sink == sink)
			return &tickets->sinks[i];
	return NULL;
}

/* Whoever asks for one goes on asking for it. */
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

/* --- blocks and their directory ------------------------------------------ */

static int spare_reserve(struct open_tickets *tickets, uint32_t count)
{
	while (tickets->spare_count < count) {
		struct block *block = mem_alloc(sizeof(*block));
		if (!block)
			return -ENOMEM;
		block->next = tickets->spare;
		tickets->spare = block;
		tickets->spare_count++;
	}
	return 0;
}

static struct block *spare_take(struct open_tickets *tickets)
{
	CHECK(tickets->spare_count > 0);
	struct block *block = tickets->spare;
	tickets->spare = block->next;
	tickets->spare_count--;
	block->used = block->open = block->due = block->sought = 0;
	block->due_sinks = 0;
	block->segment_min = UINT32_MAX;
	return block;
}

/* Room in the directory for `count` more places at its end. */
static int places_reserve(struct open_tickets *tickets, uint32_t count)
{
	if (tickets->head + tickets->count + count <= tickets->room)
		return 0;
	if (tickets->head < tickets->room / 2 || tickets->count + count > tickets->room) {
		uint32_t room = (tickets->count + count) * 2 + 16;
		struct place *places = mem_realloc(tickets->places,
		                                   (tickets->head + room) * sizeof(*places));
		if (!places)
			return -ENOMEM;
		tickets->places = places;
		tickets->room = tickets->head + room;
	}
	if (tickets->head > 0)
		memmove(tickets->places, place_at(tickets, 0),
		        tickets->count * sizeof(struct place));
	tickets->head = 0;
	return 0;
}

/* A place at `index`; a spare block and room were reserved. */
static struct block *place_insert(struct open_tickets *tickets, uint32_t index, uint64_t first)
{
	CHECK(index <= tickets->count);
	CHECK(tickets->head + tickets->count < tickets->room);
	struct place *place = place_at(tickets, index);
	memmove(place + 1, place, (tickets->count - index) * sizeof(*place));
	*place = (struct place){ first, spare_take(tickets) };
	tickets->count++;
	tickets->moves++;
	return place->block;
}

static void place_remove(struct open_tickets *tickets, uint32_t index)
{
	CHECK(index < tickets->count);
	struct place *place = place_at(tickets, index);
	mem_free(place->block);
	if (index == 0)
		tickets->head++;
	else
		memmove(place, place + 1, (tickets->count - index - 1) * sizeof(*place));
	tickets->count--;
	tickets->moves++;
}

/* The last place whose first is not above the ticket; 0 if there is none. */
static uint32_t place_seek(const struct open_tickets *tickets, uint64_t ticket)
{
	uint32_t low = 0;
	uint32_t high = tickets->count;
	/* New tickets come at the end, outcomes mostly near the beginning. */
	if (high > 0 && place_at(tickets, high - 1)->first <= ticket)
		return high - 1;
	if (high > 1 && place_at(tickets, 1)->first > ticket)
		return 0;
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		if (place_at(tickets, middle)->first <= ticket)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Is this the first in the block that is not below the ticket? */
static bool is_place(const struct block *block, uint32_t at, uint64_t ticket)
{
	return at <= block->used && (at == block->used || block->tickets[at].ticket >= ticket) &&
	       (at == 0 || block->tickets[at - 1].ticket < ticket);
}

/* The first in the block that is not below the ticket. */
static uint32_t block_seek(struct block *block, uint64_t ticket)
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

static void block_pack(struct block *block)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < block->used; i++) {
		if (block->tickets[i].state != OPEN_TICKET_GONE)
			block->tickets[kept++] = block->tickets[i];
	}
	CHECK(kept == block->open);
	block->used = kept;
}

static struct open_ticket *seek(const struct open_tickets *tickets, uint64_t ticket,
                                uint32_t *ret_index)
{
	if (tickets->count == 0)
		return NULL;
	uint32_t index = place_seek(tickets, ticket);
	struct block *block = block_at(tickets, index);
	uint32_t at = block_seek(block, ticket);
	if (at == block->used || block->tickets[at].ticket != ticket)
		return NULL;
	if (block->tickets[at].state == OPEN_TICKET_GONE)
		return NULL;
	*ret_index = index;
	return &block->tickets[at];
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

/* --- states --------------------------------------------------------------- */

static inline void count_due(struct open_tickets *tickets, struct block *block,
                             const struct open_ticket *ticket)
{
	struct sink_use *use = sink_find(tickets, ticket->sink);
	CHECK(use);
	use->due++;
	if (unlikely(ticket->ticket < use->from)) {
		use->from = ticket->ticket;
		use->moves = UINT64_MAX;
	}
	block->due++;
	block->due_sinks |= sink_bit(tickets, use);
}

static inline void uncount_due(struct open_tickets *tickets, struct block *block,
                               const struct open_ticket *ticket)
{
	sink_find(tickets, ticket->sink)->due--;
	if (--block->due == 0)
		block->due_sinks = 0;
}

/* Every change of state goes through here, so that the counts follow. */
static inline void set_state(struct open_tickets *tickets, uint32_t index,
                             struct open_ticket *ticket, enum open_ticket_state state)
{
	struct block *block = block_at(tickets, index);
	if (ticket->state == OPEN_TICKET_DUE)
		uncount_due(tickets, block, ticket);
	tickets->counts[ticket->state]--;
	tickets->counts[state]++;
	ticket->state = (uint8_t)state;
	if (state == OPEN_TICKET_DUE)
		count_due(tickets, block, ticket);
}

static void count_open(struct open_tickets *tickets, struct block *block,
                       const struct open_ticket *ticket)
{
	block->open++;
	tickets->open++;
	tickets->callers += ticket->sink == STORE_SINK_CALLER;
	if (ticket->segment < block->segment_min)
		block->segment_min = ticket->segment;
	segment_add(tickets, ticket->segment);
}

/* --- insert ---------------------------------------------------------------- */

int open_tickets_reserve(struct open_tickets *tickets, uint32_t count)
{
	if (tickets->max_open && tickets->open + count > tickets->max_open)
		return ERR_FULL;
	uint32_t room = 0;
	if (tickets->count > 0)
		room = BLOCK_TICKETS - block_at(tickets, tickets->count - 1)->used;
	uint32_t blocks = count > room ? (count - room + BLOCK_TICKETS - 1) / BLOCK_TICKETS : 0;
	int error = places_reserve(tickets, blocks + 1);
	if (!error)
		error = spare_reserve(tickets, blocks);
	if (!error)
		error = segment_reserve(tickets);
	return error;
}

static void relocate(struct open_tickets *tickets, uint32_t index, struct open_ticket *at,
                     const struct open_ticket *to)
{
	struct block *block = block_at(tickets, index);
	segment_add(tickets, to->segment);
	segment_subtract(tickets, at->segment);
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
	if (segment_reserve(tickets) != 0)
		return -ENOMEM;
	relocate(tickets, index, at, ticket);
	return 0;
}

/* Where the block is full: its upper part from `at` on goes to a block of its
 * own, so that a run of late tickets then finds room at the end of the lower. */
static void split(struct open_tickets *tickets, uint32_t index, uint32_t at)
{
	struct block *lower = block_at(tickets, index);
	struct block *upper = place_insert(tickets, index + 1, lower->tickets[at].ticket);
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
}

/* A free entry for this ticket, which is not open; sets *ret_index. */
static struct open_ticket *make_entry(struct open_tickets *tickets, uint64_t ticket,
                                      uint32_t *ret_index)
{
	if (tickets->count == 0)
		place_insert(tickets, 0, ticket);
	uint32_t index = place_seek(tickets, ticket);
	struct block *block = block_at(tickets, index);
	uint32_t at = block_seek(block, ticket);
	if (at < block->used && block->tickets[at].ticket == ticket) {
		*ret_index = index; /* was here and is gone */
		return &block->tickets[at];
	}
	if (block->used == BLOCK_TICKETS) {
		if (at == BLOCK_TICKETS) {
			block = place_insert(tickets, ++index, ticket);
		} else if (at == 0) {
			/* Its own first may be gone, and be lower than the ticket: invariant 1. */
			place_at(tickets, index)->first = block->tickets[0].ticket;
			block = place_insert(tickets, index, ticket);
		} else {
			split(tickets, index, at);
		}
		at = block->used;
	}
	struct open_ticket *entry = &block->tickets[at];
	if (at < block->used) {
		memmove(entry + 1, entry, (block->used - at) * sizeof(*entry));
		tickets->moves++;
	}
	*entry = (struct open_ticket){ .ticket = ticket };
	block->used++;
	if (ticket < place_at(tickets, index)->first)
		place_at(tickets, index)->first = ticket;
	*ret_index = index;
	return entry;
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
	if (places_reserve(tickets, 1) != 0 || segment_reserve(tickets) != 0 ||
	    sink_reserve(tickets, ticket->sink) != 0)
		return -ENOMEM;
	struct open_ticket *entry = seek(tickets, ticket->ticket, &index);
	if (entry) {
		struct open_ticket to = *ticket;
		to.note_segment = entry->note_segment;
		to.note_offset = entry->note_offset;
		relocate(tickets, index, entry, &to);
		return 0;
	}
	bool may_need_block = tickets->count == 0 ||
	                      block_at(tickets, place_seek(tickets, ticket->ticket))->used ==
	                              BLOCK_TICKETS;
	if (may_need_block && spare_reserve(tickets, 1) != 0)
		return -ENOMEM;
	entry = make_entry(tickets, ticket->ticket, &index);
	*entry = *ticket;
	entry->state = OPEN_TICKET_GONE;
	count_open(tickets, block_at(tickets, index), entry);
	set_state(tickets, index, entry, is_aside(ticket->state) ? ticket->state : OPEN_TICKET_DUE);
	/* split() may leave an upper part of which all are gone: invariant 2. */
	if (index + 2 < tickets->count && block_at(tickets, index + 1)->open == 0)
		place_remove(tickets, index + 1);
	return 0;
}

/* --- take, settle, drop ------------------------------------------------------ */

/* The first of the sink's from `at` on. A block that has none at all forgets the
 * sink, and is skipped next time. */
static struct open_ticket *block_first_due(const struct open_tickets *tickets, struct block *block,
                                           uint32_t at, const struct sink_use *use)
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
	if (unlikely(use->moves != tickets->moves)) {
		use->index = place_seek(tickets, use->from);
		use->at = block_seek(block_at(tickets, use->index), use->from);
		use->moves = tickets->moves;
	}
	uint64_t bit = sink_bit(tickets, use);
	struct open_ticket *ticket = NULL;
	for (;; use->index++, use->at = 0) {
		CHECK(use->index < tickets->count);
		struct block *block = block_at(tickets, use->index);
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
	if (likely(use->moves == tickets->moves)) {
		struct block *block = block_at(tickets, use->index);
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

bool open_tickets_peek(struct open_tickets *tickets, uint32_t sink, struct open_ticket *ret_ticket)
{
	uint32_t index;
	const struct open_ticket *ticket = first_due(tickets, sink, &index);
	if (ticket)
		*ret_ticket = *ticket;
	return ticket != NULL;
}

bool open_tickets_take(struct open_tickets *tickets, uint32_t sink, struct open_ticket *ret_ticket)
{
	uint32_t index;
	struct open_ticket *ticket = first_due(tickets, sink, &index);
	if (!ticket)
		return false;
	set_state(tickets, index, ticket, OPEN_TICKET_LEASED);
	ticket->attempt = (uint16_t)store_attempt_next(ticket->attempt);
	*ret_ticket = *ticket;
	struct sink_use *use = tickets->sought_sink; /* set_state() sought it */
	use->from = ticket->ticket + 1;
	use->at++;
	return true;
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

static struct open_ticket *seek_leased(struct open_tickets *tickets, uint64_t ticket,
                                       uint32_t attempt, uint32_t *ret_index)
{
	struct open_ticket *found = seek(tickets, ticket, ret_index);
	if (!found || found->state != OPEN_TICKET_LEASED || found->attempt != attempt)
		return NULL;
	return found;
}

int open_tickets_release(struct open_tickets *tickets, uint64_t ticket, uint32_t attempt)
{
	uint32_t index;
	struct open_ticket *found = seek_leased(tickets, ticket, attempt, &index);
	if (!found)
		return ERR_FENCED;
	set_state(tickets, index, found, OPEN_TICKET_DUE);
	return 0;
}

int open_tickets_settle(struct open_tickets *tickets, uint64_t ticket, uint32_t attempt)
{
	uint32_t index;
	struct open_ticket *found = seek_leased(tickets, ticket, attempt, &index);
	if (!found)
		return ERR_FENCED;
	set_state(tickets, index, found, OPEN_TICKET_CLOSING);
	return 0;
}

bool open_tickets_unsettle(struct open_tickets *tickets, uint64_t ticket)
{
	uint32_t index;
	struct open_ticket *found = seek(tickets, ticket, &index);
	if (!found || found->state != OPEN_TICKET_CLOSING)
		return false;
	set_state(tickets, index, found, OPEN_TICKET_LEASED);
	return true;
}

/* Puts the block at index + 1 behind the tickets of the one at index. */
static void join(struct open_tickets *tickets, uint32_t index)
{
	struct block *lower = block_at(tickets, index);
	struct block *upper = block_at(tickets, index + 1);
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
	place_remove(tickets, index + 1);
}

/*
 * After a drop. The last block stays as it is, since open_tickets_reserve()
 * counts on its room; others go when empty and are joined when sparse.
 */
static void tidy(struct open_tickets *tickets, uint32_t index)
{
	struct block *block = block_at(tickets, index);
	if (index + 1 == tickets->count) {
		if (block->open == 0) {
			block->used = 0;
			tickets->moves++;
		}
		return;
	}
	if (block->open == 0) {
		place_remove(tickets, index);
		return;
	}
	if (block->open > BLOCK_TICKETS / 4)
		return;
	if (index > 0 && block_at(tickets, index - 1)->open + block->open <= BLOCK_TICKETS / 2)
		join(tickets, index - 1);
	else if (index + 2 < tickets->count &&
	         block_at(tickets, index + 1)->open + block->open <= BLOCK_TICKETS / 2)
		join(tickets, index);
}

bool open_tickets_drop(struct open_tickets *tickets, uint64_t ticket)
{
	uint32_t index;
	struct open_ticket *found = seek(tickets, ticket, &index);
	if (!found)
		return false;
	set_state(tickets, index, found, OPEN_TICKET_GONE);
	segment_subtract(tickets, found->segment);
	block_at(tickets, index)->open--;
	tickets->open--;
	tickets->callers -= found->sink == STORE_SINK_CALLER;
	tidy(tickets, index);
	return true;
}

/* --- walks -------------------------------------------------------------------- */

bool open_tickets_next(const struct open_tickets *tickets, uint64_t after,
                       struct open_ticket *ret_ticket)
{
	if (tickets->count == 0)
		return false;
	for (uint32_t i = place_seek(tickets, after + 1); i < tickets->count; i++) {
		struct block *block = block_at(tickets, i);
		for (uint32_t at = block_seek(block, after + 1); at < block->used; at++) {
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
static const struct open_ticket *block_next_before(struct block *block, uint32_t at,
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
	if (tickets->count == 0)
		return false;
	for (uint32_t i = place_seek(tickets, after + 1); i < tickets->count; i++) {
		struct block *block = block_at(tickets, i);
		if (block->segment_min > segment)
			continue;
		const struct open_ticket *found =
			block_next_before(block, block_seek(block, after + 1), segment);
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
	for (uint32_t i = tickets->count; i > 0; i--) {
		const struct block *block = block_at(tickets, i - 1);
		if (place_at(tickets, i - 1)->first >= below || block->open == block->due)
			continue;
		for (uint32_t at = block->used; at > 0; at--) {
			const struct open_ticket *ticket = &block->tickets[at - 1];
			bool held = ticket->state == OPEN_TICKET_HELD ||
			            (ticket->state == OPEN_TICKET_LEAVING &&
			             ticket->was == OPEN_TICKET_HELD);
			if (!held || ticket->ticket >= below)
				continue;
			*ret_ticket = *ticket;
			return true;
		}
	}
	return false;
}

uint64_t open_tickets_due_at(const struct open_tickets *tickets, uint32_t sink)
{
	const struct sink_use *use = sink_search(tickets, sink);
	return use ? use->due : 0;
}

uint64_t open_tickets_bytes(const struct open_tickets *tickets)
{
	return sizeof(*tickets) + tickets->room * sizeof(struct place) +
	       tickets->segment_room * sizeof(struct segment_use) +
	       tickets->sink_room * sizeof(struct sink_use) +
	       ((uint64_t)tickets->count + tickets->spare_count) * sizeof(struct block);
}

static void check_due(const struct open_tickets *tickets, const struct block *block,
                      const struct open_ticket *ticket)
{
	const struct sink_use *use = sink_search(tickets, ticket->sink);
	CHECK(use && use->from <= ticket->ticket); /* 3 */
	CHECK(block->due_sinks & sink_bit(tickets, use));
}

static void check_block(const struct open_tickets *tickets, uint32_t index, uint64_t *counts)
{
	const struct block *block = block_at(tickets, index);
	uint32_t open = 0;
	uint32_t due = 0;
	uint64_t before = place_at(tickets, index)->first - 1;
	for (uint32_t i = 0; i < block->used; i++) {
		const struct open_ticket *ticket = &block->tickets[i];
		CHECK(ticket->ticket > before); /* 1 */
		before = ticket->ticket;
		open += ticket->state != OPEN_TICKET_GONE;
		due += ticket->state == OPEN_TICKET_DUE;
		counts[ticket->state]++;
		if (ticket->state == OPEN_TICKET_DUE)
			check_due(tickets, block, ticket);
		CHECK(ticket->state == OPEN_TICKET_GONE || ticket->segment >= block->segment_min);
	}
	CHECK(open == block->open && due == block->due); /* 2 */
	CHECK(open > 0 || index + 1 == tickets->count);  /* 2 */
	CHECK(index + 1 == tickets->count || before < place_at(tickets, index + 1)->first);
}

void open_tickets_check(const struct open_tickets *tickets)
{
	uint64_t open = 0;
	uint64_t due = 0;
	uint64_t counts[OPEN_TICKET_STATES] = { 0 };
	for (uint32_t i = 0; i < tickets->count; i++) {
		check_block(tickets, i, counts);
		open += block_at(tickets, i)->open;
	}
	CHECK(open == tickets->open);
	for (int i = OPEN_TICKET_DUE; i < OPEN_TICKET_STATES; i++)
		CHECK(counts[i] == tickets->counts[i]);
	for (uint32_t i = 0; i < tickets->sink_count; i++)
		due += tickets->sinks[i].due;
	CHECK(due == counts[OPEN_TICKET_DUE]);
	for (uint32_t i = 0; i < tickets->segment_count; i++) {
		CHECK(tickets->segments[i].count > 0); /* 5 */
		CHECK(i == 0 || tickets->segments[i - 1].segment < tickets->segments[i].segment);
		open -= tickets->segments[i].count;
	}
	CHECK(open == 0);
}
