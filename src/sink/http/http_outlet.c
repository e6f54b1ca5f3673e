/* http_outlet: see http_outlet.h. */
#include "sink/http/http_outlet.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/secret.h"
#include "base/text.h"
#include "codec/json.h"
#include "sink/http/http_internal.h"

/* ---- how a request ended: see http_outlet.h for the rules ---- */

static void put_text(struct outlet_result *result, const char *text)
{
	outlet_result_text(result, span_str(text));
}

static void result_not_sent(struct outlet_result *ret_result, bool permanent, const char *why)
{
	*ret_result = (struct outlet_result){ .answer = OUTLET_NOT_SENT, .permanent = permanent };
	put_text(ret_result, why);
}

/* Secrets that the answer repeats become ***. */
static size_t blot(const struct http_plan *plan, char *text, size_t len, bool cut)
{
	for (uint32_t i = 0; i < plan->blot_count; i++)
		len = secret_blot(text, len, plan->blots[i], cut);
	return len;
}

/* A secret of which only the beginning was kept must not be seen either. */
static void put_answer(const struct http_transfer *transfer, struct outlet_result *result)
{
	const struct http_plan *plan = transfer->outlet->plan;
	char copy[HTTP_ANSWER_KEPT];
	size_t len = transfer->call.kept;
	memcpy(copy, transfer->call.answer, len);
	bool cut = transfer->call.answer_bytes > transfer->call.kept;
	len = outlet_clean(copy, blot(plan, copy, len, cut));
	outlet_result_text(result, span_of(copy, len));
}

static void result_text(const struct http_plan *plan, struct span text,
                        struct outlet_result *result)
{
	char copy[HTTP_ANSWER_KEPT];
	size_t len = text.len < sizeof(copy) ? text.len : sizeof(copy);
	memcpy(copy, text.ptr, len);
	len = outlet_clean(copy, blot(plan, copy, len, text.len > len));
	outlet_result_text(result, span_of(copy, len));
}

static void judge_status(const struct http_transfer *transfer, struct outlet_result *result)
{
	uint16_t status = transfer->call.status;
	bool probe = transfer->lane == &transfer->outlet->lanes[1];
	result->status = status;
	result->retry_after_ms = transfer->call.retry_after_ms;
	result->answer = status < 300 ? OUTLET_DONE : OUTLET_REFUSED;
	if (probe && (status == 404 || status == 410))
		result->answer = OUTLET_NOT_FOUND;
	put_answer(transfer, result);
}

static void put_connect_error(const struct http_transfer *transfer, struct outlet_result *result)
{
	const struct http_call *call = &transfer->call;
	char ip[IP_TEXT_MAX];
	char text[OUTLET_TEXT_MAX];
	unsigned port = transfer->lane->target->port;
	ip_format(&call->peer, ip);
	if (!call->has_peer)
		snprintf(text, sizeof(text), "cannot connect: %.200s", call->error);
	else if (call->refusal)
		snprintf(text, sizeof(text), "%s is %s address: not allowed", ip, call->refusal);
	else if (call->connect_error == ECONNREFUSED)
		snprintf(text, sizeof(text), "connection refused by %s port %u", ip, port);
	else
		snprintf(text, sizeof(text), "cannot connect to %s port %u: %s", ip, port,
		         error_name(-call->connect_error));
	put_text(result, text);
}

static void put_not_sent(const struct http_transfer *transfer, enum http_end end,
                         struct outlet_result *result)
{
	char text[OUTLET_TEXT_MAX + 64];
	if (end == HTTP_END_CONNECT || transfer->call.refusal) {
		put_connect_error(transfer, result);
		return;
	}
	if (end == HTTP_END_TIMEOUT)
		snprintf(text, sizeof(text), "no connection to %.160s within %u ms",
		         transfer->lane->target->host, transfer->outlet->plan->options.connect_ms);
	else
		snprintf(text, sizeof(text), "no connection: %.200s", transfer->call.error);
	put_text(result, text);
}

static void put_unknown(const struct http_transfer *transfer, enum http_end end,
                        struct outlet_result *result)
{
	char text[OUTLET_TEXT_MAX + 64];
	if (end == HTTP_END_TIMEOUT)
		snprintf(text, sizeof(text), "no answer within %u ms",
		         transfer->outlet->plan->options.timeout_ms);
	else if (end == HTTP_END_NO_ANSWER || transfer->call.again)
		snprintf(text, sizeof(text), "the connection was closed before an answer came");
	else
		snprintf(text, sizeof(text), "no answer that can be understood: %.200s",
		         transfer->call.error);
	put_text(result, text);
}

static void result_of(const struct http_transfer *transfer, enum http_end end,
                      struct outlet_result *ret_result)
{
	const struct http_call *call = &transfer->call;
	*ret_result = (struct outlet_result){ .answer = OUTLET_NOT_SENT };
	if (call->answered) {
		judge_status(transfer, ret_result);
	} else if (!call->written || call->unprocessed) {
		ret_result->permanent = end == HTTP_END_URL;
		put_not_sent(transfer, end, ret_result);
	} else {
		ret_result->answer = OUTLET_UNKNOWN;
		put_unknown(transfer, end, ret_result);
	}
}

/*
 * ---- the answer of another stile ----
 * another stile's answer, which has a verdict for each event. See
 * http_internal.h, and http_outlet.h for what they mean.
 *
 *   {"new":1,…,"events":[{"verdict":"new","ticket":"…"},{"error":"…","status":400}]}
 *   {"verdict":"duplicate","ticket":"…"}    to an event that went alone
 */

enum member { VERDICT = 0, ERROR, STATUS, OUTCOME, PASSED_AS, MEMBERS };

/* What is read of an answer and of an item of it. */
struct reader {
	struct json_plan answer, item;
	uint8_t events;
	uint8_t members[MEMBERS];
	struct json_doc doc;
};

static void add_path(struct json_plan *plan, const char *name, uint8_t *ret_node)
{
	struct json_path path;
	struct json_problem problem;
	CHECK(json_path_parse(span_str(name), &path, &problem) == 0);
	CHECK(json_plan_add(plan, &path, ret_node) == 0);
}

static void init_reader(struct reader *reader)
{
	static const char *const names[MEMBERS] = { "verdict", "error", "status", "outcome",
		                                    "passed_as" };
	json_plan_init(&reader->answer);
	json_plan_init(&reader->item);
	add_path(&reader->answer, "events", &reader->events);
	for (size_t i = 0; i < MEMBERS; i++)
		add_path(&reader->item, names[i], &reader->members[i]);
	json_plan_seal(&reader->answer);
	json_plan_seal(&reader->item);
}

static struct span text_of(const struct reader *reader, enum member member)
{
	struct json_value value = json_get(&reader->doc, reader->members[member]);
	return value.type == JSON_NONE ? SPAN_EMPTY : value.text;
}

static void refuse_item(struct outlet_result *result, uint16_t status, bool permanent)
{
	result->answer = OUTLET_REFUSED;
	result->status = status;
	result->permanent = permanent;
}

static void judge_outcome(struct span outcome, struct outlet_result *result)
{
	result->answer = OUTLET_DONE;
	result->status = 200;
	if (span_eq(outcome, SPAN("dead")))
		refuse_item(result, 502, false);
	else if (span_eq(outcome, SPAN("unknown")))
		refuse_item(result, 504, false);
}

/* It is on its disk, or need not be: also what is decided later. */
static bool is_kept(struct span verdict)
{
	return span_eq(verdict, SPAN("new")) || span_eq(verdict, SPAN("duplicate")) ||
	       span_eq(verdict, SPAN("stale")) || span_eq(verdict, SPAN("spooled"));
}

/* The item that the reader has scanned. False: it is none. */
static bool judge_item(const struct reader *reader, struct outlet_result *result)
{
	struct span verdict = text_of(reader, VERDICT);
	uint64_t status = 0;
	if (text_of(reader, ERROR).len > 0) {
		bool known = text_parse_u64(text_of(reader, STATUS), &status) == 0 &&
		             status >= 400 && status < 600;
		refuse_item(result, known ? (uint16_t)status : 400, false);
	} else if (is_kept(verdict)) {
		judge_outcome(text_of(reader, OUTCOME), result);
	} else if (span_eq(verdict, SPAN("conflict"))) {
		judge_outcome(text_of(reader, OUTCOME), result);
		if (text_of(reader, PASSED_AS).len == 0)
			refuse_item(result, 422, true);
	} else if (span_eq(verdict, SPAN("busy"))) {
		refuse_item(result, 503, false);
	} else {
		return false;
	}
	return true;
}

static bool read_single(const struct http_transfer *transfer, struct reader *reader)
{
	struct outlet_attempt *attempt = transfer->chain;
	struct outlet_result result = { .retry_after_ms = transfer->call.retry_after_ms };
	struct span answer = buf_span(&transfer->call.whole);
	if (json_scan(answer, &reader->item, &reader->doc) != 0 || !judge_item(reader, &result))
		return false;
	result_text(transfer->outlet->plan, answer, &result);
	attempt->result = result;
	return true;
}

/* Each event's item, in their order; as many as there are events. */
static bool read_items(const struct http_transfer *transfer, struct reader *reader)
{
	struct json_elements elements;
	struct outlet_attempt *attempt = transfer->chain;
	struct span item;
	if (json_scan(buf_span(&transfer->call.whole), &reader->answer, &reader->doc) != 0)
		return false;
	struct json_value events = json_get(&reader->doc, reader->events);
	if (events.type != JSON_ARRAY || json_elements_begin(&elements, events.text) != 0)
		return false;
	int found = json_elements_next(&elements, &reader->item, &reader->doc, &item);
	while (found == 1 && attempt) {
		attempt->result =
			(struct outlet_result){ .retry_after_ms = transfer->call.retry_after_ms };
		if (!judge_item(reader, &attempt->result))
			return false;
		result_text(transfer->outlet->plan, item, &attempt->result);
		attempt = attempt->next;
		found = json_elements_next(&elements, &reader->item, &reader->doc, &item);
	}
	return found == 0 && !attempt;
}

static bool read_verdicts(const struct http_transfer *transfer, struct outlet_result *result)
{
	if (!transfer->call.answered)
		return false;
	struct reader *reader = mem_alloc(sizeof(*reader));
	bool read = false;
	if (reader && !transfer->call.whole.failed) {
		init_reader(reader);
		read = transfer->batch ? read_items(transfer, reader)
		                       : read_single(transfer, reader);
	}
	mem_free(reader);
	if (!read && result->answer == OUTLET_DONE) {
		result->answer = OUTLET_UNKNOWN;
		outlet_result_text(result, SPAN("the answer has no verdict for each event"));
	}
	return read;
}

/* ---- transfers ---- */

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

/* The transfer may be used again before its chain is reported. */
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

static void fail_transfer(struct http_transfer *transfer, bool permanent, const char *why)
{
	struct outlet_result result;
	result_not_sent(&result, permanent, why);
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

static void start_transfer(struct http_transfer *transfer)
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
		fail_transfer(transfer, false, "no memory to send it");
	else
		lane->pin = false;
}

/* ---- attempts to requests, and results to attempts ---- */

/* ---- addresses of a lane's name, and the transfers that wait for them ---- */

/* The line for CURLOPT_RESOLVE. libcurl's URL may have another name than was asked
 * for: that which TLS verifies. */
static int write_pin(struct http_lane *lane, const struct name_addresses *addresses)
{
	struct buf *line = &lane->pin_line;
	buf_clear(line);
	buf_printf(line, "%.255s:%u:", lane->target->name, lane->target->port);
	for (uint32_t i = 0; i < addresses->count; i++) {
		char text[IP_TEXT_MAX];
		ip_format(&addresses->list[i], text);
		buf_printf(line, "%s[%s]", i ? "," : "", text);
	}
	buf_append_char(line, '\0');
	if (line->failed)
		return -ENOMEM;
	lane->pin_node = (struct http_line){ .text = line->ptr };
	lane->pin = true;
	return 0;
}

static struct http_transfer *take_waiting(struct http_lane *lane)
{
	struct http_transfer *list = lane->waiting;
	lane->waiting = NULL;
	lane->waiting_end = &lane->waiting;
	loop_timer_clear(lane->outlet->loop, &lane->late);
	return list;
}

static void fail_waiting(struct http_lane *lane, const char *why)
{
	struct http_transfer *list = take_waiting(lane);
	while (list) {
		struct http_transfer *transfer = list;
		list = list->next;
		fail_transfer(transfer, false, why);
	}
}

static void give_up(struct loop_timer *timer)
{
	struct http_lane *lane = container_of(timer, struct http_lane, late);
	char why[OUTLET_TEXT_MAX];
	snprintf(why, sizeof(why), "no address for %.180s within %u ms", lane->target->host,
	         lane->outlet->plan->options.connect_ms);
	fail_waiting(lane, why);
}

static int lane_init(struct http_lane *lane, struct http_outlet *outlet,
                     const struct http_target *target)
{
	struct name_addresses addresses = { .count = 1 };
	lane->target = target;
	lane->outlet = outlet;
	lane->waiting_end = &lane->waiting;
	lane->late.due = give_up;
	if (!target->literal)
		return 0;
	lane->known = true;
	if (ip_parse(span_str(target->host), &addresses.list[0]))
		return ERR_CONFIG;
	bool same = span_starts(span_skip(span_str(target->name), target->name[0] == '['),
	                        span_str(target->host));
	return same ? 0 : write_pin(lane, &addresses);
}

static void lane_close(struct http_lane *lane)
{
	CHECK(!lane->waiting);
	loop_timer_clear(lane->outlet->loop, &lane->late);
	lane->lookup = name_lookup_free(lane->lookup);
	buf_free(&lane->pin_line);
}

static bool is_current(const struct http_lane *lane)
{
	if (!lane->known || lane->target->literal)
		return lane->known;
	return loop_now_ms(lane->outlet->loop) - lane->known_ms <
	       lane->outlet->plan->options.name_ms;
}

static void lane_start(struct http_lane *lane, struct http_transfer *transfer)
{
	struct http_outlet *outlet = lane->outlet;
	struct name_lookup_question question = { .host = lane->target->host,
		                                 .loop = outlet->loop,
		                                 .ask = outlet->lookup };
	if (is_current(lane)) {
		start_transfer(transfer);
		return;
	}
	if (!lane->lookup && name_lookup_start(&question, &lane->lookup)) {
		fail_transfer(transfer, false, "no thread to look up its address");
		return;
	}
	if (!lane->waiting &&
	    loop_timer_set(outlet->loop, &lane->late, outlet->plan->options.connect_ms)) {
		fail_transfer(transfer, false, "no memory to send it");
		return;
	}
	transfer->next = NULL;
	*lane->waiting_end = transfer;
	lane->waiting_end = &transfer->next;
}

/* All addresses are judged, not only the one that would be used. */
static bool are_allowed(struct http_lane *lane, const struct name_addresses *addresses,
                        char why[static OUTLET_TEXT_MAX])
{
	for (uint32_t i = 0; i < addresses->count; i++) {
		const char *special = http_plan_refusal(lane->outlet->plan, &addresses->list[i]);
		if (!special)
			continue;
		char text[IP_TEXT_MAX];
		ip_format(&addresses->list[i], text);
		snprintf(why, OUTLET_TEXT_MAX, "%.100s is at %s, %s address: not allowed",
		         lane->target->host, text, special);
		return false;
	}
	return true;
}

/* Names that cannot be asked for now keep the addresses that they had. */
static bool settle(struct http_lane *lane, int error, const struct name_addresses *addresses,
                   char why[static OUTLET_TEXT_MAX])
{
	bool later = error == EAI_AGAIN || error == EAI_SYSTEM || error == EAI_MEMORY;
	lane->known_ms = loop_now_ms(lane->outlet->loop);
	if (error && later && lane->known)
		return true;
	lane->known = false;
	if (error) {
		snprintf(why, OUTLET_TEXT_MAX, "no address for %.100s: %.100s", lane->target->host,
		         gai_strerror(error));
		return false;
	}
	if (!are_allowed(lane, addresses, why))
		return false;
	if (write_pin(lane, addresses)) {
		snprintf(why, OUTLET_TEXT_MAX, "no memory to send it");
		return false;
	}
	lane->known = true;
	return true;
}

/* Perhaps it has moved. */
static void lane_doubt(struct http_lane *lane)
{
	lane->known_ms = loop_now_ms(lane->outlet->loop) - lane->outlet->plan->options.name_ms;
}

static void lane_poll(struct http_lane *lane)
{
	struct name_addresses addresses;
	char why[OUTLET_TEXT_MAX] = "";
	int error;
	if (!lane->lookup || !name_lookup_ready(lane->lookup, &error, &addresses))
		return;
	lane->lookup = name_lookup_free(lane->lookup);
	if (!settle(lane, error, &addresses, why)) {
		fail_waiting(lane, why);
		return;
	}
	struct http_transfer *list = take_waiting(lane);
	while (list) {
		struct http_transfer *transfer = list;
		list = list->next;
		start_transfer(transfer);
	}
	http_client_run(&lane->outlet->client);
}

/* ---- the outlet ---- */

static void fail_chain(struct outlet_attempt *chain, bool permanent, const char *why)
{
	struct outlet_result result;
	result_not_sent(&result, permanent, why);
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
		fail_transfer(transfer, permanent, permanent ? text.text : error_name(error));
	} else {
		lane_start(lane, transfer);
	}
}

static void finish(struct http_call *call, enum http_end end)
{
	struct http_transfer *transfer = container_of(call, struct http_transfer, call);
	struct outlet_result result;
	result_of(transfer, end, &result);
	bool each = transfer->outlet->plan->options.verdicts && read_verdicts(transfer, &result);
	if (end == HTTP_END_CONNECT)
		lane_doubt(transfer->lane);
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
		lane_poll(&outlet->lanes[i]);
	if (likely(!atomic_load_explicit(&outlet->interrupted, memory_order_relaxed)))
		return;
	for (size_t i = 0; i < ARRAY_LEN(outlet->lanes); i++)
		if (outlet->lanes[i].waiting)
			fail_waiting(&outlet->lanes[i], "interrupted");
	http_client_abort(&outlet->client, "interrupted");
}

static void free_outlet(struct outlet *base)
{
	struct http_outlet *outlet = of(base);
	loop_hook_remove(outlet->loop, &outlet->hook);
	for (size_t i = 0; i < ARRAY_LEN(outlet->lanes); i++) {
		struct http_lane *lane = &outlet->lanes[i];
		if (lane->outlet)
			lane_close(lane);
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
		error = lane_init(&outlet->lanes[0], outlet, &plan->request);
	if (!error && has_probe)
		error = lane_init(&outlet->lanes[1], outlet, &plan->probe);
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
