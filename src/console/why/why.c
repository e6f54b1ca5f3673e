/*
 * why: see why.h.
 *
 * Two passes. The first finds which originals a question concerns, the second
 * reads everything that is known of each. So a question about the id of a
 * duplicate also shows the original and its other duplicates, under whatever id
 * they came. Nothing is copied: the second pass writes as it reads.
 */
#include "console/why/why.h"

#include "base/text.h"
#include "gate/ticket.h"

static struct span value_span(const struct why_value *value)
{
	return span_of(value->bytes, value->len);
}

static void add(struct buf *out, const char *text)
{
	buf_append_span(out, span_str(text));
}

static void add_time(struct buf *out, uint64_t unix_ms)
{
	char text[TEXT_TIME_LEN];
	text_time(text, unix_ms);
	buf_append(out, text, sizeof(text));
}

static void add_ticket(struct buf *out, uint64_t ticket)
{
	char text[TICKET_TEXT_LEN];
	ticket_text(ticket, text);
	buf_append(out, text, sizeof(text));
}

void why_plain(struct buf *out, struct span text)
{
	struct buf quoted = { .cap = 8192 };
	buf_append_json(&quoted, text);
	buf_fail(out, quoted.failed);
	if (!quoted.failed)
		buf_append(out, quoted.ptr + 1, quoted.len - 2);
	buf_free(&quoted);
}

/* ---- first pass: which originals ---- */

struct originals {
	uint64_t tickets[WHY_ORIGINALS_MAX];
	uint32_t count;
};

static void note_original(struct originals *originals, uint64_t ticket)
{
	if (ticket == 0 || originals->count == WHY_ORIGINALS_MAX)
		return;
	for (uint32_t i = 0; i < originals->count; i++)
		if (originals->tickets[i] == ticket)
			return;
	originals->tickets[originals->count++] = ticket;
}

static int found_trace(void *user, const struct trace *trace)
{
	struct originals *originals = user;
	note_original(originals, trace->original);
	/* What passed has a story of its own. */
	if (trace->verdict == VERDICT_NEW || trace->original == 0)
		note_original(originals, trace->ticket);
	return originals->count == WHY_ORIGINALS_MAX;
}

static int find(const struct why_context *context, const struct why_question *question,
                struct trace_query query, struct originals *originals)
{
	query.source = value_span(&question->source);
	return trace_log_find(context->log, &query, found_trace, originals);
}

/* A key is shown with ", " between its parts and may be asked for like that. */
static int find_key(const struct why_context *context, const struct why_question *question,
                    struct originals *originals)
{
	char joined[WHY_TEXT_MAX];
	struct span key = value_span(&question->value);
	size_t len = 0;
	int r = find(context, question, (struct trace_query){ .key = key }, originals);
	if (r != 0)
		return r;
	for (size_t i = 0; i < key.len; i++) {
		bool comma = key.ptr[i] == ',';
		joined[len++] = comma ? TRACE_PART_END : key.ptr[i];
		if (comma && i + 1 < key.len && key.ptr[i + 1] == ' ')
			i++;
	}
	return find(context, question, (struct trace_query){ .key = span_of(joined, len) },
	            originals);
}

static int find_ticket(const struct why_context *context, const struct why_question *question,
                       struct originals *originals)
{
	uint64_t ticket = 0;
	if (!ticket_parse(value_span(&question->value), &ticket))
		return 0;
	/* Only this one, whatever else its traces name. */
	struct originals others = { .count = 0 };
	int r = find(context, question, (struct trace_query){ .ticket = ticket }, &others);
	if (r > 0)
		note_original(originals, ticket);
	return r;
}

static int find_originals(const struct why_context *context, const struct why_question *question,
                          struct originals *originals)
{
	enum why_about about = question->about;
	int r = 0;
	if (about == WHY_ABOUT_ID || about == WHY_ABOUT_ANY)
		r = find(context, question,
		         (struct trace_query){ .id = value_span(&question->value) }, originals);
	if (r == 0 && (about == WHY_ABOUT_TICKET || about == WHY_ABOUT_ANY))
		r = find_ticket(context, question, originals);
	if (r == 0 && (about == WHY_ABOUT_KEY || about == WHY_ABOUT_ANY))
		r = find_key(context, question, originals);
	return r;
}

/* ---- second pass: the story of one original ---- */

struct story {
	const struct why_context *context;
	const struct why_question *question;
	uint64_t ticket;
	bool traced;         /* there is a trace of the original itself … */
	bool aside;          /* … and it was kept aside */
	uint32_t repeats;    /* found */
	uint32_t listed;     /* of these */
	bool asked_listed;   /* with one that was asked for by its id */
	struct buf original; /* its fields */
	struct buf list;
};

enum held_state { HELD_UNKNOWN = 0, HELD_YES, HELD_NO };

static enum held_state held_state(const struct why_context *context, uint64_t ticket)
{
	const struct why_held *held = &context->held;
	for (uint32_t i = 0; i < held->count; i++)
		if (held->tickets[i] == ticket)
			return HELD_YES;
	bool listed = held->all || (held->count > 0 && ticket > held->tickets[held->count - 1]);
	return held->known && listed ? HELD_NO : HELD_UNKNOWN;
}

static void text_release(struct buf *out, enum held_state state, uint64_t ticket)
{
	if (state == HELD_NO) {
		add(out, "released or dropped\n");
		return;
	}
	add(out, "held: stile release ");
	add_ticket(out, ticket);
	add(out, " delivers it, stile release --drop ");
	add_ticket(out, ticket);
	add(out, " forgets it\n");
}

static const char *held_word(enum held_state state)
{
	static const char *const words[] = {
		[HELD_UNKNOWN] = NULL,
		[HELD_YES] = "held",
		[HELD_NO] = "let go",
	};
	return words[state];
}

static void json_text(struct buf *out, const char *name, struct span value)
{
	if (value.len == 0)
		return;
	buf_printf(out, ",\"%s\":", name);
	buf_append_json(out, value);
}

static void json_keys(struct buf *out, const struct trace *trace)
{
	bool any = false;
	for (size_t i = 0; i < TRACE_KEYS_MAX; i++) {
		struct buf text = { .cap = 4 * TRACE_KEY_MAX };
		if (trace->keys[i].len == 0)
			continue;
		trace_key_text(trace->keys[i], &text);
		add(out, any ? "," : ",\"keys\":[");
		buf_append_json(out, buf_span(&text));
		buf_fail(out, text.failed);
		buf_free(&text);
		any = true;
	}
	if (any)
		add(out, "]");
}

static void json_reason(struct buf *out, const struct trace *trace)
{
	struct buf text = { .cap = 2048 };
	trace_reason(trace, &text);
	buf_fail(out, text.failed);
	json_text(out, "why", buf_span(&text));
	buf_free(&text);
}

/* What a conflict differs in from the event whose key it has, of the first few. */
static void add_difference(struct story *story, const struct trace *trace, struct buf *out)
{
	enum why_form form = story->question->form;
	struct buf words = { .cap = out->cap };
	if (trace->verdict != VERDICT_CONFLICT || *story->context->compared >= WHY_DIFFERENCES_MAX)
		return;
	++*story->context->compared;
	why_difference(story->context, trace, form, &words);
	if (words.len > 0 && form == WHY_TEXT)
		add(out, "      ");
	buf_append_span(out, buf_span(&words));
	if (words.len > 0 && form == WHY_TEXT)
		add(out, "\n");
	buf_fail(out, words.failed);
	buf_free(&words);
}

static void json_original(struct buf *out, const struct trace *trace)
{
	json_text(out, "source", trace->source);
	json_text(out, "id", trace->id);
	json_text(out, "type", trace->type);
	json_keys(out, trace);
	json_text(out, "peer", trace->peer);
	json_reason(out, trace);
}

static void json_repeat(struct story *story, struct buf *out, const struct trace *trace)
{
	const struct why_context *context = story->context;
	char gap[GAP_DURATION_MAX];
	add(out, "{\"time\":\"");
	add_time(out, trace->time_ms);
	buf_printf(out, "\",\"verdict\":\"%s\"", verdict_name(trace->verdict));
	if (trace->ticket != 0) {
		add(out, ",\"ticket\":\"");
		add_ticket(out, trace->ticket);
		add(out, "\"");
	}
	if (trace->flags & TRACE_ASIDE)
		json_text(out, "state", span_str(held_word(held_state(context, trace->ticket))));
	json_text(out, "source", trace->source);
	json_text(out, "id", trace->id);
	json_text(out, "type", trace->type);
	json_text(out, "claim", trace->rule);
	json_text(out, "parts", trace->parts);
	json_keys(out, trace);
	json_text(out, "peer", trace->peer);
	gap_duration_text(trace->gap_ms, gap);
	buf_printf(out, ",\"gap_ms\":%llu,\"gap\":\"%s\",\"content\":\"%s\"",
	           (unsigned long long)trace->gap_ms, gap, trace_content_name(trace));
	buf_printf(out, ",\"shadow\":%s,\"replay\":%s,\"returned\":%s",
	           trace->flags & TRACE_SHADOW ? "true" : "false",
	           trace->flags & TRACE_REPLAY ? "true" : "false",
	           trace->flags & TRACE_RETURNED ? "true" : "false");
	add_difference(story, trace, out);
	json_reason(out, trace);
	add(out, "}");
}

static void text_line(struct buf *out, const char *name, struct span value)
{
	if (value.len == 0)
		return;
	buf_printf(out, "  %-8s ", name);
	why_plain(out, value);
	add(out, "\n");
}

static void text_original(struct buf *out, const struct trace *trace)
{
	text_line(out, "source", trace->source);
	text_line(out, "id", trace->id);
	text_line(out, "type", trace->type);
	for (size_t i = 0; i < TRACE_KEYS_MAX; i++) {
		struct buf text = { .cap = 4 * TRACE_KEY_MAX };
		trace_key_text(trace->keys[i], &text);
		text_line(out, "key", buf_span(&text));
		buf_free(&text);
	}
	text_line(out, "from", trace->peer);
	if (trace->original != 0 || trace->flags & TRACE_REPLAY) {
		struct buf text = { .cap = 2048 };
		trace_reason(trace, &text);
		text_line(out, "note", buf_span(&text));
		buf_free(&text);
	}
}

static void text_repeat(struct story *story, struct buf *out, const struct trace *trace)
{
	struct buf text = { .cap = 2048 };
	add(out, "  ");
	add_time(out, trace->time_ms);
	add(out, "  ");
	why_plain(out, trace->id.len > 0 ? trace->id : SPAN("(no id)"));
	add(out, "\n      ");
	trace_reason(trace, &text);
	why_plain(out, buf_span(&text));
	add(out, "\n");
	buf_free(&text);
	add_difference(story, trace, out);
	enum held_state state = held_state(story->context, trace->ticket);
	if (trace->flags & TRACE_ASIDE && state != HELD_UNKNOWN) {
		add(out, "      ");
		text_release(out, state, trace->ticket);
	}
}

/* One of what was asked for is listed however many others there are. */
static bool is_asked_for(const struct why_question *question, const struct trace *trace)
{
	return question->about != WHY_ABOUT_TICKET &&
	       span_eq(trace->id, value_span(&question->value));
}

static int tell_trace(void *user, const struct trace *trace)
{
	struct story *story = user;
	bool text = story->question->form == WHY_TEXT;
	if (trace->ticket == story->ticket) {
		story->traced = true;
		story->aside = trace->flags & TRACE_ASIDE;
		buf_clear(&story->original);
		(text ? text_original : json_original)(&story->original, trace);
		add_difference(story, trace, &story->original);
		return 0;
	}
	if (trace->original != story->ticket)
		return 0;
	story->repeats++;
	bool asked = is_asked_for(story->question, trace);
	if (story->listed >= story->question->limit && (!asked || story->asked_listed))
		return 0;
	story->asked_listed |= asked;
	if (story->listed++ > 0 && !text)
		add(&story->list, ",");
	(text ? text_repeat : json_repeat)(story, &story->list, trace);
	return 0;
}

/* Of a ticket that never was held there is nothing to say. */
static enum held_state state_of(const struct story *story)
{
	enum held_state state = held_state(story->context, story->ticket);
	return state == HELD_NO && !story->aside ? HELD_UNKNOWN : state;
}

static void json_story(const struct story *story, struct buf *out)
{
	add(out, "{\"ticket\":\"");
	add_ticket(out, story->ticket);
	add(out, "\",\"seen\":\"");
	add_time(out, ticket_time_ms(story->ticket));
	buf_printf(out, "\",\"traced\":%s", story->traced ? "true" : "false");
	json_text(out, "state", span_str(held_word(state_of(story))));
	buf_append_span(out, buf_span(&story->original));
	buf_printf(out, ",\"repeats_found\":%u,\"repeats\":[", story->repeats);
	buf_append_span(out, buf_span(&story->list));
	add(out, "]}");
}

static void text_story(const struct story *story, struct buf *out)
{
	add(out, "ticket ");
	add_ticket(out, story->ticket);
	add(out, ", first seen ");
	add_time(out, ticket_time_ms(story->ticket));
	add(out, "\n");
	enum held_state state = state_of(story);
	if (state != HELD_UNKNOWN) {
		add(out, "  state    ");
		text_release(out, state, story->ticket);
	}
	buf_append_span(out, buf_span(&story->original));
	if (!story->traced)
		add(out, "  its own trace is gone, or was never kept\n");
	if (story->repeats == 0)
		add(out, "  nothing like it came again\n");
	else
		buf_printf(out, "  the same came again %u time%s%s\n", story->repeats,
		           story->repeats == 1 ? "" : "s",
		           story->listed < story->repeats ? ", the newest:" : ":");
	buf_append_span(out, buf_span(&story->list));
}

static int tell_story(struct story *story, struct buf *out)
{
	struct trace_query query = { .ticket = story->ticket };
	story->original.cap = story->list.cap = out->cap;
	int r = trace_log_find(story->context->log, &query, tell_trace, story);
	buf_fail(out, story->original.failed);
	buf_fail(out, story->list.failed);
	if (r >= 0)
		(story->question->form == WHY_TEXT ? text_story : json_story)(story, out);
	buf_free(&story->original);
	buf_free(&story->list);
	return r;
}

/* ---- around the stories ---- */

static void json_question(const struct why_question *question, struct buf *out)
{
	static const char *const names[] = {
		[WHY_ABOUT_ID] = "id",   [WHY_ABOUT_TICKET] = "ticket", [WHY_ABOUT_KEY] = "key",
		[WHY_ABOUT_ANY] = "any", [WHY_ABOUT_HELD] = "held",
	};
	buf_printf(out, "{\"question\":{\"%s\":", names[question->about]);
	buf_append_json(out, value_span(&question->value));
	json_text(out, "source", value_span(&question->source));
	add(out, "}");
}

static void json_traces(const struct trace_stats *stats, struct buf *out)
{
	buf_printf(out, "\"traces\":{\"records\":%llu,", (unsigned long long)stats->records);
	if (stats->oldest_ms > 0) {
		add(out, "\"oldest\":\"");
		add_time(out, stats->oldest_ms);
		add(out, "\",");
	}
	buf_printf(out, "\"one_in_new\":%llu,\"one_in_suppressed\":%llu,\"lost\":%llu}}\n",
	           1ULL << stats->new_sample, 1ULL << stats->suppressed_sample,
	           (unsigned long long)stats->lost);
}

static void text_nothing(const struct why_question *question, const struct trace_stats *stats,
                         struct buf *out)
{
	add(out, "no trace of ");
	buf_append_json(out, value_span(&question->value));
	if (stats->records == 0) {
		add(out, "; there are no traces at all\n");
		return;
	}
	buf_printf(out, " among %llu; the oldest is of ", (unsigned long long)stats->records);
	add_time(out, stats->oldest_ms);
	add(out, "\n");
	if (stats->new_sample > 0)
		buf_printf(out, "of events that pass, one in %llu leaves a trace now\n",
		           1ULL << stats->new_sample);
}

static uint16_t refuse(struct buf *out, uint16_t status, const char *text)
{
	buf_clear(out);
	add(out, text);
	return status;
}

static int tell_one(const struct why_context *context, const struct why_question *question,
                    uint64_t ticket, bool first, struct buf *out)
{
	struct story story = { .context = context, .question = question, .ticket = ticket };
	if (!first)
		add(out, question->form == WHY_TEXT ? "\n" : ",");
	return tell_story(&story, out);
}

static int tell_all(const struct why_context *context, const struct why_question *question,
                    const struct originals *originals, struct buf *out)
{
	int r = 0;
	for (uint32_t i = 0; i < originals->count && r >= 0; i++)
		r = tell_one(context, question, originals->tickets[i], i == 0, out);
	return r;
}

/* ---- what is kept aside ---- */

struct own_trace {
	uint64_t ticket;
	int found;
};

static int find_own(void *user, const struct trace *trace)
{
	struct own_trace *own = user;
	own->found = trace->ticket == own->ticket;
	return own->found;
}

/* 1: it is of the source that was asked for, or all were; 0: not; or an error. A
 * copy of it may have come by another source. */
static int is_wanted(const struct why_context *context, const struct why_question *question,
                     uint64_t ticket)
{
	struct trace_query query = { .ticket = ticket, .source = value_span(&question->source) };
	struct own_trace own = { .ticket = ticket };
	if (query.source.len == 0)
		return 1;
	int r = trace_log_find(context->log, &query, find_own, &own);
	return r < 0 ? r : own.found;
}

/* Stories up to the limit; `ret_next` is where more begin, or 0. */
static int tell_held(const struct why_context *context, const struct why_question *question,
                     struct buf *out, uint32_t *ret_found, uint64_t *ret_next)
{
	const struct why_held *held = &context->held;
	uint32_t found = 0;
	uint32_t i = 0;
	for (; i < held->count && i < WHY_HELD_MAX && found < question->limit; i++) {
		int r = is_wanted(context, question, held->tickets[i]);
		if (r > 0)
			r = tell_one(context, question, held->tickets[i], found++ == 0, out);
		if (r < 0)
			return r;
	}
	*ret_found = found;
	*ret_next = i > 0 && (i < held->count || !held->all) ? held->tickets[i - 1] : 0;
	return 0;
}

static void text_next(uint32_t found, uint64_t next, struct buf *out)
{
	if (found == 0)
		add(out, next == 0 ? "nothing is kept aside\n" : "nothing of this source so far\n");
	if (next == 0)
		return;
	add(out,
	    found > 0 ? "\nmore: stile why --held --before " : "more: stile why --held --before ");
	add_ticket(out, next);
	add(out, "\n");
}

static uint16_t answer_held(const struct why_context *context, const struct why_question *question,
                            struct buf *out)
{
	bool text = question->form == WHY_TEXT;
	uint32_t found = 0;
	uint64_t next = 0;
	if (!context->held.known)
		return refuse(out, 503, "what is kept aside is not known now; ask again");
	if (!text)
		add(out, "{\"question\":{\"held\":true},\"originals\":[");
	if (tell_held(context, question, out, &found, &next) < 0)
		return refuse(out, 503, "the traces are busy; ask again");
	if (text) {
		text_next(found, next, out);
	} else {
		buf_printf(out, "],\"found\":%u", found);
		if (next != 0) {
			add(out, ",\"next\":\"");
			add_ticket(out, next);
			add(out, "\"");
		}
		add(out, "}\n");
	}
	return out->failed ? refuse(out, 503, "the answer is too long; ask with a limit") : 200;
}

uint16_t why_answer(const struct why_context *asked, const struct why_question *question,
                    struct buf *out)
{
	struct why_context own = *asked;
	const struct why_context *context = &own;
	uint32_t compared = 0;
	own.compared = &compared;
	struct originals originals = { .count = 0 };
	struct trace_stats stats;
	if (question->about == WHY_ABOUT_NOTHING)
		return refuse(
			out, 400,
			"ask for an event: id=, ticket=, key= or any=; or for all kept aside: held=1");
	if (!context->log)
		return refuse(out, 503, "no traces are kept");
	if (question->about == WHY_ABOUT_HELD)
		return answer_held(context, question, out);
	bool text = question->form == WHY_TEXT;
	int r = find_originals(context, question, &originals);
	trace_log_stats(context->log, &stats);
	if (r >= 0 && !text) {
		json_question(question, out);
		buf_printf(out, ",\"found\":%u,\"originals\":[", originals.count);
	}
	if (r >= 0)
		r = tell_all(context, question, &originals, out);
	if (r < 0)
		return refuse(out, 503, "the traces are busy; ask again");
	if (!text) {
		add(out, "],");
		json_traces(&stats, out);
	} else if (originals.count == 0) {
		text_nothing(question, &stats, out);
	}
	return out->failed ? refuse(out, 503, "the answer is too long; ask with a limit") : 200;
}
