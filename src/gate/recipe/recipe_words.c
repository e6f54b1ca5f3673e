/* recipe_words: a claim of an event in words, for traces. See recipe.h. */
#include "gate/recipe/recipe_internal.h"
#include "gate/trace.h"

#define VALUE_MAX 256 /* bytes of one value; a key of longer ones is cut anyway */

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

static void put_value(struct recipe_run *run, uint16_t part, struct buf *out)
{
	struct recipe_value value = recipe_part_value(run, part);
	char bytes[VALUE_MAX];
	struct span text = value.text.raw;

	if (value.type == DIGEST_MISSING)
		return;
	if (value.type == DIGEST_STRING &&
	    event_text_value(value.text, bytes, sizeof(bytes), &text) < 0)
		text = value.text.raw;
	buf_append_span(out, text.len > VALUE_MAX ? span_of(text.ptr, VALUE_MAX) : text);
}

static void put_parts(const struct recipe *recipe, const struct recipe_claim *claim,
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
		put_value(run, claim->parts[i], out);
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
	put_parts(recipe, claim, memory);
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
