/* digest_later: see digest_later.h. */
#include "gate/digest_later.h"

static struct digest digest_of(const uint64_t words[static 2], uint32_t check)
{
	struct digest digest = { { words[0], words[1] } };
	return digest_with_check(digest, check);
}

/* `count` of them. */
static void put_row(const struct digest_row *row, uint32_t count,
                    uint64_t words[static HASH_LANES][2])
{
	for (uint32_t i = 0; i < count; i++)
		*row->places[i] = digest_of(words[i], row->checks[i]);
}

static void flush_row(struct digest_row *row)
{
	uint64_t words[HASH_LANES][2];
	uint32_t count = row->lanes.count;
	if (count == 0)
		return;
	hash_lanes_finish(&row->lanes, words);
	put_row(row, count, words);
}

static void flush_pair(struct digest_row rows[static 2])
{
	uint64_t words[2][HASH_LANES][2];
	uint32_t first = rows[0].lanes.count;
	uint32_t second = rows[1].lanes.count;
	hash_lanes_finish_pair(&rows[0].lanes, &rows[1].lanes, words[0], words[1]);
	put_row(&rows[0], first, words[0]);
	put_row(&rows[1], second, words[1]);
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
	/* A row that has a claim of this event already is not flushed: that claim is not
	 * yet where it will be. */
	bool full = row->lanes.count == HASH_LANES;
	bool alone = full && later->claims && wanted->index >= DIGEST_LATER_ROWS;
	if (full && !alone)
		flush_row(row);
	uint32_t place = row->lanes.count;
	if (alone || !hash_lanes_add(&row->lanes, &rest)) {
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
	_Static_assert(DIGEST_LATER_ROWS == 2, "both are flushed together");
	if (later->rows[0].lanes.count > 0 && later->rows[1].lanes.count > 0) {
		flush_pair(later->rows);
		return;
	}
	flush_row(&later->rows[0]);
	flush_row(&later->rows[1]);
}

void digest_later_drop(struct digest_later *later)
{
	for (uint32_t i = 0; i < DIGEST_LATER_ROWS; i++)
		later->rows[i].lanes.count = later->rows[i].lanes.longest = 0;
}
