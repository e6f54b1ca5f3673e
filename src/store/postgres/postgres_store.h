/*
 * postgres_store: the store in PostgreSQL, which many nodes share.
 *
 * Tables:    schema.h. They are created by postgres_store_init(), not by opening.
 * Room:      store. Only serve/ and tests name this header.
 * Threads:   store.h's rule: one owner thread. The store has two threads, each with a
 *            connection: one decides (in order, many operations in one transaction), the
 *            other takes and reads. postgres_store_key() and stats are for any thread. See
 *            store_under_way().
 * Ownership: postgres_store_open() gives a struct store, store_free() takes it. Texts of
 *            the options are copied.
 * Time:      the server's; never before the last ticket's, nor before an earlier time that
 *            it gave to this node.
 * Leases:    one without an end (lease_ms 0) lasts while its node lives: after
 *            POSTGRES_STORE_NODE_MS of silence its tickets are due again. The take uses up
 *            the number of the attempt, so a node that was only suspended is fenced off.
 *            Tickets taken for a sink are due again when the node shuts down; the lease of
 *            a caller (store_admit.lease_ms, store_take.ticket) with an end outlives it.
 * Failure:   open refuses with a text:
 *            ERR_AWAY     the server is unreachable,
 *            ERR_VERSION  there are no tables, or of another version,
 *            ERR_CONFIG   the URL is wrong; or a setting of the server would lose
 *                         acknowledged events (synchronous_commit off, fsync off); or the
 *                         server refuses the user, the password or the database.
 *            Later: ERR_AWAY after `away_ms` without a connection. When a connection is
 *            lost during a commit, the result is read back from the server, never guessed.
 *            An operation with ERR_AWAY was applied completely or not at all. ERR_FULL: the
 *            server has no room. Tables that are gone, or were made anew and so have
 *            another secret, are treated as an unreachable server, and logged.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/error.h"
#include "store/store.h"
#include "sys/clock.h"

#define POSTGRES_STORE_KEY_LEN 16
#define POSTGRES_STORE_NODE_MS 30000u

/* A zero (or NULL) in any field takes its default. */
struct postgres_store_options {
	/* postgres://USER:PASSWORD@HOST:PORT/DATABASE?schema=NAME&…, or postgresql:; the rest
	 * of the parameters is libpq's (sslmode, target_session_attrs, …) */
	const char *url;
	uint32_t connect_ms;   /* default 5 s */
	uint32_t statement_ms; /* default 10 s: a transaction takes no longer */
	uint32_t lock_ms;      /* default 2 s */
	uint32_t away_ms;      /* default 5 s */
	uint32_t batch_ops;    /* default 1024: operations of one transaction */
	uint64_t retain_ms;    /* default 0: how long closed events are kept */
	uint64_t dead_keep_ms; /* default STORE_DEAD_KEEP_MS */
	/* For tests. */
	const struct clock *clock; /* stands for the server's; and all housekeeping is done
	                            * by tick, which waits for it */
	bool dense;                /* no gaps between ticket numbers, as the model has none */
	bool eager;                /* everything is expected to be new, always */
};

/* Is the URL well-formed? ERR_CONFIG and a text without its secrets. Does not connect. */
int postgres_store_url_check(const char *url, struct error_text *ret_text) must_check;

int postgres_store_open(const struct postgres_store_options *options, struct store **ret_store,
                        struct error_text *ret_text) must_check;

/* The secret under which claims are digested: the same for all nodes. Lives as long as the
 * store. */
const unsigned char *postgres_store_key(const struct store *store);

/* Makes the tables; those that are there stay as they are. */
int postgres_store_init(const char *url, struct error_text *ret_text) must_check;
/* Brings the tables to this version; ERR_VERSION if there are none. */
int postgres_store_migrate(const char *url, struct error_text *ret_text) must_check;

enum postgres_finding_level { POSTGRES_FINE, POSTGRES_WARNING, POSTGRES_ERROR };

struct postgres_finding {
	enum postgres_finding_level level;
	const char *name;       /* "synchronous_commit" */
	struct error_text text; /* what was found, and what to change */
};

/* Can this server be used? `tell` is called for each thing that was checked. A negative error
 * and a text if the server is unreachable. */
int postgres_store_check(const char *url,
                         void (*tell)(void *user, const struct postgres_finding *finding),
                         void *user, struct error_text *ret_text) must_check;
