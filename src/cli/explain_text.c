/*
 * explain_text: the object of recipe_explain() in words. See explain_command.h.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/answer.h"
#include "cli/explain_command.h"
#include "codec/json.h"

#define LABEL_WIDTH 12
#define COLUMN_MAX 48 /* wider cells push the next one */

/* ---- members by name ---- */

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
	EVENT_TRIED,
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
	CLAIM_PARTS,
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

struct part_widths {
	size_t part, type;
};

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

static void put_part(struct buf *out, const struct answer_members *part, struct part_widths widths)
{
	put_label(out, "");
	put_cell(out, part->texts[PART_TEXT], widths.part + 2);
	put_cell(out, without_article(part->texts[PART_TYPE]),
	         part->texts[PART_VALUE].len ? widths.type + 2 : 0);
	put_value(out, part);
	buf_append_char(out, '\n');
}

#define PARTS_MAX 16

static int put_parts(struct span array, struct buf *out)
{
	struct answer_members parts[PARTS_MAX];
	struct part_widths widths = { 0, 0 };
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
		widths.part = widest(widths.part, part->texts[PART_TEXT]);
		widths.type = widest(widths.type, without_article(part->texts[PART_TYPE]));
	}
	for (size_t i = 0; i < count; i++)
		put_part(out, &parts[i], widths);
	return more < 0 ? more : 0;
}

/* ---- claims ---- */

static void put_window(struct buf *out, struct span seconds)
{
	char text[TEXT_DURATION_MAX];
	uint64_t value = 0;
	if (text_parse_u64(seconds, &value) == 0)
		text_duration(text, value * 1000);
	else
		text[0] = '\0';
	buf_printf(out, " within %s", text);
}

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
	char label[LABEL_WIDTH + 1];
	int error = answer_read(object, claim_members, ARRAY_LEN(claim_members), &claim);
	if (error != 0)
		return error;
	snprintf(label, sizeof(label), "claim %u", index + 1);
	buf_append_char(out, '\n');
	put_label(out, label);
	buf_append_span(out, claim.texts[CLAIM_NAME]);
	buf_append_span(out, SPAN(": "));
	buf_append_span(out, claim.texts[CLAIM_KIND]);
	put_window(out, claim.texts[CLAIM_WINDOW]);
	if (claim.texts[CLAIM_SHADOW].len > 0)
		buf_append_span(out, SPAN(", in shadow: it drops nothing"));
	buf_append_char(out, '\n');
	if (claim.texts[CLAIM_DIGEST].len > 0) {
		put_label(out, "");
		buf_append_span(out, SPAN("digest "));
		buf_append_span(out, claim.texts[CLAIM_DIGEST]);
		buf_append_char(out, '\n');
		put_order(out, &claim);
	} else {
		put_label(out, "");
		buf_append_span(out, claim.texts[CLAIM_FATE]);
		buf_append_span(out, SPAN(": "));
		buf_append_span(out, claim.texts[CLAIM_WHY]);
		buf_append_char(out, '\n');
	}
	return put_parts(claim.texts[CLAIM_PARTS], out);
}

/* ---- what was looked for ---- */

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

/* Each field is a list of one part. */
static int read_field(struct span list, struct answer_members *ret_part)
{
	if (list.len < 2)
		return ERR_INVALID;
	return answer_read(span_of(list.ptr + 1, list.len - 2), part_members,
	                   ARRAY_LEN(part_members), ret_part);
}

static void put_field(struct buf *out, size_t field, const struct answer_members *part,
                      size_t width)
{
	bool content = field + 1 == ARRAY_LEN(field_names);
	put_label(out, field_names[field]);
	put_cell(out, part->texts[PART_TEXT], width + 2);
	/* What the content is, its digest tells. */
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
		error = read_field(fields.texts[i], &parts[i]);
		if (error == 0)
			width = widest(width, parts[i].texts[PART_TEXT]);
	}
	for (size_t i = 0; i < ARRAY_LEN(field_names) && error == 0; i++)
		if (fields.texts[i].len > 0)
			put_field(out, i, &parts[i], width);
	return error;
}

static void put_title(struct buf *out, const struct answer_members *event)
{
	struct span name = event->texts[EVENT_CASE];
	if (name.len == 0)
		name = SPAN("nothing that the recipe knows");
	put_label(out, "this is");
	buf_append_span(out, name);
	if (event->texts[EVENT_INSIDE_MORE].len > 0)
		buf_printf(out, ", inside of %.*s", (int)event->texts[EVENT_INSIDE_MORE].len,
		           event->texts[EVENT_INSIDE_MORE].ptr);
	if (event->texts[EVENT_INSIDE].len > 0)
		buf_printf(out, ", inside of %.*s", (int)event->texts[EVENT_INSIDE].len,
		           event->texts[EVENT_INSIDE].ptr);
	buf_append_char(out, '\n');
}

static int put_event(void *user, struct span object, uint32_t index);

static int put_batch(const struct answer_members *batch, struct buf *out)
{
	int error = answer_each(batch->texts[EVENT_EVENTS], out, put_event);
	put_line(out, "refused", batch->texts[EVENT_REFUSED]);
	return error;
}

static int put_event(void *user, struct span object, uint32_t index)
{
	struct buf *out = user;
	struct answer_members event;
	int error = answer_read(object, event_members, ARRAY_LEN(event_members), &event);
	if (error != 0)
		return error;
	if (event.texts[EVENT_BATCH].len > 0)
		return put_batch(&event, out);
	if (index > 0)
		buf_append_char(out, '\n');
	put_title(out, &event);
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
