/* journal: see journal.h. */
#include "store/local/journal/journal.h"

#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"

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
	journal->durable = end->position;
	journal->item.max_expiry_ms = end->item.max_expiry_ms;
	keeper_want(journal->options.keeper, end->position.segment + 1);
}

int journal_go_on(struct journal *journal, const struct journal_end *end)
{
	const struct folder *folder = journal->options.folder;
	struct shelf_item *item = shelf_find(journal->options.shelf, end->position.segment);
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
	struct shelf_item *item = shelf_find(journal->options.shelf, journal->durable.segment);
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
	struct shelf_item *item = shelf_find(journal->options.shelf, journal->durable.segment);

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
	struct shelf_item item = { .epoch = journal->next_header.epoch,
		                   .segment_bytes = journal->options.folder->segment_bytes };

	if (!shelf_find(journal->options.shelf, start.segment)) {
		int r = shelf_add(journal->options.shelf, start.segment, &item);
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
	struct shelf_item *item = &journal->item;

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
