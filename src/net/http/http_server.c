/* Limits, the date, turning away. See http_server.h and connection.h. */
#include "net/http/http_server.h"

#include <errno.h>

#include "base/mem.h"
#include "net/http/connection.h"
#include "sys/clock.h"

#define TICK_MS_MAX 250u

const struct http_limits http_limits_default = {
	.head_bytes = 16 * 1024,
	.headers = HTTP1_HEADERS_MAX,
	.body_bytes = 1024 * 1024,
	.head_ms = 10 * 1000,
	.body_rate = 1024,
	.body_grace_ms = 10 * 1000,
	.input_bytes = 256u << 20,
	.idle_ms = 75 * 1000,
	.send_ms = 30 * 1000,
	.pipeline = 16,
	.connections = 16384,
	.connections_per_address = 4096,
};

const char *server_date(struct http_server *server)
{
	uint64_t now_ns = loop_now_ns(server->host.loop);
	if (unlikely(now_ns >= server->date_until_ns)) {
		struct clock_reading reading = clock_read(clock_system());
		http1_format_date(reading.wall_ms / 1000, server->date);
		server->date_until_ns = now_ns + (1000 - reading.wall_ms % 1000) * 1000000u;
	}
	return server->date;
}

static size_t write_turn_away(struct http_server *server, bool address, char *out, size_t room)
{
	struct span body =
		address ? SPAN("{\"type\":\"about:blank\",\"title\":\"Too Many Requests\","
	                       "\"status\":429,\"detail\":\"too many connections from this address\"}\n")
			: SPAN("{\"type\":\"about:blank\",\"title\":\"Service Unavailable\","
	                       "\"status\":503,\"detail\":\"too many connections\"}\n");
	struct http1_answer answer = {
		.status = address ? 429 : 503,
		.close = true,
		.date = server_date(server),
		.content_type = SPAN("application/problem+json"),
		.headers = SPAN("Retry-After: 1\r\n"),
		.content_length = body.len,
	};
	CHECK(http1_head_room(&answer) + body.len <= room);
	size_t len = http1_write_head(&answer, out);
	memcpy(out + len, body.ptr, body.len);
	return len + body.len;
}

static void turn_away(struct acceptor *acceptor, int fd, enum gauge_result result)
{
	struct http_server *server = container_of(acceptor, struct http_server, host.acceptor);
	char out[768];
	size_t len = write_turn_away(server, result == GAUGE_ADDRESS_FULL, out, sizeof(out));
	wire_turn_away(&server->host, fd, span_of(out, len));
}

/* Fine enough for the shortest limit, coarse enough to cost nothing. */
static uint64_t tick_for(const struct http_limits *limits)
{
	uint32_t least = limits->head_ms;
	if (limits->body_grace_ms < least)
		least = limits->body_grace_ms;
	if (limits->idle_ms < least)
		least = limits->idle_ms;
	if (limits->send_ms < least)
		least = limits->send_ms;
	uint32_t tick_ms = least / 8 > TICK_MS_MAX ? TICK_MS_MAX : least / 8;
	return tick_ms > 0 ? tick_ms : 1;
}

static void init_server(struct http_server *server, const struct http_server_options *options)
{
	server->limits = options->limits;
	server->head_limits = (struct http1_limits){ .head_bytes = options->limits.head_bytes,
		                                     .headers = options->limits.headers };
	server->handle = options->handle;
	server->wants_body = options->wants_body;
	server->user = options->user;
	server->scratch_size = options->scratch_size;
	server->headers = options->headers;
	server->host = (struct wire_host){
		.kind = &connection_kind,
		.loop = options->loop,
		.tls = options->tls,
		.counters = &server->counters.wires,
		.send_ms = options->limits.send_ms,
		.send_rate = options->limits.body_rate,
		.tick_ms = tick_for(&options->limits),
		.acceptor = { .gauge = options->gauge,
		              .limits = { options->limits.connections,
		                          options->limits.connections_per_address },
		              .refused = turn_away },
		.pool = { .bytes_max = options->limits.input_bytes },
	};
	wire_host_init(&server->host);
}

int http_server_new(const struct http_server_options *options, struct http_server **ret_server,
                    struct error_text *ret_text)
{
	CHECK(options->loop && options->gauge && options->handle && options->limits.body_rate > 0);
	struct http_server *server = mem_zalloc(1, sizeof(*server));
	if (!server)
		return error_fill(ret_text, -ENOMEM, "no memory for the HTTP server");
	init_server(server, options);
	int error = wire_host_open(&server->host, options->address,
	                           options->joins ? &options->joins->host : NULL, ret_text);
	if (error) {
		http_server_free(server);
		return error;
	}
	*ret_server = server;
	return 0;
}

int http_server_batch(struct http_server *server)
{
	return wire_host_batch(&server->host);
}

static void free_spares(struct http_server *server)
{
	while (server->spare_connections) {
		struct wire *wire = server->spare_connections;
		server->spare_connections = wire->next;
		mem_free(connection_of(wire));
	}
	spares_free(&server->spare_requests);
}

struct http_server *http_server_free(struct http_server *server)
{
	if (!server)
		return NULL;
	for (struct wire *wire = server->host.wires; wire; wire = wire->next)
		connection_drop_requests(connection_of(wire));
	wire_host_close(&server->host);
	free_spares(server);
	return mem_free(server);
}

/* Those that the kernel has already accepted for us are served, not reset. */
void http_server_drain(struct http_server *server)
{
	if (server->host.draining)
		return;
	acceptor_take_rest(&server->host.acceptor);
	wire_host_drain(&server->host);
}

void http_server_cut(struct http_server *server)
{
	http_server_drain(server);
	wire_host_cut(&server->host);
}

bool http_server_drained(const struct http_server *server)
{
	return wire_host_drained(&server->host);
}

const struct http_counters *http_server_counters(const struct http_server *server)
{
	return &server->counters;
}

uint16_t http_server_port(const struct http_server *server)
{
	return server->host.acceptor.port;
}
