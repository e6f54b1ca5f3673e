/*
 * redis_store: the store in a Redis, or a Redis Cluster, that several gateways share.
 *
 * Keys and operations: redis_script.lua. Layout of the keys: redis_open.c. URL:
 * link/redis_link.h.
 *
 * Batches:   everything that waits for a shard goes into one call of the script, which decides
 *            it in order, all or nothing; the next call goes when that is answered. A call
 *            whose answer was lost is sent again, also to a new master, and is not done twice.
 *            Without an answer in time it is ERR_AWAY: done wholly or not at all. With
 *            replicas=N an answer counts when N replicas have it.
 * Shards:    a single Redis is one. A cluster has several (redis_link.h), spread over its
 *            slots; the digest of a claim and the number of a ticket say which. Tickets of
 *            one shard are taken oldest first; across shards the order is near that. An
 *            event whose claims are in several shards reserves those of the others first;
 *            see redis_cross.c.
 * Time:      the server's, for windows, leases and numbers. Unlike the local store it does
 *            not judge jumps of that clock. Numbers last up to the year 2041.
 * Leases:    always end: those without an end (lease_ms 0) have REDIS_LEASE_MS here and are
 *            renewed while the process lives. When the store is closed, leases of takes by
 *            sink are given back.
 * Others:    events that another gateway admits are found by polling every
 *            REDIS_STORE_POLL_MS while a take waits; outcomes that others record by polling
 *            for REDIS_WAITS_POLL events every REDIS_WAITS_POLL_MS.
 * Counts:    stats are of the last answer of each shard; live_claims and live_cells are both
 *            all keys of the servers except open tickets. `seen` is counted by claim, not by
 *            event; the history keeps 128 notes at least.
 *
 * Room:      store. Only serve/ and tests name this header.
 * Threads:   store.h's rule: one owner; a thread of its own talks to the servers.
 *            redis_store_key() and stats are for any thread.
 * Ownership: redis_store_open() gives a struct store, store_free() takes it.
 * Failure:   open fails with a text: ERR_AWAY no answer, ERR_CONFIG the server may evict keys
 *            (maxmemory-policy), ERR_INVALID the URL, ERR_VERSION the keys have a layout that
 *            this binary cannot use. Later: store.h's, ERR_FULL when the server's memory is.
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
	/* NULL: the server's time, and this machine's for waiting. Tests: replaces both; then
	 * nothing expires by the server's clock, and leases without an end have none. */
	const struct clock *clock;
	uint64_t dead_keep_ms; /* 0: STORE_DEAD_KEEP_MS */
};

/* Is the URL valid? ERR_INVALID and a text without its secrets; no server is asked. */
int redis_store_url_check(const char *url, struct error_text *ret_text) must_check;

int redis_store_open(const struct redis_store_options *options, struct store **ret_store,
                     struct error_text *ret_text) must_check;

/* The secret under which claims are digested. All gateways that share the store have the same;
 * the first one made it. Lives as long as the store. */
const unsigned char *redis_store_key(const struct store *store);

/* What `stile store check` reports of a server, one finding for each call. False: a finding is
 * an error. */
enum redis_finding { REDIS_FINDING_OK = 0, REDIS_FINDING_WARN, REDIS_FINDING_ERROR };

bool redis_store_check(const char *url,
                       void (*tell)(void *user, enum redis_finding finding, const char *text),
                       void *user);
