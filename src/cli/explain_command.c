/*
 * explain_command: `stile explain`: how a recipe reads an event: what it was recognised
 * as, each claim with its parts, and why others are not taken. See docs/filter.md. Exit
 * code 0 also for an event that would be rejected.
 */
#include "cli/commands.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/exit_code.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/answer.h"
#include "cli/filter/split.h"
#include "codec/json.h"
#include "config/options.h"
#include "config/source_choice.h"
#include "sys/file.h"
#include "sys/stream.h"

#define LABEL_WIDTH 12
#define COLUMN_MAX 48 /* wider cells push the next one */

/* ---- the JSON of recipe_explain(): members by name ---- */

enum event_member {
	EVENT_BATCH,
	EVENT_EVENTS,
	EVENT_SOURCE,
	EVENT_INSIDE,
	EVENT_INSIDE_MORE,
	EVENT_CASE,
	EVENT_REFUSED,
	EVENT_REPLAY,
	EVENT_CONTENT,
	EVENT_FIELDS,
	EVENT_CLAIMS,
	EVENT_TRIED
};
static const char *const event_members[] = {
	"batch",   "events", "source",  "inside", "inside_of_it", "case",
	"refused", "replay", "content", "fields", "claims",       "tried",
};

enum claim_member {
	CLAIM_NAME,
	CLAIM_KIND,
	CLAIM_WINDOW,
	CLAIM_SHADOW,
	CLAIM_FATE,
	CLAIM_WHY,
	CLAIM_DIGEST,
	CLAIM_ORDER,
	CLAIM_RANK,
	CLAIM_PARTS
};
static const char *const claim_members[] = {
	"name", "kind", "window_s", "shadow", "fate", "why", "digest", "order_ms", "rank", "parts",
};

enum part_member { PART_TEXT, PART_TYPE, PART_VALUE, PART_LENGTH, PART_IS, PART_NOT, PART_HOLDS };
static const char *const part_members[] = {
	"part", "type", "value", "length", "is", "not", "holds"
};

enum tried_member { TRIED_CASE, TRIED_CONDITIONS };
static const char *const tried_members[] = { "case", "conditions" };

static const char *const field_names[] = { "id",          "type",   "entity", "time",
	                                   "correlation", "origin", "replay", "content" };

/* ---- columns ---- */

static size_t width_of(struct span text)
{
	size_t width = 0;
	for (size_t i = 0; i < text.len; i++)
		width += (text.ptr[i] & 0xC0) != 0x80; /* characters, not bytes */
	return width;
}

static void put_cell(struct buf *out, struct span text, size_t width)
{
	size_t before = out->len;
	answer_put(out, text);
	for (size_t i = width_of(span_of(out->ptr + before, out->len - before)); i < width; i++)
		buf_append_char(out, ' ');
}

static void put_label(struct buf *out, const char *label)
{
	put_cell(out, span_str(label), LABEL_WIDTH);
}

static void put_line(struct buf *out, const char *label, struct span text)
{
	if (text.len == 0)
		return;
	put_label(out, label);
	answer_put(out, text);
	buf_append_char(out, '\n');
}

static struct span without_article(struct span type)
{
	if (!span_cut_start(&type, SPAN("a ")))
		span_cut_start(&type, SPAN("an "));
	return type;
}

/* ---- parts ---- */

static size_t widest(size_t width, struct span text)
{
	size_t found = width_of(text);
	return found > width && found <= COLUMN_MAX ? found : width;
}

static void put_value(struct buf *out, const struct answer_members *part)
{
	answer_put(out, part->texts[PART_VALUE]);
	if (part->texts[PART_LENGTH].len > 0)
		buf_printf(out, "… (%.*s bytes)", (int)part->texts[PART_LENGTH].len,
		           part->texts[PART_LENGTH].ptr);
}

#define PARTS_MAX 16

static int put_parts(struct span array, struct buf *out)
{
	struct answer_members parts[PARTS_MAX];
	size_t part_width = 0, type_width = 0;
	struct json_elements elements;
	struct json_doc doc;
	struct span element;
	size_t count = 0;
	int more = json_elements_begin(&elements, array);
	while (more == 0 && count < PARTS_MAX &&
	       (more = json_elements_next(&elements, NULL, &doc, &element)) == 1) {
		struct answer_members *part = &parts[count++];
		more = answer_read(element, part_members, ARRAY_LEN(part_members), part);
		if (more < 0)
			return more;
		part_width = widest(part_width, part->texts[PART_TEXT]);
		type_width = widest(type_width, without_article(part->texts[PART_TYPE]));
	}
	for (size_t i = 0; i < count; i++) {
		put_label(out, "");
		put_cell(out, parts[i].texts[PART_TEXT], part_width + 2);
		put_cell(out, without_article(parts[i].texts[PART_TYPE]),
		         parts[i].texts[PART_VALUE].len ? type_width + 2 : 0);
		put_value(out, &parts[i]);
		buf_append_char(out, '\n');
	}
	return more < 0 ? more : 0;
}

/* ---- claims ---- */

static void put_order(struct buf *out, const struct answer_members *claim)
{
	char text[TEXT_TIME_LEN];
	uint64_t ms = 0;
	if (text_parse_u64(claim->texts[CLAIM_ORDER], &ms) != 0)
		return;
	text_time(text, ms);
	put_label(out, "");
	buf_printf(out, "order %.*s", (int)sizeof(text), text);
	if (!span_eq(claim->texts[CLAIM_RANK], SPAN("0")))
		buf_printf(out, ", rank %.*s", (int)claim->texts[CLAIM_RANK].len,
		           claim->texts[CLAIM_RANK].ptr);
	buf_append_char(out, '\n');
}

static int put_claim(void *user, struct span object, uint32_t index)
{
	struct buf *out = user;
	struct answer_members claim;
	char label[LABEL_WIDTH + 1], window[TEXT_DURATION_MAX] = "";
	uint64_t window_s = 0;
	int error = answer_read(object, claim_members, ARRAY_LEN(claim_members), &claim);
	if (error != 0)
		return error;
	snprintf(label, sizeof(label), "claim %u", index + 1);
	buf_append_char(out, '\n');
	put_label(out, label);
	buf_append_span(out, claim.texts[CLAIM_NAME]);
	buf_append_span(out, SPAN(": "));
	buf_append_span(out, claim.texts[CLAIM_KIND]);
	if (text_parse_u64(claim.texts[CLAIM_WINDOW], &window_s) == 0)
		text_duration(window, window_s * 1000);
	buf_printf(out, " within %s", window);
	if (claim.texts[CLAIM_SHADOW].len > 0)
		buf_append_span(out, SPAN(", in shadow: it drops nothing"));
	buf_append_char(out, '\n');
	put_label(out, "");
	if (claim.texts[CLAIM_DIGEST].len > 0) {
		buf_append_span(out, SPAN("digest "));
		buf_append_span(out, claim.texts[CLAIM_DIGEST]);
		buf_append_char(out, '\n');
		put_order(out, &claim);
	} else {
		buf_append_span(out, claim.texts[CLAIM_FATE]);
		buf_append_span(out, SPAN(": "));
		buf_append_span(out, claim.texts[CLAIM_WHY]);
		buf_append_char(out, '\n');
	}
	return put_parts(claim.texts[CLAIM_PARTS], out);
}

/* ---- cases that were tried ---- */

/* The first condition that does not hold. */
static int put_condition(void *user, struct span object, uint32_t index)
{
	struct buf *out = user;
	struct answer_members part;
	int error = answer_read(object, part_members, ARRAY_LEN(part_members), &part);
	(void)index;
	if (error != 0 || !span_eq(part.texts[PART_HOLDS], SPAN("false")))
		return error;
	answer_put(out, part.texts[PART_TEXT]);
	buf_append_span(out, part.texts[PART_NOT].len ? SPAN(" is ") : SPAN(" is not "));
	buf_append_span(out, part.texts[PART_NOT].len ? part.texts[PART_NOT] : part.texts[PART_IS]);
	if (part.texts[PART_VALUE].len > 0 && part.texts[PART_NOT].len == 0 &&
	    !span_eq(part.texts[PART_IS], SPAN("there"))) {
		buf_append_span(out, SPAN(" but "));
		put_value(out, &part);
	}
	return 1; /* one reason is enough */
}

static int put_tried(void *user, struct span object, uint32_t index)
{
	struct buf *out = user;
	struct answer_members tried;
	int error = answer_read(object, tried_members, ARRAY_LEN(tried_members), &tried);
	if (error != 0)
		return error;
	put_label(out, index == 0 ? "looked for" : "");
	put_cell(out, tried.texts[TRIED_CASE], 24);
	buf_append_char(out, ' ');
	error = answer_each(tried.texts[TRIED_CONDITIONS], out, put_condition);
	buf_append_char(out, '\n');
	return error < 0 ? error : 0;
}

/* ---- events ---- */

static void put_field(struct buf *out, size_t field, const struct answer_members *part,
                      size_t width)
{
	bool content = field + 1 == ARRAY_LEN(field_names);
	put_label(out, field_names[field]);
	put_cell(out, part->texts[PART_TEXT], width + 2);
	/* The content has a line of its own: its digest. */
	if (content || part->texts[PART_VALUE].len == 0)
		buf_append_span(out, without_article(part->texts[PART_TYPE]));
	else
		put_value(out, part);
	buf_append_char(out, '\n');
}

static int put_fields(struct span object, struct buf *out)
{
	struct answer_members fields;
	struct answer_members parts[ARRAY_LEN(field_names)];
	size_t width = 0;
	int error = answer_read(object, field_names, ARRAY_LEN(field_names), &fields);
	for (size_t i = 0; i < ARRAY_LEN(field_names) && error == 0; i++) {
		if (fields.texts[i].len == 0)
			continue;
		/* Each field is a list of one part. */
		struct span list = fields.texts[i];
		error = list.len < 2
		                ? ERR_INVALID
		                : answer_read(span_of(list.ptr + 1, list.len - 2), part_members,
		                              ARRAY_LEN(part_members), &parts[i]);
		if (error == 0)
			width = widest(width, parts[i].texts[PART_TEXT]);
	}
	for (size_t i = 0; i < ARRAY_LEN(field_names) && error == 0; i++)
		if (fields.texts[i].len > 0)
			put_field(out, i, &parts[i], width);
	return error;
}

static int put_event(void *user, struct span object, uint32_t index)
{
	struct buf *out = user;
	struct answer_members event;
	int error = answer_read(object, event_members, ARRAY_LEN(event_members), &event);
	if (error != 0)
		return error;
	if (event.texts[EVENT_BATCH].len > 0) {
		error = answer_each(event.texts[EVENT_EVENTS], out, put_event);
		put_line(out, "refused", event.texts[EVENT_REFUSED]);
		return error;
	}
	if (index > 0)
		buf_append_char(out, '\n');
	put_label(out, "this is");
	buf_append_span(out, event.texts[EVENT_CASE].len > 0
	                             ? event.texts[EVENT_CASE]
	                             : SPAN("nothing that the recipe knows"));
	for (int i = EVENT_INSIDE_MORE; i >= EVENT_INSIDE; i--)
		if (event.texts[i].len > 0)
			buf_printf(out, ", inside of %.*s", (int)event.texts[i].len,
			           event.texts[i].ptr);
	buf_append_char(out, '\n');
	put_line(out, "source", event.texts[EVENT_SOURCE]);
	put_line(out, "refused", event.texts[EVENT_REFUSED]);
	if (event.texts[EVENT_CASE].len == 0)
		return answer_each(event.texts[EVENT_TRIED], out, put_tried);
	error = put_fields(event.texts[EVENT_FIELDS], out);
	put_line(out, "digest", event.texts[EVENT_CONTENT]);
	if (error == 0)
		error = answer_each(event.texts[EVENT_CLAIMS], out, put_claim);
	return error;
}

int explain_write_text(struct span json, struct buf *out)
{
	return put_event(out, json, 0);
}

/* ---- the command ---- */

#define INPUT_MAX (64u << 20)

struct explain_options {
	struct source_choice_options choice;
	struct option_texts headers;
	const char *path;
	const char *query;
	bool json;
};

#define AT(member) offsetof(struct explain_options, member)

static const struct option options[] = {
	{ "preset", OPTION_TEXT, AT(choice.preset), "NAME", NULL, 0, 0, NULL,
	  "the preset to use; stile help init lists them (default: auto)" },
	{ "config", OPTION_TEXT, AT(choice.config), "FILE", NULL, 0, 0, NULL,
	  "use a source of this configuration instead of a preset" },
	{ "source", OPTION_TEXT, AT(choice.source), "NAME", NULL, 0, 0, NULL,
	  "with --config: which source, if it has several" },
	{ "header", OPTION_TEXTS, AT(headers), "'NAME: VALUE'", NULL, 0, 0, NULL,
	  "a header of the request; repeatable" },
	{ "path", OPTION_TEXT, AT(path), "PATH", NULL, 0, 0, NULL, "the path of the request" },
	{ "query", OPTION_TEXT, AT(query), "QUERY", NULL, 0, 0, NULL,
	  "the query of the request, without the ?" },
	{ "json", OPTION_FLAG, AT(json), NULL, NULL, 0, 0, NULL,
	  "print one JSON object per line for each event" },
};

const struct option_table explain_option_table = { options, ARRAY_LEN(options) };

struct explainer {
	const struct explain_options *options;
	const struct recipe *recipe;
	struct recipe_scratch scratch;
	struct recipe_input input; /* but for the body */
	struct http1_header headers[OPTION_TEXTS_MAX];
	struct buf json;
	struct buf out;
	uint64_t count;
};

static int fail(const char *name, int error)
{
	fprintf(stderr, "stile explain: %s: %s\n", name, error_name(error));
	return EXIT_CODE_FAILED;
}

static struct span trim(struct span text)
{
	while (text.len > 0 && (text.ptr[0] == ' ' || text.ptr[0] == '\t'))
		text = span_skip(text, 1);
	while (text.len > 0 && (text.ptr[text.len - 1] == ' ' || text.ptr[text.len - 1] == '\t'))
		text.len--;
	return text;
}

/* False: a header has no colon. */
static bool read_headers(struct explainer *explainer)
{
	const struct option_texts *texts = &explainer->options->headers;
	for (uint32_t i = 0; i < texts->count; i++) {
		struct span value = span_str(texts->texts[i]);
		struct span name = trim(span_cut_item(&value, ':'));
		if (name.len == 0 || name.len == strlen(texts->texts[i]))
			return false;
		explainer->headers[i] = (struct http1_header){ name, trim(value) };
	}
	explainer->input.headers = explainer->headers;
	explainer->input.header_count = texts->count;
	return true;
}

static void explain_event(struct explainer *explainer, struct span event)
{
	struct buf *out = &explainer->out;
	explainer->input.body = event;
	buf_clear(&explainer->json);
	recipe_explain(explainer->recipe, &explainer->scratch, &explainer->input, &explainer->json);
	if (explainer->options->json) {
		buf_append_span(out, buf_span(&explainer->json));
		buf_append_char(out, '\n');
	} else {
		if (explainer->count > 0)
			buf_append_char(out, '\n');
		buf_fail(out, explain_write_text(buf_span(&explainer->json), out));
	}
	explainer->count++;
}

/* The events of a file: lines, elements of arrays, or the one that it is. */
static void explain_bytes(struct explainer *explainer, struct span bytes)
{
	struct filter_split split = { .event_max = INPUT_MAX };
	struct filter_piece piece;
	struct span rest = bytes;
	uint64_t before = explainer->count;
	enum filter_step step = filter_split_next(&split, &rest, true, &piece);
	for (; step == FILTER_EVENT; step = filter_split_next(&split, &rest, true, &piece))
		explain_event(explainer, piece.event);
	/* What cannot be split is one event, and the recipe says what is wrong. */
	if (step == FILTER_BROKEN || explainer->count == before)
		explain_event(explainer, explainer->count == before ? bytes : rest);
}

static int read_stdin(char **ret_bytes, size_t *ret_len)
{
	struct buf bytes = { .cap = INPUT_MAX };
	int64_t n = 0;
	do {
		bytes.len += (size_t)n;
		int error = buf_reserve(&bytes, 64u << 10);
		n = error != 0 ? error
		               : stream_read(STDIN_FILENO, bytes.ptr + bytes.len, 64u << 10);
	} while (n > 0);
	if (n < 0) {
		buf_free(&bytes);
		return (int)n;
	}
	*ret_bytes = bytes.ptr;
	*ret_len = bytes.len;
	return 0;
}

static int explain_file(struct explainer *explainer, const char *name)
{
	char *bytes = NULL;
	size_t len = 0;
	bool standard = strcmp(name, "-") == 0;
	int error = standard ? read_stdin(&bytes, &len)
	                     : file_read_whole(file_system_real(), name, INPUT_MAX, &bytes, &len);
	if (error != 0)
		return fail(standard ? "standard input" : name, error);
	explain_bytes(explainer, span_of(bytes, len));
	mem_free(bytes);
	return EXIT_CODE_OK;
}

int explain_command(int argc, char **argv)
{
	/* Digests are shown to compare events, also those of others. So the key is a fixed
	 * one: that of a data folder is a secret. */
	static const unsigned char key[DIGEST_KEY_LEN] = { 0 };
	struct explain_options values = { 0 };
	struct source_choice choice;
	struct error_text text;
	int rest = 0;
	if (options_parse(explain_option_table, argc, argv, &values, &rest, &text) != 0)
		return command_usage_error("explain", text.text);
	struct explainer explainer = {
		.options = &values,
		.input = { .path = span_str(values.path), .query = span_str(values.query) },
	};
	if (!read_headers(&explainer))
		return command_usage_error("explain", "--header: expected 'Name: value'");
	int code = source_choice_make("explain", &values.choice, key, &choice);
	if (code != EXIT_CODE_OK)
		return code;
	explainer.recipe = choice.recipe;
	if (rest == 0)
		code = explain_file(&explainer, "-");
	for (int i = 0; i < rest && code == EXIT_CODE_OK; i++)
		code = explain_file(&explainer, argv[i]);
	int error = explainer.out.failed ? -ENOMEM : 0;
	if (error == 0)
		error = stream_write(STDOUT_FILENO, buf_span(&explainer.out));
	if (error != 0)
		code = fail("standard output", error);
	recipe_scratch_free(&explainer.scratch);
	buf_free(&explainer.json);
	buf_free(&explainer.out);
	source_choice_free(&choice);
	return code;
}
