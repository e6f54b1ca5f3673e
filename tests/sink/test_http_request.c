/* What an HTTP request of ours carries: keys, headers, signatures, templates, batches;
 * and what options are refused. */
#include "sink/http_kit.h"

#include <stdlib.h>

#include "base/base64.h"
#include "base/secret.h"
#include "gate/ticket.h"

static const char *ticket_of(uint64_t ticket)
{
	static char text[TICKET_TEXT_LEN + 1];
	ticket_text(ticket, text);
	return text;
}

printf_like(2, 3) static void expect_line(struct hostile *server, const char *format, ...)
{
	char line[512];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (!hostile_has_line(server, line))
		fail_msg("expected the line \"%s\" in:\n%s", line, server->head);
}

static void every_attempt_carries_the_same_key_and_bytes(void **state)
{
	struct http_scene scene;
	(void)state;
	http_scene_begin(&scene, "/ok");
	http_kit_open(&scene.kit, &scene.options);
	for (uint32_t number = 1; number <= 3; number++) {
		struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
		attempt.ticket = KIT_TICKET + 1; /* of its leg */
		attempt.number = number;
		attempt.payload = SPAN("{ \"id\" : \"a1\"\n}\n");
		http_kit_send(&scene.kit, &attempt);
		expect_line(&scene.server, "Idempotency-Key: %s", ticket_of(KIT_TICKET));
		expect_line(&scene.server, "webhook-id: %s", ticket_of(KIT_TICKET));
		expect_line(&scene.server, "Stile-Attempt: %u", number);
		expect_line(&scene.server, "Stile-Source: shop");
		expect_line(&scene.server, "Content-Type: application/json");
		expect_line(&scene.server, "User-Agent: stile/%s", STILE_VERSION);
		assert_false(hostile_has_name(&scene.server, "Expect"));
		assert_false(hostile_has_name(&scene.server, "webhook-signature"));
		assert_true(hostile_begins(&scene.server, "POST /ok HTTP/1.1\r\n"));
		assert_true(hostile_body_is(&scene.server, "{ \"id\" : \"a1\"\n}\n"));
	}
	http_scene_end(&scene);
}

static void a_large_body_arrives_whole(void **state)
{
	struct http_scene scene;
	size_t len = 3u << 20;
	char *body = malloc(len + 1);
	(void)state;
	for (size_t i = 0; i < len; i++)
		body[i] = (char)('a' + i * 7 % 26);
	body[len] = '\0';
	http_scene_begin(&scene, "/ok");
	http_kit_open(&scene.kit, &scene.options);
	struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
	attempt.payload = span_of(body, len);
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->answer, OUTLET_DONE);
	assert_false(hostile_has_name(&scene.server, "Expect"));
	assert_true(hostile_body_is(&scene.server, body));
	attempt = http_kit_attempt(&scene.kit); /* and nothing at all */
	attempt.payload = SPAN_EMPTY;
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->answer, OUTLET_DONE);
	expect_line(&scene.server, "Content-Length: 0");
	assert_int_equal(scene.server.requests, 2);
	http_scene_end(&scene);
	free(body);
}

static void the_metadata_goes_with_it(void **state)
{
	struct http_scene scene;
	(void)state;
	http_scene_begin(&scene, "/ok");
	scene.options.correlation_header = SPAN("X-Trace");
	http_kit_open(&scene.kit, &scene.options);
	struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
	struct span *texts = attempt.metadata.texts;
	texts[METADATA_CONTENT_TYPE] = SPAN("text/plain; charset=utf-8");
	texts[METADATA_TRACEPARENT] = SPAN(
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
	texts[METADATA_TRACESTATE] = SPAN("congo=t61rcWkgMzE");
	texts[METADATA_CORRELATION] = SPAN("c-1");
	http_kit_send(&scene.kit, &attempt);
	expect_line(&scene.server, "Content-Type: text/plain; charset=utf-8");
	expect_line(&scene.server,
	            "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
	expect_line(&scene.server, "tracestate: congo=t61rcWkgMzE");
	expect_line(&scene.server, "X-Trace: c-1");
	http_scene_end(&scene);
}

static void no_value_can_write_a_header(void **state)
{
	struct http_scene scene;
	const struct http_header_option headers[] = {
		{ .name = SPAN("X-Type"), .value = SPAN("[{type}]") },
		{ .name = SPAN("X-Name"), .value = SPAN("{$.name}") },
	};
	(void)state;
	http_scene_begin(&scene, "/ok/{id}?q={$.name}");
	scene.options.headers.list = headers;
	scene.options.headers.count = ARRAY_LEN(headers);
	http_kit_open(&scene.kit, &scene.options);
	struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
	attempt.source = SPAN("a\r\nEvil: 1");
	struct span *texts = attempt.metadata.texts;
	texts[METADATA_ID] = SPAN("..x/x?y#z\r\nEvil: 2");
	texts[METADATA_TYPE] = SPAN("t\r\nEvil: 3\xc3\xa4%");
	texts[METADATA_CONTENT_TYPE] = SPAN("text/plain\r\nEvil: 4");
	texts[METADATA_TRACEPARENT] = SPAN("00\r\nEvil: 5");
	texts[METADATA_TRACESTATE] = SPAN("\nEvil: 6");
	texts[METADATA_CORRELATION] = SPAN("\xc3\xa4\r\nEvil: 7");
	attempt.payload = SPAN("{\"name\":\"n\\r\\nEvil: 8\\u0000\"}");
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->answer, OUTLET_DONE);
	assert_false(hostile_has_name(&scene.server, "Evil"));
	expect_line(&scene.server, "X-Type: [t%%0D%%0AEvil: 3%%C3%%A4%%25]");
	expect_line(&scene.server, "X-Name: n%%0D%%0AEvil: 8%%00");
	expect_line(&scene.server, "Content-Type: application/json");
	const char *line = "POST /ok/..x%2Fx%3Fy%23z%0D%0AEvil%3A%202?q=n%0D%0AEvil%3A%208%00 HTTP";
	assert_true(hostile_begins(&scene.server, line));
	http_scene_end(&scene);
}

static void own_headers_take_the_place_of_ours(void **state)
{
	struct http_scene scene;
	const struct http_header_option headers[] = {
		{ .name = SPAN("idempotency-key"), .value = SPAN("\"{ticket}\"") },
		{ .name = SPAN("Content-Type"), .value = SPAN("application/cloudevents+json") },
		{ .name = SPAN("User-Agent"), .value = SPAN("shop") },
		{ .name = SPAN("X-Empty"), .value = SPAN("") },
		{ .name = SPAN("X-Secret"), .value = SPAN("{not a place"), .secret = true },
	};
	(void)state;
	http_scene_begin(&scene, "/ok");
	scene.options.method = HTTP_PUT;
	scene.options.headers.list = headers;
	scene.options.headers.count = ARRAY_LEN(headers);
	http_kit_open(&scene.kit, &scene.options);
	struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->answer, OUTLET_DONE);
	expect_line(&scene.server, "idempotency-key: \"%s\"", ticket_of(KIT_TICKET));
	assert_false(hostile_has(&scene.server, "Idempotency-Key:"));
	expect_line(&scene.server, "Content-Type: application/cloudevents+json");
	assert_false(hostile_has_line(&scene.server, "Content-Type: application/json"));
	expect_line(&scene.server, "User-Agent: shop");
	expect_line(&scene.server, "X-Empty:");
	expect_line(&scene.server, "X-Secret: {not a place");
	assert_true(hostile_begins(&scene.server, "PUT /ok "));
	http_scene_end(&scene);
}

static void requests_are_signed_as_standard_webhooks_says(void **state)
{
	/* Key and message of the specification's own example. */
	const struct span secrets[] = {
		SPAN("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
		SPAN("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
	};
	struct http_scene scene;
	unsigned char key[64], code[SIGN_HMAC_LEN];
	size_t len;
	(void)state;
	http_scene_begin(&scene, "/ok");
	memcpy(scene.options.sign, secrets, sizeof(secrets));
	scene.options.sign_count = 2;
	http_kit_open(&scene.kit, &scene.options);
	struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->answer, OUTLET_DONE);
	expect_line(&scene.server, "webhook-timestamp: 1767225600");

	char message[256], text[2][BASE64_LEN(SIGN_HMAC_LEN) + 1] = { "", "" };
	int size = snprintf(message, sizeof(message), "%s.1767225600.%.*s", ticket_of(KIT_TICKET),
	                    (int)attempt.payload.len, attempt.payload.ptr);
	struct span whole = span_of(message, (size_t)size);
	for (size_t i = 0; i < 2; i++) {
		struct sign_hmac_key hmac;
		assert_int_equal(base64_decode(span_skip(secrets[i], 6), key, sizeof(key), &len),
		                 0);
		sign_hmac_key_init(&hmac, span_of(key, len));
		sign_hmac(&hmac, &whole, 1, code);
		struct buf encoded = buf_on(text[i], sizeof(text[i]));
		base64_append(&encoded, span_of(code, sizeof(code)));
	}
	expect_line(&scene.server, "webhook-signature: v1,%s v1,%s", text[0], text[1]);
	http_scene_end(&scene);
}

static void a_missing_value_is_never_sent(void **state)
{
	struct http_scene scene;
	(void)state;
	http_scene_begin(&scene, "/ok/{$.orderId}");
	http_kit_open(&scene.kit, &scene.options);
	struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->answer, OUTLET_NOT_SENT);
	assert_true(attempt.result.permanent);
	http_kit_expect_text(&attempt.result, "{$.orderId} is missing");
	attempt = http_kit_attempt(&scene.kit);
	attempt.json = false;
	attempt.payload = SPAN("no json");
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->answer, OUTLET_NOT_SENT);
	assert_true(attempt.result.permanent);
	attempt = http_kit_attempt(&scene.kit);
	assert_int_equal(scene.server.connections, 0);
	http_scene_end(&scene);
}

/* Servers there are that decode %2F and %5C before they follow the dots. */
static void a_value_that_climbs_is_never_sent(void **state)
{
	struct http_scene scene;
	const struct span values[] = {
		SPAN("{\"orderId\":\"..\"}"),       SPAN("{\"orderId\":\".\"}"),
		SPAN("{\"orderId\":\"../admin\"}"), SPAN("{\"orderId\":\"7/../../admin\"}"),
		SPAN("{\"orderId\":\"7/..\"}"),     SPAN("{\"orderId\":\"..\\\\admin\"}"),
	};
	(void)state;
	http_scene_begin(&scene, "/ok/{$.orderId}");
	http_kit_open(&scene.kit, &scene.options);
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
		attempt.payload = values[i];
		assert_int_equal(http_kit_send(&scene.kit, &attempt)->answer, OUTLET_NOT_SENT);
		assert_true(attempt.result.permanent);
		http_kit_expect_text(&attempt.result, ". or ..");
	}
	assert_int_equal(scene.server.connections, 0);
	struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
	attempt.payload = SPAN("{\"orderId\":\"a/..b/...\"}");
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->answer, OUTLET_DONE);
	http_scene_end(&scene);
}

static void a_template_makes_the_body(void **state)
{
	struct http_scene scene;
	(void)state;
	http_scene_begin(&scene, "/ok");
	scene.options.body = SPAN(
		"{\"key\":\"{ticket}\",\"n\":{$.n},\"from\":{source},\"all\":{$}}");
	http_kit_open(&scene.kit, &scene.options);
	struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->answer, OUTLET_DONE);
	char body[256];
	snprintf(
		body, sizeof(body),
		"{\"key\":\"%s\",\"n\":{\"x\":7},\"from\":\"shop\",\"all\":{\"id\":\"a1\",\"n\":{\"x\":7}}}",
		ticket_of(KIT_TICKET));
	assert_true(hostile_body_is(&scene.server, body));
	http_scene_end(&scene);
}

static void a_form_is_a_body_too(void **state)
{
	struct http_scene scene;
	(void)state;
	http_scene_begin(&scene, "/ok");
	scene.options.body = SPAN("to={$.to}&n={$.n}");
	scene.options.body_is_form = true;
	http_kit_open(&scene.kit, &scene.options);
	struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
	attempt.payload = SPAN("{\"to\":\"+49 30\",\"n\":1.50}");
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->answer, OUTLET_DONE);
	assert_true(hostile_body_is(&scene.server, "to=%2B49%2030&n=1.50"));
	expect_line(&scene.server, "Content-Type: application/x-www-form-urlencoded");
	http_scene_end(&scene);
}

#define BATCH 5

static void fill_batch(struct http_kit *kit, struct outlet_attempt attempts[static BATCH])
{
	static const char *const payloads[BATCH] = { "{\"id\":1}", "{\n\"id\":\r\n2}",
		                                     "plain \"x\"", "[4]", "5" };
	http_kit_fill(kit, attempts, BATCH);
	for (size_t i = 0; i < BATCH; i++) {
		attempts[i].event = KIT_TICKET + i;
		attempts[i].json = i != 2;
		attempts[i].payload = span_str(payloads[i]);
	}
}

static void expect_batch(enum http_batch kind, const char *body, const char *type)
{
	struct http_scene scene;
	struct outlet_attempt attempts[BATCH];
	http_scene_begin(&scene, "/ok");
	scene.options.batch = kind;
	scene.options.batch_events = 10;
	http_kit_open(&scene.kit, &scene.options);
	assert_int_equal(scene.kit.outlet->batch_max, 10);
	fill_batch(&scene.kit, attempts);
	http_kit_send(&scene.kit, attempts);
	for (size_t i = 0; i < BATCH; i++) {
		assert_int_equal(attempts[i].result.answer, OUTLET_DONE);
		assert_int_equal(attempts[i].result.status, 200);
	}
	assert_int_equal(scene.server.requests, 1);
	assert_true(hostile_body_is(&scene.server, body));
	expect_line(&scene.server, "Content-Type: %s", type);
	char tickets[128] = "";
	for (size_t i = 0; i < BATCH; i++)
		snprintf(tickets + strlen(tickets), sizeof(tickets) - strlen(tickets), "%s%s",
		         i ? "," : "", ticket_of(KIT_TICKET + i));
	expect_line(&scene.server, "Stile-Tickets: %s", tickets);
	char first_key[64];
	pthread_mutex_lock(&scene.server.lock);
	snprintf(first_key, sizeof(first_key), "%.49s",
	         strstr(scene.server.head, "Idempotency-Key: "));
	pthread_mutex_unlock(&scene.server.lock);
	fill_batch(&scene.kit, attempts); /* the same company: the same key */
	http_kit_send(&scene.kit, attempts);
	assert_true(hostile_has(&scene.server, first_key));
	fill_batch(&scene.kit, attempts);
	attempts[3].next = NULL; /* another: another */
	http_kit_send(&scene.kit, attempts);
	assert_false(hostile_has(&scene.server, first_key));
	http_scene_end(&scene);
}

static void a_batch_is_one_request(void **state)
{
	(void)state;
	expect_batch(HTTP_BATCH_NDJSON, "{\"id\":1}\n{ \"id\":  2}\n\"plain \\\"x\\\"\"\n[4]\n5\n",
	             "application/x-ndjson");
	expect_batch(HTTP_BATCH_ARRAY, "[{\"id\":1},{ \"id\":  2},\"plain \\\"x\\\"\",[4],5]",
	             "application/json");
}

static void a_batch_is_cut_by_events_and_bytes(void **state)
{
	struct http_scene scene;
	struct outlet_attempt attempts[BATCH];
	(void)state;
	http_scene_begin(&scene, "/ok");
	scene.options.batch = HTTP_BATCH_ARRAY;
	scene.options.batch_events = 2;
	http_kit_open(&scene.kit, &scene.options);
	fill_batch(&scene.kit, attempts);
	http_kit_send(&scene.kit, attempts);
	assert_int_equal(scene.server.requests, 3);
	http_scene_end(&scene);
	http_scene_begin(&scene, "/ok");
	scene.options.batch = HTTP_BATCH_ARRAY;
	scene.options.batch_bytes = 1;
	http_kit_open(&scene.kit, &scene.options);
	fill_batch(&scene.kit, attempts);
	http_kit_send(&scene.kit, attempts);
	assert_int_equal(scene.server.requests, BATCH);
	http_scene_end(&scene);
}

/* A 200 that does not say what became of the events says nothing. */
static void an_answer_without_verdicts_is_unknown(void **state)
{
	static const struct {
		const char *path;
		enum outlet_answer answer;
	} all[] = { { "/short", OUTLET_UNKNOWN },
		    { "/half-body-stall", OUTLET_UNKNOWN },
		    { "/bad-chunk", OUTLET_REFUSED } };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct http_scene scene;
		struct outlet_attempt attempts[BATCH];
		http_scene_begin(&scene, all[i].path);
		scene.options.verdicts = true;
		scene.options.timeout_ms = 300;
		http_kit_open(&scene.kit, &scene.options);
		fill_batch(&scene.kit, attempts);
		attempts[2].json = true; /* all in one request */
		attempts[2].payload = SPAN("{}");
		http_kit_send(&scene.kit, attempts);
		for (size_t k = 0; k < BATCH; k++)
			assert_int_equal(attempts[k].result.answer, all[i].answer);
		assert_int_equal(scene.server.requests, 1);
		http_scene_end(&scene);
	}
}

static void one_bad_event_does_not_spoil_its_batch(void **state)
{
	struct http_scene scene;
	struct outlet_attempt attempts[BATCH];
	(void)state;
	http_scene_begin(&scene, "/ok");
	scene.options.batch = HTTP_BATCH_ARRAY;
	scene.options.body = SPAN("{\"i\":{$.id}}");
	http_kit_open(&scene.kit, &scene.options);
	fill_batch(&scene.kit, attempts);
	http_kit_send(&scene.kit, attempts);
	for (size_t i = 0; i < BATCH; i++) {
		bool good = i < 2;
		assert_int_equal(attempts[i].result.answer, good ? OUTLET_DONE : OUTLET_NOT_SENT);
		assert_int_equal(attempts[i].result.permanent, !good);
	}
	assert_int_equal(scene.server.requests, 2);
	http_scene_end(&scene);
}

static void a_probe_asks(void **state)
{
	static const struct {
		const char *id;
		enum outlet_answer answer;
	} all[] = {
		{ "ok", OUTLET_DONE },       { "204", OUTLET_DONE },
		{ "404", OUTLET_NOT_FOUND }, { "410", OUTLET_NOT_FOUND },
		{ "400", OUTLET_REFUSED },   { "redirect", OUTLET_REFUSED },
		{ "503", OUTLET_REFUSED },   { "read-close", OUTLET_UNKNOWN },
	};
	const struct http_header_option header = { .name = SPAN("X-Key"),
		                                   .value = SPAN("{ticket}") };
	struct http_scene scene;
	char url[128];
	(void)state;
	http_scene_begin(&scene, "/ok");
	assert_null(strstr(scene.kit.url, "{"));
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/{id}?key={ticket}", scene.server.port);
	scene.options.probe = span_str(url);
	scene.options.headers = (struct http_headers){ 1, &header };
	http_kit_open(&scene.kit, &scene.options);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
		attempt.metadata.texts[METADATA_ID] = span_str(all[i].id);
		scene.kit.under_way = 1;
		scene.kit.outlet->methods->probe(scene.kit.outlet, &attempt);
		http_kit_wait(&scene.kit);
		assert_int_equal(attempt.result.answer, all[i].answer);
		assert_true(hostile_begins(&scene.server, "GET /"));
		expect_line(&scene.server, "X-Key: %s", ticket_of(KIT_TICKET));
		assert_false(hostile_has_name(&scene.server, "Content-Length"));
	}
	http_scene_end(&scene);
}

static void there_is_no_probe_without_a_url(void **state)
{
	struct http_scene scene;
	(void)state;
	http_scene_begin(&scene, "/ok");
	http_kit_open(&scene.kit, &scene.options);
	assert_null(scene.kit.outlet->methods->probe);
	http_scene_end(&scene);
}

static void secrets_are_in_no_text(void **state)
{
	struct http_scene scene;
	const struct http_header_option headers[] = {
		{ .name = SPAN("Authorization"), .value = SPAN("Bearer canary-one") },
		{ .name = SPAN("X-Thing"), .value = SPAN("canary-two"), .secret = true },
	};
	(void)state;
	http_scene_begin(&scene, "/echo?code=canary-three");
	scene.options.headers.list = headers;
	scene.options.headers.count = ARRAY_LEN(headers);
	http_kit_open(&scene.kit, &scene.options);
	struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->status, 500);
	expect_line(&scene.server, "Authorization: Bearer canary-one");
	http_kit_expect_text(&attempt.result, "/echo?***");
	assert_null(memmem(attempt.result.text, attempt.result.text_len, "canary", 6));
	http_scene_end(&scene);
}

/* A place in the URL, and a server that repeats what it was told in its own words. */
static void a_secret_in_a_query_with_places_is_in_no_text(void **state)
{
	struct http_scene scene;
	(void)state;
	http_scene_begin(&scene, "/echo?n={id}&code=canary-four");
	http_kit_open(&scene.kit, &scene.options);
	struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
	attempt.metadata.texts[METADATA_ID] = SPAN("a1");
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->status, 500);
	http_kit_expect_text(&attempt.result, "/echo?n=a1&code=***");
	assert_null(memmem(attempt.result.text, attempt.result.text_len, "canary-four", 11));
	http_scene_end(&scene);
}

/* Beside a place for a value the rest of a URL or header is as secret as without one. */
static void secrets_beside_places_are_in_no_text(void **state)
{
	struct http_scene scene;
	const struct http_header_option headers[] = {
		{ .name = SPAN("X-One"), .value = SPAN("v=canary-one;{ticket}"), .hidden = true },
		{ .name = SPAN("X-Key"), .value = SPAN("{ticket} canary-two") },
	};
	(void)state;
	http_scene_begin(&scene, "/echo/canary-of-16-bytes/{ticket}?a={attempt}&code=canary-three");
	scene.options.headers.list = headers;
	scene.options.headers.count = ARRAY_LEN(headers);
	http_kit_open(&scene.kit, &scene.options);
	struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->status, 500);
	http_kit_expect_text(&attempt.result, "/echo/***/");
	http_kit_expect_text(&attempt.result, "&code=***");
	http_kit_expect_text(&attempt.result, "v=***;");
	http_kit_expect_text(&attempt.result, " ***");
	assert_null(memmem(attempt.result.text, attempt.result.text_len, "canary", 6));
	http_scene_end(&scene);
}

/* A server that repeats not the header, but what it found in it. */
static void secret_parts_of_headers_are_in_no_text(void **state)
{
	struct http_scene scene;
	const struct span parts[] = { SPAN("c4n4ry/"), SPAN("a") };
	const struct http_header_option headers[] = {
		{ .name = SPAN("X-A"),
		  .value = SPAN("id=a; key=c4n4ry/; v=1"),
		  .secret = true,
		  .parts = parts,
		  .part_count = ARRAY_LEN(parts) },
	};
	(void)state;
	http_scene_begin(&scene, "/echo/was/c4n4ry/or/c4n4ry%2F");
	scene.options.headers.list = headers;
	scene.options.headers.count = ARRAY_LEN(headers);
	http_kit_open(&scene.kit, &scene.options);
	struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->status, 500);
	expect_line(&scene.server, "X-A: id=a; key=c4n4ry/; v=1");
	http_kit_expect_text(&attempt.result, "/echo/was/***or/***");
	assert_null(memmem(attempt.result.text, attempt.result.text_len, "c4n4ry", 6));
	http_scene_end(&scene);
}

static void expect_refusal(const struct http_outlet_options *options, const char *part)
{
	struct error_text text = { "" };
	assert_int_equal(http_outlet_check(options, &text), ERR_CONFIG);
	if (!strstr(text.text, part))
		fail_msg("expected \"%s\" in \"%s\"", part, text.text);
}

static void bad_urls_are_refused(void **state)
{
	static const char *const urls[][2] = {
		{ "", "http://" },
		{ "crm.example.com", "http://" },
		{ "ftp://crm.example.com/", "http" },
		{ "file:///etc/passwd", "http" },
		{ "http://user:secret@crm.example.com/", "without a user" },
		{ "http://user@crm.example.com/", "without a user" },
		{ "http://{$.host}/", "fixed host" },
		{ "https://crm.example.com:{id}/", "fixed host" },
		{ "http://crm.example.com/#part", "fragment" },
		{ "http://crm.example.com/{nothing}", "{ticket}" },
		{ "http://crm.example.com/{$.a", "}" },
		{ "http://crm.example.com/{$}", "JSON" },
		{ "http://crm.example.com/a b", "blanks" },
		{ "http://crm.example.com:99999/", "port" },
		{ "http:///path", "host" },
		{ "http://127.0.0.1/", "a loopback address" },
		{ "http://127.1/", "a loopback address" },
		{ "http://0x7f000001/", "a loopback address" },
		{ "http://2130706433/", "a loopback address" },
		{ "http://017700000001/", "a loopback address" },
		{ "http://[::1]/", "a loopback address" },
		{ "http://[::ffff:127.0.0.1]/", "a loopback address" },
		{ "http://[::ffff:7f00:1]/", "a loopback address" },
		{ "http://[64:ff9b::7f00:1]/", "a NAT64 address" },
		{ "http://[2002:7f00:1::]/", "a 6to4 address" },
		{ "http://10.0.0.1/", "a private address" },
		{ "http://169.254.169.254/latest/meta-data", "a link-local address" },
		{ "http://0.0.0.0/", "an unspecified address" },
		{ "http://[fe80::1%25lo]/", "" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
		struct http_outlet_options options = { .url = span_str(urls[i][0]) };
		expect_refusal(&options, urls[i][1]);
	}
}

static void bad_options_are_refused(void **state)
{
	struct http_outlet_options base = { .url = SPAN("http://crm.example.com/") };
	struct http_outlet_options options = base;
	struct error_text text;
	(void)state;
	assert_int_equal(http_outlet_check(&base, &text), 0);
	static const char *const names[] = {
		"Host", "content-length", "Transfer-Encoding", "Expect", "webhook-id", "a b", "",
		"x:y",  "a\r\nb"
	};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct http_header_option header = { .name = span_str(names[i]),
			                             .value = SPAN("x") };
		options.headers.list = &header;
		options.headers.count = 1;
		expect_refusal(&options, "headers");
	}
	struct http_header_option header = { .name = SPAN("a"), .value = SPAN("x\r\ny: z") };
	options.headers.list = &header;
	expect_refusal(&options, "header");
	header.secret = true;
	expect_refusal(&options, "secret with a line end");
	options = base;
	options.body = SPAN("{\"a\":{$.x}");
	expect_refusal(&options, "body: no JSON");
	options.body = SPAN("{\"try\":{attempt}}");
	expect_refusal(&options, "body: {attempt}");
	options = base;
	options.sign[0] = SPAN("whsec_short");
	options.sign_count = 1;
	expect_refusal(&options, "sign");
	options = base;
	options.batch = HTTP_BATCH_ARRAY;
	options.url = SPAN("http://crm.example.com/{id}");
	expect_refusal(&options, "batch");
	options = base;
	options.cert_file = "x";
	expect_refusal(&options, "tls");
	options = base;
	options.server_name = SPAN("x");
	expect_refusal(&options, "tls");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_attempt_carries_the_same_key_and_bytes),
		cmocka_unit_test(a_large_body_arrives_whole),
		cmocka_unit_test(the_metadata_goes_with_it),
		cmocka_unit_test(no_value_can_write_a_header),
		cmocka_unit_test(own_headers_take_the_place_of_ours),
		cmocka_unit_test(requests_are_signed_as_standard_webhooks_says),
		cmocka_unit_test(a_missing_value_is_never_sent),
		cmocka_unit_test(a_value_that_climbs_is_never_sent),
		cmocka_unit_test(a_template_makes_the_body),
		cmocka_unit_test(a_form_is_a_body_too),
		cmocka_unit_test(a_batch_is_one_request),
		cmocka_unit_test(a_batch_is_cut_by_events_and_bytes),
		cmocka_unit_test(an_answer_without_verdicts_is_unknown),
		cmocka_unit_test(one_bad_event_does_not_spoil_its_batch),
		cmocka_unit_test(a_probe_asks),
		cmocka_unit_test(there_is_no_probe_without_a_url),
		cmocka_unit_test(secrets_are_in_no_text),
		cmocka_unit_test(a_secret_in_a_query_with_places_is_in_no_text),
		cmocka_unit_test(secrets_beside_places_are_in_no_text),
		cmocka_unit_test(secret_parts_of_headers_are_in_no_text),
		cmocka_unit_test(bad_urls_are_refused),
		cmocka_unit_test(bad_options_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
