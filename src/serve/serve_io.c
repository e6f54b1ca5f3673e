/*
 * One io thread: doors, store, answers; and the data that the Redis doors of all io threads
 * share.
 * See serve_private.h.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/version.h"
#include "config/config.h"
#include "serve/serve_private.h"
#include "sys/clock.h"

/* ---- the Redis door ---- */

struct serve_resp {
	struct serve_resp_options options;
	struct resp_shared *shared;
	struct gauge *gauge; /* its own: the other listener may be full */
	char url[512];
};

static bool uses_tls(const struct serve_resp_options *options)
{
	return options->tls && options->config->serve.resp_tls == SERVE_RESP_TLS_AUTO;
}

int serve_resp_new(const struct serve_resp_options *options, struct serve_resp **ret_resp,
                   struct error_text *ret_text)
{
	*ret_resp = NULL;
	if (strcmp(options->config->serve.resp, "none") == 0)
		return 0;
	struct serve_resp *resp = mem_zalloc(1, sizeof(*resp));
	if (!resp)
		return -ENOMEM;
	resp->options = *options;
	const struct config *config = options->config;
	int error = gauge_new(&resp->gauge);
	if (error == 0)
		error = resp_shared_new(
			&(struct resp_options){ .key = options->key,
		                                .scope = span_str(config->serve.resp_scope),
		                                .passwords = config->resp_passwords,
		                                .password_count = config->resp_password_count,
		                                .max_value = (uint32_t)config->serve.resp_max_value,
		                                .max_clients = options->connections,
		                                .version = STILE_VERSION,
		                                .started_ms = options->started_ms },
			&resp->shared);
	if (error != 0) {
		serve_resp_free(resp);
		return error_fill(ret_text, error, "the Redis door cannot be set up: %s",
		                  error_name(error));
	}
	*ret_resp = resp;
	return 0;
}

struct serve_resp *serve_resp_free(struct serve_resp *resp)
{
	if (!resp)
		return NULL;
	resp->shared = resp_shared_free(resp->shared);
	resp->gauge = gauge_free(resp->gauge);
	return mem_free(resp);
}

int serve_resp_open(struct serve_resp *resp, struct resp_door *door, const struct resp_door *joins,
                    struct loop *loop, struct store *store, struct error_text *ret_text)
{
	const struct serve_options *serve = &resp->options.config->serve;
	struct resp_server_options where = {
		.loop = loop,
		.address = serve->resp,
		.joins = joins ? joins->server : NULL,
		.limits = resp_server_limits_default,
		.gauge = resp->gauge,
		.tls = uses_tls(&resp->options) ? resp->options.tls : NULL,
	};
	where.limits.connections = resp->options.connections;
	where.limits.connections_per_address = (uint32_t)serve->connections_per_address;
	where.limits.idle_ms = (uint32_t)serve->resp_idle_ms;
	int error = resp_door_open(door, resp->shared, store, &where, ret_text);
	if (error == 0 && !joins)
		option_url(uses_tls(&resp->options) ? "rediss" : "redis", serve->resp,
		           resp_server_port(door->server), resp->url, sizeof(resp->url));
	return error;
}

const char *serve_resp_url(const struct serve_resp *resp)
{
	return resp ? resp->url : "none";
}

/* ---- an io thread ---- */

/* A commit costs the same for much as for little. */
#define GATHER 4

/* A Redis command may have many keys. */
#define RESP_IN_FLIGHT 65536u

/* Input memory holds at least this many bodies of the largest size. */
#define BODIES_MIN UINT64_C(16)

struct store *serve_io_store(const struct io *io)
{
	return io->port ? port_store(io->port) : store_host_store(io->serve->host);
}

void serve_fill_windows(const struct source_set *set, struct advice_question *windows,
                        struct console_view *ret_view)
{
	for (uint32_t i = 0; i < set->count; i++)
		windows[i] = (struct advice_question){
			.source = set->sources[i].name,
			.window_ms = set->sources[i].window_ms,
			.retries_ms = set->sources[i].options.retries_ms
		};
	ret_view->windows = windows;
	ret_view->window_count = set->count;
}

/* The path of the only source is no secret: the log names it at the start too. */
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
		           config->sources[0].door.path.ptr);
	else
		error_fill(&text, 0, "there is nothing here; events go to the path of a source");
	http_respond_problem(request, 404, text.text, SPAN_EMPTY);
}

static void handle(struct http_request *request)
{
	struct io *io = request->user;
	if (webhook_handle(&io->webhook, request))
		return;
	if (claims_handle(&io->claims, io->webhook.use->set, request))
		return;
	struct console_view view = { .port = serve_io_store(io) };
	struct advice_question windows[CONFIG_SOURCES_MAX];
	serve_fill_windows(io->webhook.use->set, windows, &view);
	if (!console_handle(&io->serve->console, &view, request))
		refuse_path(io->serve, request);
}

/* As handle() decides: all other requests are answered without their body. */
static bool wants_body(const struct http_request *request)
{
	const struct io *io = request->user;
	return webhook_wants_body(&io->webhook, request) ||
	       claims_wants_body(io->webhook.use->set, request);
}

/* Runs before the server's own hook, so decisions are durable before the answers are sent.
 * Requests that wait for an outcome ask the store again in the same round. */
static void io_round(struct loop_hook *hook)
{
	struct io *io = container_of(hook, struct io, round);
	do {
		io->webhook.asked = io->claims.asked = io->resp.asked = false;
		if (io->port) {
			store_flush(port_store(io->port));
			port_collect(io->port);
		} else {
			store_host_run(io->serve->host);
		}
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
	if (atomic_load(&io->serve->console.draining) && io->stage == IO_SERVING) {
		io->stage = IO_DRAINING;
		io->claims.ending = true;
		http_server_drain(io->server);
		if (io->resp.server)
			resp_server_drain(io->resp.server);
	}
	if (io->stage == IO_DRAINING && http_server_drained(io->server) &&
	    (!io->resp.server || resp_server_drained(io->resp.server)))
		io->stage = IO_DRAINED;
	if (atomic_load(&io->end))
		loop_stop(io->loop);
	else if (loop_timer_set(io->loop, &io->tick, STORE_HOST_TICK_MS) != 0)
		log_error("tick timer cannot be set"); /* its slot was just freed */
}

void serve_io_wake(void *loop)
{
	loop_wake(loop);
}

/* Only a gain: without it everything works. One message is enough for all threads. */
static void batch_calls(struct io *io)
{
	if (io->serve->options->io_uring == SERVE_IO_URING_OFF)
		return;
	int error = http_server_batch(io->server);
	if (error == 0 && io->resp.server)
		error = resp_server_batch(io->resp.server);
	if (error != 0 && io == io->serve->ios)
		log_info("io_uring is not available: one system call for each read and write",
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

int serve_io_open(struct io *io)
{
	struct serve *serve = io->serve;
	struct port_options options = { .wake = serve_io_wake, .user = io->loop };
	if (serve->resp)
		options.max_in_flight = RESP_IN_FLIGHT;
	int error = serve->embedded ? 0 : port_new(serve->host, &options, &io->port);
	if (error == 0)
		error = webhook_init(&io->webhook, &(struct webhook_options){
							   .sources = serve->sources,
							   .store = serve_io_store(io),
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
		                        serve_io_store(io), &io->problem);
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

void serve_io_run(void *user)
{
	struct io *io = user;
	loop_run(io->loop);
	size_t left = io->port ? port_drain(io->port, SERVE_DRAIN_MS) : 0;
	if (left > 0)
		log_warn("shutdown timeout: requests closed without a decision",
		         log_u64("decisions", left));
}

/* After the store was closed: it needs no operation any more, and operations are in the
 * memory of the server's requests. */
void serve_io_close(struct io *io)
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
