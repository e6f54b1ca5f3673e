/* recipe_match: which cases of a recipe hold, for those who take no claims. See recipe.h. */
#include "gate/recipe/recipe_internal.h"

#include <errno.h>

int recipe_match(const struct recipe *recipe, struct recipe_scratch *scratch,
                 const struct recipe_input *input, uint64_t cases, uint64_t *ret_held,
                 struct error_text *ret_problem)
{
	struct recipe_run *run = recipe_run_at(scratch, 0);
	uint64_t held = 0;
	if (!run)
		return -ENOMEM;
	recipe_run_begin(run, recipe, scratch, input);
	for (uint32_t i = 0; i < recipe->case_count && i < 64; i++)
		if (cases >> i & 1 && recipe_case_holds(run, &recipe->cases[i]))
			held |= UINT64_C(1) << i;
	if (run->body == BODY_OTHER && run->doc.problem.repeated)
		return recipe_refuse_body(run, ret_problem);
	*ret_held = held;
	return 0;
}

struct event_text recipe_match_entity(const struct recipe_scratch *scratch, uint32_t number)
{
	struct recipe_run *run = scratch->runs[0];
	CHECK(run && number < run->recipe->case_count);
	struct recipe_value value =
		recipe_part_value(run, run->recipe->cases[number].fields[FIELD_ENTITY]);
	bool scalar = value.type == DIGEST_STRING || value.type == DIGEST_NUMBER ||
	              value.type == DIGEST_LITERAL;
	if (!scalar || value.repeated || !recipe_value_is_there(&value))
		return (struct event_text){ .coding = EVENT_TEXT_NONE };
	return value.text;
}
