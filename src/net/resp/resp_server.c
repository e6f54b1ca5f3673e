/*
 * resp_server: see resp_server.h and resp_connection.h. Connections, calls, input, replies,
 * rounds, then start and end of the server.
 */
#include "net/resp/resp_server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/histogram.h"
#include "base/mem.h"
#include "codec/ip.h"
#include "net/resp/resp_connection.h"
#include "sys/clock.h"

#define RECEIVE_ROOM 1024u /* bytes that a recv should have room for */
#define SPARES_MAX 8192u
#define KEEPALIVE_S 300 /* as Redis asks for it */
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

/* ---- life ---- */

static void start_deadline(struct resp_connection *connection)
{
	struct resp_server *server = connection->server;
	const struct resp_server_limits *limits = &server->options.limits;
	uint32_t after_ms = connection->client.trusted ? limits->idle_ms : limits->stranger_ms;
	wire_set_timeout(&connection->wire,
	                 after_ms > 0 ? loop_now_ms(server->host.loop) + after_ms : WHEEL_NEVER);
}

/* Input extends the deadline of a trusted client, not that of a stranger. The deadline may
 * also be that of sending, which is over. */
static void set_deadline(struct wire *wire)
{
	struct resp_connection *connection = resp_connection_of(wire);
	if (connection->client.trusted && wire->timeout.deadline_ms != WHEEL_NEVER)
		start_deadline(connection);
}

/* A client that waits for our reply is not late. */
static void expired(struct wire *wire)
{
	struct resp_connection *connection = resp_connection_of(wire);
	struct resp_server *server = connection->server;
	if (connection->first && !wire->stalled) {
		wire_set_timeout(wire,
		                 loop_now_ms(server->host.loop) + server->options.limits.send_ms);
		return;
	}
	if (wire->life != WIRE_LINGERING)
		counter_add(&server->counters.wires.timeouts, 1);
	wire_close(wire);
}

static size_t state_offset(void)
{
	return (sizeof(struct resp_connection) + 15) / 16 * 16;
}

static struct wire *make(struct wire_host *host, int fd, const struct sockaddr *address,
                         struct tls_session *tls)
{
	static atomic_uint_fast64_t last_id; /* unique over all servers */
	struct resp_server *server = container_of(host, struct resp_server, host);
	struct resp_connection *connection = mem_zalloc(1, state_offset() +
	                                                           server->options.client_size);
	if (!connection)
		return NULL;
	connection->server = server;
	connection->client = (struct resp_client){
		.address = socket_address_ip(address),
		.port = socket_address_port(address),
		.fd = fd,
		.id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1,
		.since_ms = loop_now_ms(host->loop),
		.tls = tls != NULL,
		.trusted = server->options.trusts,
		.user = server->options.user,
		.state = (char *)connection + state_offset(),
	};
	connection->tail = &connection->first;
	return &connection->wire;
}

/* Clients keep connections open for long: keep-alive finds a peer that has vanished. */
static void begun(struct wire *wire)
{
	int on = 1, idle_s = KEEPALIVE_S, interval_s = KEEPALIVE_S / 3, probes = 3;
	int fd = wire->handler.fd;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	start_deadline(resp_connection_of(wire));
}

/* Calls at the handler live on until they are done. */
static void release(struct wire *wire)
{
	struct resp_connection *connection = resp_connection_of(wire);
	if (connection->first)
		return;
	if (connection->held) {
		struct resp_connection **at = &connection->server->held;
		while (*at != connection)
			at = &(*at)->held_next;
		*at = connection->held_next;
	}
	loop_timer_clear(connection->server->host.loop, &connection->delay);
	wire_unlink(wire);
	connection->server->options.gone(&connection->client);
	resp_parser_free(&connection->parser);
	mem_free(connection);
}

static bool is_asked(const struct wire *wire)
{
	return container_of(wire, const struct resp_connection, wire)->first;
}

static bool is_idle(const struct wire *wire)
{
	return !is_asked(wire) && !wire_has_output(wire);
}

/* ---- calls ---- */

static struct resp_entry *take_entry(struct resp_connection *connection)
{
	struct resp_server *server = connection->server;
	struct resp_entry *entry = server->spare_entries;
	size_t head = (sizeof(*entry) + 15) / 16 * 16;
	if (likely(entry)) {
		server->spare_entries = entry->next;
		server->spare_count--;
	} else {
		entry = mem_alloc(head + server->options.call_size);
		if (!entry)
			return NULL;
		entry->call.scratch = (char *)entry + head;
	}
	entry->next = NULL;
	entry->connection = connection;
	entry->input = connection->wire.input;
	entry->weight = 0;
	entry->delay_ms = 0;
	entry->done = entry->fault = entry->ends = false;
	entry->call.client = &connection->client;
	entry->call.arrived_ns = loop_now_ns(server->host.loop);
	if (entry->input)
		entry->input->refs++;
	*connection->tail = entry;
	connection->tail = &entry->next;
	connection->waiting++;
	server->calls++;
	return entry;
}

/* The first of the queue has its reply (R1). */
static void pop_first(struct resp_connection *connection)
{
	struct resp_server *server = connection->server;
	struct resp_entry *entry = connection->first;
	connection->first = entry->next;
	if (!entry->next)
		connection->tail = &connection->first;
	connection->waiting--;
	connection->weight -= entry->weight;
	server->weight -= entry->weight;
	server->calls--;
	if (connection->late == entry)
		connection->late = NULL;
	if (entry->ends)
		wire_advance(&connection->wire, WIRE_CLOSING);
	pool_drop_input(&server->host.pool, entry->input);
	if (server->spare_count >= SPARES_MAX) {
		mem_free(entry);
		return;
	}
	entry->next = server->spare_entries;
	server->spare_entries = entry;
	server->spare_count++;
}

static void delay_over(struct loop_timer *timer)
{
	struct resp_connection *connection = container_of(timer, struct resp_connection, delay);
	if (connection->late)
		connection->late->done = true;
	connection->late = NULL;
	wire_mark_dirty(&connection->wire);
}

/* Without a timer it is done now. */
static bool begin_delay(struct resp_entry *entry)
{
	struct resp_connection *connection = entry->connection;
	CHECK(!connection->late); /* R2 */
	connection->delay.due = delay_over;
	if (loop_timer_set(connection->server->host.loop, &connection->delay, entry->delay_ms) < 0)
		return false;
	connection->late = entry;
	return true;
}

void resp_call_done(struct resp_call *call)
{
	struct resp_entry *entry = container_of(call, struct resp_entry, call);
	CHECK(!entry->done);
	if (unlikely(entry->delay_ms > 0) && begin_delay(entry))
		return;
	entry->done = true;
	if (entry->connection->first == entry)
		wire_mark_dirty(&entry->connection->wire);
}

void resp_call_delay(struct resp_call *call, uint32_t ms)
{
	container_of(call, struct resp_entry, call)->delay_ms = ms;
}

void resp_call_weigh(struct resp_call *call, uint64_t bytes)
{
	struct resp_entry *entry = container_of(call, struct resp_entry, call);
	entry->weight += bytes;
	entry->connection->weight += bytes;
	entry->connection->server->weight += bytes;
}

bool resp_call_is_dear(const struct resp_call *call)
{
	const struct resp_entry *entry = container_of(call, const struct resp_entry, call);
	const struct resp_server *server = entry->connection->server;
	return server->host.pool.output_bytes >= server->options.limits.output_bytes_all;
}

void resp_call_ends(struct resp_call *call)
{
	struct resp_entry *entry = container_of(call, struct resp_entry, call);
	entry->ends = true;
	wire_advance(&entry->connection->wire, WIRE_LAST);
}

/* ---- bytes to calls ---- */

static bool must_pause(const struct wire *wire)
{
	const struct resp_connection *connection = container_of(wire, const struct resp_connection,
	                                                        wire);
	const struct resp_server_limits *limits = &connection->server->options.limits;
	return wire->life != WIRE_OPEN || connection->late ||
	       connection->waiting >= limits->pipeline ||
	       connection->weight >= limits->weight_bytes ||
	       outgoing_pending(&wire->out) > limits->output_bytes;
}

/* True: the server has too many calls, and the connection waits until it has fewer. */
static bool is_crowded(struct resp_connection *connection)
{
	struct resp_server *server = connection->server;
	if (likely(server->calls < server->options.limits.calls &&
	           server->weight < server->options.limits.weight_bytes_all))
		return false;
	if (!connection->held) {
		connection->held = true;
		connection->held_next = server->held;
		server->held = connection;
	}
	return true;
}

/* Room for a recv behind what there is, and for the whole command that is half there. */
static int make_room(struct wire *wire)
{
	const struct resp_connection *connection = resp_connection_of(wire);
	struct pool *pool = &connection->server->host.pool;
	struct input *old = wire->input, *input;
	uint32_t pending = wire->in_len - wire->in_at;
	size_t need = connection->parser.need > pending + RECEIVE_ROOM ? connection->parser.need
	                                                               : pending + RECEIVE_ROOM;
	if (old && old->refs == 1 && wire->in_at > 0) {
		memmove(old->bytes, old->bytes + wire->in_at, pending);
		wire->in_at = 0;
		wire->in_len = pending;
	}
	if (old && old->room - wire->in_at >= need)
		return 0;
	/* Each of many arguments announces its own length: doubling keeps bytes from being
	 * moved again and again. */
	if (need > pool->input_room && need < 2 * (size_t)pending)
		need = 2 * (size_t)pending;
	int error = pool_take_input(pool, need, &input);
	if (error)
		return error;
	if (old && pending > 0)
		memcpy(input->bytes, old->bytes + wire->in_at, pending);
	pool_drop_input(pool, old);
	wire->input = input;
	wire->in_at = 0;
	wire->in_len = pending;
	return 0;
}

static bool place_args(struct resp_connection *connection, const char *bytes)
{
	struct resp_server *server = connection->server;
	const struct resp_parser *parser = &connection->parser;
	if (unlikely(parser->count > server->args_room)) {
		uint32_t room = parser->count * 2;
		struct span *args = mem_realloc(server->args, room * sizeof(*args));
		if (!args)
			return false;
		server->args = args;
		server->args_room = room;
	}
	for (uint32_t i = 0; i < parser->count; i++)
		server->args[i] = span_of(bytes + parser->args[i].at, parser->args[i].len);
	return true;
}

static void handle_command(struct resp_connection *connection, const char *bytes)
{
	struct resp_server *server = connection->server;
	struct resp_entry *entry = place_args(connection, bytes) ? take_entry(connection) : NULL;
	if (unlikely(!entry)) {
		wire_break_off(&connection->wire);
		return;
	}
	connection->wire.in_at += connection->parser.used;
	connection->parser.need = 0;
	counter_add(&server->counters.commands, 1);
	server->options.handle(&entry->call, server->args, connection->parser.count);
}

/* The bytes behind it cannot be trusted. */
static void refuse_input(struct resp_connection *connection)
{
	struct resp_entry *entry = take_entry(connection);
	wire_advance(&connection->wire, WIRE_LAST);
	connection->wire.refused = true;
	if (!entry) {
		wire_break_off(&connection->wire);
		return;
	}
	counter_add(&connection->server->counters.bad, 1);
	entry->fault = entry->ends = true;
	resp_call_done(&entry->call);
}

static void process(struct wire *wire)
{
	struct resp_connection *connection = resp_connection_of(wire);
	const struct resp_server_limits *limits = &connection->server->options.limits;
	if (unlikely(wire->tls && wire->stalled)) {
		wire->paused = true; /* TLS may have answers of its own to what is read */
		return;
	}
	while (wire->life == WIRE_OPEN && wire->in_at < wire->in_len) {
		if (unlikely(must_pause(wire) || is_crowded(connection))) {
			wire->paused = true;
			return;
		}
		char *bytes = wire->input->bytes + wire->in_at;
		enum resp_step step =
			resp_parse(&connection->parser, bytes, wire->in_len - wire->in_at,
		                   connection->client.trusted ? &limits->known : &limits->stranger);
		if (likely(step == RESP_COMMAND))
			handle_command(connection, bytes);
		else if (step == RESP_MORE)
			return;
		else if (step == RESP_NOTHING)
			wire->in_at += connection->parser.used;
		else if (step == RESP_BROKEN)
			refuse_input(connection);
		else
			wire_break_off(wire);
	}
}

/* ---- replies ---- */

/* Writes the replies that are next in order and done. */
static void write_replies(struct resp_connection *connection, uint64_t now_ns)
{
	struct resp_server *server = connection->server;
	struct buf *out = &server->replies;
	struct resp_entry *entry;
	uint64_t arrived_ns = 0, count = 0;
	buf_clear(out);
	while ((entry = connection->first) && entry->done) {
		if (unlikely(entry->call.arrived_ns != arrived_ns) && count > 0) {
			histogram_record_n(server->reply_us, (now_ns - arrived_ns) / 1000, count);
			count = 0;
		}
		arrived_ns = entry->call.arrived_ns;
		count++;
		if (unlikely(entry->fault)) {
			char problem[RESP_PROBLEM_MAX], text[RESP_PROBLEM_MAX + 20];
			resp_parser_problem(&connection->parser, problem);
			int len = snprintf(text, sizeof(text), "Protocol error: %s", problem);
			resp_write_error(out, RESP_ERR, span_of(text, (size_t)len));
		} else {
			server->options.reply(&entry->call, out);
		}
		pop_first(connection);
	}
	if (count > 0)
		histogram_record_n(server->reply_us, (now_ns - arrived_ns) / 1000, count);
	if (connection->wire.handler.fd < 0 || connection->wire.life == WIRE_BROKEN)
		return;
	if (out->failed ||
	    (out->len > 0 &&
	     outgoing_append(&server->host.pool, &connection->wire.out, out->ptr, out->len) != 0))
		wire_advance(&connection->wire, WIRE_BROKEN);
}

/* An idle connection holds no memory. */
static void rest(struct wire *wire)
{
	struct resp_connection *connection = resp_connection_of(wire);
	if (wire->input && wire->in_at == wire->in_len && !connection->first) {
		pool_drop_input(&connection->server->host.pool, wire->input);
		wire->input = NULL;
		wire->in_at = wire->in_len = 0;
	}
	if (wire->timeout.deadline_ms != WHEEL_NEVER || !connection->client.trusted)
		start_deadline(connection);
}

static void drop_calls(struct resp_connection *connection)
{
	struct resp_server *server = connection->server;
	while (connection->first) {
		buf_clear(&server->replies);
		if (!connection->first->fault)
			server->options.reply(&connection->first->call, &server->replies);
		pop_first(connection);
	}
}

/* ---- rounds ---- */

static void run_round(struct wire_host *host, struct wire *first)
{
	uint64_t now_ns = clock_monotonic_ns();
	(void)host;
	for (struct wire *wire = first; wire; wire = wire->dirty_next)
		write_replies(resp_connection_of(wire), now_ns);
}

/* Connections that wait for fewer calls continue when half of them are left. */
static void end_round(struct wire_host *host)
{
	struct resp_server *server = container_of(host, struct resp_server, host);
	if (server->calls > server->options.limits.calls / 2 ||
	    server->weight > server->options.limits.weight_bytes_all / 2)
		return;
	while (unlikely(server->held)) {
		struct resp_connection *connection = server->held;
		server->held = connection->held_next;
		connection->held = false;
		wire_mark_dirty(&connection->wire);
	}
}

static const struct wire_kind resp_connection_kind = {
	.make = make,
	.begun = begun,
	.make_room = make_room,
	.process = process,
	.must_pause = must_pause,
	.set_deadline = set_deadline,
	.rest = rest,
	.is_asked = is_asked,
	.is_idle = is_idle,
	.expired = expired,
	.release = release,
	.round = run_round,
	.round_ends = end_round,
};

/* ---- start and end ---- */

static void turn_away(struct acceptor *acceptor, int fd, enum gauge_result why)
{
	struct resp_server *server = container_of(acceptor, struct resp_server, host.acceptor);
	(void)why;
	wire_turn_away(&server->host, fd, SPAN("-ERR max number of clients reached\r\n"));
}

int resp_server_new(const struct resp_server_options *options, struct resp_server **ret_server,
                    struct error_text *ret_text)
{
	CHECK(options->loop && options->gauge && options->handle && options->reply &&
	      options->gone);
	struct resp_server *server = mem_zalloc(1, sizeof(*server));
	if (!server)
		return error_fill(ret_text, -ENOMEM, "no memory for the Redis door");
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

struct resp_server *resp_server_free(struct resp_server *server)
{
	if (!server)
		return NULL;
	for (struct wire *wire = server->host.wires; wire; wire = wire->next)
		drop_calls(resp_connection_of(wire));
	wire_host_close(&server->host);
	while (server->spare_entries) {
		struct resp_entry *entry = server->spare_entries;
		server->spare_entries = entry->next;
		mem_free(entry);
	}
	buf_free(&server->replies);
	mem_free(server->args);
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
