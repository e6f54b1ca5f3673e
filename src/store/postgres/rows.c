/* rows: see rows.h. */
#include "store/postgres/rows.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define ROOM_FIRST 256u

struct row_key row_key_of_digest(const struct digest *digest, uint32_t kind)
{
	struct row_key key;
	uint64_t first = htobe64(digest->word[0]);
	uint32_t second = htobe32((uint32_t)(digest->word[1] >> 32));
	uint32_t third = htobe32(kind);
	memcpy(key.bytes, &first, 8);
	memcpy(key.bytes + 8, &second, 4);
	memcpy(key.bytes + 12, &third, 4);
	return key;
}

struct row_key row_key_of_number(uint64_t number)
{
	struct row_key key = { { 0 } };
	number = htobe64(number);
	memcpy(key.bytes, &number, 8);
	return key;
}

/* Digests are random; numbers differ in their last bits. */
static uint32_t hash(const struct row_key *key)
{
	uint64_t first, second;
	memcpy(&first, key->bytes, 8);
	memcpy(&second, key->bytes + 8, 8);
	return (uint32_t)((((be64toh(first) ^ second) * UINT64_C(0x9e3779b97f4a7c15))) >> 32);
}

static void **slot_of(const struct rows *rows, const struct row_key *key)
{
	uint32_t mask = 2 * rows->room - 1;
	uint32_t at = hash(key) & mask;
	while (rows->slots[at] && memcmp(rows->slots[at], key, sizeof(*key)) != 0)
		at = (at + 1) & mask;
	return &rows->slots[at];
}

void *rows_find(const struct rows *rows, const struct row_key *key)
{
	return rows->room ? *slot_of(rows, key) : NULL;
}

static bool grow(struct rows *rows)
{
	uint32_t room = rows->room ? 2 * rows->room : ROOM_FIRST;
	void **at = mem_realloc(rows->at, room * sizeof(*at));
	if (!at)
		return false;
	rows->at = at;
	void **slots = mem_zalloc(2 * (size_t)room, sizeof(*slots));
	if (!slots)
		return false;
	mem_free(rows->slots);
	rows->slots = slots;
	rows->room = room;
	for (uint32_t i = 0; i < rows->count; i++)
		*slot_of(rows, rows->at[i]) = rows->at[i];
	return true;
}

void *rows_add(struct rows *rows, const struct row_key *key, size_t size, struct arena *arena)
{
	void *row = rows_find(rows, key);
	CHECK(size >= sizeof(*key) && rows->count <= rows->room);
	if (row)
		return row;
	if (rows->count == rows->room && !grow(rows))
		return NULL;
	row = arena_alloc(arena, size);
	if (!row)
		return NULL;
	memcpy(row, key, sizeof(*key));
	*slot_of(rows, key) = row;
	rows->at[rows->count++] = row;
	return row;
}

static int by_key(const void *a, const void *b)
{
	return memcmp(*(void *const *)a, *(void *const *)b, ROW_KEY_LEN);
}

void rows_sort(struct rows *rows)
{
	if (rows->count > 1)
		qsort(rows->at, rows->count, sizeof(*rows->at), by_key);
}

void rows_clear(struct rows *rows)
{
	if (rows->count > 0)
		memset(rows->slots, 0, 2 * (size_t)rows->room * sizeof(*rows->slots));
	rows->count = 0;
}

void rows_free(struct rows *rows)
{
	mem_free(rows->at);
	mem_free(rows->slots);
	*rows = (struct rows){ 0 };
}

int row_list_add(struct row_list *list, void *row)
{
	if (list->count == list->room) {
		uint32_t room = list->room ? 2 * list->room : ROOM_FIRST;
		void **at = mem_realloc(list->at, room * sizeof(*at));
		if (!at)
			return -ENOMEM;
		list->at = at;
		list->room = room;
	}
	list->at[list->count++] = row;
	return 0;
}

void row_list_free(struct row_list *list)
{
	mem_free(list->at);
	*list = (struct row_list){ 0 };
}
