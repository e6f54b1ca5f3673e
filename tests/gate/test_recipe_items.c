/* recipe_items: one request, several events. */
#include "gate/recipe_bench.h"

#define ITEMS_MAX 16

struct batch {
	bool batch;
	enum recipe_step last; /* END or BROKEN */
	int error;
	struct error_text problem;
	uint32_t count;
	enum recipe_step steps[ITEMS_MAX];
	struct recipe_result results[ITEMS_MAX];
	struct error_text problems[ITEMS_MAX];
};

static struct batch run_items(const struct recipe *recipe, struct bench_request request,
                              uint32_t items_max)
{
	struct http1_header headers[BENCH_HEADERS_MAX];
	struct recipe_input input = bench_input(&request, headers);
	struct recipe_items items;
	struct batch batch = { .count = 0 };
	recipe_items_begin(&items, recipe, &bench_scratch, &input);
	if (items_max)
		items.items_max = items_max;
	for (;;) {
		struct recipe_result result;
		struct error_text problem = { "" };
		enum recipe_step step = recipe_items_next(&items, &result, &problem);
		if (step == RECIPE_END || step == RECIPE_BROKEN) {
			batch.last = step;
			batch.batch = items.batch;
			batch.error = items.error;
			batch.problem = problem;
			assert_int_equal(recipe_items_next(&items, &result, &problem), RECIPE_END);
			return batch;
		}
		assert_true(batch.count < ITEMS_MAX);
		batch.steps[batch.count] = step;
		batch.results[batch.count] = result;
		batch.problems[batch.count++] = problem;
		assert_int_equal(items.count, batch.count);
	}
}

static struct batch run_text(const struct recipe *recipe, const char *body,
                             const char *const *headers)
{
	return run_items(recipe,
	                 (struct bench_request){ .body = span_str(body), .headers = headers }, 0);
}

static const char *const ndjson[] = { "Content-Type: application/x-ndjson; charset=utf-8", NULL };

static struct recipe *autos;

static int set_up(void **state)
{
	(void)state;
	autos = bench_preset("auto");
	return 0;
}

static int tear_down(void **state)
{
	recipe_free(autos);
	return bench_tear_down(state);
}

static void assert_payload(const struct recipe_result *result, const char *payload)
{
	if (!span_eq(result->payload, span_str(payload)))
		fail_msg("%.*s", (int)result->payload.len, result->payload.ptr);
}

static void lines_are_events_of_their_own(void **state)
{
	(void)state;
	struct batch batch =
		run_text(autos,
	                 "{\"id\":\"1\"}\n\n  {\"id\":\"2\"} \r\n{\"id\":\n[7]\n{\"id\":\"1\"}",
	                 ndjson);
	assert_true(batch.batch);
	assert_int_equal(batch.last, RECIPE_END);
	assert_int_equal(batch.count, 5);
	assert_int_equal(batch.steps[0], RECIPE_EVENT);
	assert_payload(&batch.results[0], "{\"id\":\"1\"}");
	assert_int_equal(batch.steps[1], RECIPE_EVENT);
	assert_payload(&batch.results[1], "{\"id\":\"2\"}");
	assert_int_equal(batch.steps[2], RECIPE_REFUSED);
	assert_payload(&batch.results[2], "{\"id\":");
	assert_int_equal(batch.steps[3], RECIPE_REFUSED);
	assert_string_equal(batch.problems[3].text, "expected a JSON object, found an array");
	assert_int_equal(batch.steps[4], RECIPE_EVENT);
	assert_true(digest_same_key(&batch.results[0].claims[0].digest,
	                            &batch.results[4].claims[0].digest));
	batch = run_text(autos, " \n", ndjson);
	assert_true(batch.batch && batch.count == 0 && batch.last == RECIPE_END);
}

static void elements_of_an_array_are_events(void **state)
{
	(void)state;
	struct batch batch =
		run_text(autos,
	                 " [ {\"id\":\"1\"} , {\"id\":\"2\",\"id\":\"3\"},{},\n{\"id\":\"4\"} ] ",
	                 NULL);
	assert_true(batch.batch);
	assert_int_equal(batch.last, RECIPE_END);
	assert_int_equal(batch.count, 4);
	assert_int_equal(batch.steps[0], RECIPE_EVENT);
	assert_payload(&batch.results[0], "{\"id\":\"1\"}");
	assert_int_equal(batch.steps[1], RECIPE_REFUSED);
	assert_payload(&batch.results[1], "{\"id\":\"2\",\"id\":\"3\"}");
	assert_string_equal(batch.problems[1].text,
	                    "at byte 10 of it: expected this name only once");
	assert_int_equal(batch.steps[2], RECIPE_REFUSED);
	assert_int_equal(batch.steps[3], RECIPE_EVENT);
	assert_payload(&batch.results[3], "{\"id\":\"4\"}");
	/* An item is the event that it would be alone. */
	struct claim alone = bench_first(autos, "{\"id\":\"4\"}");
	assert_true(digest_same_key(&batch.results[3].claims[0].digest, &alone.digest));
	batch = run_text(autos, "[]", NULL);
	assert_true(batch.batch && batch.count == 0 && batch.last == RECIPE_END);
}

/* Its elements are longer than what the scanner looks ahead. */
static void a_spoilt_element_costs_no_other(void **state)
{
	struct buf body = { .cap = 0 };
	(void)state;
	buf_append_char(&body, '[');
	for (int i = 0; i < 12; i++)
		buf_printf(&body, "%s{\"x\":\"%0300d\",\"id\":\"%d\",\"y\":\"%0400d\"%s}",
		           i ? "," : "", i, i, i, i % 3 == 1 ? ",\"id\":\"again\"" : "");
	buf_append_span(&body, SPAN("]\0"));
	struct batch batch = run_text(autos, body.ptr, NULL);
	assert_int_equal(batch.last, RECIPE_END);
	assert_int_equal(batch.count, 12);
	for (uint32_t i = 0; i < batch.count; i++) {
		char id[16];
		snprintf(id, sizeof(id), "%u", i);
		assert_int_equal(batch.steps[i], i % 3 == 1 ? RECIPE_REFUSED : RECIPE_EVENT);
		if (i % 3 != 1)
			assert_true(span_eq(batch.results[i].event.id.raw, span_str(id)));
	}
	buf_free(&body);
}

static void a_broken_array_is_refused_as_a_whole(void **state)
{
	static const char *const bodies[] = { "[{\"id\":\"1\"},{\"id\":\"2\"", "[{\"id\":\"1\"}{}]",
		                              "[{\"id\":\"1\"},]", "[{\"id\":\"1\"}]x", "[" };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		struct batch batch = run_text(autos, bodies[i], NULL);
		assert_int_equal(batch.last, RECIPE_BROKEN);
		assert_int_equal(batch.error, ERR_INVALID);
	}
	struct batch batch = run_text(autos, "[{\"id\":\"1\"}", NULL);
	assert_string_equal(batch.problem.text, "expected a JSON array of events; at byte 11 of "
	                                        "it: expected a comma or ]");
}

static void more_items_than_allowed_are_refused_as_a_whole(void **state)
{
	struct bench_request array = { .body = SPAN(
					       "[{\"id\":\"1\"},{\"id\":\"2\"},{\"id\":\"3\"}]") };
	struct bench_request lines = {
		.body = SPAN("{\"id\":\"1\"}\n{\"id\":\"2\"}\n{\"id\":\"3\"}\n"), .headers = ndjson
	};
	(void)state;
	struct batch batch = run_items(autos, array, 2);
	assert_int_equal(batch.last, RECIPE_BROKEN);
	assert_int_equal(batch.error, ERR_TOO_LARGE);
	assert_string_equal(batch.problem.text, "expected at most 2 events in one request");
	batch = run_items(autos, lines, 2);
	assert_int_equal(batch.error, ERR_TOO_LARGE);
	assert_int_equal(run_items(autos, array, 3).last, RECIPE_END);
	assert_int_equal(run_items(autos, lines, 3).last, RECIPE_END);
}

static void one_object_is_one_event(void **state)
{
	(void)state;
	struct batch batch = run_text(autos, " {\"id\":\"1\"} ", NULL);
	assert_false(batch.batch);
	assert_int_equal(batch.count, 1);
	assert_int_equal(batch.steps[0], RECIPE_EVENT);
	assert_payload(&batch.results[0], " {\"id\":\"1\"} ");
	batch = run_text(autos, "{}", NULL);
	assert_false(batch.batch);
	assert_int_equal(batch.steps[0], RECIPE_REFUSED);
}

/* What is known by its headers is one event, whatever its body looks like. */
static void an_event_in_headers_is_never_a_batch(void **state)
{
	const char *const webhook[] = { "webhook-id: m1", "webhook-timestamp: 1",
		                        "content-type: application/x-ndjson", NULL };
	const char *const cloudevent[] = { "ce-id: 1", "ce-source: s", "ce-specversion: 1.0",
		                           NULL };
	(void)state;
	struct batch batch = run_text(autos, "[{\"id\":\"1\"},{\"id\":\"2\"}]", webhook);
	assert_false(batch.batch);
	assert_int_equal(batch.count, 1);
	assert_string_equal(batch.results[0].event.name, "standard-webhooks");
	batch = run_text(autos, "[{\"id\":\"1\"},{\"id\":\"2\"}]", cloudevent);
	assert_false(batch.batch);
	assert_string_equal(batch.results[0].event.name, "cloudevents binary");
}

static void a_source_that_never_has_batches_has_none(void **state)
{
	struct recipe_case_spec it = {
		.claim_count = 1,
		.claims = { { .part_count = 1, .parts = { SPAN("[0].id") } } },
	};
	struct recipe *recipe = bench_compile(
		(struct recipe_spec){ .cases = &it, .case_count = 1, .batch = RECIPE_BATCH_NEVER });
	(void)state;
	struct batch batch = run_text(recipe, "[{\"id\":\"1\"},{\"id\":\"2\"}]", NULL);
	assert_false(batch.batch);
	assert_int_equal(batch.steps[0], RECIPE_EVENT);
	recipe_free(recipe);
}

/* Else all items but the first would be duplicates of it. */
static void items_known_by_the_request_alone_have_their_place(void **state)
{
	struct recipe_case_spec it = {
		.condition_count = 1,
		.conditions = { { .part = SPAN("kind") } },
		.claim_count = 2,
		.claims = { { .part_count = 1, .parts = { SPAN("header:x-id") } },
		            { .part_count = 1, .parts = { SPAN("kind") } } },
	};
	struct recipe *recipe = bench_compile(
		(struct recipe_spec){ .cases = &it, .case_count = 1 });
	const char *const headers[] = { "x-id: 7", NULL };
	(void)state;
	struct batch batch = run_text(recipe, "[{\"kind\":1},{\"kind\":1}]", headers);
	assert_int_equal(batch.count, 2);
	assert_false(digest_same_key(&batch.results[0].claims[0].digest,
	                             &batch.results[1].claims[0].digest));
	assert_true(digest_same_key(&batch.results[0].claims[1].digest,
	                            &batch.results[1].claims[1].digest));
	struct batch again = run_text(recipe, "[{\"kind\":1},{\"kind\":1}]", headers);
	assert_true(digest_same_key(&batch.results[1].claims[0].digest,
	                            &again.results[1].claims[0].digest));
	recipe_free(recipe);
}

static void records_are_events_and_so_is_what_is_in_them(void **state)
{
	static const char body[] =
		"{\"Records\":[{\"messageId\":\"m1\",\"body\":\"words\",\"eventSource\":\"aws:sqs\","
		"\"eventSourceARN\":\"arn:q\",\"attributes\":{\"ApproximateReceiveCount\":\"1\"}},"
		"{\"messageId\":\"m2\",\"eventSource\":\"aws:sqs\",\"eventSourceARN\":\"arn:q\","
		"\"body\":\"{\\\"id\\\":\\\"e1\\\",\\\"source\\\":\\\"s\\\",\\\"detail-type\\\":\\\"t\\\","
		"\\\"detail\\\":{}}\"},"
		"{\"messageId\":\"m3\",\"eventSource\":\"aws:sqs\",\"eventSourceARN\":\"arn:q\","
		"\"body\":\"{\\\"Type\\\":\\\"Notification\\\",\\\"MessageId\\\":\\\"n1\\\","
		"\\\"TopicArn\\\":\\\"arn:t\\\",\\\"Message\\\":\\\"{\\\\\\\"id\\\\\\\":\\\\\\\"e2\\\\\\\","
		"\\\\\\\"source\\\\\\\":\\\\\\\"s\\\\\\\",\\\\\\\"detail-type\\\\\\\":\\\\\\\"t\\\\\\\","
		"\\\\\\\"detail\\\\\\\":1}\\\"}\"},"
		"{\"messageId\":\"\"}]}";
	struct recipe *lambda = bench_preset("lambda");
	(void)state;
	struct batch batch = run_text(lambda, body, NULL);
	assert_true(batch.batch);
	assert_int_equal(batch.count, 4);
	assert_string_equal(batch.results[0].event.name, "sqs record");
	assert_true(batch.results[0].payload.ptr > body && batch.results[0].payload.ptr[0] == '{');
	assert_string_equal(batch.results[1].event.name, "eventbridge");
	assert_memory_equal(batch.results[1].payload.ptr, "{\"messageId\":\"m2\"", 17);
	assert_string_equal(batch.results[2].event.name, "eventbridge");
	assert_int_equal(batch.steps[3], RECIPE_REFUSED);
	/* The event inside is the one that would have come by itself. */
	struct claim alone =
		bench_first(lambda,
	                    "{\"id\":\"e1\",\"source\":\"s\",\"detail-type\":\"t\",\"detail\":{}}");
	assert_true(digest_same_key(&batch.results[1].claims[0].digest, &alone.digest));
	alone = bench_first(lambda,
	                    "{\"id\":\"e2\",\"source\":\"s\",\"detail-type\":\"t\",\"detail\":1}");
	assert_true(digest_same_key(&batch.results[2].claims[0].digest, &alone.digest));
	struct bench_run run = bench_body(lambda, body);
	assert_string_equal(run.problem.text,
	                    "expected one event, found a batch of them (lambda batch)");
	recipe_free(lambda);
}

/* A record that comes again has another receipt and count, and the same content. */
static void a_record_that_comes_again_is_no_conflict(void **state)
{
	static const char *const records[] = {
		"{\"messageId\":\"m1\",\"body\":\"words\",\"receiptHandle\":\"a\",\"eventSource\":\"aws:sqs\","
		"\"eventSourceARN\":\"arn\",\"attributes\":{\"ApproximateReceiveCount\":\"1\"}}",
		"{\"messageId\":\"m1\",\"body\":\"words\",\"receiptHandle\":\"b\",\"eventSource\":\"aws:sqs\","
		"\"eventSourceARN\":\"arn\",\"attributes\":{\"ApproximateReceiveCount\":\"2\"}}",
	};
	(void)state;
	struct bench_run a = bench_body(autos, records[0]);
	struct bench_run b = bench_body(autos, records[1]);
	assert_int_equal(a.error, 0);
	assert_int_equal(a.result.event.content, b.result.event.content);
	assert_memory_equal(&a.result.claims[0].digest, &b.result.claims[0].digest,
	                    sizeof(struct digest));
}

static void journey_events_come_in_entities(void **state)
{
	struct recipe *journey = bench_preset("journey");
	(void)state;
	struct batch batch = run_text(
		journey,
		"{\"entities\":[{\"id\":\"e1\",\"dateCreated\":\"2026-01-02T03:04:05Z\",\"identifiers\":[1],"
		"\"attributes\":{}},{\"id\":\"e2\"}]}",
		NULL);
	assert_true(batch.batch);
	assert_int_equal(batch.count, 2);
	assert_int_equal(batch.steps[0], RECIPE_EVENT);
	assert_int_equal(batch.steps[1], RECIPE_REFUSED);
	/* A plain event may have entities of its own. */
	batch = run_text(autos, "{\"id\":\"1\",\"entities\":[{\"id\":\"2\"}]}", NULL);
	assert_false(batch.batch);
	assert_string_equal(batch.results[0].event.name, "plain");
	recipe_free(journey);
}

static void inner_events_end_somewhere(void **state)
{
	struct buf text = { .cap = 0 };
	struct buf next = { .cap = 0 };
	(void)state;
	buf_append_span(&text, SPAN("{\"id\":\"x\"}"));
	for (int i = 0; i < 6; i++) {
		buf_clear(&next);
		buf_append_span(
			&next,
			SPAN("{\"Type\":\"n\",\"TopicArn\":\"t\",\"MessageId\":\"m\",\"Message\":"));
		buf_append_json(&next, buf_span(&text));
		buf_append_char(&next, '}');
		struct buf other = text;
		text = next;
		next = other;
		struct bench_run run = bench_request(autos, (struct bench_request){
								    .body = buf_span(&text) });
		assert_int_equal(run.error, 0);
		assert_string_equal(run.result.event.name,
		                    i < RECIPE_INNER_MAX ? "plain" : "sns notification");
	}
	buf_free(&text);
	buf_free(&next);
}

/* Its id is too long: what is claimed is the notification around it. */
static void words_are_those_of_the_claims_that_were_taken(void **state)
{
	(void)state;
	struct buf body = { 0 }, memory = { 0 };
	struct recipe_words words;
	buf_append_span(&body,
	                SPAN("{\"Type\":\"Notification\",\"MessageId\":\"m\","
	                     "\"TopicArn\":\"arn:aws:sns:x\",\"Message\":\"{\\\"id\\\":\\\""));
	for (int i = 0; i <= DIGEST_PART_MAX; i++)
		buf_append_char(&body, 'x');
	buf_append_span(&body, SPAN("\\\"}\"}"));
	struct recipe_input input = { .body = buf_span(&body) };
	struct bench_run run = bench_request(autos, (struct bench_request){ .body = input.body });
	assert_int_equal(run.error, 0);
	assert_string_equal(run.result.event.name, "sns notification");
	assert_true(recipe_words(autos, &bench_scratch, &input, 0, &memory, &words));
	assert_non_null(memmem(words.key.ptr, words.key.len, "m", 1));
	buf_free(&body);
	buf_free(&memory);
}

/* ---- without memory ---- */

/* Each allocation fails once: the request is wholly read, or refused as -ENOMEM, and
 * never as something that the sender did. */
static void fail_each_allocation(const struct recipe *recipe, struct span body)
{
	unsigned long n = 0, count;
	do {
		recipe_scratch_free(&bench_scratch);
		mem_fail_at(++n, false);
		struct batch batch = run_items(recipe, (struct bench_request){ .body = body }, 0);
		count = mem_fail_count();
		mem_fail_at(0, false);
		if (batch.last == RECIPE_BROKEN) {
			assert_int_equal(batch.error, -ENOMEM);
			assert_string_equal(batch.problem.text,
			                    "there is no memory for the recipe");
			continue;
		}
		for (uint32_t i = 0; i < batch.count; i++)
			if (batch.steps[i] != RECIPE_EVENT)
				fail_msg("allocation %lu: item %u: %s", n, i,
				         batch.problems[i].text);
	} while (count >= n);
	assert_true(n > 2);
}

static void want_of_memory_is_no_fault_of_the_sender(void **state)
{
	(void)state;
	struct recipe_case_spec it = {
		.name = "event",
		.claim_count = 2,
		.claims = { { .kind = CLAIM_CONTENT },
		            { .kind = CLAIM_ONCE,
		              .part_count = 1,
		              .parts = { SPAN("items[*].id") } } },
	};
	struct recipe *recipe = bench_compile(
		(struct recipe_spec){ .cases = &it, .case_count = 1 });
	struct buf one = { 0 }, two = { 0 };
	buf_append_span(&one, SPAN("{\"z\":1, \"items\":["));
	for (int i = 0; i < 300; i++)
		buf_printf(&one, "%s{\"id\":\"abcdefghijklmnop%d\",\"b\":2,\"a\":1}", i ? "," : "",
		           i);
	buf_append_span(&one, SPAN("]}"));
	buf_printf(&two, "[%.*s,%.*s]", (int)one.len, one.ptr, (int)one.len, one.ptr);
	assert_true(!one.failed && !two.failed);
	fail_each_allocation(recipe, buf_span(&one));
	fail_each_allocation(recipe, buf_span(&two));
	buf_free(&one);
	buf_free(&two);
	recipe_free(recipe);
}

/* Or a copy of it would be taken for another event. */
static void an_inner_event_is_not_mistaken_for_its_cover_without_memory(void **state)
{
	(void)state;
	static const char body[] =
		"{\"Type\":\"Notification\",\"MessageId\":\"m\","
		"\"TopicArn\":\"arn:aws:sns:x\",\"Message\":\"{\\\"id\\\":\\\"1\\\"}\"}";
	struct claim whole = bench_first(autos, body);
	unsigned long n = 0, count;
	do {
		recipe_scratch_free(&bench_scratch);
		struct bench_request request = { .body = span_str(body) };
		mem_fail_at(++n, false);
		struct bench_run run = bench_request(autos, request);
		count = mem_fail_count();
		mem_fail_at(0, false);
		assert_true(run.error == 0 || run.error == -ENOMEM);
		if (run.error == 0)
			assert_true(digest_same_key(&run.result.claims[0].digest, &whole.digest));
	} while (count >= n);
	assert_true(n > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_events_of_their_own),
		cmocka_unit_test(elements_of_an_array_are_events),
		cmocka_unit_test(a_spoilt_element_costs_no_other),
		cmocka_unit_test(a_broken_array_is_refused_as_a_whole),
		cmocka_unit_test(more_items_than_allowed_are_refused_as_a_whole),
		cmocka_unit_test(one_object_is_one_event),
		cmocka_unit_test(an_event_in_headers_is_never_a_batch),
		cmocka_unit_test(a_source_that_never_has_batches_has_none),
		cmocka_unit_test(items_known_by_the_request_alone_have_their_place),
		cmocka_unit_test(records_are_events_and_so_is_what_is_in_them),
		cmocka_unit_test(a_record_that_comes_again_is_no_conflict),
		cmocka_unit_test(journey_events_come_in_entities),
		cmocka_unit_test(inner_events_end_somewhere),
		cmocka_unit_test(words_are_those_of_the_claims_that_were_taken),
		cmocka_unit_test(want_of_memory_is_no_fault_of_the_sender),
		cmocka_unit_test(an_inner_event_is_not_mistaken_for_its_cover_without_memory),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
