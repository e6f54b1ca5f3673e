/* why_advise: advice and metrics about windows. See why.h. */
#include <inttypes.h>

#include "base/text.h"
#include "codec/json_write.h"
#include "console/why/why.h"

static void add_ms(struct buf *out, const char *name, const char *name_ms, uint64_t ms)
{
	char text[TEXT_DURATION_MAX];
	if (ms == 0)
		return;
	text_duration(text, ms);
	json_add_string(out, name, text);
	json_add_u64(out, name_ms, ms);
}

/* ---- every source: those of the configuration, then those that only have traces ---- */

struct walk {
	const struct why_context *context;
	struct span only; /* empty: all */
	void (*each)(struct walk *walk, const struct advice *advice);
	struct buf *out;
	const struct advice_question *question; /* whose gaps are searched */
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
		buf_append_span(
			out, SPAN("unknown parameter: expected source=, or none for all sources"));
		return 400;
	}
	json_object_begin(out, NULL);
	json_array_begin(out, "sources");
	walk_sources(&walk);
	json_array_end(out);
	json_object_end(out);
	buf_append_char(out, '\n');
	if (!out->failed)
		return 200;
	buf_clear(out);
	buf_append_span(out, SPAN("out of memory for the answer; try again"));
	return 503;
}

/* ---- metrics ---- */

/* Label values are escaped as Prometheus requires; names of sources have no control
 * characters. */
static void put_sample(struct buf *out, const char *name, struct span source)
{
	buf_printf(out, "%s{source=\"", name);
	for (size_t i = 0; i < source.len; i++) {
		if (source.ptr[i] == '"' || source.ptr[i] == '\\')
			buf_append_char(out, '\\');
		buf_append_char(out, source.ptr[i] == '\n' ? ' ' : source.ptr[i]);
	}
	buf_append_span(out, SPAN("\"} "));
}

static void put_head(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_seconds(struct buf *out, uint64_t ms)
{
	buf_printf(out, "%" PRIu64 ".%03" PRIu64 "\n", ms / 1000, ms % 1000);
}

static void write_too_short(struct walk *walk, const struct advice *advice)
{
	put_sample(walk->out, "stile_window_too_short", advice->source);
	buf_printf(walk->out, "%d\n", advice->state >= ADVICE_NEAR);
}

static void write_highest(struct walk *walk, const struct advice *advice)
{
	put_sample(walk->out, "stile_duplicate_gap_max_seconds", advice->source);
	put_seconds(walk->out, advice->highest_ms);
}

static void write_advised(struct walk *walk, const struct advice *advice)
{
	put_sample(walk->out, "stile_window_advised_seconds", advice->source);
	put_seconds(walk->out, advice->advised_ms);
}

static void write_returns(struct walk *walk, const struct advice *advice)
{
	put_sample(walk->out, "stile_returned_after_window", advice->source);
	buf_printf(walk->out, "%" PRIu64 "\n", advice->returns);
}

void why_metrics(const struct why_context *context, struct buf *out)
{
	static const struct {
		const char *name, *help;
		void (*each)(struct walk *walk, const struct advice *advice);
	} gauges[] = {
		{ "stile_window_too_short",
		  "1 when duplicates arrive near or after the end of the window.",
		  write_too_short },
		{ "stile_duplicate_gap_max_seconds",
		  "The longest time between an original and its duplicate.", write_highest },
		{ "stile_window_advised_seconds",
		  "The window that would be enough; 0 while there is nothing to go by.",
		  write_advised },
		{ "stile_returned_after_window",
		  "Events that came again after their window and passed, about.", write_returns },
	};
	for (size_t i = 0; i < ARRAY_LEN(gauges); i++) {
		struct walk walk = { .context = context, .each = gauges[i].each, .out = out };
		put_head(out, gauges[i].name, "gauge", gauges[i].help);
		walk_sources(&walk);
	}
	if (!context->log)
		return;
	struct trace_stats stats;
	trace_log_stats(context->log, &stats);
	const struct {
		const char *name, *type, *help;
		uint64_t value;
	} numbers[] = {
		{ "stile_traces", "gauge", "Traces that can be asked for now.", stats.records },
		{ "stile_traces_bytes", "gauge", "Size of the trace files.", stats.disk_bytes },
		{ "stile_traces_lost_total", "counter",
		  "Traces that could not be kept: no memory, or the disk failed.", stats.lost },
		{ "stile_traces_thinned_total", "counter",
		  "Suppressed events that left no trace because there were too many a second.",
		  stats.thinned },
	};
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		put_head(out, numbers[i].name, numbers[i].type, numbers[i].help);
		buf_printf(out, "%s %" PRIu64 "\n", numbers[i].name, numbers[i].value);
	}
}
