/* trace_format: see trace_format.h. */
#include "trace/trace_format.h"

#include "base/error.h"
#include "base/hash.h"
#include "gate/ticket.h"

_Static_assert(sizeof(struct trace_file_header) == TRACE_ALIGN, "as the table says");
_Static_assert(sizeof(struct trace_block_header) == TRACE_ALIGN, "as the table says");
_Static_assert(sizeof(struct trace_record) == 64, "as the table says");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format is little-endian");
_Static_assert(TRACE_RECORD_MAX < UINT16_MAX, "a size has 16 bits");

static const char file_magic[8] = "stiletrc";
static const char block_magic[4] = "TRB1";

static uint64_t file_check(const struct trace_file_header *header)
{
	return hash_checksum64(header, offsetof(struct trace_file_header, check), 0);
}

void trace_file_header_seal(struct trace_file_header *header)
{
	memcpy(header->magic, file_magic, sizeof(file_magic));
	header->version = TRACE_FORMAT_VERSION;
	header->check = file_check(header);
}

int trace_file_header_check(const struct trace_file_header *header)
{
	if (memcmp(header->magic, file_magic, sizeof(file_magic)) != 0 ||
	    header->check != file_check(header))
		return ERR_DAMAGED;
	return header->version == TRACE_FORMAT_VERSION ? 0 : ERR_VERSION;
}

static uint64_t block_check(const struct trace_block_header *header)
{
	return hash_checksum64(header, offsetof(struct trace_block_header, check), header->epoch);
}

static uint64_t body_check(const struct trace_block_header *header, const void *body)
{
	return hash_checksum64(body, header->body_len, header->epoch ^ header->offset);
}

void trace_block_seal(struct trace_block_header *header, const void *body)
{
	CHECK(header->body_len <= TRACE_BODY_MAX && header->offset % TRACE_ALIGN == 0);
	memcpy(header->magic, block_magic, sizeof(block_magic));
	header->body_check = body_check(header, body);
	header->check = block_check(header);
}

bool trace_block_header_check(const struct trace_block_header *header, uint64_t epoch,
                              uint64_t offset)
{
	return memcmp(header->magic, block_magic, sizeof(block_magic)) == 0 &&
	       header->epoch == epoch && header->offset == offset &&
	       header->check == block_check(header) && header->body_len <= TRACE_BODY_MAX;
}

bool trace_block_body_check(const struct trace_block_header *header, const void *body)
{
	return header->body_check == body_check(header, body);
}

/* ---- records ---- */

static const uint8_t text_max[TRACE_TEXTS] = {
	TRACE_ID_MAX,  TRACE_TYPE_MAX, TRACE_RULE_MAX, TRACE_PARTS_MAX,
	TRACE_KEY_MAX, TRACE_KEY_MAX,  TRACE_PEER_MAX,
};

static void list_texts(const struct trace *trace, struct span ret_texts[static TRACE_TEXTS])
{
	ret_texts[0] = trace->id;
	ret_texts[1] = trace->type;
	ret_texts[2] = trace->rule;
	ret_texts[3] = trace->parts;
	ret_texts[4] = trace->keys[0];
	ret_texts[5] = trace->keys[1];
	ret_texts[6] = trace->peer;
}

bool trace_record_fits(const struct trace *trace)
{
	struct span texts[TRACE_TEXTS];
	list_texts(trace, texts);
	bool fits = trace->source.len <= TRACE_SOURCE_MAX && trace->claim_count <= CLAIMS_MAX;
	for (size_t i = 0; i < TRACE_TEXTS; i++)
		fits &= texts[i].len <= text_max[i];
	return fits;
}

size_t trace_record_size(const struct trace *trace)
{
	size_t size = sizeof(struct trace_record) + 12u * trace->claim_count + trace->source.len +
	              trace->id.len + trace->type.len + trace->rule.len + trace->parts.len +
	              trace->keys[0].len + trace->keys[1].len + trace->peer.len;
	return (size + 7) & ~(size_t)7;
}

static unsigned char *put(unsigned char *at, const void *ptr, size_t len)
{
	if (len > 0)
		memcpy(at, ptr, len);
	return at + len;
}

void trace_record_write(const struct trace *trace, unsigned char *out, size_t size)
{
	CHECK(size <= TRACE_RECORD_MAX && size % 8 == 0);
	struct span texts[TRACE_TEXTS];
	list_texts(trace, texts);
	struct trace_record record = {
		.size = (uint16_t)size,
		.verdict = (uint8_t)trace->verdict,
		.flags = trace->flags,
		.matched = trace->matched,
		.sample = trace->sample,
		.claim_count = trace->claim_count,
		.source_len = (uint8_t)trace->source.len,
		.time_ms = trace->time_ms,
		.ticket = trace->ticket,
		.original = trace->original,
		.gap_ms = trace->gap_ms,
		.content = trace->content,
		.original_content = trace->original_content,
	};
	memset(out + size - 8, 0, 8); /* the end, where a text may not reach */
	unsigned char *at = out + sizeof(record);
	for (uint8_t i = 0; i < trace->claim_count; i++) {
		at = put(at, &trace->claims[i].word, 8);
		at = put(at, &trace->claims[i].window_s, 4);
	}
	at = put(at, trace->source.ptr, trace->source.len);
	for (size_t i = 0; i < TRACE_TEXTS; i++) {
		record.text_len[i] = (uint8_t)texts[i].len;
		at = put(at, texts[i].ptr, texts[i].len);
	}
	CHECK(at <= out + size);
	memcpy(out, &record, sizeof(record));
}

static bool record_is_valid(const struct trace_record *record, size_t room)
{
	size_t size = sizeof(*record) + 12u * record->claim_count + record->source_len;
	bool fits = record->claim_count <= CLAIMS_MAX && record->source_len <= TRACE_SOURCE_MAX &&
	            record->verdict < VERDICT_COUNT && record->sample < 64 &&
	            (record->ticket | record->original) >> TICKET_BITS == 0;
	for (size_t i = 0; i < TRACE_TEXTS; i++) {
		size += record->text_len[i];
		fits &= record->text_len[i] <= text_max[i];
	}
	return fits && record->size == ((size + 7) & ~(size_t)7) && record->size <= room;
}

static void take_fields(const struct trace_record *record, struct trace *ret_trace)
{
	*ret_trace = (struct trace){
		.time_ms = record->time_ms,
		.verdict = (enum verdict)record->verdict,
		.flags = record->flags,
		.matched = record->matched,
		.sample = record->sample,
		.ticket = record->ticket,
		.original = record->original,
		.gap_ms = record->gap_ms,
		.content = record->content,
		.original_content = record->original_content,
		.claim_count = record->claim_count,
	};
}

int trace_record_read(struct span bytes, struct trace *ret_trace, size_t *ret_size)
{
	struct trace_record record;
	if (bytes.len < sizeof(record))
		return ERR_DAMAGED;
	memcpy(&record, bytes.ptr, sizeof(record));
	if (!record_is_valid(&record, bytes.len))
		return ERR_DAMAGED;
	take_fields(&record, ret_trace);
	const char *at = bytes.ptr + sizeof(record);
	for (uint8_t i = 0; i < record.claim_count; i++, at += 12) {
		memcpy(&ret_trace->claims[i].word, at, 8);
		memcpy(&ret_trace->claims[i].window_s, at + 8, 4);
	}
	struct span *const texts[TRACE_TEXTS] = {
		&ret_trace->id,      &ret_trace->type,    &ret_trace->rule, &ret_trace->parts,
		&ret_trace->keys[0], &ret_trace->keys[1], &ret_trace->peer,
	};
	ret_trace->source = span_of(at, record.source_len);
	at += record.source_len;
	for (size_t i = 0; i < TRACE_TEXTS; i++) {
		*texts[i] = span_of(at, record.text_len[i]);
		at += record.text_len[i];
	}
	*ret_size = record.size;
	return 0;
}
