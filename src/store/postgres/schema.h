/*
 * schema: the tables of a PostgreSQL store, and their versions.
 *
 * All are in one schema (stile, unless the URL names another):
 *
 *   stile_meta     one row: the version of the tables, and the secret of the digests
 *   stile_claims   key, ticket, expiry, ord, chk: who has a claim, or moved an entity forward
 *                  key: 96 bits of the digest, then 32 bits: 0 a claim, 1 an entity
 *   stile_seen     event, seen, expiry: how often the event was repeated
 *   stile_events   event, flags, source, letter, payload: until its last ticket is closed
 *                  letter: the event's metadata (gate/metadata.h)
 *   stile_tickets  the open tickets, and closed ones (state 6) that are kept for a while
 *                  state, last: as in store.h; due: as item.due_ms; lease: its end, 0 as
 *                  long as the node lives; node, stamp: which node has it, and took it in
 *                  which transaction; node 0: a caller has it, whatever node asked for it;
 *                  used: the last attempt of which something was noted; len: of the parts
 *   stile_notes    notes of a ticket
 *   stile_drops    events of which a leg was closed without being done
 *   stile_cells    names with values
 *   stile_nodes    the nodes, and when each last wrote that it lives
 *   stile_lines    the last transaction of each connection of a node (connection.h)
 *   stile_ticket   a sequence: the last ticket number that was given
 *
 * Times are unix milliseconds. Numbers without sign are kept by their bits.
 *
 * Invariants
 *   S1  A claim's row is changed only by who holds a lock on it, or found none.
 *   S2  Locks are taken in the order claims, cells, tickets, and in each by ascending
 *       key: rows that are not there are inserted first, then those that are there are
 *       locked. So no two transactions wait for each other in a ring.
 *   S3  A ticket number is given under a lock that does not last until the commit; it may
 *       be lost, but is never given twice.
 *
 * Room:    store/postgres.
 * Failure: a negative error and a text.
 */
#pragma once

#include "base/error.h"
#include "link/postgres_link.h"
#include "store/postgres/postgres_store.h"

#define SCHEMA_VERSION 1
#define SCHEMA_NAME_MAX 40
#define SCHEMA_UNDEFINED_TABLE "42P01"

/* Later statements use this schema, whose name must need no quotes. */
int schema_choose(struct postgres_link *link, const char *schema,
                  struct error_text *ret_text) must_check;

/* Are the tables of this binary's version? ERR_VERSION and a text that says what to do. */
int schema_expect(struct postgres_link *link, struct error_text *ret_text) must_check;

/* Creates the tables, or migrates them to this binary's version. Nodes that do so at the
 * same time wait for each other. */
int schema_make(struct postgres_link *link, const char *schema, bool migrate,
                struct error_text *ret_text) must_check;
