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

int store_admit_check(const struct store_admit *admit)
{
	if (admit->claim_count > CLAIMS_MAX || (admit->claim_count == 0 && admit->no_ticket))
		return ERR_INVALID;
	for (uint32_t i = 0; i < admit->claim_count; i++)
		if (admit->claims[i].window_s < 1 || admit->claims[i].kind > CLAIM_NEWEST)
			return ERR_INVALID;
	if (admit->source.len > STORE_SOURCE_MAX || admit->payload.len > STORE_PAYLOAD_MAX)
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
