/* format: see format.h. */
#include "store/local/journal/format.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"

uint64_t format_checksum(const void *ptr, size_t len, uint64_t seed)
{
	return hash_checksum64(ptr, len, seed);
}

void superblock_slot_seal(struct superblock_slot *slot)
{
	slot->magic = SUPERBLOCK_MAGIC;
	slot->version = slot->flags & SUPERBLOCK_CELLS ? FORMAT_VERSION_CELLS : FORMAT_VERSION;
	memset(slot->zero, 0, sizeof(slot->zero));
	slot->check = format_checksum(slot, offsetof(struct superblock_slot, check), 0);
}

int superblock_slot_check(const struct superblock_slot *slot)
{
	if (slot->magic != SUPERBLOCK_MAGIC)
		return ERR_DAMAGED;
	if (slot->check != format_checksum(slot, offsetof(struct superblock_slot, check), 0))
		return ERR_DAMAGED;
	return slot->version == FORMAT_VERSION || slot->version == FORMAT_VERSION_CELLS
	               ? 0
	               : ERR_VERSION;
}

void segment_header_seal(struct segment_header *header)
{
	header->magic = SEGMENT_MAGIC;
	header->version = FORMAT_VERSION;
	header->zero = 0;
	header->zero2 = 0;
	header->check = format_checksum(header, offsetof(struct segment_header, check), 0);
}

int segment_header_check(const struct segment_header *header)
{
	if (header->magic != SEGMENT_MAGIC)
		return ERR_DAMAGED;
	if (header->check != format_checksum(header, offsetof(struct segment_header, check), 0))
		return ERR_DAMAGED;
	return header->version == FORMAT_VERSION ? 0 : ERR_VERSION;
}

void claims_header_seal(struct claims_header *header)
{
	header->magic = CLAIMS_MAGIC;
	header->version = FORMAT_VERSION;
	header->zero = 0;
	memset(header->zero2, 0, sizeof(header->zero2));
	header->check = format_checksum(header, offsetof(struct claims_header, check), 0);
}

int claims_header_check(const struct claims_header *header)
{
	if (header->magic != CLAIMS_MAGIC)
		return ERR_DAMAGED;
	if (header->check != format_checksum(header, offsetof(struct claims_header, check), 0))
		return ERR_DAMAGED;
	return header->version == FORMAT_VERSION ? 0 : ERR_VERSION;
}

static uint64_t claims_block_sum(const unsigned char *block, uint64_t number)
{
	return format_checksum(block + sizeof(uint64_t), FORMAT_BLOCK - sizeof(uint64_t), number);
}

void claims_block_seal(unsigned char block[static FORMAT_BLOCK])
{
	struct claims_block head;

	memcpy(&head, block, sizeof(head));
	head.check = claims_block_sum(block, head.number);
	memcpy(block, &head, sizeof(head));
}

int claims_block_check(const unsigned char block[static FORMAT_BLOCK], uint64_t number,
                       uint32_t index)
{
	struct claims_block head;

	memcpy(&head, block, sizeof(head));
	if (head.number != number || head.index != index || head.count > CLAIMS_BLOCK_RECORDS)
		return ERR_DAMAGED;
	return head.check == claims_block_sum(block, number) ? 0 : ERR_DAMAGED;
}

static uint64_t frame_header_sum(struct frame_header header)
{
	header.header_check = 0;
	return format_checksum(&header, sizeof(header), header.epoch);
}

void frame_seal(unsigned char *frame, struct frame_header *header)
{
	CHECK(header->epoch != 0);
	CHECK(header->span % FORMAT_BLOCK == 0);
	CHECK(sizeof(*header) + header->body_len <= header->span);
	header->magic = FRAME_MAGIC;
	header->body_check = format_checksum(frame + sizeof(*header), header->body_len,
	                                     header->epoch);
	header->header_check = frame_header_sum(*header);
	memcpy(frame, header, sizeof(*header));
}

bool frame_header_valid(const struct frame_header *header, uint64_t epoch, uint64_t room)
{
	if (header->magic != FRAME_MAGIC || header->epoch != epoch)
		return false;
	if (header->header_check != frame_header_sum(*header))
		return false;
	return header->span >= FORMAT_BLOCK && header->span % FORMAT_BLOCK == 0 &&
	       header->span <= room && header->body_len <= header->span - sizeof(*header);
}

bool frame_body_valid(const struct frame_header *header, const unsigned char *body)
{
	return header->body_check == format_checksum(body, header->body_len, header->epoch);
}

uint32_t entry_made_check(const struct entry_made *made, uint64_t epoch)
{
	CHECK(made->size >= made->head_size);
	uint64_t head = format_checksum(made->head, made->head_size, epoch);
	return (uint32_t)format_checksum(made->entry + made->head_size,
	                                 made->size - made->head_size, head);
}

uint32_t entry_event_check(const unsigned char *entry, uint32_t size, uint64_t epoch)
{
	struct entry_event event;

	CHECK(size >= sizeof(event));
	memcpy(&event, entry, sizeof(event));
	event.check = 0;
	uint64_t head = format_checksum(&event, sizeof(event), epoch);
	return (uint32_t)format_checksum(entry + sizeof(event), size - sizeof(event), head);
}

uint32_t entry_note_check(const unsigned char *entry, uint32_t size, uint64_t epoch)
{
	struct entry_note note;

	CHECK(size >= sizeof(note));
	memcpy(&note, entry, sizeof(note));
	note.check = 0;
	uint64_t head = format_checksum(&note, sizeof(note), epoch);
	return (uint32_t)format_checksum(entry + sizeof(note), size - sizeof(note), head);
}

uint32_t entry_cell_check(const unsigned char *entry, uint32_t size, uint64_t epoch)
{
	struct entry_cell cell;

	CHECK(size >= sizeof(cell));
	memcpy(&cell, entry, sizeof(cell));
	cell.digest = digest_with_check(cell.digest, 0);
	uint64_t head = format_checksum(&cell, sizeof(cell), epoch);
	return (uint32_t)format_checksum(entry + sizeof(cell), size - sizeof(cell), head);
}

/* Legs and the length of the metadata; `at` is where they stand. 0 or ERR_DAMAGED. */
static int parse_routing(const unsigned char *ptr, struct entry *entry, size_t *at,
                         size_t *ret_metadata_len)
{
	struct entry_routing routing;

	if (entry->size < *at + sizeof(routing))
		return ERR_DAMAGED;
	memcpy(&routing, ptr + *at, sizeof(routing));
	*at += sizeof(routing);
	entry->legs = ptr + *at;
	entry->leg_count = routing.leg_count;
	entry->first_leg = routing.first_leg;
	*at += routing.leg_count * sizeof(struct entry_leg);
	*ret_metadata_len = routing.metadata_len;
	if (routing.first_leg + routing.leg_count > STORE_LEGS_MAX ||
	    entry->event.ticket <= routing.first_leg ||
	    !format_ticket_valid(entry->event.ticket + routing.leg_count))
		return ERR_DAMAGED;
	return 0;
}

static int parse_event(const unsigned char *ptr, struct entry *entry)
{
	const struct entry_event *event = &entry->event;
	size_t fixed = sizeof(*event), metadata_len = 0;

	if (entry->size < sizeof(*event))
		return ERR_DAMAGED;
	memcpy(&entry->event, ptr, sizeof(entry->event));
	if (event->claim_count > CLAIMS_MAX || !format_ticket_valid(event->ticket))
		return ERR_DAMAGED;
	entry->claims = ptr + sizeof(*event);
	entry->leg_count = entry->first_leg = 0;
	fixed += event->claim_count * sizeof(struct entry_claim);
	if (unlikely(event->kind == ENTRY_ROUTED)) {
		int r = parse_routing(ptr, entry, &fixed, &metadata_len);
		if (r < 0)
			return r;
	}
	if (entry->size < fixed + event->source_len + metadata_len)
		return ERR_DAMAGED;
	entry->source = span_of(ptr + fixed, event->source_len);
	fixed += event->source_len;
	entry->metadata = span_of(ptr + fixed, metadata_len);
	fixed += metadata_len;
	entry->payload = span_of(ptr + fixed, entry->size - fixed);
	return 0;
}

static int parse_settle(const unsigned char *ptr, struct entry *entry)
{
	bool with_due = entry->size == sizeof(struct entry_settle_due);

	if (entry->size != sizeof(entry->settle) && !with_due)
		return ERR_DAMAGED;
	memcpy(&entry->settle, ptr, sizeof(entry->settle));
	entry->due_ms = 0;
	if (with_due)
		memcpy(&entry->due_ms, ptr + sizeof(entry->settle), sizeof(entry->due_ms));
	return format_ticket_valid(entry->settle.ticket) ? 0 : ERR_DAMAGED;
}

static int parse_note(const unsigned char *ptr, struct entry *entry)
{
	if (entry->size < sizeof(entry->note) || entry->size > sizeof(entry->note) + STORE_TEXT_MAX)
		return ERR_DAMAGED;
	memcpy(&entry->note, ptr, sizeof(entry->note));
	entry->payload = span_of(ptr + sizeof(entry->note), entry->size - sizeof(entry->note));
	if (entry->note.mark == STORE_MARK_NONE || entry->note.mark > STORE_MARK_RELEASED)
		return ERR_DAMAGED;
	return format_ticket_valid(entry->note.ticket) ? 0 : ERR_DAMAGED;
}

static int parse_cell(const unsigned char *ptr, struct entry *entry)
{
	const struct entry_cell *cell = &entry->cell;
	size_t fixed = sizeof(*cell);

	if (entry->size < fixed)
		return ERR_DAMAGED;
	memcpy(&entry->cell, ptr, sizeof(entry->cell));
	fixed += cell->name_len;
	if (cell->act < CELL_PUT || cell->act > CELL_CARRIED || cell->name_len > STORE_NAME_MAX ||
	    entry->size < fixed || entry->size - fixed > STORE_VALUE_MAX ||
	    cell->expiry_ms > STORE_EXPIRY_MAX_MS ||
	    (!entry_cell_puts(cell) && entry->size != sizeof(*cell)))
		return ERR_DAMAGED;
	entry->source = span_of(ptr + sizeof(*cell), cell->name_len);
	entry->payload = span_of(ptr + fixed, entry->size - fixed);
	return 0;
}

int entry_parse(const unsigned char *ptr, uint32_t len, struct entry *ret_entry)
{
	struct entry_head head;

	if (len < sizeof(head))
		return ERR_DAMAGED;
	memcpy(&head, ptr, sizeof(head));
	if (head.size < sizeof(head) || head.size > len)
		return ERR_DAMAGED;
	ret_entry->kind = head.kind;
	ret_entry->offset = 0;
	ret_entry->size = head.size;
	switch (ret_entry->kind) {
	case ENTRY_ROUTED: ret_entry->kind = ENTRY_EVENT; __attribute__((fallthrough));
	case ENTRY_EVENT: return parse_event(ptr, ret_entry);
	case ENTRY_SETTLE: return parse_settle(ptr, ret_entry);
	case ENTRY_NOTE: return parse_note(ptr, ret_entry);
	case ENTRY_CELL: return parse_cell(ptr, ret_entry);
	case ENTRY_SEEN:
		if (head.size != sizeof(ret_entry->seen))
			return ERR_DAMAGED;
		memcpy(&ret_entry->seen, ptr, sizeof(ret_entry->seen));
		return format_ticket_valid(ret_entry->seen.ticket) ? 0 : ERR_DAMAGED;
	case ENTRY_NEWEST:
		if (head.size != sizeof(ret_entry->newest))
			return ERR_DAMAGED;
		memcpy(&ret_entry->newest, ptr, sizeof(ret_entry->newest));
		return format_ticket_valid(ret_entry->newest.ticket) ? 0 : ERR_DAMAGED;
	}
	return ERR_DAMAGED;
}

int entry_next(const unsigned char *body, uint32_t len, uint32_t *offset, struct entry *ret_entry)
{
	uint32_t at = *offset;

	if (at >= len)
		return 0;
	int r = entry_parse(body + at, len - at, ret_entry);
	if (r < 0)
		return r;
	ret_entry->offset = at;
	*offset = (uint32_t)format_align(at + ret_entry->size, 8);
	return 1;
}

void format_name(char ret_name[static FORMAT_NAME_MAX], uint64_t number, enum file_kind kind)
{
	const char *ending = kind == FILE_KIND_CLAIMS ? "clm" : "seg";

	CHECK(kind == FILE_KIND_CLAIMS || kind == FILE_KIND_SEGMENT);
	snprintf(ret_name, FORMAT_NAME_MAX, "%016llx.%s", (unsigned long long)number, ending);
}

static bool ends_with(const char *name, const char *ending)
{
	size_t len = strlen(name), n = strlen(ending);

	return len >= n && memcmp(name + len - n, ending, n) == 0;
}

enum file_kind format_name_parse(const char *name, uint64_t *ret_number)
{
	uint64_t number = 0;

	if (strcmp(name, "spare.seg") == 0 || ends_with(name, ".tmp"))
		return FILE_KIND_LEFTOVER;
	if (strlen(name) != 20)
		return FILE_KIND_OTHER;
	for (int i = 0; i < 16; i++) {
		char c = name[i];
		uint64_t digit;
		if (c >= '0' && c <= '9')
			digit = (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			digit = (uint64_t)(c - 'a') + 10;
		else
			return FILE_KIND_OTHER;
		number = number << 4 | digit;
	}
	if (number == 0)
		return FILE_KIND_OTHER;
	*ret_number = number;
	if (strcmp(name + 16, ".seg") == 0)
		return FILE_KIND_SEGMENT;
	return strcmp(name + 16, ".clm") == 0 ? FILE_KIND_CLAIMS : FILE_KIND_OTHER;
}
