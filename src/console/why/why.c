/*
 * why: see why.h. The question, then the answer.
 *
 * An answer takes two passes over the traces. The first finds which originals a question
 * concerns, the second reads everything that is known of each. So a question about the id
 * of a duplicate also shows the original and its other duplicates, whatever their ids.
 * Nothing is copied: the second pass writes as it reads.
 */
#include "console/why/why.h"

#include "base/text.h"
#include "codec/json_diff.h"
#include "codec/json_write.h"
#include "codec/url.h"
#include "gate/ticket.h"

#define STORIES_MAX WHY_HELD_MAX
_Static_assert(WHY_ORIGINALS_MAX <= STORIES_MAX && STORIES_MAX <= TRACE_TERMS_MAX,
               "one pass is enough");

static struct span value_span(const struct why_value *value)
{
	return span_of(value->bytes, value->len);
}

/* ---- the question ---- */

static const char *const about_names[] = {
	[WHY_ABOUT_ID] = "id",   [WHY_ABOUT_TICKET] = "ticket", [WHY_ABOUT_KEY] = "key",
	[WHY_ABOUT_ANY] = "any", [WHY_ABOUT_HELD] = "held",
};

static int set_parameter(struct why_question *question, struct span name,
                         const struct why_value *value, struct error_text *ret_text)
{
	struct span text = value_span(value);
	uint64_t limit = 0;
	for (size_t i = WHY_ABOUT_ID; i < ARRAY_LEN(about_names); i++) {
		if (!span_eq(name, span_str(about_names[i])))
			continue;
		if (question->about != WHY_ABOUT_NOTHING)
			return error_fill(ret_text, ERR_INVALID,
			                  "ask for one of id, ticket, key, any and held, once");
		if (i == WHY_ABOUT_HELD && !span_eq(text, SPAN("1")))
			return error_fill(ret_text, ERR_INVALID, "held is 1");
		question->about = (enum why_about)i;
		question->value = *value;
		return 0;
	}
	if (span_eq(name, SPAN("before"))) {
		if (!ticket_parse(text, &question->before))
			return error_fill(ret_text, ERR_INVALID,
			                  "before is a ticket, 11 letters and digits");
	} else if (span_eq(name, SPAN("limit"))) {
		if (text_parse_u64(text, &limit) < 0 || limit < 1 || limit > WHY_LIMIT_MAX)
			return error_fill(ret_text, ERR_INVALID, "limit is a number from 1 to %u",
			                  WHY_LIMIT_MAX);
		question->limit = (uint32_t)limit;
	} else if (span_eq(name, SPAN("format"))) {
		if (!span_eq(text, SPAN("json")))
			return error_fill(
				ret_text, ERR_INVALID,
				"format: expected json; the commands stile why and stile advise print text");
	} else {
		CHECK(span_eq(name, SPAN("source")));
		question->source = *value;
	}
	return 0;
}

/* Takes the parameter of this name, if it is there. */
static int read_parameter(struct why_question *question, struct span query, struct span name,
                          struct error_text *ret_text)
{
	struct span raw = SPAN_EMPTY;
	struct why_value value = { .len = 0 };
	if (url_param_find(query, name, &raw) == 0)
		return 0;
	size_t len = 0;
	int r = url_form_decode(raw, value.bytes, sizeof(value.bytes), &len);
	if (r == ERR_TOO_LARGE)
		return error_fill(ret_text, r, "a value is longer than %u bytes", WHY_TEXT_MAX);
	if (r < 0)
		return error_fill(ret_text, r, "a %% is not followed by two digits");
	value.len = (uint32_t)len;
	if (len == 0)
		return error_fill(ret_text, ERR_INVALID, "%.*s is empty", (int)name.len, name.ptr);
	return set_parameter(question, name, &value, ret_text);
}

int why_question_parse(struct span query, struct why_question *ret_question,
                       struct error_text *ret_text)
{
	struct why_question question = { .limit = WHY_LIMIT };
	struct span names = SPAN(WHY_PARAMETERS);
	int r = query_check(query, WHY_PARAMETERS, ret_text);
	while (r == 0 && names.len > 0)
		r = read_parameter(&question, query, span_cut_item(&names, ' '), ret_text);
	if (r == 0 && question.before != 0 && question.about != WHY_ABOUT_HELD)
		r = error_fill(ret_text, ERR_INVALID, "before goes with held=1");
	if (r == 0)
		*ret_question = question;
	return r;
}

/* ---- first pass: which originals ---- */

struct originals {
	uint64_t tickets[WHY_ORIGINALS_MAX];
	uint32_t count;
};

/* The ways to read the value of a question, the preferred first. */
enum way { BY_ID, BY_TICKET, BY_KEY, BY_JOINED_KEY, WAYS };

struct first_pass {
	enum way ways[WAYS]; /* of the terms of the query */
	uint64_t ticket;     /* the value as a ticket */
	struct originals originals[WAYS];
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

static int found_trace(void *user, uint32_t term, const struct trace *trace)
{
	struct first_pass *pass = user;
	enum way way = pass->ways[term];
	struct originals *originals = &pass->originals[way];
	if (way == BY_TICKET) {
		/* Only this one, whatever other tickets its traces name. */
		note_original(originals, pass->ticket);
		return pass->ways[0] == BY_TICKET;
	}
	note_original(originals, trace->original);
	/* An event that passed is an original itself. */
	if (trace->verdict == VERDICT_NEW || trace->original == 0)
		note_original(originals, trace->ticket);
	return term == 0 && originals->count == WHY_ORIGINALS_MAX;
}

/* A key is shown with ", " between its parts; questions may use that form. */
static struct span join_key(struct span key, char ret_joined[static WHY_TEXT_MAX])
{
	size_t len = 0;
	for (size_t i = 0; i < key.len; i++) {
		bool comma = key.ptr[i] == ',';
		ret_joined[len++] = comma ? TRACE_PART_END : key.ptr[i];
		if (comma && i + 1 < key.len && key.ptr[i + 1] == ' ')
			i++;
	}
	return span_of(ret_joined, len);
}

static int find_originals(const struct why_context *context, const struct why_question *question,
                          struct originals *ret_originals)
{
	struct first_pass pass = { .ticket = 0 };
	struct trace_term terms[WAYS];
	struct trace_query query = { .terms = terms, .source = value_span(&question->source) };
	struct span value = value_span(&question->value);
	char joined[WHY_TEXT_MAX];
	enum why_about about = question->about;
	bool any = about == WHY_ABOUT_ANY;
	if (about == WHY_ABOUT_ID || any) {
		pass.ways[query.term_count] = BY_ID;
		terms[query.term_count++] = (struct trace_term){ TRACE_TERM_ID, value, 0 };
	}
	if ((about == WHY_ABOUT_TICKET || any) && ticket_parse(value, &pass.ticket)) {
		pass.ways[query.term_count] = BY_TICKET;
		terms[query.term_count++] = (struct trace_term){ TRACE_TERM_TICKET,
			                                         .ticket = pass.ticket };
	}
	if (about == WHY_ABOUT_KEY || any) {
		pass.ways[query.term_count] = BY_KEY;
		terms[query.term_count++] = (struct trace_term){ TRACE_TERM_KEY, value, 0 };
		pass.ways[query.term_count] = BY_JOINED_KEY;
		terms[query.term_count++] = (struct trace_term){ TRACE_TERM_KEY,
			                                         join_key(value, joined), 0 };
	}
	if (query.term_count == 0)
		return 0;
	int r = trace_log_find(context->log, &query, found_trace, &pass);
	for (enum way way = BY_ID; way < WAYS && r >= 0 && ret_originals->count == 0; way++)
		*ret_originals = pass.originals[way];
	return r;
}

/* ---- second pass: the stories of the originals ---- */

struct story {
	const struct why_context *context;
	const struct why_question *question;
	uint64_t ticket;
	bool traced;         /* there is a trace of the original itself … */
	bool aside;          /* … and it was held */
	uint32_t repeats;    /* found */
	uint32_t listed;     /* of these */
	bool asked_listed;   /* with one that has the id of the question */
	struct buf original; /* its members, as JSON */
	struct buf list;     /* its repeats, as JSON */
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

static const char *const held_words[] = {
	[HELD_UNKNOWN] = NULL, [HELD_YES] = "held", [HELD_NO] = "released or dropped"
};

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

static void add_path(void *user, struct span path, enum json_change change)
{
	static const char *const names[] = {
		[JSON_CHANGED] = "changed",
		[JSON_ADDED] = "added",
		[JSON_MISSING] = "missing",
	};
	struct buf *paths = user;
	json_object_begin(paths, NULL);
	json_add_text(paths, "path", path);
	json_add_string(paths, "change", names[change]);
	json_object_end(paths);
}

/* The members in which a conflict differs from the event whose key it has, as far as both
 * are kept and are JSON objects. Reads from disk, so only for the first few of an answer. */
static void add_difference(struct story *story, const struct trace *trace, struct buf *out)
{
	const struct why_context *context = story->context;
	struct buf paths = { .cap = out->cap };
	struct buf first = { 0 }, second = { 0 };
	if (trace->verdict != VERDICT_CONFLICT || *context->compared >= WHY_DIFFERENCES_MAX)
		return;
	++*context->compared;
	if (!context->read || trace->ticket == 0)
		return;
	int count = context->read(context->read_user, trace->original, &first);
	if (count == 0)
		count = context->read(context->read_user, trace->ticket, &second);
	if (count == 0)
		count = json_diff(buf_span(&first), buf_span(&second), WHY_PATHS_MAX, add_path,
		                  &paths);
	if (count >= 0 && !paths.failed) {
		json_add_u64(out, "differences", (uint64_t)count);
		json_array_begin(out, "difference");
		json_add_raw(out, NULL, buf_span(&paths));
		json_array_end(out);
	}
	buf_free(&first);
	buf_free(&second);
	buf_free(&paths);
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
	const char *state = held_words[held_state(story->context, trace->ticket)];
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

static int add_trace(void *user, uint32_t term, const struct trace *trace)
{
	struct story *story = (struct story *)user + term;
	if (trace->ticket == story->ticket) {
		story->traced = true;
		story->aside = trace->flags & TRACE_ASIDE;
		buf_clear(&story->original);
		add_original(story, &story->original, trace);
		return 0;
	}
	story->repeats++;
	/* One repeat that has the id of the question is listed, whatever the limit. */
	bool asked = story->question->about != WHY_ABOUT_TICKET &&
	             span_eq(trace->id, value_span(&story->question->value));
	if (story->listed >= story->question->limit && (!asked || story->asked_listed))
		return 0;
	story->asked_listed |= asked;
	story->listed++;
	add_repeat(story, &story->list, trace);
	return 0;
}

static void write_story(const struct story *story, struct buf *out)
{
	enum held_state state = held_state(story->context, story->ticket);
	if (state == HELD_NO && !story->aside) /* it was never held */
		state = HELD_UNKNOWN;
	json_object_begin(out, NULL);
	ticket_add(out, "ticket", story->ticket);
	json_add_time(out, "seen", ticket_time_ms(story->ticket));
	json_add_bool(out, "traced", story->traced);
	if (state != HELD_UNKNOWN)
		json_add_string(out, "state", held_words[state]);
	json_add_raw(out, NULL, buf_span(&story->original));
	json_add_u64(out, "repeats_found", story->repeats);
	json_array_begin(out, "repeats");
	json_add_raw(out, NULL, buf_span(&story->list));
	json_array_end(out);
	json_object_end(out);
}

/* One pass over the traces for all of them. */
static int add_stories(const struct why_context *context, const struct why_question *question,
                       const uint64_t *tickets, uint32_t count, struct buf *out)
{
	struct story stories[STORIES_MAX];
	struct trace_term terms[STORIES_MAX];
	struct trace_query query = { .terms = terms, .term_count = count };
	int r = 0;
	CHECK(count <= STORIES_MAX);
	for (uint32_t i = 0; i < count; i++) {
		terms[i] = (struct trace_term){ TRACE_TERM_TICKET, .ticket = tickets[i] };
		stories[i] = (struct story){ .context = context,
			                     .question = question,
			                     .ticket = tickets[i],
			                     .original = { .cap = out->cap },
			                     .list = { .cap = out->cap } };
	}
	if (count > 0)
		r = trace_log_find(context->log, &query, add_trace, stories);
	for (uint32_t i = 0; i < count; i++) {
		buf_fail(out, stories[i].original.failed);
		buf_fail(out, stories[i].list.failed);
		write_story(&stories[i], out);
		buf_free(&stories[i].original);
		buf_free(&stories[i].list);
	}
	return r < 0 ? r : 0;
}

static uint16_t refuse(struct buf *out, uint16_t status, const char *text)
{
	buf_clear(out);
	buf_append_span(out, span_str(text));
	return status;
}

/* ---- held events ---- */

struct own_traces {
	const uint64_t *tickets;
	bool found[WHY_HELD_MAX];
};

static int find_own(void *user, uint32_t term, const struct trace *trace)
{
	struct own_traces *own = user;
	own->found[term] |= trace->ticket == own->tickets[term];
	return 0;
}

/* Which of the first `count` are of the source in the question; without one, all are. A
 * repeat of an event may have come from another source. */
static int find_wanted(const struct why_context *context, const struct why_question *question,
                       uint32_t count, struct own_traces *own)
{
	struct trace_term terms[WHY_HELD_MAX];
	struct trace_query query = { .terms = terms,
		                     .term_count = count,
		                     .source = value_span(&question->source) };
	for (uint32_t i = 0; i < count; i++) {
		own->found[i] = query.source.len == 0;
		terms[i] = (struct trace_term){ TRACE_TERM_TICKET, .ticket = own->tickets[i] };
	}
	if (query.source.len == 0 || count == 0)
		return 0;
	return trace_log_find(context->log, &query, find_own, own);
}

/* Stories up to the limit; `ret_next` is where more begin, or 0. */
static int add_held(const struct why_context *context, const struct why_question *question,
                    struct buf *out, uint32_t *ret_found, uint64_t *ret_next)
{
	const struct why_held *held = &context->held;
	struct own_traces own = { .tickets = held->tickets };
	uint64_t wanted[WHY_HELD_MAX];
	uint32_t seen = held->count < WHY_HELD_MAX ? held->count : WHY_HELD_MAX;
	uint32_t found = 0;
	uint32_t i = 0;
	int r = find_wanted(context, question, seen, &own);
	if (r < 0)
		return r;
	for (; i < seen && found < question->limit; i++)
		if (own.found[i])
			wanted[found++] = held->tickets[i];
	*ret_found = found;
	*ret_next = i > 0 && (i < held->count || !held->all) ? held->tickets[i - 1] : 0;
	return add_stories(context, question, wanted, found, out);
}

static uint16_t answer_held(const struct why_context *context, const struct why_question *question,
                            struct buf *out)
{
	uint32_t found = 0;
	uint64_t next = 0;
	if (!context->held.known)
		return refuse(out, 503, "the held tickets cannot be read now; try again");
	json_object_begin(out, NULL);
	json_object_begin(out, "question");
	json_add_bool(out, "held", true);
	json_object_end(out);
	json_array_begin(out, "originals");
	if (add_held(context, question, out, &found, &next) < 0)
		return refuse(out, 503, "the traces are busy; try again");
	json_array_end(out);
	json_add_u64(out, "found", found);
	ticket_add(out, "next", next);
	json_object_end(out);
	return 200;
}

/* ---- one event ---- */

static uint16_t answer_event(const struct why_context *context, const struct why_question *question,
                             struct buf *out)
{
	struct originals originals = { .count = 0 };
	struct trace_stats stats;
	int r = find_originals(context, question, &originals);
	json_object_begin(out, NULL);
	json_object_begin(out, "question");
	json_add_text(out, about_names[question->about], value_span(&question->value));
	json_add_text_if(out, "source", value_span(&question->source));
	json_object_end(out);
	json_add_u64(out, "found", originals.count);
	json_array_begin(out, "originals");
	if (r >= 0)
		r = add_stories(context, question, originals.tickets, originals.count, out);
	if (r < 0)
		return refuse(out, 503, "the traces are busy; try again");
	json_array_end(out);
	trace_log_stats(context->log, &stats);
	json_object_begin(out, "traces");
	json_add_u64(out, "records", stats.records);
	if (stats.oldest_ms > 0)
		json_add_time(out, "oldest", stats.oldest_ms);
	json_add_u64(out, "one_in_new", UINT64_C(1) << stats.new_sample);
	json_add_u64(out, "one_in_suppressed", UINT64_C(1) << stats.suppressed_sample);
	json_add_u64(out, "lost", stats.lost);
	json_object_end(out);
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
			"a parameter is missing: id=, ticket=, key= or any=; or held=1 for all held events");
	if (!context.log)
		return refuse(out, 503, "traces are disabled");
	bool held = question->about == WHY_ABOUT_HELD;
	uint16_t status = (held ? answer_held : answer_event)(&context, question, out);
	if (status != 200)
		return status;
	buf_append_char(out, '\n');
	return out->failed ? refuse(out, 503, "the answer is too long; set a lower limit=") : 200;
}
