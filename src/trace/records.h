/*
 * records: the files of traces, byte by byte. Version 2.
 *
 * traces/NNNNNNNNNNNNNNNN.trc in the data folder, numbered upwards in hexadecimal. A file
 * has a header, then records. A full file ends with a filter and a trailer. All numbers are
 * little-endian; everything starts at a multiple of 8. Checksums are XXH3, of 64 bits, or
 * of these the low 32.
 *
 * File header (struct trace_file_header, 64 bytes)
 *   0   8  "stiletrc"
 *   8   4  version
 *   12  4  zero
 *   16  8  epoch: random, a part of the seed of every other checksum in the file
 *   24  8  when the file was created, unix ms
 *   32  24 zero
 *   56  8  checksum of the 56 bytes before it
 *
 * Record (struct trace_record, 72 bytes, then claims and texts)
 *   0   4  checksum of the rest of the record; seed: epoch + offset in the file
 *   4   2  size of the record, a multiple of 8
 *   6   1  verdict
 *   7   1  flags (gate/trace.h, enum trace_flags)
 *   8   1  index of the matched claim
 *   9   1  sample: stands for 1 << sample traces of its kind
 *   10  1  number of claims
 *   11  10 lengths of source, id, type, rule, parts, key 1, key 2, peer, entity, correlation
 *   21  3  zero
 *   24  8  time, unix ms
 *   32  8  ticket
 *   40  8  original
 *   48  8  gap, ms
 *   56  8  content
 *   64  8  content of the original
 *   72     claims: word 8, window in seconds 4; then the texts, in the order of their
 *          lengths; then zeros up to the size
 *
 * Filter: a Bloom filter in blocks of 64 bytes (struct trace_filter_block)
 *   0   60 bits
 *   60  4  checksum of the bits; seed: epoch + offset in the file
 *
 *   Every term of a record (enum trace_term_kind) has a hash of 64 bits: XXH3 of its
 *   bytes; seed: epoch + kind. The hash selects a block, and FILTER_BITS_SET bits in it.
 *
 * Trailer (struct trace_trailer, 64 bytes, the last of the file)
 *   0   8  "stileend"
 *   8   8  epoch
 *   16  8  end of the records: the filter starts here
 *   24  8  its own offset: the filter ends here
 *   32  8  number of records
 *   40  8  time of the first record, unix ms
 *   48  8  time of the last record, unix ms
 *   56  8  checksum of the 56 bytes before it
 *
 * Validity: a record is valid if its size is possible and its checksum is right. If it is
 * not, the next valid record is searched for at every multiple of 8. The trailer is valid
 * if magic, epoch, both offsets and the checksum are right; a file without a valid one is
 * read as records only. If the header's checksum is wrong, the epoch is that of the trailer,
 * or the header's all the same: with a wrong epoch no record is valid.
 *
 * Invariants
 *   T1  Damage costs the records that it is in, never others, and never gives a record that
 *       was not written: a checksum holds only at its own offset in its own file.
 *   T2  Every term of every record is in the filter. A filter block with a wrong checksum
 *       is taken as one that has every term.
 *   T3  Only the last file is appended to, and never behind a trailer.
 *
 * Room: trace. Threads: pure. Failure: bytes that do not follow the format are ERR_DAMAGED,
 * never a CHECK.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "gate/trace.h"
#include "trace/trace_log.h"

#define TRACE_FORMAT_VERSION 2u
#define FILTER_BITS 480u
#define FILTER_BITS_SET 6u

struct trace_file_header {
	char magic[8];
	uint32_t version;
	uint32_t zero;
	uint64_t epoch;
	uint64_t created_ms;
	uint64_t zeros[3];
	uint64_t check;
};

struct trace_record {
	uint32_t check;
	uint16_t size;
	uint8_t verdict;
	uint8_t flags;
	uint8_t matched;
	uint8_t sample;
	uint8_t claim_count;
	uint8_t text_len[TRACE_TEXTS];
	uint8_t zero[3];
	uint64_t time_ms;
	uint64_t ticket;
	uint64_t original;
	uint64_t gap_ms;
	uint64_t content;
	uint64_t original_content;
};

struct trace_filter_block {
	uint8_t bits[FILTER_BITS / 8];
	uint32_t check;
};

struct trace_trailer {
	char magic[8];
	uint64_t epoch;
	uint64_t records_end;
	uint64_t offset;
	uint64_t record_count;
	uint64_t first_ms;
	uint64_t last_ms;
	uint64_t check;
};

#define TRACE_RECORD_MAX                                                                      \
	(sizeof(struct trace_record) + 12 * CLAIMS_MAX + TRACE_SOURCE_MAX + TRACE_ID_MAX +    \
	 TRACE_TYPE_MAX + TRACE_RULE_MAX + TRACE_PARTS_MAX + TRACE_KEYS_MAX * TRACE_KEY_MAX + \
	 TRACE_PEER_MAX + TRACE_ENTITY_MAX + TRACE_CORRELATION_MAX + 8)

/* Fills in magic, version and checksum. */
void trace_file_header_seal(struct trace_file_header *header);

/* 0; ERR_DAMAGED; ERR_VERSION: a valid header of another version. */
int trace_file_header_check(const struct trace_file_header *header) must_check;

/* Fills in magic and checksum. */
void trace_trailer_seal(struct trace_trailer *trailer);
bool trace_trailer_is_valid(const struct trace_trailer *trailer, uint64_t epoch, uint64_t offset);

/* Of a trace whose texts were trimmed (trace_trim()). */
size_t trace_record_size(const struct trace *trace);

/* Writes everything but the checksum, which needs the record's place in a file. */
void trace_record_write(const struct trace *trace, unsigned char *out, size_t size);
void trace_record_seal(unsigned char *record, uint64_t epoch, uint64_t offset);

/* The record at the start of `bytes`, without a look at its checksum; its texts point into
 * them. */
int trace_record_read(struct span bytes, struct trace *ret_trace, size_t *ret_size) must_check;

/* Reads the valid records of a file, or of its part without filter and trailer. */
struct trace_reader {
	struct span file;
	uint64_t epoch;
	uint64_t end;           /* of the last valid record, or of the header */
	uint64_t damaged_bytes; /* before valid records; the first of them: */
	uint64_t damaged_at;
};

static inline struct trace_reader trace_reader_of(struct span file, uint64_t epoch)
{
	return (struct trace_reader){ file, epoch, sizeof(struct trace_file_header), 0, 0 };
}

/* False: there is no further record. The texts point into the file; ret_offset is where the
 * record starts. */
bool trace_reader_next(struct trace_reader *reader, struct trace *ret_trace, uint64_t *ret_offset);

/* Does the record have this term? */
bool trace_has_term(const struct trace *trace, const struct trace_term *term);

/* The filter of a file that is being written. */
struct trace_filter {
	struct trace_filter_block *blocks; /* zeroed is empty */
	uint32_t count;
	uint64_t epoch;
};

/* Adds all terms of a record. */
void trace_filter_add(const struct trace_filter *filter, const struct trace *trace);
/* Fills in the checksums. `offset`: of the first block in the file. */
void trace_filter_seal(const struct trace_filter *filter, uint64_t offset);

/* Which of the `count` blocks to read for a term, and whether that block has it. */
uint64_t trace_filter_hash(const struct trace_term *term, uint64_t epoch);
uint32_t trace_filter_place(uint64_t hash, uint32_t count);
bool trace_filter_has(const struct trace_filter_block *block, uint64_t epoch, uint64_t offset,
                      uint64_t hash);
