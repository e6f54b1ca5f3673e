/* recipe_explain: how a recipe sees an event, in JSON, and its claims in words. See
 * recipe.h. */
#include <stdio.h>

#include "gate/recipe/recipe_internal.h"
#include "gate/trace.h"

#define VALUE_SHOWN_MAX 256 /* bytes of a value; the rest is told by its length */
#define DECODED_MAX 4096
#define WORD_MAX 256 /* bytes of one value; a key of longer ones is cut anyway */

static void put_name(struct buf *out, const char *name)
{
	if (out->len > 0 && out->ptr[out->len - 1] != '{')
		buf_append_char(out, ',');
	buf_append_json(out, span_str(name));
	buf_append_char(out, ':');
}

static void put_text(struct buf *out, const char *name, struct span text)
{
	put_name(out, name);
	buf_append_json(out, text);
}

static void put_str(struct buf *out, const char *name, const char *text)
{
	put_text(out, name, span_str(text));
}

/* Begins an element of a list. */
static void put_element(struct buf *out)
{
	if (out->len > 0 && out->ptr[out->len - 1] != '[')
		buf_append_char(out, ',');
}

static void put_shown(struct buf *out, const char *name, struct span text)
{
	bool cut = text.len > VALUE_SHOWN_MAX;
	put_text(out, name, cut ? span_of(text.ptr, VALUE_SHOWN_MAX) : text);
	if (cut) {
		put_name(out, "length");
		buf_append_u64(out, text.len);
	}
}

/* A value as people know it: decoded, and cut where it is long. */
static void put_value(struct buf *out, const struct recipe_value *value)
{
	char bytes[DECODED_MAX];
	struct span text = value->text.raw;
	if (value->type == DIGEST_MISSING)
		return;
	if (value->type == DIGEST_STRING &&
	    event_text_value(value->text, bytes, sizeof(bytes), &text) < 0)
		text = value->text.raw;
	put_shown(out, "value", text);
}

static void put_part(struct recipe_run *run, struct buf *out, uint16_t number)
{
	const struct recipe_part *part = &run->recipe->parts[number];
	struct recipe_value value = recipe_part_value(run, number);
	put_element(out);
	buf_append_char(out, '{');
	put_text(out, "part", part->text);
	put_str(out, "type", recipe_value_name(&value));
	put_value(out, &value);
	if (part->optional)
		buf_append_span(out, SPAN(",\"optional\":true"));
	buf_append_char(out, '}');
}

static const char *kind_name(enum claim_kind kind)
{
	static const char *const names[] = { "once", "content", "newest" };
	return names[kind];
}

/* Its key: the rest of the digest is the content check, see claim.h. */
static void put_digest(struct buf *out, const struct digest *digest)
{
	put_name(out, "digest");
	buf_printf(out, "\"%016llx%08llx\"", (unsigned long long)digest->word[0],
	           (unsigned long long)(digest->word[1] >> 32));
}

static void put_parts(struct recipe_run *run, struct buf *out, const struct recipe_claim *claim)
{
	put_name(out, "parts");
	buf_append_char(out, '[');
	for (uint32_t i = 0; i < claim->part_count; i++)
		put_part(run, out, claim->parts[i]);
	if (claim->part_count == 0)
		buf_append_span(out, SPAN("{\"part\":\"body\",\"type\":\"canonical form\"}"));
	if (claim->time)
		put_part(run, out, claim->time);
	if (claim->rank)
		put_part(run, out, claim->rank);
	buf_append_char(out, ']');
}

static void put_fate(struct buf *out, int fate, const struct claim *claim,
                     const struct error_text *problem)
{
	static const char *const fates[] = { "taken", "skipped", "not meant" };
	put_str(out, "fate", fate < 0 ? "refused" : fates[fate]);
	if (fate != CLAIM_TAKEN) {
		put_str(out, "why", problem->text);
		return;
	}
	put_digest(out, &claim->digest);
	if (claim->kind == CLAIM_NEWEST) {
		put_name(out, "order_ms");
		buf_append_u64(out, claim->order >> 8);
		put_name(out, "rank");
		buf_append_u64(out, claim->order & 0xFF);
	}
}

static void put_claim(struct recipe_run *run, struct buf *out, const struct recipe_claim *it)
{
	struct claim claim;
	struct error_text problem = { "" };
	int fate = recipe_run_claim(run, it, &claim, &problem);
	put_element(out);
	buf_append_char(out, '{');
	put_text(out, "name", it->name);
	put_str(out, "kind", kind_name(it->kind));
	put_name(out, "window_s");
	buf_append_u64(out, it->window_s);
	if (it->shadow)
		buf_append_span(out, SPAN(",\"shadow\":true"));
	put_fate(out, fate, &claim, &problem);
	put_parts(run, out, it);
	buf_append_char(out, '}');
}

static void put_fields(struct recipe_run *run, struct buf *out, const struct recipe_case *it)
{
	static const char *const names[FIELD_COUNT] = {
		[FIELD_ID] = "id",         [FIELD_TYPE] = "type",
		[FIELD_ENTITY] = "entity", [FIELD_TIME] = "time",
		[FIELD_ORIGIN] = "origin", [FIELD_CORRELATION] = "correlation",
		[FIELD_REPLAY] = "replay", [FIELD_CONTENT] = "content",
		[FIELD_INNER] = "inner",   [FIELD_ITEMS] = "items",
	};
	put_name(out, "fields");
	buf_append_char(out, '{');
	for (int i = 0; i < FIELD_COUNT; i++) {
		if (it->fields[i] == 0)
			continue;
		put_name(out, names[i]);
		buf_append_char(out, '[');
		put_part(run, out, it->fields[i]);
		buf_append_char(out, ']');
	}
	buf_append_char(out, '}');
}

static void put_test(struct recipe_run *run, struct buf *out, uint16_t number)
{
	const struct recipe_test *test = &run->recipe->tests[number];
	struct recipe_value value = recipe_part_value(run, test->part);
	put_element(out);
	buf_append_char(out, '{');
	put_text(out, "part", run->recipe->parts[test->part].text);
	if (!test->any)
		put_text(out, test->negate ? "not" : "is", test->text);
	else
		put_str(out, "is", test->negate ? "not there" : "there");
	put_str(out, "type", recipe_value_name(&value));
	put_value(out, &value);
	buf_append_span(out, recipe_test_holds(run, number) ? SPAN(",\"holds\":true}")
	                                                    : SPAN(",\"holds\":false}"));
}

static void put_case(struct recipe_run *run, struct buf *out, const struct recipe_case *it)
{
	put_element(out);
	buf_append_char(out, '{');
	put_str(out, "case", it->name);
	put_name(out, "conditions");
	buf_append_char(out, '[');
	for (uint32_t i = 0; i < it->test_count; i++)
		put_test(run, out, it->tests[i]);
	buf_append_span(out, SPAN("]}"));
}

/* Cases in their order, up to the one that holds. */
static void put_tried(struct recipe_run *run, struct buf *out, const struct recipe_case *until)
{
	const struct recipe *recipe = run->recipe;
	put_name(out, "tried");
	buf_append_char(out, '[');
	for (uint32_t i = 0; i < recipe->case_count; i++) {
		put_case(run, out, &recipe->cases[i]);
		if (&recipe->cases[i] == until)
			break;
	}
	buf_append_char(out, ']');
}

static void put_result(struct buf *out, const struct recipe_result *result)
{
	put_name(out, "content");
	buf_printf(out, "\"%016llx\"", (unsigned long long)result->event.content);
	if (result->event.replay)
		buf_append_span(out, SPAN(",\"replay\":true"));
	put_name(out, "claims_taken");
	buf_append_u64(out, result->claim_count);
}

static void explain_case(struct recipe_run *run, struct buf *out, const struct recipe_case *it)
{
	struct recipe_result result;
	struct error_text problem = { "" };
	put_str(out, "case", it->name);
	int error = recipe_run_case(run, it, &result, &problem);
	if (error < 0)
		put_str(out, "refused", problem.text);
	else
		put_result(out, &result);
	put_fields(run, out, it);
	put_name(out, "claims");
	buf_append_char(out, '[');
	for (uint32_t i = 0; i < it->claim_count; i++)
		put_claim(run, out, &it->claims[i]);
	buf_append_char(out, ']');
}

/* The event that counts: this one, or the one in a string of it. */
static void explain_run(struct recipe_run *run, struct buf *out)
{
	struct error_text problem = { "" };
	struct recipe_result result;
	const struct recipe_case *it = recipe_find_case(run);
	buf_append_char(out, '{');
	put_text(out, "source", run->recipe->source);
	put_text(out, "scope", run->recipe->scope);
	while (it && it->fields[FIELD_INNER]) {
		struct recipe_run *inner;
		if (recipe_run_inner(run, it, &inner, &result) < 0)
			break;
		put_str(out, run->level == 0 ? "inside" : "inside_of_it", it->name);
		run = inner;
		it = recipe_find_case(inner);
	}
	if (it) {
		explain_case(run, out, it);
	} else {
		recipe_refuse(run, &problem);
		put_str(out, "refused", problem.text);
	}
	put_tried(run, out, it);
	buf_append_char(out, '}');
}

static void explain_batch(struct recipe_items *items, enum recipe_step step,
                          struct recipe_result *result, struct error_text *problem, struct buf *out)
{
	buf_append_span(out, SPAN("{\"batch\":true,\"events\":["));
	for (; step == RECIPE_EVENT || step == RECIPE_REFUSED;
	     step = recipe_items_next(items, result, problem)) {
		put_element(out);
		recipe_run_next(items->run, result->payload, BODY_UNREAD);
		explain_run(items->run, out);
	}
	buf_append_char(out, ']');
	if (step == RECIPE_BROKEN)
		put_str(out, "refused", problem->text);
	buf_append_char(out, '}');
}

void recipe_explain(const struct recipe *recipe, struct recipe_scratch *scratch,
                    const struct recipe_input *input, struct buf *out)
{
	struct recipe_items items;
	struct recipe_result result;
	struct error_text problem = { "" };
	recipe_items_begin(&items, recipe, scratch, input);
	enum recipe_step step = recipe_items_next(&items, &result, &problem);
	struct recipe_run *run = recipe_run_at(scratch, 0);
	if (items.batch) {
		explain_batch(&items, step, &result, &problem, out);
	} else if (run) {
		recipe_run_begin(run, recipe, scratch, input);
		explain_run(run, out);
	} else {
		buf_append_span(out, SPAN("{\"refused\":\"there is no memory\"}"));
	}
}

/* ---- in words, for traces ---- */

/* The run and case that the event's claims come from: those of the event inside a
 * string of this one, where there is one. */
static const struct recipe_case *find_claims(struct recipe_run **run)
{
	const struct recipe_case *it = recipe_find_case(*run);

	while (it && it->fields[FIELD_INNER]) {
		struct recipe_run *inner;
		struct recipe_result unused;
		if (recipe_run_inner(*run, it, &inner, &unused) < 0)
			break;
		*run = inner;
		it = recipe_find_case(inner);
	}
	return it;
}

/* The claim that is `index`-th of those that the event takes. */
static const struct recipe_claim *find_claim(struct recipe_run *run, const struct recipe_case *it,
                                             uint32_t index)
{
	for (uint32_t i = 0; i < it->claim_count; i++) {
		struct claim claim;
		struct error_text unused;
		if (recipe_run_claim(run, &it->claims[i], &claim, &unused) == CLAIM_TAKEN &&
		    index-- == 0)
			return &it->claims[i];
	}
	return NULL;
}

static void put_word(struct recipe_run *run, uint16_t part, struct buf *out)
{
	struct recipe_value value = recipe_part_value(run, part);
	char bytes[WORD_MAX];
	struct span text = value.text.raw;

	if (value.type == DIGEST_MISSING)
		return;
	if (value.type == DIGEST_STRING &&
	    event_text_value(value.text, bytes, sizeof(bytes), &text) < 0)
		text = value.text.raw;
	buf_append_span(out, text.len > WORD_MAX ? span_of(text.ptr, WORD_MAX) : text);
}

static void put_part_names(const struct recipe *recipe, const struct recipe_claim *claim,
                           struct buf *out)
{
	for (uint32_t i = 0; i < claim->part_count; i++) {
		if (i > 0)
			buf_append_span(out, SPAN(", "));
		buf_append_span(out, recipe->parts[claim->parts[i]].text);
	}
	if (claim->part_count == 0)
		buf_append_span(out, SPAN("body"));
}

static void put_key(struct recipe_run *run, const struct recipe_claim *claim, struct buf *out)
{
	for (uint32_t i = 0; i < claim->part_count; i++) {
		if (i > 0)
			buf_append_char(out, TRACE_PART_END);
		put_word(run, claim->parts[i], out);
	}
}

bool recipe_words(const struct recipe *recipe, struct recipe_scratch *scratch,
                  const struct recipe_input *input, uint32_t index, struct buf *memory,
                  struct recipe_words *ret_words)
{
	struct recipe_run *run = recipe_run_at(scratch, 0);

	if (!run)
		return false;
	recipe_run_begin(run, recipe, scratch, input);
	const struct recipe_case *it = find_claims(&run);
	const struct recipe_claim *claim = it ? find_claim(run, it, index) : NULL;
	if (!claim)
		return false;
	size_t start = memory->len;
	put_part_names(recipe, claim, memory);
	size_t parts_end = memory->len;
	put_key(run, claim, memory);
	if (memory->failed)
		return false;
	*ret_words = (struct recipe_words){
		.rule = claim->name,
		.parts = span_of(memory->ptr + start, parts_end - start),
		.key = span_of(memory->ptr + parts_end, memory->len - parts_end),
	};
	return true;
}
