/* spool_record: see spool_record.h. */
#include "store/spool/spool_record.h"

#include <endian.h>
#include <string.h>

#include "base/error.h"

#define FORMAT 1

enum { BIT_NO_TICKET = 1 };
enum { BIT_SHADOW = 1, BIT_EQUAL_DROPS = 2 };

struct record_head {
	uint8_t format;
	uint8_t bits;
	uint8_t on_conflict;
	uint8_t claim_count;
	uint8_t leg_count;
	uint8_t reserved;
	uint16_t flags;
	uint32_t metadata_len;
	uint32_t reserved_too;
	uint64_t mark[2];
};
_Static_assert(sizeof(struct record_head) == 32, "as the table says");

struct record_claim {
	uint64_t digest[2];
	uint32_t window_s;
	uint8_t kind;
	uint8_t bits;
	uint16_t reserved;
	uint64_t order;
};
_Static_assert(sizeof(struct record_claim) == 32, "as the table says");

struct record_leg {
	uint32_t sink;
	uint32_t reserved;
	uint64_t order;
};
_Static_assert(sizeof(struct record_leg) == 16, "as the table says");

/* ---- writing ---- */

static void write_claim(struct buf *out, const struct claim *claim)
{
	struct record_claim record = {
		.digest = { htole64(claim->digest.word[0]), htole64(claim->digest.word[1]) },
		.window_s = htole32(claim->window_s),
		.kind = claim->kind,
		.bits = (uint8_t)((claim->shadow ? BIT_SHADOW : 0) |
		                  (claim->equal_drops ? BIT_EQUAL_DROPS : 0)),
		.order = htole64(claim->order),
	};
	buf_append(out, &record, sizeof(record));
}

static void write_leg(struct buf *out, const struct store_leg *leg)
{
	struct record_leg record = { .sink = htole32(leg->sink), .order = htole64(leg->order) };
	buf_append(out, &record, sizeof(record));
}

int spool_record_write(const struct store_admit *admit, const struct digest *mark, struct buf *out)
{
	struct record_head head = {
		.format = FORMAT,
		.bits = admit->no_ticket ? BIT_NO_TICKET : 0,
		.on_conflict = (uint8_t)admit->on_conflict,
		.claim_count = (uint8_t)admit->claim_count,
		.leg_count = (uint8_t)admit->leg_count,
		.flags = htole16(admit->flags),
		.metadata_len = htole32((uint32_t)admit->metadata.len),
		.mark = { htole64(mark->word[0]), htole64(mark->word[1]) },
	};
	CHECK(admit->claim_count <= CLAIMS_MAX && admit->leg_count <= STORE_LEGS_MAX);
	CHECK(admit->metadata.len <= STORE_METADATA_MAX);
	buf_clear(out);
	buf_append(out, &head, sizeof(head));
	for (uint32_t i = 0; i < admit->claim_count; i++)
		write_claim(out, &admit->claims[i]);
	for (uint32_t i = 0; i < admit->leg_count; i++)
		write_leg(out, &admit->legs[i]);
	buf_append_span(out, admit->metadata);
	buf_append_span(out, admit->payload);
	return out->failed;
}

/* ---- reading ---- */

/* The next `len` bytes; NULL: there are fewer. */
static const char *cut(struct span *bytes, size_t len)
{
	const char *at = bytes->ptr;
	if (bytes->len < len)
		return NULL;
	*bytes = span_of(at + len, bytes->len - len);
	return at;
}

static int read_claim(struct span *bytes, struct claim *ret_claim)
{
	struct record_claim record;
	const char *at = cut(bytes, sizeof(record));
	if (!at)
		return ERR_INVALID;
	memcpy(&record, at, sizeof(record));
	*ret_claim = (struct claim){
		.digest = { { le64toh(record.digest[0]), le64toh(record.digest[1]) } },
		.window_s = le32toh(record.window_s),
		.kind = record.kind,
		.shadow = record.bits & BIT_SHADOW,
		.equal_drops = record.bits & BIT_EQUAL_DROPS,
		.order = le64toh(record.order),
	};
	return 0;
}

static int read_leg(struct span *bytes, struct store_leg *ret_leg)
{
	struct record_leg record;
	const char *at = cut(bytes, sizeof(record));
	if (!at)
		return ERR_INVALID;
	memcpy(&record, at, sizeof(record));
	*ret_leg = (struct store_leg){ le32toh(record.sink), le64toh(record.order) };
	return 0;
}

static int read_head(struct span *bytes, struct record_head *ret_head)
{
	const char *at = cut(bytes, sizeof(*ret_head));
	if (!at)
		return ERR_INVALID;
	memcpy(ret_head, at, sizeof(*ret_head));
	if (ret_head->format != FORMAT)
		return ERR_VERSION;
	if (ret_head->claim_count > CLAIMS_MAX || ret_head->leg_count > STORE_LEGS_MAX ||
	    ret_head->on_conflict > STORE_CONFLICT_REJECT ||
	    le32toh(ret_head->metadata_len) > STORE_METADATA_MAX)
		return ERR_INVALID;
	return 0;
}

int spool_record_read(struct span bytes, struct spool_record *ret_record)
{
	struct record_head head;
	struct store_admit *admit = &ret_record->admit;
	int error = read_head(&bytes, &head);
	if (error != 0)
		return error;
	*ret_record = (struct spool_record){
		.mark = { { le64toh(head.mark[0]), le64toh(head.mark[1]) } },
		.admit = { .no_ticket = head.bits & BIT_NO_TICKET,
		           .on_conflict = (enum store_conflict)head.on_conflict,
		           .flags = le16toh(head.flags),
		           .claim_count = head.claim_count,
		           .leg_count = head.leg_count },
	};
	for (uint32_t i = 0; i < head.claim_count && error == 0; i++)
		error = read_claim(&bytes, &admit->claims[i]);
	for (uint32_t i = 0; i < head.leg_count && error == 0; i++)
		error = read_leg(&bytes, &ret_record->legs[i]);
	const char *metadata = error == 0 ? cut(&bytes, le32toh(head.metadata_len)) : NULL;
	if (!metadata)
		return ERR_INVALID;
	admit->legs = head.leg_count > 0 ? ret_record->legs : NULL;
	admit->metadata = span_of(metadata, le32toh(head.metadata_len));
	admit->payload = bytes;
	return store_admit_check(admit) == 0 ? 0 : ERR_INVALID;
}
