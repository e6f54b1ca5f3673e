/*
 * trace_format: the files in which traces are kept, byte by byte.
 *
 * traces/NNNNNNNNNNNNNNNN.trc in the data folder, numbered upwards in
 * hexadecimal: a header, then blocks. All numbers are little-endian. Everything
 * starts at a multiple of 64 bytes; what is between is zero.
 *
 * File header (64 bytes)
 *   0   8  "stiletrc"
 *   8   4  version: 1
 *   12  4  zero
 *   16  8  number, as in the name
 *   24  8  epoch: random, seeds every checksum of the file's blocks
 *   32  8  when it was begun, unix ms
 *   40  16 zero
 *   56  8  checksum of the 56 bytes before
 *
 * Block: header (64 bytes), then body
 *   0   4  "TRB1"
 *   4   4  kind: 1 traces, 2 the gaps of one source
 *   8   8  epoch of the file
 *   16  8  sequence: 1, 2, … within the file
 *   24  8  its own offset in the file
 *   32  4  length of the body, at most TRACE_BODY_MAX
 *   36  4  records in it
 *   40  8  time of its last record, unix ms
 *   48  8  checksum of the body
 *   56  8  checksum of the 56 bytes before
 *
 * Body of kind 1: records, each a multiple of 8 bytes long
 *   0   2  size, with everything
 *   2   1  verdict
 *   3   1  flags (enum trace_flags)
 *   4   1  index of the matched claim
 *   5   1  sample: stands for 1 << sample
 *   6   1  claims
 *   7   1  length of the source's name
 *   8   8  lengths of id, type, rule, parts, key 1, key 2, peer; zero
 *   16  8  time, unix ms
 *   24  8  ticket
 *   32  8  original
 *   40  8  gap, ms
 *   48  8  content
 *   56  8  content of the original
 *   64     claims: 8 word, 4 window in seconds; then the texts in the order of
 *          their lengths (source first); then zeros
 *
 * Body of kind 2: 1 length of the source's name, the name, then gate/gap.h.
 *
 * Invariants
 *   T1  A block is used only if both checksums, epoch and offset are right and
 *       its sequence is above those before it.
 *   T2  A trace is in one block; a bad block costs its own traces only: the next
 *       valid header is looked for at every multiple of 64.
 *   T3  The gaps of a source are those of its last kind 2 block and of all
 *       traces behind it.
 *
 * Room: trace. Threads: pure. Failure: what does not follow the format is
 * ERR_DAMAGED, never a CHECK.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "gate/trace.h"

#define TRACE_FORMAT_VERSION 1u
#define TRACE_ALIGN 64u
#define TRACE_BLOCK_BYTES 65536u
#define TRACE_BODY_MAX (TRACE_BLOCK_BYTES - TRACE_ALIGN)
#define TRACE_FILE_BYTES_MAX (1u << 30)

enum trace_block_kind { TRACE_BLOCK_TRACES = 1, TRACE_BLOCK_GAPS = 2 };

struct trace_file_header {
	char magic[8];
	uint32_t version;
	uint32_t zero;
	uint64_t number;
	uint64_t epoch;
	uint64_t begun_ms;
	uint64_t zeros[2];
	uint64_t check;
};

struct trace_block_header {
	char magic[4];
	uint32_t kind;
	uint64_t epoch;
	uint64_t sequence;
	uint64_t offset;
	uint32_t body_len;
	uint32_t count;
	uint64_t last_ms;
	uint64_t body_check;
	uint64_t check;
};

/* The texts of a record, in their order; the source's length stands apart. */
#define TRACE_TEXTS 7

struct trace_record {
	uint16_t size;
	uint8_t verdict;
	uint8_t flags;
	uint8_t matched;
	uint8_t sample;
	uint8_t claim_count;
	uint8_t source_len;
	uint8_t text_len[TRACE_TEXTS];
	uint8_t zero;
	uint64_t time_ms;
	uint64_t ticket;
	uint64_t original;
	uint64_t gap_ms;
	uint64_t content;
	uint64_t original_content;
};

#define TRACE_RECORD_MAX                                                                      \
	(sizeof(struct trace_record) + 12 * CLAIMS_MAX + TRACE_SOURCE_MAX + TRACE_ID_MAX +    \
	 TRACE_TYPE_MAX + TRACE_RULE_MAX + TRACE_PARTS_MAX + TRACE_KEYS_MAX * TRACE_KEY_MAX + \
	 TRACE_PEER_MAX + 8)

/* Fills in magic, version and checksum. */
void trace_file_header_seal(struct trace_file_header *header);
int trace_file_header_check(const struct trace_file_header *header) must_check;

/* Fills in magic and checksums. */
void trace_block_seal(struct trace_block_header *header, const void *body);

/* Is this the header of a block that belongs here? */
bool trace_block_header_check(const struct trace_block_header *header, uint64_t epoch,
                              uint64_t offset);
bool trace_block_body_check(const struct trace_block_header *header, const void *body);

static inline uint32_t trace_block_span(uint32_t body_len)
{
	return TRACE_ALIGN + ((body_len + TRACE_ALIGN - 1) & ~(TRACE_ALIGN - 1));
}

/* Of a trace whose texts are not too long (trace_trim()). */
size_t trace_record_size(const struct trace *trace);
bool trace_record_fits(const struct trace *trace); /* no text is too long */
void trace_record_write(const struct trace *trace, unsigned char *out, size_t size);

/* The record at the start of `bytes`; its texts point into them. */
int trace_record_read(struct span bytes, struct trace *ret_trace, size_t *ret_size) must_check;
