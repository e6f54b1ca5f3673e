/*
 * serve_store: the store that the configuration names, ready for a host.
 *
 * Local: the journal in the data folder. Shared (Redis, PostgreSQL): that store behind a
 * spool (store/spool/spool_store.h), whose journal is in the folder `spool` of the data
 * folder; it is there if a source spools, or one of an earlier start left it.
 *
 * A shared store that is away at the start is opened later, if a source spools and the
 * secret of its digests is known from an earlier start (store_secret.h). If it then answers
 * and is not fit, the process gets SIGTERM, and serve_store_refused() says why it ends.
 *
 * Room:      serve. Threads: the main one, but for serve_store_read().
 * Ownership: serve_store_open() gives the store, which the host takes; the rest is freed
 *            by serve_store_close(), after the host was closed.
 * Failure:   an error and a text. ERR_AWAY: the shared store is away, and there is no
 *            going on without it: serve_waiting.h.
 */
#pragma once

#include "config/config.h"
#include "store/store.h"

struct late_opening;
struct port;
struct store_host;

struct serve_store {
	struct store *store;
	const unsigned char *key; /* under which claims are digested; lives as the store */
	bool shared;
	bool spools;                /* there is a spool */
	uint32_t lease_ms;          /* of deliveries; 0: leases do not end */
	const char *data;           /* the data folder */
	struct late_opening *late;  /* NULL: it was there */
	struct port *reader;        /* shared: of the thread that calls serve_store_read() */
	char label[ERROR_TEXT_MAX]; /* what people may see of where it is */
};

int serve_store_open(const struct config *config, struct serve_store *ret_store,
                     struct error_text *ret_text) must_check;
/* The host has it now. */
int serve_store_attach(struct serve_store *store, struct store_host *host) must_check;
void serve_store_close(struct serve_store *store);
void serve_store_free(struct serve_store *store);          /* nobody needs the key any more */
bool serve_store_refused(const struct serve_store *store); /* any thread */

/* An event's payload; user is the struct serve_store. One thread, another than the main
 * one. -ENOENT: it is not kept. */
int serve_store_read(void *user, uint64_t ticket, struct buf *ret_payload);

/* Should the loop of the only io thread write the journal itself? */
bool serve_store_inline(const struct serve_options *options);
