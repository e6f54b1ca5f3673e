/*
 * schedule: see schedule.h.
 *
 * Invariants:
 *  1. An entity has one entry in `entities`: its first, which is queued, waiting
 *     or started. All others of it are blocked, in rising order of tickets.
 *  2. A ticket is in the heap exactly when it is waiting, and then heap[at] is it.
 *  3. The queue is a list by `at`. It holds the queued, and skipped ones, whose
 *     places are free when the queue comes to them.
 *  4. `numbers`, if it is there, has every ticket that is.
 */
#include "deliver/schedule.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

#define FIRST_ROOM 256u
#define INDEX_FROM 64u  /* fewer tickets are looked at one by one */
#define KEEP_ROOM 4096u /* an empty schedule gives more than that back */

void schedule_init(struct schedule *schedule)
{
	*schedule = (struct schedule){ .free = SCHEDULE_NONE,
		                       .queue_head = SCHEDULE_NONE,
		                       .queue_tail = SCHEDULE_NONE };
}

static void map_free(struct schedule_map *map)
{
	mem_free(map->places);
	*map = (struct schedule_map){ 0 };
}

void schedule_free(struct schedule *schedule)
{
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

/* What a map knows its tickets by. */
static uint64_t key_at(const struct schedule *schedule, const struct schedule_map *map,
                       uint32_t place)
{
	return map == &schedule->entities ? at(schedule, place)->order
	                                  : at(schedule, place)->ticket;
}

static uint32_t map_bucket(const struct schedule_map *map, uint64_t key)
{
	return (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (map->room - 1);
}

/* Where the key is, or would be. */
static uint32_t map_find(const struct schedule *schedule, const struct schedule_map *map,
                         uint64_t key)
{
	uint32_t bucket = map_bucket(map, key);
	while (map->places[bucket] != 0 && key_at(schedule, map, map->places[bucket] - 1) != key)
		bucket = (bucket + 1) & (map->room - 1);
	return bucket;
}

static int map_grow(const struct schedule *schedule, struct schedule_map *map)
{
	struct schedule_map old = *map;
	uint32_t room = old.room ? old.room * 2 : FIRST_ROOM;
	uint32_t *places = mem_zalloc(room, sizeof(*places));
	if (!places)
		return -ENOMEM;
	map->places = places;
	map->room = room;
	for (uint32_t i = 0; i < old.room; i++) {
		if (old.places[i] == 0)
			continue;
		uint64_t key = key_at(schedule, map, old.places[i] - 1);
		places[map_find(schedule, map, key)] = old.places[i];
	}
	mem_free(old.places);
	return 0;
}

static int map_reserve(const struct schedule *schedule, struct schedule_map *map)
{
	return map->count < map->room / 4 * 3 ? 0 : map_grow(schedule, map);
}

/* Those behind the hole move up, so that no search stops short of them. */
static void map_remove(const struct schedule *schedule, struct schedule_map *map, uint64_t key)
{
	uint32_t mask = map->room - 1;
	uint32_t hole = map_find(schedule, map, key);
	CHECK(map->places[hole] != 0);
	for (uint32_t next = (hole + 1) & mask; map->places[next] != 0; next = (next + 1) & mask) {
		uint64_t other = key_at(schedule, map, map->places[next] - 1);
		if (((next - map_bucket(map, other)) & mask) < ((next - hole) & mask))
			continue;
		map->places[hole] = map->places[next];
		hole = next;
	}
	map->places[hole] = 0;
	map->count--;
}

/* ---- by number ---- */

/* Made when somebody looks for one among many, and kept as long as it can be. */
static bool is_indexed(const struct schedule *schedule)
{
	return schedule->numbers.room > 0;
}

/* A ticket has come to this place. Without memory: there is no index any more. */
static void index_put(struct schedule *schedule, uint32_t place)
{
	struct schedule_map *numbers = &schedule->numbers;
	if (!is_indexed(schedule))
		return;
	if (map_reserve(schedule, numbers) != 0) {
		map_free(numbers);
		return;
	}
	uint32_t bucket = map_find(schedule, numbers, at(schedule, place)->ticket);
	numbers->count += numbers->places[bucket] == 0;
	numbers->places[bucket] = place + 1;
}

static void index_remove(struct schedule *schedule, uint64_t ticket)
{
	if (is_indexed(schedule))
		map_remove(schedule, &schedule->numbers, ticket);
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

/* A queued one becomes blocked: another goes before it. It stays in the queue as a
 * skipped place, so it needs a new one. */
static uint32_t move_place(struct schedule *schedule, uint32_t place)
{
	uint32_t new_place = take_place(schedule);
	*at(schedule, new_place) = *at(schedule, place);
	at(schedule, place)->state = SCHEDULE_SKIPPED;
	index_put(schedule, new_place);
	return new_place;
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
static void chain_before(struct schedule *schedule, uint32_t bucket, uint32_t place,
                         uint64_t now_ms)
{
	uint32_t old = schedule->entities.places[bucket] - 1;
	bool queued = at(schedule, old)->state == SCHEDULE_QUEUED;
	unready(schedule, old);
	if (queued)
		old = move_place(schedule, old);
	at(schedule, old)->state = SCHEDULE_BLOCKED;
	struct schedule_ticket *ticket = at(schedule, place);
	ticket->next = old;
	ticket->tail = at(schedule, old)->next == SCHEDULE_NONE ? old : at(schedule, old)->tail;
	schedule->entities.places[bucket] = place + 1;
	ready(schedule, place, now_ms);
}

static void add_ordered(struct schedule *schedule, uint32_t place, uint64_t now_ms)
{
	struct schedule_ticket *ticket = at(schedule, place);
	uint32_t bucket = map_find(schedule, &schedule->entities, ticket->order);
	uint32_t head = schedule->entities.places[bucket] - 1; /* none: SCHEDULE_NONE */
	if (head == SCHEDULE_NONE) {
		schedule->entities.places[bucket] = place + 1;
		schedule->entities.count++;
		ready(schedule, place, now_ms);
	} else if (at(schedule, head)->state == SCHEDULE_STARTED ||
	           at(schedule, head)->ticket < ticket->ticket) {
		chain_behind(schedule, head, place);
	} else {
		chain_before(schedule, bucket, place, now_ms);
	}
}

int schedule_add(struct schedule *schedule, const struct schedule_ticket *ticket, uint64_t now_ms,
                 uint32_t *ret_place)
{
	int error = reserve(schedule);
	if (error == 0 && ticket->order != 0)
		error = map_reserve(schedule, &schedule->entities);
	if (error != 0)
		return error;
	uint32_t place = take_place(schedule);
	struct schedule_ticket *own = at(schedule, place);
	*own = *ticket;
	own->next = SCHEDULE_NONE;
	own->tail = place;
	schedule->count++;
	index_put(schedule, place);
	if (ticket->order == 0)
		ready(schedule, place, now_ms);
	else
		add_ordered(schedule, place, now_ms);
	*ret_place = place;
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

static void started(struct schedule *schedule, uint32_t place)
{
	at(schedule, place)->state = SCHEDULE_STARTED;
	schedule->started++;
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
	started(schedule, place);
	return place;
}

bool schedule_start_this(struct schedule *schedule, uint32_t place)
{
	if (at(schedule, place)->state != SCHEDULE_QUEUED)
		return false;
	drop_skipped(schedule);
	if (schedule->queue_head != place)
		return false;
	queue_pop(schedule);
	schedule->queued--;
	started(schedule, place);
	return true;
}

/* A lower number came while it was under way. */
static void step_back(struct schedule *schedule, uint32_t place, uint64_t now_ms)
{
	struct schedule_ticket *ticket = at(schedule, place);
	uint32_t head = ticket->next;
	schedule->entities.places[map_find(schedule, &schedule->entities, ticket->order)] = head +
	                                                                                    1;
	at(schedule, head)->tail = ticket->tail;
	ready(schedule, head, now_ms);
	chain_behind(schedule, head, place);
}

void schedule_again(struct schedule *schedule, uint32_t place, uint64_t due_ms, uint64_t now_ms)
{
	struct schedule_ticket *ticket = at(schedule, place);
	CHECK(ticket->state == SCHEDULE_STARTED);
	schedule->started--;
	ticket->due_ms = due_ms;
	if (ticket->order != 0 && ticket->next != SCHEDULE_NONE &&
	    at(schedule, ticket->next)->ticket < ticket->ticket)
		step_back(schedule, place, now_ms);
	else
		ready(schedule, place, now_ms);
}

bool schedule_hurry(struct schedule *schedule, uint32_t place)
{
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
		map_remove(schedule, &schedule->entities, ticket->order);
		return;
	}
	uint32_t bucket = map_find(schedule, &schedule->entities, ticket->order);
	CHECK(schedule->entities.places[bucket] == place + 1); /* invariant 1 */
	schedule->entities.places[bucket] = next + 1;
	at(schedule, next)->tail = ticket->tail;
	at(schedule, next)->state = SCHEDULE_WAITING;
	heap_add(schedule, next);
}

static void leave_blocked(struct schedule *schedule, uint32_t place)
{
	const struct schedule_ticket *ticket = at(schedule, place);
	uint32_t head =
		schedule->entities.places[map_find(schedule, &schedule->entities, ticket->order)] -
		1;
	uint32_t before = head;
	while (at(schedule, before)->next != place)
		before = at(schedule, before)->next;
	at(schedule, before)->next = ticket->next;
	if (at(schedule, head)->tail == place)
		at(schedule, head)->tail = before;
}

static void shrink_empty(struct schedule *schedule)
{
	if (schedule->count > 0 || schedule->room <= KEEP_ROOM)
		return;
	bool heap_turn = schedule->heap_turn;
	schedule_free(schedule);
	schedule->heap_turn = heap_turn;
}

void schedule_remove(struct schedule *schedule, uint32_t place)
{
	struct schedule_ticket *ticket = at(schedule, place);
	uint8_t state = ticket->state;
	CHECK(state != SCHEDULE_FREE && state != SCHEDULE_SKIPPED);
	index_remove(schedule, ticket->ticket);
	unready(schedule, place);
	schedule->started -= state == SCHEDULE_STARTED;
	if (state == SCHEDULE_BLOCKED)
		leave_blocked(schedule, place);
	else if (ticket->order != 0)
		leave_first(schedule, place);
	if (state == SCHEDULE_QUEUED)
		ticket->state = SCHEDULE_SKIPPED;
	else
		give_place(schedule, place);
	schedule->count--;
	shrink_empty(schedule);
}

/* ---- looking ---- */

static bool is_there(const struct schedule_ticket *ticket)
{
	return ticket->state != SCHEDULE_FREE && ticket->state != SCHEDULE_SKIPPED;
}

static void make_index(struct schedule *schedule)
{
	struct schedule_map *numbers = &schedule->numbers;
	while (numbers->room / 4 * 3 <= schedule->count)
		if (map_grow(schedule, numbers) != 0) {
			map_free(numbers);
			return;
		}
	for (uint32_t i = 0; i < schedule->used; i++)
		if (is_there(&schedule->tickets[i]))
			index_put(schedule, i);
}

uint32_t schedule_find(struct schedule *schedule, uint64_t ticket)
{
	if (!is_indexed(schedule) && schedule->count >= INDEX_FROM)
		make_index(schedule);
	if (is_indexed(schedule))
		return schedule->numbers.places[map_find(schedule, &schedule->numbers, ticket)] - 1;
	for (uint32_t i = 0; i < schedule->used; i++)
		if (schedule->tickets[i].ticket == ticket && is_there(&schedule->tickets[i]))
			return i;
	return SCHEDULE_NONE;
}

uint32_t schedule_first(const struct schedule *schedule, uint32_t place)
{
	uint64_t order = at(schedule, place)->order;
	if (order == 0)
		return place;
	return schedule->entities.places[map_find(schedule, &schedule->entities, order)] - 1;
}

uint32_t schedule_each(const struct schedule *schedule, uint32_t place)
{
	for (uint32_t i = place == SCHEDULE_NONE ? 0 : place + 1; i < schedule->used; i++)
		if (is_there(&schedule->tickets[i]))
			return i;
	return SCHEDULE_NONE;
}
