/*
 * resp_connection: one peer of a resp_server. The private side of resp_server.h, for
 * resp_server.c and its tests.
 *
 * Invariants:
 *  R1 Calls stand in a queue in the order of their commands; replies are written
 *     from its head on.
 *  R2 A connection has at most one call whose reply is delayed.
 *
 * Room: net. Threads: that of the server.
 */
#pragma once

#include "net/resp/resp_server.h"
#include "net/wire.h"

struct resp_connection;

struct resp_entry {
	struct resp_entry *next; /* in the queue, or while spare */
	struct resp_connection *connection;
	struct input *input; /* what its arguments point into; counted */
	uint64_t weight;
	uint32_t delay_ms;
	bool done;
	bool fault; /* not the handler's: the bytes behind it are no command */
	bool ends;
	struct resp_call call;
};

struct resp_connection {
	struct wire wire;
	struct resp_server *server;
	struct resp_connection *held_next; /* waits until others have fewer calls */
	struct resp_client client;
	struct resp_parser parser;

	struct resp_entry *first, **tail;
	uint32_t waiting; /* calls in the queue */
	uint64_t weight;  /* of them */
	bool held;        /* in the server's list */
	/* R2: a call that is done, and whose reply waits for the timer; nothing is read then. */
	struct resp_entry *late;
	struct loop_timer delay;
};

struct resp_server {
	struct wire_host host;
	struct resp_server_options options;

	struct resp_connection *held;
	uint32_t calls;  /* that are not replied to */
	uint64_t weight; /* of them */
	struct resp_entry *spare_entries;
	uint32_t spare_count;
	struct buf replies; /* of one connection, before they are moved to its output */
	struct span *args;  /* of the command that is handled */
	uint32_t args_room;

	struct histogram *reply_us;
	struct resp_counters counters;
};

static inline struct resp_connection *resp_connection_of(struct wire *wire)
{
	return container_of(wire, struct resp_connection, wire);
}
