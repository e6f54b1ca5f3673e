/* gap: see gap.h. */
#include "gate/gap.h"

#include <stdio.h>

#include "base/error.h"
#include "gate/ticket.h"

#define VERSION 1u
#define SECOND_MS UINT64_C(1000)
#define MINUTE_MS (60 * SECOND_MS)
#define HOUR_MS (60 * MINUTE_MS)
#define DAY_MS (24 * HOUR_MS)

/* An id older than this, or four windows, is of no use in the sample. */
#define KEEP_MS (8 * DAY_MS)
#define KEEP_MAX_MS (400 * DAY_MS)

static uint64_t read_counter(const atomic_uint_fast64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static void set_counter(atomic_uint_fast64_t *counter, uint64_t value)
{
	atomic_store_explicit(counter, value, memory_order_relaxed);
}

static void note_time(struct gap *gap, uint64_t now_ms)
{
	if (read_counter(&gap->first_ms) == 0)
		set_counter(&gap->first_ms, now_ms);
	set_counter(&gap->last_ms, now_ms);
}

void gap_duplicate(struct gap *gap, uint64_t gap_ms, uint64_t now_ms, uint64_t times)
{
	if (gap_ms > HISTOGRAM_VALUE_MAX)
		gap_ms = HISTOGRAM_VALUE_MAX;
	histogram_record_n(&gap->duplicates, gap_ms, times);
	note_time(gap, now_ms);
}

/* ---- the sample: open addressing by the digest's high bits ---- */

static uint32_t home_of(uint64_t word)
{
	return (uint32_t)(word >> 40) % GAP_SLOTS;
}

static bool in_sample(uint64_t word, uint32_t sample)
{
	return (word & ((UINT64_C(1) << sample) - 1)) == 0;
}

/* The slot of the word, or the free one where it belongs. */
static uint32_t slot_of(const struct gap *gap, uint64_t word)
{
	CHECK(gap->count < GAP_SLOTS);
	uint32_t slot = home_of(word);
	while (gap->entries[slot].ticket != 0 && gap->entries[slot].word != word)
		slot = (slot + 1) % GAP_SLOTS;
	return slot;
}

/* Removes an entry; entries after it that would no longer be found move up. */
static void take_out(struct gap *gap, uint32_t slot)
{
	CHECK(gap->count > 0 && gap->entries[slot].ticket != 0);
	uint32_t hole = slot;
	for (uint32_t at = (slot + 1) % GAP_SLOTS; gap->entries[at].ticket != 0;
	     at = (at + 1) % GAP_SLOTS) {
		uint32_t home = home_of(gap->entries[at].word);
		if ((at - home) % GAP_SLOTS < (at - hole) % GAP_SLOTS)
			continue; /* its home is after the hole */
		gap->entries[hole] = gap->entries[at];
		hole = at;
	}
	gap->entries[hole].ticket = 0;
	gap->count--;
}

/* Checks again what moves into a slot. An entry that moves from the start to the end was
 * checked already. */
static void leave_out(struct gap *gap, uint64_t older_than_ms)
{
	for (uint32_t i = 0; i < GAP_SLOTS;) {
		const struct gap_entry *entry = &gap->entries[i];
		if (entry->ticket != 0 && (ticket_time_ms(entry->ticket) < older_than_ms ||
		                           !in_sample(entry->word, gap->sample)))
			take_out(gap, i);
		else
			i++;
	}
}

static void make_room(struct gap *gap, uint64_t now_ms, uint32_t window_s)
{
	uint64_t keep_ms = window_s * SECOND_MS * 4;
	if (keep_ms < KEEP_MS)
		keep_ms = KEEP_MS;
	if (keep_ms > KEEP_MAX_MS)
		keep_ms = KEEP_MAX_MS;
	uint64_t from_ms = now_ms > keep_ms ? now_ms - keep_ms : 0;
	leave_out(gap, from_ms);
	if (gap->count < GAP_ENTRIES_MAX / 4 && gap->sample > 0)
		gap->sample--; /* it is quieter now: from here on one more bit is free */
	while (gap->count > GAP_ENTRIES_MAX / 4 * 3 && gap->sample < GAP_SAMPLE_MAX) {
		gap->sample++;
		leave_out(gap, from_ms);
	}
	/* Only if all words share their low bits. */
	if (gap->count == GAP_ENTRIES_MAX)
		leave_out(gap, UINT64_MAX);
}

bool gap_passed(struct gap *gap, struct gap_passage passage, uint64_t *ret_before)
{
	CHECK(passage.ticket != 0);
	if (!in_sample(passage.word, gap->sample))
		return false;
	uint32_t slot = slot_of(gap, passage.word);
	struct gap_entry *entry = &gap->entries[slot];
	uint64_t now_ms = ticket_time_ms(passage.ticket);
	if (entry->ticket == 0) {
		if (gap->count == GAP_ENTRIES_MAX) {
			make_room(gap, now_ms, passage.window_s);
			if (!in_sample(passage.word, gap->sample))
				return false;
			entry = &gap->entries[slot_of(gap, passage.word)];
		}
		*entry = (struct gap_entry){ passage.word, passage.ticket };
		gap->count++;
		return false;
	}
	/* It passed within the window: a shadow claim, a conflict, a replay. */
	uint64_t before_ms = ticket_time_ms(entry->ticket);
	if (now_ms < before_ms || now_ms - before_ms < passage.window_s * SECOND_MS)
		return false;
	*ret_before = entry->ticket;
	entry->ticket = passage.ticket;
	histogram_record(&gap->returns, now_ms - before_ms);
	histogram_bump(&gap->returns_about, UINT64_C(1) << gap->sample);
	note_time(gap, now_ms);
	return true;
}

uint64_t gap_highest_ms(const struct gap *gap)
{
	uint64_t duplicates = histogram_max(&gap->duplicates);
	uint64_t returns = histogram_max(&gap->returns);
	return duplicates > returns ? duplicates : returns;
}

/* ---- as bytes ---- */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the bytes are those of memory");

static void put(struct buf *out, uint64_t value, size_t size)
{
	buf_append(out, &value, size);
}

static void put_histogram(struct buf *out, const struct histogram *histogram)
{
	uint32_t used = 0;
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		used += read_counter(&histogram->buckets[i]) > 0;
	put(out, read_counter(&histogram->sum), 8);
	put(out, read_counter(&histogram->max), 8);
	put(out, used, 4);
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t n = read_counter(&histogram->buckets[i]);
		if (n == 0)
			continue;
		put(out, i, 4);
		put(out, n, 8);
	}
}

void gap_write(const struct gap *gap, struct buf *out)
{
	put(out, VERSION, 4);
	put(out, gap->sample, 4);
	put(out, read_counter(&gap->returns_about), 8);
	put(out, read_counter(&gap->first_ms), 8);
	put(out, read_counter(&gap->last_ms), 8);
	put_histogram(out, &gap->duplicates);
	put_histogram(out, &gap->returns);
	put(out, gap->count, 4);
	for (size_t i = 0; i < GAP_SLOTS; i++) {
		if (gap->entries[i].ticket == 0)
			continue;
		put(out, gap->entries[i].word, 8);
		put(out, gap->entries[i].ticket, 8);
	}
}

struct reader {
	struct span left;
	bool failed;
};

static uint64_t get(struct reader *reader, size_t size)
{
	uint64_t value = 0;
	if (reader->left.len < size) {
		reader->failed = true;
		return 0;
	}
	memcpy(&value, reader->left.ptr, size);
	reader->left = span_skip(reader->left, size);
	return value;
}

static void get_histogram(struct reader *reader, struct histogram *histogram)
{
	set_counter(&histogram->sum, get(reader, 8));
	set_counter(&histogram->max, get(reader, 8));
	uint64_t used = get(reader, 4);
	uint64_t next = 0;
	for (uint64_t i = 0; i < used && !reader->failed; i++) {
		uint64_t bucket = get(reader, 4);
		uint64_t n = get(reader, 8);
		if (bucket < next || bucket >= HISTOGRAM_BUCKETS || n == 0) {
			reader->failed = true;
			return;
		}
		set_counter(&histogram->buckets[bucket], n);
		next = bucket + 1;
	}
}

int gap_read(struct gap *gap, struct span bytes)
{
	struct reader reader = { .left = bytes };
	memset(gap, 0, sizeof(*gap));
	uint64_t version = get(&reader, 4);
	if (!reader.failed && version != VERSION)
		return ERR_VERSION;
	uint64_t sample = get(&reader, 4);
	set_counter(&gap->returns_about, get(&reader, 8));
	set_counter(&gap->first_ms, get(&reader, 8));
	set_counter(&gap->last_ms, get(&reader, 8));
	get_histogram(&reader, &gap->duplicates);
	get_histogram(&reader, &gap->returns);
	uint64_t entries = get(&reader, 4);
	reader.failed |= entries > GAP_ENTRIES_MAX;
	for (uint64_t i = 0; i < entries && !reader.failed; i++) {
		uint64_t word = get(&reader, 8);
		uint64_t ticket = get(&reader, 8);
		struct gap_entry *entry = &gap->entries[slot_of(gap, word)];
		reader.failed |= ticket == 0 || ticket >> TICKET_BITS != 0 || entry->ticket != 0;
		*entry = (struct gap_entry){ word, ticket };
		gap->count++;
	}
	if (reader.failed || reader.left.len > 0 || sample > GAP_SAMPLE_MAX) {
		memset(gap, 0, sizeof(*gap));
		return ERR_INVALID;
	}
	gap->sample = (uint32_t)sample;
	return 0;
}

/* ---- words ---- */

/* Below `least` of a unit the next one is more precise: "47h", not "1d 23h". */
static const struct unit {
	uint64_t ms;
	uint64_t least;
	const char *name;
	bool with_rest; /* a single digit is shown with the next unit */
} units[] = {
	{ DAY_MS, 3, "d", true },     { HOUR_MS, 2, "h", true }, { MINUTE_MS, 2, "m", true },
	{ SECOND_MS, 1, "s", false }, { 1, 0, "ms", false },
};

void gap_duration_text(uint64_t ms, char ret_text[static GAP_DURATION_MAX])
{
	const struct unit *unit = units;
	while (ms < unit->ms * unit->least)
		unit++;
	uint64_t whole = ms / unit->ms;
	uint64_t rest = whole < 10 && unit->with_rest ? ms % unit->ms / unit[1].ms : 0;
	int n = snprintf(ret_text, GAP_DURATION_MAX, "%llu%s", (unsigned long long)whole,
	                 unit->name);
	if (rest > 0)
		snprintf(ret_text + n, GAP_DURATION_MAX - (size_t)n, " %llu%s",
		         (unsigned long long)rest, unit[1].name);
}
