/*
 * preset_guide: what people must know of the platform behind a preset: how long
 * it sends again, how it is authenticated, how it is set up. The recipe itself is
 * in gate/presets.h.
 *
 * Room: config. Threads: constant.
 */
#pragma once

#include "base/span.h"

struct preset_guide {
	const char *name;         /* of the preset */
	const char *source;       /* what a starting file calls its source */
	const char *retries;      /* how long it sends again, in words; see advice_retries_ms() */
	const char *window;       /* for a starting file */
	const char *const *setup; /* lines on how to point it at stile; ends with NULL */
	const char *const *auth;  /* lines of YAML below `auth:`; ends with NULL */
};

/* NULL: nothing is known. */
const struct preset_guide *preset_guide_find(struct span preset);
