/*
 * claims: the HTTP door for handlers that do their own work and only need the decision.
 *
 *   POST   /v1/claims          claims a key, or an event by a source's recipe
 *   PUT    /v1/claims/TOKEN    settles it, with an outcome that later callers get
 *   PATCH  /v1/claims/TOKEN    renews its lease
 *   DELETE /v1/claims/TOKEN    releases it
 *   GET    /v1/claims?key=…    the state of a key; changes nothing
 *
 * A caller that gets `new` has the claim alone until the lease is over, and a fencing token:
 * ticket and attempt of the store. When the lease is over or released the next caller gets
 * the claim, with the next attempt; the old token is refused from then on. The outcome is a
 * cell of the store, written in the same commit as the settle, and lives as long as the
 * claim.
 *
 * docs/claims.md describes requests and answers.
 *
 * Room:      door/claims.
 * Threads:   one struct claims per io thread; all calls on that thread.
 * Ownership: borrows store, traces and key, which must outlive it. A request is in the
 *            HTTP request's scratch space.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "codec/json_plan.h"
#include "door/source.h"
#include "gate/key_claim.h"
#include "gate/recipe/recipe.h"
#include "net/http/http_server.h"
#include "store/store.h"
#include "trace/trace_log.h"

#define CLAIMS_LEASE_MIN_MS 100u
#define CLAIMS_LEASE_MAX_MS (12u * 3600 * 1000)
#define CLAIMS_ITEMS_MAX 1000u
#define CLAIMS_WAIT_MAX_S 60u
#define CLAIMS_OUTCOME_MAX (512u << 10)

struct claims_options {
	struct store *store;      /* this thread's: the store itself or a port */
	struct trace_log *traces; /* NULL: none are kept */
	const unsigned char *key; /* DIGEST_KEY_LEN bytes: the store's secret */
	uint32_t thread;          /* this thread's number, from 0 */
};

/* The members of the bodies. */
struct claims_plan {
	struct json_plan plan;
	uint8_t key, scope, payload, payload_digest, window, lease, source, event, outcome, status;
};

struct claims {
	struct claims_options options;
	struct lease_token_key token_key;
	struct claims_plan *plan;
	struct recipe_scratch recipe_scratch;
	struct key_claim_scratch key_scratch;
	/* Decided in this round, answered together by claims_answer(). */
	struct claims_request *decided;
	struct claims_request **decided_tail;
	struct claims_request *live; /* all that are not answered */
	/* stile is stopping: nobody waits any more. Set by the owner. */
	bool ending;
	/* Something was submitted after the store's last flush: it needs another one. */
	bool asked;
};

/* How much scratch space a request needs. */
extern const size_t claims_scratch_size;

int claims_init(struct claims *claims, const struct claims_options *options) must_check;
/* After the store has completed all operations, and before the server is freed. */
void claims_release(struct claims *claims);

/* As webhook_wants_body() and webhook_handle(); `set` is needed for the call only. */
bool claims_wants_body(const struct source_set *set, const struct http_request *request);
bool claims_handle(struct claims *claims, const struct source_set *set,
                   struct http_request *request);

/* Answers all that the store has decided. Call it after the store's flush. */
void claims_answer(struct claims *claims);
