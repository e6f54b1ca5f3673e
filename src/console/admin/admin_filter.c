/* admin_filter: parameters of a query; the filter that selects tickets. See admin_private.h. */
#include "console/admin/admin_private.h"

#include "base/text.h"
#include "codec/moment.h"
#include "codec/url.h"
#include "gate/metadata.h"
#include "gate/pattern.h"
#include "gate/recipe/route.h"
#include "gate/ticket.h"

static const char *const state_names[] = {
	[STORE_STATE_DUE] = "due",   [STORE_STATE_LEASED] = "leased",
	[STORE_STATE_HELD] = "held", [STORE_STATE_PARKED] = "parked",
	[STORE_STATE_DEAD] = "dead", [STORE_STATE_CLOSED] = "closed",
};

const char *admin_state_name(enum store_state state)
{
	CHECK(state >= STORE_STATE_DUE && state <= STORE_STATE_CLOSED);
	return state_names[state];
}

bool admin_param(struct span query, const char *name, struct filter_text *ret_text,
                 struct error_text *ret_problem)
{
	struct span raw = SPAN_EMPTY;
	size_t len = 0;
	uint32_t count = url_param_find(query, span_str(name), &raw);
	*ret_text = (struct filter_text){ .given = count > 0 };
	if (count == 0)
		return false;
	if (count > 1) {
		error_fill(ret_problem, ERR_INVALID, "%s is given %u times, expected once", name,
		           count);
		return false;
	}
	int r = url_form_decode(raw, ret_text->bytes, sizeof(ret_text->bytes), &len);
	if (r < 0 || len == 0) {
		error_fill(ret_problem, ERR_INVALID, "%s: expected a text of 1 to %u bytes", name,
		           FILTER_TEXT_MAX);
		return false;
	}
	ret_text->len = (uint32_t)len;
	return true;
}

int admin_param_number(struct span query, const char *name, uint64_t max, uint64_t *value,
                       struct error_text *ret_problem)
{
	struct filter_text text;
	struct error_text problem = { "" };
	uint64_t number = 0;
	if (!admin_param(query, name, &text, &problem) && !text.given)
		return 0;
	if (problem.text[0] || text_parse_u64(filter_span(&text), &number) < 0 || number > max)
		return error_fill(ret_problem, ERR_INVALID, "%s: expected a number up to %llu",
		                  name, (unsigned long long)max);
	*value = number;
	return 0;
}

static int parse_states(const struct filter_text *text, uint32_t *ret_states,
                        struct error_text *ret_problem)
{
	struct span rest = filter_span(text);
	uint32_t states = 0;
	while (rest.len > 0) {
		struct span word = span_cut_item(&rest, ',');
		uint32_t found = span_eq(word, SPAN("open"))  ? FILTER_OPEN_STATES
		                 : span_eq(word, SPAN("all")) ? FILTER_ALL_STATES
		                                              : 0;
		for (uint32_t i = STORE_STATE_DUE; i <= STORE_STATE_CLOSED; i++)
			if (span_eq(word, span_str(state_names[i])))
				found = 1u << i;
		if (found == 0)
			return error_fill(
				ret_problem, ERR_INVALID,
				"state: expected due, leased, held, parked, dead, closed, "
				"open or all, or several with commas");
		states |= found;
	}
	*ret_states = states;
	return 0;
}

/* A time, or a duration before now. */
static int parse_time(const char *name, const struct filter_text *text, uint64_t now_ms,
                      uint64_t *ret_ms, struct error_text *ret_problem)
{
	uint64_t ago = 0;
	struct span value = filter_span(text);
	if (text_parse_duration(value, &ago, NULL) == 0) {
		*ret_ms = ago < now_ms ? now_ms - ago : 0;
		return 0;
	}
	if (moment_parse_iso(value, ret_ms) == 0)
		return 0;
	return error_fill(ret_problem, ERR_INVALID,
	                  "%s: expected a time such as 2026-01-02T03:04:05Z, or how long ago: 90s, "
	                  "2h, 4d",
	                  name);
}

/* The lowest number of a ticket of that millisecond. */
static uint64_t ticket_at(uint64_t unix_ms)
{
	uint64_t ticket = ticket_next(0, unix_ms);
	uint64_t most = (UINT64_C(1) << TICKET_BITS) - 1;
	return ticket < most ? ticket : most;
}

static int parse_times(struct span query, uint64_t now_ms, struct admin_filter *filter,
                       struct error_text *ret_problem)
{
	struct filter_text since, until;
	uint64_t ms = 0;
	int r = 0;
	if (admin_param(query, "since", &since, ret_problem))
		r = parse_time("since", &since, now_ms, &ms, ret_problem);
	if (r == 0 && since.len > 0)
		filter->from = ticket_at(ms);
	if (r == 0 && admin_param(query, "until", &until, ret_problem)) {
		r = parse_time("until", &until, now_ms, &ms, ret_problem);
		if (r == 0) /* 0 would be no bound */
			filter->to = ticket_at(ms) > 1 ? ticket_at(ms) - 1 : 1;
	}
	if (r == 0 && filter->to != 0 && filter->from > filter->to)
		r = error_fill(ret_problem, ERR_INVALID, "since is later than until");
	return r;
}

static uint32_t sink_number(const struct console *console, struct span name)
{
	struct lane_view view;
	int lane = deliver_find(console->deliver, name);
	if (lane >= 0) {
		deliver_view(console->deliver, (uint32_t)lane, &view);
		return view.sink;
	}
	/* A sink that was removed may still have tickets. */
	return span_eq(name, SPAN("caller")) ? STORE_SINK_CALLER : sink_id(name);
}

int admin_filter_parse(const struct console *console, struct span query, uint64_t now_ms,
                       struct admin_filter *ret_filter, struct error_text *ret_problem)
{
	struct admin_filter filter = { 0 };
	struct filter_text states;
	struct pattern pattern;
	struct {
		const char *name;
		struct filter_text *text;
	} texts[] = { { "source", &filter.source }, { "sink", &filter.sink },
		      { "type", &filter.type },     { "entity", &filter.entity },
		      { "id", &filter.id },         { "state", &states } };
	ret_problem->text[0] = 0;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		admin_param(query, texts[i].name, texts[i].text, ret_problem);
	int r = ret_problem->text[0] ? ERR_INVALID
	                             : parse_states(&states, &filter.states, ret_problem);
	if (r == 0)
		r = parse_times(query, now_ms, &filter, ret_problem);
	if (r == 0 && ret_problem->text[0])
		r = ERR_INVALID;
	if (r == 0 && filter.type.given && pattern_split(filter_span(&filter.type), &pattern) < 0)
		r = error_fill(ret_problem, ERR_INVALID, "type: expected at most 15 asterisks");
	if (r == 0 && filter.sink.given)
		filter.sink_number = sink_number(console, filter_span(&filter.sink));
	if (r == 0)
		*ret_filter = filter;
	return r;
}

void admin_filter_scan(const struct admin_filter *filter, struct store_scan *scan)
{
	scan->states = filter->states;
	scan->sink = filter->sink_number;
	scan->from = filter->from;
	scan->to = filter->to;
	scan->all = filter->states & 1u << STORE_STATE_CLOSED;
}

static bool text_fits(const struct filter_text *wanted, struct span text)
{
	return !wanted->given || span_eq(filter_span(wanted), text);
}

bool admin_filter_matches(const struct admin_filter *filter, const struct store_item *item,
                          const struct store_parts *parts)
{
	struct metadata metadata = { 0 };
	struct pattern pattern;
	if (filter->states != 0 && !(filter->states & 1u << item->state))
		return false;
	if (filter->sink.given && item->sink != filter->sink_number)
		return false;
	if (filter->event != 0 && item->ticket != filter->event && item->event != filter->event)
		return false;
	if (metadata_read(parts->metadata, &metadata) < 0)
		metadata = (struct metadata){ 0 };
	return text_fits(&filter->source, parts->source) &&
	       text_fits(&filter->id, metadata.texts[METADATA_ID]) &&
	       text_fits(&filter->entity, metadata.texts[METADATA_ENTITY]) &&
	       (!filter->type.given || (pattern_split(filter_span(&filter->type), &pattern) == 0 &&
	                                pattern_matches(&pattern, metadata.texts[METADATA_TYPE])));
}
