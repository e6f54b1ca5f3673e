/*
 * serve: see serve.h.
 *
 * Threads: the main thread is io thread 0; others are started for --threads.
 * With one io thread and a quick disk the store lives in that thread's loop
 * (embedded host): each round commits once, then answers. Otherwise the store
 * has a thread of its own and every io thread a port. A lane of delivery (a thread
 * for each sink) always has a port.
 *
 * Shutdown, driven by a timer of io thread 0, each step bounded in time:
 *   1. SERVE    → SIGTERM or SIGINT: every server stops accepting and finishes
 *                 what it has.
 *   2. DRAIN    until all servers are empty, or DRAIN_MS: what is left is cut,
 *                 and the other io threads end. Who waits for an outcome is told that
 *                 there is none when delivery rests, or after ANSWER_MS.
 *   3. DELIVER  until no ticket is open, or delivery rests, or DELIVER_MS, whether or
 *                 not the sink makes headway: then the lanes are asked to end.
 *   4. SETTLE   until they have ended, for which they give the store some seconds:
 *                 then this loop stops.
 *   5. The store is closed. Whatever it could not record comes back with
 *      ERR_CLOSING, and only then the memory of operations is freed.
 * If all that takes longer than STOP_LIMIT_MS, stop_guard ends the process.
 */
#include "app/serve.h"
#include "app/config.h"
#include "app/serve_admin.h"
#include "app/serve_callers.h"
#include "app/serve_orphans.h"
#include "app/serve_resp.h"
#include "app/serve_sinks.h"
#include "app/serve_sources.h"
#include "app/serve_store.h"
#include "app/serve_waiting.h"

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "app/exit_code.h"
#include "app/stop_guard.h"
#include "app/version.h"
#include "base/log.h"
#include "base/mem.h"
#include "console/console.h"
#include "deliver/deliver.h"
#include "door/claims.h"
#include "door/webhook.h"
#include "net/http_server.h"
#include "net/tls.h"
#include "store/port.h"
#include "sys/clock.h"
#include "sys/descriptors.h"
#include "sys/feed.h"
#include "sys/file.h"
#include "sys/loop.h"
#include "sys/thread.h"
#include "sys/worker.h"

_Static_assert(CONFIG_SOURCES_MAX <= TRACE_SOURCES_MAX, "every source has its advice");

#define STEP_MS 20
#define LATER_MS 200
#define CHANGE_RETRY_MS 5000
#define DRAIN_MS 5000
#define ANSWER_MS 3000
#define DELIVER_MS 5000
#define STOP_LIMIT_MS 30000

/* Delivery rests when it has done so for that long: what was just admitted is on its way to
 * a lane until then. */
#define REST_MS 100

/* Descriptors that no connection gets: the store's files, and what else is open. */
#define RESERVED_DESCRIPTORS 64u
#define DESCRIPTORS_PER_THREAD 5u

/* Of the largest size, that must fit into memory at a time. */
#define BODIES_MIN UINT64_C(16)

struct serve;

struct io {
	struct serve *serve;
	struct loop *loop;
	struct http_server *server;
	struct webhook webhook;
	struct claims claims;
	struct resp_door resp; /* its server is NULL when there is none */
	struct port *port;     /* NULL with an embedded store */
	struct thread thread;
	struct loop_hook round;
	struct loop_timer tick;
	bool draining;
	atomic_bool drained;
	atomic_bool end;
	struct error_text problem;
};

enum phase { PHASE_SERVE, PHASE_DRAIN, PHASE_DELIVER, PHASE_SETTLE };

struct serve {
	struct config *config; /* of the start */
	struct config *loaded; /* the latest */
	const struct config_input *input;
	const struct serve_options *options; /* of the start */
	bool embedded;
	struct serve_store store;
	struct waiting *waiting; /* for the store, until the real servers listen */
	uint32_t connections;    /* at most: --max-connections, or what descriptors allow */
	struct store_host *host;
	struct source_counts counts;
	struct source_set *sources; /* the latest */
	struct trace_log *traces;   /* NULL: could not be had */
	struct loop_timer advise;
	struct advice_alarm alarms[CONFIG_SOURCES_MAX]; /* by the place in `sources` */
	struct tls *tls;
	struct http_gauge *gauge;
	struct serve_resp *resp; /* NULL: there is none */
	struct deliver *deliver;
	struct serve_admin *admin;   /* NULL: there is none */
	struct sinks_change *change; /* of the last reload; NULL: there was none */
	struct config *before;       /* which that still needs */
	bool reload_again;           /* SIGHUP came meanwhile */
	struct sinks_failed failed;  /* of the last change, and */
	uint64_t retry_at_ms;        /* when it is tried again */
	struct orphans orphans;
	struct callers callers;
	struct loop_timer sweep; /* of those */
	struct console console;
	struct io ios[CONSOLE_THREADS_MAX];
	uint32_t io_count;
	enum phase phase;
	uint64_t phase_began_ms;
	uint64_t rests_since_ms; /* 0: it does not */
	struct loop_handler signals;
	struct loop_timer step;
	struct loop_timer later;
	struct stop_guard guard;
};

/* ---- one io thread ---- */

static struct store *io_store(const struct io *io)
{
	return io->port ? port_store(io->port) : store_host_store(io->serve->host);
}

static void fill_windows(const struct source_set *set, struct advice_question *windows,
                         struct console_view *ret_view)
{
	for (uint32_t i = 0; i < set->count; i++)
		windows[i] = (struct advice_question){ .source = set->sources[i].name,
			                               .window_ms = set->sources[i].window_ms,
			                               .retries_ms = set->sources[i].retries_ms };
	ret_view->windows = windows;
	ret_view->window_count = set->count;
}

/* The path of the only source is no secret: it is told at the start too. */
static void refuse_path(const struct serve *serve, struct http_request *request)
{
	struct error_text text;
	const struct config *config = serve->config;
	if (span_starts(request->head.path, SPAN("/v1/claims")))
		error_fill(&text, 0,
		           "there is nothing here; claims are made at /v1/claims, unless "
		           "claims.enabled is off");
	else if (span_starts(request->head.path, SPAN("/v1")))
		error_fill(&text, 0,
		           "there is nothing here; the admin API has a listener of its "
		           "own (--admin)");
	else if (config->source_count == 1 && !serve->input->path)
		error_fill(&text, 0, "there is nothing here; events go to %s",
		           config->sources[0].path.ptr);
	else
		error_fill(&text, 0, "there is nothing here; events go to the path of a source");
	http_respond_problem(request, 404, text.text, SPAN_EMPTY);
}

static void handle(struct http_request *request)
{
	struct io *io = request->user;
	if (webhook_handle(&io->webhook, request)) {
		if (unlikely(io->webhook.decided)) /* by a flush ahead: its sender waits */
			loop_enough(io->loop);
		return;
	}
	if (claims_handle(&io->claims, io->webhook.use->set, request))
		return;
	struct console_view view = { .port = io_store(io) };
	struct advice_question windows[CONFIG_SOURCES_MAX];
	fill_windows(io->webhook.use->set, windows, &view);
	if (!console_handle(&io->serve->console, &view, request))
		refuse_path(io->serve, request);
}

/* As handle() decides: all others are answered without a look at the body. */
static bool wants_body(const struct http_request *request)
{
	const struct io *io = request->user;
	return webhook_wants_body(&io->webhook, request) ||
	       claims_wants_body(io->webhook.use->set, request);
}

static void run_store(struct io *io)
{
	if (io->port) {
		store_flush(port_store(io->port));
		port_collect(io->port);
	} else {
		store_host_run(io->serve->host);
	}
}

/* Runs before the server's own hook, so decisions are durable before the
 * answers leave. Whoever waits for an outcome asks the store again in the same round. */
static void io_round(struct loop_hook *hook)
{
	struct io *io = container_of(hook, struct io, round);
	do {
		io->webhook.asked = io->claims.asked = io->resp.asked = false;
		run_store(io);
		if (io->webhook.decided)
			webhook_answer(&io->webhook, clock_monotonic_ns());
		if (unlikely(io->claims.decided))
			claims_answer(&io->claims);
	} while (unlikely(io->webhook.asked || io->webhook.decided || io->claims.asked ||
	                  io->claims.decided || io->resp.asked));
}

static void io_tick(struct loop_timer *timer)
{
	struct io *io = container_of(timer, struct io, tick);
	if (!io->port)
		store_host_tick(io->serve->host);
	if (!io->port && io->resp.server)
		resp_door_tick(&io->resp);
	if (atomic_load(&io->serve->console.draining) && !io->draining) {
		io->draining = io->claims.ending = true;
		http_server_drain(io->server);
		if (io->resp.server)
			resp_server_drain(io->resp.server);
	}
	if (io->draining && http_server_drained(io->server) &&
	    (!io->resp.server || resp_server_drained(io->resp.server)))
		atomic_store(&io->drained, true);
	if (atomic_load(&io->end))
		loop_stop(io->loop);
	else if (loop_timer_set(io->loop, &io->tick, STORE_HOST_TICK_MS) != 0)
		log_error("the tick timer cannot be set"); /* its slot was just freed */
}

static void wake_loop(void *user)
{
	loop_wake(user);
}

/* A commit costs the same for much as for little. */
#define GATHER 4

/* Commands may have many keys. */
#define RESP_IN_FLIGHT 65536u

static int open_port(struct io *io)
{
	struct port_options options = { .wake = wake_loop, .user = io->loop };
	if (io->serve->resp)
		options.max_in_flight = RESP_IN_FLIGHT;
	return port_new(io->serve->host, &options, &io->port);
}

/* A gain and no need. One message is enough for all threads. */
static void batch_calls(struct io *io)
{
	if (io->serve->options->io_uring == SERVE_IO_URING_OFF)
		return;
	int error = http_server_batch(io->server);
	if (error == 0 && io->resp.server)
		error = resp_server_batch(io->resp.server);
	if (error != 0 && io == io->serve->ios)
		log_info(
			"io_uring cannot be used: each connection reads and sends by itself, for a little more CPU",
			log_str("error", error_name(error)));
}

static int open_server(struct io *io)
{
	struct serve *serve = io->serve;
	struct http_server_options options = {
		.loop = io->loop,
		.address = serve->options->listen,
		.joins = io == serve->ios ? serve_waiting_server(serve->waiting)
		                          : serve->ios[0].server,
		.limits = http_limits_default,
		.gauge = serve->gauge,
		.tls = serve->tls,
		.scratch_size = webhook_scratch_size > claims_scratch_size ? webhook_scratch_size
		                                                           : claims_scratch_size,
		.handle = handle,
		.wants_body = wants_body,
		.user = io,
	};
	options.limits.body_bytes = (uint32_t)serve->options->body_bytes;
	if (options.limits.input_bytes < BODIES_MIN * serve->options->body_bytes)
		options.limits.input_bytes = BODIES_MIN * serve->options->body_bytes;
	options.limits.connections = serve->connections;
	options.limits.connections_per_address = (uint32_t)serve->options->connections_per_address;
	return http_server_new(&options, &io->server, &io->problem);
}

/* The loop is there already (the embedded host needs it first). */
static int io_open(struct io *io)
{
	struct serve *serve = io->serve;
	int error = serve->embedded ? 0 : open_port(io);
	if (error == 0)
		error = webhook_init(&io->webhook, &(struct webhook_options){
							   .sources = serve->sources,
							   .store = io_store(io),
							   .traces = serve->traces,
							   .feed = serve->console.feed,
							   .thread = (uint32_t)(io - serve->ios),
						   });
	if (error == 0)
		error = claims_init(&io->claims, &(struct claims_options){
							 .store = io->webhook.options.store,
							 .traces = serve->traces,
							 .key = serve->store.key,
							 .thread = io->webhook.options.thread });
	if (serve->embedded)
		loop_gather(io->loop, GATHER);
	if (error == 0) {
		io->round.round = io_round;
		loop_hook_add(io->loop, &io->round);
		io->tick.due = io_tick;
		error = loop_timer_set(io->loop, &io->tick, STORE_HOST_TICK_MS);
	}
	if (error != 0) {
		error_fill(&io->problem, error, "an io thread cannot start: %s", error_name(error));
		return error;
	}
	error = open_server(io);
	if (error == 0 && serve->resp)
		error = serve_resp_open(serve->resp, &io->resp,
		                        io == serve->ios ? NULL : &serve->ios[0].resp, io->loop,
		                        io_store(io), &io->problem);
	if (error != 0)
		return error;
	batch_calls(io);
	struct console *console = &serve->console;
	console->threads[console->thread_count++] = (struct console_thread){
		.answer_us = io->webhook.answer_us,
		.http = http_server_counters(io->server),
		.resp = io->resp.counters,
		.reply_us = io->resp.server ? resp_server_reply_us(io->resp.server) : NULL,
	};
	return 0;
}

static void io_run(void *user)
{
	struct io *io = user;
	loop_run(io->loop);
	size_t left = io->port ? port_drain(io->port, DRAIN_MS) : 0;
	if (left > 0)
		log_warn("decisions were not made in time; their senders get no answer",
		         log_u64("decisions", left));
}

/* The store is closed: it has let go of every operation, and those live in the
 * server's requests. */
static void io_close(struct io *io)
{
	if (io->port)
		port_collect(io->port);
	claims_release(&io->claims); /* its requests are in the server's memory */
	io->server = http_server_free(io->server);
	resp_door_close(&io->resp);
	if (io->port)
		store_free(port_store(io->port));
	webhook_release(&io->webhook);
	io->loop = loop_free(io->loop);
}

/* ---- shutdown ---- */

static void enter(struct serve *serve, enum phase phase)
{
	serve->phase = phase;
	serve->phase_began_ms = loop_now_ms(serve->ios[0].loop);
}

static bool all_drained(struct serve *serve)
{
	for (uint32_t i = 0; i < serve->io_count; i++)
		if (!atomic_load(&serve->ios[i].drained))
			return false;
	return true;
}

/* The others wait for a person or for whoever claimed them, not for a delivery. */
static uint64_t undelivered(struct serve *serve)
{
	struct store_stats stats;
	store_stats(serve->console.store, &stats);
	uint64_t aside = stats.held_tickets + stats.parked_tickets + stats.dead_tickets +
	                 stats.caller_tickets;
	return stats.open_tickets > aside ? stats.open_tickets - aside : 0;
}

/* What then is left waits for a time ahead, or for a sink that works: a stop does not. */
static bool delivery_rests(struct serve *serve)
{
	uint64_t now_ms = loop_now_ms(serve->ios[0].loop);
	if (!deliver_is_resting(serve->deliver))
		serve->rests_since_ms = 0;
	else if (serve->rests_since_ms == 0)
		serve->rests_since_ms = now_ms;
	return serve->rests_since_ms > 0 && now_ms - serve->rests_since_ms >= REST_MS;
}

static void end_waits(struct serve *serve)
{
	for (uint32_t i = 0; i < serve->io_count; i++)
		webhook_end_waits(&serve->ios[i].webhook);
}

static void end_drain(struct serve *serve)
{
	if (!all_drained(serve))
		log_warn("some connections did not finish in time and are cut");
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
		log_warn("some deliveries did not finish in time and are interrupted");
	if (open > 0)
		log_warn("events are left for the next start", log_u64("open_tickets", open));
	store_host_end_takes(serve->host);
	deliver_end(serve->deliver);
	enter(serve, PHASE_SETTLE);
}

static void shutdown_step(struct loop_timer *timer)
{
	struct serve *serve = container_of(timer, struct serve, step);
	struct loop *loop = serve->ios[0].loop;
	uint64_t spent_ms = loop_now_ms(loop) - serve->phase_began_ms;
	serve->callers.stopped = true;
	bool rests = delivery_rests(serve);
	if (serve->phase == PHASE_DRAIN && (rests || spent_ms > ANSWER_MS))
		end_waits(serve);
	if (serve->phase == PHASE_DRAIN && (all_drained(serve) || spent_ms > DRAIN_MS))
		end_drain(serve);
	else if (serve->phase == PHASE_DELIVER &&
	         (undelivered(serve) == 0 || rests || spent_ms > DELIVER_MS))
		end_deliver(serve, spent_ms <= DELIVER_MS);
	else if (serve->phase == PHASE_SETTLE && deliver_ended(serve->deliver))
		loop_stop(loop);
	if (loop_timer_set(loop, &serve->step, STEP_MS) != 0)
		loop_stop(loop);
}

/* ---- reload ---- */

/* What the new file changes that only a restart can. */
static void log_changes(const struct config_diff *diff)
{
	for (uint32_t i = 0; i < diff->count; i++) {
		const struct config_change *change = &diff->changes[i];
		if (change->reloads)
			log_info("configuration changed", log_str("option", change->option),
			         log_str("text", change->text));
		else
			log_warn("configuration changed, but only a restart can take it over",
			         log_str("option", change->option), log_str("text", change->text));
	}
}

/* What a change of sinks needed until it was done. True: it is not done yet. */
static bool is_changing(struct serve *serve)
{
	if (serve_sinks_changing(serve->change))
		return true;
	if (serve->change) {
		serve_sinks_failed(serve->change, &serve->failed);
		serve->retry_at_ms = loop_now_ms(serve->ios[0].loop) + CHANGE_RETRY_MS;
	}
	serve->change = serve_sinks_change_free(serve->change);
	if (serve->before != serve->config)
		config_free(serve->before);
	serve->before = NULL;
	return false;
}

/* All io threads go over to the sources of the new configuration, which may lead to new
 * sinks: those are there before. */
static int take_over(struct serve *serve, struct config *config, struct error_text *ret_text)
{
	struct source_set *set = NULL;
	int error = serve_sources_new(config, serve->options->listen, serve->store.key,
	                              &serve->counts, &set, ret_text);
	if (error == 0)
		error = serve_sinks_change(serve->deliver,
		                           &(struct sinks_step){ serve->loaded, config,
		                                                 &serve->failed },
		                           &serve->change, ret_text);
	if (error != 0) {
		source_set_release(set);
		return error;
	}
	for (uint32_t i = 0; i < serve->io_count; i++)
		webhook_offer(&serve->ios[i].webhook, set);
	serve_admin_offer(serve->admin, set);
	source_set_release(serve->sources);
	serve->sources = set;
	memset(serve->alarms, 0, sizeof(serve->alarms));
	return 0;
}

/* A bad file changes nothing. What only a restart can change keeps its old value:
 * the options stay those of the start. */
static void reload(struct serve *serve)
{
	struct config *config = NULL;
	struct config_report report;
	struct config_diff diff = { 0 };
	struct error_text text = { "" };
	if (!serve->input->path) {
		log_warn("SIGHUP: there is no configuration file to load again");
		return;
	}
	if (file_is_pipe(serve->input->path)) {
		log_warn("SIGHUP: the configuration came through a pipe, which cannot be read "
		         "again");
		return;
	}
	if (is_changing(serve)) {
		serve->reload_again = true; /* see reload_later() */
		return;
	}
	int error = config_load(serve->input, &config, &report);
	config_log_report(&report);
	if (error == 0)
		error = config_diff(&(struct config_states){ serve->config, serve->loaded, config },
		                    &diff);
	if (error == 0)
		error = take_over(serve, config, &text);
	if (error == 0) {
		log_changes(&diff);
		if (serve->store.shared && !serve->store.spools && config_spools(config))
			log_warn("store_away: spool is in force after a restart: there is no spool "
			         "yet");
		log_info("configuration loaded", log_str("file", serve->input->path),
		         log_u64("sources", config->source_count));
		serve->before = serve->loaded; /* until the sinks are changed */
		serve->loaded = config;
		config = NULL;
	} else {
		log_error("configuration not loaded; the old one goes on",
		          log_str("file", serve->input->path),
		          log_str("error", text.text[0] ? text.text : error_name(error)));
	}
	config_diff_free(&diff);
	config_report_free(&report);
	config_free(config);
}

/* Sinks whose outlet could not be made at the reload: it may have been for want of
 * something that is there now. */
static void retry_change(struct serve *serve)
{
	struct error_text text = { "" };
	struct sinks_step step = { serve->loaded, serve->loaded, &serve->failed };
	if (serve->failed.count == 0 || loop_now_ms(serve->ios[0].loop) < serve->retry_at_ms)
		return;
	serve->retry_at_ms = loop_now_ms(serve->ios[0].loop) + CHANGE_RETRY_MS;
	int error = serve_sinks_change(serve->deliver, &step, &serve->change, &text);
	if (error != 0)
		log_error("sinks cannot be changed", log_code(error));
}

/* A sink that changes has to end what is under way; a SIGHUP that came meanwhile waits. */
static void reload_later(struct loop_timer *timer)
{
	struct serve *serve = container_of(timer, struct serve, later);
	if (!is_changing(serve) && serve->reload_again && serve->phase == PHASE_SERVE) {
		serve->reload_again = false;
		reload(serve);
	} else if (!serve->change && serve->phase == PHASE_SERVE) {
		retry_change(serve);
	}
	if (loop_timer_set(serve->ios[0].loop, timer, LATER_MS) != 0)
		log_error("the timer of reloads cannot be set");
}

/* ---- windows that are too short ---- */

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

static void sweep(struct loop_timer *timer)
{
	struct serve *serve = container_of(timer, struct serve, sweep);
	if (serve->phase == PHASE_SERVE)
		serve_callers_sweep(&serve->callers, serve->ios[0].webhook.options.store,
		                    clock_read(clock_system()).wall_ms);
	if (loop_timer_set(serve->ios[0].loop, timer, SWEEP_MS) != 0)
		log_warn("the timer that ends forgotten claims cannot be set");
}

static void advise(struct loop_timer *timer)
{
	struct serve *serve = container_of(timer, struct serve, advise);
	if (serve->traces)
		trace_log_gaps(serve->traces, advise_source, serve);
	if (loop_timer_set(serve->ios[0].loop, timer, ADVISE_MS) != 0)
		log_error("the timer of advice cannot be set");
}

static void on_signal(struct loop_handler *handler, uint32_t events)
{
	(void)events;
	struct serve *serve = container_of(handler, struct serve, signals);
	struct signalfd_siginfo info;
	if (read(handler->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP) {
		if (serve->phase == PHASE_SERVE)
			reload(serve);
		return;
	}
	if (serve->phase != PHASE_SERVE) {
		log_warn("stopped at once by a second signal");
		_exit(EXIT_CODE_FAILED); /* as safe as a crash: nothing acknowledged is lost */
	}
	bool guarded = stop_guard_begin(&serve->guard, STOP_LIMIT_MS) == 0;
	log_info("stopping", log_str("signal", info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT"));
	if (!guarded)
		log_warn("nothing bounds this stop if the disk hangs");
	atomic_store(&serve->console.draining, true);
	enter(serve, PHASE_DRAIN);
	shutdown_step(&serve->step);
}

static int open_signals(struct serve *serve)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file too large is an error of the write */
	if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0)
		return -EINVAL;
	serve->signals.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (serve->signals.fd < 0)
		return -errno;
	serve->signals.ready = on_signal;
	serve->step.due = shutdown_step;
	return loop_add(serve->ios[0].loop, &serve->signals, LOOP_READ);
}

/* ---- start ---- */

static int fail(const char *what, int error, const struct error_text *text)
{
	log_error(what, log_str("error", text && text->text[0] ? text->text : error_name(error)));
	return error;
}

/* Peers must not be able to take what the store needs to go on. */
static int limit_connections(struct serve *serve)
{
	const struct serve_options *options = serve->options;
	uint64_t limit = descriptors_raise_limit();
	uint64_t reserve = RESERVED_DESCRIPTORS + DESCRIPTORS_PER_THREAD * options->threads;
	if (limit <= reserve) {
		struct error_text text;
		error_fill(&text, -EMFILE, "the limit on open files is %llu, less than needed",
		           (unsigned long long)limit);
		return fail("stile cannot start", -EMFILE, &text);
	}
	/* The Redis door has as many again. */
	uint64_t share = (limit - reserve) / (strcmp(options->resp, "none") == 0 ? 1 : 2);
	serve->connections = (uint32_t)options->connections;
	if (options->connections > share) {
		serve->connections = (uint32_t)share;
		log_warn("fewer connections than --max-connections: the limit on open files is low",
		         log_u64("connections", serve->connections), log_u64("open_files", limit));
	}
	return 0;
}

static void traces_say(void *user, bool warning, const char *text)
{
	(void)user;
	if (warning)
		log_warn("traces", log_str("text", text));
	else
		log_info("traces", log_str("text", text));
}

/* The gateway can do without: then `stile why` knows nothing. */
static void open_traces(struct serve *serve)
{
	struct trace_log_options options = { .path = serve->options->data, .log = traces_say };
	struct error_text text = { "" };
	int error = trace_log_open(&options, &serve->traces, &text);
	if (error != 0)
		fail("traces cannot be kept; stile why will know nothing", error, &text);
	serve->console.traces = serve->traces;
}

static int open_console(struct serve *serve)
{
	serve->console.read = serve_store_read;
	serve->console.read_user = &serve->store;
	int error = worker_new("stile-answers", &serve->console.worker);
	if (error == 0)
		error = feed_new(&serve->console.feed);
	return error == 0 ? 0 : fail("the console cannot start", error, NULL);
}

static int host_store(struct serve *serve, struct error_text *ret_text)
{
	struct store *store = serve->store.store;
	int error = serve_sources_new(serve->config, serve->options->listen, serve->store.key,
	                              &serve->counts, &serve->sources, ret_text);
	serve->embedded = !serve->store.shared && serve_store_inline(serve->options);
	struct store_host_options options = {
		.store = store,
		.mode = serve->embedded ? STORE_HOST_EMBEDDED : STORE_HOST_THREAD,
		.wake = wake_loop,
		.user = serve->ios[0].loop,
	};
	if (error == 0)
		error = store_host_new(&options, &serve->host);
	if (error != 0) {
		store_free(store);
		return error;
	}
	serve->console.store = store;
	return serve_store_attach(&serve->store, serve->host);
}

static int wait_for_store(struct serve *serve, struct error_text *text)
{
	struct waiting_options options = { .config = serve->config,
		                           .gauge = serve->gauge,
		                           .tls = serve->tls,
		                           .connections = serve->connections,
		                           .signal_fd = serve->signals.fd };
	struct error_text why = *text;
	int error = serve_waiting_new(&options, &serve->waiting, text);
	if (error != 0)
		return error;
	*text = why;
	return serve_waiting_run(serve->waiting, &serve->store, text);
}

static int open_store(struct serve *serve)
{
	struct error_text text = { "" };
	int error = serve_store_open(serve->config, &serve->store, &text);
	if (error == ERR_AWAY)
		error = wait_for_store(serve, &text);
	if (error == ERR_CLOSING)
		return error;
	if (error != 0)
		return fail(serve->config->store.kind == CONFIG_STORE_LOCAL
		                    ? "the data folder cannot be opened"
		                    : "the shared store cannot be opened",
		            error, &text);
	error = host_store(serve, &text);
	return error == 0 ? 0 : fail("the store cannot start", error, &text);
}

static int open_delivery(struct serve *serve)
{
	struct error_text text = { "" };
	struct serve_sinks_options options = { .host = serve->host,
		                               .feed = serve->console.feed,
		                               .lease_ms = serve->store.lease_ms };
	int error = serve_sinks_start(serve->config, &options, &serve->deliver, &text);
	if (error != 0)
		return fail("the delivery cannot start", error, &text);
	serve->console.deliver = serve->deliver;
	struct io *io = &serve->ios[0];
	serve_orphans_begin(&serve->orphans, serve->config, io_store(io));
	return 0;
}

static int open_net(struct serve *serve)
{
	const struct serve_options *options = serve->options;
	int error = http_gauge_new(&serve->gauge);
	if (error != 0)
		return fail("the servers cannot start", error, NULL);
	if (options->tls_cert) {
		struct error_text text = { "" };
		struct tls_options tls_options = {
			.cert_file = options->tls_cert,
			.key_file = options->tls_key,
			.client_ca_file = options->tls_client_ca,
		};
		error = tls_new(&tls_options, &serve->tls, &text);
		if (error != 0)
			return fail("TLS cannot be set up", error, &text);
	}
	return 0;
}

static int open_resp(struct serve *serve)
{
	struct error_text text = { "" };
	struct serve_resp_options options = {
		.config = serve->config,
		.tls = serve->tls,
		.key = serve->store.key,
		.connections = serve->connections,
		.started_ms = serve->console.started_ms,
	};
	int error = serve_resp_new(&options, &serve->resp, &text);
	return error == 0 ? 0 : fail("the Redis door cannot start", error, &text);
}

static int open_ios(struct serve *serve)
{
	for (uint32_t i = 0; i < serve->options->threads; i++) {
		struct io *io = &serve->ios[i];
		io->serve = serve;
		int error = io->loop ? 0 : loop_new(&io->loop);
		if (error == 0) {
			serve->io_count = i + 1;
			error = io_open(io);
		}
		serve->waiting = serve_waiting_free(serve->waiting);
		if (error != 0)
			return fail("stile cannot listen", error, &io->problem);
	}
	return 0;
}

static int open_admin(struct serve *serve)
{
	struct error_text text = { "" };
	struct serve_admin_options options = {
		.config = serve->config,
		.console = &serve->console,
		.host = serve->host,
		.sources = serve->sources,
		.tls = serve->tls,
		.key = serve->store.key,
	};
	int error = serve_admin_open(&options, &serve->admin, &text);
	if (error != 0)
		return fail("the admin listener cannot start", error, &text);
	if (!serve->admin && text.text[0])
		log_warn("there is no admin listener: its place is taken; --admin gives it another",
		         log_str("error", text.text));
	return 0;
}

static int start_ios(struct serve *serve)
{
	for (uint32_t i = 1; i < serve->io_count; i++) {
		int error = thread_start(&serve->ios[i].thread, &(struct thread_options){
									.name = "stile-io",
									.cpu = THREAD_ANY_CPU,
									.run = io_run,
									.user = &serve->ios[i],
								});
		if (error != 0)
			return fail("an io thread cannot start", error, NULL);
	}
	return 0;
}

static int open_all(struct serve *serve)
{
	int error = limit_connections(serve);
	if (error != 0)
		return error;
	error = loop_new(&serve->ios[0].loop);
	serve->io_count = error == 0; /* closed with it, however far the start comes */
	if (error == 0)
		error = open_signals(serve);
	if (error != 0)
		return fail("the event loop cannot start", error, NULL);
	error = open_net(serve);
	if (error != 0)
		return error;
	error = open_store(serve);
	if (error == 0)
		open_traces(serve);
	if (error == 0)
		error = open_console(serve);
	if (error == 0)
		error = open_resp(serve);
	if (error == 0)
		error = open_ios(serve);
	if (error == 0)
		error = open_delivery(serve);
	if (error == 0)
		error = open_admin(serve);
	if (error == 0)
		error = start_ios(serve);
	if (error == 0)
		error = serve_admin_start(serve->admin);
	serve->advise.due = advise;
	if (error == 0)
		error = loop_timer_set(serve->ios[0].loop, &serve->advise, ADVISE_MS);
	serve->sweep.due = sweep;
	if (error == 0)
		error = loop_timer_set(serve->ios[0].loop, &serve->sweep, SWEEP_MS);
	serve->later.due = reload_later;
	if (error == 0)
		error = loop_timer_set(serve->ios[0].loop, &serve->later, LATER_MS);
	return error;
}

static void greet(struct serve *serve)
{
	const struct serve_options *options = serve->options;
	char folder[PATH_MAX];
	if (!realpath(options->data, folder))
		snprintf(folder, sizeof(folder), "%s", options->data);
	const char *scheme = serve->tls ? "https" : "http";
	const char *colon = strrchr(options->listen, ':');
	char url[512];
	snprintf(url, sizeof(url), "%s://%.*s:%u", scheme, (int)(colon - options->listen),
	         options->listen, http_server_port(serve->ios[0].server));
	struct store_stats stats;
	store_stats(serve->console.store, &stats);
	log_info("stile is ready", log_str("version", STILE_VERSION), log_str("listen", url),
	         log_str("admin", serve_admin_url(serve->admin)),
	         log_str("resp", serve_resp_url(serve->resp)), log_str("data", folder),
	         log_str("store", serve->store.shared ? serve->store.label : "local"),
	         log_u64("claims", stats.live_claims), log_u64("open_tickets", stats.open_tickets),
	         log_u64("threads", options->threads),
	         log_str("commit", serve->embedded ? "inline" : "thread"));
	if (options->log_json)
		return;
	char text[PATH_MAX + 2048];
	int len = snprintf(text, sizeof(text),
	                   "\n  listening on  %s\n  data in       %s\n"
	                   "  try           curl -d '{\"id\":\"1\"}' %s%s%s\n\n",
	                   url, folder, serve->tls ? "-k " : "", url,
	                   serve->config->sources[0].path.ptr);
	if (len > 0 && (size_t)len < sizeof(text))
		log_plain(span_of(text, (size_t)len));
}

static void close_all(struct serve *serve)
{
	for (uint32_t i = 1; i < serve->io_count; i++) {
		atomic_store(&serve->ios[i].end, true);
		thread_join(&serve->ios[i].thread);
	}
	serve_admin_join(serve->admin);
	if (serve->host)
		store_host_end_takes(serve->host);
	if (serve->deliver)
		deliver_join(serve->deliver);
	serve->console.worker = worker_end(serve->console.worker); /* it may read from the store */
	if (serve->host)
		store_host_close(serve->host);
	serve_admin_settle(serve->admin);
	serve_store_close(&serve->store);
	serve->deliver = deliver_free(serve->deliver);
	serve->admin = serve_admin_close(serve->admin);
	(void)is_changing(serve); /* no lane is left that needs it */
	for (uint32_t i = 0; i < serve->io_count; i++)
		io_close(&serve->ios[i]);
	serve_orphans_end(&serve->orphans);
	serve_callers_end(&serve->callers);
	serve->console.feed = feed_free(serve->console.feed);
	serve->host = store_host_free(serve->host);
	serve_store_free(&serve->store);
	serve->waiting = serve_waiting_free(serve->waiting);
	serve->traces = trace_log_free(serve->traces);
	source_set_release(serve->sources);
	source_counts_free(&serve->counts);
	serve->tls = tls_free(serve->tls);
	serve->gauge = http_gauge_free(serve->gauge);
	serve->resp = serve_resp_free(serve->resp);
	if (serve->signals.fd > 0)
		close(serve->signals.fd);
}

static uint64_t wall_ms(void)
{
	return clock_read(clock_system()).wall_ms;
}

void serve_setup_log(const struct serve_options *options)
{
	log_setup(&(struct log_options){
		.format = options->log_json ? LOG_JSON : LOG_TEXT,
		.level = LOG_LEVEL_INFO,
		.fd = STDERR_FILENO,
		.now_ms = wall_ms,
	});
}

int serve_run(struct config *config, const struct config_input *input)
{
	struct serve *serve = mem_zalloc(1, sizeof(*serve));
	if (!serve) {
		config_free(config);
		return EXIT_CODE_FAILED;
	}
	serve->config = serve->loaded = config;
	serve->input = input;
	serve->options = &config->serve;
	serve->counts.thread_count = (uint32_t)config->serve.threads;
	serve->console.version = STILE_VERSION;
	serve->console.counts = &serve->counts;
	serve->console.started_ms = wall_ms();
	int error = open_all(serve);
	if (error == 0) {
		greet(serve);
		io_run(&serve->ios[0]);
	}
	if (error == 0 && serve_store_refused(&serve->store))
		error = ERR_CONFIG;
	close_all(serve);
	stop_guard_end(&serve->guard);
	if (error == ERR_CLOSING) /* asked to, while it waited */
		error = 0;
	if (error == 0)
		log_info("stopped");
	if (serve->loaded != serve->config)
		config_free(serve->loaded);
	config_free(serve->config);
	mem_free(serve);
	if (error == ERR_DAMAGED)
		return EXIT_CODE_DAMAGED;
	return error == 0 ? EXIT_CODE_OK : EXIT_CODE_FAILED;
}
