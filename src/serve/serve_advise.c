/* Windows that are too short are told of, claims that were forgotten end: what is looked at
 * from time to time. See serve_private.h. */
#include "serve/serve_private.h"

#include "base/log.h"
#include "sys/clock.h"

_Static_assert(CONFIG_SOURCES_MAX <= TRACE_SOURCES_MAX, "every source has its advice");

#define ADVISE_MS 10000
#define SWEEP_MS 60000

static void advise_source(void *user, struct span source, const struct gap *gap)
{
	struct serve *serve = user;
	uint64_t now_ms = clock_read(clock_system()).wall_ms;
	for (uint32_t i = 0; i < serve->sources->count; i++) {
		const struct source *it = &serve->sources->sources[i];
		if (!span_eq(it->name, source))
			continue;
		struct advice advice = advice_make(
			&(struct advice_question){ it->name, it->window_ms, it->retries_ms }, gap);
		if (!advice_alarm_due(&serve->alarms[i], &advice, now_ms))
			return;
		struct buf words = { 0 };
		advice_text(&advice, &words);
		log_warn("a window", log_span("source", it->name),
		         log_span("text", buf_span(&words)));
		buf_free(&words);
	}
}

static void advise(struct loop_timer *timer)
{
	struct serve *serve = container_of(timer, struct serve, advise);
	if (serve->traces)
		trace_log_gaps(serve->traces, advise_source, serve);
	if (loop_timer_set(serve->ios[0].loop, timer, ADVISE_MS) != 0)
		log_error("the timer of advice cannot be set");
}

static void sweep(struct loop_timer *timer)
{
	struct serve *serve = container_of(timer, struct serve, sweep);
	if (serve->phase == PHASE_SERVE)
		serve_callers_sweep(&serve->callers, serve->ios[0].webhook.options.store,
		                    clock_read(clock_system()).wall_ms);
	if (loop_timer_set(serve->ios[0].loop, timer, SWEEP_MS) != 0)
		log_warn("the timer that ends forgotten claims cannot be set");
}

int serve_advise_start(struct serve *serve)
{
	struct loop *loop = serve->ios[0].loop;
	serve->advise.due = advise;
	serve->sweep.due = sweep;
	int error = loop_timer_set(loop, &serve->advise, ADVISE_MS);
	return error != 0 ? error : loop_timer_set(loop, &serve->sweep, SWEEP_MS);
}
