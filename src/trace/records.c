/* records: see records.h. */
#include "trace/records.h"

#include "base/error.h"
#include "base/hash.h"
#include "gate/ticket.h"

_Static_assert(sizeof(struct trace_file_header) == 64, "as in the table");
_Static_assert(sizeof(struct trace_record) == 72, "as in the table");
_Static_assert(sizeof(struct trace_filter_block) == 64, "as in the table");
_Static_assert(sizeof(struct trace_trailer) == 64, "as in the table");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format is little-endian");
_Static_assert(TRACE_RECORD_MAX < UINT16_MAX, "a size has 16 bits");

static const char header_magic[8] = "stiletrc";
static const char trailer_magic[8] = "stileend";

void trace_file_header_seal(struct trace_file_header *header)
{
	memcpy(header->magic, header_magic, sizeof(header_magic));
	header->version = TRACE_FORMAT_VERSION;
	header->check = hash_checksum64(header, offsetof(struct trace_file_header, check), 0);
}

int trace_file_header_check(const struct trace_file_header *header)
{
	if (memcmp(header->magic, header_magic, sizeof(header_magic)) != 0 ||
	    header->check != hash_checksum64(header, offsetof(struct trace_file_header, check), 0))
		return ERR_DAMAGED;
	return header->version == TRACE_FORMAT_VERSION ? 0 : ERR_VERSION;
}

static uint64_t trailer_check(const struct trace_trailer *trailer)
{
	return hash_checksum64(trailer, offsetof(struct trace_trailer, check), trailer->epoch);
}

void trace_trailer_seal(struct trace_trailer *trailer)
{
	memcpy(trailer->magic, trailer_magic, sizeof(trailer_magic));
	trailer->check = trailer_check(trailer);
}

bool trace_trailer_is_valid(const struct trace_trailer *trailer, uint64_t epoch, uint64_t offset)
{
	return memcmp(trailer->magic, trailer_magic, sizeof(trailer_magic)) == 0 &&
	       trailer->epoch == epoch && trailer->offset == offset &&
	       trailer->records_end >= sizeof(struct trace_file_header) &&
	       trailer->records_end < offset && trailer->check == trailer_check(trailer);
}

/* ---- records ---- */

#define CLAIM_BYTES 12u

size_t trace_record_size(const struct trace *trace)
{
	size_t size = sizeof(struct trace_record) + CLAIM_BYTES * trace->claim_count;
	for (size_t i = 0; i < TRACE_TEXTS; i++)
		size += trace_text(trace, i).len;
	return (size + 7) & ~(size_t)7;
}

void trace_record_write(const struct trace *trace, unsigned char *out, size_t size)
{
	CHECK(size <= TRACE_RECORD_MAX && size % 8 == 0);
	struct trace_record record = {
		.size = (uint16_t)size,
		.verdict = (uint8_t)trace->verdict,
		.flags = trace->flags,
		.matched = trace->matched,
		.sample = trace->sample,
		.claim_count = trace->claim_count,
		.time_ms = trace->time_ms,
		.ticket = trace->ticket,
		.original = trace->original,
		.gap_ms = trace->gap_ms,
		.content = trace->content,
		.original_content = trace->original_content,
	};
	memset(out + size - 8, 0, 8); /* the last bytes, which the texts may not reach */
	unsigned char *at = out + sizeof(record);
	for (uint8_t i = 0; i < trace->claim_count; i++, at += CLAIM_BYTES) {
		memcpy(at, &trace->claims[i].word, 8);
		memcpy(at + 8, &trace->claims[i].window_s, 4);
	}
	for (size_t i = 0; i < TRACE_TEXTS; i++) {
		struct span text = trace_text(trace, i);
		record.text_len[i] = (uint8_t)text.len;
		if (text.len > 0)
			memcpy(at, text.ptr, text.len);
		at += text.len;
	}
	CHECK(at <= out + size);
	memcpy(out, &record, sizeof(record));
}

static uint32_t record_check(const unsigned char *record, size_t size, uint64_t seed)
{
	return (uint32_t)hash_checksum64(record + sizeof(uint32_t), size - sizeof(uint32_t), seed);
}

void trace_record_seal(unsigned char *record, uint64_t epoch, uint64_t offset)
{
	struct trace_record head;
	memcpy(&head, record, sizeof(head));
	head.check = record_check(record, head.size, epoch + offset);
	memcpy(record, &head.check, sizeof(head.check));
}

int trace_record_read(struct span bytes, struct trace *ret_trace, size_t *ret_size)
{
	struct trace_record record;
	if (bytes.len < sizeof(record))
		return ERR_DAMAGED;
	memcpy(&record, bytes.ptr, sizeof(record));
	size_t size = sizeof(record) + CLAIM_BYTES * record.claim_count;
	bool valid = record.claim_count <= CLAIMS_MAX && record.verdict < VERDICT_COUNT &&
	             record.sample < 64 && (record.ticket | record.original) >> TICKET_BITS == 0;
	for (size_t i = 0; i < TRACE_TEXTS; i++) {
		size += record.text_len[i];
		valid &= record.text_len[i] <= trace_texts[i].max;
	}
	if (!valid || record.size != ((size + 7) & ~(size_t)7) || record.size > bytes.len)
		return ERR_DAMAGED;
	*ret_trace = (struct trace){
		.time_ms = record.time_ms,
		.verdict = (enum verdict)record.verdict,
		.flags = record.flags,
		.matched = record.matched,
		.sample = record.sample,
		.ticket = record.ticket,
		.original = record.original,
		.gap_ms = record.gap_ms,
		.content = record.content,
		.original_content = record.original_content,
		.claim_count = record.claim_count,
	};
	const char *at = bytes.ptr + sizeof(record);
	for (uint8_t i = 0; i < record.claim_count; i++, at += CLAIM_BYTES) {
		memcpy(&ret_trace->claims[i].word, at, 8);
		memcpy(&ret_trace->claims[i].window_s, at + 8, 4);
	}
	for (size_t i = 0; i < TRACE_TEXTS; i++) {
		trace_set_text(ret_trace, i, span_of(at, record.text_len[i]));
		at += record.text_len[i];
	}
	*ret_size = record.size;
	return 0;
}

bool trace_reader_next(struct trace_reader *reader, struct trace *ret_trace, uint64_t *ret_offset)
{
	for (uint64_t at = reader->end; at + sizeof(struct trace_record) <= reader->file.len;
	     at += 8) {
		struct span rest = span_of(reader->file.ptr + at, reader->file.len - at);
		uint32_t check = 0;
		size_t size = 0;
		if (trace_record_read(rest, ret_trace, &size) < 0)
			continue;
		memcpy(&check, rest.ptr, sizeof(check));
		if (check !=
		    record_check((const unsigned char *)rest.ptr, size, reader->epoch + at))
			continue;
		if (at > reader->end && reader->damaged_bytes == 0)
			reader->damaged_at = reader->end;
		reader->damaged_bytes += at - reader->end;
		reader->end = at + size;
		*ret_offset = at;
		return true;
	}
	return false;
}

/* ---- terms and the filter ---- */

static bool key_has(struct span key, struct span part)
{
	if (span_eq(key, part))
		return true;
	while (key.len > 0)
		if (span_eq(span_cut_item(&key, TRACE_PART_END), part))
			return true;
	return false;
}

bool trace_has_term(const struct trace *trace, const struct trace_term *term)
{
	if (term->text.len == 0 && term->ticket == 0)
		return false;
	switch (term->kind) {
	case TRACE_TERM_ID: return span_eq(trace->id, term->text);
	case TRACE_TERM_TICKET:
		return trace->ticket == term->ticket || trace->original == term->ticket;
	case TRACE_TERM_KEY:
		return key_has(trace->keys[0], term->text) || key_has(trace->keys[1], term->text);
	case TRACE_TERM_ENTITY: return span_eq(trace->entity, term->text);
	case TRACE_TERM_CORRELATION: return span_eq(trace->correlation, term->text);
	}
	return false;
}

uint64_t trace_filter_hash(const struct trace_term *term, uint64_t epoch)
{
	if (term->kind == TRACE_TERM_TICKET)
		return hash_checksum64(&term->ticket, sizeof(term->ticket), epoch + term->kind);
	return hash_checksum64(term->text.ptr, term->text.len, epoch + term->kind);
}

uint32_t trace_filter_place(uint64_t hash, uint32_t count)
{
	return (uint32_t)((hash >> 32) * count >> 32);
}

static uint32_t filter_bit(uint64_t hash, uint32_t i)
{
	return ((uint32_t)(hash & 0xffff) + i * (uint32_t)(hash >> 16 & 0xffff)) % FILTER_BITS;
}

static void add_term(const struct trace_filter *filter, enum trace_term_kind kind, struct span text,
                     uint64_t ticket)
{
	if (text.len == 0 && ticket == 0)
		return;
	const struct trace_term term = { kind, text, ticket };
	uint64_t hash = trace_filter_hash(&term, filter->epoch);
	uint8_t *bits = filter->blocks[trace_filter_place(hash, filter->count)].bits;
	for (uint32_t i = 0; i < FILTER_BITS_SET; i++) {
		uint32_t bit = filter_bit(hash, i);
		bits[bit / 8] |= (uint8_t)(1u << bit % 8);
	}
}

void trace_filter_add(const struct trace_filter *filter, const struct trace *trace)
{
	add_term(filter, TRACE_TERM_ID, trace->id, 0);
	add_term(filter, TRACE_TERM_TICKET, SPAN_EMPTY, trace->ticket);
	add_term(filter, TRACE_TERM_TICKET, SPAN_EMPTY, trace->original);
	add_term(filter, TRACE_TERM_ENTITY, trace->entity, 0);
	add_term(filter, TRACE_TERM_CORRELATION, trace->correlation, 0);
	for (size_t i = 0; i < TRACE_KEYS_MAX; i++) {
		struct span key = trace->keys[i];
		add_term(filter, TRACE_TERM_KEY, key, 0);
		while (key.len > 0)
			add_term(filter, TRACE_TERM_KEY, span_cut_item(&key, TRACE_PART_END), 0);
	}
}

static uint32_t block_check(const struct trace_filter_block *block, uint64_t seed)
{
	return (uint32_t)hash_checksum64(block->bits, sizeof(block->bits), seed);
}

void trace_filter_seal(const struct trace_filter *filter, uint64_t offset)
{
	for (uint32_t i = 0; i < filter->count; i++, offset += sizeof(filter->blocks[i]))
		filter->blocks[i].check = block_check(&filter->blocks[i], filter->epoch + offset);
}

bool trace_filter_has(const struct trace_filter_block *block, uint64_t epoch, uint64_t offset,
                      uint64_t hash)
{
	if (block->check != block_check(block, epoch + offset))
		return true; /* T2 */
	for (uint32_t i = 0; i < FILTER_BITS_SET; i++) {
		uint32_t bit = filter_bit(hash, i);
		if (!(block->bits[bit / 8] >> bit % 8 & 1))
			return false;
	}
	return true;
}
