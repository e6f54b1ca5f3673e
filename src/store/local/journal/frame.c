/* frame: see frame.h. */
#include "store/local/journal/frame.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

int frame_init(struct frame *frame, uint32_t ring_bytes, uint32_t frame_max)
{
	CHECK(ring_bytes % FORMAT_BLOCK == 0 && ring_bytes > 0);
	CHECK(frame_max % FORMAT_BLOCK == 0 && frame_max > 0);
	*frame = (struct frame){ .ring_bytes = ring_bytes, .frame_max = frame_max };
	frame->memory = mem_aligned(FORMAT_BLOCK, (size_t)ring_bytes + frame_max);
	return frame->memory ? 0 : -ENOMEM;
}

void frame_free(struct frame *frame)
{
	frame->memory = mem_free(frame->memory);
}

static unsigned char *start(const struct frame *frame)
{
	return frame->memory + frame->offset % frame->ring_bytes;
}

/* Where what was put into the ring ends: it has overwritten the oldest bytes. */
static uint32_t written_end(const struct frame *frame)
{
	uint32_t end = frame->offset + frame->len;

	return end > frame->cached_end ? end : frame->cached_end;
}

void frame_begin(struct frame *frame, const struct frame_place *place)
{
	CHECK(place->offset % FORMAT_BLOCK == 0);
	CHECK(frame->entry_count == 0);
	if (place->segment != frame->segment) {
		frame->cached_from = frame->cached_end = place->offset;
		frame->spill_from = frame->spill_end = 0;
	}
	frame->segment = place->segment;
	frame->epoch = place->epoch;
	frame->offset = place->offset;
	frame->limit = place->limit < frame->frame_max ? place->limit : frame->frame_max;
	frame->len = sizeof(struct frame_header);
}

/* Room for one entry at the end, padded with zeros to 8. */
static inline unsigned char *add(struct frame *frame, uint32_t size, uint32_t *ret_offset)
{
	uint32_t padded = (size + 7) & ~UINT32_C(7);
	unsigned char *at = start(frame) + frame->len;

	CHECK(frame->len >= sizeof(struct frame_header));
	CHECK(frame->len + padded <= frame->limit);
	if (padded != size)
		memset(at + padded - 8, 0, 8);
	*ret_offset = frame->offset + frame->len;
	frame->len += padded;
	frame->entry_count++;
	return at;
}

static unsigned char *put_span(unsigned char *at, struct span span)
{
	if (span.len)
		memcpy(at, span.ptr, span.len);
	return at + span.len;
}

/*
 * The head of an event goes out in whole words, and its check is made of those words.
 * A struct filled field by field and then copied cost 100 ns here: the wide load waits
 * until the narrow stores, and all stores to the cold ring before them, have left the
 * core. Reading the head back from the ring for the check cost 200 ns.
 */
static unsigned char *put_word(unsigned char *at, uint64_t word)
{
	memcpy(at, &word, sizeof(word));
	return at + sizeof(word);
}

struct event_head {
	uint64_t words[sizeof(struct entry_event) / sizeof(uint64_t)];
};

static inline unsigned char *put_event_head(unsigned char *at, const struct entry_event *event,
                                            struct event_head *ret_head)
{
	uint64_t *words = ret_head->words;

	CHECK(event->check == 0);
	words[0] = event->size | (uint64_t)event->kind << 32 | (uint64_t)event->claim_count << 40 |
	           (uint64_t)event->flags << 48 | (uint64_t)event->source_len << 56;
	words[1] = event->ticket;
	words[2] = (uint64_t)event->user_flags << 32 | (uint64_t)event->attempt << 48;
	return put_word(put_word(put_word(at, words[0]), words[1]), words[2]);
}

static void seal_event(const struct frame *frame, const struct event_head *head,
                       unsigned char *entry, uint32_t size)
{
	struct entry_made made = { head->words, sizeof(head->words), size, entry };
	uint32_t check = entry_made_check(&made, frame->epoch);

	memcpy(entry + offsetof(struct entry_event, check), &check, sizeof(check));
}

static unsigned char *put_routing(unsigned char *at, const struct entry_routing *routing)
{
	return put_word(at, routing->leg_count | (uint64_t)routing->first_leg << 8 |
	                            (uint64_t)routing->letter_len << 16);
}

static unsigned char *put_legs(unsigned char *at, const struct store_admit *admit)
{
	at = put_routing(at, &(struct entry_routing){ .leg_count = (uint8_t)admit->leg_count,
	                                              .letter_len = (uint16_t)admit->letter.len });
	for (uint32_t i = 0; i < admit->leg_count; i++) {
		at = put_word(at, admit->legs[i].order);
		at = put_word(at, admit->legs[i].sink);
	}
	return at;
}

uint32_t frame_add_event(struct frame *frame, const struct store_admit *admit,
                         const struct frame_claims *claims, uint64_t ticket, uint8_t flags)
{
	bool routed = unlikely(frame_is_routed(admit));
	uint32_t size = frame_event_size(admit, claims->once_count), offset;
	struct event_head head;
	unsigned char *entry = add(frame, size, &offset);
	unsigned char *at = put_event_head(
		entry,
		&(struct entry_event){ .size = size,
	                               .kind = routed ? ENTRY_ROUTED : ENTRY_EVENT,
	                               .claim_count = (uint8_t)claims->once_count,
	                               .flags = admit->no_ticket ? EVENT_NO_TICKET : flags,
	                               .source_len = (uint8_t)admit->source.len,
	                               .ticket = ticket,
	                               .user_flags = admit->flags },
		&head);

	for (uint32_t left = claims->once; left; left &= left - 1) {
		const struct claim *claim = &claims->claims[__builtin_ctz(left)];
		at = put_word(at, claim->digest.word[0]);
		at = put_word(at, claim->digest.word[1]);
		at = put_word(at, claim->window_s);
	}
	if (unlikely(routed))
		at = put_legs(at, admit);
	at = put_span(at, admit->source);
	if (unlikely(routed))
		at = put_span(at, admit->letter);
	put_span(at, admit->payload);
	/* Nobody will ask for the payload of a ticket that is not open. */
	if (!admit->no_ticket)
		seal_event(frame, &head, entry, size);
	return offset;
}

static unsigned char *put_carried_leg(unsigned char *at, const struct entry *event, uint8_t leg)
{
	at = put_routing(at, &(struct entry_routing){ .leg_count = event->leg_count ? 1 : 0,
	                                              .first_leg = leg,
	                                              .letter_len = (uint16_t)event->letter.len });
	if (event->leg_count == 0)
		return at;
	struct entry_leg its = entry_leg_at(event, leg - event->first_leg);
	at = put_word(at, its.order);
	return put_word(at, its.sink);
}

uint32_t frame_add_carried(struct frame *frame, const struct entry *event,
                           const struct frame_carried *carried)
{
	bool routed = (event->leg_count | event->letter.len) != 0;
	uint32_t size = frame_carried_size(event), offset;
	struct event_head head;
	unsigned char *entry = add(frame, size, &offset);
	unsigned char *at = put_event_head(entry,
	                                   &(struct entry_event){
						   .size = size,
						   .kind = routed ? ENTRY_ROUTED : ENTRY_EVENT,
						   .flags = EVENT_CARRIED | carried->flags,
						   .source_len = (uint8_t)event->source.len,
						   .ticket = carried->ticket,
						   .user_flags = event->event.user_flags,
						   .attempt = carried->attempt },
	                                   &head);

	if (routed)
		at = put_carried_leg(at, event, carried->leg);
	put_span(put_span(put_span(at, event->source), event->letter), event->payload);
	seal_event(frame, &head, entry, size);
	return offset;
}

uint32_t frame_add_settle(struct frame *frame, const struct store_settle *settle)
{
	uint32_t size = frame_settle_size(settle), offset;
	unsigned char *at = add(frame, size, &offset);

	at = put_word(at, size | (uint64_t)ENTRY_SETTLE << 32 | (uint64_t)settle->outcome << 40);
	at = put_word(at, settle->ticket);
	at = put_word(at, settle->attempt);
	if (unlikely(size > sizeof(struct entry_settle)))
		put_word(at, settle->due_ms);
	return offset;
}

uint32_t frame_add_note(struct frame *frame, struct entry_note *note, struct span text)
{
	uint32_t size = frame_note_size(text), offset;
	unsigned char *entry = add(frame, size, &offset);

	note->size = size;
	note->kind = ENTRY_NOTE;
	note->check = 0;
	memcpy(entry, note, sizeof(*note));
	put_span(entry + sizeof(*note), text);
	note->check = entry_note_check(entry, size, frame->epoch);
	memcpy(entry + offsetof(struct entry_note, check), &note->check, sizeof(note->check));
	return offset;
}

uint32_t frame_add_seen(struct frame *frame, const struct entry_seen *seen)
{
	uint32_t offset;

	CHECK(seen->size == sizeof(*seen) && seen->kind == ENTRY_SEEN);
	memcpy(add(frame, sizeof(*seen), &offset), seen, sizeof(*seen));
	return offset;
}

uint32_t frame_add_newest(struct frame *frame, const struct entry_newest *newest)
{
	uint32_t offset;

	CHECK(newest->size == sizeof(*newest) && newest->kind == ENTRY_NEWEST);
	memcpy(add(frame, sizeof(*newest), &offset), newest, sizeof(*newest));
	return offset;
}

uint32_t frame_add_cell(struct frame *frame, const struct frame_cell *cell)
{
	uint32_t size = frame_cell_size(cell), offset;
	unsigned char *entry = add(frame, size, &offset), *at = entry;
	const uint64_t head[sizeof(struct entry_cell) / sizeof(uint64_t)] = {
		size | (uint64_t)ENTRY_CELL << 32 | (uint64_t)cell->act << 40 |
			(uint64_t)cell->name.len << 48,
		cell->digest.word[0],
		cell->digest.word[1] >> 32 << 32,
		cell->expiry_ms,
	};

	for (size_t i = 0; i < ARRAY_LEN(head); i++)
		at = put_word(at, head[i]);
	put_span(put_span(at, cell->name), cell->value);
	struct entry_made made = { head, sizeof(head), size, entry };
	uint32_t check = entry_made_check(&made, frame->epoch);
	memcpy(entry + offsetof(struct entry_cell, digest.word[1]), &check, sizeof(check));
	return offset;
}

const unsigned char *frame_finish(struct frame *frame, const struct frame_stamp *stamp,
                                  uint32_t *ret_span)
{
	uint32_t span = (uint32_t)format_align(frame->len, FORMAT_BLOCK);
	struct frame_header header = {
		.entry_count = frame->entry_count,
		.epoch = frame->epoch,
		.sequence = stamp->sequence,
		.body_len = frame->len - (uint32_t)sizeof(header),
		.span = span,
		.steady_ms = stamp->steady_ms,
		.wall_ms = stamp->wall_ms,
	};

	CHECK(frame->entry_count > 0);
	memset(start(frame) + frame->len, 0, span - frame->len);
	frame_seal(start(frame), &header);
	*ret_span = span;
	return start(frame);
}

void frame_written(struct frame *frame, uint32_t span)
{
	uint32_t end = frame->offset + span;

	CHECK(frame->entry_count > 0);
	if (frame->offset % frame->ring_bytes + span > frame->ring_bytes) {
		/* An older frame in the slack is overwritten now. */
		if (frame->cached_from < frame->spill_end)
			frame->cached_from = frame->spill_end;
		frame->spill_from = frame->offset;
		frame->spill_end = end;
	}
	frame->cached_end = end;
	frame->len = 0;
	frame->entry_count = 0;
}

void frame_drop(struct frame *frame)
{
	/* The half-built frame overwrote older ones in the ring. */
	frame->cached_from = frame->cached_end = frame->offset;
	frame->spill_from = frame->spill_end = 0;
	frame->len = 0;
	frame->entry_count = 0;
}

static bool runs_into_slack(const struct frame *frame)
{
	return frame->offset % frame->ring_bytes + frame->len > frame->ring_bytes;
}

const unsigned char *frame_building(const struct frame *frame, uint64_t segment, uint32_t offset,
                                    uint32_t len)
{
	if (segment != frame->segment || frame->entry_count == 0 || offset < frame->offset ||
	    (uint64_t)offset + len > frame->offset + frame->len)
		return NULL;
	return start(frame) + (offset - frame->offset);
}

const unsigned char *frame_cached(const struct frame *frame, uint64_t segment, uint32_t offset,
                                  uint32_t len)
{
	uint64_t end = (uint64_t)offset + len;

	if (segment != frame->segment || offset < frame->cached_from || end > frame->cached_end ||
	    written_end(frame) - offset > frame->ring_bytes)
		return NULL;
	if (offset >= frame->spill_from && offset < frame->spill_end) {
		if (runs_into_slack(frame))
			return NULL;
		return frame->memory + frame->spill_from % frame->ring_bytes +
		       (offset - frame->spill_from);
	}
	return frame->memory + offset % frame->ring_bytes;
}
