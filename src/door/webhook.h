/*
 * webhook: the door for events that are posted over HTTP.
 *
 * A whole request becomes claims at once and waits in the store's queue; the
 * answer is written when the store has made the decision durable. Nothing is
 * allocated: the operation lives in the request's scratch space.
 *
 * Answers:   200 new | duplicate; 400 no claim can be computed; 413 the event
 *            does not fit the store; 503 with Retry-After when the store has
 *            no room or a write failed.
 * Room:      door.
 * Threads:   one webhook per io thread; all calls on that thread.
 * Ownership: borrows recipe and store, which must outlive it.
 */
#pragma once

#include <stddef.h>

#include "gate/meters.h"
#include "gate/recipe.h"
#include "net/http_server.h"
#include "store/store.h"

struct webhook {
	const struct recipe *recipe;
	struct recipe_scratch scratch;
	struct store *store; /* this thread's: the store itself or a port */
	struct meters meters;
	/* Decided in this round, answered together by webhook_answer(). */
	struct webhook_ticket *decided;
	struct webhook_ticket **decided_tail;
};

/* What the webhook needs of a request's scratch space. */
extern const size_t webhook_scratch_size;

int webhook_init(struct webhook *webhook, const struct recipe *recipe,
                 struct store *store) must_check;
void webhook_release(struct webhook *webhook);

/* Takes the request over; it is answered later, from webhook_answer() (or at
 * once when it is refused). */
void webhook_handle(struct webhook *webhook, struct http_request *request);

/* Answers all that the store has decided. Call it once a round after the
 * store's flush; `now_ns` is read after that, for the latency. */
void webhook_answer(struct webhook *webhook, uint64_t now_ns);
