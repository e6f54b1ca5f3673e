/*
 * redis_client: calls of one Redis, or of the node of a cluster that has the slot.
 *
 * A call is one command. It is sent to whoever has its slot, again and elsewhere when the
 * connection breaks or the server says so (MOVED, ASK, TRYAGAIN, CLUSTERDOWN, LOADING,
 * READONLY, MASTERDOWN, NOSCRIPT, NOREPLICAS), until there is an answer or its time is over.
 * So it may be done more than once: whoever calls makes that harmless. A call that writes is
 * answered when as many replicas have it as the login asks for (WAIT, whose answer is
 * looked at, and which is repeated as long as there is time).
 *
 * A server that is away, or refuses what it would do otherwise, is logged once, once more when
 * it says why, and when it is back.
 *
 * Calls of one slot that are under way together may overtake each other.
 *
 * Room:      link. Threads: the owner of the loop.
 * Ownership: a call is the client's from redis_client_call() to done(), which may call
 *            again. redis_client_free() answers all with ERR_CLOSING.
 * Failure:   ERR_AWAY: no answer in time: done or not, nobody knows. -ENOMEM.
 */
#pragma once

#include "base/buf.h"
#include "base/check.h"
#include "link/redis_login.h"
#include "sys/loop.h"

#define REDIS_ANY_SLOT UINT32_MAX
#define REDIS_NODES_MAX 256u

struct redis_client;

enum redis_call_stage { REDIS_CALL_ASKING = 0, REDIS_CALL_RESULT, REDIS_CALL_WAIT };

struct redis_call {
	/* in */
	uint32_t slot; /* of its keys; REDIS_ANY_SLOT: any node */
	bool script;   /* EVALSHA of the client's script, the arguments stand behind that */
	bool writes;   /* is to be replicated */
	/* NULL, or asked of one that does not: has it written all the same, by its reply? */
	bool (*wrote)(const struct redis_call *call, struct span reply);
	uint32_t count;       /* of arguments */
	struct buf arguments; /* resp_request_add(); the caller's */
	uint64_t deadline_ms; /* by the loop's clock */
	/* `reply` is the whole one, which may be an error of the server's; empty with an
	 * error. It lives until done() returns. */
	void (*done)(struct redis_call *call, int error, struct span reply);
	void *user;
	/* the client's */
	struct redis_call *next;
	enum redis_call_stage stage;
	uint32_t node, ask_node;
	uint32_t tries;
	uint64_t retry_at_ms;
	struct buf kept; /* the result, while its replication is waited for */
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
/* What is under way has no more time than that. */
void redis_client_hurry(struct redis_client *client, uint64_t deadline_ms);
void redis_call_free(struct redis_call *call); /* the memory that it kept */

/* Why the last connection ended, or "". */
const char *redis_client_trouble(const struct redis_client *client);
