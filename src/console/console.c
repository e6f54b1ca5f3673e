/* console: see console.h. The metrics are described in docs/metrics.md. */
#include "console/console.h"

#include <inttypes.h>
#include <string.h>

#include "base/histogram.h"
#include "base/mem.h"
#include "console/why/why.h"

#define METRICS_BYTES_MAX (4u << 20) /* a source with a long name takes two KiB */

/* Prometheus wants seconds; a microsecond is the unit inside. */
static const uint64_t time_bounds_us[] = { 50,    100,   250,    500,    1000,   2500,    5000,
	                                   10000, 25000, 100000, 250000, 500000, 1000000, 5000000 };
static const uint64_t count_bounds[] = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096 };

/* ---- metrics: one row of the table each ---- */

/* Where a metric's number is, and which labels its lines have. */
enum source_of_number {
	OF_VERSION,         /* 1; version="…" */
	OF_START,           /* console.started_ms, in seconds */
	OF_SOURCE,          /* a meter of each source; source="…" */
	OF_SOURCE_VERDICTS, /* an array of meters by verdict; source="…",verdict="…" */
	OF_ANSWERS,         /* histogram of the threads, microseconds */
	OF_STORE,           /* struct store_stats */
	OF_STORE_MS,        /* the same, milliseconds in seconds */
	OF_COMMITS,         /* histogram of the store, microseconds */
	OF_BATCHES,         /* histogram of the store, counts */
	OF_SINK,            /* struct lane_view; sink="…" */
	OF_SINK_OUTCOMES,   /* sink="…",outcome="…" */
	OF_HTTP,            /* a meter of the HTTP servers */
	OF_RESP,            /* a meter of the Redis door, if there is one; so are the next two */
	OF_RESP_ERRORS,     /* an array of meters; error="…" */
	OF_RESP_REPLIES,    /* histogram of the threads, microseconds */
};

struct metric {
	const char *name;
	const char *type;
	const char *help;
	enum source_of_number of;
	uint32_t size; /* of the field: 0, 1, 4 or 8 bytes */
	size_t offset;
};

#define FIELD(type, field) sizeof(((type *)0)->field), offsetof(type, field)
#define SOURCE(field) OF_SOURCE, FIELD(struct source_meters, field)
#define VERDICTS(field) OF_SOURCE_VERDICTS, FIELD(struct source_meters, field)
#define STORE(field) OF_STORE, FIELD(struct store_stats, field)
#define SINK(field) OF_SINK, FIELD(struct lane_view, field)
#define HTTP(field) OF_HTTP, FIELD(struct http_counters, field)
#define RESP(field) OF_RESP, FIELD(struct resp_counters, field)

static const struct metric metrics[] = {
	{ "stile_build_info", "gauge", "Always 1; the label has the version.", OF_VERSION, 0, 0 },
	{ "stile_start_time_seconds", "gauge",
	  "Time at which the process began to serve (Unix time).", OF_START, 0, 0 },
	{ "stile_verdicts_total", "counter", "Events decided, by verdict.", VERDICTS(verdicts) },
	{ "stile_shadow_verdicts_total", "counter",
	  "Events that passed, by the verdict that a claim in shadow mode would have given.",
	  VERDICTS(would) },
	{ "stile_refused_total", "counter",
	  "Events rejected because no claim could be computed, or because they were too large.",
	  SOURCE(refused) },
	{ "stile_unauthorized_total", "counter",
	  "Requests that failed the source's authentication.", SOURCE(unauthorized) },
	{ "stile_overload_total", "counter",
	  "Events answered 503 because the store had no room or a write failed.",
	  SOURCE(overload) },
	{ "stile_unrouted_total", "counter",
	  "New events that matched no route and are not delivered.", SOURCE(unrouted) },
	{ "stile_answer_seconds", "histogram",
	  "Time from a complete request to its durable answer.", OF_ANSWERS, 0, 0 },
	{ "stile_commits_total", "counter", "Durable writes of the journal.", STORE(commits) },
	{ "stile_commit_operations_total", "counter", "Operations in those writes.",
	  STORE(commit_ops) },
	{ "stile_commit_seconds", "histogram", "Time of a durable write.", OF_COMMITS, 0, 0 },
	{ "stile_commit_batch", "histogram", "Operations in one durable write.", OF_BATCHES, 0, 0 },
	{ "stile_live_claims", "gauge", "Claims remembered.", STORE(live_claims) },
	{ "stile_live_entities", "gauge", "Entities whose newest event is remembered.",
	  STORE(live_entities) },
	{ "stile_live_cells", "gauge", "Cells (names with a value).", STORE(live_cells) },
	{ "stile_expired_claims_total", "counter", "Claims whose window ended.",
	  STORE(expired_claims) },
	{ "stile_index_bytes", "gauge", "Memory of the claims index.", STORE(index_bytes) },
	{ "stile_open_tickets", "gauge", "Open deliveries: one for each sink of an event.",
	  STORE(open_tickets) },
	{ "stile_held_tickets", "gauge",
	  "Events kept aside because of a conflict, until someone releases or drops them.",
	  STORE(held_tickets) },
	{ "stile_parked_tickets", "gauge",
	  "Deliveries whose outcome is unknown, until someone releases or drops them.",
	  STORE(parked_tickets) },
	{ "stile_dead_tickets", "gauge",
	  "Dead letters, kept until someone releases or drops them, or until they are too old.",
	  STORE(dead_tickets) },
	{ "stile_due_tickets", "gauge", "Open tickets that no sink's queue has taken yet.",
	  STORE(due_tickets) },
	{ "stile_caller_tickets", "gauge",
	  "Open claims made through the claims API: the caller has not reported an outcome yet.",
	  STORE(caller_tickets) },
	{ "stile_waits", "gauge", "Senders waiting for an outcome (`ack: delivered`).",
	  STORE(waits) },
	{ "stile_journal_bytes", "gauge", "Size of the data folder's files.",
	  STORE(journal_bytes) },
	{ "stile_journal_segments", "gauge", "Segments of the journal.", STORE(segments) },
	{ "stile_written_bytes_total", "counter", "Bytes written to the journal.",
	  STORE(written_bytes) },
	{ "stile_io_errors_total", "counter", "Failed reads and writes of the data folder.",
	  STORE(io_errors) },
	{ "stile_store_writable", "gauge", "1 when events are accepted.", STORE(writable) },
	{ "stile_store_away", "gauge",
	  "1 while the shared store is unreachable: its circuit breaker is open.", STORE(away) },
	{ "stile_store_away_total", "counter", "How often the shared store became unreachable.",
	  STORE(away_times) },
	{ "stile_spooled_events", "gauge",
	  "Events spooled on this machine until the shared store can decide them.",
	  STORE(spooled_events) },
	{ "stile_clock_held_seconds", "gauge",
	  "How far the wall clock is ahead of the time that stile can explain; check it when above 0.",
	  OF_STORE_MS, FIELD(struct store_stats, clock_held_ms) },
	{ "stile_deliveries_total", "counter",
	  "Attempts to deliver, by outcome; failed: will be retried.", OF_SINK_OUTCOMES, 0, 0 },
	{ "stile_sink_state", "gauge",
	  "0 running, 1 paused, 2 disabled, 3 removed from the configuration, 4 ended.",
	  SINK(state) },
	{ "stile_sink_waiting", "gauge", "Tickets in the sink's queue that wait for an attempt.",
	  SINK(waiting) },
	{ "stile_sink_in_flight", "gauge", "Attempts in progress.", SINK(in_flight) },
	{ "stile_sink_limit", "gauge", "Current limit of concurrent attempts.", SINK(limit) },
	{ "stile_sink_breaker", "gauge", "0 closed, 1 open, 2 half-open.", SINK(breaker) },
	{ "stile_sink_disabled_total", "counter",
	  "How often the sink was disabled because it answered 410.", SINK(disabled) },
	{ "stile_sink_lost_total", "counter", "Leases lost before the outcome was recorded.",
	  SINK(lost) },
	{ "stile_sink_unrecorded_total", "counter",
	  "Outcomes that the store could not record: those events may be delivered again.",
	  SINK(unrecorded) },
	{ "stile_http_connections", "gauge", "Open connections.", HTTP(wires.open) },
	{ "stile_http_accepted_total", "counter", "Connections accepted.", HTTP(wires.accepted) },
	{ "stile_http_refused_total", "counter", "Connections refused because there were too many.",
	  HTTP(wires.refused) },
	{ "stile_http_requests_total", "counter", "Complete requests.", HTTP(requests) },
	{ "stile_http_bad_requests_total", "counter",
	  "Requests rejected as malformed, too large or too slow.", HTTP(bad) },
	{ "stile_http_crowded_total", "counter",
	  "Requests answered 503 because the requests in progress used all of the memory for requests.",
	  HTTP(crowded) },
	{ "stile_http_timeouts_total", "counter",
	  "Connections closed because the peer was too slow.", HTTP(wires.timeouts) },
	{ "stile_http_received_bytes_total", "counter", "Bytes received.", HTTP(wires.bytes_in) },
	{ "stile_http_sent_bytes_total", "counter", "Bytes sent.", HTTP(wires.bytes_out) },
	{ "stile_tls_handshakes_total", "counter", "TLS handshakes.", HTTP(wires.tls_handshakes) },
	{ "stile_tls_resumed_total", "counter", "TLS handshakes that resumed a session.",
	  HTTP(wires.tls_resumed) },
	{ "stile_tls_failed_total", "counter", "TLS handshakes that failed.",
	  HTTP(wires.tls_failed) },
	{ "stile_resp_connections", "gauge", "Open connections of Redis clients.",
	  RESP(wires.open) },
	{ "stile_resp_accepted_total", "counter", "Connections of Redis clients accepted.",
	  RESP(wires.accepted) },
	{ "stile_resp_refused_total", "counter",
	  "Connections of Redis clients refused because there were too many.",
	  RESP(wires.refused) },
	{ "stile_resp_commands_total", "counter", "Commands received from Redis clients.",
	  RESP(commands) },
	{ "stile_resp_bad_total", "counter",
	  "Connections closed because of bytes that are not a command.", RESP(bad) },
	{ "stile_resp_timeouts_total", "counter",
	  "Connections closed because the Redis client was idle, or did not read, for too long.",
	  RESP(wires.timeouts) },
	{ "stile_resp_received_bytes_total", "counter", "Bytes received from Redis clients.",
	  RESP(wires.bytes_in) },
	{ "stile_resp_sent_bytes_total", "counter", "Bytes sent to Redis clients.",
	  RESP(wires.bytes_out) },
	{ "stile_resp_errors_total", "counter", "Error replies, by their first word.",
	  OF_RESP_ERRORS, FIELD(struct resp_counters, errors) },
	{ "stile_resp_reply_seconds", "histogram",
	  "Time from a complete command to its durable reply.", OF_RESP_REPLIES, 0, 0 },
};

static uint64_t read_field(const void *of, const struct metric *metric)
{
	const char *at = (const char *)of + metric->offset;
	uint64_t whole = 0;
	uint32_t half = 0;
	if (metric->size == sizeof(bool))
		return *(const bool *)(const void *)at;
	if (metric->size == sizeof(half)) {
		memcpy(&half, at, sizeof(half));
		return half;
	}
	CHECK(metric->size == sizeof(whole));
	memcpy(&whole, at, sizeof(whole));
	return whole;
}

/* Of an array of meters: the one at `index`. */
static uint64_t read_meter(const void *of, const struct metric *metric, size_t index)
{
	const char *at = (const char *)of + metric->offset;
	return meter_read((const atomic_uint_fast64_t *)(const void *)at + index);
}

static uint64_t sum_source(const struct source_counts *counts, const struct source_count *count,
                           const struct metric *metric, size_t index)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < counts->thread_count; i++)
		sum += read_meter(&count->meters[i], metric, index);
	return sum;
}

static uint64_t sum_threads(const struct console *console, const struct metric *metric,
                            size_t index)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < console->thread_count; i++) {
		const struct console_thread *thread = &console->threads[i];
		sum += metric->of == OF_HTTP ? read_meter(thread->http, metric, index)
		                             : read_meter(thread->resp, metric, index);
	}
	return sum;
}

static void put_seconds(struct buf *out, const char *name, uint64_t ms)
{
	buf_printf(out, "%s %" PRIu64 ".%03" PRIu64 "\n", name, ms / 1000, ms % 1000);
}

static void put_microseconds(struct buf *out, uint64_t us)
{
	buf_printf(out, "%" PRIu64 ".%06" PRIu64, us / 1000000, us % 1000000);
}

static void put_histogram(struct buf *out, const struct metric *metric,
                          const struct histogram *histogram)
{
	bool seconds = metric->of != OF_BATCHES;
	const uint64_t *bounds = seconds ? time_bounds_us : count_bounds;
	size_t bound_count = seconds ? ARRAY_LEN(time_bounds_us) : ARRAY_LEN(count_bounds);
	uint64_t counts[ARRAY_LEN(time_bounds_us) + 1];
	CHECK(bound_count < ARRAY_LEN(counts));
	uint64_t all = histogram_cumulate(histogram, bounds, bound_count, counts);
	for (size_t i = 0; i < bound_count; i++) {
		buf_printf(out, "%s_bucket{le=\"", metric->name);
		if (seconds)
			put_microseconds(out, bounds[i]);
		else
			buf_append_u64(out, bounds[i]);
		buf_printf(out, "\"} %" PRIu64 "\n", counts[i]);
	}
	buf_printf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum ", metric->name, all,
	           metric->name);
	if (seconds)
		put_microseconds(out, histogram_sum(histogram));
	else
		buf_append_u64(out, histogram_sum(histogram));
	buf_printf(out, "\n%s_count %" PRIu64 "\n", metric->name, all);
}

static void put_thread_histogram(const struct console *console, struct buf *out,
                                 const struct metric *metric)
{
	struct histogram *merged = mem_zalloc(1, sizeof(*merged));
	if (!merged) {
		buf_fail(out, -ENOMEM);
		return;
	}
	for (uint32_t i = 0; i < console->thread_count; i++) {
		const struct console_thread *thread = &console->threads[i];
		histogram_merge(merged,
		                metric->of == OF_ANSWERS ? thread->answer_us : thread->reply_us);
	}
	put_histogram(out, metric, merged);
	mem_free(merged);
}

/* A label's value: a source's name has neither quotes nor line breaks. */
static void put_sources(const struct console *console, struct buf *out, const struct metric *metric)
{
	const struct source_count *count = atomic_load(&console->counts->first);
	for (; count; count = atomic_load(&count->next)) {
		int verdict = metric->of == OF_SOURCE ? VERDICT_COUNT - 1 : VERDICT_NEW;
		for (; verdict < VERDICT_COUNT; verdict++) {
			size_t index = metric->of == OF_SOURCE ? 0 : (size_t)verdict;
			buf_printf(out, "%s{source=\"%.*s\"", metric->name, (int)count->name.len,
			           count->name.ptr);
			if (metric->of == OF_SOURCE_VERDICTS)
				buf_printf(out, ",verdict=\"%s\"",
				           verdict_name((enum verdict)verdict));
			buf_printf(out, "} %" PRIu64 "\n",
			           sum_source(console->counts, count, metric, index));
		}
	}
}

static void put_sinks(const struct console *console, struct buf *out, const struct metric *metric)
{
	static const char *const outcomes[] = { "done", "dead", "unknown", "failed" };
	struct lane_view view;
	for (uint32_t i = 0; i < deliver_lane_count(console->deliver); i++) {
		deliver_view(console->deliver, i, &view);
		/* Once for each name: another sink may have it by now. */
		if (deliver_find(console->deliver, span_str(view.name)) != (int)i)
			continue;
		if (metric->of == OF_SINK) {
			buf_printf(out, "%s{sink=\"%s\"} %" PRIu64 "\n", metric->name, view.name,
			           read_field(&view, metric));
			continue;
		}
		const uint64_t counts[] = { view.outcomes[OUTCOME_DONE],
			                    view.outcomes[OUTCOME_DEAD],
			                    view.outcomes[OUTCOME_UNKNOWN], view.failed };
		for (size_t k = 0; k < ARRAY_LEN(counts); k++)
			buf_printf(out, "%s{sink=\"%s\",outcome=\"%s\"} %" PRIu64 "\n",
			           metric->name, view.name, outcomes[k], counts[k]);
	}
}

static void put_metric(const struct console *console, const struct store_stats *stats,
                       const struct metric *metric, struct buf *out)
{
	bool has_resp = console->thread_count > 0 && console->threads[0].resp;
	if (metric->of >= OF_RESP && !has_resp)
		return;
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", metric->name, metric->help, metric->name,
	           metric->type);
	switch (metric->of) {
	case OF_VERSION:
		buf_printf(out, "%s{version=\"%s\"} 1\n", metric->name, console->version);
		break;
	case OF_START: put_seconds(out, metric->name, console->started_ms); break;
	case OF_SOURCE:
	case OF_SOURCE_VERDICTS: put_sources(console, out, metric); break;
	case OF_STORE:
		buf_printf(out, "%s %" PRIu64 "\n", metric->name, read_field(stats, metric));
		break;
	case OF_STORE_MS: put_seconds(out, metric->name, read_field(stats, metric)); break;
	case OF_COMMITS: put_histogram(out, metric, console->store->commit_us); break;
	case OF_BATCHES: put_histogram(out, metric, console->store->commit_batch); break;
	case OF_SINK:
	case OF_SINK_OUTCOMES: put_sinks(console, out, metric); break;
	case OF_HTTP:
	case OF_RESP:
		buf_printf(out, "%s %" PRIu64 "\n", metric->name, sum_threads(console, metric, 0));
		break;
	case OF_RESP_ERRORS:
		for (int kind = 0; kind < RESP_ERROR_COUNT; kind++)
			buf_printf(out, "%s{error=\"%s\"} %" PRIu64 "\n", metric->name,
			           resp_error_word((enum resp_error)kind),
			           sum_threads(console, metric, (size_t)kind));
		break;
	case OF_ANSWERS:
	case OF_RESP_REPLIES: put_thread_histogram(console, out, metric); break;
	}
}

/* ---- why and advise ---- */

static void respond_busy(struct http_request *request, const char *detail)
{
	http_respond_problem(request, 503, detail, SPAN("Retry-After: 1\r\n"));
}

#define WHY_BYTES_MAX (4u << 20)
#define HELD_MAX 1024u

static void respond_why(struct http_request *request, uint16_t status, struct buf *out)
{
	buf_append_char(out, '\0');
	if (out->failed)
		respond_busy(request, "out of memory for the answer; try again");
	else if (status != 200)
		http_respond_problem(request, status, out->ptr, SPAN_EMPTY);
	else
		http_respond(request, &(struct http_response){
					      .status = status,
					      .content_type = SPAN("application/json"),
					      .body = span_of(out->ptr, out->len - 1),
				      });
}

/* False: the request is answered. */
static bool parse_why(const struct console *console, struct http_request *request,
                      struct why_question *ret_question)
{
	struct error_text text;
	if (!console->traces)
		http_respond_problem(request, 503, "traces are disabled; the log has the reason",
		                     SPAN_EMPTY);
	else if (why_question_parse(request->head.query, ret_question, &text) < 0)
		http_respond_problem(request, 400, text.text, SPAN_EMPTY);
	else
		return true;
	return false;
}

static struct why_context why_context_of(const struct console *console,
                                         const struct console_view *view)
{
	return (struct why_context){ .log = console->traces,
		                     .sources = view->windows,
		                     .source_count = view->window_count };
}

void console_answer_advise(struct console *console, const struct console_view *view,
                           struct http_request *request)
{
	struct why_context context = why_context_of(console, view);
	struct buf out = { .cap = WHY_BYTES_MAX };
	struct why_question question;
	if (!parse_why(console, request, &question))
		return;
	uint16_t status = why_advise(&context, &question, &out);
	respond_why(request, status, &out);
	buf_free(&out);
}

/*
 * Only the store knows what is held: it is asked before a question about events is
 * answered. The rest is read from disk, which the worker does, so that no event waits
 * for it.
 */
struct why_request {
	struct store_held held;
	struct worker_task task;
	struct console *console;
	struct worker_desk *desk;
	struct http_request *request;
	struct why_question question;
	struct buf out;
	uint16_t status;
	uint64_t tickets[HELD_MAX];
};

/* On the worker's thread. */
static void look_up(struct worker_task *task)
{
	struct why_request *it = container_of(task, struct why_request, task);
	struct why_context context = {
		.log = it->console->traces,
		.held = { .known = it->held.op.error == 0,
		          .all = it->held.count < it->held.max,
		          .count = it->held.op.error == 0 ? it->held.count : 0,
		          .tickets = it->tickets },
		.read = it->console->read,
		.read_user = it->console->read_user,
	};
	it->status = why_answer(&context, &it->question, &it->out);
}

static void looked_up(struct worker_task *task)
{
	struct why_request *it = container_of(task, struct why_request, task);
	if (task->skipped)
		respond_busy(it->request, "too many questions at once; try again");
	else
		respond_why(it->request, it->status, &it->out);
	buf_free(&it->out);
	mem_free(it);
}

static void held_known(struct store_op *op)
{
	struct why_request *it = op->user;
	struct worker *worker = it->console->worker;
	it->task = (struct worker_task){ .run = look_up, .done = looked_up };
	if (worker && worker_give(worker, it->desk, &it->task) == 0)
		return;
	respond_busy(it->request, "too many questions at once; try again");
	mem_free(it);
}

void console_answer_why(struct console *console, const struct console_view *view,
                        struct http_request *request)
{
	struct why_request *it = mem_alloc(sizeof(*it));
	if (!it) {
		respond_busy(request, "out of memory for the answer; try again");
		return;
	}
	if (!parse_why(console, request, &it->question)) {
		mem_free(it);
		return;
	}
	it->console = console;
	it->desk = view->desk;
	it->request = request;
	it->out = (struct buf){ .cap = WHY_BYTES_MAX };
	it->held = (struct store_held){
		.op = { .kind = STORE_HELD, .done = held_known, .user = it },
		.before = it->question.before,
		.tickets = it->tickets,
		.max = HELD_MAX,
	};
	store_submit(view->port, &it->held.op);
}

/* ---- pages of every listener ---- */

static void answer_metrics(struct console *console, const struct console_view *view,
                           struct http_request *request)
{
	struct buf out = { .cap = METRICS_BYTES_MAX };
	struct store_stats stats;
	store_stats(console->store, &stats);
	for (size_t i = 0; i < ARRAY_LEN(metrics); i++)
		put_metric(console, &stats, &metrics[i], &out);
	struct why_context why = why_context_of(console, view);
	if (console->traces)
		why_metrics(&why, &out);
	if (out.failed)
		respond_busy(request, "out of memory for the metrics; try again");
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

static void answer_ready(const struct console *console, struct http_request *request)
{
	struct store_stats stats;
	store_stats(console->store, &stats);
	if (atomic_load_explicit(&console->draining, memory_order_relaxed))
		answer_text(request, 503, SPAN("not ready: shutting down\n"));
	else if (!stats.writable)
		answer_text(request, 503,
		            stats.away ? SPAN("not ready: the shared store is unreachable\n")
		                       : SPAN("not ready: the store rejects new events\n"));
	else if (stats.away)
		answer_text(
			request, 200,
			SPAN("ready: the shared store is unreachable, events with store_away: spool are spooled\n"));
	else
		answer_text(request, 200, SPAN("ready\n"));
}

bool console_handle(struct console *console, const struct console_view *view,
                    struct http_request *request)
{
	struct span path = request->head.path;
	bool metrics_asked = span_eq(path, SPAN("/metrics"));
	bool ready_asked = span_eq(path, SPAN("/readyz"));
	if (!metrics_asked && !ready_asked && !span_eq(path, SPAN("/healthz")))
		return false;
	if (request->head.method != HTTP1_GET && request->head.method != HTTP1_HEAD)
		http_respond_problem(request, 405, "method not allowed: use GET",
		                     SPAN("Allow: GET, HEAD\r\n"));
	else if (metrics_asked)
		answer_metrics(console, view, request);
	else if (ready_asked)
		answer_ready(console, request);
	else
		answer_text(request, 200, SPAN("alive\n"));
	return true;
}
