/* http_outlet: see http_outlet.h. */
#include "sink/http/http_outlet.h"

#include <stdio.h>

#include "base/mem.h"
#include "sink/http/http_internal.h"

/* No code of libcurl's: the outlet is ending. */
#define CODE_INTERRUPTED CURLE_ABORTED_BY_CALLBACK

static struct http_outlet *of(struct outlet *base)
{
	return container_of(base, struct http_outlet, outlet);
}

/* With `each` they have results of their own, but for what is the same for all. */
static void tell(struct outlet_attempt *chain, const struct outlet_result *result, bool each)
{
	while (chain) {
		struct outlet_attempt *attempt = chain;
		chain = chain->next;
		if (each)
			attempt->result.latency_us = result->latency_us;
		else
			attempt->result = *result;
		attempt->done(attempt);
	}
}

/* The transfer may be another's before its chain is told. */
static void end_transfer(struct http_transfer *transfer, struct outlet_result *result, bool each)
{
	struct outlet_attempt *chain = transfer->chain;
	uint64_t took_us = (clock_monotonic_ns() - transfer->start_ns) / 1000;
	result->latency_us = took_us < UINT32_MAX ? (uint32_t)took_us : UINT32_MAX;
	transfer->chain = NULL;
	transfer->next = transfer->lane->spare;
	transfer->lane->spare = transfer;
	tell(chain, result, each);
}

void http_outlet_fail(struct http_transfer *transfer, bool permanent, const char *why)
{
	struct outlet_result result;
	http_result_not_sent(&result, permanent, why);
	end_transfer(transfer, &result, false);
}

static void unlink_active(struct http_transfer *transfer)
{
	struct http_outlet *outlet = transfer->outlet;
	if (transfer->next)
		transfer->next->before = transfer->before;
	if (transfer->before)
		transfer->before->next = transfer->next;
	else
		outlet->active = transfer->next;
}

static void fail_chain(struct outlet_attempt *chain, bool permanent, const char *why)
{
	struct outlet_result result;
	http_result_not_sent(&result, permanent, why);
	tell(chain, &result, false);
}

/* One event of a batch that cannot be made must not spoil the others: they go one by
 * one then. */
static void begin(struct http_lane *lane, struct outlet_attempt *chain);

static void begin_each(struct http_lane *lane, struct outlet_attempt *chain)
{
	while (chain) {
		struct outlet_attempt *attempt = chain;
		chain = chain->next;
		attempt->next = NULL;
		begin(lane, attempt);
	}
}

static void begin(struct http_lane *lane, struct outlet_attempt *chain)
{
	struct http_transfer *transfer;
	struct error_text text = { "" };
	if (atomic_load(&lane->outlet->interrupted)) {
		fail_chain(chain, false, "interrupted");
		return;
	}
	if (http_transfer_take(lane, &transfer)) {
		fail_chain(chain, false, "no memory to send it");
		return;
	}
	transfer->chain = chain;
	transfer->start_ns = clock_monotonic_ns();
	int error = http_request_write(transfer, &text);
	if (error && chain->next) {
		transfer->next = lane->spare;
		lane->spare = transfer;
		begin_each(lane, chain);
	} else if (error) {
		bool permanent = error == ERR_INVALID;
		http_outlet_fail(transfer, permanent, permanent ? text.text : error_name(error));
	} else {
		http_lane_start(lane, transfer);
	}
}

void http_outlet_finish(struct http_transfer *transfer, CURLcode code)
{
	struct outlet_result result;
	unlink_active(transfer);
	http_result_of(transfer, code, &result);
	bool each = transfer->outlet->plan->verdicts && http_verdicts_read(transfer, &result);
	if (code == CURLE_COULDNT_CONNECT)
		http_lane_doubt(transfer->lane);
	curl_multi_remove_handle(transfer->outlet->multi, transfer->easy);
	bool too_large = transfer->outlet->plan->verdicts && result.status == 413 && !each;
	if (too_large && transfer->chain->next) { /* together they are; each may not be */
		struct outlet_attempt *chain = TAKE(transfer->chain);
		struct http_lane *lane = transfer->lane;
		end_transfer(transfer, &result, false);
		begin_each(lane, chain);
		return;
	}
	end_transfer(transfer, &result, each);
}

/* Cuts off as many attempts as fit into one request. */
static struct outlet_attempt *cut_batch(const struct http_plan *plan, struct outlet_attempt **chain)
{
	struct outlet_attempt *first = *chain;
	struct outlet_attempt *last = first;
	size_t bytes = first->payload.len;
	for (uint32_t count = 1; last->next && count < plan->batch_events; count++) {
		bytes += last->next->payload.len + 1;
		bool alone = plan->verdicts && !(last->json && last->next->json);
		if (bytes > plan->batch_bytes || alone)
			break;
		last = last->next;
	}
	*chain = last->next;
	last->next = NULL;
	return first;
}

static void send_chain(struct outlet *base, struct outlet_attempt *chain)
{
	struct http_outlet *outlet = of(base);
	while (chain)
		begin(&outlet->lanes[0], cut_batch(outlet->plan, &chain));
	http_sockets_run(outlet);
}

static void probe(struct outlet *base, struct outlet_attempt *attempt)
{
	struct http_outlet *outlet = of(base);
	attempt->next = NULL;
	begin(&outlet->lanes[1], attempt);
	http_sockets_run(outlet);
}

static void interrupt(struct outlet *base)
{
	struct http_outlet *outlet = of(base);
	atomic_store(&outlet->interrupted, true);
	loop_wake(outlet->loop);
}

static void end_all(struct http_outlet *outlet)
{
	outlet->busy = true;
	for (size_t i = 0; i < ARRAY_LEN(outlet->lanes); i++)
		if (outlet->lanes[i].waiting)
			http_lane_fail_waiting(&outlet->lanes[i], "interrupted");
	while (outlet->active) {
		struct http_transfer *transfer = outlet->active;
		snprintf(transfer->error, sizeof(transfer->error), "interrupted");
		http_outlet_finish(transfer, CODE_INTERRUPTED);
	}
	outlet->busy = false;
}

static void each_round(struct loop_hook *hook)
{
	struct http_outlet *outlet = container_of(hook, struct http_outlet, hook);
	for (size_t i = 0; i < ARRAY_LEN(outlet->lanes); i++)
		http_lane_poll(&outlet->lanes[i]);
	if (unlikely(outlet->timer_owed)) {
		outlet->timer_owed = false;
		outlet->timer.due(&outlet->timer);
	}
	if (unlikely(atomic_load_explicit(&outlet->interrupted, memory_order_relaxed)))
		end_all(outlet);
}

static void free_outlet(struct outlet *base)
{
	struct http_outlet *outlet = of(base);
	CHECK(!outlet->active);
	loop_hook_remove(outlet->loop, &outlet->hook);
	for (size_t i = 0; i < ARRAY_LEN(outlet->lanes); i++) {
		struct http_lane *lane = &outlet->lanes[i];
		if (lane->outlet)
			http_lane_close(lane);
		while (lane->spare) {
			struct http_transfer *transfer = lane->spare;
			lane->spare = transfer->next;
			http_transfer_free(transfer);
		}
	}
	http_sockets_close(outlet);
	http_plan_free(outlet->plan);
	mem_free(outlet);
	curl_global_cleanup();
}

static const struct outlet_methods methods = {
	.send = send_chain,
	.interrupt = interrupt,
	.free = free_outlet,
};

static const struct outlet_methods methods_with_probe = {
	.send = send_chain,
	.probe = probe,
	.interrupt = interrupt,
	.free = free_outlet,
};

/* Counted by libcurl. Its memory is its own: version 7.88 divides by zero when the table
 * of a socket's transfers cannot grow (singlesocket()), so a test that makes each
 * allocation fail would end there. */
static int init_curl(struct error_text *ret_text)
{
	CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
	return code ? error_fill(ret_text, ERR_CONFIG, "libcurl does not start: %s",
	                         curl_easy_strerror(code))
	            : 0;
}

int http_outlet_check(const struct http_outlet_options *options, struct error_text *ret_text)
{
	struct http_plan *plan = NULL;
	int error = init_curl(ret_text);
	if (error)
		return error;
	error = http_plan_new(options, &plan, ret_text);
	http_plan_free(plan);
	curl_global_cleanup();
	return error;
}

static int open_outlet(struct http_outlet *outlet, const struct http_outlet_options *options,
                       struct error_text *ret_text)
{
	int error = http_plan_new(options, &outlet->plan, ret_text);
	if (error)
		return error;
	struct http_plan *plan = outlet->plan;
	bool has_probe = plan->probe.host;
	outlet->outlet.methods = has_probe ? &methods_with_probe : &methods;
	outlet->outlet.batch_max = plan->batch_events;
	error = http_sockets_open(outlet);
	if (!error)
		error = http_lane_init(&outlet->lanes[0], outlet, &plan->request);
	if (!error && has_probe)
		error = http_lane_init(&outlet->lanes[1], outlet, &plan->probe);
	return error;
}

int http_outlet_new(const struct http_outlet_options *options, struct outlet **ret_outlet,
                    struct error_text *ret_text)
{
	int error = init_curl(ret_text);
	struct http_outlet *outlet = error ? NULL : mem_zalloc(1, sizeof(*outlet));
	if (!outlet)
		return error ? error : (curl_global_cleanup(), -ENOMEM);
	outlet->loop = options->loop;
	outlet->clock = options->clock ? options->clock : clock_system();
	outlet->lookup = options->lookup;
	outlet->hook.round = each_round;
	loop_hook_add(outlet->loop, &outlet->hook);
	error = open_outlet(outlet, options, ret_text);
	if (error) {
		free_outlet(&outlet->outlet);
		return error;
	}
	*ret_outlet = &outlet->outlet;
	return 0;
}
