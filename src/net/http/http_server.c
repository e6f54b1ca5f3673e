/*
 * http_server: see http_server.h. Requests in memory, answers, input, connections, then the
 * server.
 *
 * Invariants:
 *  C1 Requests wait in a queue, in the order they arrived; only the first may
 *     write to `out`, the others keep their answer aside.
 *  C2 `current` has a head but not yet its whole body and is not in the queue.
 */
#include "net/http/http_server.h"

#include <errno.h>
#include <sys/ioctl.h>

#include "base/error.h"
#include "base/mem.h"
#include "codec/http1.h"
#include "codec/ip.h"
#include "codec/json_write.h"
#include "net/wire.h"
#include "sys/clock.h"

#define CONNECTION_OUTPUT_MAX (64u * 1024u) /* unsent bytes beyond which reading pauses */
#define ROOM_MIN 512u                       /* for a head: less is not worth a recv */
#define ROOM_STEP (64u * 1024u) /* a body's buffer grows to this at once, then doubles */
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

struct connection;

struct request {
	struct connection *connection;
	struct request *next;  /* in the queue */
	struct input *input;   /* what the spans point into; counted */
	struct outgoing aside; /* the answer, while earlier ones are missing */
	bool answered;
	bool close;   /* the connection ends behind this answer */
	bool streams; /* its answer is being written, and has no end yet */
	struct http_request http;
};

/* What the deadline of a connection is for. */
enum phase {
	PHASE_NONE = 0,
	PHASE_HEAD,
	PHASE_BODY,
	PHASE_WAIT, /* for our own answer: no deadline */
	PHASE_IDLE,
	PHASE_SEND,
};

struct connection {
	struct wire wire;
	struct http_server *server;
	struct http_peer peer;
	struct tls_names *names; /* what peer.names points into; NULL: none */

	struct http1_scan scan;
	struct request *current;
	uint32_t head_len; /* of current, with what was before its request line */
	struct http1_chunked chunked;
	uint64_t body_since_ms; /* its rate is judged from here on */
	uint32_t body_seen;     /* bytes of it that there were then */

	struct request *first, *tail;
	uint32_t waiting;

	uint8_t phase;
	bool wanted;    /* the body of `current`: it was asked for */
	bool continued; /* 100 Continue was sent or is not needed */
};

struct http_server {
	struct wire_host host;
	struct http_limits limits;
	struct http1_limits head_limits;
	void (*handle)(struct http_request *request);
	bool (*wants_body)(const struct http_request *request);
	void *user;
	size_t scratch_size;
	struct span headers; /* of every answer */

	struct wire *spare_connections;
	struct spares spare_requests;

	char date[HTTP1_DATE_LEN];
	uint64_t date_until_ns;
	struct http_counters counters;
};

static inline struct connection *connection_of(struct wire *wire)
{
	return container_of(wire, struct connection, wire);
}

static inline const struct connection *connection_of_const(const struct wire *wire)
{
	return container_of(wire, const struct connection, wire);
}

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

static void drop_requests(struct connection *connection)
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

static const char *server_date(struct http_server *server)
{
	uint64_t now_ns = loop_now_ns(server->host.loop);
	if (unlikely(now_ns >= server->date_until_ns)) {
		struct clock_reading reading = clock_read(clock_system());
		http1_format_date(reading.wall_ms / 1000, server->date);
		server->date_until_ns = now_ns + (1000 - reading.wall_ms % 1000) * 1000000u;
	}
	return server->date;
}

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

/* Then the answers behind it that were kept aside have their turn. */
static void answer_in_turn(struct request *request, const struct http_response *response)
{
	struct connection *connection = request->connection;
	struct wire *wire = &connection->wire;
	if (wire->life < WIRE_CLOSING && write_answer(request, response, &wire->out))
		wire_advance(wire, WIRE_BROKEN);
	pop_first(connection);
	while (connection->first && connection->first->answered) {
		struct outgoing *aside = &connection->first->aside;
		if (wire->life < WIRE_CLOSING &&
		    outgoing_append(&connection->server->host.pool, &wire->out,
		                    aside->buffer->bytes, aside->len))
			wire_advance(wire, WIRE_BROKEN);
		pop_first(connection);
	}
}

/* The connection is closed: the answer is dropped. */
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
	else if (write_answer(request, response, &request->aside))
		wire_advance(&connection->wire, WIRE_BROKEN);
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

/* Room for a request of `whole` bytes, of which there are `have`: grows with what has
 * arrived, not with what the peer has announced. The last recv has some room to
 * spare: a short read shows that nothing follows. */
static size_t room_for(const struct connection *connection, size_t whole, size_t have)
{
	size_t step = have * 2 > ROOM_STEP ? have * 2 : ROOM_STEP;
	whole += ROOM_MIN;
	if (whole <= step)
		return whole;
	int arrived = 0; /* bytes that wait in the kernel */
	if (ioctl(connection->wire.handler.fd, FIONREAD, &arrived) < 0 || arrived < 0)
		arrived = 0;
	if (step < have + (size_t)arrived)
		step = have + (size_t)arrived + ROOM_MIN;
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
		missing =
			have; /* its length is unknown: doubling keeps bytes from being moved again and again */
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
	/* What was read of the head cannot be trusted. */
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
	/* What http1 leaves to the server. */
	const struct http1_head *head = &connection->current->http.head;
	if (head->encoded) {
		refuse(connection, 415, "the body must not have a Content-Encoding");
		return false;
	}
	if (head->content_length > server->limits.body_bytes) {
		refuse(connection, 413, "the body is too large");
		return false;
	}
	return true;
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

/* The peer waits for 100 Continue before it sends the body. It must follow the answers to
 * earlier requests (C1), and is pointless when the body arrives anyway. */
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

/* True: the handler does not want the body. Then only the final answer is sent, what
 * arrives of the body is discarded, and this request is the last. */
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

/* Room for the next bytes is taken here and not when they arrive: so the request can be
 * rejected with an answer. */
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
	/* An input without unread bytes belongs to the requests in it. */
	if (wire->input && wire->in_at >= wire->in_len) {
		pool_drop_input(&connection->server->host.pool, wire->input);
		wire->input = NULL;
		wire->in_at = wire->in_len = 0;
	}
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

/* Reads the names in the peer's certificate, before any of its requests. */
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

/* Sets the deadline for what the connection is doing. A head has one deadline from its
 * beginning, whatever arrives. Bytes of a body extend theirs until the next judgement and
 * no further: a peer cannot fill our memory and then wait. */
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

static void expired(struct wire *wire)
{
	struct connection *connection = connection_of(wire);
	struct http_server *server = connection->server;
	uint64_t now_ms = loop_now_ms(server->host.loop);
	if (wire->life == WIRE_LINGERING) {
		wire_close(wire);
		return;
	}
	if (connection->phase == PHASE_BODY) {
		/* The rate since the last judgement; the next one counts from here. */
		uint32_t seen = wire->in_len - wire->in_at - connection->head_len;
		uint64_t bytes = seen > connection->body_seen ? seen - connection->body_seen : 0;
		uint64_t passed_ms = now_ms - connection->body_since_ms;
		connection->body_seen = seen;
		connection->body_since_ms = now_ms;
		if (bytes >= passed_ms * server->limits.body_rate / 1000) {
			wire_set_timeout(wire, now_ms + server->limits.body_grace_ms);
			return;
		}
	}
	if (connection->phase != PHASE_IDLE)
		counter_add(&server->counters.wires.timeouts, 1);
	/* A peer that has sent nothing gets no answer. */
	if (connection->phase == PHASE_BODY || (connection->phase == PHASE_HEAD && wire->input))
		refuse(connection, 408, "the request took too long to arrive");
	else
		wire_close(wire);
}

static const struct wire_kind connection_kind = {
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

/* ---- the server ---- */

static void turn_away(struct acceptor *acceptor, int fd, enum gauge_result result)
{
	struct http_server *server = container_of(acceptor, struct http_server, host.acceptor);
	bool address = result == GAUGE_ADDRESS_FULL;
	char out[768];
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
	CHECK(http1_head_room(&answer) + body.len <= sizeof(out));
	size_t len = http1_write_head(&answer, out);
	memcpy(out + len, body.ptr, body.len);
	wire_turn_away(&server->host, fd, span_of(out, len + body.len));
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

int http_server_new(const struct http_server_options *options, struct http_server **ret_server,
                    struct error_text *ret_text)
{
	CHECK(options->loop && options->gauge && options->handle && options->limits.body_rate > 0);
	struct http_server *server = mem_zalloc(1, sizeof(*server));
	if (!server)
		return error_fill(ret_text, -ENOMEM, "no memory for the HTTP server");
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

struct http_server *http_server_free(struct http_server *server)
{
	if (!server)
		return NULL;
	for (struct wire *wire = server->host.wires; wire; wire = wire->next)
		drop_requests(connection_of(wire));
	wire_host_close(&server->host);
	while (server->spare_connections) {
		struct wire *wire = server->spare_connections;
		server->spare_connections = wire->next;
		mem_free(connection_of(wire));
	}
	spares_free(&server->spare_requests);
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
