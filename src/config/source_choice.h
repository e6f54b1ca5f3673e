/*
 * source_choice: by which rules a command judges events: those of a preset, or of
 * a source of a configuration.
 *
 * Room:      config. Threads: the main thread.
 * Ownership: source_choice_make() gives, source_choice_free() takes; the recipe
 *            lives as long as the choice.
 * Failure:   EXIT_CODE_…; what is wrong is on standard error then.
 */
#pragma once

#include "config/config.h"
#include "gate/digest.h"
#include "gate/recipe/recipe.h"
#include "store/store.h"

struct source_choice_options {
	const char *preset; /* NULL with `config`, and for `auto` */
	const char *config;
	const char *source; /* with `config`; NULL: its only one */
	uint64_t window_ms; /* 0: that of the configuration, or 4 days */
};

struct source_choice {
	struct recipe *recipe;
	enum store_conflict on_conflict;
	uint32_t window_s;
	struct span header; /* without this one no event is understood; empty: none such */
	struct config *config;
};

/* `key` is that of the digests. */
int source_choice_make(const char *command, const struct source_choice_options *options,
                       const unsigned char key[static DIGEST_KEY_LEN],
                       struct source_choice *ret_choice) must_check;
void source_choice_free(struct source_choice *choice);
