/*
 * deliver: a lane for every sink, each on a thread of its own, so that a sink that is
 * slow, or blocks, delays no other.
 *
 * A thread runs the loop that its outlet was made with. In each round it collects what
 * came back from the store, obeys commands, runs the lane (lane.h), and sets a timer
 * for what time alone brings.
 *
 * Room:      deliver.
 * Threads:   deliver_start() makes them. Views and commands are for any thread.
 * Ownership: takes loops and outlets when deliver_start() succeeds; borrows the host.
 * Failure:   of a delivery: judge.h. Nothing is lost.
 * Shutdown:  1. store_host_end_takes();
 *            2. deliver_end(): outlets are interrupted, what they did is recorded, the
 *               rest stays open. The store must still run until deliver_ended();
 *            3. deliver_join();
 *            4. store_host_close(), which answers what could not be recorded;
 *            5. deliver_free(), then store_host_free().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "deliver/lane.h"
#include "deliver/lane_view.h"
#include "deliver/policy.h"
#include "sink/outlet.h"
#include "sys/mailbox.h"

struct clock;
struct deliver;
struct feed;
struct loop;
struct store_host;

struct deliver_sink {
	const char *name; /* for people; at most LANE_NAME_MAX bytes */
	uint32_t sink;    /* of the tickets' legs; no two alike */
	struct loop *loop;
	struct outlet *outlet; /* made with that loop */
	struct deliver_policy policy;
};

struct deliver_options {
	struct store_host *host;
	const struct deliver_sink *sinks;
	uint32_t sink_count;
	const struct clock *clock; /* NULL: the machine's */
	uint32_t lease_ms;         /* 0: the store's leases do not end (local) */
	struct feed *feed;         /* gets every attempt; NULL: no listener */
};

#define DELIVER_LANES_MAX 64u

int deliver_start(const struct deliver_options *options, struct deliver **ret_deliver) must_check;

/* One more, while the others run; from the thread that started them. ERR_FULL. */
int deliver_add(struct deliver *deliver, const struct deliver_sink *sink) must_check;

/* Asks all lanes to leave; does not wait. */
void deliver_end(struct deliver *deliver);
bool deliver_ended(const struct deliver *deliver);

/* Ends them if need be and waits for their threads, which give the store some seconds
 * to record outcomes. */
void deliver_join(struct deliver *deliver);

/* Joins if need be. Accepts NULL, returns NULL. */
struct deliver *deliver_free(struct deliver *deliver);

/* ---- looking ---- */

uint32_t deliver_lane_count(const struct deliver *deliver);
/* `lane` is below the count, in the order of the options. What it shows is never behind
 * what the store shows: counts are there before outcomes are. */
void deliver_view(struct deliver *deliver, uint32_t lane, struct lane_view *ret_view);
/* Are all lanes resting (lane_view.h)? Also has each look for what came back to it, so
 * asked again and again it tells of now. What is on its way between the store and a lane
 * is not seen. */
bool deliver_is_resting(struct deliver *deliver);
/* The lane of that name, or -ENOENT. There are two when a sink was removed and another, of
 * another number, has its name: then it is that of the one that is there. */
int deliver_find(struct deliver *deliver, struct span name);

/* ---- commands ---- */

enum deliver_command_kind {
	DELIVER_PAUSE = 1, /* nothing starts; what is under way ends. Also after a restart */
	DELIVER_RESUME,    /* also of a disabled one; tries at once */
	DELIVER_REMOVE,    /* as paused, until a change; with leases that end what has not
	                      begun is given back */
	DELIVER_RETRY_NOW, /* a ticket that waits for its time */
	DELIVER_DROP,      /* a ticket that is not under way: closed, no dead letter; done()
	                      comes when the store has it */
	DELIVER_CHANGE,    /* another outlet and policy, when what is under way has ended */
};

/* Belongs to the lane from post to done(). */
struct deliver_command {
	enum deliver_command_kind kind;
	uint64_t ticket; /* RETRY_NOW, DROP */
	/* CHANGE: the policy, and who makes the outlet: on the lane's thread, with its loop.
	 * If that fails the lane continues as it was. */
	struct deliver_policy policy;
	const char *name; /* what it is called then; NULL: as it was */
	int (*make)(struct deliver_command *command, struct loop *loop, struct outlet **ret_outlet);
	/* 0, or of RETRY_NOW and DROP: -ENOENT: the lane does not have it; ERR_BUSY: it is
	 * under way, or another of its entity is before it; of CHANGE: that of make();
	 * ERR_BUSY: another change is not done yet; of DROP: ERR_FENCED, it is somebody else's
	 * by now. ERR_CLOSING: too late. */
	int error;
	void (*done)(struct deliver_command *command); /* on the lane's thread; may be NULL */
	void *user;
	struct mailbox_node node; /* the lane's */
	struct lane_drop drop;    /* the same */
};

void deliver_post(struct deliver *deliver, uint32_t lane, struct deliver_command *command);
