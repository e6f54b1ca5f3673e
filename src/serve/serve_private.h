/*
 * serve_private: the gateway while it runs, shared by the files of serve:
 *   serve.c           start, signals, the end
 *   serve_store.c     the store of the configuration; waiting until a shared one is there
 *   serve_wiring.c    sources and sinks of the configuration, ready for doors and delivery
 *   serve_io.c        one io thread: doors, store, answers
 *   serve_admin.c     the admin listener
 *   serve_periodic.c  what is checked from time to time
 *   serve_reload.c    a new configuration while it runs
 *   serve_stop.c      the steps of a stop
 *
 * Room:    serve. Threads: struct serve is the main thread's, which is io thread 0; struct
 *          io that of its thread, but for atomics. What says nothing else is called by the
 *          main thread.
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
 * the secret of its digests is known from an earlier start. If the store then answers and
 * is not fit, the process gets SIGTERM, and serve_store_refused() is true.
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
	bool spools;                /* there is a spool */
	uint32_t lease_ms;          /* of deliveries; 0: leases do not end */
	const char *data;           /* the data folder */
	struct late_opening *late;  /* NULL: it was there */
	struct port *reader;        /* shared: of the thread that calls serve_store_read() */
	char label[ERROR_TEXT_MAX]; /* what people may see of where it is */
};

int serve_store_open(const struct config *config, struct serve_store *ret_store,
                     struct error_text *ret_text) must_check;
/* The host has it now. */
int serve_store_attach(struct serve_store *store, struct store_host *host) must_check;
void serve_store_close(struct serve_store *store);
void serve_store_free(struct serve_store *store);          /* nobody needs the key any more */
bool serve_store_refused(const struct serve_store *store); /* any thread */

/* An event's payload; user is the struct serve_store. One thread, another than the main
 * one. -ENOENT: it is not kept. */
int serve_store_read(void *user, uint64_t ticket, struct buf *ret_payload);

/* Should the loop of the only io thread write the journal itself? */
bool serve_store_inline(const struct serve_options *options);

/* ---- serve_store.c: waiting ---- */

/*
 * While the shared store that a gateway needs is unreachable at its start, it listens and
 * tries to open the store. Senders get 503 with Retry-After; health checks see that it is
 * alive and not ready.
 *
 * Threads:   the main one, whose loop it has meanwhile; a thread of its own opens the store.
 * Ownership: serve_waiting_new() gives it, serve_waiting_free() takes it; what the options
 *            point to must stay.
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

/* Until the store is there. ERR_CLOSING: a signal came first; another error: the server
 * answers, and is not fit. */
int serve_waiting_run(struct waiting *waiting, struct serve_store *ret_store,
                      struct error_text *ret_text) must_check;

/* Whose port the real servers share before this one goes; NULL if there is none. */
const struct http_server *serve_waiting_server(const struct waiting *waiting);

struct waiting *serve_waiting_free(struct waiting *waiting); /* accepts NULL, returns NULL */

/* ---- serve_wiring.c: sources ---- */

/*
 * Ownership: the set is the caller's (one hold); it does not need the configuration.
 * Failure:   ERR_CONFIG or -ENOMEM.
 */

/* `listen`: the address that there is, whatever the configuration says. */
int serve_sources_new(const struct config *config, const char *listen, const unsigned char *key,
                      struct source_counts *counts, struct source_set **ret_set,
                      struct error_text *ret_text) must_check;

/* ---- serve_wiring.c: sinks ---- */

/*
 * Sinks that change while stile runs. New ones get a lane; changed ones get another
 * outlet and policy when what is under way has ended; the lanes of removed ones are
 * paused, and keep what waits for them. All that takes a while: until
 * serve_sinks_changing() is false, neither configuration may be freed nor another
 * change begun.
 *
 * A sink whose outlet cannot be made stays as it was. serve_sinks_failed() says which;
 * given to the next change, of the same configuration or another, it is tried again.
 *
 * Ownership: what is made does not need the configuration.
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

/* New lanes are there when it returns: what is routed to them is safe. On failure those
 * that were made stay, without a use. */
int serve_sinks_change(struct deliver *deliver, const struct sinks_step *step,
                       struct sinks_change **ret_change, struct error_text *ret_text) must_check;
bool serve_sinks_changing(const struct sinks_change *change); /* accepts NULL */
/* Of one that is done; NULL: none failed. */
void serve_sinks_failed(const struct sinks_change *change, struct sinks_failed *ret_failed);
/* When it is done, or no lane runs any more. Accepts NULL, returns NULL. */
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

/* *ret_resp is NULL when there is to be none. */
int serve_resp_new(const struct serve_resp_options *options, struct serve_resp **ret_resp,
                   struct error_text *ret_text) must_check;
struct serve_resp *serve_resp_free(struct serve_resp *resp); /* accepts NULL, returns NULL */

/* `joins`: the door of another loop, whose port is shared; NULL: this is the first. */
int serve_resp_open(struct serve_resp *resp, struct resp_door *door, const struct resp_door *joins,
                    struct loop *loop, struct store *store, struct error_text *ret_text) must_check;

/* "redis://127.0.0.1:6379", as it is told at the start; "none" without a door. */
const char *serve_resp_url(const struct serve_resp *resp);

/* ---- serve_admin.c ---- */

/*
 * The admin listener: a thread with a loop, an HTTP server and a port to the store of its
 * own, so that neither a flood of events keeps people out nor a question of theirs delays
 * an event.
 *
 * Ownership: serve_admin_open() gives it, serve_admin_close() takes it.
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

/* Listens, and answers from serve_admin_start() on. *ret_admin is NULL when there is none:
 * switched off, or its place is taken that nobody asked for (ret_text says so). */
int serve_admin_open(const struct serve_admin_options *options, struct serve_admin **ret_admin,
                     struct error_text *ret_text) must_check;
int serve_admin_start(struct serve_admin *admin) must_check;

/* Where it is: "http://127.0.0.1:8081". */
const char *serve_admin_url(const struct serve_admin *admin);

/* From a reload on. Accepts NULL, as all below. */
void serve_admin_offer(struct serve_admin *admin, struct source_set *sources);

void serve_admin_end(struct serve_admin *admin);
void serve_admin_join(struct serve_admin *admin);
void serve_admin_settle(struct serve_admin *admin);
struct serve_admin *serve_admin_close(struct serve_admin *admin); /* returns NULL */

/* ---- serve_periodic.c: events without a sink ---- */

/*
 * Logs at the start how many events wait for a sink that is not in the configuration:
 * removed, or renamed. They stay until it is there again. The store is asked in small
 * pieces, one a round, beside the events that come.
 *
 * Threads:   an io thread's, that of the store it asks.
 * Ownership: borrows the store; the operation belongs to it until the store is closed.
 */

struct orphans {
	struct store *store;
	struct store_scan scan;
	uint32_t known_count;
	uint32_t known[CONFIG_SINKS_MAX]; /* numbers of the sinks that there are */
	uint64_t found;
	uint32_t example; /* number of a sink that is not there */
};

void serve_orphans_begin(struct orphans *orphans, const struct config *config, struct store *store);
/* When the store is closed. */
void serve_orphans_end(struct orphans *orphans);

/* ---- serve_periodic.c: claims that nobody settled ---- */

/*
 * Claims that nobody settled, and whose window has ended: no caller can come back for them,
 * so their tickets would stay for ever. They are closed, and the log says so.
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
	uint64_t now_ms;  /* the store's, as far as it is known */
	int64_t apart_ms; /* how far the store's clock is ahead of this machine's */
	struct store_scan scan;
	struct store_take take;
	struct store_settle settle;
	uint64_t over[CALLERS_PER_SCAN]; /* tickets of the last piece */
	uint32_t count;
	uint64_t closed;
};

/* Does nothing while the last one is under way. */
void serve_callers_sweep(struct callers *callers, struct store *store, uint64_t now_ms);
/* When the store is closed. */
void serve_callers_end(struct callers *callers);

/* ---- serve_stop.c: the last bound ---- */

/*
 * Every step of a stop has its own limit, but a disk that hangs blocks every thread that
 * writes to it. So a thread that touches no disk waits beside, and ends the process when
 * the stop takes too long: as safe as a crash, nothing acknowledged is lost.
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

/* The stop is done. Of one that was not begun (zeroed): nothing. */
void stop_guard_end(struct stop_guard *guard);

/* ---- the gateway ---- */

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
/* The windows of all sources, for a question to the console: CONFIG_SOURCES_MAX. */
void serve_fill_windows(const struct source_set *set, struct advice_question *windows,
                        struct console_view *ret_view);
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

/* serve_periodic.c */
int serve_periodic_start(struct serve *serve) must_check;
