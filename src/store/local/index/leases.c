/*
 * leases: see leases.h.
 *
 * Invariants (leases_check()):
 * 1. No lease ends before the one above it in the heap.
 * 2. The map has each ticket of the heap once, with its place, and nothing else.
 */
#include "store/local/index/leases.h"

#include <errno.h>

#include "base/mem.h"

#define ROOM_FIRST 64u

struct place {
	uint64_t ticket;
	uint32_t at; /* in the heap */
	uint32_t unused;
};

void leases_free(struct leases *leases)
{
	mem_free(leases->heap);
	map_free(&leases->places);
	*leases = (struct leases){ 0 };
}

static struct place *find(const struct leases *leases, uint64_t ticket)
{
	return map_find(&leases->places, &ticket);
}

static void put(struct leases *leases, uint32_t at, struct lease lease)
{
	leases->heap[at] = lease;
	find(leases, lease.ticket)->at = at;
}

/* The lease at `at` goes where it belongs. */
static void sift(struct leases *leases, uint32_t at)
{
	struct lease lease = leases->heap[at];

	while (at > 0 && leases->heap[(at - 1) / 2].end_ms > lease.end_ms) {
		put(leases, at, leases->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	for (;;) {
		uint32_t child = 2 * at + 1;
		if (child + 1 < leases->count &&
		    leases->heap[child + 1].end_ms < leases->heap[child].end_ms)
			child++;
		if (child >= leases->count || leases->heap[child].end_ms >= lease.end_ms)
			break;
		put(leases, at, leases->heap[child]);
		at = child;
	}
	put(leases, at, lease);
}

static void drop(struct leases *leases, uint32_t at)
{
	struct lease last = leases->heap[--leases->count];
	bool removed = map_remove(&leases->places, &leases->heap[at].ticket);

	CHECK(removed); /* 2 */
	if (at == leases->count)
		return;
	put(leases, at, last);
	sift(leases, at);
}

int leases_reserve(struct leases *leases, uint64_t ticket)
{
	if (leases->room == 0)
		map_init(&leases->places, sizeof(struct place), sizeof(ticket));
	if (leases->count == leases->room) {
		uint32_t room = leases->room ? leases->room * 2 : ROOM_FIRST;
		struct lease *heap = mem_realloc(leases->heap, room * sizeof(*heap));
		if (!heap)
			return -ENOMEM;
		leases->heap = heap;
		leases->room = room;
	}
	return map_reserve(&leases->places, &ticket);
}

void leases_set(struct leases *leases, uint64_t ticket, uint64_t end_ms)
{
	struct place *place = find(leases, ticket);

	if (end_ms == 0) {
		if (place)
			drop(leases, place->at);
		return;
	}
	if (!place) {
		CHECK(leases->count < leases->room);
		place = map_put(&leases->places, &ticket);
		CHECK(place); /* reserved */
		place->at = leases->count++;
		leases->heap[place->at].ticket = ticket;
	}
	leases->heap[place->at].end_ms = end_ms;
	sift(leases, place->at);
}

uint64_t leases_end(const struct leases *leases, uint64_t ticket)
{
	const struct place *place = find(leases, ticket);

	return place ? leases->heap[place->at].end_ms : 0;
}

bool leases_over(const struct leases *leases, uint64_t boot_ms, uint64_t *ret_ticket)
{
	if (leases->count == 0 || leases->heap[0].end_ms > boot_ms)
		return false;
	*ret_ticket = leases->heap[0].ticket;
	return true;
}

void leases_check(const struct leases *leases)
{
	for (uint32_t i = 0; i < leases->count; i++) {
		CHECK(i == 0 || leases->heap[(i - 1) / 2].end_ms <= leases->heap[i].end_ms); /* 1 */
		const struct place *place = find(leases, leases->heap[i].ticket);
		CHECK(place && place->at == i); /* 2 */
	}
	CHECK(leases->places.count == leases->count); /* 2 */
	map_check(&leases->places);
}
