/* open_tickets: see open_tickets.h. */
#include "store/local/index/open_tickets.h"

#include <errno.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/local/index/segment_uses.h"
#include "store/local/index/ticket_blocks.h"
#include "store/store.h"

/*
 * Invariants (open_tickets_check()), beside those of ticket_blocks.h:
 * 3. No due ticket of a sink is below the sink's `from`; the sink of a due ticket
 *    has its bit in due_sinks of the ticket's block.
 * 4. No ticket of a block that is open has a segment below segment_min.
 * 5. The segments' counts are those of the open tickets in them.
 */

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
	ticket_blocks_clear(&tickets->blocks);
	segment_uses_clear(&tickets->segments);
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

/* --- states --------------------------------------------------------------- */

static inline void count_due(struct open_tickets *tickets, struct ticket_block *block,
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

static inline void uncount_due(struct open_tickets *tickets, struct ticket_block *block,
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
	struct ticket_block *block = block_at(tickets, index);
	if (ticket->state == OPEN_TICKET_DUE)
		uncount_due(tickets, block, ticket);
	tickets->counts[ticket->state]--;
	tickets->counts[state]++;
	ticket->state = (uint8_t)state;
	if (state == OPEN_TICKET_DUE)
		count_due(tickets, block, ticket);
}

static void count_open(struct open_tickets *tickets, struct ticket_block *block,
                       const struct open_ticket *ticket)
{
	block->open++;
	tickets->open++;
	tickets->callers += ticket->sink == STORE_SINK_CALLER;
	if (ticket->segment < block->segment_min)
		block->segment_min = ticket->segment;
	segment_uses_add(&tickets->segments, ticket->segment);
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
	count_open(tickets, block_at(tickets, index), entry);
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

static struct open_ticket *seek_leased(struct open_tickets *tickets, uint64_t ticket,
                                       uint32_t attempt, uint32_t *ret_index)
{
	struct open_ticket *found = seek(tickets, ticket, ret_index);
	if (!found || found->state != OPEN_TICKET_LEASED || found->attempt != attempt)
		return NULL;
	return found;
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

uint64_t open_tickets_in_segment(const struct open_tickets *tickets, uint32_t segment)
{
	return segment_uses_of(&tickets->segments, segment);
}

bool open_tickets_oldest_segment(const struct open_tickets *tickets, uint32_t *ret_segment)
{
	return segment_uses_oldest(&tickets->segments, ret_segment);
}

uint64_t open_tickets_bytes(const struct open_tickets *tickets)
{
	return sizeof(*tickets) + ticket_blocks_bytes(&tickets->blocks) +
	       segment_uses_bytes(&tickets->segments) +
	       tickets->sink_room * sizeof(struct sink_use);
}

static void check_due(const struct open_tickets *tickets, const struct ticket_block *block,
                      const struct open_ticket *ticket)
{
	const struct sink_use *use = sink_search(tickets, ticket->sink);
	CHECK(use && use->from <= ticket->ticket); /* 3 */
	CHECK(block->due_sinks & sink_bit(tickets, use));
}

static void check_block(const struct open_tickets *tickets, const struct ticket_block *block,
                        uint64_t *counts)
{
	for (uint32_t i = 0; i < block->used; i++) {
		const struct open_ticket *ticket = &block->tickets[i];
		counts[ticket->state]++;
		if (ticket->state == OPEN_TICKET_DUE)
			check_due(tickets, block, ticket);
		CHECK(ticket->state == OPEN_TICKET_GONE ||
		      ticket->segment >= block->segment_min); /* 4 */
	}
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
	ticket_blocks_check(&tickets->blocks);
	for (uint32_t i = 0; i < tickets->blocks.count; i++) {
		check_block(tickets, block_at(tickets, i), counts);
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
	CHECK(segment_uses_check(&tickets->segments) == open); /* 5 */
}
