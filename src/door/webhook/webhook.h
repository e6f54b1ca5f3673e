/*
 * webhook: the door for events that are posted over HTTP.
 *
 * A whole request is authenticated, becomes events and their claims at once, and
 * waits in the store's queue; the answer is written when the store has made all
 * its decisions durable. A request with one event allocates nothing: its operation
 * lives in the request's scratch space. A batch has an array of them.
 *
 * Answers:   200 with the verdict (or, for a batch, one for each event);
 *            400 no claim can be computed; 401, 403 not from whom the source
 *            trusts; 405 not a POST; 413 too large for the store; 422 a conflict
 *            that the source rejects; 202 kept until the shared store, which is
 *            away, can decide; 503 with Retry-After when the store has no
 *            room, a write failed, or the original has no outcome yet (busy).
 *            Of a source whose senders wait for the outcome: 502 it is dead, 503 it
 *            has none yet, 504 nobody knows it.
 * Room:      door.
 * Threads:   one webhook per io thread; all calls on that thread, but for
 *            webhook_offer().
 * Ownership: borrows store and traces, which must outlive it. Holds the set of
 *            sources that it uses, and older ones until their last answer.
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
	struct trace_log *traces;   /* NULL: none are kept */
	struct feed *feed;          /* who may listen; NULL: nobody */
	uint32_t thread;            /* this thread's number, from 0 */
};

/* A set and the requests that came by it. */
struct webhook_use {
	struct source_set *set;
	uint32_t waiting;
	struct webhook_use *next; /* older ones, which only wait for their answers */
};

struct webhook {
	struct webhook_options options;
	struct webhook_use *use; /* the present one first */
	_Atomic(struct source_set *) offered;
	struct histogram *answer_us; /* from whole request to answer */
	struct recipe_scratch scratch;
	struct recipe_scratch route_scratch;
	struct buf words; /* of a trace */
	/* Decided in this round, answered together by webhook_answer(). */
	struct webhook_request *decided;
	struct webhook_request **decided_tail;
	/* More was submitted since the store's flush: it wants another one. */
	bool asked;
	atomic_bool waits_over;
};

/* What the webhook needs of a request's scratch space. */
extern const size_t webhook_scratch_size;

int webhook_init(struct webhook *webhook, const struct webhook_options *options) must_check;
void webhook_release(struct webhook *webhook);

/* Any thread: from its next round on the webhook uses this set, of which one hold
 * is taken. */
void webhook_offer(struct webhook *webhook, struct source_set *set);

/* Any thread: nobody waits for an outcome any more. Who does is told within a tick that
 * there is none yet. */
void webhook_end_waits(struct webhook *webhook);

/* Could webhook_handle() want the body of this request, of which there is only the
 * head? Not if that alone says that it is not from whom the source trusts. */
bool webhook_wants_body(const struct webhook *webhook, const struct http_request *request);

/* Takes the request over if its path is a source's; it is answered later, from
 * webhook_answer() (or at once when it is refused). False: not mine. */
bool webhook_handle(struct webhook *webhook, struct http_request *request);

/* Answers all that the store has decided. Call it once a round after the
 * store's flush; `now_ns` is read after that, for the latency. */
void webhook_answer(struct webhook *webhook, uint64_t now_ns);
