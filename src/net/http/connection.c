/*
 * connection: see connection.h. Bytes become requests, answers become bytes; then what a
 * wire of HTTP is: its life and its time-outs.
 */
#include "net/http/connection.h"

#include <errno.h>
#include <sys/ioctl.h>

#include "base/error.h"
#include "base/mem.h"
#include "codec/ip.h"
#include "codec/json_write.h"

#define ROOM_MIN 512u           /* for a head: less is not worth a recv */
#define ROOM_STEP (64u * 1024u) /* a body's buffer grows to this at once, then doubles */

/* ---- requests in memory ---- */

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

static void request_free(struct request *request)
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

/* ---- answers ---- */

static int write_answer(struct request *request, const struct http_response *response,
                        struct outgoing *to)
{
	struct http_server *server = request->connection->server;
	const struct http1_head *head = &request->http.head;
	struct http1_answer answer = {
		.status = response->status,
		.close = request->close,
		.say_keep_alive = head->minor == 0,
		.date = server_date(server),
		.content_type = response->content_type,
		.headers = response->headers,
		.fixed = server->headers,
		.content_length = response->body.len,
		.endless = request->streams,
	};
	bool bodiless = head->method == HTTP1_HEAD || response->status == 204 ||
	                response->status == 304;
	size_t body_len = bodiless ? 0 : response->body.len;
	char *out = outgoing_reserve(&server->host.pool, to, http1_head_room(&answer) + body_len);
	if (!out)
		return -ENOMEM;
	size_t len = http1_write_head(&answer, out);
	if (body_len > 0)
		memcpy(out + len, response->body.ptr, body_len);
	to->len += len + body_len;
	return 0;
}

/* The first of the queue has written its answer (C1). */
static void pop_first(struct connection *connection)
{
	struct request *request = connection->first;
	connection->first = request->next;
	connection->waiting--;
	if (request->close)
		wire_advance(&connection->wire, WIRE_CLOSING);
	request_free(request);
}

/* Answers that were kept aside and whose turn has come. */
static void write_asides(struct connection *connection)
{
	struct pool *pool = &connection->server->host.pool;
	while (connection->first && connection->first->answered) {
		struct outgoing *aside = &connection->first->aside;
		if (connection->wire.life < WIRE_CLOSING &&
		    outgoing_append(pool, &connection->wire.out, aside->buffer->bytes, aside->len))
			wire_advance(&connection->wire, WIRE_BROKEN);
		pop_first(connection);
	}
}

static void answer_in_turn(struct request *request, const struct http_response *response)
{
	struct connection *connection = request->connection;
	if (connection->wire.life < WIRE_CLOSING &&
	    write_answer(request, response, &connection->wire.out))
		wire_advance(&connection->wire, WIRE_BROKEN);
	pop_first(connection);
	write_asides(connection);
}

static void answer_aside(struct request *request, const struct http_response *response)
{
	if (write_answer(request, response, &request->aside))
		wire_advance(&request->connection->wire, WIRE_BROKEN);
}

/* Nobody is left to read the answer. */
static void answer_nobody(struct request *request)
{
	struct connection *connection = request->connection;
	struct request **at = &connection->first;
	while (*at != request)
		at = &(*at)->next;
	*at = request->next;
	connection->waiting--;
	request_free(request);
}

void http_respond(struct http_request *http, const struct http_response *response)
{
	struct request *request = container_of(http, struct request, http);
	struct connection *connection = request->connection;
	CHECK(!request->answered);
	request->answered = true;
	request->close = response->close || !http->head.keep_alive;
	if (unlikely(connection->server->host.draining)) {
		/* No request is taken in any more; those that were are all answered. */
		wire_advance(&connection->wire, WIRE_LAST);
		request->close |= !request->next;
	}
	if (unlikely(connection->wire.handler.fd < 0))
		answer_nobody(request);
	else if (likely(connection->first == request))
		answer_in_turn(request, response);
	else
		answer_aside(request, response);
	wire_mark_dirty(&connection->wire);
}

/* ---- streams ---- */

bool http_stream_begin(struct http_request *http, const struct http_response *response)
{
	struct request *request = container_of(http, struct request, http);
	struct connection *connection = request->connection;
	if (connection->wire.handler.fd < 0 || connection->first != request || request->next ||
	    connection->wire.life >= WIRE_CLOSING)
		return false;
	request->streams = request->close = true;
	if (write_answer(request, response, &connection->wire.out)) {
		request->streams = false;
		return false;
	}
	request->answered = true;
	wire_advance(&connection->wire, WIRE_LAST); /* no more requests */
	wire_mark_dirty(&connection->wire);
	return true;
}

bool http_peer_has_ended(const struct http_request *http)
{
	const struct request *request = container_of(http, const struct request, http);
	const struct wire *wire = &request->connection->wire;

	return wire->handler.fd < 0 || wire->life == WIRE_BROKEN || wire->hangup || wire->eof;
}

int64_t http_stream_write(struct http_request *http, struct span bytes)
{
	struct request *request = container_of(http, struct request, http);
	struct connection *connection = request->connection;
	struct pool *pool = &connection->server->host.pool;
	CHECK(request->streams);
	if (connection->wire.handler.fd < 0 || connection->wire.life == WIRE_BROKEN)
		return -1;
	if (outgoing_append(pool, &connection->wire.out, bytes.ptr, bytes.len))
		return -1;
	wire_mark_dirty(&connection->wire);
	return (int64_t)outgoing_pending(&connection->wire.out);
}

void http_stream_end(struct http_request *http)
{
	struct request *request = container_of(http, struct request, http);
	struct connection *connection = request->connection;
	CHECK(request->streams);
	if (connection->wire.handler.fd < 0)
		answer_nobody(request);
	else
		pop_first(connection);
	wire_mark_dirty(&connection->wire);
}

void http_respond_problem(struct http_request *request, uint16_t status, const char *detail,
                          struct span headers)
{
	char bytes[ERROR_TEXT_MAX * 6 + 256]; /* every byte of the detail escaped */
	struct buf body = { .cap = sizeof(bytes) };
	body.ptr = bytes;
	body.room = sizeof(bytes);
	json_object_begin(&body, NULL);
	json_add_string(&body, "type", "about:blank");
	json_add_string(&body, "title", http1_reason(status));
	json_add_u64(&body, "status", status);
	json_add_string(&body, "detail", detail);
	json_object_end(&body);
	buf_append_char(&body, '\n');
	http_respond(request, &(struct http_response){
				      .status = status,
				      .content_type = SPAN("application/problem+json"),
				      .headers = headers,
				      .body = body.failed ? SPAN("{}") : buf_span(&body),
			      });
}

/* ---- room for input ---- */

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

static int make_room(struct wire *wire)
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

/* ---- bytes become requests ---- */

static void refuse(struct connection *connection, uint16_t status, const char *reason)
{
	struct request *request = connection->current;
	wire_advance(&connection->wire, WIRE_LAST);
	connection->wire.refused = true;
	connection->current = NULL;
	if (!request)
		request = take_request(connection);
	if (!request) {
		wire_advance(&connection->wire, WIRE_BROKEN);
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
		refuse(connection, 415, "the body must not have a Content-Encoding");
		return false;
	}
	if (head->content_length > connection->server->limits.body_bytes) {
		refuse(connection, 413, "the body is too large");
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
		refuse(connection, refusal.status, refusal.reason);
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
		refuse(connection, refusal.status, refusal.reason);
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
		wire_advance(&connection->wire, WIRE_LAST);
	enqueue(connection, request);
	counter_add(&server->counters.requests, 1);
	server->handle(&request->http);
}

/* The peer waits for a sign before it sends the body. It must come behind the
 * answers to earlier requests (C1), and is pointless when the body comes anyway. */
static void offer_continue(struct connection *connection)
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
		wire_advance(&connection->wire, WIRE_BROKEN);
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
	int error = connection->current ? make_room(&connection->wire) : 0;
	if (error == ERR_FULL) {
		refuse(connection, 503, "too many requests in progress; send it again");
	} else if (error) {
		wire_break_off(&connection->wire);
	} else {
		offer_continue(connection);
	}
}

static bool must_pause(const struct wire *wire)
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

static void process(struct wire *wire)
{
	struct connection *connection = connection_of(wire);
	uint32_t end;
	while (wire->life == WIRE_OPEN) {
		if (unlikely(must_pause(wire))) {
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
	if (wire->life != WIRE_OPEN && wire->input) {
		if (wire->in_at < wire->in_len)
			wire->refused = true;
		wire->in_at = wire->in_len;
	}
	trim_input(connection);
}

/* ---- the connection ---- */

static struct wire *make(struct wire_host *host, int fd, const struct sockaddr *address,
                         struct tls_session *tls)
{
	struct http_server *server = container_of(host, struct http_server, host);
	struct wire *spare = server->spare_connections;
	struct connection *connection;
	(void)fd;
	if (spare) {
		server->spare_connections = spare->next;
		connection = connection_of(spare);
	} else {
		connection = mem_alloc(sizeof(*connection));
		if (!connection)
			return NULL;
	}
	*connection = (struct connection){
		.server = server,
		.peer = { .address = socket_address_ip(address),
		          .port = socket_address_port(address),
		          .local = socket_address_is_unix(address),
		          .tls = tls },
		.phase = PHASE_HEAD,
	};
	return &connection->wire;
}

static void begun(struct wire *wire)
{
	struct http_server *server = connection_of(wire)->server;
	wire_set_timeout(wire, loop_now_ms(server->host.loop) + server->limits.head_ms);
}

static void closed(struct wire *wire)
{
	struct connection *connection = connection_of(wire);
	if (connection->current)
		request_free(connection->current);
	connection->current = NULL;
}

/* Requests at the handler live on until they are answered. */
static void release(struct wire *wire)
{
	struct connection *connection = connection_of(wire);
	struct http_server *server = connection->server;
	if (connection->first)
		return;
	wire_unlink(wire);
	connection->names = mem_free(connection->names);
	wire->next = server->spare_connections;
	server->spare_connections = wire;
}

static bool is_idle(const struct wire *wire)
{
	const struct connection *connection = connection_of_const(wire);
	return !connection->first && !connection->current && !wire->input && !wire_has_output(wire);
}

static bool is_asked(const struct wire *wire)
{
	return connection_of_const(wire)->first;
}

/* What the peer's certificate says of it, before any of its requests is seen. */
static void learn_names(struct wire *wire)
{
	struct connection *connection = connection_of(wire);
	struct http_peer *peer = &connection->peer;
	if (!tls_session_is_certified(wire->tls))
		return;
	if (tls_session_names(wire->tls, &connection->names)) {
		wire_break_off(wire);
		return;
	}
	peer->certified = true;
	peer->name_count = connection->names->count;
	peer->names = connection->names->names;
}

/* The deadline that fits to what the connection is doing. A head has one deadline
 * from its beginning: bytes do not buy time. Those of a body buy time until the next
 * judgement, and no more: nobody fills our memory and then waits. */
static void set_deadline(struct wire *wire)
{
	struct connection *connection = connection_of(wire);
	const struct http_limits *limits = &connection->server->limits;
	uint64_t now_ms = loop_now_ms(connection->server->host.loop), deadline_ms = WHEEL_NEVER;
	uint8_t phase = PHASE_WAIT;
	if (connection->current)
		phase = PHASE_BODY;
	else if (wire->in_at < wire->in_len && !wire->paused && wire->life == WIRE_OPEN)
		phase = PHASE_HEAD;
	else if (!connection->first)
		phase = connection->phase == PHASE_HEAD ? PHASE_HEAD : PHASE_IDLE;
	if (phase == connection->phase && phase != PHASE_IDLE)
		return;
	connection->phase = phase;
	if (phase == PHASE_BODY) {
		connection->body_since_ms = now_ms;
		connection->body_seen = 0;
		deadline_ms = now_ms + limits->body_grace_ms;
	} else if (phase == PHASE_HEAD) {
		deadline_ms = now_ms + limits->head_ms;
	} else if (phase == PHASE_IDLE) {
		deadline_ms = now_ms + limits->idle_ms;
	}
	wire_set_timeout(wire, deadline_ms);
}

/* All is sent. */
static void rest(struct wire *wire)
{
	offer_continue(connection_of(wire));
	set_deadline(wire);
}

static void stalled(struct wire *wire)
{
	connection_of(wire)->phase = PHASE_SEND;
}

/* Judges what came since the last time; the next time counts from here. */
static bool body_is_slow(struct connection *connection, uint64_t now_ms)
{
	uint32_t seen = connection->wire.in_len - connection->wire.in_at - connection->head_len;
	uint64_t bytes = seen > connection->body_seen ? seen - connection->body_seen : 0;
	uint64_t passed_ms = now_ms - connection->body_since_ms;
	connection->body_seen = seen;
	connection->body_since_ms = now_ms;
	return bytes < passed_ms * connection->server->limits.body_rate / 1000;
}

static void expired(struct wire *wire)
{
	struct connection *connection = connection_of(wire);
	struct http_server *server = connection->server;
	uint64_t now_ms = loop_now_ms(server->host.loop);
	if (wire->life == WIRE_LINGERING) {
		wire_close(wire);
		return;
	}
	if (connection->phase == PHASE_BODY && !body_is_slow(connection, now_ms)) {
		wire_set_timeout(wire, now_ms + server->limits.body_grace_ms);
		return;
	}
	if (connection->phase != PHASE_IDLE)
		counter_add(&server->counters.wires.timeouts, 1);
	/* Who has sent nothing has asked nothing, and gets no answer. */
	if (connection->phase == PHASE_BODY || (connection->phase == PHASE_HEAD && wire->input))
		refuse(connection, 408, "the request took too long to arrive");
	else
		wire_close(wire);
}

const struct wire_kind connection_kind = {
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
	.greeted = learn_names,
	.stalled = stalled,
	.closed = closed,
};
