/* admin_sinks: sinks, sources, statistics, the stream. See admin_private.h. */
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "codec/json_write.h"
#include "console/admin/admin_private.h"
#include "sys/feed.h"

#define ANSWER_BYTES_MAX (1u << 20)

static void put_sink(struct buf *out, const struct lane_view *view)
{
	json_object_begin(out, NULL);
	json_add_string(out, "sink", view->name);
	json_add_string(out, "state", lane_state_name(view->state));
	json_add_u64(out, "waiting", view->waiting);
	json_add_u64(out, "in_flight", view->in_flight);
	json_add_u64(out, "limit", view->limit);
	json_add_u64(out, "latency_us", view->latency_us);
	json_add_string(out, "breaker", breaker_state_name(view->breaker));
	json_object_begin(out, "outcomes");
	json_add_u64(out, "done", view->outcomes[OUTCOME_DONE]);
	json_add_u64(out, "dead", view->outcomes[OUTCOME_DEAD]);
	json_add_u64(out, "unknown", view->outcomes[OUTCOME_UNKNOWN]);
	json_add_u64(out, "failed", view->failed);
	json_object_end(out);
	json_add_u64(out, "disabled", view->disabled);
	json_add_u64(out, "unrecorded", view->unrecorded);
	if (view->oldest_ms > 0)
		json_add_time(out, "oldest", view->oldest_ms);
	if (view->error_at_ms > 0) {
		json_object_begin(out, "last_error");
		json_add_time(out, "time", view->error_at_ms);
		if (view->error_status > 0)
			json_add_u64(out, "status", view->error_status);
		json_add_text(out, "text", span_of(view->error, view->error_len));
		json_object_end(out);
	}
	json_object_end(out);
}

void admin_list_sinks(struct admin *admin, const struct admin_call *call)
{
	struct buf out = { .cap = ANSWER_BYTES_MAX };
	struct lane_view view;
	json_object_begin(&out, NULL);
	json_array_begin(&out, "sinks");
	for (uint32_t i = 0; i < deliver_lane_count(admin->options.console->deliver); i++) {
		deliver_view(admin->options.console->deliver, i, &view);
		put_sink(&out, &view);
	}
	json_array_end(&out);
	json_object_end(&out);
	admin_respond(call->request, &out);
}

/* The lane of that name; -ENOENT: there is none, and the request is answered. */
static int find_sink(struct admin *admin, const struct admin_call *call, struct lane_view *ret_view)
{
	int lane = deliver_find(admin->options.console->deliver, call->part);
	if (lane >= 0)
		deliver_view(admin->options.console->deliver, (uint32_t)lane, ret_view);
	else
		admin_respond_problem(call->request, 404, "no such sink; GET /v1/sinks lists them");
	return lane;
}

void admin_show_sink(struct admin *admin, const struct admin_call *call)
{
	struct buf out = { .cap = ANSWER_BYTES_MAX };
	struct lane_view view;
	if (find_sink(admin, call, &view) < 0)
		return;
	put_sink(&out, &view);
	admin_respond(call->request, &out);
}

struct sink_act {
	struct admin_command command;
	struct http_request *request;
	uint32_t lane;
};

static void command_done(struct admin_command *command)
{
	struct sink_act *act = container_of(command, struct sink_act, command);
	struct buf out = { .cap = ANSWER_BYTES_MAX };
	struct lane_view view;
	if (command->command.error != 0) {
		admin_respond_error(act->request, command->command.error);
	} else {
		deliver_view(command->admin->options.console->deliver, act->lane, &view);
		/* The lane shows it at the end of its round. */
		view.state = command->command.kind == DELIVER_PAUSE ? LANE_PAUSED : LANE_RUNNING;
		put_sink(&out, &view);
		admin_respond(act->request, &out);
	}
	mem_free(act);
}

void admin_command_sink(struct admin *admin, const struct admin_call *call)
{
	struct lane_view view;
	int lane = find_sink(admin, call, &view);
	struct sink_act *act = lane < 0 ? NULL : admin_alloc(call->request, sizeof(*act));
	if (!act)
		return;
	act->request = call->request;
	act->lane = (uint32_t)lane;
	act->command = (struct admin_command){
		.command = { .kind = (enum deliver_command_kind)call->what }, .done = command_done
	};
	admin_command_post(admin, act->lane, &act->command);
}

/* ---- sources and statistics ---- */

static void put_source(struct buf *out, const struct source_counts *counts,
                       const struct source_count *count)
{
	uint64_t refused = 0, unauthorized = 0, overload = 0, unrouted = 0;
	json_object_begin(out, "verdicts");
	for (int verdict = VERDICT_NEW; verdict < VERDICT_COUNT; verdict++) {
		uint64_t sum = 0;
		for (uint32_t i = 0; i < counts->thread_count; i++)
			sum += meter_read(&count->meters[i].verdicts[verdict]);
		json_add_u64(out, verdict_name((enum verdict)verdict), sum);
	}
	json_object_end(out);
	for (uint32_t i = 0; i < counts->thread_count; i++) {
		refused += meter_read(&count->meters[i].refused);
		unauthorized += meter_read(&count->meters[i].unauthorized);
		overload += meter_read(&count->meters[i].overload);
		unrouted += meter_read(&count->meters[i].unrouted);
	}
	json_add_u64(out, "refused", refused);
	json_add_u64(out, "unauthorized", unauthorized);
	json_add_u64(out, "overload", overload);
	json_add_u64(out, "unrouted", unrouted);
}

void admin_list_sources(struct admin *admin, const struct admin_call *call)
{
	struct buf out = { .cap = ANSWER_BYTES_MAX };
	const struct source_counts *counts = admin->options.console->counts;
	json_object_begin(&out, NULL);
	json_array_begin(&out, "sources");
	for (uint32_t i = 0; i < admin->view.window_count; i++) {
		const struct advice_question *source = &admin->view.windows[i];
		const struct source_count *count = atomic_load(&counts->first);
		while (count && !span_eq(count->name, source->source))
			count = atomic_load(&count->next);
		json_object_begin(&out, NULL);
		json_add_text(&out, "source", source->source);
		json_add_u64(&out, "window_ms", source->window_ms);
		if (count)
			put_source(&out, counts, count);
		json_object_end(&out);
	}
	json_array_end(&out);
	json_object_end(&out);
	admin_respond(call->request, &out);
}

void admin_show_stats(struct admin *admin, const struct admin_call *call)
{
	struct buf out = { .cap = ANSWER_BYTES_MAX };
	const struct console *console = admin->options.console;
	struct store_stats stats;
	store_stats(console->store, &stats);
	json_object_begin(&out, NULL);
	json_add_string(&out, "version", console->version);
	json_add_time(&out, "started", console->started_ms);
	json_object_begin(&out, "tickets");
	json_add_u64(&out, "open", stats.open_tickets);
	json_add_u64(&out, "due", stats.due_tickets);
	json_add_u64(&out, "held", stats.held_tickets);
	json_add_u64(&out, "parked", stats.parked_tickets);
	json_add_u64(&out, "dead", stats.dead_tickets);
	json_object_end(&out);
	json_add_u64(&out, "claims", stats.live_claims);
	json_add_u64(&out, "entities", stats.live_entities);
	json_add_u64(&out, "waits", stats.waits);
	json_add_u64(&out, "commits", stats.commits);
	json_add_u64(&out, "journal_bytes", stats.journal_bytes);
	json_add_u64(&out, "segments", stats.segments);
	json_add_u64(&out, "clock_held_ms", stats.clock_held_ms);
	json_add_u64(&out, "io_errors", stats.io_errors);
	json_add_u64(&out, "spooled", stats.spooled_events);
	json_add_bool(&out, "away", stats.away);
	json_add_bool(&out, "writable", stats.writable);
	json_object_end(&out);
	admin_respond(call->request, &out);
}

/* ---- the stream: GET /v1/stream ----
 *
 * Every decision and every attempt as it happens, as server-sent events. A reader that is
 * too slow is disconnected. `event: lost` reports messages that the feed has dropped.
 */

#define PENDING_MAX (1u << 20) /* unsent bytes of one reader */
#define HEARTBEAT_MS 5000u

/* Subscribes to the feed while there are readers. */
static void update_feed(struct admin *admin)
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
		update_feed(admin);
}

static void send_all(struct admin *admin, struct span bytes)
{
	for (uint32_t i = admin->stream_count; i-- > 0;) {
		int64_t pending = http_stream_write(admin->streams[i], bytes);
		if (pending < 0 || pending > PENDING_MAX)
			end_stream(admin, i);
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

/* A heartbeat also finds readers that are gone. */
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

void admin_open_stream(struct admin *admin, const struct admin_call *call)
{
	struct http_request *request = call->request;
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
		update_feed(admin);
	}
}
