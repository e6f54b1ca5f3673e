/*
 * source: one way in: a path, an authentication, a recipe, and what they mean.
 *
 * A set holds all sources of a configuration. It never changes: a reload makes
 * another set, and the old one stays until the last request that came by it is
 * answered. What a source has counted outlives its set: the next set's source of
 * the same name counts on.
 *
 * Room:      door.
 * Threads:   a set is read only; hold and release from any thread. Each io thread
 *            writes the meters with its own number only.
 * Ownership: source_set_new() gives the caller one hold; the last release frees
 *            the set. Meters belong to the counts (gate/meters.h), which outlive
 *            all sets.
 * Failure:   ERR_CONFIG with a text, -ENOMEM; nothing is left then.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/span.h"
#include "door/auth/auth.h"
#include "gate/meters.h"
#include "gate/recipe/recipe.h"
#include "gate/recipe/route.h"
#include "net/http/http_server.h"
#include "store/store.h"

/* A source as the configuration has it. */
struct source_options {
	struct span path;
	const struct recipe_spec *recipe;
	const struct auth_spec *auth;
	enum store_conflict on_conflict;
	bool spool;          /* its events are kept while a shared store is away; else 503 */
	uint64_t wait_ms;    /* its senders wait this long for the outcome; 0: not at all */
	uint64_t retries_ms; /* for how long its senders retry; 0: not known */
};

struct source {
	struct span name;
	struct span path;
	bool below; /* requests below the path are its own too (written as path/ and a star) */
	struct recipe *recipe;
	struct auth *auth;             /* NULL: anyone may send */
	struct source_options options; /* without path, recipe and auth: those are above */
	uint64_t routes;               /* those that are for it, as bits of the set's */
	uint64_t window_ms;
	struct source_meters *meters; /* one for each io thread */
};

/* What the claims API is, of the same configuration (door/claims.h). */
enum source_claims_mode {
	SOURCE_CLAIMS_OFF = 0,
	SOURCE_CLAIMS_ON,
	SOURCE_CLAIMS_UNGUARDED, /* off, since anybody could reach it */
};

struct source_claims_options {
	enum source_claims_mode mode;
	const struct auth_spec *auth;
	uint32_t window_s;
	uint32_t lease_ms;
	uint32_t outcome_bytes;
};

struct source_claims {
	struct source_claims_options options; /* without `auth` */
	struct auth *auth;                    /* NULL: anyone */
	struct source_meters *meters;         /* one for each io thread */
};

struct source_set {
	atomic_uint holds;
	struct arena arena;
	uint32_t count;
	struct source *sources;
	struct source_claims claims;
	struct route_set *routes; /* NULL: everything goes to the only sink, as it is */
};

#define SOURCE_CLAIMS_NAME SPAN("claims") /* in metrics and lists */

/* `warn` (may be NULL) gets what an operator should know: a weak secret. */
struct source_set_options {
	const struct source_options *sources;
	uint32_t count;
	struct source_claims_options claims;
	const unsigned char *key; /* DIGEST_KEY_LEN bytes: the store's secret */
	struct source_counts *counts;
	struct route_set *routes; /* may be NULL; the set's own when it was made */
	void (*warn)(struct span source, const char *text);
};

int source_set_new(const struct source_set_options *options, struct source_set **ret_set,
                   struct error_text *ret_text) must_check;
void source_set_hold(struct source_set *set);
void source_set_release(struct source_set *set); /* accepts NULL */

/* The source of this name, or NULL. */
const struct source *source_named(const struct source_set *set, struct span name);

/* The source whose path this is, or NULL. */
const struct source *source_find(const struct source_set *set, struct span path);

/* ---- trust: a request is accepted, or answered with the reason ---- */

struct trust {
	const struct auth *auth; /* NULL: anyone may come */
	struct span source;      /* for the log */
	struct source_meters *meters;
};

/* False: it is not authenticated, and it has been answered. */
bool trust_request(const struct trust *trust, struct http_request *request);

/* Of a request of which only the head is here: false if that is enough to reject it. */
bool trust_head(const struct auth *auth, const struct http_request *request);
