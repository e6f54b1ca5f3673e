/*
 * admin_stream: GET /v1/stream: every decision and every attempt as they happen, as
 * server-sent events. See admin.h.
 *
 * Who reads too slowly is cut off. What the feed itself lost is told: `event: lost`.
 */
#include <inttypes.h>

#include "console/admin/admin.h"
#include "sys/feed.h"

#define PENDING_MAX (1u << 20) /* unsent bytes of one reader */
#define HEARTBEAT_MS 5000u

static void hear(struct admin *admin)
{
	if (admin->stream_count == 1)
		feed_listen(admin->options.console->feed, admin->options.wake, admin->options.user);
	else if (admin->stream_count == 0)
		feed_listen(admin->options.console->feed, NULL, NULL);
}

static void end_stream(struct admin *admin, uint32_t i)
{
	http_stream_end(admin->streams[i]);
	admin->streams[i] = admin->streams[--admin->stream_count];
	if (admin->stream_count == 0)
		hear(admin);
}

static void send_all(struct admin *admin, struct span bytes)
{
	for (uint32_t i = admin->stream_count; i-- > 0;) {
		int64_t pending = http_stream_write(admin->streams[i], bytes);
		if (pending < 0 || pending > PENDING_MAX) {
			admin->streams_cut += pending > 0;
			end_stream(admin, i);
		}
	}
}

void admin_stream_collect(struct admin *admin)
{
	char text[64];
	struct buf messages = { .cap = FEED_BYTES_MAX };
	if (admin->stream_count == 0)
		return;
	uint64_t lost = feed_take(admin->options.console->feed, &messages);
	if (messages.len > 0)
		send_all(admin, buf_span(&messages));
	if (lost > 0) {
		int len = snprintf(text, sizeof(text),
		                   "event: lost\ndata: {\"messages\":%" PRIu64 "}\n\n", lost);
		send_all(admin, span_of(text, (size_t)len));
	}
	buf_free(&messages);
}

void admin_stream_close(struct admin *admin)
{
	while (admin->stream_count > 0)
		end_stream(admin, 0);
}

/* Also how a reader that is gone is noticed. */
void admin_stream_tick(struct admin *admin)
{
	if (atomic_load(&admin->options.console->draining))
		admin_stream_close(admin);
	if (admin->heartbeat_ms > admin->now_ms + HEARTBEAT_MS)
		admin->heartbeat_ms = admin->now_ms; /* the clock was set */
	if (admin->stream_count == 0 || admin->now_ms < admin->heartbeat_ms)
		return;
	admin->heartbeat_ms = admin->now_ms + HEARTBEAT_MS;
	send_all(admin, SPAN(": still here\n\n"));
}

void admin_open_stream(struct admin *admin, struct http_request *request, struct span part)
{
	(void)part;
	struct http_response begin = { .status = 200,
		                       .content_type = SPAN("text/event-stream"),
		                       .body = SPAN(": stile\n\n") };
	if (request->head.method == HTTP1_HEAD) {
		http_respond(request, &(struct http_response){ .status = 200,
		                                               .content_type = begin.content_type,
		                                               .close = true });
	} else if (admin->stream_count == ADMIN_STREAMS_MAX) {
		admin_respond_busy(request, "too many streams are open");
	} else if (!http_stream_begin(request, &begin)) {
		admin_respond_busy(
			request,
			"a stream needs a connection of its own: do not pipeline requests");
	} else {
		admin->streams[admin->stream_count++] = request;
		hear(admin);
	}
}
