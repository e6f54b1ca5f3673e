/*
 * redis_client: calls of one Redis server, or of the nodes of a cluster; and which slot of a
 * cluster a key is in.
 *
 * A call is one command. It is sent to the node that has its slot. When the connection
 * breaks or the server says so (MOVED, ASK, TRYAGAIN, CLUSTERDOWN, LOADING, READONLY,
 * MASTERDOWN, NOSCRIPT, NOREPLICAS) it is sent again, to another node if need be, until there
 * is an answer or its deadline is over. So it may be executed more than once: the caller
 * makes that harmless. A call that writes is answered when as many replicas have it as the
 * login asks for (WAIT, whose answer is checked, and which is repeated until the deadline).
 *
 * A server that cannot be reached, or refuses commands, is logged once, once more when it
 * gives a reason, and when it is back.
 *
 * Calls of one slot that are under way together may overtake each other.
 *
 * Room:      link. Threads: the owner of the loop; slots are pure functions.
 * Ownership: a call is the client's from redis_client_call() to done(), which may make
 *            another call. redis_client_free() ends all with ERR_CLOSING.
 * Failure:   ERR_AWAY: no answer in time, executed or not. -ENOMEM.
 */
#pragma once

#include "base/buf.h"
#include "base/check.h"
#include "link/redis_link.h"
#include "sys/loop.h"

#define REDIS_ANY_SLOT UINT32_MAX
#define REDIS_NODES_MAX 256u

#define REDIS_SLOTS 16384u

/* The slot of a key: by the part in the first {…} that is not empty, or the whole key. */
uint32_t redis_slot_of(struct span key);

/* Reads the reply of CLUSTER SLOTS: calls `range` for each range of slots with the host of its
 * master; a node that does not know its own name is called `asked`. False: it is no such
 * reply; `range` may have been called for some ranges before. */
struct redis_slots_range {
	uint32_t first, last;
	struct redis_host master;
	uint32_t replicas;
};

bool redis_slots_walk(struct span reply, const struct redis_host *asked,
                      void (*range)(void *user, const struct redis_slots_range *range), void *user);

struct redis_client;

/* Which reply a call waits for. */
enum redis_call_stage {
	REDIS_CALL_PARKED = 0, /* none: it is not sent */
	REDIS_CALL_ASKING,     /* to ASKING, of a slot that moves */
	REDIS_CALL_RESULT,     /* its own */
	REDIS_CALL_WAIT        /* to WAIT */
};

struct redis_call {
	/* in */
	uint32_t slot; /* of its keys; REDIS_ANY_SLOT: any node */
	bool script;   /* EVALSHA of the client's script; the arguments follow that */
	bool writes;   /* replicas must confirm it */
	/* NULL, or for a call without `writes`: does its reply say that it wrote? */
	bool (*wrote)(const struct redis_call *call, struct span reply);
	uint32_t count;       /* of arguments */
	struct buf arguments; /* resp_request_add(); the caller's */
	uint64_t deadline_ms; /* by the loop's clock */
	/* `reply` is the whole reply, which may be an error of the server's; empty with an
	 * error. Valid until done() returns. */
	void (*done)(struct redis_call *call, int error, struct span reply);
	void *user;
	/* the client's */
	struct redis_call *next;
	enum redis_call_stage stage;
	uint32_t node, ask_node;
	uint32_t tries;
	uint64_t retry_at_ms;
	struct buf kept; /* the result, during WAIT */
};

struct redis_client_options {
	struct loop *loop;
	const struct redis_login *login; /* stays */
	struct span script;              /* stays; empty: none */
};

int redis_client_new(const struct redis_client_options *options,
                     struct redis_client **ret_client) must_check;
struct redis_client *redis_client_free(struct redis_client *client); /* accepts NULL */

void redis_client_call(struct redis_client *client, struct redis_call *call);
/* Brings the deadlines of all calls forward. */
void redis_client_hurry(struct redis_client *client, uint64_t deadline_ms);
void redis_call_free(struct redis_call *call); /* its buffers */

/* Why the last connection ended, or "". */
const char *redis_client_trouble(const struct redis_client *client);
