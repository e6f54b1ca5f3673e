/* verdict: see verdict.h. */
#include "gate/verdict.h"

#include "base/check.h"

const char *verdict_name(enum verdict verdict)
{
	static const char *const names[VERDICT_COUNT] = {
		[VERDICT_NONE] = "none",           [VERDICT_NEW] = "new",
		[VERDICT_DUPLICATE] = "duplicate", [VERDICT_STALE] = "stale",
		[VERDICT_CONFLICT] = "conflict",   [VERDICT_BUSY] = "busy",
		[VERDICT_SPOOLED] = "spooled",
	};
	CHECK((unsigned)verdict < VERDICT_COUNT);
	return names[verdict];
}

const char *outcome_name(enum outcome outcome)
{
	static const char *const names[OUTCOME_COUNT] = {
		[OUTCOME_NONE] = "none",         [OUTCOME_DONE] = "done",
		[OUTCOME_DEAD] = "dead",         [OUTCOME_UNKNOWN] = "unknown",
		[OUTCOME_RELEASED] = "released",
	};
	CHECK((unsigned)outcome < OUTCOME_COUNT);
	return names[outcome];
}
