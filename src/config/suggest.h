/*
 * suggest: "did you mean …?": the known word nearest to what somebody wrote.
 *
 * Room:      config. Threads: start-up only.
 * Ownership: borrows all words; the best one is that of the caller.
 */
#pragma once

#include "base/span.h"

struct suggest {
	struct span wrote;
	struct span best; /* empty: nothing is near */
	unsigned distance;
};

struct suggest suggest_begin(struct span wrote);
void suggest_offer(struct suggest *suggest, struct span word);
/* All words of a list "one|two|three". */
void suggest_offer_choices(struct suggest *suggest, const char *choices);
