/*
 * The steps of a stop. See serve_private.h.
 *
 * Driven by a timer of io thread 0, each step bounded in time:
 *   1. SERVE    until SIGTERM or SIGINT: then every server stops accepting and finishes
 *                 its requests. The wait for a shared store that is away gets shorter.
 *   2. DRAIN    until all servers are empty, or SERVE_DRAIN_MS: then the rest is cut,
 *                 and the other io threads end. Senders that wait for an outcome are
 *                 answered without one when delivery rests, or after ANSWER_MS.
 *   3. DELIVER  until no ticket is open, or delivery rests, or DELIVER_MS, whether or
 *                 not the sinks make progress: then the lanes are asked to end.
 *   4. SETTLE   until the lanes have ended, which wait some seconds for the store:
 *                 then this loop stops.
 *   5. The store is closed. Operations that it could not finish come back with
 *      ERR_CLOSING, and only then their memory is freed.
 * If all that takes longer than LIMIT_MS, stop_guard ends the process.
 */
#include <unistd.h>

#include "base/exit_code.h"
#include "base/log.h"
#include "serve/serve_private.h"
#include "sys/clock.h"

/* ---- the last bound ---- */

static void watch(void *user)
{
	struct stop_guard *guard = user;
	uint64_t limit_ns = (uint64_t)guard->limit_ms * 1000000;
	uint64_t began_ns = clock_monotonic_ns();
	/* A sleep may end early, but only the clock says that time is up. */
	for (uint64_t spent_ns = 0; spent_ns < limit_ns; spent_ns = clock_monotonic_ns() - began_ns)
		if (wake_event_wait(&guard->wake, (int)((limit_ns - spent_ns) / 1000000) + 1))
			return;
	log_error("shutdown timeout: process ended without a clean stop (does the disk hang?)",
	          log_u64("limit_ms", (uint64_t)guard->limit_ms));
	_exit(EXIT_CODE_FAILED);
}

int stop_guard_begin(struct stop_guard *guard, int limit_ms)
{
	wake_event_init(&guard->wake);
	guard->limit_ms = limit_ms;
	int error = thread_start(&guard->thread, &(struct thread_options){
							 .name = "stile-stop",
							 .cpu = THREAD_ANY_CPU,
							 .run = watch,
							 .user = guard,
						 });
	if (error != 0)
		wake_event_destroy(&guard->wake);
	return error;
}

void stop_guard_end(struct stop_guard *guard)
{
	if (!guard->thread.running)
		return;
	wake_event_set(&guard->wake);
	thread_join(&guard->thread);
	wake_event_destroy(&guard->wake);
}

/* ---- steps ---- */

#define STEP_MS 20
#define ANSWER_MS 3000
#define DELIVER_MS 5000
#define LIMIT_MS 30000

/* Delivery must have rested this long: an event that was just admitted needs less to reach
 * its lane. */
#define REST_MS 100

static void enter(struct serve *serve, enum serve_phase phase)
{
	serve->phase = phase;
	serve->phase_began_ms = loop_now_ms(serve->ios[0].loop);
}

static bool all_drained(struct serve *serve)
{
	for (uint32_t i = 0; i < serve->io_count; i++)
		if (serve->ios[i].stage != IO_DRAINED)
			return false;
	return true;
}

/* Open tickets that wait for a delivery; the others wait for a person or for their caller. */
static uint64_t undelivered(struct serve *serve)
{
	struct store_stats stats;
	store_stats(serve->console.store, &stats);
	uint64_t aside = stats.held_tickets + stats.parked_tickets + stats.dead_tickets +
	                 stats.caller_tickets;
	return stats.open_tickets > aside ? stats.open_tickets - aside : 0;
}

/* True: every event left waits for a later time, or for a sink to recover. A stop waits for
 * neither. */
static bool delivery_rests(struct serve *serve)
{
	uint64_t now_ms = loop_now_ms(serve->ios[0].loop);
	if (!deliver_is_resting(serve->deliver))
		serve->rests_since_ms = 0;
	else if (serve->rests_since_ms == 0)
		serve->rests_since_ms = now_ms;
	return serve->rests_since_ms > 0 && now_ms - serve->rests_since_ms >= REST_MS;
}

static void end_drain(struct serve *serve)
{
	if (!all_drained(serve))
		log_warn("shutdown timeout: open connections closed");
	http_server_cut(serve->ios[0].server);
	if (serve->ios[0].resp.server)
		resp_server_cut(serve->ios[0].resp.server);
	for (uint32_t i = 1; i < serve->io_count; i++)
		atomic_store(&serve->ios[i].end, true);
	serve_admin_end(serve->admin);
	enter(serve, PHASE_DELIVER);
}

static void end_deliver(struct serve *serve, bool in_time)
{
	uint64_t open = undelivered(serve);
	if (!in_time)
		log_warn("shutdown timeout: deliveries interrupted");
	if (open > 0)
		log_warn("open events remain for the next start", log_u64("open_tickets", open));
	store_host_end_takes(serve->host);
	deliver_end(serve->deliver);
	enter(serve, PHASE_SETTLE);
}

void serve_stop_step(struct loop_timer *timer)
{
	struct serve *serve = container_of(timer, struct serve, step);
	struct loop *loop = serve->ios[0].loop;
	uint64_t spent_ms = loop_now_ms(loop) - serve->phase_began_ms;
	serve->callers.stopped = true;
	bool rests = delivery_rests(serve);
	if (serve->phase == PHASE_DRAIN && (rests || spent_ms > ANSWER_MS))
		for (uint32_t i = 0; i < serve->io_count; i++)
			webhook_end_waits(&serve->ios[i].webhook);
	if (serve->phase == PHASE_DRAIN && (all_drained(serve) || spent_ms > SERVE_DRAIN_MS))
		end_drain(serve);
	else if (serve->phase == PHASE_DELIVER &&
	         (undelivered(serve) == 0 || rests || spent_ms > DELIVER_MS))
		end_deliver(serve, spent_ms <= DELIVER_MS);
	else if (serve->phase == PHASE_SETTLE && deliver_ended(serve->deliver))
		loop_stop(loop);
	if (loop_timer_set(loop, &serve->step, STEP_MS) != 0)
		loop_stop(loop);
}

void serve_stop(struct serve *serve, const char *signal)
{
	bool guarded = stop_guard_begin(&serve->guard, LIMIT_MS) == 0; /* of the log, too */
	log_info("stile is stopping", log_str("signal", signal));
	if (!guarded)
		log_warn("shutdown timeout cannot be enforced: no thread for it");
	store_host_hurry(serve->host);
	atomic_store(&serve->console.draining, true);
	enter(serve, PHASE_DRAIN);
	serve_stop_step(&serve->step);
}
