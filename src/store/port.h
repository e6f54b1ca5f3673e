/*
 * port: a way for other threads to use a store that lives on one thread.
 *
 * The host owns the store. A port belongs to one other thread and is itself a
 * struct store there: store_submit() queues, store_flush() posts everything
 * queued to the host as one chain. The host takes what all ports posted,
 * submits it in the order of posting, flushes the store once, and posts the
 * completions back; there port_collect() (or port_wait()) runs the done()s.
 *
 * Two modes behind one API:
 *   STORE_HOST_THREAD    the host runs a thread of its own that sleeps until
 *                        something is posted and ticks the store meanwhile.
 *   STORE_HOST_EMBEDDED  the owner thread calls store_host_run() once a round
 *                        (it flushes the store, so it stands for the owner's
 *                        store_flush()) and store_host_tick() from a timer.
 *                        The owner may submit to the store directly as well.
 *
 * Bounds:    a port has at most max_in_flight operations between submit and
 *            done(); one more completes at once, inside submit, with ERR_FULL.
 *            At most PORT_TAKES_MAX of them are takes.
 * Wakes:     the host is woken once per round at most, and never by
 *            port_flush_lazy(): what that posts waits for the host's next round
 *            or tick, and its completion does not wake the port either. Use it
 *            for settles. A port is woken once per collect at most.
 * Threads:   a port has one owner thread. store_host_run() and _tick() belong
 *            to the owner (EMBEDDED); not used with THREAD. store_host_hurry()
 *            and store_host_end_takes() from any thread.
 *            port_new() from any thread while the host lives.
 * Ownership: the host takes the store and frees it; an operation belongs to
 *            the port from submit to done(), as with every store. The done()
 *            and user of an operation, and the items of a take, are borrowed
 *            meanwhile and given back as they were before done() is called.
 * Shutdown:  0. store_host_hurry(): from now on a server that is away is not waited for
 *               long, so that what the doors still have is answered in time;
 *            1. doors stop submitting;
 *            2. store_host_end_takes(): waiting takes come back with
 *               ERR_CLOSING, and so do later ones, and with the next tick
 *               those who wait for an outcome; settles and admits continue.
 *               (Tickets leased to a take that ended this way stay open.)
 *            3. each port's thread runs port_drain() and ends;
 *            4. EMBEDDED: the loop stops;
 *            5. store_host_close(): stops its thread, closes the store, which
 *               answers whatever could not be drained (ERR_CLOSING);
 *            6. port_collect() for each port, then store_free(port);
 *            7. store_host_free().
 *            A port that is drained may be freed before 5. Memory of an
 *            operation must outlive its done(), a host its ports.
 * Failure:   as in store.h. After allocation at port_new() nothing here fails.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "store/store.h"

#define PORT_TAKES_MAX 16u
#define PORT_IN_FLIGHT_DEFAULT 16384u
#define STORE_HOST_TICK_MS 50u

struct port;
struct store_host;

enum store_host_mode {
	STORE_HOST_THREAD = 1,
	STORE_HOST_EMBEDDED = 2,
};

struct store_host_options {
	struct store *store; /* taken only when store_host_new() succeeds */
	enum store_host_mode mode;
	uint32_t tick_ms; /* THREAD: 0 is STORE_HOST_TICK_MS */
	/* EMBEDDED: makes the owner run a round soon; from any thread. */
	void (*wake)(void *user);
	void *user;
};

int store_host_new(const struct store_host_options *options,
                   struct store_host **ret_host) must_check;

/* When no other thread uses the host or its ports any more. After it nothing is
 * in flight that port_collect() would not bring; a later submit is ERR_CLOSING. */
void store_host_close(struct store_host *host);

/* When its ports are freed; closes it first if need be. Accepts NULL, returns NULL. */
struct store_host *store_host_free(struct store_host *host);

/* The owner's: the store itself, to submit to it directly (EMBEDDED). */
struct store *store_host_store(struct store_host *host);

/* EMBEDDED. Run: takes the mail, flushes the store, posts the completions.
 * Tick: the same and the store's housekeeping; call it every tick_ms. */
void store_host_run(struct store_host *host);
void store_host_tick(struct store_host *host);

void store_host_hurry(struct store_host *host); /* see store_hurry() */
void store_host_end_takes(struct store_host *host);

struct port_options {
	uint32_t max_in_flight; /* 0 is PORT_IN_FLIGHT_DEFAULT */
	/* Completions came: have port_collect() called on the port's thread. Runs
	 * on the host's thread. NULL for a thread that uses port_wait(). */
	void (*wake)(void *user);
	void *user;
};

int port_new(struct store_host *host, const struct port_options *options,
             struct port **ret_port) must_check;
struct store *port_store(struct port *port); /* store_free() it; nothing may be in flight */

/* As store_flush(), but wakes neither side. */
void port_flush_lazy(struct port *port);

/* Runs the done() of everything that came back; returns how many. */
size_t port_collect(struct port *port);

/* Sleeps until a completion comes that is not lazy, or timeout_ms passed (negative: for
 * ever), then collects. */
size_t port_wait(struct port *port, int timeout_ms);

/* Flushes and waits until nothing is in flight; returns how many still are
 * after timeout_ms: those are answered by store_host_close() at the latest.
 * Takes must have been ended, or they count. */
size_t port_drain(struct port *port, int timeout_ms);
