/* why_text: the answers of /v1/why and /v1/advise in words. See why_command.h. */
#include "base/error.h"
#include "base/text.h"
#include "cli/answer.h"
#include "cli/why_command.h"
#include "gate/gap.h"

static void put_printed(struct buf *out, const char *before, struct span text, const char *after)
{
	buf_append_span(out, span_str(before));
	answer_put(out, text);
	buf_append_span(out, span_str(after));
}

static uint64_t number_of(struct span text)
{
	uint64_t number = 0;
	return text_parse_u64(text, &number) == 0 ? number : 0;
}

static void put_line(struct buf *out, const char *name, struct span value)
{
	if (value.len == 0)
		return;
	buf_printf(out, "  %-8s ", name);
	put_printed(out, "", value, "\n");
}

static int put_key(void *user, struct span element, uint32_t index)
{
	(void)index;
	/* A text with its quotes. */
	put_line(user, "key",
	         element.len > 1 ? span_of(element.ptr + 1, element.len - 2) : element);
	return 0;
}

static void put_state(struct buf *out, struct span state, struct span ticket)
{
	if (!span_eq(state, SPAN("held"))) {
		buf_append_span(out, SPAN("released or dropped\n"));
		return;
	}
	put_printed(out, "held: stile release ", ticket, " delivers it, ");
	put_printed(out, "stile release --drop ", ticket, " forgets it\n");
}

/* ---- what two events of one key differ in ---- */

static int put_path(void *user, struct span element, uint32_t index)
{
	static const char *const names[] = { "path", "change" };
	struct buf *out = user;
	struct answer_members one;
	int r = answer_read(element, names, ARRAY_LEN(names), &one);
	if (r < 0)
		return r;
	put_printed(out, index > 0 ? ", " : "", one.texts[0], "");
	if (!span_eq(one.texts[1], SPAN("changed")))
		put_printed(out, " (", one.texts[1], ")");
	return 0;
}

static int count_path(void *user, struct span element, uint32_t index)
{
	uint64_t *count = user;
	(void)element;
	*count = index + 1;
	return 0;
}

static int put_difference(struct buf *out, struct span count, struct span paths)
{
	uint64_t listed = 0;
	if (count.len == 0)
		return 0;
	if (number_of(count) == 0) {
		buf_append_span(out, SPAN("      they differ in how they are written only\n"));
		return 0;
	}
	buf_append_span(out, SPAN("      they differ in "));
	int r = answer_each(paths, out, put_path);
	if (r == 0)
		r = answer_each(paths, &listed, count_path);
	if (number_of(count) > listed)
		buf_printf(out, " and %llu more", (unsigned long long)(number_of(count) - listed));
	buf_append_char(out, '\n');
	return r;
}

/* ---- stories ---- */

enum event_member {
	EVENT_TICKET,
	EVENT_TIME,
	EVENT_SEEN,
	EVENT_TRACED,
	EVENT_STATE,
	EVENT_SOURCE,
	EVENT_ID,
	EVENT_TYPE,
	EVENT_KEYS,
	EVENT_PEER,
	EVENT_REPEAT_OF,
	EVENT_REPLAY,
	EVENT_WHY,
	EVENT_DIFFERENCES,
	EVENT_DIFFERENCE,
	EVENT_FOUND,
	EVENT_REPEATS,
};
/* Of an original and of a repeat. */
static const char *const event_members[] = {
	"ticket", "time",        "seen",       "traced",        "state",     "source",
	"id",     "type",        "keys",       "peer",          "repeat_of", "replay",
	"why",    "differences", "difference", "repeats_found", "repeats",
};

static int read_event(struct span object, struct answer_members *ret_event)
{
	return answer_read(object, event_members, ARRAY_LEN(event_members), ret_event);
}

static int put_repeat(void *user, struct span element, uint32_t index)
{
	struct buf *out = user;
	struct answer_members event;
	int r = read_event(element, &event);
	(void)index;
	if (r < 0)
		return r;
	const struct span *texts = event.texts;
	put_printed(out, "  ", texts[EVENT_TIME], "  ");
	answer_put(out, texts[EVENT_ID].len > 0 ? texts[EVENT_ID] : SPAN("(no id)"));
	put_printed(out, "\n      ", texts[EVENT_WHY], "\n");
	r = put_difference(out, texts[EVENT_DIFFERENCES], texts[EVENT_DIFFERENCE]);
	if (texts[EVENT_STATE].len > 0) {
		buf_append_span(out, SPAN("      "));
		put_state(out, texts[EVENT_STATE], texts[EVENT_TICKET]);
	}
	return r;
}

static int put_original(void *user, struct span element, uint32_t index)
{
	struct buf *out = user;
	struct answer_members event;
	uint64_t listed = 0;
	int r = read_event(element, &event);
	if (r < 0)
		return r;
	const struct span *texts = event.texts;
	put_printed(out, index > 0 ? "\nticket " : "ticket ", texts[EVENT_TICKET], ", ");
	put_printed(out, "first seen ", texts[EVENT_SEEN], "\n");
	if (texts[EVENT_STATE].len > 0) {
		buf_append_span(out, SPAN("  state    "));
		put_state(out, texts[EVENT_STATE], texts[EVENT_TICKET]);
	}
	put_line(out, "source", texts[EVENT_SOURCE]);
	put_line(out, "id", texts[EVENT_ID]);
	put_line(out, "type", texts[EVENT_TYPE]);
	r = answer_each(texts[EVENT_KEYS], out, put_key);
	put_line(out, "from", texts[EVENT_PEER]);
	/* Of an event that nothing was like there is nothing to explain. */
	if (texts[EVENT_REPEAT_OF].len > 0 || texts[EVENT_REPLAY].len > 0)
		put_line(out, "note", texts[EVENT_WHY]);
	if (r == 0)
		r = put_difference(out, texts[EVENT_DIFFERENCES], texts[EVENT_DIFFERENCE]);
	if (!span_eq(texts[EVENT_TRACED], SPAN("true")))
		buf_append_span(out, SPAN("  its own trace is gone, or was never kept\n"));
	uint64_t found = number_of(texts[EVENT_FOUND]);
	if (r == 0)
		r = answer_each(texts[EVENT_REPEATS], &listed, count_path);
	if (found == 0)
		buf_append_span(out, SPAN("  nothing like it came again\n"));
	else
		buf_printf(out, "  the same came again %llu time%s%s\n", (unsigned long long)found,
		           found == 1 ? "" : "s", listed < found ? ", the newest:" : ":");
	return r == 0 ? answer_each(texts[EVENT_REPEATS], out, put_repeat) : r;
}

/* ---- answers ---- */

static void put_nothing(struct buf *out, const struct answer_members *answer, struct span value)
{
	struct span records = answer->texts[4], oldest = answer->texts[5];
	uint64_t one_in = number_of(answer->texts[6]);
	put_printed(out, "no trace of \"", value, "\"");
	if (number_of(records) == 0) {
		buf_append_span(out, SPAN("; there are no traces at all\n"));
		return;
	}
	put_printed(out, " among ", records, "; ");
	put_printed(out, "the oldest is of ", oldest, "\n");
	if (one_in > 1)
		buf_printf(out, "of events that pass, one in %llu leaves a trace now\n",
		           (unsigned long long)one_in);
}

int why_write_text(struct span json, struct buf *out)
{
	static const char *const names[] = {
		"question.held",
		"originals",
		"found",
		"next",
		"traces.records",
		"traces.oldest",
		"traces.one_in_new",
		"question.id",
		"question.ticket",
		"question.key",
		"question.any",
	};
	struct answer_members answer;
	int r = answer_read(json, names, ARRAY_LEN(names), &answer);
	if (r == 0)
		r = answer_each(answer.texts[1], out, put_original);
	if (r < 0)
		return r;
	bool held = answer.texts[0].len > 0;
	bool found = number_of(answer.texts[2]) > 0;
	struct span next = answer.texts[3];
	for (size_t i = 7; i < ARRAY_LEN(names) && !held && !found; i++)
		if (answer.texts[i].len > 0)
			put_nothing(out, &answer, answer.texts[i]);
	if (held && !found)
		buf_append_span(out, next.len == 0 ? SPAN("nothing is kept aside\n")
		                                   : SPAN("nothing of this source so far\n"));
	if (next.len > 0)
		put_printed(out,
		            found ? "\nmore: stile why --held --before "
		                  : "more: stile why --held --before ",
		            next, "\n");
	return 0;
}

static int put_advice(void *user, struct span element, uint32_t index)
{
	static const char *const names[] = { "source",     "advice",           "trust",
		                             "duplicates", "after_the_window", "gap_ms.half",
		                             "gap_ms.most" };
	struct buf *out = user;
	struct answer_members advice;
	char half[GAP_DURATION_MAX];
	char most[GAP_DURATION_MAX];
	int r = answer_read(element, names, ARRAY_LEN(names), &advice);
	(void)index;
	if (r < 0)
		return r;
	put_printed(out, "", advice.texts[0], ": ");
	put_printed(out, "", advice.texts[1], "\n");
	if (span_eq(advice.texts[2], SPAN("none")))
		return 0;
	uint64_t duplicates = number_of(advice.texts[3]);
	buf_printf(out, "    %llu duplicate%s", (unsigned long long)duplicates,
	           duplicates == 1 ? "" : "s");
	if (duplicates > 1) {
		gap_duration_text(number_of(advice.texts[5]), half);
		gap_duration_text(number_of(advice.texts[6]), most);
		buf_printf(out, ", half of them within %s, 99 of 100 within %s", half, most);
	}
	if (number_of(advice.texts[4]) > 0)
		put_printed(out, "; about ", advice.texts[4],
		            " came back after the window and passed");
	buf_append_char(out, '\n');
	return 0;
}

int advise_write_text(struct span json, struct buf *out)
{
	static const char *const names[] = { "sources" };
	struct answer_members answer;
	int r = answer_read(json, names, ARRAY_LEN(names), &answer);
	size_t before = out->len;
	if (r == 0)
		r = answer_each(answer.texts[0], out, put_advice);
	if (r == 0 && out->len == before)
		buf_append_span(out, SPAN("no such source, and no event of any has been seen\n"));
	return r;
}
