/* The round, limits, drain. See resp_server.h and resp_connection.h. */
#include "net/resp/resp_server.h"

#include <errno.h>

#include "base/histogram.h"
#include "base/mem.h"
#include "net/resp/resp_connection.h"
#include "sys/clock.h"

#define TICK_MS 250u
#define SEND_RATE 1024 /* bytes a second that a peer must read */

/* A pipeline of 64 commands is more than POOL_INPUT_ROOM; an odd count of cache lines. */
#define INPUT_ROOM (257u * 64u - 24u)

const struct resp_server_limits resp_server_limits_default = {
	.known = { .args = 4096,
	           .bulk_bytes = 2u << 20,
	           .command_bytes = 4u << 20,
	           .line_bytes = 64u << 10 },
	.stranger = { .args = 10,
	              .bulk_bytes = 16384,
	              .command_bytes = 64u << 10,
	              .line_bytes = 64u << 10,
	              .stranger = true },
	.input_bytes = 256u << 20,
	.output_bytes = 1u << 20,
	.pipeline = 1024,
	.weight_bytes = 8u << 20,
	.calls = 8192,
	.weight_bytes_all = 512u << 20,
	.output_bytes_all = 256u << 20,
	.idle_ms = 0,
	.stranger_ms = 30 * 1000,
	.send_ms = 30 * 1000,
	.connections = 8192,
	.connections_per_address = 8192,
};

void resp_hold(struct resp_connection *connection)
{
	if (connection->held)
		return;
	connection->held = true;
	connection->held_next = connection->server->held;
	connection->server->held = connection;
}

/* There are few calls again. */
static void let_go(struct resp_server *server)
{
	while (server->held) {
		struct resp_connection *connection = server->held;
		server->held = connection->held_next;
		connection->held = false;
		wire_mark_dirty(&connection->wire);
	}
}

/* ---- rounds ---- */

void resp_server_round(struct wire_host *host, struct wire *first)
{
	(void)host;
	uint64_t now_ns = clock_monotonic_ns();
	for (struct wire *wire = first; wire; wire = wire->dirty_next)
		resp_connection_reply(resp_connection_of(wire), now_ns);
}

void resp_server_round_ends(struct wire_host *host)
{
	struct resp_server *server = container_of(host, struct resp_server, host);
	if (unlikely(server->held) && server->calls <= server->options.limits.calls / 2 &&
	    server->weight <= server->options.limits.weight_bytes_all / 2)
		let_go(server);
}

static void turn_away(struct acceptor *acceptor, int fd, enum gauge_result why)
{
	struct resp_server *server = container_of(acceptor, struct resp_server, host.acceptor);
	(void)why;
	wire_turn_away(&server->host, fd, SPAN("-ERR max number of clients reached\r\n"));
}

/* ---- start and end ---- */

static void init_server(struct resp_server *server, const struct resp_server_options *options)
{
	server->options = *options;
	server->host = (struct wire_host){
		.kind = &resp_connection_kind,
		.loop = options->loop,
		.tls = options->tls,
		.counters = &server->counters.wires,
		.send_ms = options->limits.send_ms,
		.send_rate = SEND_RATE,
		.tick_ms = TICK_MS,
		.acceptor = { .gauge = options->gauge,
		              .limits = { .connections = options->limits.connections,
		                          .connections_per_address =
		                                  options->limits.connections_per_address },
		              .refused = turn_away },
		.pool = { .bytes_max = options->limits.input_bytes, .input_room = INPUT_ROOM },
	};
	wire_host_init(&server->host);
}

int resp_server_new(const struct resp_server_options *options, struct resp_server **ret_server,
                    struct error_text *ret_text)
{
	CHECK(options->loop && options->gauge && options->handle && options->reply &&
	      options->gone);
	struct resp_server *server = mem_zalloc(1, sizeof(*server));
	if (!server)
		return error_fill(ret_text, -ENOMEM, "no memory for the Redis door");
	init_server(server, options);
	int error = 0;
	server->reply_us = mem_zalloc(1, sizeof(*server->reply_us));
	if (!server->reply_us)
		error = error_fill(ret_text, -ENOMEM, "no memory for the Redis door");
	if (!error)
		error = wire_host_open(&server->host, options->address,
		                       options->joins ? &options->joins->host : NULL, ret_text);
	if (error) {
		resp_server_free(server);
		return error;
	}
	*ret_server = server;
	return 0;
}

int resp_server_batch(struct resp_server *server)
{
	return wire_host_batch(&server->host);
}

static void free_spares(struct resp_server *server)
{
	while (server->spare_entries) {
		struct resp_entry *entry = server->spare_entries;
		server->spare_entries = entry->next;
		mem_free(entry);
	}
	buf_free(&server->replies);
	mem_free(server->args);
}

struct resp_server *resp_server_free(struct resp_server *server)
{
	if (!server)
		return NULL;
	for (struct wire *wire = server->host.wires; wire; wire = wire->next)
		resp_connection_drop_calls(resp_connection_of(wire));
	wire_host_close(&server->host);
	free_spares(server);
	mem_free(server->reply_us);
	return mem_free(server);
}

void resp_server_drain(struct resp_server *server)
{
	if (server->host.draining)
		return;
	wire_host_drain(&server->host);
	for (struct wire *wire = server->host.wires; wire; wire = wire->next) {
		wire_advance(wire, WIRE_LAST);
		wire_mark_dirty(wire);
	}
}

void resp_server_cut(struct resp_server *server)
{
	resp_server_drain(server);
	wire_host_cut(&server->host);
}

bool resp_server_drained(const struct resp_server *server)
{
	return wire_host_drained(&server->host);
}

struct resp_counters *resp_server_counters(struct resp_server *server)
{
	return &server->counters;
}

const struct histogram *resp_server_reply_us(const struct resp_server *server)
{
	return server->reply_us;
}

uint16_t resp_server_port(const struct resp_server *server)
{
	return server->host.acceptor.port;
}
