/*
 * fuzz_filter_split: the first byte says in which pieces the rest comes. Whatever
 * they are, the same events are found, none of them outside of the input.
 */
#include "cli/filter/split.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct found {
	uint64_t events;
	uint64_t hash; /* of all events, lines and the end */
};

static struct found split(struct span text, size_t chunk)
{
	/* No limit, since where a text is too long depends on the pieces. */
	struct filter_split it = { .event_max = 1u << 30 };
	struct found found = { 0, 0 };
	size_t begin = 0;
	size_t end = 0;
	for (;;) {
		struct filter_piece piece;
		struct span input = span_of(text.ptr + begin, end - begin);
		enum filter_step step = filter_split_next(&it, &input, end == text.len, &piece);
		CHECK(input.len <= end - begin);
		begin = end - input.len;
		if (step == FILTER_MORE) {
			CHECK(end < text.len);
			end = text.len - end < chunk ? text.len : end + chunk;
			continue;
		}
		if (step == FILTER_END || step == FILTER_BROKEN)
			return (struct found){ found.events, found.hash * 31 + (uint64_t)step };
		CHECK(step == FILTER_EVENT && piece.event.len > 0);
		CHECK(piece.event.ptr >= text.ptr &&
		      piece.event.ptr + piece.event.len <= text.ptr + begin);
		CHECK(piece.whole.ptr <= piece.event.ptr && piece.whole.len >= piece.event.len);
		found.events++;
		found.hash = hash_checksum64(piece.event.ptr, piece.event.len,
		                             found.hash + piece.line);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	struct span text = span_of(data + 1, size - 1);
	struct found whole = split(text, size);
	struct found pieces = split(text, 1u + data[0] % 64);
	CHECK(whole.events == pieces.events && whole.hash == pieces.hash);
	return 0;
}
