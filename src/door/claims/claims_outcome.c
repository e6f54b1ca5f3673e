/*
 * claims_outcome: an outcome as the value of a cell, and as JSON.
 *
 *   bytes  what, little-endian
 *   1      format: 1
 *   1      coding: enum claims_coding
 *   2      status
 *   4      attempt
 *   8      when it was settled: unix ms
 *   1      n, length of the content type
 *   n      content type
 *          body (the rest)
 */
#include <endian.h>
#include <string.h>

#include "base/error.h"
#include "codec/json_write.h"
#include "door/claims/claims_internal.h"

#define FORMAT 1

struct head {
	uint8_t format;
	uint8_t coding;
	uint16_t status;
	uint32_t attempt;
	uint64_t settled_ms;
};

_Static_assert(sizeof(struct head) == 16, "as in the table above");

int claims_outcome_write(const struct claims_outcome *outcome, struct buf *out)
{
	struct head head = { .format = FORMAT,
		             .coding = (uint8_t)outcome->coding,
		             .status = htole16(outcome->status),
		             .attempt = htole32(outcome->attempt),
		             .settled_ms = htole64(outcome->settled_ms) };

	CHECK(outcome->type.len <= CLAIMS_TYPE_MAX);
	buf_append(out, &head, sizeof(head));
	buf_append_char(out, (char)outcome->type.len);
	buf_append_span(out, outcome->type);
	buf_append_span(out, outcome->body);
	return out->failed;
}

bool claims_outcome_read(struct span bytes, struct claims_outcome *ret_outcome)
{
	struct head head;

	if (!bytes.ptr || bytes.len <= sizeof(head))
		return false;
	memcpy(&head, bytes.ptr, sizeof(head));
	struct span rest = span_of(bytes.ptr + sizeof(head), bytes.len - sizeof(head));
	size_t type_len = (unsigned char)rest.ptr[0];
	rest = span_skip(rest, 1);
	if (head.format != FORMAT || head.coding > CLAIMS_BYTES || rest.len < type_len)
		return false;
	*ret_outcome = (struct claims_outcome){ .coding = (enum claims_coding)head.coding,
		                                .status = le16toh(head.status),
		                                .attempt = le32toh(head.attempt),
		                                .settled_ms = le64toh(head.settled_ms),
		                                .type = span_of(rest.ptr, type_len),
		                                .body = span_skip(rest, type_len) };
	return true;
}

bool claims_outcome_same(const struct claims_outcome *a, const struct claims_outcome *b)
{
	return a->coding == b->coding && a->status == b->status && span_eq(a->type, b->type) &&
	       span_eq(a->body, b->body);
}

void claims_outcome_add(struct buf *out, const char *name, const struct claims_outcome *outcome)
{
	if (outcome->coding == CLAIMS_JSON)
		json_add_raw(out, name, outcome->body);
	else if (outcome->coding == CLAIMS_NO_OUTCOME)
		json_add_null(out, name);
	else
		claims_outcome_add_text(out, name, outcome);
}

void claims_outcome_add_text(struct buf *out, const char *name,
                             const struct claims_outcome *outcome)
{
	if (outcome->coding == CLAIMS_BYTES)
		json_add_base64(out, name, outcome->body);
	else
		json_add_text(out, name, outcome->body);
}

const char *claims_coding_name(enum claims_coding coding)
{
	static const char *const names[] = {
		[CLAIMS_NO_OUTCOME] = "none",
		[CLAIMS_JSON] = "json",
		[CLAIMS_TEXT] = "text",
		[CLAIMS_BYTES] = "base64",
	};

	CHECK((size_t)coding < ARRAY_LEN(names));
	return names[coding];
}
