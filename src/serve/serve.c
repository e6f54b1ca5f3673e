/*
 * serve: see serve.h.
 *
 * Threads: the main thread is io thread 0; others are started for --threads.
 * With one io thread and a quick disk the store lives in that thread's loop
 * (embedded host): each round commits once, then answers. Otherwise the store
 * has a thread of its own and every io thread a port. A lane of delivery (a thread
 * for each sink) always has a port.
 */
#include "serve/serve.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/exit_code.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/version.h"
#include "serve/serve_private.h"
#include "sys/clock.h"
#include "sys/descriptors.h"
#include "sys/feed.h"
#include "sys/worker.h"

/* Descriptors kept free for the store's files and everything else that is no connection. */
#define RESERVED_DESCRIPTORS 64u
#define DESCRIPTORS_PER_THREAD 5u
#define DESCRIPTORS_PER_SINK 8u

static void on_signal(struct loop_handler *handler, uint32_t events)
{
	(void)events;
	struct serve *serve = container_of(handler, struct serve, signals);
	struct signalfd_siginfo info;
	if (read(handler->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP) {
		if (serve->phase == PHASE_SERVE)
			serve_reload(serve);
		return;
	}
	if (serve->phase != PHASE_SERVE) {
		log_warn("stopped immediately by a second signal");
		_exit(EXIT_CODE_FAILED); /* as safe as a crash: nothing acknowledged is lost */
	}
	serve_stop(serve, info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
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
	serve->step.due = serve_stop_step;
	return loop_add(serve->ios[0].loop, &serve->signals, LOOP_READ);
}

/* ---- start ---- */

static int fail(const char *what, int error, const struct error_text *text)
{
	log_error(what, log_str("error", text && text->text[0] ? text->text : error_name(error)));
	return error;
}

/* Descriptors that sinks may use; of HTTP sinks one for each request under way. */
static uint64_t sink_descriptors(const struct config *config)
{
	uint64_t count = 0;
	for (uint32_t i = 0; i < config->sink_count; i++) {
		const struct config_sink *sink = &config->sinks[i];
		bool requests = sink->kind == CONFIG_SINK_HTTP || sink->kind == CONFIG_SINK_STILE;
		if (sink->kind != CONFIG_SINK_STDOUT)
			count += DESCRIPTORS_PER_SINK + (requests ? sink->policy.limiter.most : 0);
	}
	return count;
}

/* Leaves descriptors for store and sinks: clients must not take them all. */
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
	uint64_t sinks = sink_descriptors(serve->config), half = (limit - reserve) / 2;
	uint64_t left = limit - reserve - (sinks < half ? sinks : half);
	/* The Redis door has as many again. */
	uint64_t share = left / (strcmp(options->resp, "none") == 0 ? 1 : 2);
	serve->connections = (uint32_t)options->connections;
	if (options->connections > share) {
		serve->connections = (uint32_t)share;
		log_warn(
			"connection limit lowered: the limit on open files is too low for --max-connections",
			log_u64("connections", serve->connections), log_u64("open_files", limit));
	}
	return 0;
}

void serve_log(enum log_level level, const char *part, const char *text)
{
	static struct log_site sites[LOG_LEVEL_ERROR + 1];
	char message[ERROR_TEXT_MAX];
	const char *end = strstr(text, ": ");
	size_t len = end ? (size_t)(end - text) : strlen(text);
	snprintf(message, sizeof(message), "%.*s", (int)len, text);
	if (end)
		LOG_AT_SITE(&sites[level], level, message, log_str("part", part),
		            log_str("text", end + 2));
	else
		LOG_AT_SITE(&sites[level], level, message, log_str("part", part));
}

/* Without traces the gateway works, but `stile why` knows nothing. */
static int open_traces(struct serve *serve)
{
	struct trace_log_options options = { .path = serve->options->local.path };
	struct error_text text = { "" };
	int error = trace_log_open(&options, &serve->traces, &text);
	if (error != 0)
		fail("traces disabled: stile why cannot explain new events", error, &text);
	serve->console.traces = serve->traces;
	return 0;
}

static int open_console(struct serve *serve)
{
	serve->console.read = serve_store_read;
	serve->console.read_user = &serve->store;
	int error = worker_new("stile-answers", &serve->console.worker);
	if (error == 0)
		error = feed_new(&serve->console.feed);
	return error == 0 ? 0 : fail("console cannot start", error, NULL);
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
		.wake = serve_io_wake,
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
		                    ? "data folder cannot be opened"
		                    : "shared store cannot be opened at startup",
		            error, &text);
	error = host_store(serve, &text);
	return error == 0 ? 0 : fail("store cannot start", error, &text);
}

static int open_delivery(struct serve *serve)
{
	struct error_text text = { "" };
	struct serve_sinks_options options = { .host = serve->host,
		                               .feed = serve->console.feed,
		                               .lease_ms = serve->store.lease_ms };
	int error = serve_sinks_start(serve->config, &options, &serve->deliver, &text);
	if (error != 0)
		return fail("delivery cannot start", error, &text);
	serve->console.deliver = serve->deliver;
	struct io *io = &serve->ios[0];
	serve_orphans_begin(&serve->orphans, serve->config, serve_io_store(io));
	return 0;
}

static int open_net(struct serve *serve)
{
	const struct serve_options *options = serve->options;
	int error = gauge_new(&serve->gauge);
	if (error != 0)
		return fail("HTTP servers cannot start", error, NULL);
	if (options->tls.cert_file) {
		struct error_text text = { "" };
		error = tls_new(&options->tls, &serve->tls, &text);
		if (error != 0)
			return fail("TLS cannot be set up", error, &text);
	}
	return 0;
}

/* The io threads' loops, doors and servers. */
static int open_ios(struct serve *serve)
{
	struct error_text text = { "" };
	struct serve_resp_options resp = {
		.config = serve->config,
		.tls = serve->tls,
		.key = serve->store.key,
		.connections = serve->connections,
		.started_ms = serve->console.started_ms,
	};
	int error = serve_resp_new(&resp, &serve->resp, &text);
	if (error != 0)
		return fail("Redis door cannot start", error, &text);
	for (uint32_t i = 0; i < serve->options->threads; i++) {
		struct io *io = &serve->ios[i];
		io->serve = serve;
		error = io->loop ? 0 : loop_new(&io->loop);
		if (error == 0) {
			serve->io_count = i + 1;
			error = serve_io_open(io);
		}
		serve->waiting = serve_waiting_free(serve->waiting);
		if (error != 0)
			return fail("listener cannot start", error, &io->problem);
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
		return fail("admin API cannot start", error, &text);
	if (!serve->admin && text.text[0])
		log_warn("admin API disabled: its address is already in use (--admin changes it)",
		         log_str("error", text.text));
	return 0;
}

/* Of io thread 0 serve_run() runs the loop itself. */
static int start_ios(struct serve *serve)
{
	for (uint32_t i = 1; i < serve->io_count; i++) {
		int error = thread_start(&serve->ios[i].thread, &(struct thread_options){
									.name = "stile-io",
									.cpu = THREAD_ANY_CPU,
									.run = serve_io_run,
									.user = &serve->ios[i],
								});
		if (error != 0)
			return fail("io thread cannot start", error, NULL);
	}
	return serve_admin_start(serve->admin);
}

static int open_loop(struct serve *serve)
{
	serve->later.due = serve_reload_later;
	int error = loop_new(&serve->ios[0].loop);
	serve->io_count = error == 0; /* close_all() closes it after any failure */
	if (error == 0)
		error = open_signals(serve);
	return error == 0 ? 0 : fail("event loop cannot start", error, NULL);
}

static int start_timers(struct serve *serve)
{
	int error = serve_periodic_start(serve);
	if (error == 0)
		serve_reload_later(&serve->later);
	return error;
}

static int start(struct serve *serve)
{
	static int (*const steps[])(struct serve * serve) = {
		limit_connections, open_loop,    open_net,     open_store,
		open_traces,       open_console, open_ios,     open_delivery,
		open_admin,        start_ios,    start_timers,
	};
	int error = 0;
	for (size_t i = 0; i < ARRAY_LEN(steps) && error == 0; i++)
		error = steps[i](serve);
	return error;
}

static void greet(struct serve *serve)
{
	const struct serve_options *options = serve->options;
	char folder[PATH_MAX];
	if (!realpath(options->local.path, folder))
		snprintf(folder, sizeof(folder), "%s", options->local.path);
	char url[512];
	option_url(serve->tls ? "https" : "http", options->listen,
	           http_server_port(serve->ios[0].server), url, sizeof(url));
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
	                   serve->config->sources[0].door.path.ptr);
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
	/* After a failed start requests may still be in a port's queue; the close answers them. */
	for (uint32_t i = 0; i < serve->io_count; i++)
		if (serve->ios[i].port)
			store_flush(port_store(serve->ios[i].port));
	if (serve->host)
		store_host_close(serve->host);
	serve_admin_settle(serve->admin);
	serve_store_close(&serve->store);
	serve->deliver = deliver_free(serve->deliver);
	serve->admin = serve_admin_close(serve->admin);
	(void)serve_reload_is_changing(serve); /* frees the last change: no lane uses it any more */
	for (uint32_t i = 0; i < serve->io_count; i++)
		serve_io_close(&serve->ios[i]);
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
	serve->gauge = gauge_free(serve->gauge);
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
	int error = start(serve);
	if (error == 0) {
		greet(serve);
		serve_io_run(&serve->ios[0]);
	}
	if (error == 0 && serve_store_refused(&serve->store))
		error = ERR_CONFIG;
	close_all(serve);
	stop_guard_end(&serve->guard);
	if (error == ERR_CLOSING) /* a signal ended the wait for the shared store */
		error = 0;
	if (error == 0)
		log_info("stile stopped");
	if (serve->loaded != serve->config)
		config_free(serve->loaded);
	config_free(serve->config);
	mem_free(serve);
	if (error == ERR_DAMAGED)
		return EXIT_CODE_DAMAGED;
	return error == 0 ? EXIT_CODE_OK : EXIT_CODE_FAILED;
}
