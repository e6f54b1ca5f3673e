/*
 * serve_private: the gateway while it runs, shared by the files of serve:
 *   serve.c         start, signals, the end
 *   serve_io.c      one io thread: doors, store, answers
 *   serve_stop.c    the steps of a stop
 *   serve_reload.c  a new configuration while it runs
 *   serve_advise.c  what is looked at from time to time
 *
 * Room: serve. Threads: struct serve is the main thread's, which is io thread 0; struct io
 * that of its thread, but for atomics.
 */
#pragma once

#include <stdatomic.h>

#include "config/config.h"
#include "console/console.h"
#include "deliver/deliver.h"
#include "door/claims/claims.h"
#include "door/webhook/webhook.h"
#include "net/http/http_server.h"
#include "net/tls/tls.h"
#include "serve/serve_admin.h"
#include "serve/serve_callers.h"
#include "serve/serve_orphans.h"
#include "serve/serve_resp.h"
#include "serve/serve_sinks.h"
#include "serve/serve_sources.h"
#include "serve/serve_store.h"
#include "serve/serve_waiting.h"
#include "serve/stop_guard.h"
#include "store/port.h"
#include "sys/loop.h"
#include "sys/thread.h"

/* What a stop gives connections, and decisions that are under way. */
#define SERVE_DRAIN_MS 5000

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

/* See serve_stop.c. */
enum serve_phase { PHASE_SERVE, PHASE_DRAIN, PHASE_DELIVER, PHASE_SETTLE };

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
	struct gauge *gauge;
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
	enum serve_phase phase;
	uint64_t phase_began_ms;
	uint64_t rests_since_ms; /* 0: it does not */
	struct loop_handler signals;
	struct loop_timer step;
	struct loop_timer later;
	struct stop_guard guard;
};

/* serve_io.c */
struct store *serve_io_store(const struct io *io);
void serve_io_wake(void *loop); /* from any thread */
/* The loop is there already (the embedded host needs it first). io->problem says why not. */
int serve_io_open(struct io *io) must_check;
void serve_io_run(void *io); /* until its loop is stopped */
/* The store is closed. */
void serve_io_close(struct io *io);

/* serve_stop.c */
void serve_stop(struct serve *serve, const char *signal); /* begins; serve->step goes on */
void serve_stop_step(struct loop_timer *timer);

/* serve_reload.c */
void serve_reload(struct serve *serve);            /* SIGHUP */
void serve_reload_later(struct loop_timer *timer); /* what a reload left to be done */
/* What a change of sinks needed until it was done is freed. True: it is not done yet. */
bool serve_reload_is_changing(struct serve *serve);

/* serve_advise.c */
int serve_advise_start(struct serve *serve) must_check;
