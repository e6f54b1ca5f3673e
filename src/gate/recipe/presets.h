/*
 * presets: recipes for the platforms that stile knows, as tables of text.
 *
 * Room:      gate. Threads: constants.
 * Ownership: everything is static.
 */
#pragma once

#include "gate/recipe/recipe_spec.h"

struct preset {
	const char *name;  /* "genesys" */
	const char *about; /* one line for people */
	uint32_t case_count;
	const struct recipe_case_spec *cases;
};

/* By name; NULL when there is none. */
const struct preset *preset_find(struct span name);

/* All of them, `auto` first, in the order of the manual. */
const struct preset *preset_list(uint32_t *ret_count);
