/* why_advise: advice and metrics on windows. See why.h. */
#include <inttypes.h>

#include "base/text.h"
#include "codec/json_write.h"
#include "console/why/why.h"

static void add(struct buf *out, const char *text)
{
	buf_append_span(out, span_str(text));
}

static void add_ms(struct buf *out, const char *name, const char *name_ms, uint64_t ms)
{
	char text[TEXT_DURATION_MAX];
	if (ms == 0)
		return;
	text_duration(text, ms);
	json_add_string(out, name, text);
	json_add_u64(out, name_ms, ms);
}

/* ---- every source: those of the configuration, then those that only traces know ---- */

struct walk {
	const struct why_context *context;
	struct span only; /* empty: all */
	void (*each)(struct walk *walk, const struct advice *advice);
	struct buf *out;
	const struct advice_question *question; /* whose gaps are looked for */
	const struct gap *gap;
};

static void match_gap(void *user, struct span source, const struct gap *gap)
{
	struct walk *walk = user;
	if (span_eq(source, walk->question->source))
		walk->gap = gap;
}

static void give(struct walk *walk, const struct advice_question *question, const struct gap *gap)
{
	if (walk->only.len > 0 && !span_eq(walk->only, question->source))
		return;
	struct advice advice = advice_make(question, gap);
	walk->each(walk, &advice);
}

static void give_unknown(void *user, struct span source, const struct gap *gap)
{
	struct walk *walk = user;
	for (size_t i = 0; i < walk->context->source_count; i++)
		if (span_eq(source, walk->context->sources[i].source))
			return;
	struct advice_question question = {
		.source = source,
		.window_ms = walk->context->window_ms,
	};
	give(walk, &question, gap);
}

static void walk_sources(struct walk *walk)
{
	const struct why_context *context = walk->context;
	for (size_t i = 0; i < context->source_count; i++) {
		walk->question = &context->sources[i];
		walk->gap = NULL;
		if (context->log)
			trace_log_gaps(context->log, match_gap, walk);
		give(walk, walk->question, walk->gap);
	}
	if (context->log)
		trace_log_gaps(context->log, give_unknown, walk);
}

static void write_advice(struct walk *walk, const struct advice *advice)
{
	struct buf *out = walk->out;
	struct buf text = { .cap = 1024 };
	json_object_begin(out, NULL);
	json_add_text(out, "source", advice->source);
	json_add_string(out, "state", advice_state_name(advice->state));
	json_add_string(out, "trust", advice_trust_name(advice->trust));
	add_ms(out, "window", "window_ms", advice->window_ms);
	add_ms(out, "advised", "advised_ms", advice->advised_ms);
	add_ms(out, "retries", "retries_ms", advice->retries_ms);
	json_add_u64(out, "duplicates", advice->duplicates);
	json_add_u64(out, "after_the_window", advice->returns);
	json_object_begin(out, "gap_ms");
	json_add_u64(out, "half", advice->half_ms);
	json_add_u64(out, "most", advice->most_ms);
	json_add_u64(out, "highest", advice->highest_ms);
	json_object_end(out);
	advice_text(advice, &text);
	json_add_text(out, "advice", buf_span(&text));
	json_object_end(out);
	buf_free(&text);
}

uint16_t why_advise(const struct why_context *context, const struct why_question *question,
                    struct buf *out)
{
	struct walk walk = {
		.context = context,
		.only = span_of(question->source.bytes, question->source.len),
		.each = write_advice,
		.out = out,
	};
	if (question->about != WHY_ABOUT_NOTHING) {
		buf_clear(out);
		add(out, "advice is about a source: source=, or nothing for all");
		return 400;
	}
	json_object_begin(out, NULL);
	json_array_begin(out, "sources");
	walk_sources(&walk);
	json_array_end(out);
	json_object_end(out);
	add(out, "\n");
	if (!out->failed)
		return 200;
	buf_clear(out);
	add(out, "no memory for the answer now");
	return 503;
}

/* ---- metrics ---- */

/* Label values escape as Prometheus wants it; names of sources have no control
 * characters. */
static void label(struct buf *out, struct span source)
{
	add(out, "{source=\"");
	for (size_t i = 0; i < source.len; i++) {
		if (source.ptr[i] == '"' || source.ptr[i] == '\\')
			buf_append_char(out, '\\');
		buf_append_char(out, source.ptr[i] == '\n' ? ' ' : source.ptr[i]);
	}
	add(out, "\"} ");
}

static void seconds(struct buf *out, uint64_t ms)
{
	buf_printf(out, "%" PRIu64 ".%03" PRIu64 "\n", ms / 1000, ms % 1000);
}

static void head(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_too_short(struct walk *walk, const struct advice *advice)
{
	add(walk->out, "stile_window_too_short");
	label(walk->out, advice->source);
	add(walk->out, advice->state >= ADVICE_NEAR ? "1\n" : "0\n");
}

static void write_highest(struct walk *walk, const struct advice *advice)
{
	add(walk->out, "stile_duplicate_gap_max_seconds");
	label(walk->out, advice->source);
	seconds(walk->out, advice->highest_ms);
}

static void write_advised(struct walk *walk, const struct advice *advice)
{
	add(walk->out, "stile_window_advised_seconds");
	label(walk->out, advice->source);
	seconds(walk->out, advice->advised_ms);
}

static void write_returns(struct walk *walk, const struct advice *advice)
{
	add(walk->out, "stile_returned_after_window");
	label(walk->out, advice->source);
	buf_append_u64(walk->out, advice->returns);
	add(walk->out, "\n");
}

static void write_each(const struct why_context *context, struct buf *out,
                       void (*each)(struct walk *walk, const struct advice *advice))
{
	struct walk walk = { .context = context, .each = each, .out = out };
	walk_sources(&walk);
}

static void write_log(const struct why_context *context, struct buf *out)
{
	struct trace_stats stats;
	trace_log_stats(context->log, &stats);
	head(out, "stile_traces", "gauge", "Traces that can be asked for now.");
	buf_printf(out, "stile_traces %" PRIu64 "\n", stats.records);
	head(out, "stile_traces_bytes", "gauge", "Size of the trace files.");
	buf_printf(out, "stile_traces_bytes %" PRIu64 "\n", stats.disk_bytes);
	head(out, "stile_traces_lost_total", "counter",
	     "Traces that could not be kept: no memory, or the disk failed.");
	buf_printf(out, "stile_traces_lost_total %" PRIu64 "\n", stats.lost);
	head(out, "stile_traces_thinned_total", "counter",
	     "Suppressed events that left no trace because there were too many a second.");
	buf_printf(out, "stile_traces_thinned_total %" PRIu64 "\n", stats.thinned);
}

void why_metrics(const struct why_context *context, struct buf *out)
{
	head(out, "stile_window_too_short", "gauge",
	     "1 when duplicates arrive near or after the end of the window.");
	write_each(context, out, write_too_short);
	head(out, "stile_duplicate_gap_max_seconds", "gauge",
	     "The longest time between an original and its duplicate.");
	write_each(context, out, write_highest);
	head(out, "stile_window_advised_seconds", "gauge",
	     "The window that would be enough; 0 while there is nothing to go by.");
	write_each(context, out, write_advised);
	head(out, "stile_returned_after_window", "gauge",
	     "Events that came again after their window and passed, about.");
	write_each(context, out, write_returns);
	if (context->log)
		write_log(context, out);
}
