/*
 * take: leases of the local store. Payloads come from the frames that are still
 * in memory, else from the segment, a window at a time: neighbours in the
 * journal are neighbours in the queue.
 *
 * What is read back is checked before it is served. A damaged event is reported
 * and stays leased (parked) until the next start; the others go on. An event that
 * cannot be read (no descriptor, no memory, an I/O error) is tried again with
 * each tick; an error that lasts, and is not for want of anything, parks it too.
 *
 * Threads: the owner's.
 */
#include "base/error.h"
#include "base/mem.h"
#include "store/local/local_internal.h"

#define READ_BYTES (256u << 10)
#define READ_TRIES 40u /* two seconds of ticks */

void reader_close(struct local_store *local)
{
	struct reader *reader = &local->reader;

	if (reader->fd >= 0)
		local->folder.fs->methods->close(local->folder.fs, reader->fd);
	reader->fd = -1;
	reader->segment = 0;
	reader->filled = 0;
	reader->window = mem_free(reader->window);
	reader->room = 0;
}

static int reader_open(struct local_store *local, uint64_t segment)
{
	struct reader *reader = &local->reader;
	int fd;

	if (reader->fd >= 0 && reader->segment == segment)
		return 0;
	int r = segment_open_read(&local->folder, segment, &fd);
	if (r < 0)
		return r;
	if (reader->fd >= 0)
		local->folder.fs->methods->close(local->folder.fs, reader->fd);
	reader->fd = fd;
	reader->segment = segment;
	reader->filled = 0;
	return 0;
}

static int reader_room(struct reader *reader, size_t len)
{
	if (reader->room >= len)
		return 0;
	unsigned char *window = mem_aligned(FORMAT_BLOCK, len);
	if (!window)
		return -ENOMEM;
	mem_free(reader->window);
	reader->window = window;
	reader->room = len;
	reader->filled = 0;
	return 0;
}

/* The valid end of a segment: beyond it the bytes may still change. */
static uint64_t segment_end(const struct local_store *local, uint64_t segment)
{
	const struct shelf_item *item = shelf_find(&local->shelf, segment);

	if (segment == local->journal.durable.segment)
		return local->journal.durable.end;
	return item ? item->end : 0;
}

static int read_window(struct local_store *local, const struct open_ticket *ticket)
{
	struct reader *reader = &local->reader;
	uint64_t base = ticket->offset / FORMAT_BLOCK * FORMAT_BLOCK;
	uint64_t end = format_align((uint64_t)ticket->offset + ticket->length, FORMAT_BLOCK);
	uint64_t limit = segment_end(local, ticket->segment);

	if (end > limit)
		return ERR_DAMAGED;
	if (end < base + READ_BYTES)
		end = base + READ_BYTES < limit ? base + READ_BYTES : limit;
	int r = reader_room(reader, (size_t)(end - base));
	if (r < 0)
		return r;
	int64_t n = local->folder.fs->methods->read(local->folder.fs, reader->fd, reader->window,
	                                            (size_t)(end - base), base);
	reader->filled = n > 0 ? (size_t)n : 0;
	reader->base = base;
	return n < 0 ? (int)n : 0;
}

static int read_back(struct local_store *local, const struct open_ticket *ticket,
                     const unsigned char **ret_bytes)
{
	struct reader *reader = &local->reader;
	uint64_t end = (uint64_t)ticket->offset + ticket->length;

	int r = reader_open(local, ticket->segment);
	if (r < 0)
		return r;
	if (ticket->offset < reader->base || end > reader->base + reader->filled) {
		r = read_window(local, ticket);
		if (r < 0)
			return r;
		if (end > reader->base + reader->filled)
			return ERR_DAMAGED;
	}
	*ret_bytes = reader->window + (ticket->offset - reader->base);
	return 0;
}

int local_read_event(struct local_store *local, const struct open_ticket *ticket,
                     struct entry *ret_entry)
{
	const unsigned char *bytes = frame_cached(&local->journal.frame, ticket->segment,
	                                          ticket->offset, ticket->length);
	bool from_disk = bytes == NULL;

	if (from_disk) {
		int r = read_back(local, ticket, &bytes);
		if (r < 0)
			return r;
	}
	int r = entry_parse(bytes, ticket->length, ret_entry);
	if (r < 0)
		return r;
	if (ret_entry->kind != ENTRY_EVENT || ret_entry->event.ticket != ticket->ticket)
		return ERR_DAMAGED;
	if (from_disk) {
		const struct shelf_item *item = shelf_find(&local->shelf, ticket->segment);
		CHECK(item && item->epoch != 0);
		if (ret_entry->event.check !=
		    entry_event_check(bytes, ret_entry->size, item->epoch))
			return ERR_DAMAGED;
	}
	return 0;
}

/* The ticket stays leased: nobody has its attempt, so nobody can settle it. */
static void park(struct local_store *local, const struct open_ticket *ticket, int error)
{
	struct open_ticket parked;
	char name[FORMAT_NAME_MAX];

	bool taken = open_tickets_take(local->tickets, &parked);
	CHECK(taken && parked.ticket == ticket->ticket);
	format_name(name, ticket->segment, FILE_KIND_SEGMENT);
	atomic_fetch_add_explicit(&local->counters.io_errors, 1, memory_order_relaxed);
	local_log(local, LOCAL_STORE_ERROR,
	          "an event in %s at offset %u is not readable (%s); parked", name, ticket->offset,
	          error_name(error));
}

static bool is_for_want(int error)
{
	return error == -ENOMEM || error == -EMFILE || error == -ENFILE || error == -EINTR ||
	       error == -EAGAIN;
}

/* Tells whether to park it; if not, takes wait for the next tick. */
static bool read_failed(struct local_store *local, const struct open_ticket *ticket, int error)
{
	struct reader *reader = &local->reader;

	if (error == ERR_DAMAGED)
		return true;
	if (reader->failed_ticket != ticket->ticket) {
		reader->failed_ticket = ticket->ticket;
		reader->failed_tries = 0;
		atomic_fetch_add_explicit(&local->counters.io_errors, 1, memory_order_relaxed);
		local_log(local, LOCAL_STORE_WARNING,
		          "an event could not be read back (%s); trying again", error_name(error));
	}
	reader->failed_tries += !is_for_want(error);
	if (reader->failed_tries >= READ_TRIES)
		return true;
	reader->resting = true;
	return false;
}

static bool append_item(struct store_take *take, const struct open_ticket *ticket,
                        const struct entry *entry)
{
	struct store_item item = {
		.ticket = ticket->ticket,
		.attempt = ticket->attempt + 1u,
		.source_len = (uint32_t)entry->source.len,
		.payload_len = (uint32_t)entry->payload.len,
		.flags = entry->event.user_flags,
	};

	size_t len = sizeof(item) + entry->source.len + entry->payload.len;
	if (buf_reserve(&take->items, len) < 0)
		return false;
	buf_append(&take->items, &item, sizeof(item));
	buf_append_span(&take->items, entry->source);
	buf_append_span(&take->items, entry->payload);
	return true;
}

/* Gathers what is due; 0 if nothing could be given now. */
static uint32_t fill_take(struct local_store *local, struct store_take *take)
{
	struct open_ticket ticket;
	struct entry entry;

	buf_clear(&take->items);
	take->count = 0;
	while (take->count < take->max_items && open_tickets_peek(local->tickets, &ticket)) {
		if (ticket.ticket > local->durable_ticket)
			break; /* its frame is under way */
		if (take->count > 0 && take->items.len + ticket.length > take->max_bytes)
			break;
		int r = local_read_event(local, &ticket, &entry);
		if (r < 0 && !read_failed(local, &ticket, r))
			break;
		if (r < 0) {
			park(local, &ticket, r);
			continue;
		}
		if (!append_item(take, &ticket, &entry))
			break;
		bool taken = open_tickets_take(local->tickets, &ticket);
		CHECK(taken && ticket.ticket == entry.event.ticket);
		take->count++;
	}
	return take->count;
}

void local_serve_takes(struct local_store *local)
{
	/* Only what waits now: done() may submit the next take at once. */
	while (local->takes.first && open_tickets_due(local->tickets) > 0 &&
	       !local->reader.resting) {
		struct store_op *op = local->takes.first;
		struct store_take *take = container_of(op, struct store_take, op);
		if (fill_take(local, take) == 0)
			return;
		op_queue_take(&local->takes);
		op->error = 0;
		op->done(op);
	}
}

void local_fail_takes(struct local_store *local, int error)
{
	struct store_op *op;

	while ((op = op_queue_take(&local->takes))) {
		op->error = error;
		op->done(op);
	}
}
