/*
 * format: every byte that the local store writes. Version 1; 2 in the superblock of a
 * folder that has, or had, cells: so that an earlier binary says why it refuses it.
 *
 * All numbers are little-endian. A block is 4096 bytes; everything is written
 * in whole blocks. Checksums are XXH3 (64 bit).
 *
 * Files of a data folder
 *
 *   superblock             two slots of one block each, written in turn
 *   NNNNNNNNNNNNNNNN.seg   segment, by number (16 hex digits, from 1)
 *   NNNNNNNNNNNNNNNN.clm   claims file: the claims of that segment, without payloads
 *   spare.seg, *.tmp       being prepared; of no meaning after a crash
 *
 * The process that has the folder holds a lock on the folder itself. (A file
 * `lock` is left from earlier builds; it means nothing and a start removes it.)
 *
 * Superblock slot (struct superblock_slot, 256 bytes, rest of the block zero)
 *
 *      0  8  magic "STILESB1"         80  8  steady ms (high-water mark)
 *      8  4  version                  88  8  boot ms at that time
 *     12  4  flags (below)           96  8  wall ms at that time
 *     16 16  folder id               104 16  boot id
 *     32 16  digest key              120  8  live claims (a hint)
 *     48  8  generation              128  8  last ticket
 *     56  8  durable segment         136  8  scan from
 *     64  8  durable end (bytes)     144  8  oldest number still needed
 *     72  8  durable sequence        152  8  live cells (a hint)
 *                                    160 88  zero
 *                                    248  8  checksum of bytes 0 … 247
 *
 * Flags: 1, closed clean; 2, the durable segment was still open when it was
 * closed, and nothing was ever written to it behind the durable end; 4, there are
 * cells, and the version is 2.
 *
 * Segment: one header block, then frames; see struct segment_header (128 bytes).
 *
 *      0  8  magic "STILESG1"         64  8  previous segment (0: none)
 *      8  4  version                  72  8  its valid end (bytes)
 *     12  4  zero                     80  8  its last sequence
 *     16 16  folder id                88  8  scan from
 *     32  8  number                   96  8  steady ms
 *     40  8  epoch (random, not 0)   104  8  when the last claim of the previous
 *     48  8  first sequence                  one expires (ms)
 *     56  8  size of the segment     112  8  zero
 *                                    120  8  checksum of bytes 0 … 119
 *
 * Frame: one group commit. Starts at a block, spans whole blocks. 64 bytes, then
 * the body, then zeros up to the span.
 *
 *      0  4  magic "SFRM"             32  4  body length
 *      4  4  number of entries        36  4  span (multiple of 4096)
 *      8  8  header checksum          40  8  body checksum
 *     16  8  epoch                    48  8  steady ms
 *     24  8  sequence                 56  8  wall ms
 *
 * Both checksums are seeded with the epoch, a secret until it is on disk, so
 * the payload of an event cannot pose as a frame.
 *
 * Entries of a body start at multiples of 8: size (4), kind (1), three bytes of
 * the kind's own, then
 *
 *   EVENT   claim count, flags, length of source | ticket 8, check 4, caller's
 *           flags 2, attempts 2, claims (digest 16, window s 4, zero 4) …, source,
 *           payload (the rest). check: XXH3 of the entry with check zero, seeded
 *           with the epoch, cut to 32 bits; so one event can be served alone. The
 *           claims are those that it took: a claim of a higher ticket is the one
 *           that holds (a conflict that passed has taken it over).
 *   ROUTED  as EVENT, of an event with legs or metadata (the
 *           "letter" of the formats, gate/metadata.h): behind the claims stand its
 *           number of legs 1, first leg 1, length of letter 2, zero 4, legs (order 8,
 *           sink 4, zero 4) …, and behind the source the letter. The ticket is that of
 *           the first leg written here; each leg is a ticket, one above the other. A
 *           carried copy has one leg, and `first leg` tells which of its event. No legs
 *           are one, of sink 0 and order 0.
 *   SETTLE  outcome, zero 2 | ticket 8, attempt 4, zero 4, and if released to a time
 *           ahead: due ms 8. Done and dead are closed. Attempt 0: of a held ticket,
 *           which is due from then on (released) or dropped (dead); or dropped of any.
 *   NOTE    mark, status 2 | ticket 8, attempt 4, segment 4 and offset 4 of the note
 *           before it (0: none), check 4, at ms 8, due ms 8, text (the rest). What is
 *           known of an open ticket beside its outcome: store.h, enum store_mark. That
 *           of the last note holds: DEAD and PARKED keep it from delivery, RELEASED ends
 *           that. check: as that of an EVENT.
 *   SEEN    zero 3 | ticket 8, count 8, last seen ms 8, expiry ms 8
 *   NEWEST  zero 3 | ticket 8, digest 16, order 8, window s 4, zero 4: the event of
 *           this ticket, in the same frame, moved an entity on to this order. That
 *           of the highest ticket holds.
 *
 *   CELL    act, length of name 2 | digest's key 12 (its check's place: check 4), expiry
 *           ms 8 (0: never), name, value (the rest). What a name is from here on: PUT and
 *           CARRIED (a copy: its first place was retired) give it a value and an expiry;
 *           EXPIRE, with neither name nor value, an earlier expiry; REMOVE ends it. What
 *           comes later in the journal holds. check: as that of an EVENT.
 *
 * A digest is 96 bits of key and, in the low half of its second word, 32 of content
 * check (gate/claim.h).
 *
 * Claims file: a header block (struct claims_header), then blocks of a 32-byte
 * header (struct claims_block) and up to 127 records of 32 bytes
 * (struct claims_record).
 *
 * Validity: a frame is valid if its header checks (magic, checksum, epoch of the
 * segment, sequence one above the last, lengths within the segment) and its body
 * checks. The length is used only after the header checked.
 *
 * Invariants
 *
 *   F1  A block that was made durable is never written again (but superblock
 *       slots, and whole files that were retired).
 *   F2  Sequences go up by one from frame to frame, across segments.
 *   F3  Before the first frame of segment N is answered, N's header and a
 *       superblock with durable segment N are durable. N's header fixes the
 *       valid end of N-1: nothing is appended to N-1 after it was written.
 *   F4  At most one write to a segment is in flight; so at most the last frame
 *       of the last segment can be torn. (The next one may be put together
 *       meanwhile, in memory.)
 *   F5  Every open ticket has its EVENT, and every live cell the PUT or CARRIED that
 *       holds, in a segment at or above `scan from`; and so stands all that was
 *       written of them since.
 *   F6  For every number from `oldest` to the last segment there is a segment
 *       or a claims file; at or above `scan from` there is the segment.
 *   F7  Tickets of EVENT entries that are not carried go up.
 *   F10 The last note of an open ticket stands in the segment of its EVENT or above:
 *       a carried EVENT is followed by a copy of it, whose `note before` is none.
 *   F11 An EXPIRE makes the end earlier, never later (that is a PUT): so an entry of a
 *       cell that is over when it is read ends it, whatever follows.
 *   F12 A superblock of version 2 is durable before the first CELL is.
 *   F8  A segment is retired only when its claims file is durable or its claims
 *       have expired, and no slot of the superblock needs it any more.
 *   F9  A start resumes the last segment only if its end is exact: the
 *       superblock has flag 2 and this very end, or all behind the header is
 *       zero. A superblock without flag 2 is durable before the next frame.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "gate/claim.h"
#include "gate/ticket.h"
#include "gate/window.h"
#include "store/store.h"

#define FORMAT_VERSION 1u
#define FORMAT_VERSION_CELLS 2u /* of a superblock with SUPERBLOCK_CELLS */
#define FORMAT_BLOCK 4096u
#define FORMAT_ID_LEN 16
#define FORMAT_KEY_LEN 16

#define SUPERBLOCK_MAGIC UINT64_C(0x314253454c495453) /* "STILESB1" */
#define SEGMENT_MAGIC UINT64_C(0x314753454c495453)    /* "STILESG1" */
#define CLAIMS_MAGIC UINT64_C(0x314c43454c495453)     /* "STILECL1" */
#define FRAME_MAGIC UINT32_C(0x4d524653)              /* "SFRM" */

struct superblock_slot {
	uint64_t magic;
	uint32_t version;
	uint32_t flags;
	unsigned char folder_id[FORMAT_ID_LEN];
	unsigned char key[FORMAT_KEY_LEN];
	uint64_t generation;
	uint64_t durable_segment;
	uint64_t durable_end;
	uint64_t durable_sequence;
	uint64_t steady_ms;
	uint64_t boot_ms;
	uint64_t wall_ms;
	unsigned char boot_id[16];
	uint64_t live_claims;
	uint64_t last_ticket;
	uint64_t scan_from;
	uint64_t oldest;
	uint64_t live_cells;
	unsigned char zero[88];
	uint64_t check;
};

#define SUPERBLOCK_CLEAN 1u
#define SUPERBLOCK_OPEN_END 2u
#define SUPERBLOCK_CELLS 4u

struct segment_header {
	uint64_t magic;
	uint32_t version;
	uint32_t zero;
	unsigned char folder_id[FORMAT_ID_LEN];
	uint64_t number;
	uint64_t epoch;
	uint64_t first_sequence;
	uint64_t size;
	uint64_t previous;
	uint64_t previous_end;
	uint64_t previous_sequence;
	uint64_t scan_from;
	uint64_t steady_ms;
	uint64_t previous_expiry_ms;
	uint64_t zero2;
	uint64_t check;
};

struct frame_header {
	uint32_t magic;
	uint32_t entry_count;
	uint64_t header_check;
	uint64_t epoch;
	uint64_t sequence;
	uint32_t body_len;
	uint32_t span;
	uint64_t body_check;
	uint64_t steady_ms;
	uint64_t wall_ms;
};

enum entry_kind {
	ENTRY_EVENT = 1,
	ENTRY_SETTLE = 2,
	ENTRY_SEEN = 3,
	ENTRY_NEWEST = 4,
	ENTRY_NOTE = 5,
	ENTRY_ROUTED = 6, /* taken apart it is an EVENT */
	ENTRY_CELL = 7,
};

enum entry_cell_act {
	CELL_PUT = 1,
	CELL_EXPIRE = 2,
	CELL_REMOVE = 3,
	CELL_CARRIED = 4, /* a PUT */
};

enum entry_event_flags {
	EVENT_NO_TICKET = 1, /* claims only, nothing to deliver */
	EVENT_CARRIED = 2,   /* a copy: its first place was retired; has no claims */
	EVENT_HELD = 4,      /* kept aside: not due before a SETTLE releases it */
};

struct entry_head {
	uint32_t size; /* of the entry, without the padding to 8 */
	uint8_t kind;
	uint8_t own[3];
};

struct entry_event {
	uint32_t size;
	uint8_t kind;
	uint8_t claim_count;
	uint8_t flags;
	uint8_t source_len;
	uint64_t ticket;
	uint32_t check;
	uint16_t user_flags;
	uint16_t attempt; /* of a carried event: the last that was released */
};

struct entry_routing {
	uint8_t leg_count;
	uint8_t first_leg;
	uint16_t metadata_len;
	uint32_t zero;
};

struct entry_leg {
	uint64_t order;
	uint32_t sink;
	uint32_t zero;
};

struct entry_claim {
	struct digest digest;
	uint32_t window_s;
	uint32_t zero;
};

struct entry_settle {
	uint32_t size;
	uint8_t kind;
	uint8_t outcome;
	uint16_t zero;
	uint64_t ticket;
	uint32_t attempt;
	uint32_t zero2;
};

/* An entry_settle, and when it is due. */
struct entry_settle_due {
	struct entry_settle settle;
	uint64_t due_ms;
};

struct entry_note {
	uint32_t size;
	uint8_t kind;
	uint8_t mark;
	uint16_t status;
	uint64_t ticket;
	uint32_t attempt;
	uint32_t before_segment;
	uint32_t before_offset;
	uint32_t check;
	uint64_t at_ms;
	uint64_t due_ms;
};

struct entry_seen {
	uint32_t size;
	uint8_t kind;
	uint8_t zero[3];
	uint64_t ticket;
	uint64_t count;
	uint64_t last_ms;
	uint64_t expiry_ms;
};

struct entry_newest {
	uint32_t size;
	uint8_t kind;
	uint8_t zero[3];
	uint64_t ticket;
	struct digest digest;
	uint64_t order;
	uint32_t window_s;
	uint32_t zero2;
};

struct entry_cell {
	uint32_t size;
	uint8_t kind;
	uint8_t act;
	uint16_t name_len;
	struct digest digest; /* with the check of the entry in the place of its own */
	uint64_t expiry_ms;
};

static inline bool entry_cell_puts(const struct entry_cell *cell)
{
	return cell->act == CELL_PUT || cell->act == CELL_CARRIED;
}

struct claims_header {
	uint64_t magic;
	uint32_t version;
	uint32_t zero;
	unsigned char folder_id[FORMAT_ID_LEN];
	uint64_t number; /* of the segment */
	uint64_t record_count;
	uint64_t max_expiry_ms; /* of its claims */
	uint64_t max_ticket;
	uint64_t sealed_ms;    /* steady time when the segment ended */
	uint64_t previous_end; /* as in the segment's header: the segment may be gone */
	uint64_t previous_sequence;
	uint64_t previous_expiry_ms;
	unsigned char zero2[24];
	uint64_t check;
};

struct claims_block {
	uint64_t check; /* of the rest of the block, seeded with the number */
	uint64_t number;
	uint32_t index;
	uint32_t count;
	uint64_t zero;
};

enum claims_record_kind {
	CLAIMS_RECORD_CLAIM = 1,
	CLAIMS_RECORD_SEEN = 2,
	CLAIMS_RECORD_NEWEST = 3,
};

/* CLAIM: digest, ticket, window, and the longest window of its event's claims.
 * SEEN: count, last seen ms, ticket, and the time from the ticket's to its
 * expiry as the window.
 * NEWEST: the digest's first word and the order in place of the second, of which
 * the key is the window; ticket; the window as a code (window.h) in the flags. */
struct claims_record {
	struct digest digest;
	uint64_t ticket;
	uint32_t window_s;
	uint16_t kind;
	uint16_t flags; /* CLAIM: of the index, at most CLAIMS_RECORD_FLAGS */
};

#define CLAIMS_BLOCK_RECORDS 127u
#define CLAIMS_RECORD_FLAGS 31u

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format is little-endian");
_Static_assert(sizeof(struct superblock_slot) == 256, "as in the table above");
_Static_assert(sizeof(struct segment_header) == 128, "as in the table above");
_Static_assert(sizeof(struct frame_header) == 64, "as in the table above");
_Static_assert(sizeof(struct entry_event) == 24, "as in the table above");
_Static_assert(sizeof(struct entry_claim) == 24, "as in the table above");
_Static_assert(sizeof(struct entry_settle) == 24, "as in the table above");
_Static_assert(sizeof(struct entry_settle_due) == 32, "as in the table above");
_Static_assert(sizeof(struct entry_routing) == 8, "as in the table above");
_Static_assert(sizeof(struct entry_leg) == 16, "as in the table above");
_Static_assert(sizeof(struct entry_note) == 48, "as in the table above");
_Static_assert(sizeof(struct entry_seen) == 40, "as in the table above");
_Static_assert(sizeof(struct entry_newest) == 48, "as in the table above");
_Static_assert(sizeof(struct entry_cell) == 32, "as in the table above");
_Static_assert(sizeof(struct claims_header) == 128, "as in the table above");
_Static_assert(sizeof(struct claims_block) + CLAIMS_BLOCK_RECORDS * sizeof(struct claims_record) ==
                       FORMAT_BLOCK,
               "a block is full");

static inline uint64_t format_align(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/* Whoever reads a number from disk asks this before the index sees it. */
static inline bool format_ticket_valid(uint64_t ticket)
{
	return ticket != 0 && ticket >> TICKET_BITS == 0;
}

/* Seal: fill in magic, version and checksum. Check: 0, ERR_DAMAGED or ERR_VERSION. */
void superblock_slot_seal(struct superblock_slot *slot);
int superblock_slot_check(const struct superblock_slot *slot) must_check;
void segment_header_seal(struct segment_header *header);
int segment_header_check(const struct segment_header *header) must_check;
void claims_header_seal(struct claims_header *header);
int claims_header_check(const struct claims_header *header) must_check;
void claims_block_seal(unsigned char block[static FORMAT_BLOCK]);
int claims_block_check(const unsigned char block[static FORMAT_BLOCK], uint64_t number,
                       uint32_t index) must_check;

/* Seals a frame whose body stands right behind the header; needs epoch,
 * body_len, span and the rest filled in. */
void frame_seal(unsigned char *frame, struct frame_header *header);
/* Is this the header of a frame of this epoch? `room`: bytes up to the end of the file. */
bool frame_header_valid(const struct frame_header *header, uint64_t epoch, uint64_t room);
bool frame_body_valid(const struct frame_header *header, const unsigned char *body);

/* The check of an EVENT, NOTE or CELL entry of `size` bytes, whatever its check field
 * holds. */
uint32_t entry_event_check(const unsigned char *entry, uint32_t size, uint64_t epoch);
uint32_t entry_note_check(const unsigned char *entry, uint32_t size, uint64_t epoch);
uint32_t entry_cell_check(const unsigned char *entry, uint32_t size, uint64_t epoch);

/* The same of one that was just put together, without reading its head back. */
struct entry_made {
	const uint64_t *head; /* in words, with zeros for the check */
	uint32_t head_size;
	uint32_t size;              /* of the entry, which stands */
	const unsigned char *entry; /* here */
};
uint32_t entry_made_check(const struct entry_made *made, uint64_t epoch);

/* One entry of a body, taken apart; spans point into the body. */
struct entry {
	enum entry_kind kind;
	uint32_t offset; /* in the body */
	uint32_t size;
	union {
		struct entry_event event;
		struct entry_settle settle;
		struct entry_seen seen;
		struct entry_newest newest;
		struct entry_note note;
		struct entry_cell cell;
	};
	uint64_t due_ms;             /* of a settle */
	const unsigned char *claims; /* event.claim_count times struct entry_claim, 8-aligned */
	const unsigned char *legs;   /* leg_count times struct entry_leg */
	uint32_t leg_count;          /* 0: one, of sink 0 */
	uint32_t first_leg;
	struct span source; /* or the name of a cell */
	struct span metadata;
	struct span payload; /* or the text of a note, the value of a cell */
};

/* Steps through a body: 1 and an entry, 0 at the end, ERR_DAMAGED. */
int entry_next(const unsigned char *body, uint32_t len, uint32_t *offset, struct entry *ret_entry);
/* Takes apart the entry of at most `len` bytes at `ptr`: 0 or ERR_DAMAGED. */
int entry_parse(const unsigned char *ptr, uint32_t len, struct entry *ret_entry) must_check;

static inline struct entry_claim entry_claim_at(const struct entry *entry, uint32_t i)
{
	struct entry_claim claim;
	memcpy(&claim, entry->claims + i * sizeof(claim), sizeof(claim));
	return claim;
}

/* How many tickets an EVENT has here, and what its leg i (from 0) is. */
static inline uint32_t entry_ticket_count(const struct entry *entry)
{
	return entry->leg_count ? entry->leg_count : 1;
}

static inline struct entry_leg entry_leg_at(const struct entry *entry, uint32_t i)
{
	struct entry_leg leg = { 0 };

	if (entry->leg_count)
		memcpy(&leg, entry->legs + i * sizeof(leg), sizeof(leg));
	return leg;
}

/*
 * The claims of one event may have different windows, and its count of
 * duplicates lives as long as the longest. So each claim's flags in the index
 * tell, roughly, what that is: 0 is its own, n is at most 4^(n+1) seconds.
 */
static inline uint32_t window_flags(uint64_t longest_s, uint64_t own_s)
{
	uint32_t n = 1;

	if (longest_s <= own_s)
		return 0;
	while (n < 15 && (UINT64_C(4) << 2 * n) < longest_s + longest_s / 256 + 1)
		n++;
	return n << 1; /* bit 0 is not used */
}

/* When a claim has expired whatever it is kept as: windows are rounded up. */
static inline uint64_t window_end_ms(uint64_t ticket, uint32_t window_s)
{
	uint64_t window_ms = (uint64_t)window_s * 1000;

	return ticket_time_ms(ticket) + window_ms + window_ms / 256 + 1;
}

static inline uint32_t entry_longest_window_s(const struct entry *entry)
{
	uint32_t longest = 0;

	for (uint32_t i = 0; i < entry->event.claim_count; i++) {
		struct entry_claim claim = entry_claim_at(entry, i);
		if (claim.window_s > longest)
			longest = claim.window_s;
	}
	return longest;
}

static inline struct claims_record claims_record_of_seen(const struct entry_seen *seen)
{
	uint64_t from_ms = ticket_time_ms(seen->ticket);
	uint64_t window_s = seen->expiry_ms > from_ms ? (seen->expiry_ms - from_ms) / 1000 : 0;

	return (struct claims_record){
		.digest = { { seen->count, seen->last_ms } },
		.ticket = seen->ticket,
		.window_s = window_s < UINT32_MAX ? (uint32_t)window_s + 1 : UINT32_MAX,
		.kind = CLAIMS_RECORD_SEEN,
	};
}

static inline struct claims_record claims_record_of_newest(const struct entry_newest *newest)
{
	return (struct claims_record){
		.digest = { { newest->digest.word[0], newest->order } },
		.ticket = newest->ticket,
		.window_s = (uint32_t)(newest->digest.word[1] >> 32),
		.kind = CLAIMS_RECORD_NEWEST,
		.flags = (uint16_t)window_encode(newest->window_s),
	};
}

static inline struct entry_newest entry_newest_of_record(const struct claims_record *record)
{
	return (struct entry_newest){
		.size = sizeof(struct entry_newest),
		.kind = ENTRY_NEWEST,
		.ticket = record->ticket,
		.digest = { { record->digest.word[0], (uint64_t)record->window_s << 32 } },
		.order = record->digest.word[1],
		.window_s = window_kept_s(record->flags),
	};
}

/* File names: folder, slash, name. */
#define FORMAT_NAME_MAX 32
enum file_kind { FILE_KIND_OTHER, FILE_KIND_SEGMENT, FILE_KIND_CLAIMS, FILE_KIND_LEFTOVER };
void format_name(char ret_name[static FORMAT_NAME_MAX], uint64_t number, enum file_kind kind);
enum file_kind format_name_parse(const char *name, uint64_t *ret_number);

uint64_t format_checksum(const void *ptr, size_t len, uint64_t seed);
