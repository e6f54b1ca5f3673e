/*
 * http_internal: the parts of an HTTP outlet.
 *
 *   http_plan.c      options, judged and compiled     http_url.c     where they lead to
 *   http_names.c     names, addresses, who waits
 *   http_request.c   attempts to URL, headers, body   http_result.c  how requests ended
 *   http_verdicts.c  the answer of another stile
 *   http_outlet.c    the contract of outlet.h, and its requests in link/http.h
 *
 * Room: sink, http_*.c alone. Threads: the loop's.
 */
#pragma once

#include <stdatomic.h>

#include "link/http.h"
#include "link/name_lookup.h"
#include "sink/http/http_plan.h"

#define HTTP_LINES_MAX (HTTP_BUILTIN_COUNT + HTTP_HEADERS_MAX)

struct http_outlet;

/* Of a request or of a probe: the name that they go to, and spare handles. */
struct http_lane {
	const struct http_target *target;
	struct http_transfer *spare;

	struct http_transfer *waiting, **waiting_end; /* for addresses */
	struct name_lookup *lookup;
	struct loop_timer late; /* they have waited long enough */
	struct http_outlet *outlet;
	bool known;          /* there are addresses, … */
	uint64_t known_ms;   /* … of this time of the loop, … */
	bool pin;            /* … that libcurl has not been told yet */
	struct buf pin_line; /* "crm.example.com:443:192.0.2.1,[2001:db8::1]" */
	struct http_line pin_node;
};

/* One request, from its begin to its result, and then the next. */
struct http_transfer {
	struct http_call call; /* its answer is kept for the text, and for secrets that reach
	                        * over the end of it */
	struct http_outlet *outlet;
	struct http_lane *lane;
	struct http_transfer *next; /* spare, or waiting */
	struct outlet_attempt *chain;
	uint64_t start_ns;

	/* What is sent. */
	bool batch;      /* many in one body, or one as if of many */
	struct buf text; /* URL and headers, each with a NUL behind it */
	struct buf body; /* if it is made here */
	uint32_t line_count;
	uint32_t lines[HTTP_LINES_MAX]; /* where in text */
	struct http_line nodes[HTTP_LINES_MAX];
};

struct http_outlet {
	struct outlet outlet;
	struct http_plan *plan;
	struct loop *loop;
	const struct clock *clock;
	name_lookup_fn *lookup;
	struct http_client client;
	struct http_lane lanes[2]; /* requests, probes */
	struct loop_hook hook;
	atomic_bool interrupted;
	struct template_run run; /* for the request that is being written */
};

/* http_names.c: starts the transfer when there are addresses, or fails it. */
int http_lane_init(struct http_lane *lane, struct http_outlet *outlet,
                   const struct http_target *target);
void http_lane_close(struct http_lane *lane);
void http_lane_start(struct http_lane *lane, struct http_transfer *transfer);
void http_lane_doubt(struct http_lane *lane); /* its addresses answer no more */
void http_lane_poll(struct http_lane *lane);  /* each round */
void http_lane_fail_waiting(struct http_lane *lane, const char *why);

/* http_request.c: 0, or ERR_INVALID and a text: it can never be made. */
int http_request_write(struct http_transfer *transfer, struct error_text *ret_text) must_check;

/* http_result.c */
void http_result_of(const struct http_transfer *transfer, enum http_end end,
                    struct outlet_result *ret_result);
void http_result_not_sent(struct outlet_result *ret_result, bool permanent, const char *why);
/* What is said, cleaned and without secrets. */
void http_result_text(const struct http_plan *plan, struct span text, struct outlet_result *result);

/* http_verdicts.c: fills the result of each attempt. False: `result` is that of all. */
bool http_verdicts_read(const struct http_transfer *transfer, struct outlet_result *result);

/* http_outlet.c: begins the request, or fails it; ends it with a result of its own. */
void http_outlet_start(struct http_transfer *transfer);
void http_outlet_fail(struct http_transfer *transfer, bool permanent, const char *why);
