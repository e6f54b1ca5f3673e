/* recipe_explain: how a recipe sees an event, in JSON, and its claims in words. See
 * recipe.h. */
#include <stdio.h>

#include "codec/json_write.h"
#include "gate/recipe/recipe_internal.h"
#include "gate/trace.h"

#define VALUE_SHOWN_MAX 256 /* bytes of a value; of the rest only its length is shown */
#define DECODED_MAX 4096
#define WORD_MAX 256 /* bytes of one value; a key of longer ones is cut anyway */

/* The value as text: decoded if it fits into `bytes`, else as written. */
static struct span value_text(const struct recipe_value *value, char *bytes, size_t room)
{
	struct span text = value->text.raw;
	if (value->type == DIGEST_STRING && event_text_value(value->text, bytes, room, &text) < 0)
		text = value->text.raw;
	return text;
}

/* A value for people: decoded, and cut if it is long. */
static void put_value(struct buf *out, const struct recipe_value *value)
{
	char bytes[DECODED_MAX];
	if (value->type == DIGEST_MISSING)
		return;
	struct span text = value_text(value, bytes, sizeof(bytes));
	bool cut = text.len > VALUE_SHOWN_MAX;
	json_add_text(out, "value", cut ? span_of(text.ptr, VALUE_SHOWN_MAX) : text);
	if (cut)
		json_add_u64(out, "length", text.len);
}

static void put_part(struct recipe_run *run, struct buf *out, uint16_t number)
{
	const struct recipe_part *part = &run->recipe->parts[number];
	struct recipe_value value = recipe_part_value(run, number);
	json_object_begin(out, NULL);
	json_add_text(out, "part", part->text);
	json_add_string(out, "type", recipe_value_name(&value));
	put_value(out, &value);
	if (part->optional)
		json_add_bool(out, "optional", true);
	json_object_end(out);
}

static void put_claim(struct recipe_run *run, struct buf *out, const struct recipe_claim *it)
{
	static const char *const kinds[] = { "once", "content", "newest" };
	static const char *const fates[] = { "taken", "skipped", "not meant" };
	struct claim claim;
	struct error_text problem = { "" };
	int fate = recipe_run_claim(run, it, &claim, &problem);
	json_object_begin(out, NULL);
	json_add_text(out, "name", it->name);
	json_add_string(out, "kind", kinds[it->kind]);
	json_add_u64(out, "window_s", it->window_s);
	if (it->shadow)
		json_add_bool(out, "shadow", true);
	json_add_string(out, "fate", fate < 0 ? "refused" : fates[fate]);
	if (fate != CLAIM_TAKEN)
		json_add_string(out, "why", problem.text);
	if (fate == CLAIM_TAKEN) {
		/* Its key: the rest of the digest is the content check, see claim.h. */
		char text[24 + 1];
		snprintf(text, sizeof(text), "%016llx%08llx",
		         (unsigned long long)claim.digest.word[0],
		         (unsigned long long)(claim.digest.word[1] >> 32));
		json_add_string(out, "digest", text);
	}
	if (fate == CLAIM_TAKEN && claim.kind == CLAIM_NEWEST) {
		json_add_u64(out, "order_ms", claim.order >> 8);
		json_add_u64(out, "rank", claim.order & 0xFF);
	}
	json_array_begin(out, "parts");
	for (uint32_t i = 0; i < it->part_count; i++)
		put_part(run, out, it->parts[i]);
	if (it->part_count == 0) {
		json_object_begin(out, NULL);
		json_add_string(out, "part", "body");
		json_add_string(out, "type", "canonical form");
		json_object_end(out);
	}
	if (it->time)
		put_part(run, out, it->time);
	if (it->rank)
		put_part(run, out, it->rank);
	json_array_end(out);
	json_object_end(out);
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
	json_object_begin(out, "fields");
	for (int i = 0; i < FIELD_COUNT; i++) {
		if (it->fields[i] == 0)
			continue;
		json_array_begin(out, names[i]);
		put_part(run, out, it->fields[i]);
		json_array_end(out);
	}
	json_object_end(out);
}

static void put_test(struct recipe_run *run, struct buf *out, uint16_t number)
{
	const struct recipe_test *test = &run->recipe->tests[number];
	struct recipe_value value = recipe_part_value(run, test->part);
	json_object_begin(out, NULL);
	json_add_text(out, "part", run->recipe->parts[test->part].text);
	if (!test->any)
		json_add_text(out, test->negate ? "not" : "is", test->text);
	else
		json_add_string(out, "is", test->negate ? "not there" : "there");
	json_add_string(out, "type", recipe_value_name(&value));
	put_value(out, &value);
	json_add_bool(out, "holds", recipe_test_holds(run, number));
	json_object_end(out);
}

static void explain_case(struct recipe_run *run, struct buf *out, const struct recipe_case *it)
{
	struct recipe_result result;
	struct error_text problem = { "" };
	json_add_string(out, "case", it->name);
	int error = recipe_run_case(run, it, &result, &problem);
	if (error < 0) {
		json_add_string(out, "refused", problem.text);
	} else {
		char content[16 + 1];
		snprintf(content, sizeof(content), "%016llx",
		         (unsigned long long)result.event.content);
		json_add_string(out, "content", content);
		if (result.event.replay)
			json_add_bool(out, "replay", true);
		json_add_u64(out, "claims_taken", result.claim_count);
	}
	put_fields(run, out, it);
	json_array_begin(out, "claims");
	for (uint32_t i = 0; i < it->claim_count; i++)
		put_claim(run, out, &it->claims[i]);
	json_array_end(out);
}

/* The run and case that the event's claims come from: of the event itself, or of the one in
 * a string of it. Writes the cases around it to `out` (may be NULL). */
static const struct recipe_case *find_inner(struct recipe_run **run, struct buf *out)
{
	const struct recipe_case *it = recipe_find_case(*run);
	while (it && it->fields[FIELD_INNER]) {
		struct recipe_run *inner;
		struct recipe_result unused;
		if (recipe_run_inner(*run, it, &inner, &unused) < 0)
			break;
		if (out)
			json_add_string(out, (*run)->level == 0 ? "inside" : "inside_of_it",
			                it->name);
		*run = inner;
		it = recipe_find_case(inner);
	}
	return it;
}

static void explain_run(struct recipe_run *run, struct buf *out)
{
	struct error_text problem = { "" };
	json_object_begin(out, NULL);
	json_add_text(out, "source", run->recipe->source);
	json_add_text(out, "scope", run->recipe->scope);
	const struct recipe_case *it = find_inner(&run, out);
	if (it) {
		explain_case(run, out, it);
	} else {
		recipe_refuse(run, &problem);
		json_add_string(out, "refused", problem.text);
	}
	/* Cases in their order, up to the one that holds. */
	json_array_begin(out, "tried");
	for (uint32_t i = 0; i < run->recipe->case_count; i++) {
		const struct recipe_case *tried = &run->recipe->cases[i];
		json_object_begin(out, NULL);
		json_add_string(out, "case", tried->name);
		json_array_begin(out, "conditions");
		for (uint32_t j = 0; j < tried->test_count; j++)
			put_test(run, out, tried->tests[j]);
		json_array_end(out);
		json_object_end(out);
		if (tried == it)
			break;
	}
	json_array_end(out);
	json_object_end(out);
}

static void explain_batch(struct recipe_items *items, enum recipe_step step,
                          struct recipe_result *result, struct error_text *problem, struct buf *out)
{
	json_object_begin(out, NULL);
	json_add_bool(out, "batch", true);
	json_array_begin(out, "events");
	for (; step == RECIPE_EVENT || step == RECIPE_REFUSED;
	     step = recipe_items_next(items, result, problem)) {
		recipe_run_next(items->run, result->payload, BODY_UNREAD);
		explain_run(items->run, out);
	}
	json_array_end(out);
	if (step == RECIPE_BROKEN)
		json_add_string(out, "refused", problem->text);
	json_object_end(out);
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
		json_object_begin(out, NULL);
		json_add_string(out, "refused", "there is no memory");
		json_object_end(out);
	}
}

/* ---- in words, for traces ---- */

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

bool recipe_words(const struct recipe *recipe, struct recipe_scratch *scratch,
                  const struct recipe_input *input, uint32_t index, struct buf *memory,
                  struct recipe_words *ret_words)
{
	struct recipe_run *run = recipe_run_at(scratch, 0);

	if (!run)
		return false;
	recipe_run_begin(run, recipe, scratch, input);
	const struct recipe_case *it = find_inner(&run, NULL);
	const struct recipe_claim *claim = it ? find_claim(run, it, index) : NULL;
	if (!claim)
		return false;
	size_t start = memory->len;
	for (uint32_t i = 0; i < claim->part_count; i++) {
		if (i > 0)
			buf_append_span(memory, SPAN(", "));
		buf_append_span(memory, recipe->parts[claim->parts[i]].text);
	}
	if (claim->part_count == 0)
		buf_append_span(memory, SPAN("body"));
	size_t parts_end = memory->len;
	for (uint32_t i = 0; i < claim->part_count; i++) {
		if (i > 0)
			buf_append_char(memory, TRACE_PART_END);
		char bytes[WORD_MAX];
		struct recipe_value value = recipe_part_value(run, claim->parts[i]);
		struct span text = value_text(&value, bytes, sizeof(bytes));
		if (value.type != DIGEST_MISSING)
			buf_append(memory, text.ptr, text.len < WORD_MAX ? text.len : WORD_MAX);
	}
	if (memory->failed)
		return false;
	*ret_words = (struct recipe_words){
		.rule = claim->name,
		.parts = span_of(memory->ptr + start, parts_end - start),
		.key = span_of(memory->ptr + parts_end, memory->len - parts_end),
	};
	return true;
}
