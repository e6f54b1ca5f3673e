/* trace_find: questions to a trace log. See trace_log.h. */
#include <time.h>

#include "base/error.h"
#include "trace/trace_internal.h"

#define FIND_WAIT_S 1

static bool key_has(struct span key, struct span part)
{
	if (span_eq(key, part))
		return true;
	while (key.len > 0) {
		const char *end = memchr(key.ptr, TRACE_PART_END, key.len);
		size_t len = end ? (size_t)(end - key.ptr) : key.len;
		if (span_eq(span_of(key.ptr, len), part))
			return true;
		key = span_skip(key, len + 1);
	}
	return false;
}

static bool matches(const struct trace *trace, const struct trace_query *query)
{
	if (query->id.len > 0 && !span_eq(trace->id, query->id))
		return false;
	if (query->ticket != 0 && trace->ticket != query->ticket &&
	    trace->original != query->ticket)
		return false;
	if (query->key.len > 0 && !key_has(trace->keys[0], query->key) &&
	    !key_has(trace->keys[1], query->key))
		return false;
	if (query->source.len > 0 && !span_eq(trace->source, query->source))
		return false;
	return trace->time_ms >= query->since_ms;
}

struct finding {
	struct trace_log *log;
	struct trace_query query;
	struct trace_search search;
	int (*each)(void *user, const struct trace *trace);
	void *user;
	uint32_t reads;
	int found;
	bool ended;
};

static void search_for(struct finding *finding)
{
	const struct trace_query *query = &finding->query;
	uint64_t seed = finding->log->files.seed;
	if (query->id.len > 0)
		finding->search.tag = trace_tag(seed, TRACE_TAG_ID, query->id);
	else if (query->ticket != 0)
		finding->search.tag = trace_tag_ticket(seed, query->ticket);
	else if (query->key.len > 0)
		finding->search.tag = trace_tag(seed, TRACE_TAG_KEY, query->key);
	else
		finding->search.all = true;
}

static void find_in(struct finding *finding, const struct trace_file *file)
{
	if (file->last_ms < finding->query.since_ms)
		return;
	trace_search_begin(&finding->search, &file->index);
	while (!finding->ended && trace_search_next(&finding->search, &file->index)) {
		struct trace trace;
		if (finding->reads++ == TRACE_READS_MAX) {
			finding->ended = true;
			return;
		}
		/* What cannot be read is as if it had left: better the rest. */
		if (trace_files_read(&finding->log->files, file, finding->search.record, &trace) <
		            0 ||
		    !matches(&trace, &finding->query))
			continue;
		finding->found++;
		if (finding->each(finding->user, &trace) != 0 ||
		    (uint32_t)finding->found == finding->query.limit)
			finding->ended = true;
	}
}

/* Texts are cut in a trace, so they are cut in a question. */
static struct trace_query trimmed(const struct trace_query *query)
{
	struct trace trace = { .id = query->id, .keys = { query->key }, .source = query->source };
	struct trace_query result = *query;
	trace_trim(&trace);
	result.id = trace.id;
	result.key = trace.keys[0];
	result.source = trace.source;
	return result;
}

static int lock_shelf(struct trace_log *log)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += FIND_WAIT_S;
	return pthread_mutex_timedlock(&log->shelf, &until) == 0 ? 0 : ERR_BUSY;
}

int trace_log_find(struct trace_log *log, const struct trace_query *query,
                   int (*each)(void *user, const struct trace *trace), void *user)
{
	struct finding finding = {
		.log = log,
		.query = trimmed(query),
		.each = each,
		.user = user,
	};
	int r = lock_shelf(log);
	if (r < 0)
		return r;
	trace_drain(log);
	search_for(&finding);
	for (size_t i = log->files.count; i > 0 && !finding.ended; i--)
		find_in(&finding, &log->files.files[i - 1]);
	trace_files_end_reads(&log->files);
	pthread_mutex_unlock(&log->shelf);
	return finding.found;
}

void trace_log_gaps(const struct trace_log *log,
                    void (*each)(void *user, struct span source, const struct gap *gap), void *user)
{
	uint32_t sources = atomic_load_explicit(&log->source_count, memory_order_acquire);
	for (uint32_t i = 0; i < sources; i++) {
		const struct trace_source *source = log->sources[i];
		each(user, span_of(source->name, source->name_len), &source->gap);
	}
}
