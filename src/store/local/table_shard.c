/* table_shard: see table_shard.h. */
#include "store/local/table_shard.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

/*
 * Load and step. A shard is rebuilt when LIMIT_NUM/LIMIT_DEN of its slots are
 * taken, and is given 1/16 to 3/16 more room then: about 1/8, spread so that
 * the shards do not grow all together. The mean load is then about 0.86, which
 * makes 28 bytes a claim. Fuller shards cost more to insert into (the distance
 * to the next empty slot goes with 1/(1-load)²), smaller steps cost more
 * rebuilds (one entry is moved about eight times).
 */
#define LIMIT_NUM 29u
#define LIMIT_DEN 32u

#define SLOTS_MAX (UINT32_C(1) << 31)

/* Read as a shard of one empty slot, never written: limit 0 forces a rebuild. */
static struct table_entry no_entries[1];

void table_shard_init(struct table_shard *shard, uint32_t number)
{
	*shard = (struct table_shard){ .entries = no_entries, .slots = 1, .number = number };
	shard->expiry_min_s = UINT32_MAX;
	shard->sweep_min_s = UINT32_MAX;
}

static size_t page_bytes(uint32_t slots)
{
	size_t bytes = (size_t)slots * sizeof(struct table_entry);
	return (bytes + MEM_PAGE - 1) / MEM_PAGE * MEM_PAGE;
}

uint64_t table_shard_bytes(const struct table_shard *shard)
{
	return shard->entries == no_entries ? 0 : page_bytes(shard->slots);
}

void table_shard_free(struct table_shard *shard)
{
	if (shard->entries && shard->entries != no_entries)
		mem_unmap(shard->entries, page_bytes(shard->slots));
	table_shard_init(shard, shard->number);
}

/* All slots of the pages that hold this many; one more for invariant 3. */
static uint64_t whole_pages(uint64_t slots)
{
	uint64_t bytes = (slots + 1) * sizeof(struct table_entry);
	uint64_t pages = (bytes + MEM_PAGE - 1) / MEM_PAGE;
	return pages * MEM_PAGE / sizeof(struct table_entry);
}

/* A different fraction of 256 for every rebuild of every shard. */
static uint32_t jitter(const struct table_shard *shard)
{
	uint64_t x = shard->number + shard->rebuilds * UINT64_C(613);
	return (uint32_t)((x * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

static uint64_t slots_for(const struct table_shard *shard, uint64_t count)
{
	uint64_t slots = count * LIMIT_DEN / LIMIT_NUM;
	return whole_pages(slots + slots * (128 + jitter(shard)) / 2048);
}

static uint32_t expiry_floor_s(const struct table_entry *entry)
{
	uint64_t seconds = (table_entry_expiry_ms(entry) - TICKET_EPOCH_MS) / 1000;
	return seconds < UINT32_MAX ? (uint32_t)seconds : UINT32_MAX;
}

static void note_expiry(struct table_shard *shard, const struct table_entry *entry)
{
	uint32_t seconds = expiry_floor_s(entry);
	if (seconds < shard->expiry_min_s)
		shard->expiry_min_s = seconds;
	if (seconds < shard->sweep_min_s)
		shard->sweep_min_s = seconds;
}

bool table_shard_may_expire(const struct table_shard *shard, uint64_t now_ms)
{
	return TICKET_EPOCH_MS + shard->expiry_min_s * UINT64_C(1000) <= now_ms;
}

/*
 * Packs the entries of [0, end) in front of `to`, in their order; returns where
 * they begin. Without branches, since gaps come at random.
 */
static uint32_t gather(struct table_entry *entries, uint32_t end, uint32_t to)
{
	for (uint32_t i = end; i-- > 0;) {
		struct table_entry entry = entries[i];
		entries[to - 1] = entry;
		to -= entry.meta != 0;
	}
	return to;
}

/*
 * The reverse: puts what is packed in [from, slots - 1) where it belongs. Stops
 * at the first that would overrun those still packed (the tail is too short
 * for this range) and returns its slot; *ret_end is how far slots are in order.
 */
static uint32_t spread(struct table_shard *shard, uint32_t from, uint32_t *ret_end)
{
	struct table_entry *entries = shard->entries;
	uint32_t end = 0;
	uint32_t last = shard->slots - 1;
	for (; from < last; from++) {
		struct table_entry entry = entries[from];
		uint32_t ideal = table_shard_ideal(shard, entry.key);
		if (unlikely(ideal > from))
			break;
		while (end < ideal)
			entries[end++] = (struct table_entry){ 0 };
		entries[end++] = entry;
	}
	*ret_end = end;
	return from;
}

/*
 * Lays the entries in [0, end) out over `slots` slots, which are mapped. The
 * tail for overflow is doubled until it suffices: a range of 1 always does.
 */
static void lay_out(struct table_shard *shard, uint32_t end, uint32_t slots)
{
	CHECK(shard->count < slots);
	uint32_t from;
	if (slots >= end) {
		from = gather(shard->entries, end, slots - 1);
	} else {
		uint32_t packed = gather(shard->entries, end, end);
		from = slots - 1 - shard->count;
		memmove(shard->entries + from, shard->entries + packed,
		        shard->count * sizeof(struct table_entry));
	}
	shard->slots = slots;
	shard->limit = (uint32_t)((uint64_t)slots * LIMIT_NUM / LIMIT_DEN);
	for (uint32_t tail = 8 + slots / 128;; tail *= 2) {
		shard->range = tail < slots ? slots - tail : 1;
		uint32_t stopped = spread(shard, from, &end);
		if (stopped == slots - 1)
			break;
		from = gather(shard->entries, end, stopped);
	}
	memset(shard->entries + end, 0, (slots - end) * sizeof(struct table_entry));
	shard->rebuilds++;
	shard->sweep_slot = 0;
}

static int grow(struct table_shard *shard, uint32_t slots)
{
	size_t bytes = page_bytes(slots);
	void *ptr;
	if (shard->entries == no_entries)
		ptr = mem_map(bytes);
	else
		ptr = mem_remap(shard->entries, page_bytes(shard->slots), bytes);
	if (!ptr)
		return -ENOMEM;
	uint32_t end = shard->entries == no_entries ? 0 : shard->slots;
	shard->entries = ptr;
	lay_out(shard, end, slots);
	return 0;
}

static int grow_to(struct table_shard *shard, uint64_t slots)
{
	if (slots > SLOTS_MAX)
		return -ENOMEM;
	return grow(shard, (uint32_t)slots);
}

int table_shard_reserve(struct table_shard *shard, uint64_t count)
{
	uint64_t slots = slots_for(shard, count);
	return slots > shard->slots ? grow_to(shard, slots) : 0;
}

bool table_shard_shrink(struct table_shard *shard)
{
	if (shard->entries == no_entries)
		return false;
	if (shard->count == 0) {
		uint32_t rebuilds = shard->rebuilds;
		uint64_t expired = shard->expired;
		table_shard_free(shard);
		shard->rebuilds = rebuilds;
		shard->expired = expired;
		return true;
	}
	uint32_t before = shard->slots;
	uint64_t slots = slots_for(shard, shard->count);
	if (slots + slots / 8 >= before)
		return false;
	lay_out(shard, before, (uint32_t)slots);
	void *ptr = mem_remap(shard->entries, page_bytes(before), page_bytes((uint32_t)slots));
	if (ptr) {
		shard->entries = ptr;
		return true;
	}
	/* What is beyond the new end is stale; as before, then. */
	memset(shard->entries + slots, 0, (before - slots) * sizeof(struct table_entry));
	lay_out(shard, (uint32_t)slots, before);
	return false;
}

/* Makes room for one more where there is none, first from the expired. */
static int make_room(struct table_shard *shard, uint64_t now_ms)
{
	if (table_shard_may_expire(shard, now_ms)) {
		uint64_t looked = 0;
		shard->sweep_slot = 0;
		bool ended = table_shard_sweep(shard, now_ms, shard->slots, &looked);
		CHECK(ended);
		if (shard->count < shard->limit - shard->limit / 16)
			return 0;
	}
	uint64_t slots = slots_for(shard, shard->count + 1);
	if (slots <= shard->slots)
		slots = whole_pages(shard->slots);
	CHECK(slots > shard->slots);
	return grow_to(shard, slots);
}

static uint32_t next_empty(const struct table_shard *shard, uint32_t slot)
{
	while (shard->entries[slot].meta)
		slot++;
	return slot;
}

static void replace(struct table_shard *shard, uint32_t slot, const struct table_entry *entry)
{
	if (table_entry_ticket(&shard->entries[slot]) >= table_entry_ticket(entry))
		return;
	shard->entries[slot] = *entry;
	note_expiry(shard, entry);
}

int table_shard_put(struct table_shard *shard, const struct table_entry *entry, uint64_t now_ms)
{
	for (;;) {
		uint32_t slot;
		if (table_shard_seek(shard, entry, &slot)) {
			replace(shard, slot, entry);
			return 0;
		}
		uint32_t empty = next_empty(shard, slot);
		if (likely(shard->count < shard->limit && empty < shard->slots - 1)) {
			struct table_entry *at = &shard->entries[slot];
			memmove(at + 1, at, (empty - slot) * sizeof(*at));
			*at = *entry;
			shard->count++;
			note_expiry(shard, entry);
			return 0;
		}
		int error = make_room(shard, now_ms);
		if (error)
			return error;
	}
}

void table_shard_remove(struct table_shard *shard, uint32_t slot)
{
	struct table_entry *entries = shard->entries;
	CHECK(slot < shard->slots && entries[slot].meta);
	uint32_t next = slot + 1;
	while (entries[next].meta && table_shard_ideal(shard, entries[next].key) < next) {
		entries[next - 1] = entries[next];
		next++;
	}
	entries[next - 1] = (struct table_entry){ 0 };
	shard->count--;
	/* One that slipped behind the running sweep counts as seen by it. */
	if (slot < shard->sweep_slot && shard->sweep_slot < next)
		note_expiry(shard, &entries[shard->sweep_slot - 1]);
}

/*
 * Removing leaves a hole; the entries after it move up to where they would be
 * without the removed one, in one pass. `end` is the first slot an entry may
 * move to. A pass may stop where slot and end agree: nothing after is affected.
 */
bool table_shard_sweep(struct table_shard *shard, uint64_t now_ms, uint64_t budget,
                       uint64_t *ret_looked)
{
	struct table_entry *entries = shard->entries;
	uint32_t first = shard->sweep_slot;
	uint32_t slot = first;
	uint32_t end = first;
	if (first == 0)
		shard->sweep_min_s = UINT32_MAX;
	for (; slot < shard->slots && (slot - first < budget || end != slot); slot++) {
		struct table_entry entry = entries[slot];
		if (!entry.meta) {
			end = slot + 1;
			continue;
		}
		if (table_entry_expiry_ms(&entry) <= now_ms) {
			entries[slot] = (struct table_entry){ 0 };
			shard->count--;
			shard->expired++;
			continue;
		}
		uint32_t seconds = expiry_floor_s(&entry);
		if (seconds < shard->sweep_min_s)
			shard->sweep_min_s = seconds;
		if (end != slot) {
			uint32_t ideal = table_shard_ideal(shard, entry.key);
			end = ideal > end ? ideal : end;
			if (end != slot) {
				entries[end] = entry;
				entries[slot] = (struct table_entry){ 0 };
			}
		}
		end++;
	}
	*ret_looked = slot - first;
	bool ended = slot >= shard->slots;
	if (ended)
		shard->expiry_min_s = shard->sweep_min_s;
	shard->sweep_slot = ended ? 0 : slot;
	return ended;
}

void table_shard_check(const struct table_shard *shard)
{
	uint32_t count = 0;
	const struct table_entry *before = NULL;
	for (uint32_t slot = 0; slot < shard->slots; slot++) {
		const struct table_entry *entry = &shard->entries[slot];
		if (!entry->meta) {
			CHECK(entry->key == 0 && entry->rest == 0);
			continue;
		}
		uint32_t ideal = table_shard_ideal(shard, entry->key);
		CHECK(!before || before->key >= entry->key);      /* 1 */
		CHECK(ideal <= slot);                             /* 2 */
		CHECK(ideal == slot || entry[-1].meta);           /* 2, by induction */
		CHECK(slot < shard->slots - 1);                   /* 3 */
		CHECK(expiry_floor_s(entry) >= shard->expiry_min_s); /* 5 */
		before = entry;
		count++;
	}
	CHECK(count == shard->count && count < shard->slots); /* 4 */
}
