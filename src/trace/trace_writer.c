/* trace_writer: from blocks of memory to gaps, files and index. See trace_log.h. */
#include "base/error.h"
#include "base/mem.h"
#include "gate/ticket.h"
#include "trace/trace_internal.h"

void trace_tell(struct trace_log *log, bool warning, const char *text)
{
	if (log->options.log)
		log->options.log(log->options.log_user, warning, text);
}

/* ---- gaps ---- */

static void tell_crowd(struct trace_log *log, struct span name)
{
	struct error_text text;
	if (log->overcrowded)
		return;
	log->overcrowded = true;
	error_fill(&text, 0,
	           "the gaps of %u sources are kept, and no more: there is no advice on the window "
	           "of %.*s",
	           TRACE_SOURCES_MAX, (int)name.len, name.ptr);
	trace_tell(log, true, text.text);
}

static struct trace_source *source_of(struct trace_log *log, struct span name)
{
	uint32_t count = atomic_load_explicit(&log->source_count, memory_order_relaxed);
	for (uint32_t i = 0; i < count; i++) {
		struct trace_source *source = log->sources[i];
		if (span_eq(name, span_of(source->name, source->name_len)))
			return source;
	}
	if (name.len == 0 || name.len > TRACE_SOURCE_MAX)
		return NULL;
	if (count == TRACE_SOURCES_MAX) {
		tell_crowd(log, name);
		return NULL;
	}
	struct trace_source *source = mem_zalloc(1, sizeof(*source));
	if (!source)
		return NULL;
	source->name_len = (uint8_t)name.len;
	memcpy(source->name, name.ptr, name.len);
	log->sources[count] = source;
	atomic_store_explicit(&log->source_count, count + 1, memory_order_release);
	return source;
}

/* True: the event had passed before and its window had ended; which says so. */
static bool find_return(struct gap *gap, const struct trace *trace, uint64_t *ret_before)
{
	bool returned = false;
	for (uint8_t i = 0; i < trace->claim_count; i++) {
		struct gap_passage passage = {
			.word = trace->claims[i].word,
			.window_s = trace->claims[i].window_s,
			.ticket = trace->ticket,
		};
		uint64_t before = 0;
		if (gap_passed(gap, passage, &before) && !returned) {
			*ret_before = before;
			returned = true;
		}
	}
	return returned;
}

/* Counts a trace; true: it is a return, and `ret_before` tells of what. */
static bool feed(struct trace_log *log, const struct trace *trace, uint64_t *ret_before)
{
	struct trace_source *source = source_of(log, trace->source);
	if (!source)
		return false;
	if (trace->verdict == VERDICT_DUPLICATE)
		gap_duplicate(&source->gap, trace->gap_ms, trace->time_ms,
		              UINT64_C(1) << (trace->sample < TRACE_SAMPLE_MAX ? trace->sample
		                                                               : TRACE_SAMPLE_MAX));
	return trace_passed(trace) && trace->verdict == VERDICT_NEW &&
	       find_return(&source->gap, trace, ret_before);
}

/* The record says itself that it is a return: it is not written yet. */
static void mark_return(unsigned char *at, uint64_t before)
{
	struct trace_record record;
	memcpy(&record, at, sizeof(record));
	record.flags |= TRACE_RETURNED;
	record.original = before;
	record.gap_ms = ticket_time_ms(record.ticket) - ticket_time_ms(before);
	memcpy(at, &record, sizeof(record));
}

static void feed_block(struct trace_log *log, struct trace_block *block)
{
	unsigned char *at = block->bytes + TRACE_ALIGN;
	unsigned char *end = at + block->len;
	while (at < end) {
		struct trace trace;
		uint64_t before = 0;
		size_t size = 0;
		int r = trace_record_read(span_of(at, (size_t)(end - at)), &trace, &size);
		CHECK(r == 0); /* we wrote it a moment ago */
		if (feed(log, &trace, &before))
			mark_return(at, before);
		at += size;
	}
}

void trace_loaded_records(void *user, struct span body)
{
	while (body.len > 0) {
		struct trace trace;
		uint64_t before = 0;
		size_t size = 0;
		if (trace_record_read(body, &trace, &size) < 0)
			return;
		feed(user, &trace, &before);
		body = span_skip(body, size);
	}
}

int trace_loaded_gaps(void *user, struct span body)
{
	size_t name_len = body.len > 0 ? (unsigned char)body.ptr[0] : 0;
	if (body.len < 1 + name_len || name_len > TRACE_SOURCE_MAX)
		return ERR_DAMAGED;
	struct trace_source *source = source_of(user, span_of(body.ptr + 1, name_len));
	if (!source)
		return 0;
	return gap_read(&source->gap, span_skip(body, 1 + name_len)) < 0 ? ERR_DAMAGED : 0;
}

/* ---- writing ---- */

void trace_count(struct trace_log *log)
{
	uint64_t records = 0;
	uint64_t oldest_ms = 0;
	for (size_t i = 0; i < log->files.count; i++) {
		const struct trace_file *file = &log->files.files[i];
		records += file->index.record_count;
		if (oldest_ms == 0)
			oldest_ms = file->first_ms;
	}
	atomic_store(&log->records, records);
	atomic_store(&log->oldest_ms, oldest_ms);
	atomic_store(&log->disk_bytes, trace_files_bytes(&log->files));
	atomic_store(&log->index_bytes, trace_files_index_bytes(&log->files));
}

/* T3: a file begins with the gaps, since the traces they came from will leave. */
static int write_gaps(struct trace_log *log, const struct trace_source *source, struct buf *scratch)
{
	static const char header[TRACE_ALIGN] = { 0 };
	static const char padding[TRACE_ALIGN] = { 0 };
	buf_clear(scratch);
	buf_append(scratch, header, sizeof(header));
	buf_append_char(scratch, (char)source->name_len);
	buf_append(scratch, source->name, source->name_len);
	gap_write(&source->gap, scratch);
	size_t body_len = scratch->len - sizeof(header);
	buf_append(scratch, padding, sizeof(padding));
	if (scratch->failed)
		return -ENOMEM;
	CHECK(body_len <= TRACE_BODY_MAX);
	struct trace_files_block block = {
		.bytes = (unsigned char *)scratch->ptr,
		.kind = TRACE_BLOCK_GAPS,
		.body_len = (uint32_t)body_len,
		.count = 1,
	};
	return trace_files_append(&log->files, &block);
}

static int begin_file(struct trace_log *log, uint64_t now_ms)
{
	struct buf scratch = { 0 };
	int r = trace_files_begin(&log->files, now_ms);
	uint32_t sources = atomic_load(&log->source_count);
	for (uint32_t i = 0; i < sources && r == 0; i++)
		r = write_gaps(log, log->sources[i], &scratch);
	buf_free(&scratch);
	if (r == -ENOMEM)
		r = 0; /* the older files still know the gaps */
	return r == 0 ? trace_files_shrink(&log->files) : r;
}

/* Also when the index has grown too large: it shrinks with the files alone. */
static int make_place(struct trace_log *log, const struct trace_block *block)
{
	int r = 0;
	if (!trace_files_has_room(&log->files, block->len))
		r = begin_file(log, block->last_ms);
	while (r == 0 && trace_files_index_bytes(&log->files) > log->index_bytes_max) {
		if (log->files.count == 1)
			r = begin_file(log, block->last_ms);
		if (r == 0)
			r = trace_files_remove_oldest(&log->files);
	}
	if (r == 0 && log->files.fd < 0)
		r = -EIO;
	return r;
}

static void note_result(struct trace_log *log, int error, uint32_t records)
{
	struct error_text text;
	if (error < 0)
		atomic_fetch_add(&log->lost, records);
	if ((error < 0) == log->failing)
		return;
	log->failing = error < 0;
	if (error < 0)
		error_fill(&text, 0, "traces cannot be written and are lost: %s",
		           error_name(error));
	else
		error_fill(&text, 0, "traces are written again");
	trace_tell(log, log->failing, text.text);
}

static void shelve(struct trace_log *log, struct trace_block *block)
{
	int r = make_place(log, block);
	feed_block(log, block);
	if (r == 0)
		r = trace_files_append(&log->files, &(struct trace_files_block){
							    .bytes = block->bytes,
							    .kind = TRACE_BLOCK_TRACES,
							    .body_len = block->len,
							    .count = block->count,
							    .first_ms = block->first_ms,
							    .last_ms = block->last_ms,
						    });
	note_result(log, r, block->count);
}

/* The oldest full block, or the open one if it holds anything. */
static struct trace_block *take_block(struct trace_log *log)
{
	pthread_mutex_lock(&log->hot);
	struct trace_block *block = log->full;
	if (block) {
		log->full = block->next;
		if (!log->full)
			log->full_end = &log->full;
	} else if (log->open && log->open->count > 0) {
		block = log->open;
		log->open = trace_take_free(log);
	}
	pthread_mutex_unlock(&log->hot);
	return block;
}

static void give_back(struct trace_log *log, struct trace_block *block)
{
	pthread_mutex_lock(&log->hot);
	block->next = log->free;
	log->free = block;
	pthread_mutex_unlock(&log->hot);
}

/* With the shelf's lock. */
void trace_drain(struct trace_log *log)
{
	struct trace_block *block = NULL;
	bool any = false;
	while ((block = take_block(log)) != NULL) {
		shelve(log, block);
		give_back(log, block);
		any = true;
	}
	if (any)
		trace_count(log);
}

/* A failed sync is final for its file: what was written may be gone from the
 * cache. Its checksums will tell; the log goes on in another file. */
static void sync_files(struct trace_log *log, uint64_t from, uint64_t to)
{
	for (uint64_t number = from; number <= to; number++) {
		int r = trace_files_sync(log->options.fs, log->files.folder, number);
		if (r == 0)
			continue;
		pthread_mutex_lock(&log->shelf);
		trace_files_abandon(&log->files, number);
		note_result(log, r, 0);
		pthread_mutex_unlock(&log->shelf);
	}
}

void trace_log_tick(struct trace_log *log)
{
	if (log->options.read_only)
		return;
	pthread_mutex_lock(&log->shelf);
	trace_drain(log);
	struct trace_files *files = &log->files;
	uint64_t from = files->dirty;
	uint64_t to = files->count > 0 ? files->files[files->count - 1].number : 0;
	files->dirty = 0;
	pthread_mutex_unlock(&log->shelf);
	if (from > 0)
		sync_files(log, from, to);
}
