/* shelf: see shelf.h. */
#include "store/local/journal/shelf.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

int shelf_add(struct shelf *shelf, uint64_t number, const struct shelf_item *item)
{
	CHECK(shelf->count == 0 || number == shelf_end(shelf));
	if (shelf->count == shelf->room) {
		size_t room = shelf->room ? shelf->room * 2 : 64;
		struct shelf_item *items = mem_realloc(shelf->items, room * sizeof(*items));
		if (!items)
			return -ENOMEM;
		shelf->items = items;
		shelf->room = room;
	}
	if (shelf->count == 0)
		shelf->first = number;
	shelf->items[shelf->count++] = *item;
	return 0;
}

struct shelf_item *shelf_find(const struct shelf *shelf, uint64_t number)
{
	if (number < shelf->first || number >= shelf_end(shelf))
		return NULL;
	return &shelf->items[number - shelf->first];
}

void shelf_drop_first(struct shelf *shelf)
{
	CHECK(shelf->count > 0);
	shelf->count--;
	shelf->first++;
	memmove(shelf->items, shelf->items + 1, shelf->count * sizeof(*shelf->items));
}

void shelf_free(struct shelf *shelf)
{
	mem_free(shelf->items);
	*shelf = (struct shelf){ 0 };
}
