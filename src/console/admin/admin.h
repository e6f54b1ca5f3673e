/*
 * admin: the admin API, /v1/…, which shows events and acts on them. docs/admin.md
 * and docs/openapi.yaml describe it; GET /v1 lists what there is.
 *
 * Who may ask (admin_guard.c): with tokens, whoever brings one; without, this machine
 * alone, under a loopback name (a page that makes a name of its own lead here is
 * refused), neither for a page of another origin nor through a proxy.
 *
 * Room:      console.
 * Threads:   one thread has it: the admin listener's. What is read of others is atomic,
 *            or goes through the store's port and the lanes' mailboxes.
 * Ownership: borrows what the options point to. admin_release() when nothing is in
 *            flight any more: after the store and the lanes have let go.
 * Failure:   problem+json. Nothing here ends the process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "console/admin/admin_filter.h"
#include "console/console.h"
#include "net/http/http_server.h"
#include "store/store.h"
#include "sys/mailbox.h"

#define ADMIN_TOKENS_MAX 5u
#define ADMIN_STREAMS_MAX 16u

struct admin_options {
	struct console *console;
	struct store *port; /* this thread's; the caller flushes and collects it */
	const struct span *tokens;
	uint32_t token_count;
	bool tls;                 /* it is asked with https */
	const unsigned char *key; /* DIGEST_KEY_LEN bytes: the store's secret */
	/* From any thread: have admin_collect() called soon. */
	void (*wake)(void *user);
	void *user;
};

struct admin_job;

struct admin {
	struct admin_options options;
	struct mailbox mail;    /* commands that lanes are done with */
	struct admin_job *jobs; /* newest first */
	uint32_t job_count;     /* ever */
	struct http_request *streams[ADMIN_STREAMS_MAX];
	uint32_t stream_count;
	uint64_t streams_cut; /* because they read too slowly */
	uint64_t heartbeat_ms;
	/* What the present request sees: of the sources that hold now. */
	struct console_view view;
	uint64_t now_ms; /* unix */
};

/* Header lines that every answer of the admin listener has. */
extern const struct span admin_headers;

void admin_init(struct admin *admin, const struct admin_options *options);
void admin_release(struct admin *admin);

/* Answers, now or later. `view` lives until this returns. */
void admin_handle(struct admin *admin, const struct console_view *view, uint64_t now_ms,
                  struct http_request *request);

/* Once a round: what lanes have done. A few times a second: background work goes on. */
void admin_collect(struct admin *admin);
void admin_tick(struct admin *admin, uint64_t now_ms);

/* ---- for the files of the console alone ---- */

/* `part` is the one in braces of a path such as /v1/tickets/{ticket}/release. */
typedef void admin_answer(struct admin *admin, struct http_request *request, struct span part);

/* admin_guard.c. False: it is refused, and answered. */
bool admin_guard(const struct admin *admin, struct http_request *request);

/* 200 with JSON, or 503 when `out` has failed; frees it. */
void admin_respond(struct http_request *request, struct buf *out);
void admin_respond_status(struct http_request *request, uint16_t status, struct buf *out);
void admin_respond_busy(struct http_request *request, const char *detail);
/* Of an operation of the store that failed. */
void admin_respond_error(struct http_request *request, int error);

/* admin_json.c. Members end with a comma, which admin_close_object() takes back. */
void admin_put_sink(const struct admin *admin, struct buf *out, uint32_t sink);
void admin_put_item(const struct admin *admin, struct buf *out, const struct store_item *item,
                    const struct store_parts *parts);
void admin_put_payload(struct buf *out, const struct store_item *item, struct span payload);
const char *admin_mark_name(enum store_mark mark);

/* admin_command.c: tells a lane, and `done` is called on this thread with what came of
 * it. -ENOENT: there is no such lane. */
struct admin_command {
	struct deliver_command command;
	struct admin *admin;
	struct mailbox_node node;
	void (*done)(struct admin_command *command);
};
void admin_command_post(struct admin *admin, uint32_t lane, struct admin_command *command);
int admin_find_lane(const struct admin *admin, uint32_t sink);

/* admin_act.c: releases or drops a ticket that was last seen in that state. A due one is
 * tried now, or leaves its lane. `done` may come before this returns. ERR_FENCED: it is
 * in no state for that; ERR_BUSY: an attempt is under way, or another of its entity is
 * before it. */
struct admin_act {
	struct admin *admin;
	uint64_t ticket;
	uint32_t sink;
	bool drop;
	bool whole_event; /* all legs of it that are held, parked or dead */
	void (*done)(struct admin_act *act, int error);
	/* private: */
	struct store_release release;
	struct admin_command command;
	uint32_t states;
	bool store_asked, lane_asked;
};
void admin_act_begin(struct admin_act *act, enum store_state state);

/* admin_tickets.c. False: it is none, and answered. */
bool admin_parse_ticket(struct http_request *request, struct span part, uint64_t *ret_ticket);

/* admin_list.c, admin_show.c, admin_tickets.c, admin_sinks.c */
admin_answer admin_list_tickets, admin_show_ticket;
admin_answer admin_release_ticket, admin_drop_ticket;
admin_answer admin_list_sinks, admin_show_sink, admin_pause_sink, admin_resume_sink;
admin_answer admin_list_sources, admin_show_stats;

/* admin_stream.c */
admin_answer admin_open_stream;
void admin_stream_collect(struct admin *admin);
void admin_stream_tick(struct admin *admin);
void admin_stream_close(struct admin *admin); /* all of them */

/* admin_jobs.c */
admin_answer admin_start_replay, admin_start_release, admin_start_drop, admin_replay_ticket;
admin_answer admin_list_jobs, admin_show_job, admin_cancel_job;

/* admin_job.c */
void admin_jobs_tick(struct admin *admin);
void admin_jobs_free(struct admin *admin);
