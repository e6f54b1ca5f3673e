/* http_outlet: see http_outlet.h. */
#include "sink/http/http_outlet.h"

#include "base/mem.h"
#include "sink/http/http_internal.h"

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

/* ---- transfers: new ones, or such that were used before ---- */

static void free_transfer(struct http_transfer *transfer)
{
	http_call_close(&transfer->call);
	buf_free(&transfer->text);
	buf_free(&transfer->body);
	mem_free(transfer);
}

static int new_transfer(struct http_lane *lane, struct http_transfer **ret_transfer)
{
	static const char *const methods[] = { "POST", "PUT", "PATCH" };
	const struct http_plan *plan = lane->outlet->plan;
	const struct http_call_options options = {
		.https = lane->target->https,
		.http1 = plan->options.http1,
		.fresh = plan->options.fresh,
		.whole = plan->options.verdicts,
		.method = lane->target == &plan->probe ? "GET" : methods[plan->options.method],
		.url = lane->target->url,
		.connect_ms = plan->options.connect_ms,
		.timeout_ms = plan->options.timeout_ms,
		.idle_s = plan->options.idle_ms / 1000,
		.answer_max = plan->options.answer_max,
		.ca_file = plan->options.ca_file,
		.cert_file = plan->options.cert_file,
		.key_file = plan->options.key_file,
	};
	struct http_transfer *transfer = mem_zalloc(1, sizeof(*transfer));
	if (!transfer)
		return -ENOMEM;
	transfer->outlet = lane->outlet;
	transfer->lane = lane;
	if (http_call_open(&transfer->call, &lane->outlet->client, &options)) {
		mem_free(transfer);
		return -ENOMEM;
	}
	*ret_transfer = transfer;
	return 0;
}

static int take_transfer(struct http_lane *lane, struct http_transfer **ret_transfer)
{
	struct http_transfer *transfer = lane->spare;
	if (!transfer)
		return new_transfer(lane, ret_transfer);
	lane->spare = transfer->next;
	http_call_reset(&transfer->call);
	buf_clear(&transfer->text);
	buf_clear(&transfer->body);
	transfer->line_count = 0;
	*ret_transfer = transfer;
	return 0;
}

void http_outlet_start(struct http_transfer *transfer)
{
	struct http_lane *lane = transfer->lane;
	struct http_call *call = &transfer->call;
	call->lines = lane->target->fixed;
	for (uint32_t i = transfer->line_count; i-- > 0;) {
		transfer->nodes[i] = (struct http_line){
			.text = transfer->text.ptr + transfer->lines[i],
			.next = call->lines,
		};
		call->lines = &transfer->nodes[i];
	}
	bool made = transfer->outlet->plan->has_body || transfer->batch;
	call->url = lane->target->url ? NULL : transfer->text.ptr;
	call->body = made ? buf_span(&transfer->body) : transfer->chain->payload;
	call->pin = lane->pin ? &lane->pin_node : NULL;
	if (http_call_start(call))
		http_outlet_fail(transfer, false, "no memory to send it");
	else
		lane->pin = false;
}

/* ---- attempts to requests, and results to attempts ---- */

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
	if (take_transfer(lane, &transfer)) {
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

static void finish(struct http_call *call, enum http_end end)
{
	struct http_transfer *transfer = container_of(call, struct http_transfer, call);
	struct outlet_result result;
	http_result_of(transfer, end, &result);
	bool each = transfer->outlet->plan->options.verdicts &&
	            http_verdicts_read(transfer, &result);
	if (end == HTTP_END_CONNECT)
		http_lane_doubt(transfer->lane);
	bool too_large = transfer->outlet->plan->options.verdicts && result.status == 413 && !each;
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
	for (uint32_t count = 1; last->next && count < plan->options.batch_events; count++) {
		bytes += last->next->payload.len + 1;
		bool alone = plan->options.verdicts && !(last->json && last->next->json);
		if (bytes > plan->options.batch_bytes || alone)
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
	http_client_run(&outlet->client);
}

static void probe(struct outlet *base, struct outlet_attempt *attempt)
{
	struct http_outlet *outlet = of(base);
	attempt->next = NULL;
	begin(&outlet->lanes[1], attempt);
	http_client_run(&outlet->client);
}

static void interrupt(struct outlet *base)
{
	struct http_outlet *outlet = of(base);
	atomic_store(&outlet->interrupted, true);
	loop_wake(outlet->loop);
}

static void each_round(struct loop_hook *hook)
{
	struct http_outlet *outlet = container_of(hook, struct http_outlet, hook);
	for (size_t i = 0; i < ARRAY_LEN(outlet->lanes); i++)
		http_lane_poll(&outlet->lanes[i]);
	if (likely(!atomic_load_explicit(&outlet->interrupted, memory_order_relaxed)))
		return;
	for (size_t i = 0; i < ARRAY_LEN(outlet->lanes); i++)
		if (outlet->lanes[i].waiting)
			http_lane_fail_waiting(&outlet->lanes[i], "interrupted");
	http_client_abort(&outlet->client, "interrupted");
}

static void free_outlet(struct outlet *base)
{
	struct http_outlet *outlet = of(base);
	loop_hook_remove(outlet->loop, &outlet->hook);
	for (size_t i = 0; i < ARRAY_LEN(outlet->lanes); i++) {
		struct http_lane *lane = &outlet->lanes[i];
		if (lane->outlet)
			http_lane_close(lane);
		while (lane->spare) {
			struct http_transfer *transfer = lane->spare;
			lane->spare = transfer->next;
			free_transfer(transfer);
		}
	}
	http_client_close(&outlet->client);
	http_plan_free(outlet->plan);
	mem_free(outlet);
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

static const char *refuse(const struct http_client *client, const struct ip_address *address)
{
	const struct http_outlet *outlet = container_of(client, const struct http_outlet, client);
	return http_plan_refusal(outlet->plan, address);
}

int http_outlet_check(const struct http_outlet_options *options, struct error_text *ret_text)
{
	struct http_plan *plan = NULL;
	int error = http_plan_new(options, &plan, ret_text);
	http_plan_free(plan);
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
	outlet->outlet.batch_max = plan->options.batch_events;
	error = http_client_open(&outlet->client, ret_text);
	if (!error)
		error = http_lane_init(&outlet->lanes[0], outlet, &plan->request);
	if (!error && has_probe)
		error = http_lane_init(&outlet->lanes[1], outlet, &plan->probe);
	return error;
}

int http_outlet_new(const struct http_outlet_options *options, struct outlet **ret_outlet,
                    struct error_text *ret_text)
{
	struct http_outlet *outlet = mem_zalloc(1, sizeof(*outlet));
	if (!outlet)
		return -ENOMEM;
	outlet->loop = options->loop;
	outlet->clock = options->clock ? options->clock : clock_system();
	outlet->lookup = options->lookup;
	outlet->hook.round = each_round;
	loop_hook_add(outlet->loop, &outlet->hook);
	outlet->client = (struct http_client){
		.loop = options->loop, .clock = outlet->clock, .refuse = refuse, .done = finish
	};
	int error = open_outlet(outlet, options, ret_text);
	if (error) {
		free_outlet(&outlet->outlet);
		return error;
	}
	*ret_outlet = &outlet->outlet;
	return 0;
}
