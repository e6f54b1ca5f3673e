/* digest_later: see digest_later.h. */
#include "gate/digest_later.h"

static struct digest digest_of(const uint64_t words[static 2], uint32_t check)
{
	struct digest digest = { { words[0], words[1] } };
	return digest_with_check(digest, check);
}

static void flush_row(struct digest_row *row)
{
	uint64_t words[HASH_LANES][2];
	uint32_t count = row->lanes.count;
	hash_lanes_finish(&row->lanes, words);
	for (uint32_t i = 0; i < count; i++)
		*row->places[i] = digest_of(words[i], row->checks[i]);
}

void digest_later_add(struct digest_later *later, const struct digest_wanted *wanted,
                      struct digest *ret_digest)
{
	struct digest_row *row = &later->rows[wanted->index % DIGEST_LATER_ROWS];
	struct hash_rest rest = {
		.state = wanted->scope->state,
		.ptr = wanted->input->bytes,
		.done = wanted->scope->len / 8 * 8,
		.len = wanted->input->len,
	};
	CHECK(wanted->input->len <= DIGEST_INPUT_MAX);
	if (row->lanes.count == HASH_LANES)
		flush_row(row);
	uint32_t place = row->lanes.count;
	if (!hash_lanes_add(&row->lanes, &rest)) {
		uint64_t words[2];
		hash_finish(&rest, words);
		*ret_digest = digest_of(words, wanted->check);
		return;
	}
	row->places[place] = later->claims ? &later->claims[wanted->index].digest : ret_digest;
	row->checks[place] = wanted->check;
}

void digest_later_flush(struct digest_later *later)
{
	for (uint32_t i = 0; i < DIGEST_LATER_ROWS; i++)
		if (later->rows[i].lanes.count > 0)
			flush_row(&later->rows[i]);
}

void digest_later_drop(struct digest_later *later)
{
	for (uint32_t i = 0; i < DIGEST_LATER_ROWS; i++)
		later->rows[i].lanes.count = later->rows[i].lanes.longest = 0;
}
