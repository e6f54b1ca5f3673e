/* segment_uses: see segment_uses.h. */
#include "store/local/index/segment_uses.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

void segment_uses_clear(struct segment_uses *uses)
{
	mem_free(uses->uses);
	*uses = (struct segment_uses){ 0 };
}

/* The first with a number of at least `segment`. */
static uint32_t seek(const struct segment_uses *uses, uint32_t segment)
{
	uint32_t low = 0;
	uint32_t high = uses->count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (uses->uses[middle].segment < segment)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int segment_uses_reserve(struct segment_uses *uses)
{
	if (uses->count < uses->room)
		return 0;
	uint32_t room = uses->room ? uses->room * 2 : 16;
	struct segment_use *grown = mem_realloc(uses->uses, room * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	uses->uses = grown;
	uses->room = room;
	return 0;
}

void segment_uses_add(struct segment_uses *uses, uint32_t segment)
{
	uint32_t at = seek(uses, segment);
	struct segment_use *use = &uses->uses[at];
	if (at == uses->count || use->segment != segment) {
		CHECK(uses->count < uses->room);
		memmove(use + 1, use, (uses->count - at) * sizeof(*use));
		*use = (struct segment_use){ .segment = segment };
		uses->count++;
	}
	use->count++;
}

void segment_uses_subtract(struct segment_uses *uses, uint32_t segment)
{
	uint32_t at = seek(uses, segment);
	CHECK(at < uses->count && uses->uses[at].segment == segment);
	struct segment_use *use = &uses->uses[at];
	if (--use->count > 0)
		return;
	uses->count--;
	memmove(use, use + 1, (uses->count - at) * sizeof(*use));
}

bool segment_uses_oldest(const struct segment_uses *uses, uint32_t *ret_segment)
{
	if (uses->count == 0)
		return false;
	*ret_segment = uses->uses[0].segment;
	return true;
}

uint64_t segment_uses_of(const struct segment_uses *uses, uint32_t segment)
{
	uint32_t at = seek(uses, segment);
	if (at == uses->count || uses->uses[at].segment != segment)
		return 0;
	return uses->uses[at].count;
}

uint64_t segment_uses_bytes(const struct segment_uses *uses)
{
	return uses->room * sizeof(struct segment_use);
}

uint64_t segment_uses_check(const struct segment_uses *uses)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < uses->count; i++) {
		CHECK(uses->uses[i].count > 0);
		CHECK(i == 0 || uses->uses[i - 1].segment < uses->uses[i].segment);
		sum += uses->uses[i].count;
	}
	return sum;
}
