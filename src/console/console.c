/* console: see console.h. The metrics are described in docs/metrics.md. */
#include "console/console.h"

#include <inttypes.h>

#include "base/histogram.h"
#include "base/mem.h"
#include "console/why/why.h"

#define METRICS_BYTES_MAX (4u << 20) /* a source with a long name takes two KiB */

/* Prometheus wants seconds; a microsecond is the unit inside. */
static const uint64_t time_bounds_us[] = { 50,    100,   250,    500,    1000,   2500,    5000,
	                                   10000, 25000, 100000, 250000, 500000, 1000000, 5000000 };
static const uint64_t count_bounds[] = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096 };

static void head(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void single(struct buf *out, const char *name, const char *type, const char *help,
                   uint64_t value)
{
	head(out, name, type, help);
	buf_printf(out, "%s %" PRIu64 "\n", name, value);
}

static void microseconds(struct buf *out, uint64_t us)
{
	buf_printf(out, "%" PRIu64 ".%06" PRIu64, us / 1000000, us % 1000000);
}

struct histogram_text {
	const char *name;
	const char *help;
	const uint64_t *bounds;
	size_t bound_count;
	bool seconds; /* the histogram counts microseconds */
};

static void write_histogram(struct buf *out, struct histogram_text text,
                            const struct histogram *histogram)
{
	uint64_t counts[ARRAY_LEN(time_bounds_us) + 1];
	CHECK(text.bound_count < ARRAY_LEN(counts));
	uint64_t all = histogram_cumulate(histogram, text.bounds, text.bound_count, counts);
	head(out, text.name, "histogram", text.help);
	for (size_t i = 0; i < text.bound_count; i++) {
		buf_printf(out, "%s_bucket{le=\"", text.name);
		if (text.seconds)
			microseconds(out, text.bounds[i]);
		else
			buf_append_u64(out, text.bounds[i]);
		buf_printf(out, "\"} %" PRIu64 "\n", counts[i]);
	}
	buf_printf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum ", text.name, all, text.name);
	if (text.seconds)
		microseconds(out, histogram_sum(histogram));
	else
		buf_append_u64(out, histogram_sum(histogram));
	buf_printf(out, "\n%s_count %" PRIu64 "\n", text.name, all);
}

/* A label's value: a source's name has neither quotes nor line breaks. */
static void put_source(struct buf *out, const char *metric, struct span source)
{
	buf_printf(out, "%s{source=\"%.*s\"", metric, (int)source.len, source.ptr);
}

static uint64_t sum_of(const struct source_counts *counts, const struct source_count *count,
                       size_t offset)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < counts->thread_count; i++)
		sum += meter_read((const atomic_uint_fast64_t *)(const void *)((const char *)&count
		                                                                       ->meters[i] +
		                                                               offset));
	return sum;
}

static void write_verdict_metric(const struct console *console, struct buf *out, const char *metric,
                                 const char *help, size_t offset)
{
	head(out, metric, "counter", help);
	const struct source_count *count = atomic_load(&console->counts->first);
	for (; count; count = atomic_load(&count->next)) {
		for (int verdict = VERDICT_NEW; verdict < VERDICT_COUNT; verdict++) {
			put_source(out, metric, count->name);
			buf_printf(out, ",verdict=\"%s\"} %" PRIu64 "\n",
			           verdict_name((enum verdict)verdict),
			           sum_of(console->counts, count,
			                  offset + (size_t)verdict * sizeof(atomic_uint_fast64_t)));
		}
	}
}

static void write_source_metric(const struct console *console, struct buf *out, const char *metric,
                                const char *help, size_t offset)
{
	head(out, metric, "counter", help);
	const struct source_count *count = atomic_load(&console->counts->first);
	for (; count; count = atomic_load(&count->next)) {
		put_source(out, metric, count->name);
		buf_printf(out, "} %" PRIu64 "\n", sum_of(console->counts, count, offset));
	}
}

static void write_verdicts(const struct console *console, struct buf *out)
{
	write_verdict_metric(console, out, "stile_verdicts_total", "Events decided, by verdict.",
	                     offsetof(struct source_meters, verdicts));
	write_verdict_metric(console, out, "stile_shadow_verdicts_total",
	                     "Events that passed, by what a claim in shadow would have said.",
	                     offsetof(struct source_meters, would));
	write_source_metric(
		console, out, "stile_refused_total",
		"Events from which no claim could be computed, or which were too large.",
		offsetof(struct source_meters, refused));
	write_source_metric(console, out, "stile_unauthorized_total",
	                    "Requests that did not come from whom the source trusts.",
	                    offsetof(struct source_meters, unauthorized));
	write_source_metric(console, out, "stile_overload_total",
	                    "Events answered 503 because the store had no room or a write failed.",
	                    offsetof(struct source_meters, overload));
	write_source_metric(console, out, "stile_unrouted_total",
	                    "New events that no route was for: they go nowhere.",
	                    offsetof(struct source_meters, unrouted));
}

static void write_latency(const struct console *console, struct buf *out)
{
	struct histogram *merged = mem_zalloc(1, sizeof(*merged));
	if (!merged) {
		buf_fail(out, -ENOMEM);
		return;
	}
	for (uint32_t i = 0; i < console->thread_count; i++)
		histogram_merge(merged, console->threads[i].answer_us);
	write_histogram(out,
	                (struct histogram_text){ "stile_answer_seconds",
	                                         "From a whole request to its durable answer.",
	                                         time_bounds_us, ARRAY_LEN(time_bounds_us), true },
	                merged);
	mem_free(merged);
}

static void write_store(const struct console *console, struct buf *out)
{
	struct store_stats stats;
	store_stats(console->store, &stats);
	single(out, "stile_commits_total", "counter", "Durable writes of the journal.",
	       stats.commits);
	single(out, "stile_commit_operations_total", "counter", "Operations in those writes.",
	       stats.commit_ops);
	write_histogram(out,
	                (struct histogram_text){ "stile_commit_seconds", "Time of a durable write.",
	                                         time_bounds_us, ARRAY_LEN(time_bounds_us), true },
	                console->store->commit_us);
	write_histogram(out,
	                (struct histogram_text){ "stile_commit_batch",
	                                         "Operations that shared a durable write.",
	                                         count_bounds, ARRAY_LEN(count_bounds), false },
	                console->store->commit_batch);
	single(out, "stile_live_claims", "gauge", "Claims remembered now.", stats.live_claims);
	single(out, "stile_live_entities", "gauge",
	       "Entities whose newest event is remembered now.", stats.live_entities);
	single(out, "stile_live_cells", "gauge", "Names that have a value now.", stats.live_cells);
	single(out, "stile_expired_claims_total", "counter",
	       "Claims forgotten because their window ended.", stats.expired_claims);
	single(out, "stile_index_bytes", "gauge", "Memory of the index of claims.",
	       stats.index_bytes);
	single(out, "stile_open_tickets", "gauge",
	       "Deliveries of events that are not done with: one for each sink of an event.",
	       stats.open_tickets);
	single(out, "stile_held_tickets", "gauge",
	       "Events kept aside for a conflict, until someone releases or drops them.",
	       stats.held_tickets);
	single(out, "stile_parked_tickets", "gauge",
	       "Deliveries whose outcome is unknown, until someone releases or drops them.",
	       stats.parked_tickets);
	single(out, "stile_dead_tickets", "gauge",
	       "Dead letters, kept until someone releases or drops them, or they are too old.",
	       stats.dead_tickets);
	single(out, "stile_due_tickets", "gauge", "Open tickets that wait for a delivery to begin.",
	       stats.due_tickets);
	single(out, "stile_caller_tickets", "gauge",
	       "Claims that whoever made them has not settled: open, and not to be delivered.",
	       stats.caller_tickets);
	single(out, "stile_waits", "gauge", "Senders that wait for an outcome (`ack: delivered`).",
	       stats.waits);
	single(out, "stile_journal_bytes", "gauge", "Size of the data folder's files.",
	       stats.journal_bytes);
	single(out, "stile_journal_segments", "gauge", "Segments of the journal.", stats.segments);
	single(out, "stile_written_bytes_total", "counter", "Bytes written to the journal.",
	       stats.written_bytes);
	single(out, "stile_io_errors_total", "counter",
	       "Failed reads and writes of the data folder.", stats.io_errors);
	single(out, "stile_store_writable", "gauge", "1 when events are accepted.", stats.writable);
	single(out, "stile_store_away", "gauge",
	       "1 while a shared store is not to be had: the breaker is open.", stats.away);
	single(out, "stile_store_away_total", "counter", "How often the shared store was away.",
	       stats.away_times);
	single(out, "stile_spooled_events", "gauge",
	       "Events kept on this machine until the shared store can decide about them.",
	       stats.spooled_events);
	head(out, "stile_clock_held_seconds", "gauge",
	     "How far the wall clock is ahead of what can be explained; above 0 needs a look.");
	buf_printf(out, "stile_clock_held_seconds %" PRIu64 ".%03" PRIu64 "\n",
	           stats.clock_held_ms / 1000, stats.clock_held_ms % 1000);
}

struct sink_metric {
	const char *name;
	const char *type;
	const char *help;
	uint64_t (*value)(const struct lane_view *view);
};

static uint64_t sink_state(const struct lane_view *view)
{
	return view->state;
}

static uint64_t sink_waiting(const struct lane_view *view)
{
	return view->waiting;
}

static uint64_t sink_in_flight(const struct lane_view *view)
{
	return view->in_flight;
}

static uint64_t sink_limit(const struct lane_view *view)
{
	return view->limit;
}

static uint64_t sink_breaker(const struct lane_view *view)
{
	return view->breaker;
}

static uint64_t sink_disabled(const struct lane_view *view)
{
	return view->disabled;
}

static uint64_t sink_lost(const struct lane_view *view)
{
	return view->lost;
}

static uint64_t sink_unrecorded(const struct lane_view *view)
{
	return view->unrecorded;
}

static const struct sink_metric sink_metrics[] = {
	{ "stile_sink_state", "gauge", "0 runs, 1 paused, 2 disabled, 3 ended.", sink_state },
	{ "stile_sink_waiting", "gauge", "Tickets in the sink's lane that wait for an attempt.",
	  sink_waiting },
	{ "stile_sink_in_flight", "gauge", "Attempts under way.", sink_in_flight },
	{ "stile_sink_limit", "gauge", "Attempts that may be under way at once, now.", sink_limit },
	{ "stile_sink_breaker", "gauge", "0 closed, 1 open, 2 half-open.", sink_breaker },
	{ "stile_sink_disabled_total", "counter", "How often the sink said that it is gone.",
	  sink_disabled },
	{ "stile_sink_lost_total", "counter", "Leases that ended before their outcome.",
	  sink_lost },
	{ "stile_sink_unrecorded_total", "counter", "Outcomes that the store could not keep.",
	  sink_unrecorded },
};

static void write_outcomes(const struct lane_view *view, struct buf *out)
{
	const struct {
		const char *outcome;
		uint64_t count;
	} rows[] = { { "done", view->outcomes[OUTCOME_DONE] },
		     { "dead", view->outcomes[OUTCOME_DEAD] },
		     { "unknown", view->outcomes[OUTCOME_UNKNOWN] },
		     { "failed", view->failed } };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		buf_printf(out, "stile_deliveries_total{sink=\"%s\",outcome=\"%s\"} %" PRIu64 "\n",
		           view->name, rows[i].outcome, rows[i].count);
}

/* False: another sink has its name by now, and each name stands here once. */
static bool look(const struct console *console, uint32_t lane, struct lane_view *ret_view)
{
	deliver_view(console->deliver, lane, ret_view);
	return deliver_find(console->deliver, span_str(ret_view->name)) == (int)lane;
}

static void write_deliver(const struct console *console, struct buf *out)
{
	struct lane_view view;
	uint32_t count = deliver_lane_count(console->deliver);
	head(out, "stile_deliveries_total", "counter", "Attempts to deliver, by outcome.");
	for (uint32_t i = 0; i < count; i++)
		if (look(console, i, &view))
			write_outcomes(&view, out);
	for (size_t m = 0; m < ARRAY_LEN(sink_metrics); m++) {
		const struct sink_metric *metric = &sink_metrics[m];
		head(out, metric->name, metric->type, metric->help);
		for (uint32_t i = 0; i < count; i++)
			if (look(console, i, &view))
				buf_printf(out, "%s{sink=\"%s\"} %" PRIu64 "\n", metric->name,
				           view.name, metric->value(&view));
	}
}

/* A counter of a server: of all its threads together. */
struct http_metric {
	const char *name;
	const char *type;
	const char *help;
	size_t offset;
};

#define HTTP_METRIC(name, type, field, help)                            \
	{                                                               \
		name, type, help, offsetof(struct http_counters, field) \
	}

static const struct http_metric http_metrics[] = {
	HTTP_METRIC("stile_http_connections", "gauge", wires.open, "Open connections."),
	HTTP_METRIC("stile_http_accepted_total", "counter", wires.accepted,
	            "Connections accepted."),
	HTTP_METRIC("stile_http_refused_total", "counter", wires.refused,
	            "Connections refused because there were too many."),
	HTTP_METRIC("stile_http_requests_total", "counter", requests, "Whole requests."),
	HTTP_METRIC("stile_http_bad_requests_total", "counter", bad,
	            "Requests that were refused as malformed, too large or too slow."),
	HTTP_METRIC("stile_http_crowded_total", "counter", crowded,
	            "Requests answered 503 because too many bytes of others were on their way."),
	HTTP_METRIC("stile_http_timeouts_total", "counter", wires.timeouts,
	            "Connections ended because the peer was too slow."),
	HTTP_METRIC("stile_http_received_bytes_total", "counter", wires.bytes_in,
	            "Bytes received."),
	HTTP_METRIC("stile_http_sent_bytes_total", "counter", wires.bytes_out, "Bytes sent."),
	HTTP_METRIC("stile_tls_handshakes_total", "counter", wires.tls_handshakes,
	            "TLS handshakes."),
	HTTP_METRIC("stile_tls_resumed_total", "counter", wires.tls_resumed,
	            "TLS handshakes that resumed a session."),
	HTTP_METRIC("stile_tls_failed_total", "counter", wires.tls_failed,
	            "TLS handshakes that failed."),
};

static void write_http(const struct console *console, struct buf *out)
{
	for (size_t m = 0; m < ARRAY_LEN(http_metrics); m++) {
		uint64_t sum = 0;
		for (uint32_t i = 0; i < console->thread_count; i++) {
			const char *counters = (const char *)console->threads[i].http;
			sum += meter_read(
				(const atomic_uint_fast64_t
			                 *)(const void *)(counters + http_metrics[m].offset));
		}
		single(out, http_metrics[m].name, http_metrics[m].type, http_metrics[m].help, sum);
	}
}

#define RESP_METRIC(name, type, field, help)                            \
	{                                                               \
		name, type, help, offsetof(struct resp_counters, field) \
	}

static const struct http_metric resp_metrics[] = {
	RESP_METRIC("stile_resp_connections", "gauge", wires.open,
	            "Open connections of Redis clients."),
	RESP_METRIC("stile_resp_accepted_total", "counter", wires.accepted,
	            "Connections of Redis clients accepted."),
	RESP_METRIC("stile_resp_refused_total", "counter", wires.refused,
	            "Connections of Redis clients refused because there were too many."),
	RESP_METRIC("stile_resp_commands_total", "counter", commands, "Commands of Redis clients."),
	RESP_METRIC("stile_resp_bad_total", "counter", bad,
	            "Connections ended for bytes that are no command."),
	RESP_METRIC("stile_resp_timeouts_total", "counter", wires.timeouts,
	            "Redis clients that were idle or did not read for too long."),
	RESP_METRIC("stile_resp_received_bytes_total", "counter", wires.bytes_in,
	            "Bytes received from Redis clients."),
	RESP_METRIC("stile_resp_sent_bytes_total", "counter", wires.bytes_out,
	            "Bytes sent to Redis clients."),
};

static uint64_t sum_resp(const struct console *console, size_t offset)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < console->thread_count; i++) {
		const char *counters = (const char *)console->threads[i].resp;
		sum += meter_read((const atomic_uint_fast64_t *)(const void *)(counters + offset));
	}
	return sum;
}

static void write_reply_times(const struct console *console, struct buf *out)
{
	struct histogram *merged = mem_zalloc(1, sizeof(*merged));
	if (!merged) {
		buf_fail(out, -ENOMEM);
		return;
	}
	for (uint32_t i = 0; i < console->thread_count; i++)
		histogram_merge(merged, console->threads[i].reply_us);
	write_histogram(out,
	                (struct histogram_text){ "stile_resp_reply_seconds",
	                                         "From a whole command to its durable reply.",
	                                         time_bounds_us, ARRAY_LEN(time_bounds_us), true },
	                merged);
	mem_free(merged);
}

/* Only where there is a Redis door. */
static void write_resp(const struct console *console, struct buf *out)
{
	if (console->thread_count == 0 || !console->threads[0].resp)
		return;
	for (size_t m = 0; m < ARRAY_LEN(resp_metrics); m++)
		single(out, resp_metrics[m].name, resp_metrics[m].type, resp_metrics[m].help,
		       sum_resp(console, resp_metrics[m].offset));
	head(out, "stile_resp_errors_total", "counter", "Error replies, by their first word.");
	for (int kind = 0; kind < RESP_ERROR_COUNT; kind++)
		buf_printf(out, "stile_resp_errors_total{error=\"%s\"} %" PRIu64 "\n",
		           resp_error_word((enum resp_error)kind),
		           sum_resp(console, offsetof(struct resp_counters, errors) +
		                                     (size_t)kind * sizeof(atomic_uint_fast64_t)));
	write_reply_times(console, out);
}

static void answer_metrics(struct console *console, const struct console_view *view,
                           struct http_request *request)
{
	struct buf out = { .cap = METRICS_BYTES_MAX };
	head(&out, "stile_build_info", "gauge", "Always 1; the version is in the label.");
	buf_printf(&out, "stile_build_info{version=\"%s\"} 1\n", console->version);
	head(&out, "stile_start_time_seconds", "gauge",
	     "When the process began to serve, unix time.");
	buf_printf(&out, "stile_start_time_seconds %" PRIu64 ".%03" PRIu64 "\n",
	           console->started_ms / 1000, console->started_ms % 1000);
	write_verdicts(console, &out);
	write_latency(console, &out);
	write_store(console, &out);
	write_deliver(console, &out);
	write_http(console, &out);
	write_resp(console, &out);
	struct why_context why = console_why_context(console, view);
	if (console->traces)
		why_metrics(&why, &out);
	if (out.failed)
		http_respond_problem(request, 503, "no memory for the metrics now",
		                     SPAN("Retry-After: 1\r\n"));
	else
		http_respond(request, &(struct http_response){
					      .status = 200,
					      .content_type = SPAN(
						      "text/plain; version=0.0.4; charset=utf-8"),
					      .body = buf_span(&out),
				      });
	buf_free(&out);
}

static void answer_text(struct http_request *request, uint16_t status, struct span text)
{
	http_respond(request,
	             &(struct http_response){
			     .status = status,
			     .content_type = SPAN("text/plain; charset=utf-8"),
			     .headers = status == 503 ? SPAN("Retry-After: 1\r\n") : SPAN_EMPTY,
			     .body = text,
		     });
}

static void answer_health(struct console *console, const struct console_view *view,
                          struct http_request *request)
{
	(void)console;
	(void)view;
	answer_text(request, 200, SPAN("alive\n"));
}

static void answer_ready(struct console *console, const struct console_view *view,
                         struct http_request *request)
{
	struct store_stats stats;
	(void)view;
	store_stats(console->store, &stats);
	if (atomic_load_explicit(&console->draining, memory_order_relaxed))
		answer_text(request, 503, SPAN("not ready: shutting down\n"));
	else if (!stats.writable)
		answer_text(request, 503,
		            stats.away ? SPAN("not ready: the shared store is away\n")
		                       : SPAN("not ready: the store takes no events now\n"));
	else if (stats.away)
		answer_text(request, 200,
		            SPAN("ready: the shared store is away, events are "
		                 "spooled where the source allows\n"));
	else
		answer_text(request, 200, SPAN("ready\n"));
}

static const struct {
	struct span path;
	void (*answer)(struct console *console, const struct console_view *view,
	               struct http_request *request);
} pages[] = {
	{ { "/healthz", 8 }, answer_health },
	{ { "/readyz", 7 }, answer_ready },
	{ { "/metrics", 8 }, answer_metrics },
};

bool console_handle(struct console *console, const struct console_view *view,
                    struct http_request *request)
{
	for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
		if (!span_eq(request->head.path, pages[i].path))
			continue;
		if (request->head.method != HTTP1_GET && request->head.method != HTTP1_HEAD)
			http_respond_problem(request, 405, "this page is read with GET",
			                     SPAN("Allow: GET, HEAD\r\n"));
		else
			pages[i].answer(console, view, request);
		return true;
	}
	return false;
}
