/* serve_waiting: see serve_waiting.h. */
#include "serve/serve_waiting.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "net/http/http_server.h"
#include "sys/loop.h"
#include "sys/thread.h"
#include "sys/wake_event.h"

#define TRY_EVERY_MS 1000

struct waiting {
	struct waiting_options options;
	struct loop *loop;
	struct http_server *server, *admin; /* admin: NULL if it cannot be had */
	struct loop_handler signals;
	bool signalled;

	/* The thread's, until it has ended. */
	struct thread thread;
	struct wake_event wake;
	struct serve_store store;
	struct error_text text;
	int error;

	atomic_bool ending;
};

/* ---- what is answered ---- */

static void answer_text(struct http_request *request, uint16_t status, struct span text)
{
	http_respond(request, &(struct http_response){ .status = status,
	                                               .content_type = SPAN("text/plain"),
	                                               .body = text });
}

static void handle(struct http_request *request)
{
	if (span_eq(request->head.path, SPAN("/healthz")))
		answer_text(request, 200, SPAN("alive\n"));
	else if (span_eq(request->head.path, SPAN("/readyz")))
		answer_text(request, 503, SPAN("not ready: the shared store is away\n"));
	else
		http_respond_problem(request, 503, "the shared store is away; try again later",
		                     SPAN("Retry-After: 1\r\n"));
}

static bool wants_body(const struct http_request *request)
{
	(void)request;
	return false;
}

static int listen_at(struct waiting *waiting, const char *address, struct tls *tls,
                     struct http_server **ret_server, struct error_text *ret_text)
{
	struct http_server_options options = {
		.loop = waiting->loop,
		.address = address,
		.limits = http_limits_default,
		.gauge = waiting->options.gauge,
		.tls = tls,
		.handle = handle,
		.wants_body = wants_body,
		.user = waiting,
	};
	options.limits.connections = waiting->options.connections;
	return http_server_new(&options, ret_server, ret_text);
}

/* Health checks may ask there; what stands in its way is told when it is opened in earnest. */
static void listen_for_admin(struct waiting *waiting)
{
	const char *address = waiting->options.config->serve.admin;
	struct error_text ignored;

	if (strcmp(address, "none") == 0)
		return;
	int error = listen_at(waiting, address,
	                      option_is_loopback(address) ? NULL : waiting->options.tls,
	                      &waiting->admin, &ignored);
	if (error != 0)
		waiting->admin = NULL;
}

/* ---- signals ---- */

static void on_signal(struct loop_handler *handler, uint32_t events)
{
	struct waiting *waiting = container_of(handler, struct waiting, signals);
	struct signalfd_siginfo info;

	(void)events;
	if (read(handler->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP) {
		log_warn("SIGHUP: nothing is loaded again before the shared store is there");
		return;
	}
	waiting->signalled = true;
	loop_stop(waiting->loop);
}

/* ---- the store ---- */

static void open_store(void *user)
{
	struct waiting *waiting = user;

	waiting->error = ERR_AWAY;
	while (waiting->error == ERR_AWAY && !atomic_load(&waiting->ending)) {
		wake_event_wait(&waiting->wake, TRY_EVERY_MS);
		if (!atomic_load(&waiting->ending))
			waiting->error = serve_store_open(waiting->options.config, &waiting->store,
			                                  &waiting->text);
	}
	loop_stop(waiting->loop);
}

int serve_waiting_run(struct waiting *waiting, struct serve_store *ret_store,
                      struct error_text *ret_text)
{
	struct thread_options thread = {
		.name = "late store", .cpu = THREAD_ANY_CPU, .run = open_store, .user = waiting
	};
	char url[512];
	int error = thread_start(&waiting->thread, &thread);

	if (error != 0)
		return error;
	option_url(waiting->options.tls ? "https" : "http", waiting->options.config->serve.listen,
	           http_server_port(waiting->server), url, sizeof(url));
	log_warn("the shared store is away: events are refused until it is there",
	         log_str("listen", url), log_str("error", ret_text->text));
	loop_run(waiting->loop);
	atomic_store(&waiting->ending, true);
	wake_event_set(&waiting->wake);
	thread_join(&waiting->thread);
	*ret_text = waiting->text;
	if (waiting->signalled && waiting->error == 0) {
		store_free(waiting->store.store);
		serve_store_free(&waiting->store);
	}
	if (waiting->signalled || waiting->error != 0)
		return waiting->signalled ? ERR_CLOSING : waiting->error;
	*ret_store = waiting->store;
	return 0;
}

/* ---- begin and end ---- */

int serve_waiting_new(const struct waiting_options *options, struct waiting **ret_waiting,
                      struct error_text *ret_text)
{
	struct waiting *waiting = mem_zalloc(1, sizeof(*waiting));

	if (!waiting)
		return -ENOMEM;
	waiting->options = *options;
	wake_event_init(&waiting->wake);
	int error = loop_new(&waiting->loop);
	if (error == 0)
		error = listen_at(waiting, options->config->serve.listen, options->tls,
		                  &waiting->server, ret_text);
	if (error == 0) {
		waiting->signals = (struct loop_handler){ .ready = on_signal,
			                                  .fd = options->signal_fd };
		error = loop_add(waiting->loop, &waiting->signals, LOOP_READ);
	}
	if (error != 0) {
		serve_waiting_free(waiting);
		return error;
	}
	listen_for_admin(waiting);
	*ret_waiting = waiting;
	return 0;
}

const struct http_server *serve_waiting_server(const struct waiting *waiting)
{
	return waiting ? waiting->server : NULL;
}

struct waiting *serve_waiting_free(struct waiting *waiting)
{
	if (!waiting)
		return NULL;
	waiting->server = http_server_free(waiting->server);
	waiting->admin = http_server_free(waiting->admin);
	waiting->loop = loop_free(waiting->loop);
	wake_event_destroy(&waiting->wake);
	return mem_free(waiting);
}
