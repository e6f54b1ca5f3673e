/* store: see store.h. */
#include "store/store.h"

#include <string.h>

struct store *store_free(struct store *store)
{
	if (store)
		store->methods->free(store);
	return NULL;
}

bool store_item_next(struct span items, size_t *offset, struct store_item *ret_item,
                     struct span *ret_source, struct span *ret_payload)
{
	struct store_item item;

	CHECK(*offset <= items.len);
	if (items.len - *offset < sizeof(item))
		return false;
	memcpy(&item, items.ptr + *offset, sizeof(item));

	size_t at = *offset + sizeof(item);
	CHECK(items.len - at >= (size_t)item.source_len + item.payload_len);
	*ret_item = item;
	*ret_source = span_of(items.ptr + at, item.source_len);
	*ret_payload = span_of(items.ptr + at + item.source_len, item.payload_len);
	*offset = at + item.source_len + item.payload_len;
	return true;
}
