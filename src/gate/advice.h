/*
 * advice: is a source's window long enough, and which window would be?
 *
 * It goes by three things: the longest gap that was seen between an original
 * and its duplicate (also of duplicates that came after the window), how many
 * were seen, and for how long the sender is known to retry.
 *
 *   too short      a duplicate came later than the window is long
 *   near           … later than 80 % of it
 *   below retries  none was seen so late, but the sender retries for longer
 *   fits           all came within 80 %
 *   no data        no duplicate yet
 *
 * The advised window is the longest gap times two (times one and a half when a
 * thousand or more were seen), at least what the sender's retries need, rounded
 * up to a window that one would write.
 *
 * Room:      gate: pure, `now` is a parameter. Threads: values; a gap may be
 *            written meanwhile.
 * Ownership: everything is the caller's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"
#include "gate/gap.h"

enum advice_state {
	ADVICE_NO_DATA = 0,
	ADVICE_FITS,
	ADVICE_BELOW_RETRIES,
	ADVICE_NEAR,
	ADVICE_TOO_SHORT,
};

/* How much the numbers can carry. */
enum advice_trust {
	ADVICE_TRUST_NONE = 0, /* no duplicate seen */
	ADVICE_TRUST_LOW,      /* fewer than 20 */
	ADVICE_TRUST_FAIR,     /* fewer than 1,000 */
	ADVICE_TRUST_GOOD,
};

struct advice_question {
	struct span source;
	uint64_t window_ms;  /* 0: not known */
	uint64_t retries_ms; /* how long the sender retries; 0: not known */
};

struct advice {
	struct span source;
	enum advice_state state;
	enum advice_trust trust;
	uint64_t window_ms;
	uint64_t retries_ms;
	uint64_t advised_ms; /* 0: nothing to go by */
	uint64_t highest_ms; /* longest gap seen */
	uint64_t half_ms;    /* half of the duplicates came within this … */
	uint64_t most_ms;    /* … and 99 of 100 within this */
	uint64_t duplicates; /* gaps seen within the window */
	uint64_t returns;    /* came back after the window, about */
};

/* `gap` may be NULL: nothing seen yet. */
struct advice advice_make(const struct advice_question *question, const struct gap *gap);

/* "window 1h is too short: duplicates arrive up to 23h later; 2d is advised" */
void advice_text(const struct advice *advice, struct buf *out);

const char *advice_state_name(enum advice_state state); /* "too short", … */
const char *advice_trust_name(enum advice_trust trust); /* "none", "low", … */

/* How long the senders behind a preset are known to retry; 0: unknown, or they do
 * not. The one table of it: config/preset_guide.c has the words. */
uint64_t advice_retries_ms(struct span preset);

/* Rounds up to a usual window, such as 15m, 6h or 4d. */
uint64_t advice_round_up_ms(uint64_t ms);

/* When to warn again. Zeroed: never warned. */
struct advice_alarm {
	uint64_t warned_ms;
	uint64_t highest_ms;
	enum advice_state state;
};

/* True if a warning is due: the window is too short or nearly so, and there was no warning in
 * the last day, or it became worse, or the gaps grew by a quarter. Records the warning. */
bool advice_alarm_due(struct advice_alarm *alarm, const struct advice *advice, uint64_t now_ms);
