/*
 * http_internal: the parts of an HTTP outlet.
 *
 *   http_plan.c      options, judged and compiled     http_url.c     where they lead to
 *   http_names.c     names, addresses, who waits
 *   http_request.c   attempts to URL, headers, body   http_result.c  what came of them
 *   http2_refusals.c requests that a server has not begun
 *   http_transfer.c  one request in libcurl           http_sockets.c libcurl on our loop
 *   http_verdicts.c  the answer of another stile
 *   http_outlet.c    the contract of outlet.h
 *
 * Room: sink, http_*.c alone. Threads: the loop's.
 */
#pragma once

#include <stdatomic.h>

#include "link/name_lookup.h"
#include "sink/http/http_plan.h"

#define HTTP_ANSWER_KEPT 2048u /* bytes: for the text, and for secrets that reach over its end */
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
	struct curl_slist pin_node;
};

/* One connection: a port of ours may have another elsewhere. */
struct http_way {
	char peer_ip[IP_TEXT_MAX], own_ip[IP_TEXT_MAX]; /* as libcurl writes them */
	int peer_port, own_port;
};

/* One request, from its begin to its result, and then the next. */
struct http_transfer {
	struct http_outlet *outlet;
	struct http_lane *lane;
	CURL *easy;
	struct http_transfer *next, *before; /* among those under way; next: spare, waiting */
	struct outlet_attempt *chain;
	uint64_t start_ns;

	/* What is sent. */
	bool batch;      /* many in one body, or one as if of many */
	struct buf text; /* URL and headers, each with a NUL behind it */
	struct buf body; /* if it is made here */
	uint32_t line_count;
	uint32_t lines[HTTP_LINES_MAX]; /* where in text */
	struct curl_slist nodes[HTTP_LINES_MAX];

	/* What is known of it. */
	bool written;        /* libcurl has begun to write the request, … */
	bool unprocessed;    /* … but the server says that it did nothing with it */
	bool again;          /* libcurl wanted to write it once more */
	struct http_way way; /* the connection that it was written to, … */
	uint32_t stream;     /* … and its number there, with HTTP/2 */
	const char *refusal; /* an address that may not be connected to: why */
	bool has_peer;       /* connected to, or tried: */
	struct ip_address peer;
	uint16_t status; /* of the head that is being read, or was */
	bool answered;   /* the head of a final answer is here */
	uint64_t retry_after_ms;
	uint64_t answer_bytes; /* of its body */
	uint32_t kept;
	char answer[HTTP_ANSWER_KEPT];
	struct buf whole; /* the answer's body, if it has verdicts */
	char error[CURL_ERROR_SIZE];
};

/* A socket of libcurl's on the loop. */
struct http_watch {
	struct loop_handler handler;
	struct http_outlet *outlet;
	uint32_t wanted; /* LOOP_… that libcurl waits for */
	uint32_t added;  /* LOOP_… that the loop waits for; 0: it does not know it */
	bool ours;       /* made by http_sockets_open(): we hear of its end */
};

struct http_outlet {
	struct outlet outlet;
	struct http_plan *plan;
	struct loop *loop;
	const struct clock *clock;
	name_lookup_fn *lookup;
	CURLM *multi;
	struct http_lane lanes[2]; /* requests, probes */
	struct http_transfer *active;
	struct loop_timer timer;
	bool timer_owed; /* there was no memory for it */
	struct loop_hook hook;
	struct http_watch **watches; /* by descriptor */
	size_t watch_room;
	bool busy;  /* results are being told: no call of libcurl's may begin */
	bool added; /* a request was, meanwhile */
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

/* http_transfer.c */
int http_transfer_take(struct http_lane *lane, struct http_transfer **ret_transfer) must_check;
void http_transfer_free(struct http_transfer *transfer);
int http_transfer_start(struct http_transfer *transfer) must_check; /* hands it to libcurl */

/* http2_refusals.c: learns from libcurl which requests a server has not begun. */
CURLcode http2_refusals_watch(struct http_transfer *transfer) must_check;
/* What libcurl says while it works on that one. */
void http2_refusals_hear(struct http_transfer *transfer, struct span text);

/* http_result.c */
void http_result_of(const struct http_transfer *transfer, CURLcode code,
                    struct outlet_result *ret_result);
void http_result_not_sent(struct outlet_result *ret_result, bool permanent, const char *why);
/* What is said, cleaned and without secrets. */
void http_result_text(const struct http_plan *plan, struct span text, struct outlet_result *result);
uint64_t http_retry_after(struct span value, uint64_t now_ms);

/* http_verdicts.c: fills the result of each attempt. False: `result` is that of all. */
bool http_verdicts_read(const struct http_transfer *transfer, struct outlet_result *result);

/* http_sockets.c */
int http_sockets_open(struct http_outlet *outlet) must_check;
void http_sockets_close(struct http_outlet *outlet);
curl_socket_t http_socket_new(struct http_outlet *outlet, const struct curl_sockaddr *address);
int http_socket_end(void *outlet, curl_socket_t socket); /* CURLOPT_CLOSESOCKETFUNCTION */
void http_sockets_run(struct http_outlet *outlet);       /* what was added begins */

/* http_outlet.c: the transfer has ended, with libcurl's code or a result of its own. */
void http_outlet_finish(struct http_transfer *transfer, CURLcode code);
void http_outlet_fail(struct http_transfer *transfer, bool permanent, const char *why);
