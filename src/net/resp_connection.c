/* A peer's life: bytes to calls, calls to replies, the end. See resp_connection.h. */
#include "net/resp_connection.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/histogram.h"
#include "base/mem.h"
#include "codec/socket_address.h"

#define READS_PER_ROUND 4  /* of one connection, before others get their turn */
#define RECEIVE_ROOM 1024u /* bytes that a recv should have room for */
#define SPARES_MAX 8192u

static void ready(struct loop_handler *handler, uint32_t events);

/* ---- life ---- */

static void set_deadline(struct resp_connection *connection)
{
	struct resp_server *server = connection->server;
	const struct resp_server_limits *limits = &server->options.limits;
	uint32_t after_ms = connection->client.trusted ? limits->idle_ms : limits->stranger_ms;
	wheel_set(&server->wheel, &connection->timeout,
	          after_ms > 0 ? loop_now_ms(server->loop) + after_ms : WHEEL_NEVER);
}

/* Unique over all servers. */
static uint64_t next_id(void)
{
	static atomic_uint_fast64_t last;
	return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static size_t state_offset(void)
{
	return (sizeof(struct resp_connection) + 15) / 16 * 16;
}

int resp_connection_new(struct resp_server *server, int fd, const struct sockaddr *address,
                        struct gauge_slot *slot, struct resp_connection **ret)
{
	size_t size = state_offset() + server->options.client_size;
	struct resp_connection *connection = mem_zalloc(1, size);
	if (!connection)
		return -ENOMEM;
	if (server->options.tls) {
		int error = tls_session_new(server->options.tls, &server->pool, &connection->tls);
		if (error) {
			mem_free(connection);
			return error;
		}
	}
	connection->handler = (struct loop_handler){ .ready = ready, .fd = fd };
	connection->server = server;
	connection->slot = slot;
	connection->client = (struct resp_client){
		.address = socket_address_ip(address),
		.port = socket_address_port(address),
		.fd = fd,
		.id = next_id(),
		.since_ms = loop_now_ms(server->loop),
		.tls = connection->tls != NULL,
		.trusted = server->options.trusts,
		.user = server->options.user,
		.state = (char *)connection + state_offset(),
	};
	connection->tail = &connection->first;
	connection->next = server->connections;
	connection->prev = &server->connections;
	if (server->connections)
		server->connections->prev = &connection->next;
	server->connections = connection;
	set_deadline(connection);
	*ret = connection;
	return 0;
}

/* Edge-triggered for both directions, once: no call to change it is ever needed. */
int resp_connection_register(struct resp_connection *connection)
{
	int error = 0;
	if (!connection->registered)
		error = loop_add(connection->server->loop, &connection->handler,
		                 LOOP_READ | LOOP_WRITE | LOOP_EDGE);
	if (!error)
		connection->registered = true;
	return error;
}

void resp_connection_close(struct resp_connection *connection)
{
	struct resp_server *server = connection->server;
	if (connection->handler.fd < 0)
		return;
	if (connection->registered)
		loop_forget(server->loop, &connection->handler);
	close(connection->handler.fd);
	connection->handler.fd = -1;
	wheel_remove(&connection->timeout);
	gauge_release(server->options.gauge, connection->slot);
	outgoing_clear(&server->pool, &connection->out);
	connection->tls = tls_session_free(connection->tls);
	pool_drop_input(&server->pool, connection->input);
	connection->input = NULL;
	resp_count(&server->counters.open, UINT64_MAX);
	if (server->flushing != connection)
		resp_mark_dirty(connection);
}

static void unhold(struct resp_connection *connection)
{
	struct resp_connection **at = &connection->server->held;
	while (*at && *at != connection)
		at = &(*at)->held_next;
	if (*at)
		*at = connection->held_next;
}

void resp_connection_free(struct resp_connection *connection)
{
	CHECK(connection->handler.fd < 0 && !connection->first && !connection->dirty);
	if (connection->held)
		unhold(connection);
	*connection->prev = connection->next;
	if (connection->next)
		connection->next->prev = connection->prev;
	connection->server->options.gone(&connection->client);
	resp_parser_free(&connection->parser);
	mem_free(connection);
}

bool resp_connection_is_idle(const struct resp_connection *connection)
{
	return !connection->first && connection->in_at == connection->in_len &&
	       !resp_has_output(connection);
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
	entry->input = connection->input;
	entry->weight = 0;
	entry->done = entry->fault = entry->ends = false;
	entry->call.client = &connection->client;
	entry->call.arrived_ns = loop_now_ns(server->loop);
	if (entry->input)
		entry->input->refs++;
	*connection->tail = entry;
	connection->tail = &entry->next;
	server->patience.asking += connection->waiting == 0;
	server->patience.undone++;
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
	server->patience.asking -= connection->waiting == 0;
	server->patience.undone -= !entry->done;
	server->calls--;
	if (entry->ends)
		connection->closing = connection->last = true;
	pool_drop_input(&server->pool, entry->input);
	if (server->spare_count >= SPARES_MAX) {
		mem_free(entry);
		return;
	}
	entry->next = server->spare_entries;
	server->spare_entries = entry;
	server->spare_count++;
}

void resp_call_done(struct resp_call *call)
{
	struct resp_entry *entry = container_of(call, struct resp_entry, call);
	CHECK(!entry->done);
	entry->done = true;
	entry->connection->server->patience.undone--;
	if (entry->connection->first == entry)
		resp_mark_dirty(entry->connection);
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
	return server->pool.output_bytes >= server->options.limits.output_bytes_all;
}

void resp_call_ends(struct resp_call *call)
{
	struct resp_entry *entry = container_of(call, struct resp_entry, call);
	entry->ends = entry->connection->last = true;
}

/* ---- bytes to calls ---- */

static bool must_pause(const struct resp_connection *connection)
{
	const struct resp_server_limits *limits = &connection->server->options.limits;
	return connection->waiting >= limits->pipeline ||
	       connection->weight >= limits->weight_bytes ||
	       outgoing_pending(&connection->out) > limits->output_bytes;
}

static bool is_crowded(struct resp_connection *connection)
{
	struct resp_server *server = connection->server;
	if (likely(server->calls < server->options.limits.calls &&
	           server->weight < server->options.limits.weight_bytes_all))
		return false;
	resp_hold(connection);
	return true;
}

/* Room for a recv behind what there is, and for the whole command that is half there. */
int resp_connection_make_room(struct resp_connection *connection)
{
	struct pool *pool = &connection->server->pool;
	struct input *old = connection->input, *input;
	uint32_t pending = connection->in_len - connection->in_at;
	size_t need = connection->parser.need > pending + RECEIVE_ROOM ? connection->parser.need
	                                                               : pending + RECEIVE_ROOM;
	if (old && old->refs == 1 && connection->in_at > 0) {
		memmove(old->bytes, old->bytes + connection->in_at, pending);
		connection->in_at = 0;
		connection->in_len = pending;
	}
	if (old && old->room - connection->in_at >= need)
		return 0;
	int error = pool_take_input(pool, need, &input);
	if (error)
		return error;
	if (old && pending > 0)
		memcpy(input->bytes, old->bytes + connection->in_at, pending);
	pool_drop_input(pool, old);
	connection->input = input;
	connection->in_at = 0;
	connection->in_len = pending;
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
		resp_break_off(connection);
		return;
	}
	connection->in_at += connection->parser.used;
	connection->parser.need = 0;
	resp_count(&server->counters.commands, 1);
	server->options.handle(&entry->call, server->args, connection->parser.count);
}

/* The bytes behind it are not to be relied on. */
static void refuse_input(struct resp_connection *connection)
{
	struct resp_entry *entry = take_entry(connection);
	connection->last = connection->refused = true;
	if (!entry) {
		resp_break_off(connection);
		return;
	}
	resp_count(&connection->server->counters.bad, 1);
	entry->fault = entry->ends = true;
	resp_call_done(&entry->call);
}

static void process(struct resp_connection *connection)
{
	const struct resp_server_limits *limits = &connection->server->options.limits;
	while (!connection->last && connection->in_at < connection->in_len) {
		if (unlikely(must_pause(connection) || is_crowded(connection))) {
			connection->paused = true;
			return;
		}
		char *bytes = connection->input->bytes + connection->in_at;
		enum resp_step step = resp_parse(&connection->parser, bytes,
		                                 connection->in_len - connection->in_at,
		                                 connection->client.trusted ? &limits->known
		                                                            : &limits->stranger);
		if (likely(step == RESP_COMMAND))
			handle_command(connection, bytes);
		else if (step == RESP_MORE)
			return;
		else if (step == RESP_NOTHING)
			connection->in_at += connection->parser.used;
		else if (step == RESP_BROKEN)
			refuse_input(connection);
		else
			resp_break_off(connection);
	}
}

/* ---- reading ---- */

/* After so many reads, the last of which said whether there is more. */
static void read_on(struct resp_connection *connection, int reads, bool more)
{
	for (int i = reads; more && !connection->last && !connection->eof; i++) {
		if (connection->paused || i == READS_PER_ROUND) {
			connection->read_due = true;
			break;
		}
		more = resp_fill(connection);
		process(connection);
	}
	if (connection->read_due && !connection->paused)
		resp_mark_dirty(connection);
	if (!connection->stalled && connection->server->options.limits.idle_ms > 0)
		set_deadline(connection);
}

/* What comes after the end is thrown away for a while: to close at once could make the
 * kernel reset the connection, and the peer lose its last reply. */
static void linger(struct resp_connection *connection)
{
	for (;;) {
		ssize_t n = recv(connection->handler.fd, NULL, RESP_LINGER_BYTES, MSG_TRUNC);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		connection->lingered += n > 0 ? (uint32_t)n : 0;
		if (n <= 0 || connection->lingered >= RESP_LINGER_BYTES)
			break;
	}
	resp_connection_close(connection);
}

static void begin_linger(struct resp_connection *connection)
{
	struct resp_server *server = connection->server;
	if (connection->eof || shutdown(connection->handler.fd, SHUT_WR) ||
	    resp_connection_register(connection)) {
		resp_connection_close(connection);
		return;
	}
	connection->lingers = true;
	wheel_set(&server->wheel, &connection->timeout, loop_now_ms(server->loop) + RESP_LINGER_MS);
	linger(connection);
}

void resp_connection_read(struct resp_connection *connection)
{
	if (connection->lingers) {
		linger(connection);
		return;
	}
	if (connection->last)
		connection->refused = true; /* something comes that nobody will read */
	connection->read_due = false;
	read_on(connection, 0, true);
}

void resp_connection_received(struct resp_connection *connection, bool more)
{
	process(connection);
	read_on(connection, 1, more);
}

static bool may_receive(const struct resp_connection *connection)
{
	return !connection->lingers && !connection->last && !connection->eof && !connection->paused;
}

static void ready(struct loop_handler *handler, uint32_t events)
{
	struct resp_connection *connection = container_of(handler, struct resp_connection, handler);
	if (events & LOOP_HANGUP)
		connection->hangup = true;
	if ((events & LOOP_WRITE) && connection->stalled) {
		connection->stalled = false;
		resp_mark_dirty(connection);
	}
	if (!(events & LOOP_READ))
		return;
	/* With others if it can be. */
	if (connection->server->batch && !connection->tls && may_receive(connection)) {
		connection->read_due = false;
		resp_receive_together(connection);
	} else {
		resp_connection_read(connection);
	}
}

/* ---- replies ---- */

static void write_fault(struct resp_connection *connection, struct buf *out)
{
	char problem[RESP_PROBLEM_MAX], text[RESP_PROBLEM_MAX + 20];
	resp_parser_problem(&connection->parser, problem);
	int len = snprintf(text, sizeof(text), "Protocol error: %s", problem);
	resp_write_error(out, RESP_ERR, span_of(text, (size_t)len));
}

/* Those whose turn has come; false: there are none, or nobody to read them. */
bool resp_connection_reply(struct resp_connection *connection, uint64_t now_ns)
{
	struct resp_server *server = connection->server;
	struct buf *out = &server->replies;
	struct resp_entry *entry;
	uint64_t arrived_ns = 0, count = 0;
	bool any = connection->first && connection->first->done;
	buf_clear(out);
	while ((entry = connection->first) && entry->done) {
		if (unlikely(entry->call.arrived_ns != arrived_ns) && count > 0) {
			histogram_record_n(server->reply_us, (now_ns - arrived_ns) / 1000, count);
			count = 0;
		}
		arrived_ns = entry->call.arrived_ns;
		count++;
		if (unlikely(entry->fault))
			write_fault(connection, out);
		else
			server->options.reply(&entry->call, out);
		pop_first(connection);
	}
	if (count > 0)
		histogram_record_n(server->reply_us, (now_ns - arrived_ns) / 1000, count);
	if (connection->handler.fd < 0 || connection->broken)
		return false;
	if (out->failed || (out->len > 0 && outgoing_append(&server->pool, &connection->out,
	                                                    out->ptr, out->len) != 0))
		connection->broken = true;
	return any;
}

/* Goes on where commands were left. Calls that come of it missed this round's earlier
 * hooks, so the next round must not wait. */
static void resume(struct resp_connection *connection)
{
	connection->paused = false;
	loop_again(connection->server->loop);
	process(connection);
	if (connection->read_due && !connection->paused)
		resp_connection_read(connection);
}

/* An idle connection holds no memory. */
static void rest(struct resp_connection *connection)
{
	if (connection->input && connection->in_at == connection->in_len && !connection->first) {
		pool_drop_input(&connection->server->pool, connection->input);
		connection->input = NULL;
		connection->in_at = connection->in_len = 0;
	}
	if (connection->timeout.deadline_ms != WHEEL_NEVER || !connection->client.trusted)
		set_deadline(connection);
}

/* Everything is sent; what now? */
static void settle(struct resp_connection *connection)
{
	bool draining = connection->server->draining;
	if (connection->closing) {
		if (connection->refused)
			begin_linger(connection);
		else
			resp_connection_close(connection);
	} else if (draining && !connection->first) {
		resp_connection_close(connection);
	} else if ((connection->paused || connection->read_due) && !must_pause(connection)) {
		resume(connection);
	} else if (connection->eof && !connection->first) {
		resp_connection_close(connection);
	} else {
		rest(connection);
	}
}

void resp_connection_flush(struct resp_connection *connection)
{
	if (connection->handler.fd < 0 || connection->lingers)
		return;
	if (resp_may_send(connection))
		resp_send(connection);
	if (connection->broken)
		resp_connection_close(connection);
	else if (!connection->stalled)
		settle(connection);
}

void resp_connection_drop_calls(struct resp_connection *connection)
{
	struct resp_server *server = connection->server;
	while (connection->first) {
		buf_clear(&server->replies);
		if (!connection->first->fault)
			server->options.reply(&connection->first->call, &server->replies);
		pop_first(connection);
	}
}
