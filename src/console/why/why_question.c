/* why_question: from the query of a request to a question. See why.h. */
#include "base/text.h"
#include "codec/url.h"
#include "console/why/why.h"
#include "gate/ticket.h"

static int decode(struct span text, struct why_value *ret_value)
{
	size_t len = 0;
	int r = url_form_decode(text, ret_value->bytes, sizeof(ret_value->bytes), &len);
	if (r == 0)
		ret_value->len = (uint32_t)len;
	return r;
}

static int set_about(struct why_question *question, enum why_about about,
                     const struct why_value *value, struct error_text *ret_text)
{
	if (question->about != WHY_ABOUT_NOTHING)
		return error_fill(ret_text, ERR_INVALID,
		                  "ask for one of id, ticket, key, any and held, once");
	if (about == WHY_ABOUT_HELD && !span_eq(span_of(value->bytes, value->len), SPAN("1")))
		return error_fill(ret_text, ERR_INVALID, "held is 1");
	question->about = about;
	question->value = *value;
	return 0;
}

static int set_before(struct why_question *question, struct span value, struct error_text *ret_text)
{
	if (!ticket_parse(value, &question->before))
		return error_fill(ret_text, ERR_INVALID,
		                  "before is a ticket, 11 letters and digits");
	return 0;
}

static int set_limit(struct why_question *question, struct span value, struct error_text *ret_text)
{
	uint64_t limit = 0;
	if (text_parse_u64(value, &limit) < 0 || limit < 1 || limit > WHY_LIMIT_MAX)
		return error_fill(ret_text, ERR_INVALID, "limit is a number from 1 to %u",
		                  WHY_LIMIT_MAX);
	question->limit = (uint32_t)limit;
	return 0;
}

static int check_format(struct span value, struct error_text *ret_text)
{
	if (span_eq(value, SPAN("json")))
		return 0;
	return error_fill(ret_text, ERR_INVALID,
	                  "format is json; the commands stile why and stile advise print text");
}

static int set_parameter(struct why_question *question, struct span name,
                         const struct why_value *value, struct error_text *ret_text)
{
	static const struct {
		struct span name;
		enum why_about about;
	} abouts[] = {
		{ { "id", 2 }, WHY_ABOUT_ID },     { { "ticket", 6 }, WHY_ABOUT_TICKET },
		{ { "key", 3 }, WHY_ABOUT_KEY },   { { "any", 3 }, WHY_ABOUT_ANY },
		{ { "held", 4 }, WHY_ABOUT_HELD },
	};
	struct span text = span_of(value->bytes, value->len);
	for (size_t i = 0; i < ARRAY_LEN(abouts); i++)
		if (span_eq(name, abouts[i].name))
			return set_about(question, abouts[i].about, value, ret_text);
	if (span_eq(name, SPAN("before")))
		return set_before(question, text, ret_text);
	if (span_eq(name, SPAN("limit")))
		return set_limit(question, text, ret_text);
	if (span_eq(name, SPAN("format")))
		return check_format(text, ret_text);
	CHECK(span_eq(name, SPAN("source")));
	question->source = *value;
	return 0;
}

/* Of a query with known parameters: the one of this name, if it is there. */
static int read_parameter(struct why_question *question, struct span query, struct span name,
                          struct error_text *ret_text)
{
	struct span raw = SPAN_EMPTY;
	struct why_value value = { .len = 0 };
	if (url_param_find(query, name, &raw) == 0)
		return 0;
	int r = decode(raw, &value);
	if (r == ERR_TOO_LARGE)
		return error_fill(ret_text, r, "a value is longer than %u bytes", WHY_TEXT_MAX);
	if (r < 0)
		return error_fill(ret_text, r, "a %% is not followed by two digits");
	if (value.len == 0)
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
