/*
 * trace_index: where the traces of one file are that have an id, a ticket or a
 * key.
 *
 * A record has a few tags of 32 bits: of its id, its tickets, its keys and each
 * part of a key. A search compares the wanted tag with all of them, newest
 * first, and whoever finds a match reads the record to be sure: 183,000 records
 * with seven tags each take 5 MiB and 0.6 ms to look through (bench_trace). A hash
 * table would be quicker to ask, but would cost cache misses for every trace
 * that is written, and almost none is ever asked for.
 *
 * Room:      trace. Threads: one at a time. Ownership: trace_index_free() takes
 *            the memory; zeroed is empty.
 * Failure:   -ENOMEM, and the index is as before.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "gate/trace.h"

#define TRACE_KEY_PARTS_MAX 8 /* parts of a key that have tags of their own */
#define TRACE_TAGS_MAX (3 + TRACE_KEYS_MAX * (1 + TRACE_KEY_PARTS_MAX))

enum trace_tag_kind { TRACE_TAG_ID = 1, TRACE_TAG_TICKET, TRACE_TAG_KEY };

struct trace_place {
	uint32_t offset; /* of the block in its file */
	uint32_t first;  /* number of its first record in the file */
};

struct trace_index {
	uint32_t *tags;
	uint8_t *tag_counts; /* of each record */
	struct trace_place *places;
	size_t tag_count, tag_room;
	size_t record_count, record_room;
	size_t place_count, place_room;
};

/* `seed` is random and the same for all of a log, so that nobody can choose ids
 * with equal tags. */
uint32_t trace_tag(uint64_t seed, enum trace_tag_kind kind, struct span text);
uint32_t trace_tag_ticket(uint64_t seed, uint64_t ticket);

/* Adds a block of records whose body was checked; ERR_DAMAGED if one of them is
 * not valid. */
int trace_index_add(struct trace_index *index, uint64_t seed, uint32_t offset,
                    struct span body) must_check;

/* Takes the last block out again. */
void trace_index_drop_last(struct trace_index *index);

/* The records that have the tag, from the newest. False: no more. */
struct trace_search {
	uint32_t tag;
	bool all; /* every record, whatever its tags */
	size_t record;
	size_t position; /* of its first tag */
};
void trace_search_begin(struct trace_search *search, const struct trace_index *index);
bool trace_search_next(struct trace_search *search, const struct trace_index *index);

/* Which block a record is in. */
const struct trace_place *trace_index_place(const struct trace_index *index, size_t record);

/* Gives back room that it does not use. */
void trace_index_shrink(struct trace_index *index);
size_t trace_index_bytes(const struct trace_index *index);
void trace_index_free(struct trace_index *index);
