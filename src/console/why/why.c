/*
 * why: see why.h.
 *
 * Two passes. The first finds which originals a question concerns, the second
 * reads everything that is known of each. So a question about the id of a
 * duplicate also shows the original and its other duplicates, under whatever id
 * they came. Nothing is copied: the second pass writes as it reads.
 */
#include "console/why/why.h"

#include "codec/json_write.h"
#include "gate/ticket.h"

static struct span value_span(const struct why_value *value)
{
	return span_of(value->bytes, value->len);
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
	struct buf original; /* its members */
	struct buf list;     /* the elements of its repeats */
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

static const char *held_word(enum held_state state)
{
	static const char *const words[] = {
		[HELD_UNKNOWN] = NULL,
		[HELD_YES] = "held",
		[HELD_NO] = "let go",
	};
	return words[state];
}

static void add_keys(struct buf *out, const struct trace *trace)
{
	bool any = false;
	for (size_t i = 0; i < TRACE_KEYS_MAX; i++) {
		struct buf text = { .cap = 4 * TRACE_KEY_MAX };
		if (trace->keys[i].len == 0)
			continue;
		if (!any)
			json_array_begin(out, "keys");
		any = true;
		trace_key_text(trace->keys[i], &text);
		json_add_text(out, NULL, buf_span(&text));
		buf_fail(out, text.failed);
		buf_free(&text);
	}
	if (any)
		json_array_end(out);
}

static void add_reason(struct buf *out, const struct trace *trace)
{
	struct buf text = { .cap = 2048 };
	trace_reason(trace, &text);
	buf_fail(out, text.failed);
	json_add_text_if(out, "why", buf_span(&text));
	buf_free(&text);
}

/* What a conflict differs in from the event whose key it has, of the first few. */
static void add_difference(struct story *story, const struct trace *trace, struct buf *out)
{
	if (trace->verdict != VERDICT_CONFLICT || *story->context->compared >= WHY_DIFFERENCES_MAX)
		return;
	++*story->context->compared;
	why_difference(story->context, trace, out);
}

static void add_original(struct story *story, struct buf *out, const struct trace *trace)
{
	json_add_text_if(out, "source", trace->source);
	json_add_text_if(out, "id", trace->id);
	json_add_text_if(out, "type", trace->type);
	add_keys(out, trace);
	json_add_text_if(out, "peer", trace->peer);
	ticket_add(out, "repeat_of", trace->original);
	if (trace->flags & TRACE_REPLAY)
		json_add_bool(out, "replay", true);
	add_reason(out, trace);
	add_difference(story, trace, out);
}

static void add_repeat(struct story *story, struct buf *out, const struct trace *trace)
{
	const char *state = held_word(held_state(story->context, trace->ticket));
	char gap[GAP_DURATION_MAX];
	gap_duration_text(trace->gap_ms, gap);
	json_object_begin(out, NULL);
	json_add_time(out, "time", trace->time_ms);
	json_add_string(out, "verdict", verdict_name(trace->verdict));
	ticket_add(out, "ticket", trace->ticket);
	if (trace->flags & TRACE_ASIDE && state)
		json_add_string(out, "state", state);
	json_add_text_if(out, "source", trace->source);
	json_add_text_if(out, "id", trace->id);
	json_add_text_if(out, "type", trace->type);
	json_add_text_if(out, "claim", trace->rule);
	json_add_text_if(out, "parts", trace->parts);
	add_keys(out, trace);
	json_add_text_if(out, "peer", trace->peer);
	json_add_u64(out, "gap_ms", trace->gap_ms);
	json_add_string(out, "gap", gap);
	json_add_string(out, "content", trace_content_name(trace));
	json_add_bool(out, "shadow", trace->flags & TRACE_SHADOW);
	json_add_bool(out, "replay", trace->flags & TRACE_REPLAY);
	json_add_bool(out, "returned", trace->flags & TRACE_RETURNED);
	add_difference(story, trace, out);
	add_reason(out, trace);
	json_object_end(out);
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
	if (trace->ticket == story->ticket) {
		story->traced = true;
		story->aside = trace->flags & TRACE_ASIDE;
		buf_clear(&story->original);
		add_original(story, &story->original, trace);
		return 0;
	}
	if (trace->original != story->ticket)
		return 0;
	story->repeats++;
	bool asked = is_asked_for(story->question, trace);
	if (story->listed >= story->question->limit && (!asked || story->asked_listed))
		return 0;
	story->asked_listed |= asked;
	story->listed++;
	add_repeat(story, &story->list, trace);
	return 0;
}

static int tell_story(const struct why_context *context, const struct why_question *question,
                      uint64_t ticket, struct buf *out)
{
	struct story story = { .context = context,
		               .question = question,
		               .ticket = ticket,
		               .original = { .cap = out->cap },
		               .list = { .cap = out->cap } };
	struct trace_query query = { .ticket = ticket };
	int r = trace_log_find(context->log, &query, tell_trace, &story);
	buf_fail(out, story.original.failed);
	buf_fail(out, story.list.failed);
	enum held_state state = held_state(context, ticket);
	if (state == HELD_NO && !story.aside) /* it never was held */
		state = HELD_UNKNOWN;
	json_object_begin(out, NULL);
	ticket_add(out, "ticket", ticket);
	json_add_time(out, "seen", ticket_time_ms(ticket));
	json_add_bool(out, "traced", story.traced);
	if (state != HELD_UNKNOWN)
		json_add_string(out, "state", held_word(state));
	json_add_raw(out, NULL, buf_span(&story.original));
	json_add_u64(out, "repeats_found", story.repeats);
	json_array_begin(out, "repeats");
	json_add_raw(out, NULL, buf_span(&story.list));
	json_array_end(out);
	json_object_end(out);
	buf_free(&story.original);
	buf_free(&story.list);
	return r;
}

static uint16_t refuse(struct buf *out, uint16_t status, const char *text)
{
	buf_clear(out);
	buf_append_span(out, span_str(text));
	return status;
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
		bool wanted = r > 0;
		if (wanted)
			r = tell_story(context, question, held->tickets[i], out);
		if (r < 0)
			return r;
		found += wanted;
	}
	*ret_found = found;
	*ret_next = i > 0 && (i < held->count || !held->all) ? held->tickets[i - 1] : 0;
	return 0;
}

static uint16_t answer_held(const struct why_context *context, const struct why_question *question,
                            struct buf *out)
{
	uint32_t found = 0;
	uint64_t next = 0;
	if (!context->held.known)
		return refuse(out, 503, "what is kept aside is not known now; ask again");
	json_object_begin(out, NULL);
	json_object_begin(out, "question");
	json_add_bool(out, "held", true);
	json_object_end(out);
	json_array_begin(out, "originals");
	if (tell_held(context, question, out, &found, &next) < 0)
		return refuse(out, 503, "the traces are busy; ask again");
	json_array_end(out);
	json_add_u64(out, "found", found);
	ticket_add(out, "next", next);
	json_object_end(out);
	return 200;
}

/* ---- one event ---- */

static void add_traces(const struct trace_log *log, struct buf *out)
{
	struct trace_stats stats;
	trace_log_stats(log, &stats);
	json_object_begin(out, "traces");
	json_add_u64(out, "records", stats.records);
	if (stats.oldest_ms > 0)
		json_add_time(out, "oldest", stats.oldest_ms);
	json_add_u64(out, "one_in_new", UINT64_C(1) << stats.new_sample);
	json_add_u64(out, "one_in_suppressed", UINT64_C(1) << stats.suppressed_sample);
	json_add_u64(out, "lost", stats.lost);
	json_object_end(out);
}

static uint16_t answer_event(const struct why_context *context, const struct why_question *question,
                             struct buf *out)
{
	static const char *const names[] = {
		[WHY_ABOUT_ID] = "id",
		[WHY_ABOUT_TICKET] = "ticket",
		[WHY_ABOUT_KEY] = "key",
		[WHY_ABOUT_ANY] = "any",
	};
	struct originals originals = { .count = 0 };
	int r = find_originals(context, question, &originals);
	json_object_begin(out, NULL);
	json_object_begin(out, "question");
	json_add_text(out, names[question->about], value_span(&question->value));
	json_add_text_if(out, "source", value_span(&question->source));
	json_object_end(out);
	json_add_u64(out, "found", originals.count);
	json_array_begin(out, "originals");
	for (uint32_t i = 0; i < originals.count && r >= 0; i++)
		r = tell_story(context, question, originals.tickets[i], out);
	if (r < 0)
		return refuse(out, 503, "the traces are busy; ask again");
	json_array_end(out);
	add_traces(context->log, out);
	json_object_end(out);
	return 200;
}

uint16_t why_answer(const struct why_context *asked, const struct why_question *question,
                    struct buf *out)
{
	struct why_context context = *asked;
	uint32_t compared = 0;
	context.compared = &compared;
	if (question->about == WHY_ABOUT_NOTHING)
		return refuse(
			out, 400,
			"ask for an event: id=, ticket=, key= or any=; or for all kept aside: held=1");
	if (!context.log)
		return refuse(out, 503, "no traces are kept");
	bool held = question->about == WHY_ABOUT_HELD;
	uint16_t status = (held ? answer_held : answer_event)(&context, question, out);
	if (status != 200)
		return status;
	buf_append_char(out, '\n');
	return out->failed ? refuse(out, 503, "the answer is too long; ask with a limit") : 200;
}
