/* serve_admin: see serve_admin.h. */
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
#define BODY_BYTES_MAX (64u << 10) /* nothing here has a body: one that comes is refused */
#define DRAIN_MS 5000

struct serve_admin {
	struct serve_admin_options options;
	struct loop *loop;
	struct gauge *gauge; /* of its own: the other listener may be full */
	struct http_server *server;
	struct port *port;
	struct worker_desk desk;
	struct admin admin;
	struct loop_hook round;
	struct loop_timer tick;
	struct thread thread;
	atomic_bool end;
	bool draining;
	uint64_t drain_until_ms;
	struct source_set *sources;
	_Atomic(struct source_set *) offered;
	char url[512];
};

static uint64_t wall_ms(void)
{
	return clock_read(clock_system()).wall_ms;
}

static void accept_offer(struct serve_admin *it)
{
	struct source_set *set = atomic_exchange(&it->offered, NULL);
	if (!set)
		return;
	source_set_release(it->sources);
	it->sources = set;
}

static void handle(struct http_request *request)
{
	struct serve_admin *it = request->user;
	struct advice_question windows[CONFIG_SOURCES_MAX];
	accept_offer(it);
	struct console_view view = { .port = port_store(it->port), .desk = &it->desk };
	serve_fill_windows(it->sources, windows, &view);
	admin_handle(&it->admin, &view, wall_ms(), request);
}

/* What came back from the store may ask it again: that leaves in the same round. */
static void round_ends(struct loop_hook *hook)
{
	struct serve_admin *it = container_of(hook, struct serve_admin, round);
	port_collect(it->port);
	admin_collect(&it->admin);
	worker_collect(&it->desk);
	store_flush(port_store(it->port));
}

static void drain(struct serve_admin *it)
{
	uint64_t now_ms = loop_now_ms(it->loop);
	if (!it->draining) {
		it->draining = true;
		it->drain_until_ms = now_ms + DRAIN_MS;
		http_server_drain(it->server);
	}
	if (!http_server_drained(it->server) && now_ms < it->drain_until_ms)
		return;
	http_server_cut(it->server);
	loop_stop(it->loop);
}

static void tick(struct loop_timer *timer)
{
	struct serve_admin *it = container_of(timer, struct serve_admin, tick);
	admin_tick(&it->admin, wall_ms());
	if (atomic_load(&it->end))
		drain(it);
	if (loop_timer_set(it->loop, timer, STORE_HOST_TICK_MS) != 0)
		log_error("admin API timer cannot be set");
}

static void wake(void *user)
{
	loop_wake(user);
}

static void run(void *user)
{
	struct serve_admin *it = user;
	loop_run(it->loop);
	if (port_drain(it->port, DRAIN_MS) > 0)
		log_warn("shutdown timeout: admin API requests aborted");
}

/* ---- start and end ---- */

static bool uses_tls(const struct serve_admin_options *options)
{
	return options->tls && !option_is_loopback(options->config->serve.admin);
}

static int listen_there(struct serve_admin *it, struct error_text *ret_text)
{
	const struct config *config = it->options.config;
	struct http_server_options options = {
		.loop = it->loop,
		.address = config->serve.admin,
		.limits = http_limits_default,
		.gauge = it->gauge,
		.tls = uses_tls(&it->options) ? it->options.tls : NULL,
		.headers = admin_headers,
		.handle = handle,
		.user = it,
	};
	options.limits.body_bytes = BODY_BYTES_MAX;
	options.limits.connections = options.limits.connections_per_address = CONNECTIONS_MAX;
	return http_server_new(&options, &it->server, ret_text);
}

static int open_rest(struct serve_admin *it)
{
	int error = port_new(it->options.host,
	                     &(struct port_options){ .wake = wake, .user = it->loop }, &it->port);
	if (error != 0)
		return error;
	admin_init(&it->admin, &(struct admin_options){
				       .console = it->options.console,
				       .port = port_store(it->port),
				       .tokens = it->options.config->admin_tokens,
				       .token_count = it->options.config->admin_token_count,
				       .tls = uses_tls(&it->options),
				       .key = it->options.key,
				       .wake = wake,
				       .user = it->loop,
			       });
	worker_desk_init(&it->desk, wake, it->loop);
	it->round.round = round_ends;
	loop_hook_add(it->loop, &it->round);
	it->tick.due = tick;
	return loop_timer_set(it->loop, &it->tick, STORE_HOST_TICK_MS);
}

static void write_url(struct serve_admin *it)
{
	option_url(uses_tls(&it->options) ? "https" : "http", it->options.config->serve.admin,
	           http_server_port(it->server), it->url, sizeof(it->url));
}

static int open_all(struct serve_admin *it, struct error_text *ret_text)
{
	int error = loop_new(&it->loop);
	if (error == 0)
		error = gauge_new(&it->gauge);
	if (error == 0)
		error = open_rest(it);
	if (error == 0)
		error = listen_there(it, ret_text);
	if (error == 0)
		write_url(it);
	return error;
}

static bool is_standard(const char *listen)
{
	return strcmp(listen, option_find(serve_option_table, SPAN("admin"))->standard) == 0;
}

int serve_admin_open(const struct serve_admin_options *options, struct serve_admin **ret_admin,
                     struct error_text *ret_text)
{
	const char *listen = options->config->serve.admin;
	ret_text->text[0] = 0;
	*ret_admin = NULL;
	if (strcmp(listen, "none") == 0)
		return 0;
	struct serve_admin *it = mem_zalloc(1, sizeof(*it));
	if (!it)
		return -ENOMEM;
	it->options = *options;
	it->sources = options->sources;
	source_set_hold(it->sources);
	int error = open_all(it, ret_text);
	if (error == 0) {
		*ret_admin = it;
		return 0;
	}
	serve_admin_close(it);
	return is_standard(listen) && error == -EADDRINUSE ? 0 : error;
}

int serve_admin_start(struct serve_admin *it)
{
	if (!it)
		return 0;
	return thread_start(&it->thread, &(struct thread_options){ .name = "stile-admin",
	                                                           .cpu = THREAD_ANY_CPU,
	                                                           .run = run,
	                                                           .user = it });
}

const char *serve_admin_url(const struct serve_admin *it)
{
	return it ? it->url : "none";
}

void serve_admin_offer(struct serve_admin *it, struct source_set *sources)
{
	if (!it)
		return;
	source_set_hold(sources);
	source_set_release(atomic_exchange(&it->offered, sources));
}

void serve_admin_end(struct serve_admin *it)
{
	if (it)
		atomic_store(&it->end, true);
}

void serve_admin_join(struct serve_admin *it)
{
	serve_admin_end(it);
	if (it)
		thread_join(&it->thread);
}

void serve_admin_settle(struct serve_admin *it)
{
	if (!it)
		return;
	port_collect(it->port);
	admin_collect(&it->admin);
	worker_collect(&it->desk);
}

struct serve_admin *serve_admin_close(struct serve_admin *it)
{
	if (!it)
		return NULL;
	if (it->port)
		admin_release(&it->admin);
	it->server = http_server_free(it->server);
	if (it->port)
		store_free(port_store(it->port));
	source_set_release(atomic_exchange(&it->offered, NULL));
	source_set_release(it->sources);
	it->gauge = gauge_free(it->gauge);
	it->loop = loop_free(it->loop);
	return mem_free(it);
}
