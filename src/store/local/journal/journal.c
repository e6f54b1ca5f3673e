/* journal: see journal.h. */
#include "store/local/journal/journal.h"

#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"

/* --- frame ----------------------------------------------------------------- */

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
	                            (uint64_t)routing->metadata_len << 16);
}

static unsigned char *put_legs(unsigned char *at, const struct store_admit *admit)
{
	at = put_routing(at,
	                 &(struct entry_routing){ .leg_count = (uint8_t)admit->leg_count,
	                                          .metadata_len = (uint16_t)admit->metadata.len });
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
		at = put_span(at, admit->metadata);
	put_span(at, admit->payload);
	/* Nobody will ask for the payload of a ticket that is not open. */
	if (!admit->no_ticket)
		seal_event(frame, &head, entry, size);
	return offset;
}

static unsigned char *put_carried_leg(unsigned char *at, const struct entry *event, uint8_t leg)
{
	at = put_routing(at,
	                 &(struct entry_routing){ .leg_count = event->leg_count ? 1 : 0,
	                                          .first_leg = leg,
	                                          .metadata_len = (uint16_t)event->metadata.len });
	if (event->leg_count == 0)
		return at;
	struct entry_leg its = entry_leg_at(event, leg - event->first_leg);
	at = put_word(at, its.order);
	return put_word(at, its.sink);
}

uint32_t frame_add_carried(struct frame *frame, const struct entry *event,
                           const struct frame_carried *carried)
{
	bool routed = (event->leg_count | event->metadata.len) != 0;
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
	put_span(put_span(put_span(at, event->source), event->metadata), event->payload);
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
		if (frame->offset % frame->ring_bytes + frame->len > frame->ring_bytes)
			return NULL;
		return frame->memory + frame->spill_from % frame->ring_bytes +
		       (offset - frame->spill_from);
	}
	return frame->memory + offset % frame->ring_bytes;
}

/* --- journal --------------------------------------------------------------- */

/* What was written last stays readable in memory; fits the second-level cache
 * beside the rest, and is tens of milliseconds at full rate. */
#define RING_BYTES (4u << 20)

int journal_init(struct journal *journal, const struct journal_options *options)
{
	uint32_t segment_bytes = options->folder->segment_bytes;

	CHECK(options->frame_max <= segment_bytes / 4);
	*journal = (struct journal){ .options = *options, .fd = -1, .next_fd = -1 };
	uint32_t reserve = segment_bytes / 64 / FORMAT_BLOCK * FORMAT_BLOCK;
	if (reserve < 2 * FORMAT_BLOCK)
		reserve = 2 * FORMAT_BLOCK;
	journal->limit = segment_bytes - reserve;
	journal->claims_max = segment_bytes / 4 / sizeof(struct claims_record);
	return frame_init(&journal->frame, segment_bytes < RING_BYTES ? segment_bytes : RING_BYTES,
	                  options->frame_max);
}

void journal_resume(struct journal *journal, const struct journal_end *end)
{
	CHECK(!journal->open && journal->fd < 0);
	journal->durable = end->position;
	journal->item.max_expiry_ms = end->item.max_expiry_ms;
	keeper_want(journal->options.keeper, end->position.segment + 1);
}

int journal_go_on(struct journal *journal, const struct journal_end *end)
{
	const struct folder *folder = journal->options.folder;
	struct segment_info *item = segment_list_find(journal->options.segments,
	                                              end->position.segment);
	int fd;

	CHECK(end->exact); /* F9 */
	CHECK(!journal->open && item && item->sealed);
	int r = segment_open_write(folder, end->position.segment, &fd);
	if (r < 0)
		return r;
	/* F3, if the last process died before; and the next start must not take
	 * this end for exact any more. */
	r = journal->options.mark(journal->options.user, &end->position);
	if (r < 0) {
		folder->fs->methods->close(folder->fs, fd);
		return r;
	}
	item->sealed = false;
	journal->fd = fd;
	journal->epoch = end->item.epoch;
	journal->item = *item;
	journal->claim_count = end->claim_count;
	/* Those of the frames before are not in memory: gathered from the segment. */
	if (end->claim_count)
		claims_list_drop(&journal->claims);
	journal->open = true;
	return 0;
}

static void close_fd(struct journal *journal, int *fd)
{
	if (*fd >= 0) {
		struct file_system *fs = journal->options.folder->fs;
		fs->methods->close(fs, *fd);
	}
	*fd = -1;
}

void journal_close(struct journal *journal)
{
	close_fd(journal, &journal->fd);
	close_fd(journal, &journal->next_fd);
	claims_list_free(&journal->claims);
	frame_free(&journal->frame);
}

/* Gives the sealed segment's claims to the keeper, once its end is fixed for
 * ever; without memory for that the file is made later, from the segment. */
static void post_claims(struct journal *journal)
{
	struct segment_info *item = segment_list_find(journal->options.segments,
	                                              journal->durable.segment);
	struct keeper_job *job = keeper_job_new(KEEPER_CLAIMS, journal->durable.segment);

	CHECK(item && item->sealed);
	journal->claims_due = false;
	if (!job)
		return;
	job->list = journal->claims;
	journal->claims = (struct claims_list){ 0 };
	job->summary = (struct claims_summary){
		.number = journal->durable.segment,
		.max_expiry_ms = item->max_expiry_ms,
		.max_ticket = item->max_ticket,
		.sealed_ms = item->sealed_ms,
	};
	job->segment_end = item->end;
	job->records_max = journal->claims_max;
	item->busy = true;
	keeper_post(journal->options.keeper, job);
}

/* Nothing more is appended to the current segment; its end is known. */
static void seal(struct journal *journal, uint64_t now_ms)
{
	struct segment_info *item = segment_list_find(journal->options.segments,
	                                              journal->durable.segment);

	CHECK(journal->open);
	CHECK(item && !item->sealed);
	journal->open = false;
	*item = journal->item;
	item->sealed = true;
	item->sealed_ms = now_ms;
	item->end = journal->durable.end;
	item->dense = journal->claim_count * sizeof(struct claims_record) > item->end / 4;
	journal->was_dense = item->dense;
	journal->claims_due = !item->dense;
}

static int write_next_header(struct journal *journal, uint64_t now_ms)
{
	const struct folder *folder = journal->options.folder;
	uint64_t number = journal->durable.segment + 1;
	struct segment_header *header = &journal->next_header;

	*header = (struct segment_header){
		.number = number,
		.first_sequence = journal->durable.sequence + 1,
		.size = folder->segment_bytes,
		.previous = journal->durable.segment,
		.previous_end = journal->durable.end,
		.previous_sequence = journal->durable.sequence,
		.previous_expiry_ms = journal->item.max_expiry_ms,
		.scan_from = journal->options.scan_from(journal->options.user, number),
		.steady_ms = now_ms,
	};
	memcpy(header->folder_id, folder->id, sizeof(header->folder_id));
	int r = hash_random(&header->epoch, sizeof(header->epoch));
	if (r < 0)
		return r;
	header->epoch |= header->epoch == 0;
	r = segment_write_header(folder, journal->next_fd, header);
	if (r < 0) {
		/* Its state is not known: another file takes its place. */
		close_fd(journal, &journal->next_fd);
		keeper_want(journal->options.keeper, number);
		return r;
	}
	journal->header_written = true;
	return 0;
}

/* The next segment's header is durable: it becomes the current one. */
static int switch_over(struct journal *journal)
{
	struct journal_position start = {
		.segment = journal->durable.segment + 1,
		.end = FORMAT_BLOCK,
		.sequence = journal->durable.sequence,
	};
	struct segment_info item = { .epoch = journal->next_header.epoch,
		                     .segment_bytes = journal->options.folder->segment_bytes };

	if (!segment_list_find(journal->options.segments, start.segment)) {
		int r = segment_list_add(journal->options.segments, start.segment, &item);
		if (r < 0)
			return r;
	}
	int r = journal->options.mark(journal->options.user, &start);
	if (r < 0)
		return r;
	if (journal->claims_due)
		post_claims(journal);
	close_fd(journal, &journal->fd);
	journal->fd = journal->next_fd;
	journal->next_fd = -1;
	journal->header_written = false;
	journal->durable = start;
	journal->epoch = journal->next_header.epoch;
	journal->item = item;
	journal->claim_count = 0;
	claims_list_free(&journal->claims);
	if (journal->was_dense)
		claims_list_drop(&journal->claims);
	journal->open = true;
	keeper_note_used(journal->options.keeper, start.end);
	keeper_want(journal->options.keeper, start.segment + 1);
	return 0;
}

static int roll(struct journal *journal, uint64_t now_ms, bool wait)
{
	if (journal->next_fd < 0) {
		int r = keeper_get(journal->options.keeper, journal->durable.segment + 1, wait,
		                   &journal->next_fd);
		if (r < 0)
			return r;
	}
	if (journal->open)
		seal(journal, now_ms);
	if (!journal->header_written) {
		int r = write_next_header(journal, now_ms);
		if (r < 0)
			return r;
	}
	return switch_over(journal);
}

void journal_retry(struct journal *journal)
{
	if (journal->next_fd < 0)
		keeper_want(journal->options.keeper, journal->durable.segment + 1);
}

static uint32_t room_left(const struct journal *journal, enum journal_room room)
{
	uint64_t segment_bytes = journal->options.folder->segment_bytes;
	uint64_t half = (segment_bytes - journal->limit) / 2 / FORMAT_BLOCK * FORMAT_BLOCK;
	uint64_t limit = room == JOURNAL_URGENT ? segment_bytes
	                 : room == JOURNAL_NOTE ? journal->limit + half
	                                        : journal->limit;

	return journal->durable.end < limit ? (uint32_t)(limit - journal->durable.end) : 0;
}

int journal_ready(struct journal *journal, uint64_t now_ms, bool wait)
{
	if (journal->open && room_left(journal, JOURNAL_NORMAL) >= FORMAT_BLOCK)
		return 0;
	return roll(journal, now_ms, wait);
}

static void begin_frame(struct journal *journal, enum journal_room room, int reason)
{
	journal->reserve_reason = reason;
	frame_begin(&journal->frame,
	            &(struct frame_place){ .segment = journal->durable.segment,
	                                   .epoch = journal->epoch,
	                                   .offset = (uint32_t)journal->durable.end,
	                                   .limit = room_left(journal, room) });
}

static bool joins_reserve(const struct journal *journal, uint32_t size, enum journal_room room)
{
	return room == JOURNAL_URGENT ||
	       (room == JOURNAL_NOTE &&
	        journal->frame.len + format_align(size, 8) <= room_left(journal, room));
}

int journal_reserve(struct journal *journal, uint32_t size, enum journal_room room, uint64_t now_ms)
{
	uint32_t frame_size = (uint32_t)sizeof(struct frame_header) +
	                      (uint32_t)format_align(size, 8);

	CHECK(!journal->open || journal->fd >= 0);
	if (journal_pending(journal)) {
		/* One frame of settles is not worth a write for each admit that would
		 * then find no room either. */
		if (journal_in_reserve(journal) && !joins_reserve(journal, size, room))
			return journal->reserve_reason == -EAGAIN ? JOURNAL_COMMIT_FIRST : ERR_FULL;
		if (frame_fits(&journal->frame, size))
			return 0;
		return JOURNAL_COMMIT_FIRST;
	}
	if (frame_size > journal->options.frame_max)
		return ERR_TOO_LARGE;
	bool rolls = !journal->open || frame_size > room_left(journal, JOURNAL_NORMAL);
	if (rolls) {
		/* What is urgent does not wait for the keeper while there is a reserve. */
		bool reserve = room != JOURNAL_NORMAL && journal->open &&
		               frame_size <= room_left(journal, room);
		int r = roll(journal, now_ms, !reserve);
		if (r < 0 && !(reserve && journal->open))
			return ERR_FULL;
		if (r < 0) {
			begin_frame(journal, JOURNAL_URGENT, r);
			return 0;
		}
	}
	begin_frame(journal, JOURNAL_NORMAL, 0);
	return 0;
}

void journal_note_claim(struct journal *journal, const struct claims_record *record,
                        uint64_t expiry_ms)
{
	struct segment_info *item = &journal->item;

	CHECK(journal->open); /* F4 */
	journal->claim_count++;
	claims_list_add(&journal->claims, record, journal->claims_max);
	if (expiry_ms > item->max_expiry_ms)
		item->max_expiry_ms = expiry_ms;
	if (record->ticket > item->max_ticket)
		item->max_ticket = record->ticket;
}

void journal_note_seen(struct journal *journal, const struct entry_seen *seen)
{
	struct claims_record record = claims_record_of_seen(seen);

	claims_list_add(&journal->claims, &record, journal->claims_max);
	journal->claim_count++;
	if (seen->expiry_ms > journal->item.max_expiry_ms)
		journal->item.max_expiry_ms = seen->expiry_ms;
}

void journal_note_newest(struct journal *journal, const struct entry_newest *newest)
{
	struct claims_record record = claims_record_of_newest(newest);

	journal_note_claim(journal, &record, window_end_ms(newest->ticket, newest->window_s));
}

int journal_write(struct journal *journal, const struct journal_times *times, uint32_t *ret_bytes)
{
	struct file_system *fs = journal->options.folder->fs;
	struct frame_stamp stamp = { .sequence = journal->durable.sequence + 1,
		                     .steady_ms = times->steady_ms,
		                     .wall_ms = times->wall_ms };
	uint32_t span;

	CHECK(journal->open);                                 /* F4 */
	CHECK(journal->frame.offset == journal->durable.end); /* F1 */
	CHECK(journal->frame.segment == journal->durable.segment);
	const unsigned char *bytes = frame_finish(&journal->frame, &stamp, &span);
	int r = fs->methods->write(fs, journal->fd, bytes, span, journal->durable.end);
	keeper_turn(journal->options.keeper);
	if (r < 0) {
		frame_drop(&journal->frame);
		/* The list names claims that were not taken; it is made anew. */
		claims_list_drop(&journal->claims);
		seal(journal, times->steady_ms);
		return r;
	}
	frame_written(&journal->frame, span);
	journal->durable.end += span;
	journal->durable.sequence = stamp.sequence;
	keeper_note_used(journal->options.keeper, journal->durable.end);
	*ret_bytes = span;
	return 0;
}
