/*
 * serve_private: the running gateway, shared by the files of serve:
 *   serve.c           start, signals, the end
 *   serve_store.c     the store of the configuration; waiting until a shared one is there
 *   serve_wiring.c    sources and sinks of the configuration, ready for doors and delivery
 *   serve_io.c        one io thread: doors, store, answers
 *   serve_admin.c     the admin listener
 *   serve_periodic.c  periodic checks
 *   serve_reload.c    a new configuration while it runs
 *   serve_stop.c      the steps of a stop
 *
 * Room:    serve. Threads: struct serve belongs to the main thread, which is io thread 0;
 *          struct io to its own thread, except for atomics. Functions are called by the
 *          main thread unless they say otherwise.
 * Failure: an error and a text.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/span.h"
#include "config/config.h"
#include "console/console.h"
#include "deliver/deliver.h"
#include "door/claims/claims.h"
#include "door/resp/resp.h"
#include "door/source.h"
#include "door/webhook/webhook.h"
#include "net/http/http_server.h"
#include "net/tls/tls.h"
#include "store/port.h"
#include "store/store.h"
#include "sys/file.h"
#include "sys/loop.h"
#include "sys/thread.h"
#include "sys/wake_event.h"

struct late_opening;
struct waiting;
struct serve_resp;
struct serve_admin;
struct sinks_change;

/* Writes a message of a store or of the traces, which is MESSAGE or MESSAGE: DETAILS; the
 * details become a field. Any thread. */
void serve_log(enum log_level level, const char *part, const char *text);

/* ---- serve_store.c ---- */

/*
 * The store that the configuration names, ready for a host.
 *
 * Local: the journal in the data folder. Shared (Redis, PostgreSQL): that store behind a
 * spool (store/spool/spool_store.h), whose journal is in the folder `spool` of the data
 * folder. The spool exists if a source spools, or if an earlier start left it.
 *
 * A shared store that is unreachable at the start is opened later, if a source spools and
 * the secret of its digests is known from an earlier start. If the store then answers but
 * cannot be used, the process gets SIGTERM, and serve_store_refused() is true.
 *
 * Ownership: serve_store_open() gives the store, which the host takes; the rest is freed
 *            by serve_store_close(), after the host was closed.
 * Failure:   ERR_AWAY: the shared store is unreachable, and the gateway cannot start
 *            without it; see serve_waiting_new().
 */

struct serve_store {
	struct store *store;
	const unsigned char *key; /* under which claims are digested; lives as the store */
	bool shared;
	bool spools;                /* a spool exists */
	uint32_t lease_ms;          /* of deliveries; 0: leases do not end */
	const char *data;           /* the data folder */
	struct late_opening *late;  /* NULL: it was reachable */
	struct port *reader;        /* shared: for the thread that calls serve_store_read() */
	char label[ERROR_TEXT_MAX]; /* its URL without secrets */
};

int serve_store_open(const struct config *config, struct serve_store *ret_store,
                     struct error_text *ret_text) must_check;
/* After the host has taken the store. */
int serve_store_attach(struct serve_store *store, struct store_host *host) must_check;
void serve_store_close(struct serve_store *store);
void serve_store_free(struct serve_store *store);          /* after the last use of the key */
bool serve_store_refused(const struct serve_store *store); /* any thread */

/* An event's payload; `user` is the struct serve_store. Called by one thread, not the main
 * thread. -ENOENT: the event is not kept. */
int serve_store_read(void *user, uint64_t ticket, struct buf *ret_payload);

/* Does the only io thread write the journal itself, in its loop? */
bool serve_store_inline(const struct serve_options *options);

/* ---- serve_store.c: waiting ---- */

/*
 * While the shared store that a gateway needs is unreachable at its start, it listens and
 * tries to open the store. Senders get 503 with Retry-After; health checks see that it is
 * alive and not ready.
 *
 * Threads:   the main thread, with a loop for this time; another thread opens the store.
 * Ownership: freed by serve_waiting_free(); borrows what the options point to.
 */

struct waiting_options {
	const struct config *config;
	struct gauge *gauge;
	struct tls *tls; /* or NULL */
	uint32_t connections;
	int signal_fd; /* a signalfd: SIGTERM and SIGINT end the waiting */
};

int serve_waiting_new(const struct waiting_options *options, struct waiting **ret_waiting,
                      struct error_text *ret_text) must_check;

/* Returns when the store is open. ERR_CLOSING: a signal came first; another error: the
 * server answers, but cannot be used. */
int serve_waiting_run(struct waiting *waiting, struct serve_store *ret_store,
                      struct error_text *ret_text) must_check;

/* The server whose port the real servers share before this one is closed; or NULL. */
const struct http_server *serve_waiting_server(const struct waiting *waiting);

struct waiting *serve_waiting_free(struct waiting *waiting); /* accepts NULL, returns NULL */

/* ---- serve_wiring.c: sources ---- */

/*
 * Ownership: the set is the caller's (one hold); it does not need the configuration.
 * Failure:   ERR_CONFIG or -ENOMEM.
 */

/* `listen`: the address since the start; a reload does not change it. */
int serve_sources_new(const struct config *config, const char *listen, const unsigned char *key,
                      struct source_counts *counts, struct source_set **ret_set,
                      struct error_text *ret_text) must_check;

/* ---- serve_wiring.c: sinks ---- */

/*
 * Sinks that change while stile runs. A new sink gets a lane. A changed sink gets another
 * outlet and policy when its attempts under way have ended. The lane of a removed sink is
 * paused and keeps its events. This takes a while: until serve_sinks_changing() is false,
 * neither configuration may be freed, and no other change may begin.
 *
 * A sink whose outlet cannot be made stays as it was. serve_sinks_failed() lists these
 * sinks for the next change, which tries them again.
 *
 * Ownership: lanes and outlets do not need the configuration.
 * Failure:   ERR_CONFIG, -ENOMEM.
 */

struct sinks_failed {
	uint32_t count;
	uint32_t ids[CONFIG_SINKS_MAX];
};

struct sinks_step {
	const struct config *last, *next;
	const struct sinks_failed *failed; /* of the change before */
};

/* New lanes exist when it returns, so events can be routed to them. On failure those that
 * were made stay, unused. */
int serve_sinks_change(struct deliver *deliver, const struct sinks_step *step,
                       struct sinks_change **ret_change, struct error_text *ret_text) must_check;
bool serve_sinks_changing(const struct sinks_change *change); /* accepts NULL */
/* Of a change that is done; NULL: none failed. */
void serve_sinks_failed(const struct sinks_change *change, struct sinks_failed *ret_failed);
/* After it is done, or when no lane runs any more. Accepts NULL, returns NULL. */
struct sinks_change *serve_sinks_change_free(struct sinks_change *change);

struct serve_sinks_options {
	struct store_host *host;
	struct feed *feed;
	uint32_t lease_ms; /* 0: leases do not end */
};

/* A lane for every sink. */
int serve_sinks_start(const struct config *config, const struct serve_sinks_options *options,
                      struct deliver **ret_deliver, struct error_text *ret_text) must_check;

/* ---- serve_io.c: the Redis door ---- */

/*
 * What the Redis doors of all io threads share, and where they listen.
 *
 * Threads:   made and freed by the main thread; each io thread opens its own door
 *            (door/resp/resp.h).
 * Ownership: borrows config, tls and key; outlives the doors.
 */

struct serve_resp_options {
	const struct config *config;
	struct tls *tls;          /* of the HTTP listener; NULL: none */
	const unsigned char *key; /* the store's */
	uint32_t connections;     /* at most */
	uint64_t started_ms;      /* unix */
};

/* *ret_resp is NULL if the Redis door is off. */
int serve_resp_new(const struct serve_resp_options *options, struct serve_resp **ret_resp,
                   struct error_text *ret_text) must_check;
struct serve_resp *serve_resp_free(struct serve_resp *resp); /* accepts NULL, returns NULL */

/* `joins`: the door of another loop, whose port is shared; NULL: this is the first. */
int serve_resp_open(struct serve_resp *resp, struct resp_door *door, const struct resp_door *joins,
                    struct loop *loop, struct store *store, struct error_text *ret_text) must_check;

/* "redis://127.0.0.1:6379", for the log; "none" without a door. */
const char *serve_resp_url(const struct serve_resp *resp);

/* ---- serve_admin.c ---- */

/*
 * The admin listener: its own thread with a loop, an HTTP server and a port to the store.
 * A flood of events does not block admin requests, and these do not delay events.
 *
 * Ownership: freed by serve_admin_close().
 * Shutdown:  serve_admin_end() with the io threads; serve_admin_join() before the store
 *            is closed; serve_admin_settle() after that, while the lanes still exist;
 *            serve_admin_close() when they have ended, too.
 */

struct serve_admin_options {
	const struct config *config; /* of the start */
	struct console *console;
	struct store_host *host;
	struct source_set *sources;
	struct tls *tls;          /* NULL: none */
	const unsigned char *key; /* the store's secret */
};

/* Listens, and answers from serve_admin_start() on. *ret_admin is NULL if there is none: it
 * is off, or the default address is in use (then ret_text says so). */
int serve_admin_open(const struct serve_admin_options *options, struct serve_admin **ret_admin,
                     struct error_text *ret_text) must_check;
int serve_admin_start(struct serve_admin *admin) must_check;

/* Where it is: "http://127.0.0.1:8081". */
const char *serve_admin_url(const struct serve_admin *admin);

/* After a reload. Accepts NULL, as all below. */
void serve_admin_offer(struct serve_admin *admin, struct source_set *sources);

void serve_admin_end(struct serve_admin *admin);
void serve_admin_join(struct serve_admin *admin);
void serve_admin_settle(struct serve_admin *admin);
struct serve_admin *serve_admin_close(struct serve_admin *admin); /* returns NULL */

/* ---- serve_periodic.c: events without a sink ---- */

/*
 * Logs at the start how many events wait for a sink that is not in the configuration:
 * removed, or renamed. They stay until it is configured again. The store is scanned in
 * small pieces, one a round, while events are served.
 *
 * Threads:   an io thread's, that of the store it asks.
 * Ownership: borrows the store; the operation belongs to it until the store is closed.
 */

struct orphans {
	struct store *store;
	struct store_scan scan;
	uint32_t known_count;
	uint32_t known[CONFIG_SINKS_MAX]; /* numbers of the configured sinks */
	uint64_t found;
	uint32_t example; /* number of a sink that is not configured */
};

void serve_orphans_begin(struct orphans *orphans, const struct config *config, struct store *store);
/* When the store is closed. */
void serve_orphans_end(struct orphans *orphans);

/* ---- serve_periodic.c: claims that nobody settled ---- */

/*
 * Claims that nobody settled, and whose window has ended: no caller can settle them any
 * more, so their tickets would stay forever. They are closed, and the log reports it.
 *
 * Threads:   an io thread's, that of the store it asks.
 * Ownership: borrows the store; the operations belong to it until the store is closed.
 */

#define CALLERS_PER_SCAN 256u

struct callers {
	struct store *store;
	bool sweeping;
	bool stopped;     /* for good: the store is about to be closed */
	uint64_t wall_ms; /* this machine's when it began */
	uint64_t now_ms;  /* the store's, as last known */
	int64_t apart_ms; /* how far the store's clock is ahead of this machine's */
	struct store_scan scan;
	struct store_take take;
	struct store_settle settle;
	uint64_t over[CALLERS_PER_SCAN]; /* tickets of the last piece */
	uint32_t count;
	uint64_t closed;
};

/* Does nothing while the last sweep is under way. */
void serve_callers_sweep(struct callers *callers, struct store *store, uint64_t now_ms);
/* When the store is closed. */
void serve_callers_end(struct callers *callers);

/* ---- serve_stop.c: the last bound ---- */

/*
 * Every step of a stop has its own limit, but a disk that hangs blocks every thread that
 * writes to it. So a thread that uses no disk ends the process when the stop takes too
 * long. That is as safe as a crash: nothing acknowledged is lost.
 *
 * Ownership: the struct is the caller's and must stay until stop_guard_end().
 * Failure:   of begin: -errno; then nothing bounds the stop.
 */

struct stop_guard {
	struct wake_event wake;
	struct thread thread;
	int limit_ms;
};

/* From now on the process ends with EXIT_CODE_FAILED after limit_ms. */
int stop_guard_begin(struct stop_guard *guard, int limit_ms) must_check;

/* The stop is done. Does nothing if the guard was not begun (zeroed). */
void stop_guard_end(struct stop_guard *guard);

/* ---- the gateway ---- */

/* Time that a stop gives connections, and decisions under way. */
#define SERVE_DRAIN_MS 5000

struct serve;

/* Of an io thread, which sets it; the main thread reads it. */
enum io_stage { IO_SERVING, IO_DRAINING, IO_DRAINED };

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
	_Atomic(enum io_stage) stage;
	atomic_bool end; /* asks its loop to stop */
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
	struct trace_log *traces;   /* NULL: could not be opened */
	struct loop_timer advise;
	struct advice_alarm alarms[CONFIG_SOURCES_MAX]; /* by the place in `sources` */
	struct tls *tls;
	struct gauge *gauge;
	struct serve_resp *resp; /* NULL: there is none */
	struct deliver *deliver;
	struct serve_admin *admin;   /* NULL: there is none */
	struct sinks_change *change; /* of the last reload; NULL: there was none */
	struct config *before;       /* the configuration that it still needs */
	bool reload_again;           /* SIGHUP came meanwhile */
	struct sinks_failed failed;  /* of the last change */
	uint64_t retry_at_ms;        /* when these are tried again */
	struct orphans orphans;
	struct callers callers;
	struct loop_timer sweep; /* of `callers` */
	struct console console;
	struct io ios[CONSOLE_THREADS_MAX];
	uint32_t io_count;
	enum serve_phase phase;
	uint64_t phase_began_ms;
	uint64_t rests_since_ms; /* delivery; 0: it does not rest */
	struct loop_handler signals;
	struct loop_timer step;
	struct loop_timer later;
	struct stop_guard guard;
};

/* serve_io.c */
struct store *serve_io_store(const struct io *io);
void serve_io_wake(void *loop); /* from any thread */
/* The windows of all sources, for a question to the console: CONFIG_SOURCES_MAX. */
void serve_fill_windows(const struct source_set *set, struct advice_question *windows,
                        struct console_view *ret_view);
/* io->loop exists already: the embedded host needs it first. On failure io->problem is set. */
int serve_io_open(struct io *io) must_check;
void serve_io_run(void *io); /* until its loop is stopped */
/* After the store was closed. */
void serve_io_close(struct io *io);

/* serve_stop.c */
void serve_stop(struct serve *serve,
                const char *signal); /* begins a stop; serve->step continues it */
void serve_stop_step(struct loop_timer *timer);

/* serve_reload.c */
void serve_reload(struct serve *serve);            /* SIGHUP */
void serve_reload_later(struct loop_timer *timer); /* what a reload left to do */
/* False: no change of sinks is under way any more, and what it needed was freed. */
bool serve_reload_is_changing(struct serve *serve);

/* serve_periodic.c */
int serve_periodic_start(struct serve *serve) must_check;
