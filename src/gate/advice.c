/* advice: see advice.h. */
#include "gate/advice.h"

#include <stdio.h>

#include "base/text.h"

#define MINUTE_MS UINT64_C(60000)
#define HOUR_MS (60 * MINUTE_MS)
#define DAY_MS (24 * HOUR_MS)

#define FEW 20u
#define MANY 1000u

/* Sources: EventBridge and Genesys, see the presets' notes; Stripe: "up to three
 * days"; Shopify: 8 times over 4 hours since September 2024; SNS: a policy of an
 * HTTP endpoint ends within 3,600 s; SQS: a message is kept for 4 days unless the
 * queue says otherwise; Lambda: an asynchronous call is given up after 6 hours
 * unless the function says otherwise; Standard Webhooks: the schedule most senders
 * use ends after 27 h 35 min. GitHub does not retry by itself. */
static const struct {
	struct span preset;
	uint64_t ms;
} known_retries[] = { { { "eventbridge", 11 }, DAY_MS },
	              { { "genesys", 7 }, 4 * DAY_MS },
	              { { "standard-webhooks", 17 }, 28 * HOUR_MS },
	              { { "stripe", 6 }, 3 * DAY_MS },
	              { { "shopify", 7 }, 4 * HOUR_MS },
	              { { "sns", 3 }, HOUR_MS },
	              { { "sqs", 3 }, 4 * DAY_MS },
	              { { "lambda", 6 }, 6 * HOUR_MS } };

uint64_t advice_retries_ms(struct span preset)
{
	for (size_t i = 0; i < ARRAY_LEN(known_retries); i++)
		if (span_eq(preset, known_retries[i].preset))
			return known_retries[i].ms;
	return 0;
}

uint64_t advice_round_up_ms(uint64_t ms)
{
	static const uint64_t steps[] = {
		MINUTE_MS,   5 * MINUTE_MS, 15 * MINUTE_MS, 30 * MINUTE_MS, HOUR_MS,
		2 * HOUR_MS, 3 * HOUR_MS,   6 * HOUR_MS,    12 * HOUR_MS,   DAY_MS,
		2 * DAY_MS,  3 * DAY_MS,    4 * DAY_MS,     5 * DAY_MS,     7 * DAY_MS,
		10 * DAY_MS, 14 * DAY_MS,   21 * DAY_MS,    30 * DAY_MS,    60 * DAY_MS,
		90 * DAY_MS, 180 * DAY_MS,  400 * DAY_MS,
	};
	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		if (ms <= steps[i])
			return steps[i];
	return steps[ARRAY_LEN(steps) - 1];
}

static uint64_t advised_ms(const struct advice *advice)
{
	if (advice->trust == ADVICE_TRUST_NONE)
		return advice->retries_ms > 0 ? advice_round_up_ms(advice->retries_ms) : 0;
	uint64_t margin = advice->trust == ADVICE_TRUST_GOOD ? advice->highest_ms / 2
	                                                     : advice->highest_ms;
	uint64_t need = advice->highest_ms + margin;
	if (need < advice->retries_ms)
		need = advice->retries_ms;
	return advice_round_up_ms(need);
}

struct advice advice_make(const struct advice_question *question, const struct gap *gap)
{
	struct advice advice = {
		.source = question->source,
		.window_ms = question->window_ms,
		.retries_ms = question->retries_ms,
	};
	if (gap) {
		advice.duplicates = histogram_count(&gap->duplicates);
		advice.returns = atomic_load_explicit(&gap->returns_about, memory_order_relaxed);
		advice.highest_ms = gap_highest_ms(gap);
		advice.half_ms = histogram_quantile(&gap->duplicates, 500000);
		advice.most_ms = histogram_quantile(&gap->duplicates, 990000);
	}
	uint64_t seen = advice.duplicates + advice.returns;
	advice.trust = seen == 0     ? ADVICE_TRUST_NONE
	               : seen < FEW  ? ADVICE_TRUST_LOW
	               : seen < MANY ? ADVICE_TRUST_FAIR
	                             : ADVICE_TRUST_GOOD;
	uint64_t window_ms = advice.window_ms;
	advice.state = seen ? ADVICE_FITS : ADVICE_NO_DATA;
	if (window_ms > 0 && advice.retries_ms > window_ms)
		advice.state = ADVICE_BELOW_RETRIES;
	if (seen && window_ms > 0 && advice.highest_ms > window_ms / 5 * 4)
		advice.state = ADVICE_NEAR;
	if (seen && window_ms > 0 && advice.highest_ms >= window_ms)
		advice.state = ADVICE_TOO_SHORT;
	advice.advised_ms = advised_ms(&advice);
	return advice;
}

const char *advice_state_name(enum advice_state state)
{
	static const char *const names[] = { [ADVICE_NO_DATA] = "no data",
		                             [ADVICE_FITS] = "fits",
		                             [ADVICE_BELOW_RETRIES] = "below retries",
		                             [ADVICE_NEAR] = "near",
		                             [ADVICE_TOO_SHORT] = "too short" };
	CHECK((size_t)state < ARRAY_LEN(names));
	return names[state];
}

const char *advice_trust_name(enum advice_trust trust)
{
	static const char *const names[] = { [ADVICE_TRUST_NONE] = "none",
		                             [ADVICE_TRUST_LOW] = "low",
		                             [ADVICE_TRUST_FAIR] = "fair",
		                             [ADVICE_TRUST_GOOD] = "good" };
	CHECK((size_t)trust < ARRAY_LEN(names));
	return names[trust];
}

void advice_text(const struct advice *advice, struct buf *out)
{
	char window[TEXT_DURATION_MAX] = "unknown", retries[TEXT_DURATION_MAX];
	char advised[TEXT_DURATION_MAX], longest[GAP_DURATION_MAX], few[32] = "";
	if (advice->window_ms > 0)
		text_duration(window, advice->window_ms);
	text_duration(retries, advice->retries_ms);
	text_duration(advised, advice->advised_ms);
	gap_duration_text(advice->highest_ms, longest);
	if (advice->trust == ADVICE_TRUST_LOW)
		snprintf(few, sizeof(few), " (only %llu seen)",
		         (unsigned long long)(advice->duplicates + advice->returns));
	buf_printf(out, "window %s", window);
	switch (advice->state) {
	case ADVICE_TOO_SHORT:
		buf_printf(out, " is too short: duplicates arrive up to %s later%s", longest, few);
		break;
	case ADVICE_NEAR:
		buf_printf(out, " is nearly too short: duplicates arrive up to %s later%s", longest,
		           few);
		break;
	case ADVICE_BELOW_RETRIES:
		buf_printf(out, " is shorter than the retries: the sender retries for %s", retries);
		break;
	case ADVICE_FITS:
		buf_printf(out, "%s: duplicates arrive up to %s later%s",
		           advice->window_ms > 0 ? " fits" : "", longest, few);
		break;
	case ADVICE_NO_DATA:
		buf_printf(out, ": no duplicate seen yet");
		if (advice->retries_ms > 0)
			buf_printf(out, "; the sender retries for %s", retries);
		break;
	}
	bool asks = advice->state >= ADVICE_BELOW_RETRIES || advice->window_ms == 0;
	if (asks && advice->advised_ms > 0)
		buf_printf(out, "; %s is advised", advised);
}

bool advice_alarm_due(struct advice_alarm *alarm, const struct advice *advice, uint64_t now_ms)
{
	if (advice->state < ADVICE_NEAR) {
		*alarm = (struct advice_alarm){ 0 };
		return false;
	}
	bool said = alarm->warned_ms != 0;
	bool worse = advice->state > alarm->state;
	bool grown = advice->highest_ms > alarm->highest_ms + alarm->highest_ms / 4;
	bool old = now_ms >= alarm->warned_ms && now_ms - alarm->warned_ms >= DAY_MS;
	if (said && !worse && !grown && !old)
		return false;
	*alarm = (struct advice_alarm){ now_ms, advice->highest_ms, advice->state };
	return true;
}
