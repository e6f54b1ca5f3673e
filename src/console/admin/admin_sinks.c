/* admin_sinks: sinks, sources and counts. See admin.h. */
#include "base/mem.h"
#include "codec/json_write.h"
#include "console/admin/admin.h"

#define ANSWER_BYTES_MAX (1u << 20)

static void put_error(struct buf *out, const struct lane_view *view)
{
	if (view->error_at_ms == 0)
		return;
	json_object_begin(out, "last_error");
	json_add_time(out, "time", view->error_at_ms);
	if (view->error_status > 0)
		json_add_u64(out, "status", view->error_status);
	json_add_text(out, "text", span_of(view->error, view->error_len));
	json_object_end(out);
}

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
	put_error(out, view);
	json_object_end(out);
}

void admin_list_sinks(struct admin *admin, struct http_request *request, struct span part)
{
	struct buf out = { .cap = ANSWER_BYTES_MAX };
	struct lane_view view;
	(void)part;
	json_object_begin(&out, NULL);
	json_array_begin(&out, "sinks");
	for (uint32_t i = 0; i < deliver_lane_count(admin->options.console->deliver); i++) {
		deliver_view(admin->options.console->deliver, i, &view);
		put_sink(&out, &view);
	}
	json_array_end(&out);
	json_object_end(&out);
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
	json_object_begin(&out, NULL);
	json_array_begin(&out, "sources");
	for (uint32_t i = 0; i < admin->view.window_count; i++) {
		const struct advice_question *source = &admin->view.windows[i];
		const struct source_count *count = find_count(counts, source->source);
		json_object_begin(&out, NULL);
		json_add_text(&out, "source", source->source);
		json_add_u64(&out, "window_ms", source->window_ms);
		if (count)
			put_source(&out, counts, count);
		json_object_end(&out);
	}
	json_array_end(&out);
	json_object_end(&out);
	admin_respond(request, &out);
}

static void put_tickets(struct buf *out, const struct store_stats *stats)
{
	json_object_begin(out, "tickets");
	json_add_u64(out, "open", stats->open_tickets);
	json_add_u64(out, "due", stats->due_tickets);
	json_add_u64(out, "held", stats->held_tickets);
	json_add_u64(out, "parked", stats->parked_tickets);
	json_add_u64(out, "dead", stats->dead_tickets);
	json_object_end(out);
}

void admin_show_stats(struct admin *admin, struct http_request *request, struct span part)
{
	struct buf out = { .cap = ANSWER_BYTES_MAX };
	const struct console *console = admin->options.console;
	struct store_stats stats;
	(void)part;
	store_stats(console->store, &stats);
	json_object_begin(&out, NULL);
	json_add_string(&out, "version", console->version);
	json_add_time(&out, "started", console->started_ms);
	put_tickets(&out, &stats);
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
	admin_respond(request, &out);
}
