/* http_request: attempts to URL, headers and body. See http_internal.h. */
#include "base/base64.h"
#include "base/hash.h"
#include "base/text.h"
#include "gate/ticket.h"
#include "sink/http/http_internal.h"
#include "sink/outlet.h"

#define KEY_MAX 40 /* bytes of the text of a key */

/* The key of a request: the same for the same events. */
struct key {
	size_t len;
	char text[KEY_MAX];
};

/* The caller has checked that the value is fit for a header. */
static void add_line(struct http_transfer *transfer, struct span name, struct span value)
{
	struct buf *text = &transfer->text;
	CHECK(transfer->line_count < HTTP_LINES_MAX);
	transfer->lines[transfer->line_count++] = (uint32_t)text->len;
	buf_append_span(text, name);
	buf_append_span(text, SPAN(": "));
	buf_append_span(text, value);
	buf_append_char(text, '\0');
}

static bool is_replaced(const struct http_transfer *transfer, enum http_builtin builtin)
{
	return transfer->lane->target->replaced & 1u << builtin;
}

static void add_builtin(struct http_transfer *transfer, enum http_builtin builtin,
                        struct span value)
{
	if (!is_replaced(transfer, builtin))
		add_line(transfer, http_builtin_name(builtin), value);
}

static void add_number(struct http_transfer *transfer, enum http_builtin builtin, uint64_t value)
{
	char digits[TEXT_U64_MAX];
	add_builtin(transfer, builtin, span_of(digits, text_u64(digits, value)));
}

/* Printable ASCII: what came as a header can leave as one. */
static bool is_plain(struct span text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.ptr[i] < ' ' || text.ptr[i] > '~')
			return false;
	return text.len > 0;
}

/* What is not plain is left out: half a value would be another one. */
static void add_plain(struct http_transfer *transfer, enum http_builtin builtin, struct span value)
{
	if (is_plain(value))
		add_builtin(transfer, builtin, value);
}

static void key_of(const struct http_transfer *transfer, struct key *ret_key)
{
	static const unsigned char no_secret[HASH_KEY_LEN];
	static const char hex[] = "0123456789abcdef";
	const struct outlet_attempt *chain = transfer->chain;
	uint64_t tickets[HTTP_BATCH_MAX];
	uint64_t words[2];
	size_t count = 0;
	for (const struct outlet_attempt *at = chain; at; at = at->next)
		tickets[count++] = at->event;
	if (count == 1) {
		ret_key->len = TICKET_TEXT_LEN;
		ticket_text(chain->event, ret_key->text);
		return;
	}
	hash_keyed128(no_secret, tickets, count * sizeof(tickets[0]), words);
	ret_key->len = 32;
	for (size_t i = 0; i < 32; i++)
		ret_key->text[i] = hex[words[i / 16] >> (60 - i % 16 * 4) & 15];
}

static void add_tickets(struct http_transfer *transfer)
{
	char memory[HTTP_BATCH_MAX * (TICKET_TEXT_LEN + 1)];
	struct buf list = buf_on(memory, sizeof(memory));
	for (const struct outlet_attempt *at = transfer->chain; at; at = at->next) {
		char ticket[TICKET_TEXT_LEN];
		ticket_text(at->event, ticket);
		if (list.len > 0)
			buf_append_char(&list, ',');
		buf_append(&list, ticket, sizeof(ticket));
	}
	CHECK(!list.failed);
	add_builtin(transfer, HTTP_TICKETS, buf_span(&list));
}

/* Standard Webhooks: the codes of "id.time.body", one for each secret. */
static void add_signature(struct http_transfer *transfer, const struct key *key, struct span body)
{
	const struct http_plan *plan = transfer->outlet->plan;
	char digits[TEXT_U64_MAX];
	char memory[HTTP_SECRETS_MAX * (4 + BASE64_LEN(SIGN_HMAC_LEN)) + 1];
	struct buf codes = buf_on(memory, sizeof(memory));
	uint64_t seconds = clock_read(transfer->outlet->clock).wall_ms / 1000;
	struct span time = span_of(digits, text_u64(digits, seconds));
	struct span parts[] = { span_of(key->text, key->len), SPAN("."), time, SPAN("."), body };
	for (uint32_t i = 0; i < plan->sign_count; i++) {
		unsigned char code[SIGN_HMAC_LEN];
		sign_hmac(&plan->sign_keys[i], parts, ARRAY_LEN(parts), code);
		buf_append_span(&codes, i ? SPAN(" v1,") : SPAN("v1,"));
		base64_append(&codes, span_of(code, sizeof(code)));
	}
	CHECK(!codes.failed);
	add_builtin(transfer, HTTP_WEBHOOK_TIMESTAMP, time);
	add_builtin(transfer, HTTP_WEBHOOK_SIGNATURE, buf_span(&codes));
}

static void add_content_type(struct http_transfer *transfer)
{
	const struct http_plan *plan = transfer->outlet->plan;
	struct span type = plan->content_type;
	if (type.len == 0 || (plan->options.verdicts && !transfer->batch))
		type = transfer->chain->metadata.texts[METADATA_CONTENT_TYPE];
	add_builtin(transfer, HTTP_CONTENT_TYPE, is_plain(type) ? type : SPAN("application/json"));
}

/* Those that tell of one event, and have no meaning for many. */
static void add_metadata(struct http_transfer *transfer)
{
	const struct metadata *metadata = &transfer->chain->metadata;
	struct span correlation = metadata->texts[METADATA_CORRELATION];
	add_plain(transfer, HTTP_TRACEPARENT, metadata->texts[METADATA_TRACEPARENT]);
	add_plain(transfer, HTTP_TRACESTATE, metadata->texts[METADATA_TRACESTATE]);
	if (is_plain(correlation) && !is_replaced(transfer, HTTP_CORRELATION))
		add_line(transfer, transfer->outlet->plan->options.correlation_header, correlation);
}

static void add_attempt(struct http_transfer *transfer)
{
	const struct outlet_attempt *chain = transfer->chain;
	uint32_t number = 0;
	bool same = true;
	CHECK(chain);
	for (const struct outlet_attempt *at = chain; at; at = at->next) {
		number = at->number > number ? at->number : number;
		same &= span_eq(at->source, chain->source);
	}
	add_number(transfer, HTTP_ATTEMPT, number);
	if (same)
		add_plain(transfer, HTTP_SOURCE, chain->source);
}

static void add_builtins(struct http_transfer *transfer, struct span body)
{
	struct key key;
	key_of(transfer, &key);
	add_builtin(transfer, HTTP_KEY, span_of(key.text, key.len));
	add_builtin(transfer, HTTP_WEBHOOK_ID, span_of(key.text, key.len));
	add_attempt(transfer);
	add_content_type(transfer);
	if (!transfer->chain->next)
		add_metadata(transfer);
	if (transfer->batch)
		add_tickets(transfer);
	if (transfer->outlet->plan->sign_count > 0)
		add_signature(transfer, &key, body);
}

static int add_own(struct http_transfer *transfer, struct error_text *ret_text)
{
	const struct http_target *target = transfer->lane->target;
	struct buf *text = &transfer->text;
	int error = 0;
	for (uint32_t i = 0; !error && i < target->own_count; i++) {
		CHECK(transfer->line_count < HTTP_LINES_MAX);
		transfer->lines[transfer->line_count++] = (uint32_t)text->len;
		buf_append_span(text, target->own[i].name);
		buf_append_span(text, SPAN(": "));
		error = template_put(&transfer->outlet->run, target->own[i].number, text, ret_text);
		buf_append_char(text, '\0');
	}
	return error;
}

static int begin_run(struct http_outlet *outlet, const struct outlet_attempt *attempt,
                     struct template_event *event, struct error_text *ret_text)
{
	*event = outlet_template_event(attempt);
	return template_begin(&outlet->run, outlet->plan->templates, event, ret_text);
}

/* One event's part of a batch. */
static int add_item(struct http_transfer *transfer, const struct outlet_attempt *attempt,
                    struct error_text *ret_text)
{
	struct http_outlet *outlet = transfer->outlet;
	struct template_event event;
	struct buf *body = &transfer->body;
	size_t start = body->len;
	int error = 0;
	if (!outlet->plan->has_body) {
		outlet_append_line(body, attempt);
		return 0;
	}
	error = begin_run(outlet, attempt, &event, ret_text);
	if (!error)
		error = template_put(&outlet->run, outlet->plan->body, body, ret_text);
	if (!error)
		outlet_one_line(body, start);
	return error;
}

static int write_batch(struct http_transfer *transfer, struct error_text *ret_text)
{
	bool array = transfer->outlet->plan->options.batch == HTTP_BATCH_ARRAY;
	struct buf *body = &transfer->body;
	int error = 0;
	if (array)
		buf_append_char(body, '[');
	for (const struct outlet_attempt *at = transfer->chain; !error && at; at = at->next) {
		error = add_item(transfer, at, ret_text);
		if (array && at->next)
			buf_append_char(body, ',');
		else
			buf_append_char(body, array ? ']' : '\n');
	}
	return error;
}

static int write_single(struct http_transfer *transfer, struct error_text *ret_text)
{
	struct http_outlet *outlet = transfer->outlet;
	const struct http_target *target = transfer->lane->target;
	struct template_event event;
	int error = begin_run(outlet, transfer->chain, &event, ret_text);
	bool probe = target == &outlet->plan->probe;
	if (!error && !target->url)
		error = http_url_put(target, &outlet->run, &transfer->text, ret_text);
	if (!error)
		error = add_own(transfer, ret_text);
	if (!error && !probe && outlet->plan->has_body)
		error = template_put(&outlet->run, outlet->plan->body, &transfer->body, ret_text);
	return error;
}

int http_request_write(struct http_transfer *transfer, struct error_text *ret_text)
{
	struct http_outlet *outlet = transfer->outlet;
	const struct http_plan *plan = outlet->plan;
	CHECK(transfer->chain);
	bool probe = transfer->lane->target == &plan->probe;
	bool alone = plan->options.verdicts && !transfer->chain->json;
	transfer->batch = plan->options.batch && !probe && !alone;
	int error = transfer->batch ? write_batch(transfer, ret_text)
	                            : write_single(transfer, ret_text);
	if (error)
		return error;
	bool made = transfer->batch || plan->has_body;
	if (!probe)
		add_builtins(transfer, made ? buf_span(&transfer->body) : transfer->chain->payload);
	return transfer->text.failed || transfer->body.failed ? -ENOMEM : 0;
}
