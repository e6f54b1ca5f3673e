/* admin_sinks: sinks, sources and counts. See admin.h. */
#include <inttypes.h>

#include "base/mem.h"
#include "base/text.h"
#include "console/admin/admin.h"

#define ANSWER_BYTES_MAX (1u << 20)

static void put_number(struct buf *out, const char *name, uint64_t value)
{
	buf_printf(out, "\"%s\":%" PRIu64 ",", name, value);
}

static void put_error(struct buf *out, const struct lane_view *view)
{
	if (view->error_at_ms == 0)
		return;
	buf_append_span(out, SPAN("\"last_error\":{"));
	admin_put_time(out, "time", view->error_at_ms);
	if (view->error_status > 0)
		put_number(out, "status", view->error_status);
	admin_put_text(out, "text", span_of(view->error, view->error_len));
	admin_close_object(out);
	buf_append_char(out, ',');
}

static void put_sink(struct buf *out, const struct lane_view *view)
{
	buf_append_char(out, '{');
	admin_put_text(out, "sink", span_str(view->name));
	admin_put_text(out, "state", span_str(lane_state_name(view->state)));
	put_number(out, "waiting", view->waiting);
	put_number(out, "in_flight", view->in_flight);
	put_number(out, "limit", view->limit);
	put_number(out, "latency_us", view->latency_us);
	admin_put_text(out, "breaker", span_str(breaker_state_name(view->breaker)));
	buf_append_span(out, SPAN("\"outcomes\":{"));
	put_number(out, "done", view->outcomes[OUTCOME_DONE]);
	put_number(out, "dead", view->outcomes[OUTCOME_DEAD]);
	put_number(out, "unknown", view->outcomes[OUTCOME_UNKNOWN]);
	put_number(out, "failed", view->failed);
	admin_close_object(out);
	buf_append_char(out, ',');
	put_number(out, "disabled", view->disabled);
	put_number(out, "unrecorded", view->unrecorded);
	if (view->oldest_ms > 0)
		admin_put_time(out, "oldest", view->oldest_ms);
	put_error(out, view);
	admin_close_object(out);
}

void admin_list_sinks(struct admin *admin, struct http_request *request, struct span part)
{
	struct buf out = { .cap = ANSWER_BYTES_MAX };
	struct lane_view view;
	(void)part;
	buf_append_span(&out, SPAN("{\"sinks\":["));
	for (uint32_t i = 0; i < deliver_lane_count(admin->options.console->deliver); i++) {
		deliver_view(admin->options.console->deliver, i, &view);
		buf_append_span(&out, i > 0 ? SPAN(",") : SPAN_EMPTY);
		put_sink(&out, &view);
	}
	buf_append_span(&out, SPAN("]}\n"));
	admin_respond(request, &out);
}

/* The lane of that name, or -ENOENT, and then it is answered. */
static int find_sink(struct admin *admin, struct http_request *request, struct span name,
                     struct lane_view *ret_view)
{
	int lane = deliver_find(admin->options.console->deliver, name);
	if (lane >= 0) {
		deliver_view(admin->options.console->deliver, (uint32_t)lane, ret_view);
		return lane;
	}
	http_respond_problem(request, 404,
	                     "there is no sink of this name; GET /v1/sinks lists them", SPAN_EMPTY);
	return -ENOENT;
}

void admin_show_sink(struct admin *admin, struct http_request *request, struct span part)
{
	struct buf out = { .cap = ANSWER_BYTES_MAX };
	struct lane_view view;
	if (find_sink(admin, request, part, &view) < 0)
		return;
	put_sink(&out, &view);
	buf_append_char(&out, '\n');
	admin_respond(request, &out);
}

/* ---- pause and resume ---- */

struct sink_act {
	struct admin_command command;
	struct http_request *request;
	uint32_t lane;
};

static void told(struct admin_command *command)
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
		buf_append_char(&out, '\n');
		admin_respond(act->request, &out);
	}
	mem_free(act);
}

static void tell(struct admin *admin, struct http_request *request, struct span name,
                 enum deliver_command_kind kind)
{
	struct lane_view view;
	int lane = find_sink(admin, request, name, &view);
	if (lane < 0)
		return;
	struct sink_act *act = mem_zalloc(1, sizeof(*act));
	if (!act) {
		admin_respond_busy(request, "no memory for this now");
		return;
	}
	act->request = request;
	act->lane = (uint32_t)lane;
	act->command = (struct admin_command){ .command = { .kind = kind }, .done = told };
	admin_command_post(admin, act->lane, &act->command);
}

void admin_pause_sink(struct admin *admin, struct http_request *request, struct span part)
{
	tell(admin, request, part, DELIVER_PAUSE);
}

void admin_resume_sink(struct admin *admin, struct http_request *request, struct span part)
{
	tell(admin, request, part, DELIVER_RESUME);
}

/* ---- sources and counts ---- */

static void put_source(struct buf *out, const struct source_counts *counts,
                       const struct source_count *count)
{
	uint64_t refused = 0, unauthorized = 0, overload = 0, unrouted = 0;
	buf_append_span(out, SPAN("\"verdicts\":{"));
	for (int verdict = VERDICT_NEW; verdict < VERDICT_COUNT; verdict++) {
		uint64_t sum = 0;
		for (uint32_t i = 0; i < counts->thread_count; i++)
			sum += meter_read(&count->meters[i].verdicts[verdict]);
		put_number(out, verdict_name((enum verdict)verdict), sum);
	}
	admin_close_object(out);
	buf_append_char(out, ',');
	for (uint32_t i = 0; i < counts->thread_count; i++) {
		refused += meter_read(&count->meters[i].refused);
		unauthorized += meter_read(&count->meters[i].unauthorized);
		overload += meter_read(&count->meters[i].overload);
		unrouted += meter_read(&count->meters[i].unrouted);
	}
	put_number(out, "refused", refused);
	put_number(out, "unauthorized", unauthorized);
	put_number(out, "overload", overload);
	put_number(out, "unrouted", unrouted);
}

static const struct source_count *find_count(const struct source_counts *counts, struct span name)
{
	const struct source_count *count = atomic_load(&counts->first);
	while (count && !span_eq(count->name, name))
		count = atomic_load(&count->next);
	return count;
}

void admin_list_sources(struct admin *admin, struct http_request *request, struct span part)
{
	struct buf out = { .cap = ANSWER_BYTES_MAX };
	const struct source_counts *counts = admin->options.console->counts;
	(void)part;
	buf_append_span(&out, SPAN("{\"sources\":["));
	for (uint32_t i = 0; i < admin->view.window_count; i++) {
		const struct advice_question *source = &admin->view.windows[i];
		const struct source_count *count = find_count(counts, source->source);
		buf_append_span(&out, i > 0 ? SPAN(",{") : SPAN("{"));
		admin_put_text(&out, "source", source->source);
		put_number(&out, "window_ms", source->window_ms);
		if (count)
			put_source(&out, counts, count);
		admin_close_object(&out);
	}
	buf_append_span(&out, SPAN("]}\n"));
	admin_respond(request, &out);
}

static void put_tickets(struct buf *out, const struct store_stats *stats)
{
	buf_append_span(out, SPAN("\"tickets\":{"));
	put_number(out, "open", stats->open_tickets);
	put_number(out, "due", stats->due_tickets);
	put_number(out, "held", stats->held_tickets);
	put_number(out, "parked", stats->parked_tickets);
	put_number(out, "dead", stats->dead_tickets);
	admin_close_object(out);
	buf_append_char(out, ',');
}

void admin_show_stats(struct admin *admin, struct http_request *request, struct span part)
{
	struct buf out = { .cap = ANSWER_BYTES_MAX };
	const struct console *console = admin->options.console;
	struct store_stats stats;
	(void)part;
	store_stats(console->store, &stats);
	buf_append_char(&out, '{');
	admin_put_text(&out, "version", span_str(console->version));
	admin_put_time(&out, "started", console->started_ms);
	put_tickets(&out, &stats);
	put_number(&out, "claims", stats.live_claims);
	put_number(&out, "entities", stats.live_entities);
	put_number(&out, "waits", stats.waits);
	put_number(&out, "commits", stats.commits);
	put_number(&out, "journal_bytes", stats.journal_bytes);
	put_number(&out, "segments", stats.segments);
	put_number(&out, "clock_held_ms", stats.clock_held_ms);
	put_number(&out, "io_errors", stats.io_errors);
	put_number(&out, "spooled", stats.spooled_events);
	buf_printf(&out, "\"away\":%s,", stats.away ? "true" : "false");
	buf_printf(&out, "\"writable\":%s,", stats.writable ? "true" : "false");
	admin_close_object(&out);
	buf_append_char(&out, '\n');
	admin_respond(request, &out);
}
