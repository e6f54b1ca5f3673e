/* trace_index: see trace_index.h. */
#include "trace/trace_index.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "trace/trace_format.h"

uint32_t trace_tag(uint64_t seed, enum trace_tag_kind kind, struct span text)
{
	uint64_t hash = hash_checksum64(text.ptr, text.len, seed + kind);
	return (uint32_t)(hash ^ hash >> 32);
}

uint32_t trace_tag_ticket(uint64_t seed, uint64_t ticket)
{
	return trace_tag(seed, TRACE_TAG_TICKET, span_of(&ticket, sizeof(ticket)));
}

struct tags {
	uint8_t count;
	uint32_t tags[TRACE_TAGS_MAX];
};

static void add_tag(struct tags *tags, uint32_t tag)
{
	CHECK(tags->count < TRACE_TAGS_MAX);
	tags->tags[tags->count++] = tag;
}

static void add_key(struct tags *tags, uint64_t seed, struct span key)
{
	if (key.len == 0)
		return;
	add_tag(tags, trace_tag(seed, TRACE_TAG_KEY, key));
	for (int i = 0; i < TRACE_KEY_PARTS_MAX && key.len > 0; i++) {
		const char *end = memchr(key.ptr, TRACE_PART_END, key.len);
		if (!end && i == 0)
			return; /* one part: the key itself */
		size_t len = end ? (size_t)(end - key.ptr) : key.len;
		if (len > 0)
			add_tag(tags, trace_tag(seed, TRACE_TAG_KEY, span_of(key.ptr, len)));
		key = span_skip(key, len + 1);
	}
}

static void tags_of(const struct trace *trace, uint64_t seed, struct tags *ret_tags)
{
	ret_tags->count = 0;
	if (trace->id.len > 0)
		add_tag(ret_tags, trace_tag(seed, TRACE_TAG_ID, trace->id));
	if (trace->ticket != 0)
		add_tag(ret_tags, trace_tag_ticket(seed, trace->ticket));
	if (trace->original != 0)
		add_tag(ret_tags, trace_tag_ticket(seed, trace->original));
	for (size_t i = 0; i < TRACE_KEYS_MAX; i++)
		add_key(ret_tags, seed, trace->keys[i]);
}

static int grow(void **array, size_t *room, size_t need, size_t size)
{
	if (need <= *room)
		return 0;
	size_t more = *room < 256 ? 512 : *room + *room / 2;
	void *grown = mem_realloc(*array, more * size);
	if (!grown)
		return -ENOMEM;
	*array = grown;
	*room = more;
	return 0;
}

static int add_record(struct trace_index *index, const struct tags *tags)
{
	void *array = index->tags;
	int r = grow(&array, &index->tag_room, index->tag_count + TRACE_TAGS_MAX,
	             sizeof(*index->tags));
	index->tags = array;
	if (r < 0)
		return r;
	array = index->tag_counts;
	r = grow(&array, &index->record_room, index->record_count + 1, sizeof(*index->tag_counts));
	index->tag_counts = array;
	if (r < 0)
		return r;
	memcpy(index->tags + index->tag_count, tags->tags, tags->count * sizeof(uint32_t));
	index->tag_count += tags->count;
	index->tag_counts[index->record_count++] = tags->count;
	return 0;
}

int trace_index_add(struct trace_index *index, uint64_t seed, uint32_t offset, struct span body)
{
	void *array = index->places;
	int r = grow(&array, &index->place_room, index->place_count + 1, sizeof(*index->places));
	index->places = array;
	if (r < 0)
		return r;
	index->places[index->place_count++] = (struct trace_place){ offset,
		                                                    (uint32_t)index->record_count };
	while (r == 0 && body.len > 0) {
		struct trace trace;
		struct tags tags;
		size_t size = 0;
		r = trace_record_read(body, &trace, &size);
		if (r < 0)
			break;
		tags_of(&trace, seed, &tags);
		r = add_record(index, &tags);
		body = span_skip(body, size);
	}
	if (r < 0)
		trace_index_drop_last(index);
	return r;
}

void trace_index_drop_last(struct trace_index *index)
{
	CHECK(index->place_count > 0);
	size_t first = index->places[--index->place_count].first;
	while (index->record_count > first)
		index->tag_count -= index->tag_counts[--index->record_count];
}

void trace_search_begin(struct trace_search *search, const struct trace_index *index)
{
	search->record = index->record_count;
	search->position = index->tag_count;
}

bool trace_search_next(struct trace_search *search, const struct trace_index *index)
{
	while (search->record > 0) {
		search->record--;
		size_t end = search->position;
		search->position -= index->tag_counts[search->record];
		if (search->all)
			return true;
		for (size_t i = search->position; i < end; i++)
			if (index->tags[i] == search->tag)
				return true;
	}
	return false;
}

const struct trace_place *trace_index_place(const struct trace_index *index, size_t record)
{
	CHECK(record < index->record_count && index->place_count > 0);
	size_t low = 0;
	size_t high = index->place_count;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (index->places[middle].first <= record)
			low = middle;
		else
			high = middle;
	}
	return &index->places[low];
}

static void *shrunk(void *array, size_t *room, size_t count, size_t size)
{
	if (count == *room || count == 0)
		return array;
	void *smaller = mem_realloc(array, count * size);
	if (!smaller)
		return array;
	*room = count;
	return smaller;
}

void trace_index_shrink(struct trace_index *index)
{
	index->tags = shrunk(index->tags, &index->tag_room, index->tag_count, sizeof(uint32_t));
	index->tag_counts = shrunk(index->tag_counts, &index->record_room, index->record_count, 1);
	index->places = shrunk(index->places, &index->place_room, index->place_count,
	                       sizeof(*index->places));
}

size_t trace_index_bytes(const struct trace_index *index)
{
	return index->tag_room * sizeof(uint32_t) + index->record_room +
	       index->place_room * sizeof(*index->places);
}

void trace_index_free(struct trace_index *index)
{
	mem_free(index->tags);
	mem_free(index->tag_counts);
	mem_free(index->places);
	*index = (struct trace_index){ 0 };
}
