/*
 * postgres_outlet: events as rows of PostgreSQL, each exactly once.
 *
 * Every effect is in one transaction with its key, in a table with the primary key
 * (sink, key): an attempt that finds its key there is DONE without doing anything. So a
 * connection that is lost during COMMIT does no harm: the retry finds the key or does not.
 * Such an attempt is UNKNOWN, and `on_unknown: retry` is right for it.
 *
 * Without a statement the row of the key is the effect: table `stile_events`
 *   sink, key        text       primary key
 *   ticket, source   text       the event's ticket and source
 *   id, type, entity, content_type  text  if known; control characters become blanks
 *   event_time       timestamptz  the sender's, if it is one
 *   payload          jsonb      the event; NULL if it is not JSON, or jsonb rejects it
 *   body             bytea      its bytes then
 *   at               timestamptz  of the transaction
 * With a statement (INSERT, UPDATE, DELETE, MERGE, SELECT, CALL or WITH …; template.h's
 * SQL) the table has sink, key and at alone, and is called `stile_effects`. Values are
 * parameters, typed by the database; what is missing is NULL.
 *
 * Many events of a chain share a transaction (pipeline mode: one or two round trips). If
 * one of them fails for its data, or for a lock of another, they are sent one by one.
 *
 * What a failure means
 *   REFUSED, permanent  the data is wrong: SQLSTATE 21, 22, 23, 44, 54, P0, or a NUL
 *   REFUSED             a foreign key that may be inserted later (23503), deadlock,
 *                       serialization, locks, a timeout of the server: it is retried
 *   NOT_SENT            no connection, no table, no permission, no space …
 *   UNKNOWN             the connection ended, or timed out, after COMMIT was sent
 *
 * The session has client_encoding UTF8, statement_timeout and lock_timeout within
 * `timeout_ms`, and synchronous_commit on if it would be off. Prepared statements are
 * used: a pooler must keep sessions. A missing table is created unless `no_create`.
 *
 * Only the configuration decides where it connects to, no event. Texts do not hold the
 * password.
 *
 * Room:    sink; the connection is link/postgres_link.h. Threads: its lane's, which it blocks;
 *          interrupt() from any, which ends every wait except a lookup of a host's name.
 * Failure: ERR_CONFIG and a text; -ENOMEM. The first event connects.
 */
#pragma once

#include "base/error.h"
#include "sink/outlet.h"

struct postgres_outlet_options {
	struct span name;     /* of the sink: half of the key */
	struct span conninfo; /* a URL or "host=… dbname=…", as libpq knows it */
	struct span password; /* empty: that of conninfo, PGPASSWORD or ~/.pgpass */
	struct span table;    /* "schema.table"; empty: as above */
	struct span statement;
	struct span key; /* a template; empty: {ticket} */
	bool no_create;
	uint32_t connect_ms; /* 10 s */
	uint32_t timeout_ms; /* 30 s, for a transaction */
};

int postgres_outlet_new(const struct postgres_outlet_options *options, struct outlet **ret_outlet,
                        struct error_text *ret_text) must_check;

/* Would postgres_outlet_new() accept them? Connects to nobody. */
int postgres_outlet_check(const struct postgres_outlet_options *options,
                          struct error_text *ret_text) must_check;
