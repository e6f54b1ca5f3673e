/* store: see store.h. */
#include "store/store.h"

#include <string.h>

#include "base/error.h"

struct store *store_free(struct store *store)
{
	if (store)
		store->methods->free(store);
	return NULL;
}

bool store_item_next(struct span items, size_t *offset, struct store_item *ret_item,
                     struct store_parts *ret_parts)
{
	struct store_item item;

	CHECK(*offset <= items.len);
	if (items.len - *offset < sizeof(item))
		return false;
	memcpy(&item, items.ptr + *offset, sizeof(item));

	const char *at = items.ptr + *offset + sizeof(item);
	size_t before = (size_t)item.source_len + item.metadata_len;
	size_t len = before + item.payload_len;
	CHECK(items.len - *offset - sizeof(item) >= len);
	*ret_item = item;
	ret_parts->source = span_of(at, item.source_len);
	ret_parts->metadata = span_of(at + item.source_len, item.metadata_len);
	ret_parts->payload = span_of(at + before, item.payload_len);
	*offset += sizeof(item) + len;
	/* A take's items come from another thread: the next one's head is on its way
	 * while this one is worked on. */
	if (items.len - *offset >= sizeof(item)) {
		__builtin_prefetch(items.ptr + *offset);
		__builtin_prefetch(items.ptr + *offset + sizeof(item) - 1);
	}
	return true;
}

bool store_history_next(struct span items, size_t *offset, struct store_history *ret_history,
                        struct span *ret_text)
{
	struct store_history history;

	CHECK(*offset <= items.len);
	if (items.len - *offset < sizeof(history))
		return false;
	memcpy(&history, items.ptr + *offset, sizeof(history));
	CHECK(items.len - *offset - sizeof(history) >= history.text_len);
	*ret_history = history;
	*ret_text = span_of(items.ptr + *offset + sizeof(history), history.text_len);
	*offset += sizeof(history) + history.text_len;
	return true;
}

static char *put(char *at, struct span span)
{
	if (span.len)
		memcpy(at, span.ptr, span.len);
	return at + span.len;
}

int store_item_append(struct buf *items, struct store_item *item, const struct store_parts *parts)
{
	size_t len = sizeof(*item) + parts->source.len + parts->metadata.len + parts->payload.len;

	int r = buf_reserve(items, len);
	if (r < 0)
		return r;
	item->source_len = (uint32_t)parts->source.len;
	item->metadata_len = (uint32_t)parts->metadata.len;
	item->payload_len = (uint32_t)parts->payload.len;
	char *at = items->ptr + items->len;
	memcpy(at, item, sizeof(*item));
	put(put(put(at + sizeof(*item), parts->source), parts->metadata), parts->payload);
	items->len += len;
	return 0;
}

int store_history_append(struct buf *items, struct store_history history, struct span text)
{
	int r = buf_reserve(items, sizeof(history) + text.len);
	if (r < 0)
		return r;
	history.text_len = (uint32_t)text.len;
	buf_append(items, &history, sizeof(history));
	buf_append_span(items, text);
	return 0;
}

int store_name_append(struct buf *names, struct span name)
{
	uint32_t len = (uint32_t)name.len;

	int r = buf_reserve(names, sizeof(len) + name.len);
	if (r < 0)
		return r;
	buf_append(names, &len, sizeof(len));
	buf_append_span(names, name);
	return 0;
}

bool store_name_next(struct span names, size_t *offset, struct span *ret_name)
{
	uint32_t len;

	CHECK(*offset <= names.len);
	if (names.len - *offset < sizeof(len))
		return false;
	memcpy(&len, names.ptr + *offset, sizeof(len));
	CHECK(names.len - *offset - sizeof(len) >= len);
	*ret_name = span_of(names.ptr + *offset + sizeof(len), len);
	*offset += sizeof(len) + len;
	return true;
}

int store_cell_value_check(const struct store_cell_value *value)
{
	if ((value->ttl_ms != 0) + (value->expiry_ms != 0) + value->keep_expiry > 1)
		return ERR_INVALID;
	if (value->name.len > STORE_NAME_MAX || value->value.len > STORE_VALUE_MAX)
		return ERR_TOO_LARGE;
	return 0;
}

int store_cell_check(const struct store_cell *cell)
{
	if (cell->act < STORE_CELL_GET || cell->act > STORE_CELL_REMOVE ||
	    cell->when > STORE_IF_TIMED_EARLIER ||
	    (cell->act == STORE_CELL_PUT && cell->when > STORE_IF_PRESENT))
		return ERR_INVALID;
	return store_cell_value_check(&cell->cell);
}

bool store_when_moves(enum store_when when, uint64_t old_ms, uint64_t new_ms)
{
	/* Never is the largest. */
	bool timed = old_ms != 0, earlier = new_ms - 1 < old_ms - 1;

	switch (when) {
	case STORE_IF_TIMELESS: return !timed;
	case STORE_IF_TIMED: return timed;
	case STORE_IF_LATER: return new_ms - 1 > old_ms - 1;
	case STORE_IF_EARLIER: return earlier;
	case STORE_IF_TIMED_EARLIER: return timed && earlier;
	case STORE_ALWAYS:
	case STORE_IF_ABSENT:
	case STORE_IF_PRESENT: break;
	}
	return true;
}

uint64_t store_cell_expiry(const struct store_cell_value *value, uint64_t now_ms, uint64_t old_ms)
{
	if (value->keep_expiry)
		return old_ms;
	uint64_t expiry_ms = value->expiry_ms;
	if (value->wall_ms != 0 && expiry_ms > value->wall_ms && expiry_ms < STORE_EXPIRY_MAX_MS)
		expiry_ms += store_ahead_ms(now_ms, value->wall_ms);
	if (value->ttl_ms != 0)
		expiry_ms = value->ttl_ms < UINT64_MAX - now_ms ? now_ms + value->ttl_ms
		                                                : UINT64_MAX;
	return expiry_ms < STORE_EXPIRY_MAX_MS ? expiry_ms : STORE_EXPIRY_MAX_MS;
}

int store_admit_check(const struct store_admit *admit)
{
	if (admit->claim_count > CLAIMS_MAX || (admit->claim_count == 0 && admit->no_ticket))
		return ERR_INVALID;
	for (uint32_t i = 0; i < admit->claim_count; i++)
		if (admit->claims[i].window_s < 1 || admit->claims[i].kind > CLAIM_NEWEST)
			return ERR_INVALID;
	if (admit->leg_count > STORE_LEGS_MAX ||
	    (admit->no_ticket && (admit->leg_count | admit->metadata.len | admit->lease_ms) != 0) ||
	    (admit->lease_ms != 0 && (admit->leg_count > 1 || admit->spool)))
		return ERR_INVALID;
	if (admit->source.len > STORE_SOURCE_MAX || admit->payload.len > STORE_PAYLOAD_MAX ||
	    admit->metadata.len > STORE_METADATA_MAX)
		return ERR_TOO_LARGE;
	return 0;
}

/* Every bit of the word in every bit (the last steps of MurmurHash3). */
static uint64_t mix(uint64_t word)
{
	word = (word ^ word >> 33) * UINT64_C(0xff51afd7ed558ccd);
	word = (word ^ word >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return word ^ word >> 33;
}

/* A permutation of 128 bits, three rounds of Feistel's: two digests have the same
 * only if key and check are equal, but for the 32 bits that then leave for a check
 * that is unknown. Nobody outside can choose a digest, so it needs no key. */
struct claim store_aside_claim(const struct claim *claim)
{
	struct claim aside = { .window_s = claim->window_s, .kind = CLAIM_ONCE };
	uint64_t left = claim->digest.word[0] + UINT64_C(0x9e3779b97f4a7c15);
	uint64_t right = claim->digest.word[1];

	right ^= mix(left);
	left ^= mix(right);
	right ^= mix(left + 1);
	aside.digest = digest_with_check((struct digest){ { left, right } }, 0);
	return aside;
}
