/* From answers to bytes. See connection.h. */
#include <errno.h>

#include "net/http/connection.h"

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
		connection->wire.closing = connection->wire.last = true;
	request_free(request);
}

/* Answers that were kept aside and whose turn has come. */
static void write_asides(struct connection *connection)
{
	struct pool *pool = &connection->server->host.pool;
	while (connection->first && connection->first->answered) {
		struct outgoing *aside = &connection->first->aside;
		if (!connection->wire.closing && !connection->wire.broken &&
		    outgoing_append(pool, &connection->wire.out, aside->buffer->bytes, aside->len))
			connection->wire.broken = true;
		pop_first(connection);
	}
}

static void answer_in_turn(struct request *request, const struct http_response *response)
{
	struct connection *connection = request->connection;
	if (!connection->wire.closing && !connection->wire.broken &&
	    write_answer(request, response, &connection->wire.out))
		connection->wire.broken = true;
	pop_first(connection);
	write_asides(connection);
}

static void answer_aside(struct request *request, const struct http_response *response)
{
	if (write_answer(request, response, &request->aside))
		request->connection->wire.broken = true;
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
		connection->wire.last = true;
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
	    connection->wire.closing)
		return false;
	request->streams = request->close = true;
	if (write_answer(request, response, &connection->wire.out)) {
		request->streams = false;
		return false;
	}
	request->answered = true;
	connection->wire.last = true; /* no more requests */
	wire_mark_dirty(&connection->wire);
	return true;
}

bool http_peer_has_ended(const struct http_request *http)
{
	const struct request *request = container_of(http, const struct request, http);
	const struct wire *wire = &request->connection->wire;

	return wire->handler.fd < 0 || wire->broken || wire->hangup || wire->eof;
}

int64_t http_stream_write(struct http_request *http, struct span bytes)
{
	struct request *request = container_of(http, struct request, http);
	struct connection *connection = request->connection;
	struct pool *pool = &connection->server->host.pool;
	CHECK(request->streams);
	if (connection->wire.handler.fd < 0 || connection->wire.broken)
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
	buf_append_span(&body, SPAN("{\"type\":\"about:blank\",\"title\":\""));
	buf_append_span(&body, span_str(http1_reason(status)));
	buf_printf(&body, "\",\"status\":%u,\"detail\":", (unsigned)status);
	buf_append_json(&body, span_str(detail));
	buf_append_span(&body, SPAN("}\n"));
	http_respond(request, &(struct http_response){
				      .status = status,
				      .content_type = SPAN("application/problem+json"),
				      .headers = headers,
				      .body = body.failed ? SPAN("{}") : buf_span(&body),
			      });
}
