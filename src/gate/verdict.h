/*
 * verdict: the decision on an event.
 *
 * Room: gate. The numbers are stored in the journal and never change.
 */
#pragma once

enum verdict {
	VERDICT_NONE = 0,
	VERDICT_NEW = 1,
	VERDICT_DUPLICATE = 2,
	VERDICT_STALE = 3,
	VERDICT_CONFLICT = 4,
	VERDICT_BUSY = 5,
	VERDICT_SPOOLED = 6, /* none yet: kept here, and decided when the shared store is back */
};
#define VERDICT_COUNT 7

enum outcome {
	OUTCOME_NONE = 0,
	OUTCOME_DONE = 1,
	OUTCOME_DEAD = 2,
	OUTCOME_UNKNOWN = 3,
	OUTCOME_RELEASED = 4,
};
#define OUTCOME_COUNT 5

const char *verdict_name(enum verdict verdict); /* "new", "duplicate", … */
const char *outcome_name(enum outcome outcome);
