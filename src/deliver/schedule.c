/*
 * schedule: see schedule.h.
 *
 * Invariants:
 *  1. An entity has one entry in `entities`: its first, which is queued, waiting
 *     or started. All others of it are blocked, in rising order of tickets.
 *  2. A ticket is in the heap exactly when it is waiting, and then heap[at] is it.
 *  3. The queue is a list by `at`. It holds the queued, and skipped ones, whose
 *     places are free when the queue comes to them.
 *  4. `numbers`, if `indexed`, has every ticket that is there.
 */
#include "deliver/schedule.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

#define FIRST_ROOM 256u
#define INDEX_FROM 64u  /* fewer tickets are looked at one by one */
#define KEEP_ROOM 4096u /* an empty schedule gives more than that back */

/* Of a map: what is there at an order or a ticket. */
struct keyed_place {
	uint32_t key[2]; /* 64 bits, so aligned that an item takes 12 bytes */
	uint32_t place;
};

void schedule_init(struct schedule *schedule)
{
	*schedule = (struct schedule){ .free = SCHEDULE_NONE,
		                       .queue_head = SCHEDULE_NONE,
		                       .queue_tail = SCHEDULE_NONE };
	map_init(&schedule->entities, sizeof(struct keyed_place), sizeof(uint64_t));
	map_init(&schedule->numbers, sizeof(struct keyed_place), sizeof(uint64_t));
}

void schedule_free(struct schedule *schedule)
{
	CHECK(schedule->started <= schedule->count);
	mem_free(schedule->tickets);
	mem_free(schedule->heap);
	map_free(&schedule->entities);
	map_free(&schedule->numbers);
	schedule_init(schedule);
}

static struct schedule_ticket *at(const struct schedule *schedule, uint32_t place)
{
	CHECK(place < schedule->used);
	return &schedule->tickets[place];
}

/* ---- memory ---- */

/* Large blocks grow by moving pages, and what is not touched is not there. */
static int grow(void **array, uint32_t *room, size_t size)
{
	uint32_t more = *room ? *room * 2 : FIRST_ROOM;
	if (more >= SCHEDULE_NONE / 2)
		return -ENOMEM;
	void *grown = mem_realloc(*array, more * size);
	if (!grown)
		return -ENOMEM;
	*array = grown;
	*room = more;
	return 0;
}

/* So that nothing after it can fail. */
static int reserve(struct schedule *schedule)
{
	void *tickets = schedule->tickets;
	void *heap = schedule->heap;
	int error = 0;
	if (schedule->used + 2 > schedule->room) /* chain_before() may need a second place */
		error = grow(&tickets, &schedule->room, sizeof(*schedule->tickets));
	schedule->tickets = tickets;
	while (error == 0 && schedule->heap_room < schedule->room)
		error = grow(&heap, &schedule->heap_room, sizeof(*schedule->heap));
	schedule->heap = heap;
	return error;
}

static uint32_t take_place(struct schedule *schedule)
{
	uint32_t place = schedule->free;
	if (place == SCHEDULE_NONE)
		return schedule->used++;
	schedule->free = at(schedule, place)->next;
	return place;
}

static void give_place(struct schedule *schedule, uint32_t place)
{
	struct schedule_ticket *ticket = at(schedule, place);
	ticket->state = SCHEDULE_FREE;
	ticket->next = schedule->free;
	schedule->free = place;
}

/* ---- maps ---- */

/* The place of the entity's first; there is one. */
static uint32_t *first_of(const struct schedule *schedule, uint64_t order)
{
	struct keyed_place *first = map_find(&schedule->entities, &order);
	CHECK(first); /* invariant 1 */
	return &first->place;
}

/* A ticket has come to this place. Without memory there is no index any more. */
static void index_put(struct schedule *schedule, uint32_t place)
{
	if (!schedule->indexed)
		return;
	struct keyed_place *number = map_put(&schedule->numbers, &at(schedule, place)->ticket);
	if (number) {
		number->place = place;
		return;
	}
	map_free(&schedule->numbers);
	schedule->indexed = false;
}

/* ---- heap ---- */

static bool is_before(const struct schedule *schedule, uint32_t a, uint32_t b)
{
	const struct schedule_ticket *left = at(schedule, a);
	const struct schedule_ticket *right = at(schedule, b);
	return left->due_ms != right->due_ms ? left->due_ms < right->due_ms
	                                     : left->ticket < right->ticket;
}

static void heap_put(struct schedule *schedule, uint32_t slot, uint32_t place)
{
	schedule->heap[slot] = place;
	at(schedule, place)->at = slot;
}

static void sift_up(struct schedule *schedule, uint32_t slot, uint32_t place)
{
	while (slot > 0 && is_before(schedule, place, schedule->heap[(slot - 1) / 2])) {
		heap_put(schedule, slot, schedule->heap[(slot - 1) / 2]);
		slot = (slot - 1) / 2;
	}
	heap_put(schedule, slot, place);
}

static void sift_down(struct schedule *schedule, uint32_t slot, uint32_t place)
{
	for (;;) {
		uint32_t child = 2 * slot + 1;
		if (child >= schedule->heap_count)
			break;
		if (child + 1 < schedule->heap_count &&
		    is_before(schedule, schedule->heap[child + 1], schedule->heap[child]))
			child++;
		if (!is_before(schedule, schedule->heap[child], place))
			break;
		heap_put(schedule, slot, schedule->heap[child]);
		slot = child;
	}
	heap_put(schedule, slot, place);
}

static void heap_add(struct schedule *schedule, uint32_t place)
{
	CHECK(schedule->heap_count < schedule->heap_room);
	sift_up(schedule, schedule->heap_count++, place);
}

static void heap_remove(struct schedule *schedule, uint32_t place)
{
	uint32_t slot = at(schedule, place)->at;
	CHECK(slot < schedule->heap_count && schedule->heap[slot] == place); /* invariant 2 */
	uint32_t last = schedule->heap[--schedule->heap_count];
	if (last == place)
		return;
	sift_down(schedule, slot, last);
	sift_up(schedule, at(schedule, last)->at, last);
}

/* ---- queue ---- */

static void queue_add(struct schedule *schedule, uint32_t place)
{
	at(schedule, place)->at = SCHEDULE_NONE;
	if (schedule->queue_tail != SCHEDULE_NONE)
		at(schedule, schedule->queue_tail)->at = place;
	else
		schedule->queue_head = place;
	schedule->queue_tail = place;
	schedule->queued++;
}

static uint32_t queue_pop(struct schedule *schedule)
{
	uint32_t place = schedule->queue_head;
	CHECK(place != SCHEDULE_NONE);
	schedule->queue_head = at(schedule, place)->at;
	if (schedule->queue_head == SCHEDULE_NONE)
		schedule->queue_tail = SCHEDULE_NONE;
	return place;
}

/* ---- moves ---- */

static void ready(struct schedule *schedule, uint32_t place, uint64_t now_ms)
{
	struct schedule_ticket *ticket = at(schedule, place);
	if (ticket->due_ms > now_ms) {
		ticket->state = SCHEDULE_WAITING;
		heap_add(schedule, place);
	} else {
		ticket->state = SCHEDULE_QUEUED;
		queue_add(schedule, place);
	}
}

/* It is not among those that may start any more. A queued one leaves its place in
 * the queue, as a skipped one: that is the caller's to do. */
static void unready(struct schedule *schedule, uint32_t place)
{
	struct schedule_ticket *ticket = at(schedule, place);
	if (ticket->state == SCHEDULE_WAITING)
		heap_remove(schedule, place);
	if (ticket->state == SCHEDULE_QUEUED)
		schedule->queued--;
}

static void chain_behind(struct schedule *schedule, uint32_t head, uint32_t place)
{
	struct schedule_ticket *ticket = at(schedule, place);
	uint32_t before = head;
	ticket->state = SCHEDULE_BLOCKED;
	if (at(schedule, at(schedule, head)->tail)->ticket < ticket->ticket)
		before = at(schedule, head)->tail;
	while (at(schedule, before)->next != SCHEDULE_NONE &&
	       at(schedule, at(schedule, before)->next)->ticket < ticket->ticket)
		before = at(schedule, before)->next;
	ticket->next = at(schedule, before)->next;
	at(schedule, before)->next = place;
	if (ticket->next == SCHEDULE_NONE)
		at(schedule, head)->tail = place;
}

/* It goes before the first of its entity, which has not begun. */
static void chain_before(struct schedule *schedule, uint32_t *first, uint32_t place,
                         uint64_t now_ms)
{
	uint32_t old = *first;
	bool queued = at(schedule, old)->state == SCHEDULE_QUEUED;
	unready(schedule, old);
	if (queued) { /* it stays in the queue as a skipped place and needs a new one */
		uint32_t skipped = old;
		old = take_place(schedule);
		*at(schedule, old) = *at(schedule, skipped);
		at(schedule, skipped)->state = SCHEDULE_SKIPPED;
		index_put(schedule, old);
	}
	at(schedule, old)->state = SCHEDULE_BLOCKED;
	struct schedule_ticket *ticket = at(schedule, place);
	ticket->next = old;
	ticket->tail = at(schedule, old)->next == SCHEDULE_NONE ? old : at(schedule, old)->tail;
	*first = place;
	ready(schedule, place, now_ms);
}

int schedule_add(struct schedule *schedule, const struct schedule_ticket *ticket, uint64_t now_ms,
                 uint32_t *ret_place)
{
	CHECK(ticket->ticket != 0);
	CHECK(schedule->queued <= schedule->count); /* 3 */
	int error = reserve(schedule);
	if (error == 0 && ticket->order != 0)
		error = map_reserve(&schedule->entities, &ticket->order);
	if (error != 0)
		return error;
	uint32_t place = take_place(schedule);
	struct schedule_ticket *own = at(schedule, place);
	*own = *ticket;
	own->next = SCHEDULE_NONE;
	own->tail = place;
	schedule->count++;
	index_put(schedule, place);
	*ret_place = place;
	if (ticket->order == 0) {
		ready(schedule, place, now_ms);
		return 0;
	}
	uint64_t known = schedule->entities.count;
	struct keyed_place *first = map_put(&schedule->entities, &ticket->order);
	CHECK(first); /* reserved */
	if (schedule->entities.count > known) {
		first->place = place;
		ready(schedule, place, now_ms);
	} else if (at(schedule, first->place)->state == SCHEDULE_STARTED ||
	           at(schedule, first->place)->ticket < ticket->ticket) {
		chain_behind(schedule, first->place, place);
	} else {
		chain_before(schedule, &first->place, place, now_ms);
	}
	return 0;
}

/* ---- starting ---- */

static void drop_skipped(struct schedule *schedule)
{
	while (schedule->queue_head != SCHEDULE_NONE &&
	       at(schedule, schedule->queue_head)->state == SCHEDULE_SKIPPED)
		give_place(schedule, queue_pop(schedule));
}

bool schedule_is_due(const struct schedule *schedule, uint64_t now_ms)
{
	return schedule->queued > 0 || schedule_due_ms(schedule) <= now_ms;
}

uint64_t schedule_due_ms(const struct schedule *schedule)
{
	if (schedule->heap_count == 0)
		return UINT64_MAX;
	return at(schedule, schedule->heap[0])->due_ms;
}

uint32_t schedule_start(struct schedule *schedule, uint64_t now_ms)
{
	bool from_heap = schedule->heap_count > 0 && schedule_due_ms(schedule) <= now_ms;
	if (!from_heap && schedule->queued == 0)
		return SCHEDULE_NONE;
	if (from_heap && schedule->queued > 0)
		from_heap = schedule->heap_turn = !schedule->heap_turn;
	uint32_t place;
	if (from_heap) {
		place = schedule->heap[0];
		heap_remove(schedule, place);
	} else {
		drop_skipped(schedule);
		place = queue_pop(schedule);
		CHECK(at(schedule, place)->state == SCHEDULE_QUEUED);
		schedule->queued--;
	}
	at(schedule, place)->state = SCHEDULE_STARTED;
	schedule->started++;
	return place;
}

bool schedule_start_this(struct schedule *schedule, uint32_t place)
{
	CHECK(schedule->started < schedule->count);
	if (at(schedule, place)->state != SCHEDULE_QUEUED)
		return false;
	drop_skipped(schedule);
	if (schedule->queue_head != place)
		return false;
	queue_pop(schedule);
	schedule->queued--;
	at(schedule, place)->state = SCHEDULE_STARTED;
	schedule->started++;
	return true;
}

void schedule_again(struct schedule *schedule, uint32_t place, uint64_t due_ms, uint64_t now_ms)
{
	struct schedule_ticket *ticket = at(schedule, place);
	CHECK(ticket->state == SCHEDULE_STARTED);
	schedule->started--;
	ticket->due_ms = due_ms;
	uint32_t head = ticket->next;
	if (ticket->order == 0 || head == SCHEDULE_NONE ||
	    at(schedule, head)->ticket > ticket->ticket) {
		ready(schedule, place, now_ms);
		return;
	}
	/* A lower number came while it was under way: that one goes first. */
	*first_of(schedule, ticket->order) = head;
	at(schedule, head)->tail = ticket->tail;
	ready(schedule, head, now_ms);
	chain_behind(schedule, head, place);
}

bool schedule_hurry(struct schedule *schedule, uint32_t place)
{
	CHECK(schedule->heap_count <= schedule->count); /* 2 */
	struct schedule_ticket *ticket = at(schedule, place);
	if (ticket->state != SCHEDULE_WAITING)
		return false;
	heap_remove(schedule, place);
	ticket->due_ms = 0;
	ticket->state = SCHEDULE_QUEUED;
	queue_add(schedule, place);
	return true;
}

/* ---- leaving ---- */

/* The next of its entity moves up; it is due when it was due by itself. */
static void leave_first(struct schedule *schedule, uint32_t place)
{
	const struct schedule_ticket *ticket = at(schedule, place);
	uint32_t next = ticket->next;
	if (next == SCHEDULE_NONE) {
		map_remove(&schedule->entities, &ticket->order);
		return;
	}
	uint32_t *first = first_of(schedule, ticket->order);
	CHECK(*first == place); /* invariant 1 */
	*first = next;
	at(schedule, next)->tail = ticket->tail;
	at(schedule, next)->state = SCHEDULE_WAITING;
	heap_add(schedule, next);
}

void schedule_remove(struct schedule *schedule, uint32_t place)
{
	struct schedule_ticket *ticket = at(schedule, place);
	uint8_t state = ticket->state;
	CHECK(state != SCHEDULE_FREE && state != SCHEDULE_SKIPPED);
	map_remove(&schedule->numbers, &ticket->ticket);
	unready(schedule, place);
	schedule->started -= state == SCHEDULE_STARTED;
	if (state == SCHEDULE_BLOCKED) {
		uint32_t head = *first_of(schedule, ticket->order), before = head;
		while (at(schedule, before)->next != place)
			before = at(schedule, before)->next;
		at(schedule, before)->next = ticket->next;
		if (at(schedule, head)->tail == place)
			at(schedule, head)->tail = before;
	} else if (ticket->order != 0) {
		leave_first(schedule, place);
	}
	if (state == SCHEDULE_QUEUED)
		ticket->state = SCHEDULE_SKIPPED;
	else
		give_place(schedule, place);
	schedule->count--;
	if (schedule->count == 0 && schedule->room > KEEP_ROOM) {
		bool heap_turn = schedule->heap_turn;
		schedule_free(schedule);
		schedule->heap_turn = heap_turn;
	}
}

/* ---- looking ---- */

static bool is_there(const struct schedule_ticket *ticket)
{
	return ticket->state != SCHEDULE_FREE && ticket->state != SCHEDULE_SKIPPED;
}

uint32_t schedule_find(struct schedule *schedule, uint64_t ticket)
{
	if (!schedule->indexed && schedule->count >= INDEX_FROM) {
		schedule->indexed = true;
		for (uint32_t i = 0; i < schedule->used; i++)
			if (is_there(&schedule->tickets[i]))
				index_put(schedule, i);
	}
	if (schedule->indexed) {
		const struct keyed_place *number = map_find(&schedule->numbers, &ticket);
		return number ? number->place : SCHEDULE_NONE;
	}
	for (uint32_t i = 0; i < schedule->used; i++)
		if (schedule->tickets[i].ticket == ticket && is_there(&schedule->tickets[i]))
			return i;
	return SCHEDULE_NONE;
}

uint32_t schedule_first(const struct schedule *schedule, uint32_t place)
{
	CHECK(place < schedule->used);
	uint64_t order = at(schedule, place)->order;
	return order == 0 ? place : *first_of(schedule, order);
}

uint32_t schedule_each(const struct schedule *schedule, uint32_t place)
{
	for (uint32_t i = place == SCHEDULE_NONE ? 0 : place + 1; i < schedule->used; i++)
		if (is_there(&schedule->tickets[i]))
			return i;
	return SCHEDULE_NONE;
}
