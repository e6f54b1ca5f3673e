/*
 * leases: see leases.h.
 *
 * Invariants (leases_check()):
 * 1. No lease ends before the one above it in the heap.
 * 2. The map has each ticket of the heap once, with its place, and nothing else; between
 *    where a ticket belongs and where it stands no entry is empty.
 */
#include "store/local/index/leases.h"

#include <errno.h>

#include "base/mem.h"

#define ROOM_FIRST 64u
#define ABSENT UINT32_MAX

void leases_free(struct leases *leases)
{
	mem_free(leases->heap);
	mem_free(leases->map);
	*leases = (struct leases){ 0 };
}

/* --- the map -------------------------------------------------------------- */

static uint32_t map_mask(const struct leases *leases)
{
	return leases->room * 2 - 1;
}

static uint32_t map_home(const struct leases *leases, uint64_t ticket)
{
	return (uint32_t)(ticket * UINT64_C(0x9e3779b97f4a7c15) >> 32) & map_mask(leases);
}

static uint64_t map_ticket(const struct leases *leases, uint32_t at)
{
	return leases->heap[leases->map[at] - 1].ticket;
}

/* Where the ticket stands, or the empty entry where it would. There is one. */
static uint32_t map_seek(const struct leases *leases, uint64_t ticket)
{
	uint32_t at = map_home(leases, ticket);

	while (leases->map[at] != 0 && map_ticket(leases, at) != ticket)
		at = (at + 1) & map_mask(leases);
	return at;
}

/* What stands behind it moves up, if that is nearer to where it belongs. */
static void map_remove(struct leases *leases, uint64_t ticket)
{
	uint32_t mask = map_mask(leases), hole = map_seek(leases, ticket);

	CHECK(leases->map[hole] != 0);
	for (uint32_t at = (hole + 1) & mask; leases->map[at] != 0; at = (at + 1) & mask) {
		uint32_t home = map_home(leases, map_ticket(leases, at));
		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		leases->map[hole] = leases->map[at];
		hole = at;
	}
	leases->map[hole] = 0;
}

static uint32_t find(const struct leases *leases, uint64_t ticket)
{
	uint32_t at;

	if (leases->count == 0)
		return ABSENT;
	at = map_seek(leases, ticket);
	return leases->map[at] ? leases->map[at] - 1 : ABSENT;
}

/* --- the heap ------------------------------------------------------------- */

static void put(struct leases *leases, uint32_t at, struct lease lease, uint32_t entry)
{
	leases->heap[at] = lease;
	leases->map[entry] = at + 1;
}

/* The lease at `at` goes where it belongs. Entries of the map are found by what the heap
 * says of them, so each is looked for before its lease is overwritten. */
static void sift(struct leases *leases, uint32_t at)
{
	struct lease lease = leases->heap[at];
	uint32_t entry = map_seek(leases, lease.ticket);

	while (at > 0 && leases->heap[(at - 1) / 2].end_ms > lease.end_ms) {
		struct lease above = leases->heap[(at - 1) / 2];
		put(leases, at, above, map_seek(leases, above.ticket));
		at = (at - 1) / 2;
		put(leases, at, lease, entry);
	}
	for (;;) {
		uint32_t child = 2 * at + 1;
		if (child + 1 < leases->count &&
		    leases->heap[child + 1].end_ms < leases->heap[child].end_ms)
			child++;
		if (child >= leases->count || leases->heap[child].end_ms >= lease.end_ms)
			break;
		struct lease below = leases->heap[child];
		put(leases, at, below, map_seek(leases, below.ticket));
		at = child;
		put(leases, at, lease, entry);
	}
}

static void drop(struct leases *leases, uint32_t at)
{
	struct lease last = leases->heap[leases->count - 1];

	map_remove(leases, leases->heap[at].ticket);
	if (at == leases->count - 1) {
		leases->count--;
		return;
	}
	uint32_t entry = map_seek(leases, last.ticket);
	leases->count--;
	put(leases, at, last, entry);
	sift(leases, at);
}

int leases_reserve(struct leases *leases)
{
	if (leases->count < leases->room)
		return 0;
	uint32_t room = leases->room ? leases->room * 2 : ROOM_FIRST;
	uint32_t *map = mem_zalloc(room * 2, sizeof(*map));
	if (!map)
		return -ENOMEM;
	struct lease *heap = mem_realloc(leases->heap, room * sizeof(*heap));
	if (!heap) {
		mem_free(map);
		return -ENOMEM;
	}
	mem_free(leases->map);
	*leases = (struct leases){ .heap = heap, .count = leases->count, .room = room, .map = map };
	for (uint32_t i = 0; i < leases->count; i++)
		map[map_seek(leases, heap[i].ticket)] = i + 1;
	return 0;
}

void leases_set(struct leases *leases, uint64_t ticket, uint64_t end_ms)
{
	uint32_t at = find(leases, ticket);

	if (end_ms == 0) {
		if (at != ABSENT)
			drop(leases, at);
		return;
	}
	if (at == ABSENT) {
		CHECK(leases->count < leases->room);
		at = leases->count++;
		uint32_t entry = map_seek(leases, ticket);
		put(leases, at, (struct lease){ ticket, end_ms }, entry);
	}
	leases->heap[at].end_ms = end_ms;
	sift(leases, at);
}

uint64_t leases_end(const struct leases *leases, uint64_t ticket)
{
	uint32_t at = find(leases, ticket);

	return at == ABSENT ? 0 : leases->heap[at].end_ms;
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
	uint32_t used = 0;

	for (uint32_t i = 0; i < leases->count; i++) {
		CHECK(i == 0 || leases->heap[(i - 1) / 2].end_ms <= leases->heap[i].end_ms); /* 1 */
		CHECK(find(leases, leases->heap[i].ticket) == i);                            /* 2 */
	}
	for (uint32_t i = 0; i < leases->room * 2; i++)
		used += leases->map[i] != 0;
	CHECK(used == leases->count); /* 2 */
}
