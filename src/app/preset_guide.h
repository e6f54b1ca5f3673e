/*
 * preset_guide: what people must know of the platform behind a preset: how long
 * it sends again, how it is authenticated, how it is set up. The recipe itself is
 * in gate/presets.h.
 *
 * Room: app. Threads: constant.
 */
#pragma once

#include <stdint.h>

#include "base/span.h"

struct preset_guide {
	const char *name;         /* of the preset */
	const char *source;       /* what a starting file calls its source */
	uint32_t retries_s;       /* how long it sends again; 0: unknown or never */
	const char *retries;      /* the same in words */
	const char *window;       /* for a starting file */
	const char *const *setup; /* lines on how to point it at stile; ends with NULL */
	const char *const *auth;  /* lines of YAML below `auth:`; ends with NULL */
};

/* NULL: nothing is known. */
const struct preset_guide *preset_guide_find(struct span preset);
