/* trace_log: see trace_log.h. */
#include "trace/trace_log.h"

#include <stdio.h>

#include "base/mem.h"
#include "gate/ticket.h"
#include "trace/trace_internal.h"

#define DISK_BYTES (64u << 20)
#define MEMORY_BYTES (16u << 20)
#define BYTES_MIN (1u << 20)
#define NEW_PER_S 50u
#define NEW_BURST 20000u
#define SUPPRESSED_PER_S 2000u
#define SUPPRESSED_BURST 50000u
#define FILES 8u /* the disk's share is cut into so many */
#define BLOCKS_MAX 32u
#define BLOCKS_MIN 4u

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

/* With the hot lock. */
static bool is_kept(struct trace_log *log, const struct trace *trace, uint8_t *ret_sample)
{
	bool passes = trace->verdict == VERDICT_NEW;
	struct trace_sampler *sampler = passes ? &log->passed : &log->suppressed;
	*ret_sample = (uint8_t)trace_sampler_shift(sampler);
	return trace_sampler_take(sampler, trace->time_ms);
}

struct trace_block *trace_take_free(struct trace_log *log)
{
	struct trace_block *block = log->free;
	if (block) {
		log->free = block->next;
		block->next = NULL;
		block->len = 0;
		block->count = 0;
	}
	return block;
}

/* With the hot lock: room for a record in the open block. */
static unsigned char *room_for(struct trace_log *log, size_t size, bool *ret_wake)
{
	struct trace_block *block = log->open;
	if (block && block->len + size > TRACE_BODY_MAX) {
		*log->full_end = block;
		log->full_end = &block->next;
		*ret_wake = true;
		block = NULL;
	}
	if (!block)
		block = log->open = trace_take_free(log);
	return block ? block->bytes + TRACE_ALIGN + block->len : NULL;
}

static void put_record(struct trace_block *block, const struct trace *trace, unsigned char *at,
                       size_t size)
{
	trace_record_write(trace, at, size);
	if (block->count == 0)
		block->first_ms = trace->time_ms;
	block->last_ms = trace->time_ms;
	block->len += (uint32_t)size;
	block->count++;
}

static void add_fitting(struct trace_log *log, const struct trace *trace)
{
	size_t size = trace_record_size(trace);
	bool wake = false;
	uint8_t sample = 0;
	pthread_mutex_lock(&log->hot);
	bool kept = is_kept(log, trace, &sample);
	unsigned char *at = kept ? room_for(log, size, &wake) : NULL;
	if (at) {
		put_record(log->open, trace, at, size);
		at[offsetof(struct trace_record, sample)] = sample;
	}
	pthread_mutex_unlock(&log->hot);
	if (wake && !log->options.no_thread)
		wake_event_set(&log->wake);
	if (at)
		atomic_fetch_add_explicit(&log->added, 1, memory_order_relaxed);
	else if (kept)
		atomic_fetch_add_explicit(&log->lost, 1, memory_order_relaxed);
	else if (trace->verdict != VERDICT_NEW)
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
	if (likely(trace_record_fits(trace))) {
		add_fitting(log, trace);
		return;
	}
	struct trace trimmed = *trace;
	trace_trim(&trimmed);
	add_fitting(log, &trimmed);
}

void trace_log_stats(const struct trace_log *log, struct trace_stats *ret_stats)
{
	*ret_stats = (struct trace_stats){
		.added = atomic_load_explicit(&log->added, memory_order_relaxed),
		.lost = atomic_load_explicit(&log->lost, memory_order_relaxed),
		.thinned = atomic_load_explicit(&log->thinned, memory_order_relaxed),
		.records = atomic_load_explicit(&log->records, memory_order_relaxed),
		.disk_bytes = atomic_load_explicit(&log->disk_bytes, memory_order_relaxed),
		.index_bytes = atomic_load_explicit(&log->index_bytes, memory_order_relaxed),
		.oldest_ms = atomic_load_explicit(&log->oldest_ms, memory_order_relaxed),
		.damaged_bytes = log->damaged_bytes,
		.new_sample = trace_sampler_shift(&log->passed),
		.suppressed_sample = trace_sampler_shift(&log->suppressed),
	};
}

/* ---- open and free ---- */

static uint64_t or_standard(uint64_t value, uint64_t standard, uint64_t least)
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
	options->disk_bytes = or_standard(given->disk_bytes, DISK_BYTES, BYTES_MIN);
	options->memory_bytes = or_standard(given->memory_bytes, MEMORY_BYTES, BYTES_MIN);
	trace_sampler_init(&log->passed, (uint32_t)or_standard(given->new_per_s, NEW_PER_S, 1),
	                   (uint32_t)or_standard(given->new_burst, NEW_BURST, 1));
	trace_sampler_init(&log->suppressed,
	                   (uint32_t)or_standard(given->suppressed_per_s, SUPPRESSED_PER_S, 1),
	                   (uint32_t)or_standard(given->suppressed_burst, SUPPRESSED_BURST, 1));
}

/* An eighth of the memory is for blocks, the rest for the index. */
static int make_blocks(struct trace_log *log)
{
	uint64_t blocks = log->options.memory_bytes / 8 / TRACE_BLOCK_BYTES;
	blocks = blocks < BLOCKS_MIN ? BLOCKS_MIN : blocks > BLOCKS_MAX ? BLOCKS_MAX : blocks;
	log->index_bytes_max = log->options.memory_bytes - blocks * TRACE_BLOCK_BYTES;
	for (uint64_t i = 0; i < blocks && !log->options.read_only; i++) {
		struct trace_block *block = mem_alloc(sizeof(*block));
		if (!block)
			return -ENOMEM;
		block->next = log->free;
		log->free = block;
	}
	return 0;
}

static int open_files(struct trace_log *log, struct error_text *ret_text)
{
	uint64_t file_bytes = log->options.disk_bytes / FILES;
	if (file_bytes > TRACE_FILE_BYTES_MAX / 2)
		file_bytes = TRACE_FILE_BYTES_MAX / 2;
	struct trace_files_options options = {
		.fs = log->options.fs,
		.path = log->options.path,
		.file_bytes = file_bytes,
		.disk_bytes = log->options.disk_bytes,
		.read_only = log->options.read_only,
	};
	struct trace_files_visitor visitor = {
		.gaps = trace_loaded_gaps,
		.traces = trace_loaded_records,
		.user = log,
	};
	return trace_files_open(&log->files, &options, &visitor, ret_text);
}

/* A torn end is what a crash leaves: an operator need not act. */
static void tell_findings(struct trace_log *log)
{
	const struct trace_files *files = &log->files;
	char text[ERROR_TEXT_MAX + 128];
	log->damaged_bytes = files->damaged_bytes;
	if (files->foreign_files > 0) {
		snprintf(text, sizeof(text),
		         "%llu trace files are of a format that this version does not know; they "
		         "are left alone",
		         (unsigned long long)files->foreign_files);
		trace_tell(log, true, text);
	}
	if (files->problem.text[0] == 0)
		return;
	snprintf(text, sizeof(text),
	         "%llu bytes of traces are damaged and were skipped, %llu at the end were cut: %s",
	         (unsigned long long)files->damaged_bytes, (unsigned long long)files->torn_bytes,
	         files->problem.text);
	trace_tell(log, files->damaged_bytes > 0, text);
}

static void write_on(void *user)
{
	struct trace_log *log = user;
	while (!atomic_load(&log->ending)) {
		wake_event_wait(&log->wake, TRACE_TICK_MS);
		trace_log_tick(log);
	}
}

static int start_writer(struct trace_log *log)
{
	if (log->options.no_thread)
		return 0;
	wake_event_init(&log->wake);
	log->has_wake = true;
	struct thread_options options = {
		.name = "stile-traces",
		.cpu = THREAD_ANY_CPU,
		.run = write_on,
		.user = log,
	};
	return thread_start(&log->thread, &options);
}

int trace_log_open(const struct trace_log_options *options, struct trace_log **ret_log,
                   struct error_text *ret_text)
{
	struct trace_log *log = mem_zalloc(1, sizeof(*log));
	if (!log)
		return error_fill(ret_text, -ENOMEM, "no memory for traces");
	pthread_mutex_init(&log->hot, NULL);
	pthread_mutex_init(&log->shelf, NULL);
	log->full_end = &log->full;
	set_options(log, options);
	int r = make_blocks(log);
	if (r < 0)
		error_fill(ret_text, r, "no memory for traces");
	else
		r = open_files(log, ret_text);
	if (r == 0) {
		log->open = trace_take_free(log);
		trace_count(log);
		tell_findings(log);
		r = start_writer(log);
		if (r < 0)
			error_fill(ret_text, r, "the writer of traces cannot start: %s",
			           error_name(r));
	}
	if (r < 0) {
		trace_log_free(log);
		return r;
	}
	*ret_log = log;
	return 0;
}

static void free_blocks(struct trace_block *block)
{
	while (block) {
		struct trace_block *next = block->next;
		mem_free(block);
		block = next;
	}
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
	if (log->files.fs)
		trace_log_tick(log);
	trace_files_close(&log->files);
	free_blocks(log->open);
	free_blocks(log->full);
	free_blocks(log->free);
	uint32_t sources = atomic_load(&log->source_count);
	for (uint32_t i = 0; i < sources; i++)
		mem_free(log->sources[i]);
	pthread_mutex_destroy(&log->hot);
	pthread_mutex_destroy(&log->shelf);
	return mem_free(log);
}
