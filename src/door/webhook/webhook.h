/*
 * webhook: the door for events that are posted over HTTP.
 *
 * A request is authenticated, read into events and claims, and submitted to the store's
 * queue. It is answered when the store has made all its decisions durable. A request with
 * one event allocates nothing: its operation is in the request's scratch space. A batch
 * has an array of them.
 *
 * Answers:   200 with the verdict (or, for a batch, one for each event);
 *            400 no claim can be computed; 401, 403 the sender is not
 *            authenticated; 405 not a POST; 413 too large for the store; 422 a conflict
 *            that the source rejects; 202 spooled until the shared store is reachable;
 *            503 with Retry-After when the store has no room, a write failed, or the
 *            original has no outcome yet (busy).
 *            With `ack: delivered`: 502 the event is dead, 503 it has no outcome yet,
 *            504 its outcome is unknown.
 * Room:      door.
 * Threads:   one webhook per io thread; all calls on that thread, but for
 *            webhook_offer().
 * Ownership: borrows store and traces, which must outlive it. Holds the set of
 *            sources that it uses, and older sets until their last answer.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>

#include "door/source.h"
#include "gate/meters.h"
#include "gate/recipe/recipe.h"
#include "net/http/http_server.h"
#include "store/store.h"
#include "trace/trace_log.h"

struct feed;

struct webhook_options {
	struct source_set *sources; /* one hold is taken */
	struct store *store;        /* this thread's: the store itself or a port */
	struct trace_log *traces;   /* NULL: no traces */
	struct feed *feed;          /* the stream of decisions; NULL: none */
	uint32_t thread;            /* this thread's number, from 0 */
};

/* A set and the number of requests that use it. */
struct webhook_use {
	struct source_set *set;
	uint32_t waiting;
	struct webhook_use *next; /* older sets, kept until their requests are answered */
};

struct webhook {
	struct webhook_options options;
	struct webhook_use *use; /* the current one first */
	_Atomic(struct source_set *) offered;
	struct histogram *answer_us; /* from whole request to answer */
	struct recipe_scratch scratch;
	struct recipe_scratch route_scratch;
	struct buf words; /* of a trace */
	/* Decided in this round, answered together by webhook_answer(). */
	struct webhook_request *decided;
	struct webhook_request **decided_tail;
	/* Operations were submitted after the store's flush: flush again. */
	bool asked;
	atomic_bool waits_over;
};

/* Bytes of scratch space that a request needs. */
extern const size_t webhook_scratch_size;

int webhook_init(struct webhook *webhook, const struct webhook_options *options) must_check;
void webhook_release(struct webhook *webhook);

/* Any thread: from its next round on the webhook uses this set, of which one hold
 * is taken. */
void webhook_offer(struct webhook *webhook, struct source_set *set);

/* Any thread: ends all waits for outcomes. Within a tick their senders get the answer that
 * there is no outcome yet. */
void webhook_end_waits(struct webhook *webhook);

/* Does webhook_handle() need the body of this request, of which only the head was read?
 * Not if the head fails authentication. */
bool webhook_wants_body(const struct webhook *webhook, const struct http_request *request);

/* Takes the request if its path is a source's, and answers it later from webhook_answer(),
 * or at once when it is refused. False: the path is no source's. */
bool webhook_handle(struct webhook *webhook, struct http_request *request);

/* Answers all requests that the store has decided. Call it once a round after the
 * store's flush; `now_ns` is read after that, for the latency. */
void webhook_answer(struct webhook *webhook, uint64_t now_ns);
