/* trace_log: see trace_log.h. */
#include "trace/trace_log.h"

#include <pthread.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "gate/ticket.h"
#include "sys/thread.h"
#include "sys/wake_event.h"
#include "trace/files.h"
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
	uint64_t count;
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
	struct trace_files files; /* folder and fs never change: any thread's */
	bool failing;             /* logged, and not yet that it works again */
	/* Counters. `written` counts what has left the memory, lost or not. */
	atomic_uint_fast64_t added, written, lost, thinned, records, disk_bytes, oldest_ms;
	struct wake_event wake;
	struct thread thread;
	atomic_bool ending;
};

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

void trace_log_add(struct trace_log *log, const struct trace *given)
{
	if (!log || log->options.read_only)
		return;
	CHECK((size_t)given->verdict < VERDICT_COUNT);
	CHECK((given->ticket | given->original) >> TICKET_BITS == 0);
	bool is_new = given->verdict == VERDICT_NEW;
	if (is_new && !trace_log_wants_new(log, given->claims, given->claim_count))
		return;
	struct trace_sampler *sampler = is_new ? &log->passed : &log->suppressed;
	struct trace_buffer *buffer = &log->filling;
	struct trace trace = *given;
	trace_trim(&trace);
	size_t size = trace_record_size(&trace);
	bool half_full = false;
	pthread_mutex_lock(&log->lock);
	trace.sample = (uint8_t)trace_sampler_shift(sampler);
	bool kept = trace_sampler_take(sampler, trace.time_ms);
	bool fits = buffer->len + size <= BUFFER_BYTES;
	if (kept && fits) {
		trace_record_write(&trace, buffer->bytes + buffer->len, size);
		half_full = buffer->len < BUFFER_BYTES / 2 &&
		            buffer->len + size >= BUFFER_BYTES / 2;
		buffer->len += size;
		buffer->count++;
		atomic_fetch_add_explicit(&log->added, 1, memory_order_release);
	}
	pthread_mutex_unlock(&log->lock);
	if (half_full)
		wake_event_set(&log->wake);
	if (kept && !fits)
		atomic_fetch_add_explicit(&log->lost, 1, memory_order_relaxed);
	else if (!kept && !is_new)
		atomic_fetch_add_explicit(&log->thinned, 1, memory_order_relaxed);
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

static void note_result(struct trace_log *log, int error, uint64_t lost)
{
	atomic_fetch_add(&log->lost, lost);
	if ((error < 0) == log->failing)
		return;
	log->failing = error < 0;
	if (error < 0)
		log_warn("traces cannot be written and are lost until the disk works again",
		         log_str("folder", log->files.folder), log_u64("lost", lost),
		         log_code(error));
	else
		log_info("traces are written again", log_str("folder", log->files.folder),
		         log_u64("lost", atomic_load(&log->lost)));
}

/* On the writer's side. */
static void write_out(struct trace_log *log)
{
	uint64_t written = 0;
	pthread_mutex_lock(&log->lock);
	struct trace_buffer buffer = log->filling;
	log->filling = log->emptying;
	log->emptying = (struct trace_buffer){ .bytes = buffer.bytes };
	pthread_mutex_unlock(&log->lock);
	if (buffer.count == 0)
		return;
	int r = trace_files_write(&log->files, buffer.bytes, buffer.len, &written);
	note_result(log, r, buffer.count - written);
	count_files(log);
	atomic_fetch_add_explicit(&log->written, buffer.count, memory_order_release);
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

struct finding {
	const struct trace_query *query;
	struct span source;
	struct trace_term terms[TRACE_TERMS_MAX];
	uint32_t left[TRACE_TERMS_MAX]; /* how many more traces each term may find */
	uint32_t term_count;            /* 1 without terms: all traces have it */
	uint32_t open_count;            /* terms with some left; 0: the search has ended */
	int (*each)(void *user, uint32_t term, const struct trace *trace);
	void *user;
	struct buf bytes;   /* a file */
	struct buf offsets; /* uint32_t: of its records */
	int found;
};

static void give(struct finding *finding, const struct trace *trace)
{
	if (trace->time_ms < finding->query->since_ms ||
	    (finding->source.len > 0 && !span_eq(trace->source, finding->source)))
		return;
	for (uint32_t i = 0; i < finding->term_count && finding->open_count > 0; i++) {
		if (finding->left[i] == 0 ||
		    (finding->query->term_count > 0 && !trace_has_term(trace, &finding->terms[i])))
			continue;
		finding->found++;
		if (--finding->left[i] == 0)
			finding->open_count--;
		if (finding->each(finding->user, i, trace) != 0)
			finding->open_count = 0;
	}
}

/* A record whose write is under way is not valid yet; a file that was deleted has no records. */
static int find_in_file(struct finding *finding, const struct trace_files *files, uint64_t number)
{
	struct trace_view view;
	struct trace_reader reader = { .end = 0 };
	struct trace trace;
	uint64_t offset = 0;
	size_t size = 0;
	if (trace_view_open(&view, files->fs, files->folder, number) < 0)
		return 0;
	bool may_have = finding->query->term_count == 0;
	for (uint32_t i = 0; i < finding->query->term_count && !may_have; i++)
		may_have = finding->left[i] > 0 && trace_view_may_have(&view, &finding->terms[i]);
	if (view.complete && view.trailer.last_ms < finding->query->since_ms)
		may_have = false;
	int r = may_have ? trace_view_read(&view, &finding->bytes, &reader) : -ENOENT;
	trace_view_close(&view);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	/* The newest are at the end. */
	buf_clear(&finding->offsets);
	while (trace_reader_next(&reader, &trace, &offset))
		buf_append(&finding->offsets, &(uint32_t){ (uint32_t)offset }, sizeof(uint32_t));
	for (size_t i = finding->offsets.len; i > 0 && finding->open_count > 0;) {
		uint32_t at = 0;
		i -= sizeof(at);
		memcpy(&at, finding->offsets.ptr + i, sizeof(at));
		r = trace_record_read(span_skip(reader.file, at), &trace, &size);
		CHECK(r == 0); /* trace_reader_next() has read it from the same bytes */
		give(finding, &trace);
	}
	return finding->offsets.failed;
}

int trace_log_find(struct trace_log *log, const struct trace_query *query,
                   int (*each)(void *user, uint32_t term, const struct trace *trace), void *user)
{
	/* Texts are cut in a trace, so they are cut in a question. */
	static const uint8_t text_max[] = {
		[TRACE_TERM_ID] = TRACE_ID_MAX,
		[TRACE_TERM_TICKET] = 0,
		[TRACE_TERM_KEY] = TRACE_KEY_MAX,
		[TRACE_TERM_ENTITY] = TRACE_ENTITY_MAX,
		[TRACE_TERM_CORRELATION] = TRACE_CORRELATION_MAX,
	};
	struct finding finding = {
		.query = query,
		.source = trace_cut(query->source, TRACE_SOURCE_MAX),
		.term_count = query->term_count > 0 ? query->term_count : 1,
		.each = each,
		.user = user,
	};
	struct buf list = { 0 };
	CHECK(query->term_count <= TRACE_TERMS_MAX);
	finding.open_count = finding.term_count;
	for (uint32_t i = 0; i < finding.term_count; i++)
		finding.left[i] = query->limit == 0 || query->limit > TRACE_FOUND_MAX
		                          ? TRACE_FOUND_MAX
		                          : query->limit;
	for (uint32_t i = 0; i < query->term_count; i++) {
		finding.terms[i] = query->terms[i];
		finding.terms[i].text = trace_cut(query->terms[i].text,
		                                  text_max[query->terms[i].kind]);
	}
	int r = wait_for_writer(log);
	if (r == 0)
		r = trace_files_list(log->files.fs, log->files.folder, &list);
	for (size_t i = list.len; i > 0 && r == 0 && finding.open_count > 0;) {
		uint64_t number = 0;
		i -= sizeof(number);
		memcpy(&number, list.ptr + i, sizeof(number));
		r = find_in_file(&finding, &log->files, number);
	}
	buf_free(&list);
	buf_free(&finding.bytes);
	buf_free(&finding.offsets);
	return r < 0 ? r : finding.found;
}

void trace_log_gaps(const struct trace_log *log,
                    void (*each)(void *user, struct span source, const struct gap *gap), void *user)
{
	uint32_t count = atomic_load_explicit(&log->files.gaps.count, memory_order_acquire);
	for (uint32_t i = 0; i < count; i++) {
		const struct trace_source *source = log->files.gaps.sources[i];
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

static int start(struct trace_log *log, struct error_text *ret_text)
{
	if (!log->options.read_only) {
		log->filling.bytes = mem_alloc(BUFFER_BYTES);
		log->emptying.bytes = mem_alloc(BUFFER_BYTES);
		if (!log->filling.bytes || !log->emptying.bytes)
			return error_fill(ret_text, -ENOMEM, "no memory for traces");
	}
	int r = trace_files_open(&log->files, &log->options, ret_text);
	if (r < 0)
		return r;
	count_files(log);
	if (log->options.no_thread)
		return 0;
	struct thread_options options = {
		.name = "stile-traces",
		.cpu = THREAD_ANY_CPU,
		.run = run_writer,
		.user = log,
	};
	r = thread_start(&log->thread, &options);
	return r < 0 ? error_fill(ret_text, r, "the thread that writes traces cannot start: %s",
	                          error_name(r))
	             : 0;
}

int trace_log_open(const struct trace_log_options *given, struct trace_log **ret_log,
                   struct error_text *ret_text)
{
	struct trace_log *log = mem_zalloc(1, sizeof(*log));
	if (!log)
		return error_fill(ret_text, -ENOMEM, "no memory for traces");
	pthread_mutex_init(&log->lock, NULL);
	wake_event_init(&log->wake);
	log->options = *given;
	log->options.no_thread |= given->read_only;
	log->options.disk_bytes = or_default(given->disk_bytes, DISK_BYTES, DISK_BYTES_MIN);
	if (!given->fs)
		log->options.fs = file_system_real();
	trace_sampler_init(&log->passed, (uint32_t)or_default(given->new_per_s, NEW_PER_S, 1),
	                   (uint32_t)or_default(given->new_burst, NEW_BURST, 1));
	trace_sampler_init(&log->suppressed,
	                   (uint32_t)or_default(given->suppressed_per_s, SUPPRESSED_PER_S, 1),
	                   (uint32_t)or_default(given->suppressed_burst, SUPPRESSED_BURST, 1));
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
	wake_event_destroy(&log->wake);
	if (log->filling.count > 0)
		write_out(log);
	trace_files_close(&log->files);
	mem_free(log->filling.bytes);
	mem_free(log->emptying.bytes);
	pthread_mutex_destroy(&log->lock);
	return mem_free(log);
}
