/* The admin listener. See serve_private.h. */
#include "serve/serve_private.h"

#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "config/config.h"
#include "console/admin/admin.h"
#include "door/source.h"
#include "net/http/http_server.h"
#include "store/port.h"
#include "sys/clock.h"
#include "sys/loop.h"
#include "sys/thread.h"
#include "sys/worker.h"

#define CONNECTIONS_MAX 64u
#define BODY_BYTES_MAX (64u << 10) /* no request here has a body: one with a body is refused */
#define DRAIN_MS 5000

struct serve_admin {
	struct serve_admin_options options;
	struct loop *loop;
	struct gauge *gauge; /* its own: the other listener may be full */
	struct http_server *server;
	struct port *port;
	struct worker_desk desk;
	struct admin admin;
	struct loop_hook round;
	struct loop_timer tick;
	struct thread thread;
	atomic_bool end;
	uint64_t drain_until_ms; /* 0: it serves */
	struct source_set *sources;
	_Atomic(struct source_set *) offered;
	char url[512];
};

static uint64_t wall_ms(void)
{
	return clock_read(clock_system()).wall_ms;
}

static void handle(struct http_request *request)
{
	struct serve_admin *listener = request->user;
	struct advice_question windows[CONFIG_SOURCES_MAX];
	struct source_set *offered = atomic_exchange(&listener->offered, NULL);
	if (offered) { /* by a reload */
		source_set_release(listener->sources);
		listener->sources = offered;
	}
	struct console_view view = { .port = port_store(listener->port), .desk = &listener->desk };
	serve_fill_windows(listener->sources, windows, &view);
	admin_handle(&listener->admin, &view, wall_ms(), request);
}

/* Results of the store may cause new requests to it: flush them in the same round. */
static void round_ends(struct loop_hook *hook)
{
	struct serve_admin *listener = container_of(hook, struct serve_admin, round);
	port_collect(listener->port);
	admin_collect(&listener->admin);
	worker_collect(&listener->desk);
	store_flush(port_store(listener->port));
}

static void drain(struct serve_admin *listener)
{
	uint64_t now_ms = loop_now_ms(listener->loop);
	if (listener->drain_until_ms == 0) {
		listener->drain_until_ms = now_ms + DRAIN_MS;
		http_server_drain(listener->server);
	}
	if (!http_server_drained(listener->server) && now_ms < listener->drain_until_ms)
		return;
	http_server_cut(listener->server);
	loop_stop(listener->loop);
}

static void tick(struct loop_timer *timer)
{
	struct serve_admin *listener = container_of(timer, struct serve_admin, tick);
	admin_tick(&listener->admin, wall_ms());
	if (atomic_load(&listener->end))
		drain(listener);
	if (loop_timer_set(listener->loop, timer, STORE_HOST_TICK_MS) != 0)
		log_error("admin API timer cannot be set");
}

static void wake(void *user)
{
	loop_wake(user);
}

static void run(void *user)
{
	struct serve_admin *listener = user;
	loop_run(listener->loop);
	if (port_drain(listener->port, DRAIN_MS) > 0)
		log_warn("shutdown timeout: admin API requests aborted");
}

/* ---- start and end ---- */

static bool uses_tls(const struct serve_admin_options *options)
{
	return options->tls && !option_is_loopback(options->config->serve.admin);
}

static int listen_there(struct serve_admin *listener, struct error_text *ret_text)
{
	const struct config *config = listener->options.config;
	struct http_server_options options = {
		.loop = listener->loop,
		.address = config->serve.admin,
		.limits = http_limits_default,
		.gauge = listener->gauge,
		.tls = uses_tls(&listener->options) ? listener->options.tls : NULL,
		.headers = admin_headers,
		.handle = handle,
		.user = listener,
	};
	options.limits.body_bytes = BODY_BYTES_MAX;
	options.limits.connections = options.limits.connections_per_address = CONNECTIONS_MAX;
	return http_server_new(&options, &listener->server, ret_text);
}

static int open_rest(struct serve_admin *listener)
{
	int error = port_new(listener->options.host,
	                     &(struct port_options){ .wake = wake, .user = listener->loop },
	                     &listener->port);
	if (error != 0)
		return error;
	admin_init(&listener->admin,
	           &(struct admin_options){
			   .console = listener->options.console,
			   .port = port_store(listener->port),
			   .tokens = listener->options.config->admin_tokens,
			   .token_count = listener->options.config->admin_token_count,
			   .tls = uses_tls(&listener->options),
			   .key = listener->options.key,
			   .wake = wake,
			   .user = listener->loop,
		   });
	worker_desk_init(&listener->desk, wake, listener->loop);
	listener->round.round = round_ends;
	loop_hook_add(listener->loop, &listener->round);
	listener->tick.due = tick;
	return loop_timer_set(listener->loop, &listener->tick, STORE_HOST_TICK_MS);
}

static int open_all(struct serve_admin *listener, struct error_text *ret_text)
{
	int error = loop_new(&listener->loop);
	if (error == 0)
		error = gauge_new(&listener->gauge);
	if (error == 0)
		error = open_rest(listener);
	if (error == 0)
		error = listen_there(listener, ret_text);
	if (error == 0)
		option_url(uses_tls(&listener->options) ? "https" : "http",
		           listener->options.config->serve.admin,
		           http_server_port(listener->server), listener->url,
		           sizeof(listener->url));
	return error;
}

int serve_admin_open(const struct serve_admin_options *options, struct serve_admin **ret_admin,
                     struct error_text *ret_text)
{
	const char *listen = options->config->serve.admin;
	ret_text->text[0] = 0;
	*ret_admin = NULL;
	if (strcmp(listen, "none") == 0)
		return 0;
	struct serve_admin *listener = mem_zalloc(1, sizeof(*listener));
	if (!listener)
		return -ENOMEM;
	listener->options = *options;
	listener->sources = options->sources;
	source_set_hold(listener->sources);
	int error = open_all(listener, ret_text);
	if (error == 0) {
		*ret_admin = listener;
		return 0;
	}
	serve_admin_close(listener);
	const char *standard = option_find(serve_option_table, SPAN("admin"))->standard;
	return strcmp(listen, standard) == 0 && error == -EADDRINUSE ? 0 : error;
}

int serve_admin_start(struct serve_admin *listener)
{
	if (!listener)
		return 0;
	return thread_start(&listener->thread, &(struct thread_options){ .name = "stile-admin",
	                                                                 .cpu = THREAD_ANY_CPU,
	                                                                 .run = run,
	                                                                 .user = listener });
}

const char *serve_admin_url(const struct serve_admin *listener)
{
	return listener ? listener->url : "none";
}

void serve_admin_offer(struct serve_admin *listener, struct source_set *sources)
{
	if (!listener)
		return;
	source_set_hold(sources);
	source_set_release(atomic_exchange(&listener->offered, sources));
}

void serve_admin_end(struct serve_admin *listener)
{
	if (listener)
		atomic_store(&listener->end, true);
}

void serve_admin_join(struct serve_admin *listener)
{
	serve_admin_end(listener);
	if (listener)
		thread_join(&listener->thread);
}

void serve_admin_settle(struct serve_admin *listener)
{
	if (!listener)
		return;
	port_collect(listener->port);
	admin_collect(&listener->admin);
	worker_collect(&listener->desk);
}

struct serve_admin *serve_admin_close(struct serve_admin *listener)
{
	if (!listener)
		return NULL;
	if (listener->port)
		admin_release(&listener->admin);
	listener->server = http_server_free(listener->server);
	if (listener->port)
		store_free(port_store(listener->port));
	source_set_release(atomic_exchange(&listener->offered, NULL));
	source_set_release(listener->sources);
	listener->gauge = gauge_free(listener->gauge);
	listener->loop = loop_free(listener->loop);
	return mem_free(listener);
}
