/* From bytes to requests. See connection.h. */
#include <errno.h>
#include <sys/ioctl.h>

#include "base/error.h"
#include "base/mem.h"
#include "net/http/connection.h"

#define ROOM_MIN 512u           /* for a head: less is not worth a recv */
#define ROOM_STEP (64u * 1024u) /* a body's buffer grows to this at once, then doubles */

static struct request *take_request(struct connection *connection)
{
	struct http_server *server = connection->server;
	struct request *request = spares_take(&server->spare_requests);
	if (unlikely(!request)) {
		size_t size = (sizeof(*request) + 15) / 16 * 16;
		request = mem_aligned(64, (size + server->scratch_size + 127) / 128 * 128);
		if (!request)
			return NULL;
		request->http.scratch = (char *)request + size;
		request->http.user = server->user;
	}
	request->connection = connection;
	request->http.peer = &connection->peer;
	request->next = NULL;
	request->input = NULL;
	request->aside = (struct outgoing){ 0 };
	request->answered = false;
	request->close = false;
	request->streams = false;
	return request;
}

void request_free(struct request *request)
{
	struct http_server *server = request->connection->server;
	pool_drop_input(&server->host.pool, request->input);
	outgoing_clear(&server->host.pool, &request->aside);
	if (unlikely(!spares_put(&server->spare_requests, request)))
		mem_free(request);
}

void connection_drop_requests(struct connection *connection)
{
	while (connection->first) {
		struct request *request = connection->first;
		connection->first = request->next;
		request_free(request);
	}
	connection->waiting = 0;
}

static void enqueue(struct connection *connection, struct request *request)
{
	if (connection->first)
		connection->tail->next = request;
	else
		connection->first = request;
	connection->tail = request;
	connection->waiting++;
}

void connection_refuse(struct connection *connection, uint16_t status, const char *reason)
{
	struct request *request = connection->current;
	connection->wire.last = true;
	connection->wire.refused = true;
	connection->current = NULL;
	if (!request)
		request = take_request(connection);
	if (!request) {
		connection->wire.broken = true;
		wire_mark_dirty(&connection->wire);
		return;
	}
	/* What was read of the head is not to be relied on. */
	request->http.head.method = HTTP1_OTHER;
	request->http.head.keep_alive = false;
	request->http.head.minor = 1;
	enqueue(connection, request);
	counter_add(status == 503 ? &connection->server->counters.crowded
	                          : &connection->server->counters.bad,
	            1);
	http_respond_problem(&request->http, status, reason,
	                     status == 503 ? SPAN("Retry-After: 1\r\n") : SPAN_EMPTY);
}

/* What http1 has no opinion on. */
static bool check_head(struct connection *connection, const struct http1_head *head)
{
	if (head->encoded) {
		connection_refuse(connection, 415, "the body must not have a Content-Encoding");
		return false;
	}
	if (head->content_length > connection->server->limits.body_bytes) {
		connection_refuse(connection, 413, "the body is too large");
		return false;
	}
	return true;
}

/* True when `current` has its head. */
static bool begin_request(struct connection *connection)
{
	struct http_server *server = connection->server;
	struct http1_refusal refusal;
	size_t len;
	if (connection->wire.in_at == connection->wire.in_len)
		return false;
	struct span input = span_of(connection->wire.input->bytes + connection->wire.in_at,
	                            connection->wire.in_len - connection->wire.in_at);
	enum http1_status status = http1_scan_head(&connection->scan, input, &server->head_limits,
	                                           &len, &refusal);
	if (status == HTTP1_MORE)
		return false;
	if (status == HTTP1_DONE) {
		struct request *request = connection->current = take_request(connection);
		if (!request) {
			wire_break_off(&connection->wire);
			return false;
		}
		uint32_t start = connection->scan.start;
		status = http1_parse_head(span_of(input.ptr + start, len - start),
		                          &server->head_limits, &request->http.head, &refusal);
		connection->head_len = (uint32_t)len;
	}
	if (status == HTTP1_BAD) {
		connection_refuse(connection, refusal.status, refusal.reason);
		return false;
	}
	connection->continued = connection->wanted = false;
	connection->current->http.unread = false;
	connection->chunked = (struct http1_chunked){ .limit = server->limits.body_bytes };
	return check_head(connection, &connection->current->http.head);
}

/* Decodes in place: the decoded bytes close up behind the head, so that what
 * comes next is received right behind them. */
static bool decode_chunked(struct connection *connection, uint32_t *ret_end)
{
	struct http1_chunked *chunked = &connection->chunked;
	struct http1_refusal refusal;
	size_t taken, given;
	uint32_t at = connection->wire.in_at + connection->head_len + (uint32_t)chunked->decoded;
	char *bytes = connection->wire.input->bytes;
	enum http1_status status =
		http1_chunked_decode(chunked, span_of(bytes + at, connection->wire.in_len - at),
	                             bytes + at, &taken, &given, &refusal);
	if (status == HTTP1_DONE) {
		*ret_end = at + (uint32_t)taken;
		return true;
	}
	connection->wire.in_len = at + (uint32_t)given;
	if (status == HTTP1_BAD)
		connection_refuse(connection, refusal.status, refusal.reason);
	return false;
}

/* True when the body of `current` is whole; *ret_end is then where the next
 * request starts. */
static bool finish_body(struct connection *connection, uint32_t *ret_end)
{
	struct request *request = connection->current;
	uint32_t start = connection->wire.in_at + connection->head_len;
	if (request->http.head.chunked) {
		if (!decode_chunked(connection, ret_end))
			return false;
		request->http.body = span_of(connection->wire.input->bytes + start,
		                             (size_t)connection->chunked.decoded);
		return true;
	}
	size_t length = (size_t)request->http.head.content_length;
	if (connection->wire.in_len - start < length)
		return false;
	request->http.body = span_of(connection->wire.input->bytes + start, length);
	*ret_end = start + (uint32_t)length;
	return true;
}

static void hand_over(struct connection *connection, uint32_t end)
{
	struct http_server *server = connection->server;
	struct request *request = connection->current;
	connection->current = NULL;
	connection->scan = (struct http1_scan){ 0 };
	connection->wire.in_at = end;
	connection->phase = PHASE_NONE;
	request->input = connection->wire.input;
	request->input->refs++;
	request->http.arrived_ns = loop_now_ns(server->host.loop);
	if (!request->http.head.keep_alive)
		connection->wire.last = true;
	enqueue(connection, request);
	counter_add(&server->counters.requests, 1);
	server->handle(&request->http);
}

/* The peer waits for a sign before it sends the body. It must come behind the
 * answers to earlier requests (C1), and is pointless when the body comes anyway. */
void connection_offer_continue(struct connection *connection)
{
	static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct request *request = connection->current;
	if (!request || !request->http.head.expect_continue || connection->continued)
		return;
	if (connection->wire.in_len > connection->wire.in_at + connection->head_len) {
		connection->continued = true;
		return;
	}
	if (connection->first)
		return;
	connection->continued = true;
	if (outgoing_append(&connection->server->host.pool, &connection->wire.out, interim,
	                    sizeof(interim) - 1))
		connection->wire.broken = true;
	wire_mark_dirty(&connection->wire);
}

/* Is it a body that nobody wants? Then nothing is said but the final answer, and what
 * comes of the body is thrown away: this request is the last. */
static bool refuse_body(struct connection *connection)
{
	struct http_server *server = connection->server;
	struct request *request = connection->current;
	uint32_t end = connection->wire.in_at + connection->head_len;
	if (!request || connection->wanted || !server->wants_body)
		return false;
	request->http.body = SPAN_EMPTY;
	connection->wanted = server->wants_body(&request->http);
	if (connection->wanted)
		return false;
	request->http.unread = true;
	request->http.head.keep_alive = false;
	connection->wire.refused = true;
	hand_over(connection, end);
	return true;
}

/* The room for what comes next is found here and not when it comes: so it can be
 * refused with an answer. */
static void await_body(struct connection *connection)
{
	int error = connection->current ? connection_make_room(&connection->wire) : 0;
	if (error == ERR_FULL) {
		connection_refuse(connection, 503,
		                  "there are too many requests on their way; send it again");
	} else if (error) {
		wire_break_off(&connection->wire);
	} else {
		connection_offer_continue(connection);
	}
}

bool connection_must_pause(const struct wire *wire)
{
	const struct connection *connection = connection_of_const(wire);
	return wire->stalled || connection->waiting >= connection->server->limits.pipeline ||
	       outgoing_pending(&wire->out) >= CONNECTION_OUTPUT_MAX;
}

/* An input without unread bytes belongs to the requests in it. */
static void trim_input(struct connection *connection)
{
	if (!connection->wire.input || connection->wire.in_at < connection->wire.in_len)
		return;
	pool_drop_input(&connection->server->host.pool, connection->wire.input);
	connection->wire.input = NULL;
	connection->wire.in_at = connection->wire.in_len = 0;
}

void connection_process(struct wire *wire)
{
	struct connection *connection = connection_of(wire);
	uint32_t end;
	while (!wire->last) {
		if (unlikely(connection_must_pause(wire))) {
			wire->paused = true;
			break;
		}
		if (!connection->current && !begin_request(connection))
			break;
		if (!finish_body(connection, &end)) {
			if (!refuse_body(connection))
				await_body(connection);
			break;
		}
		hand_over(connection, end);
	}
	if (wire->last && wire->input) {
		if (wire->in_at < wire->in_len)
			wire->refused = true;
		wire->in_at = wire->in_len;
	}
	trim_input(connection);
}

/* Bytes that the request on its way still needs, as far as is known. */
static size_t missing_bytes(const struct connection *connection)
{
	if (!connection->current || connection->current->http.head.chunked)
		return ROOM_MIN;
	size_t whole = connection->head_len + (size_t)connection->current->http.head.content_length;
	size_t have = connection->wire.in_len - connection->wire.in_at;
	return whole > have ? whole - have : ROOM_MIN;
}

/* Bytes that have arrived and wait in the kernel. */
static size_t arrived_bytes(const struct connection *connection)
{
	int count = 0;
	if (ioctl(connection->wire.handler.fd, FIONREAD, &count) < 0 || count < 0)
		return 0;
	return (size_t)count;
}

/* Room for a request of `whole` bytes, of which there are `have`: grows with what has
 * arrived, not with what the peer has announced. The last recv has some room to spare:
 * so it tells that nothing comes behind. */
static size_t room_for(const struct connection *connection, size_t whole, size_t have)
{
	size_t step = have * 2 > ROOM_STEP ? have * 2 : ROOM_STEP;
	whole += ROOM_MIN;
	if (whole <= step)
		return whole;
	size_t there = have + arrived_bytes(connection);
	if (step < there)
		step = there + ROOM_MIN;
	return whole < step ? whole : step;
}

/* C3: the unfinished request goes to a larger input. */
static int move_input(struct connection *connection, size_t missing)
{
	struct pool *pool = &connection->server->host.pool;
	struct input *old = connection->wire.input;
	size_t have = connection->wire.in_len - connection->wire.in_at;
	bool chunked = connection->current && connection->current->http.head.chunked;
	if (chunked && missing < have)
		missing = have; /* nobody knows how much comes: no byte is moved again and again */
	size_t room = room_for(connection, have + missing, have);
	if (!connection->current && have + missing <= POOL_INPUT_ROOM)
		room = POOL_INPUT_ROOM;
	struct input *larger;
	int error = pool_take_input(pool, room, &larger);
	if (error)
		return error;
	const char *from = old->bytes + connection->wire.in_at;
	memcpy(larger->bytes, from, have);
	if (connection->current)
		http1_head_rebase(&connection->current->http.head, from, larger->bytes);
	pool_drop_input(pool, old);
	connection->wire.input = larger;
	connection->wire.in_at = 0;
	connection->wire.in_len = (uint32_t)have;
	return 0;
}

int connection_make_room(struct wire *wire)
{
	struct connection *connection = connection_of(wire);
	if (likely(!wire->input)) {
		wire->in_at = wire->in_len = 0;
		return pool_take_input(&connection->server->host.pool, POOL_INPUT_ROOM,
		                       &wire->input);
	}
	size_t room = wire->input->room - wire->in_len;
	size_t missing = missing_bytes(connection);
	if (room >= missing || room >= ROOM_STEP)
		return 0;
	return move_input(connection, missing);
}
