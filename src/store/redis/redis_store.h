/*
 * redis_store: the store in a Redis, or a Redis Cluster, that several gateways share.
 *
 * Keys and what is done with them: redis_script.lua. URL: link/redis_login.h.
 *
 * Batches:   all that waits for a shard goes in one call of the script, which decides it in
 *            order, all or nothing; the next goes when that is answered. A call whose answer
 *            was lost is made again, also at a new master, and not done twice. What has no
 *            answer in time is ERR_AWAY: done wholly or not at all. With replicas=N an
 *            answer counts when so many replicas have it.
 * Shards:    a single Redis is one. A cluster has several (redis_login.h), spread over its
 *            slots; a claim's digest says which, and a ticket's number does. Tickets of
 *            one shard are taken oldest first; among shards the order is near that.
 *            An event whose claims are in several shards takes those of the others first,
 *            under a lease; see redis_span.c.
 * Time:      the server's, for windows, leases and numbers. Unlike the local store it does
 *            not judge jumps of that clock. Numbers do up to the year 2041.
 * Leases:    end always: those without an end (lease_ms 0) have LEASE_MS here and are
 *            renewed while the process lives. When the store is closed, those of takes by
 *            sink are given back.
 * Others:    events that another gateway admits are found by asking every
 *            REDIS_STORE_POLL_MS while a take waits; outcomes that others give by asking
 *            for WAITS_POLL events every WAITS_POLL_MS.
 * Counts:    stats are of the last answer of each shard; live_claims and live_cells are both
 *            all keys of the servers but open tickets. `seen` is counted by claim, not by
 *            event, history goes back 128 notes at least.
 *
 * Room:      store. Only serve/ and tests name this header.
 * Threads:   store.h's rule: one owner; a thread of its own talks to the servers.
 *            redis_store_key() and stats are for any thread.
 * Ownership: redis_store_open() gives a struct store, store_free() takes it.
 * Failure:   open refuses with a text: ERR_AWAY nobody answers there, ERR_CONFIG the server
 *            may forget what it was given (maxmemory-policy), ERR_INVALID the URL,
 *            ERR_VERSION other keys than this binary knows. Later: store.h's, ERR_FULL when
 *            the server's memory is.
 */
#pragma once

#include "base/check.h"
#include "base/error.h"
#include "store/store.h"
#include "sys/clock.h"

#define REDIS_STORE_KEY_LEN 16
#define REDIS_STORE_POLL_MS 20u

struct redis_store_options {
	const char *url;
	/* NULL: the server's time, and this machine's for waiting. Tests: stands for both;
	 * nothing expires by the server's then, and leases without an end have none. */
	const struct clock *clock;
	uint64_t dead_keep_ms; /* 0: STORE_DEAD_KEEP_MS */
};

/* Is the URL one? ERR_INVALID and a text without its secrets; nobody is asked. */
int redis_store_url_check(const char *url, struct error_text *ret_text) must_check;

int redis_store_open(const struct redis_store_options *options, struct store **ret_store,
                     struct error_text *ret_text) must_check;

/* The secret under which claims are digested, the same for all that share the store:
 * random when the first of them opened it. Lives as long as the store. */
const unsigned char *redis_store_key(const struct store *store);

/* What `stile store check` says of a server: one finding a call, in an order that reads
 * well. False from here: it is not fit. */
enum redis_finding { REDIS_FINDING_OK = 0, REDIS_FINDING_WARN, REDIS_FINDING_ERROR };

bool redis_store_check(const char *url,
                       void (*tell)(void *user, enum redis_finding finding, const char *text),
                       void *user);
