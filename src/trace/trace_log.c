/* trace_log: see trace_log.h. */
#include "trace/trace_log.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/mem.h"
#include "gate/ticket.h"
#include "sys/thread.h"
#include "sys/wake_event.h"
#include "trace/files.h"
#include "trace/find.h"
#include "trace/gaps.h"
#include "trace/sampler.h"

#define DISK_BYTES (64u << 20)
#define DISK_BYTES_MIN (1u << 20)
#define BUFFER_BYTES (2u << 20)
#define NEW_PER_S 50u
#define NEW_BURST 20000u
#define SUPPRESSED_PER_S 2000u
#define SUPPRESSED_BURST 50000u

/* Records, not sealed yet. */
struct trace_buffer {
	unsigned char *bytes; /* BUFFER_BYTES; NULL: read only */
	size_t len;
	uint32_t count;
};

struct trace_log {
	struct trace_log_options options;
	/* With the lock: the buffer that is filled, and the samplers. It is held for the copy
	 * of a record or the exchange of the buffers, never for I/O. */
	pthread_mutex_t lock;
	struct trace_buffer filling;
	struct trace_sampler passed, suppressed;
	/* The writer's: the log's thread, or the caller of trace_log_tick(). */
	struct trace_buffer emptying;
	struct trace_files files; /* the folder's name and fs never change: any thread's */
	struct trace_gaps gaps;
	bool failing;           /* reported, and not yet that it works again */
	bool reported_left_out; /* a source whose gaps are not kept */
	uint64_t damaged_bytes;
	/* Counters. `written` counts what has left the memory, lost or not. */
	atomic_uint_fast64_t added, written, lost, thinned, records, disk_bytes, oldest_ms;
	struct wake_event wake;
	struct thread thread;
	atomic_bool ending;
	bool has_wake;
};

static void report(struct trace_log *log, bool warning, const char *text)
{
	if (log->options.log)
		log->options.log(log->options.log_user, warning, text);
}

/* ---- adding ---- */

bool trace_log_wants_new(const struct trace_log *log, const struct trace_claim *claims,
                         uint32_t claim_count)
{
	if (!log || log->options.no_new || log->options.read_only)
		return false;
	uint64_t mask = (UINT64_C(1) << trace_sampler_shift(&log->passed)) - 1;
	if (likely(mask == 0))
		return true;
	for (uint32_t i = 0; i < claim_count; i++)
		if ((claims[i].word & mask) == 0)
			return true;
	return false;
}

bool trace_log_wants_suppressed(struct trace_log *log)
{
	if (!log || log->options.read_only)
		return false;
	if (trace_sampler_turn(&log->suppressed))
		return true;
	atomic_fetch_add_explicit(&log->thinned, 1, memory_order_relaxed);
	return false;
}

static void add_trimmed(struct trace_log *log, struct trace *trace)
{
	bool is_new = trace->verdict == VERDICT_NEW;
	struct trace_sampler *sampler = is_new ? &log->passed : &log->suppressed;
	struct trace_buffer *buffer = &log->filling;
	size_t size = trace_record_size(trace);
	pthread_mutex_lock(&log->lock);
	trace->sample = (uint8_t)trace_sampler_shift(sampler);
	bool kept = trace_sampler_take(sampler, trace->time_ms);
	bool fits = buffer->len + size <= BUFFER_BYTES;
	bool half_before = buffer->len >= BUFFER_BYTES / 2;
	if (kept && fits) {
		trace_record_write(trace, buffer->bytes + buffer->len, size);
		buffer->len += size;
		buffer->count++;
		atomic_fetch_add_explicit(&log->added, 1, memory_order_release);
	}
	bool half_now = buffer->len >= BUFFER_BYTES / 2;
	pthread_mutex_unlock(&log->lock);
	if (half_now && !half_before && log->has_wake)
		wake_event_set(&log->wake);
	if (kept && !fits)
		atomic_fetch_add_explicit(&log->lost, 1, memory_order_relaxed);
	else if (!kept && !is_new)
		atomic_fetch_add_explicit(&log->thinned, 1, memory_order_relaxed);
}

void trace_log_add(struct trace_log *log, const struct trace *trace)
{
	if (!log || log->options.read_only)
		return;
	CHECK((size_t)trace->verdict < VERDICT_COUNT);
	CHECK((trace->ticket | trace->original) >> TICKET_BITS == 0);
	if (trace->verdict == VERDICT_NEW &&
	    !trace_log_wants_new(log, trace->claims, trace->claim_count))
		return;
	struct trace trimmed = *trace;
	trace_trim(&trimmed);
	add_trimmed(log, &trimmed);
}

/* ---- writing ---- */

static void count_files(struct trace_log *log)
{
	uint64_t records = 0;
	uint64_t oldest_ms = 0;
	for (uint32_t i = 0; i < log->files.count; i++) {
		records += log->files.files[i].record_count;
		if (oldest_ms == 0)
			oldest_ms = log->files.files[i].first_ms;
	}
	atomic_store(&log->records, records);
	atomic_store(&log->oldest_ms, oldest_ms);
	atomic_store(&log->disk_bytes, trace_files_bytes(&log->files));
}

static void report_left_out(struct trace_log *log)
{
	struct error_text text;
	if (log->gaps.left_out[0] == 0 || log->reported_left_out)
		return;
	log->reported_left_out = true;
	error_fill(
		&text, 0,
		"gaps are kept for %u sources and no more: there is no advice on the window of %s",
		TRACE_SOURCES_MAX, log->gaps.left_out);
	report(log, true, text.text);
}

static void note_result(struct trace_log *log, int error, uint32_t lost)
{
	struct error_text text;
	atomic_fetch_add(&log->lost, lost);
	if ((error < 0) == log->failing)
		return;
	log->failing = error < 0;
	if (error < 0)
		error_fill(&text, 0, "traces cannot be written and are lost: %s",
		           error_name(error));
	else
		error_fill(&text, 0, "traces are written again");
	report(log, log->failing, text.text);
}

/* Updates the gaps. A record of an event that returned after its window says so itself. */
static void feed_gaps(struct trace_log *log, unsigned char *records, size_t len)
{
	for (size_t at = 0, size = 0; at < len; at += size) {
		struct trace trace;
		uint64_t before = 0;
		int r = trace_record_read(span_of(records + at, len - at), &trace, &size);
		CHECK(r == 0); /* written by trace_record_write() */
		if (!trace_gaps_add(&log->gaps, &trace, &before))
			continue;
		struct trace_record record;
		memcpy(&record, records + at, sizeof(record));
		record.flags |= TRACE_RETURNED;
		record.original = before;
		record.gap_ms = ticket_time_ms(record.ticket) - ticket_time_ms(before);
		memcpy(records + at, &record, sizeof(record));
	}
	report_left_out(log);
}

/* The gaps are saved between the files: they are those of all files before the next one. If
 * that fails, the earlier save and the files behind it still have them. */
static int begin_file(struct trace_log *log, const unsigned char *record)
{
	struct trace_record first;
	memcpy(&first, record, sizeof(first));
	(void)trace_files_finish(&log->files);
	(void)trace_gaps_save(&log->gaps, log->options.fs, log->files.folder,
	                      log->files.next_number);
	log->files.other_bytes = log->gaps.file_bytes;
	return trace_files_begin(&log->files, first.time_ms);
}

static size_t size_of_record(const unsigned char *record)
{
	struct trace_record head;
	memcpy(&head, record, sizeof(head));
	return head.size;
}

/* Appends all records, with one write for each file. The gaps are updated file by file: what
 * is saved with a new file has nothing of that file's traces. What cannot be written is lost,
 * but counted in the gaps. */
static int write_buffer(struct trace_log *log, const struct trace_buffer *buffer,
                        uint32_t *ret_written)
{
	int r = 0;
	*ret_written = 0;
	for (size_t at = 0, len = 0; at < buffer->len; at += len) {
		unsigned char *records = buffer->bytes + at;
		uint32_t count = 0;
		len = size_of_record(records);
		if (r == 0 && !trace_files_has_room(&log->files, len))
			r = begin_file(log, records);
		while (at + len < buffer->len &&
		       (r < 0 ||
		        trace_files_has_room(&log->files, len + size_of_record(records + len))))
			len += size_of_record(records + len);
		feed_gaps(log, records, len);
		if (r == 0)
			r = trace_files_append(&log->files, records, len, &count);
		*ret_written += r == 0 ? count : 0;
	}
	return r;
}

/* On the writer's side. */
static void write_out(struct trace_log *log)
{
	pthread_mutex_lock(&log->lock);
	struct trace_buffer buffer = log->filling;
	log->filling = log->emptying;
	log->emptying = buffer;
	pthread_mutex_unlock(&log->lock);
	if (buffer.count > 0) {
		uint32_t written = 0;
		int r = write_buffer(log, &buffer, &written);
		note_result(log, r, buffer.count - written);
		count_files(log);
		atomic_fetch_add_explicit(&log->written, buffer.count, memory_order_release);
	}
	log->emptying.len = 0;
	log->emptying.count = 0;
	int r = trace_files_sync(&log->files);
	if (r < 0)
		note_result(log, r, 0);
}

void trace_log_tick(struct trace_log *log)
{
	CHECK(log->options.no_thread);
	if (!log->options.read_only)
		write_out(log);
}

static void run_writer(void *user)
{
	struct trace_log *log = user;
	while (!atomic_load(&log->ending)) {
		wake_event_wait(&log->wake, TRACE_TICK_MS);
		write_out(log);
	}
}

/* ---- asking ---- */

/* Until the writer has written what was added before. */
static int wait_for_writer(struct trace_log *log)
{
	uint64_t added = atomic_load_explicit(&log->added, memory_order_acquire);
	if (log->options.no_thread) {
		trace_log_tick(log);
		return 0;
	}
	for (uint32_t ms = 0; ms < TRACE_WAIT_MS; ms++) {
		if (atomic_load_explicit(&log->written, memory_order_acquire) >= added)
			return 0;
		wake_event_set(&log->wake);
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	return ERR_BUSY;
}

int trace_log_find(struct trace_log *log, const struct trace_query *query,
                   int (*each)(void *user, uint32_t term, const struct trace *trace), void *user)
{
	int r = wait_for_writer(log);
	return r < 0 ? r : trace_find(log->options.fs, log->files.folder, query, each, user);
}

void trace_log_gaps(const struct trace_log *log,
                    void (*each)(void *user, struct span source, const struct gap *gap), void *user)
{
	uint32_t count = atomic_load_explicit(&log->gaps.count, memory_order_acquire);
	for (uint32_t i = 0; i < count; i++) {
		const struct trace_source *source = log->gaps.sources[i];
		each(user, span_of(source->name, source->name_len), &source->gap);
	}
}

void trace_log_stats(const struct trace_log *log, struct trace_stats *ret_stats)
{
	*ret_stats = (struct trace_stats){
		.added = atomic_load_explicit(&log->added, memory_order_relaxed),
		.lost = atomic_load_explicit(&log->lost, memory_order_relaxed),
		.thinned = atomic_load_explicit(&log->thinned, memory_order_relaxed),
		.records = atomic_load_explicit(&log->records, memory_order_relaxed),
		.disk_bytes = atomic_load_explicit(&log->disk_bytes, memory_order_relaxed),
		.oldest_ms = atomic_load_explicit(&log->oldest_ms, memory_order_relaxed),
		.damaged_bytes = log->damaged_bytes,
		.new_sample = trace_sampler_shift(&log->passed),
		.suppressed_sample = trace_sampler_shift(&log->suppressed),
	};
}

/* ---- open and free ---- */

static uint64_t or_default(uint64_t value, uint64_t standard, uint64_t least)
{
	if (value == 0)
		return standard;
	return value < least ? least : value;
}

static void set_options(struct trace_log *log, const struct trace_log_options *given)
{
	struct trace_log_options *options = &log->options;
	*options = *given;
	if (!options->fs)
		options->fs = file_system_real();
	options->no_thread |= options->read_only;
	options->disk_bytes = or_default(given->disk_bytes, DISK_BYTES, DISK_BYTES_MIN);
	trace_sampler_init(&log->passed, (uint32_t)or_default(given->new_per_s, NEW_PER_S, 1),
	                   (uint32_t)or_default(given->new_burst, NEW_BURST, 1));
	trace_sampler_init(&log->suppressed,
	                   (uint32_t)or_default(given->suppressed_per_s, SUPPRESSED_PER_S, 1),
	                   (uint32_t)or_default(given->suppressed_burst, SUPPRESSED_BURST, 1));
}

static void load_record(void *user, const struct trace *trace)
{
	struct trace_log *log = user;
	uint64_t before = 0;
	(void)trace_gaps_add(&log->gaps, trace, &before);
}

static int load(struct trace_log *log, struct error_text *ret_text)
{
	struct trace_files *files = &log->files;
	uint64_t from = 0;
	int r = trace_files_open(files, &log->options, ret_text);
	if (r < 0)
		return r;
	int gaps_error = trace_gaps_load(&log->gaps, files->fs, files->folder, &from);
	files->other_bytes = log->gaps.file_bytes;
	r = gaps_error == -ENOMEM ? gaps_error : trace_files_load(files, from, load_record, log);
	if (r < 0)
		return error_fill(ret_text, r, "%s: %s", files->folder, error_name(r));
	if (gaps_error < 0) {
		char text[ERROR_TEXT_MAX];
		snprintf(
			text, sizeof(text),
			"traces/gaps cannot be read: %s; gaps are known from the present traces only",
			error_name(gaps_error));
		report(log, true, text);
	}
	return 0;
}

/* An incomplete end is what a crash leaves: an operator need not act. */
static void report_loading(struct trace_log *log)
{
	const struct trace_files *files = &log->files;
	char text[ERROR_TEXT_MAX + 128];
	log->damaged_bytes = files->damaged_bytes;
	report_left_out(log);
	if (files->foreign_files > 0) {
		snprintf(text, sizeof(text),
		         "%llu files in traces/ are of the format of another version and are not "
		         "read; delete them when that version is not needed any more",
		         (unsigned long long)files->foreign_files);
		report(log, false, text);
	}
	if (files->problem.text[0] == 0)
		return;
	snprintf(text, sizeof(text),
	         "%llu bytes of traces are damaged and were skipped, %llu at the end were cut: %s",
	         (unsigned long long)files->damaged_bytes, (unsigned long long)files->torn_bytes,
	         files->problem.text);
	report(log, files->damaged_bytes > 0, text);
}

static int start(struct trace_log *log, struct error_text *ret_text)
{
	int r = 0;
	if (!log->options.read_only) {
		log->filling.bytes = mem_alloc(BUFFER_BYTES);
		log->emptying.bytes = mem_alloc(BUFFER_BYTES);
		if (!log->filling.bytes || !log->emptying.bytes)
			return error_fill(ret_text, -ENOMEM, "no memory for traces");
	}
	r = load(log, ret_text);
	if (r < 0)
		return r;
	count_files(log);
	report_loading(log);
	if (log->options.no_thread)
		return 0;
	wake_event_init(&log->wake);
	log->has_wake = true;
	struct thread_options options = {
		.name = "stile-traces",
		.cpu = THREAD_ANY_CPU,
		.run = run_writer,
		.user = log,
	};
	r = thread_start(&log->thread, &options);
	if (r < 0)
		error_fill(ret_text, r, "the thread that writes traces cannot start: %s",
		           error_name(r));
	return r;
}

int trace_log_open(const struct trace_log_options *options, struct trace_log **ret_log,
                   struct error_text *ret_text)
{
	struct trace_log *log = mem_zalloc(1, sizeof(*log));
	if (!log)
		return error_fill(ret_text, -ENOMEM, "no memory for traces");
	pthread_mutex_init(&log->lock, NULL);
	set_options(log, options);
	int r = start(log, ret_text);
	if (r < 0) {
		trace_log_free(log);
		return r;
	}
	*ret_log = log;
	return 0;
}

struct trace_log *trace_log_free(struct trace_log *log)
{
	if (!log)
		return NULL;
	atomic_store(&log->ending, true);
	if (log->thread.running) {
		wake_event_set(&log->wake);
		thread_join(&log->thread);
	}
	if (log->has_wake)
		wake_event_destroy(&log->wake);
	if (log->files.fs && !log->options.read_only)
		write_out(log);
	trace_files_close(&log->files);
	trace_gaps_free(&log->gaps);
	mem_free(log->filling.bytes);
	mem_free(log->emptying.bytes);
	pthread_mutex_destroy(&log->lock);
	return mem_free(log);
}
