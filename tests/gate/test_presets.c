/* presets: every platform's events are known for what they are, a re-published one
 * is the same and a genuine update is not. */
#include "gate/recipe_bench.h"
#include "support/vectors.h"

#define GITHUB_HEADERS \
	"X-GitHub-Delivery: 72d3162e-cc78-11e3-81ab-4c9367dc0958", "X-GitHub-Event: pull_request"
#define SHOPIFY_HEADERS                                                              \
	"X-Shopify-Topic: orders/create", "X-Shopify-Shop-Domain: shop.example.com", \
		"X-Shopify-Webhook-Id: b54557e4", "X-Shopify-Event-Id: 98880550"

struct row {
	const char *file;
	const char *preset;
	const char *name; /* of the first event's case */
	uint32_t events;
	uint32_t claims; /* of the first */
	const char *headers[6];
};

static const struct row rows[] = {
	{ "cloudevents.json", "cloudevents", "cloudevents", 1, 1, { NULL } },
	{ "cxone.json", "cxone", "cxone", 1, 1, { NULL } },
	{ "eventbridge.json", "eventbridge", "eventbridge", 1, 1, { NULL } },
	{ "genesys_audit.json", "genesys", "genesys audit", 1, 2, { NULL } },
	{ "genesys_conversation.json", "genesys", "genesys conversation", 1, 2, { NULL } },
	{ "genesys_flow_metrics.json", "genesys", "genesys flow metrics", 1, 2, { NULL } },
	{ "genesys_journey.json", "genesys", "genesys journey", 1, 2, { NULL } },
	{ "genesys_message.json", "genesys", "genesys message", 1, 1, { NULL } },
	{ "genesys_metrics.json", "genesys", "genesys metrics", 1, 2, { NULL } },
	{ "genesys_other.json", "genesys", "genesys", 1, 2, { NULL } },
	{ "genesys_presence.json", "genesys", "genesys presence", 1, 2, { NULL } },
	{ "genesys_queue.json", "genesys", "genesys queue", 1, 2, { NULL } },
	{ "genesys_routing.json", "genesys", "genesys routing status", 1, 2, { NULL } },
	{ "genesys_transcription.json", "genesys", "genesys transcription", 1, 2, { NULL } },
	{ "github.json", "github", "github", 1, 1, { GITHUB_HEADERS, NULL } },
	{ "journey.json", "journey", "journey", 2, 1, { NULL } },
	{ "lambda_sns.json", "lambda", "sns record", 2, 1, { NULL } },
	{ "lambda_sqs.json", "lambda", "sqs record", 3, 1, { NULL } },
	{ "shopify.json", "shopify", "shopify", 1, 2, { SHOPIFY_HEADERS, NULL } },
	{ "sns.json", "sns", "sns notification", 1, 1, { NULL } },
	{ "sqs_messages.json", "sqs", "sqs message", 2, 1, { NULL } },
	{ "standard_webhooks.json",
	  "standard-webhooks",
	  "standard-webhooks",
	  1,
	  1,
	  { "webhook-id: msg_1", "webhook-timestamp: 1772600767", "webhook-signature: v1,x",
	    NULL } },
	{ "standard_webhooks.json",
	  "standard-webhooks",
	  "standard-webhooks",
	  1,
	  1,
	  { "svix-id: msg_1", "svix-timestamp: 1772600767", "svix-signature: v1,x", NULL } },
	{ "stripe.json", "stripe", "stripe", 1, 1, { NULL } },
	{ "twilio.form",
	  "twilio",
	  "twilio message",
	  1,
	  2,
	  { "Content-Type: application/x-www-form-urlencoded",
	    "I-Twilio-Idempotency-Token: 11111111-0000", NULL } },
};

static struct span read_event(const char *name)
{
	char path[256];
	snprintf(path, sizeof(path), "tests/data/events/%s", name);
	struct span bytes = vectors_read(path);
	if (!bytes.ptr)
		fail_msg("cannot read %s", path);
	return bytes;
}

static void free_event(struct span bytes)
{
	mem_free((void *)(uintptr_t)bytes.ptr);
}

/* All events of the row; the first one's result. */
static uint32_t run_row(const struct recipe *recipe, const struct row *row, struct span body,
                        struct recipe_result *ret_first)
{
	struct bench_request request = { .body = body, .headers = row->headers };
	struct http1_header headers[BENCH_HEADERS_MAX];
	struct recipe_input input = bench_input(&request, headers);
	struct recipe_items items;
	struct recipe_result result;
	struct error_text problem = { "" };
	enum recipe_step step;
	recipe_items_begin(&items, recipe, &bench_scratch, &input);
	while ((step = recipe_items_next(&items, &result, &problem)) == RECIPE_EVENT)
		if (items.count == 1)
			*ret_first = result;
	if (step != RECIPE_END)
		fail_msg("%s: event %u: %s", row->file, items.count, problem.text);
	assert_int_equal(items.batch, row->events > 1);
	return items.count;
}

static void every_preset_knows_its_events_and_so_does_auto(void **state)
{
	struct recipe *autos = bench_preset("auto");
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct recipe *own = bench_preset(rows[i].preset);
		struct span body = read_event(rows[i].file);
		struct recipe_result a;
		struct recipe_result b;
		assert_int_equal(run_row(own, &rows[i], body, &a), rows[i].events);
		assert_int_equal(run_row(autos, &rows[i], body, &b), rows[i].events);
		if (strcmp(a.event.name, rows[i].name) != 0 ||
		    strcmp(b.event.name, rows[i].name) != 0)
			fail_msg("%s: %s, %s", rows[i].file, a.event.name, b.event.name);
		assert_int_equal(a.claim_count, rows[i].claims);
		/* A source may change from auto to its preset: nothing is forgotten. */
		assert_int_equal(b.claim_count, a.claim_count);
		for (uint32_t n = 0; n < a.claim_count; n++)
			assert_memory_equal(&a.claims[n].digest, &b.claims[n].digest,
			                    sizeof(struct digest));
		assert_int_equal(a.event.content, b.event.content);
		assert_int_not_equal(a.event.id.coding, EVENT_TEXT_NONE);
		free_event(body);
		recipe_free(own);
	}
	recipe_free(autos);
}

static void all_presets_compile_and_are_found_by_name(void **state)
{
	uint32_t count;
	const struct preset *list = preset_list(&count);
	(void)state;
	assert_true(count >= 14);
	assert_string_equal(list[0].name, "auto");
	for (uint32_t i = 0; i < count; i++) {
		assert_ptr_equal(preset_find(span_str(list[i].name)), &list[i]);
		assert_non_null(list[i].about);
		recipe_free(bench_preset(list[i].name));
	}
	assert_null(preset_find(SPAN("nonsense")));
	assert_null(preset_find(SPAN_EMPTY));
}

/* The event with all places of one text replaced by another of the same length. */
static char *changed(struct span event, const char *from, const char *to)
{
	char *copy = mem_alloc(event.len + 1);
	size_t len = strlen(from);
	bool found = false;
	assert_non_null(copy);
	assert_int_equal(len, strlen(to));
	memcpy(copy, event.ptr, event.len);
	copy[event.len] = '\0';
	for (char *at = copy; (at = strstr(at, from)); at += len) {
		memcpy(at, to, len);
		found = true;
	}
	if (!found)
		fail_msg("no %s in the event", from);
	return copy;
}

struct change {
	const char *file;
	const char *from;
	const char *to;
};

static struct bench_run run_changed(const struct recipe *recipe, const struct change *change)
{
	struct span event = read_event(change->file);
	char *copy = changed(event, change->from, change->to);
	struct bench_run run = bench_body(recipe, copy);
	if (run.error != 0)
		fail_msg("%s: %s", change->file, run.problem.text);
	mem_free(copy);
	free_event(event);
	return run;
}

static struct bench_run run_file(const struct recipe *recipe, const char *file)
{
	return run_changed(recipe, &(struct change){ file, "\"", "\"" });
}

/* A new envelope id, time and trace, and the same detail: another delivery of the
 * same act. */
static void a_republished_genesys_event_is_the_same_act(void **state)
{
	struct recipe *recipe = bench_preset("genesys");
	unsigned count = 0;
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (strcmp(rows[i].preset, "genesys") != 0 || rows[i].claims != 2)
			continue;
		static const char *const changes[][2] = {
			{ "\"0c0ffee0-", "\"1c0ffee1-" },
			{ "T05:06:08Z", "T05:07:09Z" },
			{ "\"c0c0c0c0-", "\"d1d1d1d1-" },
			{ "07.890Z\"", "09.123Z\"" },
		};
		struct span event = read_event(rows[i].file);
		char *copy = changed(event, "\"version\": \"0\"", "\"version\": \"0\"");
		for (size_t n = 0; n < ARRAY_LEN(changes); n++) {
			char *next = changed(span_str(copy), changes[n][0], changes[n][1]);
			mem_free(copy);
			copy = next;
		}
		struct bench_run first = run_file(recipe, rows[i].file);
		struct bench_run again = bench_body(recipe, copy);
		assert_int_equal(again.error, 0);
		if (digest_same_key(&first.result.claims[0].digest, &again.result.claims[0].digest))
			fail_msg("%s: another delivery has the same first claim", rows[i].file);
		if (memcmp(&first.result.claims[1].digest, &again.result.claims[1].digest,
		           sizeof(struct digest)) != 0)
			fail_msg("%s: the same act has another second claim", rows[i].file);
		mem_free(copy);
		free_event(event);
		count++;
	}
	assert_int_equal(count, 10);
	recipe_free(recipe);
}

static void a_genuine_update_is_another_act(void **state)
{
	static const struct change changes[] = {
		{ "genesys_audit.json", "\"dd44ee55-", "\"dd44ee56-" },
		{ "genesys_conversation.json", "1772600767890", "1772600767891" },
		{ "genesys_conversation.json", "\"ff660077-", "\"ff660078-" },
		{ "genesys_conversation.json", "\"ee55ff66-", "\"ee55ff67-" },
		{ "genesys_conversation.json", "customer.end\"", "customer.foo\"" },
		{ "genesys_flow_metrics.json", "nFlow", "nFlox" },
		{ "genesys_journey.json", "\"0022bb33-", "\"0022bb34-" },
		{ "genesys_metrics.json", "05:06:07.002Z", "05:06:07.003Z" },
		{ "genesys_metrics.json", "\"0011aa22-", "\"0011aa23-" },
		{ "genesys_other.json", "\"percentage\": 10", "\"percentage\": 11" },
		{ "genesys_presence.json", "05:06:07.123Z", "05:06:07.124Z" },
		{ "genesys_presence.json", "\"6a3af858-", "\"6a3af859-" },
		{ "genesys_presence.json", "v2.users.aa11bb22", "v2.users.aa11bb23" },
		{ "genesys_queue.json", "alerting", "connectd" },
		{ "genesys_routing.json", "INTERACTING", "NOTRESPONDI" },
		{ "genesys_routing.json", "05:06:07.001Z", "05:06:07.002Z" },
		{ "genesys_transcription.json", "u-0001", "u-0002" },
		{ "genesys_transcription.json", "true", "null" },
		{ "genesys_conversation.json", "\"direction\"", "\"wrapupCod\"" },
	};
	struct recipe *recipe = bench_preset("genesys");
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
		struct bench_run first = run_file(recipe, changes[i].file);
		struct bench_run second = run_changed(recipe, &changes[i]);
		/* Where the key is no longer whole, the claim is left out. */
		bool left_out = second.result.claim_count == 1;
		bool renamed = strcmp(changes[i].from, "\"direction\"") == 0;
		bool same = !left_out && digest_same_key(&first.result.claims[1].digest,
		                                         &second.result.claims[1].digest);
		if (same != renamed)
			fail_msg("%s: %s and %s", changes[i].file, changes[i].from, changes[i].to);
		assert_int_equal(left_out, strcmp(changes[i].to, "null") == 0);
	}
	recipe_free(recipe);
}

/* The other shape of the routing status that is in use. */
static void both_shapes_of_routing_status_are_known(void **state)
{
	static const char format[] =
		"{\"id\":\"%d\",\"source\":\"aws.partner/genesys.com/cloud/x\","
		"\"detail-type\":\"v2.users.{id}.routingStatus\",\"detail\":{\"topicName\":\"t\","
		"\"eventBody\":%s}}";
	struct recipe *recipe = bench_preset("genesys");
	char text[512];
	(void)state;
	snprintf(text, sizeof(text), format, 1,
	         "{\"id\":\"u\",\"status\":\"IDLE\",\"startTime\":\"2026-01-02T03:04:05Z\"}");
	struct bench_run flat = bench_body(recipe, text);
	assert_int_equal(flat.result.claim_count, 2);
	snprintf(text, sizeof(text), format, 2,
	         "{\"id\":\"u\",\"routingStatus\":{\"startTime\":\"2026-01-02T03:04:05Z\","
	         "\"status\":\"IDLE\"}}");
	struct bench_run nested = bench_body(recipe, text);
	assert_int_equal(nested.result.claim_count, 2);
	assert_true(
		digest_same_key(&flat.result.claims[1].digest, &nested.result.claims[1].digest));
	/* Neither: content is the key, not the user's id alone. */
	snprintf(text, sizeof(text), format, 3, "{\"id\":\"u\",\"x\":1}");
	struct bench_run other = bench_body(recipe, text);
	assert_string_equal(other.result.event.name, "genesys");
	recipe_free(recipe);
}

static void an_archive_replay_is_told_and_has_the_same_claims(void **state)
{
	struct recipe *recipe = bench_preset("eventbridge");
	static const char first[] =
		"{\"id\":\"1\",\"source\":\"s\",\"detail-type\":\"t\",\"detail\":{\"x\":1}}";
	static const char replay[] =
		"{\"id\":\"1\",\"source\":\"s\",\"detail-type\":\"t\",\"detail\":{\"x\":1},"
		"\"replay-name\":\"r\"}";
	(void)state;
	struct bench_run a = bench_body(recipe, first);
	struct bench_run b = bench_body(recipe, replay);
	assert_false(a.result.event.replay);
	assert_true(b.result.event.replay);
	assert_memory_equal(&a.result.claims[0].digest, &b.result.claims[0].digest,
	                    sizeof(struct digest));
	recipe_free(recipe);
}

/* What counts pending deliveries changes from one to the next. */
static void a_retry_by_stripe_is_no_conflict(void **state)
{
	struct recipe *recipe = bench_preset("stripe");
	(void)state;
	struct bench_run a = run_file(recipe, "stripe.json");
	struct bench_run b = run_changed(recipe,
	                                 &(struct change){ "stripe.json", "\"pending_webhooks\": 2",
	                                                   "\"pending_webhooks\": 1" });
	assert_memory_equal(&a.result.claims[0].digest, &b.result.claims[0].digest,
	                    sizeof(struct digest));
	struct bench_run c = run_changed(recipe,
	                                 &(struct change){ "stripe.json", "\"amount\": 1250",
	                                                   "\"amount\": 9250" });
	assert_true(digest_same_key(&a.result.claims[0].digest, &c.result.claims[0].digest));
	assert_int_not_equal(digest_check(&a.result.claims[0].digest),
	                     digest_check(&c.result.claims[0].digest));
	recipe_free(recipe);
}

static void fields_tell_what_an_event_is(void **state)
{
	struct recipe *recipe = bench_preset("genesys");
	struct span body = read_event("genesys_conversation.json");
	struct bench_run run = bench_request(recipe, (struct bench_request){ .body = body });
	const struct event *event = &run.result.event;
	uint64_t ms = 0;
	(void)state;
	assert_int_equal(run.error, 0);
	assert_true(span_eq(event->id.raw, SPAN("0c0ffee0-0000-4000-8000-000000000002")));
	assert_true(
		span_eq(event->type.raw, SPAN("v2.detail.events.conversation.{id}.customer.end")));
	assert_true(span_eq(event->entity.raw, SPAN("bb22cc33-0fc2-4d6a-9b56-92238191433e")));
	assert_true(span_eq(event->correlation.raw, SPAN("c0c0c0c0-0000-4000-8000-000000000002")));
	assert_int_equal(event_time_ms(event->time, &ms), 0);
	assert_int_equal(ms, 1772600767890);
	assert_true(span_eq(run.result.payload, body));
	free_event(body);
	recipe_free(recipe);
}

static struct recipe *vector_recipe;

/* Published samples, by the file's name. */
static void judge_sample(const char *name, struct span bytes)
{
	static const char *const known[][2] = {
		{ "audit_", "genesys audit" },
		{ "user_presence", "genesys presence" },
		{ "conversation-", "genesys conversation" },
		{ "attributes", "genesys conversation" },
		{ "non-conversation", "genesys" },
		{ "eventBridgeEvent", "eventbridge" },
		{ "snsEvent", "sns record" },
		{ "snsSqsEvent", "sns notification" },
		{ "sqsDlqTriggerEvent", "sqs record" },
		{ "sqsEvent", "sqs record" },
		{ "sqs_receive_message", "genesys presence" },
	};
	struct row row = { .file = name, .events = 1 };
	struct recipe_result first;
	assert_non_null(bytes.ptr);
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (strncmp(name, known[i][0], strlen(known[i][0])) != 0)
			continue;
		bool batch = memmem(bytes.ptr, bytes.len, "\"Records\"", 9) ||
		             memmem(bytes.ptr, bytes.len, "\"Messages\"", 10);
		row.events = batch ? 2 : 1;
		run_row(vector_recipe, &row, bytes, &first);
		if (strcmp(first.event.name, known[i][1]) != 0)
			fail_msg("%s: %s", name, first.event.name);
		return;
	}
	/* Answers and descriptions are no events. */
	struct bench_run run = bench_request(vector_recipe,
	                                     (struct bench_request){ .body = bytes });
	if (run.error == 0)
		fail_msg("%s is taken for an event: %s", name, run.result.event.name);
}

static void published_samples_are_known(void **state)
{
	(void)state;
	vector_recipe = bench_preset("auto");
	unsigned count = vectors_each("genesys", judge_sample) + vectors_each("aws", judge_sample);
	recipe_free(vector_recipe);
	if (count == 0) {
		print_message("skipped: no genesys or aws among the vectors\n");
		skip();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_preset_knows_its_events_and_so_does_auto),
		cmocka_unit_test(all_presets_compile_and_are_found_by_name),
		cmocka_unit_test(a_republished_genesys_event_is_the_same_act),
		cmocka_unit_test(a_genuine_update_is_another_act),
		cmocka_unit_test(both_shapes_of_routing_status_are_known),
		cmocka_unit_test(an_archive_replay_is_told_and_has_the_same_claims),
		cmocka_unit_test(a_retry_by_stripe_is_no_conflict),
		cmocka_unit_test(fields_tell_what_an_event_is),
		cmocka_unit_test(published_samples_are_known),
	};
	return cmocka_run_group_tests(tests, NULL, bench_tear_down);
}
