/*
 * admin_private: what the files of the admin API share.
 *
 *   admin.c          routes, access control, answers, commands to lanes
 *   admin_filter.c   parameters of a query; the filter that selects tickets
 *   admin_tickets.c  one ticket: as JSON, list, show, release, drop
 *   admin_jobs.c     many tickets: replay, release, drop as background jobs
 *   admin_sinks.c    sinks, sources, statistics, the stream of decisions
 *
 * Room: console. Threads: the one of the admin listener.
 */
#pragma once

#include "base/error.h"
#include "console/admin/admin.h"

/* ---- admin.c ---- */

struct admin_call {
	struct http_request *request;
	struct span part; /* the one in braces of a path such as /v1/tickets/{ticket}/release */
	int what;         /* of its row in the table of routes */
};

typedef void admin_answer(struct admin *admin, const struct admin_call *call);

/* 200 with JSON, or 503 when `out` has failed; frees it. */
void admin_respond(struct http_request *request, struct buf *out);
void admin_respond_status(struct http_request *request, uint16_t status, struct buf *out);
void admin_respond_problem(struct http_request *request, uint16_t status, const char *detail);
void admin_respond_busy(struct http_request *request, const char *detail);
/* Of an operation of the store that failed. */
void admin_respond_error(struct http_request *request, int error);

/* Zeroed memory; NULL: there is none, and the request is answered. */
void *admin_alloc(struct http_request *request, size_t size) must_check;

/* A command to a lane; `done` is called on this thread with its result. */
struct admin_command {
	struct deliver_command command;
	struct admin *admin;
	struct mailbox_node node;
	void (*done)(struct admin_command *command);
};
void admin_command_post(struct admin *admin, uint32_t lane, struct admin_command *command);

/* ---- admin_filter.c ---- */

/*
 * Selects tickets, as the query of a request says:
 *
 *   state=dead,parked  source=crm  sink=crm  type=order.*  entity=…  id=…
 *   since=2h  until=2026-01-02T03:04:05Z   when the event was first seen: a time, or how
 *                                          long ago
 */
#define FILTER_TEXT_MAX 256u
#define FILTER_OPEN_STATES                                                           \
	(1u << STORE_STATE_DUE | 1u << STORE_STATE_LEASED | 1u << STORE_STATE_HELD | \
	 1u << STORE_STATE_PARKED | 1u << STORE_STATE_DEAD)
#define FILTER_ALL_STATES (FILTER_OPEN_STATES | 1u << STORE_STATE_CLOSED)

struct filter_text {
	bool given;
	uint32_t len;
	char bytes[FILTER_TEXT_MAX];
};

struct admin_filter {
	uint32_t states; /* bits 1 << enum store_state; 0: none was given */
	struct filter_text source, sink, type, entity, id;
	uint32_t sink_number;
	uint64_t from, to; /* ticket numbers, inclusive; 0: no bound */
	uint64_t event;    /* not 0: this ticket, or all legs of this event */
};

static inline struct span filter_span(const struct filter_text *text)
{
	return span_of(text->bytes, text->len);
}

/* A parameter's value, decoded. False with `given` unset: it is not there. False with a
 * text in ret_problem: it is too long, comes twice or cannot be decoded. */
bool admin_param(struct span query, const char *name, struct filter_text *ret_text,
                 struct error_text *ret_problem);
/* A whole number up to `max`; leaves `value` alone when the parameter is not there. */
int admin_param_number(struct span query, const char *name, uint64_t max, uint64_t *value,
                       struct error_text *ret_problem) must_check;

int admin_filter_parse(const struct console *console, struct span query, uint64_t now_ms,
                       struct admin_filter *ret_filter, struct error_text *ret_problem) must_check;
/* Sets the part of the filter that the store checks by itself. */
void admin_filter_scan(const struct admin_filter *filter, struct store_scan *scan);
bool admin_filter_matches(const struct admin_filter *filter, const struct store_item *item,
                          const struct store_parts *parts);

const char *admin_state_name(enum store_state state); /* "due", "leased", … */

/* ---- admin_tickets.c ---- */

/*
 * Releases or drops a ticket that was last seen in a state. A due one is attempted now, or
 * removed from its lane. `done` may be called before admin_act_begin() returns. ERR_FENCED:
 * its state does not allow it; ERR_BUSY: an attempt is under way, or an earlier ticket of
 * its entity comes first.
 */
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

/* False: it is not a ticket, and the request is answered. */
bool admin_parse_ticket(const struct admin_call *call, uint64_t *ret_ticket);

admin_answer admin_list_tickets, admin_show_ticket;
admin_answer admin_act_on_ticket; /* what: 1 drops, 0 releases */

/* ---- admin_jobs.c ---- */

enum job_kind { JOB_REPLAY, JOB_RELEASE, JOB_DROP };

admin_answer admin_start_job; /* what: enum job_kind */
admin_answer admin_replay_ticket, admin_list_jobs, admin_show_job, admin_cancel_job;
void admin_jobs_tick(struct admin *admin);
void admin_jobs_free(struct admin *admin);

/* ---- admin_sinks.c ---- */

admin_answer admin_list_sinks, admin_show_sink;
admin_answer admin_command_sink; /* what: enum deliver_command_kind, pause or resume */
admin_answer admin_list_sources, admin_show_stats, admin_open_stream;
void admin_stream_collect(struct admin *admin);
void admin_stream_tick(struct admin *admin);
void admin_stream_close(struct admin *admin); /* all of them */
