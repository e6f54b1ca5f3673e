/*
 * http_internal: the parts of an HTTP outlet.
 *
 *   http_plan.c     options and URLs, judged and compiled
 *   http_request.c  attempts become URL, headers and body
 *   http_outlet.c   the contract of outlet.h: transfers, addresses, results
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

/* http_request.c: 0, or ERR_INVALID and a text: it can never be made. */
int http_request_write(struct http_transfer *transfer, struct error_text *ret_text) must_check;
