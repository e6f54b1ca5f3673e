/* find: see find.h. */
#include "trace/find.h"

#include "trace/files.h"

struct finding {
	struct file_system *fs;
	const char *folder;
	struct trace_query query;
	struct trace_term terms[TRACE_TERMS_MAX]; /* those with places left come first … */
	uint32_t indexes[TRACE_TERMS_MAX];        /* … and what they are in the query */
	uint32_t left[TRACE_TERMS_MAX];           /* places */
	uint32_t term_count;
	int (*each)(void *user, uint32_t term, const struct trace *trace);
	void *user;
	struct buf bytes;   /* a file */
	struct buf offsets; /* uint32_t: its records that may be given */
	int found;
	bool ended;
};

/* Texts are cut in a trace, so they are cut in a question. */
static struct trace_term trimmed(struct trace_term term)
{
	struct trace trace = {
		.id = term.text,
		.keys = { term.text },
		.entity = term.text,
		.correlation = term.text,
	};
	trace_trim(&trace);
	switch (term.kind) {
	case TRACE_TERM_ID: term.text = trace.id; break;
	case TRACE_TERM_KEY: term.text = trace.keys[0]; break;
	case TRACE_TERM_ENTITY: term.text = trace.entity; break;
	case TRACE_TERM_CORRELATION: term.text = trace.correlation; break;
	case TRACE_TERM_TICKET: term.text = SPAN_EMPTY; break;
	}
	return term;
}

static bool is_wanted(const struct finding *finding, const struct trace *trace)
{
	const struct trace_query *query = &finding->query;
	if (trace->time_ms < query->since_ms ||
	    (query->source.len > 0 && !span_eq(trace->source, query->source)))
		return false;
	for (uint32_t i = 0; i < finding->term_count; i++)
		if (trace_has_term(trace, &finding->terms[i]))
			return true;
	return query->term_count == 0;
}

/* A term without a place left is taken out, by moving the last one there. */
static void give(struct finding *finding, const struct trace *trace)
{
	bool all = finding->query.term_count == 0;
	for (uint32_t i = finding->term_count; i > 0 && !finding->ended; i--) {
		uint32_t at = i - 1;
		if (!all && !trace_has_term(trace, &finding->terms[at]))
			continue;
		finding->found++;
		if (finding->each(finding->user, finding->indexes[at], trace) != 0)
			finding->ended = true;
		if (--finding->left[at] > 0)
			continue;
		uint32_t last = --finding->term_count;
		finding->terms[at] = finding->terms[last];
		finding->indexes[at] = finding->indexes[last];
		finding->left[at] = finding->left[last];
	}
}

static int find_in(struct finding *finding, const struct trace_view *view)
{
	struct trace_reader reader;
	struct trace trace;
	uint64_t offset = 0;
	size_t size = 0;
	int r = trace_view_read(view, &finding->bytes, &reader);
	if (r < 0)
		return r;
	buf_clear(&finding->offsets);
	while (trace_reader_next(&reader, &trace, &offset))
		if (is_wanted(finding, &trace))
			buf_append(&finding->offsets, &(uint32_t){ (uint32_t)offset },
			           sizeof(uint32_t));
	if (finding->offsets.failed)
		return finding->offsets.failed;
	for (size_t i = finding->offsets.len / sizeof(uint32_t); i > 0; i--) {
		uint32_t at = 0;
		memcpy(&at, finding->offsets.ptr + (i - 1) * sizeof(at), sizeof(at));
		if (finding->ended || finding->term_count == 0)
			break;
		r = trace_record_read(span_skip(buf_span(&finding->bytes), at), &trace, &size);
		CHECK(r == 0); /* trace_reader_next() has read it from the same bytes */
		give(finding, &trace);
	}
	return 0;
}

static int visit(struct finding *finding, uint64_t number)
{
	const struct trace_query *query = &finding->query;
	struct trace_view view;
	int r = trace_view_open(&view, finding->fs, finding->folder, number);
	if (r < 0)
		return 0;
	bool may = !view.complete || view.trailer.last_ms >= query->since_ms;
	if (may && query->term_count > 0)
		may = trace_view_may_have(&view, finding->terms, finding->term_count);
	if (may)
		r = find_in(finding, &view);
	trace_view_close(&view);
	return r == -ENOMEM ? r : 0;
}

static void set_terms(struct finding *finding)
{
	const struct trace_query *query = &finding->query;
	uint32_t limit = query->limit;
	CHECK(query->term_count <= TRACE_TERMS_MAX);
	if (limit == 0 || limit > TRACE_FOUND_MAX)
		limit = TRACE_FOUND_MAX;
	finding->term_count = query->term_count > 0 ? query->term_count : 1;
	for (uint32_t i = 0; i < finding->term_count; i++) {
		if (query->term_count > 0)
			finding->terms[i] = trimmed(query->terms[i]);
		finding->indexes[i] = i;
		finding->left[i] = limit;
	}
}

int trace_find(struct file_system *fs, const char *folder, const struct trace_query *query,
               int (*each)(void *user, uint32_t term, const struct trace *trace), void *user)
{
	struct finding finding = {
		.fs = fs,
		.folder = folder,
		.query = *query,
		.each = each,
		.user = user,
	};
	struct buf list = { 0 };
	if (finding.query.source.len > TRACE_SOURCE_MAX)
		finding.query.source.len = TRACE_SOURCE_MAX;
	set_terms(&finding);
	int r = trace_files_list(fs, folder, &list);
	for (size_t i = list.len / sizeof(uint64_t); i > 0 && r == 0; i--) {
		uint64_t number = 0;
		if (finding.ended || finding.term_count == 0)
			break;
		memcpy(&number, list.ptr + (i - 1) * sizeof(number), sizeof(number));
		r = visit(&finding, number);
	}
	buf_free(&list);
	buf_free(&finding.bytes);
	buf_free(&finding.offsets);
	return r < 0 ? r : finding.found;
}
