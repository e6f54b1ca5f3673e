/* route: an event goes to the sinks that its routes name, each once, and in order. */
#include "gate/recipe/route.h"

#include "gate/pattern.h"
#include "support/test.h"

static const unsigned char key[DIGEST_KEY_LEN] = "a key for routes";
static const struct route_sink sinks[] = {
	{ { "crm", 3 }, 7 },
	{ { "audit", 5 }, 0 },
	{ { "sms", 3 }, 9 },
};

#define CRM 1u
#define AUDIT 2u
#define SMS 4u

static struct recipe_scratch scratch;

static struct route_set *compile(const struct route_spec *routes, uint32_t count)
{
	struct route_set *set = NULL;
	struct route_problem problem;
	struct route_set_options options = { routes, count, sinks, ARRAY_LEN(sinks), key };
	int error = route_set_new(&options, &set, &problem);
	if (error != 0)
		fail_msg("route %d: %s: %s", problem.route, problem.field, problem.text.text);
	return set;
}

struct asked {
	const char *source, *type, *entity, *body;
};

static struct event event_of(const struct asked *asked)
{
	enum event_coding none = EVENT_TEXT_NONE, plain = EVENT_TEXT_PLAIN;
	return (struct event){
		.source = span_str(asked->source),
		.type = { span_str(asked->type ? asked->type : ""), asked->type ? plain : none },
		.entity = { span_str(asked->entity ? asked->entity : ""),
		            asked->entity ? plain : none },
		.json = true,
	};
}

static int match_legs(const struct route_set *set, struct asked asked,
                      struct route_match *ret_match, struct error_text *ret_problem)
{
	struct event event = event_of(&asked);
	struct recipe_input input = { .body = span_str(asked.body ? asked.body : "{}") };
	struct route_question question = { route_set_from(set, event.source), &event, &input };
	return route_set_match(set, &scratch, &question, ret_match, ret_problem);
}

/* Sinks as bits, in the order of `sinks`. */
static uint32_t match(const struct route_set *set, struct asked asked)
{
	struct route_match match;
	struct error_text problem;
	uint32_t bits = 0, last = 0;
	assert_int_equal(match_legs(set, asked, &match, &problem), 0);
	for (uint32_t i = 0; i < match.count; i++)
		for (uint32_t at = 0; at < ARRAY_LEN(sinks); at++)
			if (match.legs[i].sink == sinks[at].id) {
				assert_true(bits == 0 || at > last);
				last = at;
				bits |= 1u << at;
			}
	assert_int_equal(__builtin_popcount(bits), match.count);
	assert_true(match.found || match.count == 0);
	return bits;
}

static uint64_t order(const struct route_set *set, struct asked asked, uint32_t leg)
{
	struct route_match match;
	struct error_text problem;
	assert_int_equal(match_legs(set, asked, &match, &problem), 0);
	assert_true(leg < match.count);
	return match.legs[leg].order;
}

#define TO(...)                                     \
	.to = (const struct span[]){ __VA_ARGS__ }, \
	.to_count = sizeof((const struct span[]){ __VA_ARGS__ }) / sizeof(struct span)
#define FROM(...)                                     \
	.from = (const struct span[]){ __VA_ARGS__ }, \
	.from_count = sizeof((const struct span[]){ __VA_ARGS__ }) / sizeof(struct span)
#define TEXT(text)                     \
	{                              \
		text, sizeof(text) - 1 \
	}

static void without_routes_every_sink_gets_everything(void **state)
{
	(void)state;
	struct route_set *set = compile(NULL, 0);
	assert_int_equal(match(set, (struct asked){ .source = "a" }), CRM | AUDIT | SMS);
	assert_int_equal(route_set_reach(set, 0), 3);
	route_set_free(set);
}

static void routes_are_for_their_sources(void **state)
{
	(void)state;
	struct route_spec routes[] = {
		{ FROM(TEXT("orders")), TO(TEXT("crm")) },
		{ FROM(TEXT("orders"), TEXT("genesys")), TO(TEXT("audit")) },
	};
	struct route_set *set = compile(routes, 2);
	assert_int_equal(match(set, (struct asked){ .source = "orders" }), CRM | AUDIT);
	assert_int_equal(match(set, (struct asked){ .source = "genesys" }), AUDIT);
	assert_int_equal(match(set, (struct asked){ .source = "order" }), 0);
	assert_int_equal(route_set_from(set, SPAN("genesys")), 2);
	assert_int_equal(route_set_from(set, SPAN("other")), 0);
	assert_int_equal(route_set_reach(set, 3), 2);
	route_set_free(set);
}

static void a_route_that_leads_nowhere_is_for_an_event_all_the_same(void **state)
{
	(void)state;
	struct route_spec routes[] = {
		{ FROM(TEXT("orders")), .type = SPAN("paid"), TO(TEXT("crm")) },
		{ FROM(TEXT("orders")), .nowhere = true },
	};
	static const struct {
		struct asked asked;
		uint32_t sinks;
		bool found;
	} rows[] = {
		{ { .source = "orders", .type = "paid" }, CRM, true },
		{ { .source = "orders", .type = "sent" }, 0, true },
		{ { .source = "genesys", .type = "paid" }, 0, false },
	};
	struct route_set *set = compile(routes, 2);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct route_match found;
		struct error_text problem;
		assert_int_equal(match(set, rows[i].asked), rows[i].sinks);
		assert_int_equal(match_legs(set, rows[i].asked, &found, &problem), 0);
		assert_int_equal(found.found, rows[i].found);
	}
	assert_int_equal(route_set_reach(set, route_set_from(set, SPAN("orders"))), 1);
	route_set_free(set);
}

static void a_type_pattern_is_the_whole_type_with_its_case(void **state)
{
	(void)state;
	struct route_spec routes[] = {
		{ .type = SPAN("order.*"), TO(TEXT("crm")) },
		{ .type = SPAN("*.paid"), TO(TEXT("audit")) },
		{ .type = SPAN("sms"), TO(TEXT("sms")) },
	};
	static const struct {
		const char *type;
		uint32_t sinks;
	} rows[] = {
		{ "order.new", CRM },  { "order.paid", CRM | AUDIT },
		{ "Order.new", 0 },    { "order.", CRM },
		{ "order", 0 },        { "invoice.paid", AUDIT },
		{ "my.order.new", 0 }, { "sms", SMS },
		{ "smsx", 0 },         { NULL, 0 },
	};
	struct route_set *set = compile(routes, 3);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(match(set, (struct asked){ "a", rows[i].type, NULL, NULL }),
		                 rows[i].sinks);
	route_set_free(set);
}

static void conditions_ask_the_payload_and_the_event(void **state)
{
	(void)state;
	struct route_spec routes[] = {
		{ .condition_count = 2,
		  .conditions = { { SPAN("total"), SPAN("1*"), false },
		                  { SPAN("customer.test"), SPAN("true"), true } },
		  TO(TEXT("crm")) },
		{ .condition_count = 1,
		  .conditions = { { SPAN("entity"), SPAN("vip-*"), false } },
		  TO(TEXT("audit")) },
		{ .condition_count = 1,
		  .conditions = { { SPAN("[\"entity\"]"), SPAN_EMPTY, false } },
		  TO(TEXT("sms")) },
	};
	static const struct {
		const char *body, *entity;
		uint32_t sinks;
	} rows[] = {
		{ "{\"total\":12}", NULL, CRM },
		{ "{\"total\":2}", NULL, 0 },
		{ "{\"total\":\"1\",\"customer\":{\"test\":false}}", NULL, CRM },
		{ "{\"total\":\"1\",\"customer\":{\"test\":true}}", "vip-7", AUDIT },
		{ "{\"entity\":\"vip-7\"}", "other", SMS },
		{ "<xml/>", "vip-7", AUDIT },
		{ "<xml/>", NULL, 0 },
	};
	struct route_set *set = compile(routes, 3);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(match(set,
		                       (struct asked){ "a", NULL, rows[i].entity, rows[i].body }),
		                 rows[i].sinks);
	route_set_free(set);
}

static void a_name_twice_where_a_route_looks_is_refused(void **state)
{
	(void)state;
	struct route_spec routes[] = {
		{ .condition_count = 1,
		  .conditions = { { SPAN("kind"), SPAN("a"), false } },
		  TO(TEXT("crm")) },
	};
	struct route_set *set = compile(routes, 1);
	struct route_match found;
	struct error_text problem = { "" };
	struct asked asked = { "a", NULL, NULL, "{\"kind\":\"a\",\"kind\":\"b\"}" };
	assert_int_equal(match_legs(set, asked, &found, &problem), ERR_INVALID);
	assert_non_null(strstr(problem.text, "only once"));
	route_set_free(set);
}

static void a_sink_gets_an_event_once_by_its_first_route(void **state)
{
	(void)state;
	struct route_spec routes[] = {
		{ TO(TEXT("sms"), TEXT("crm")), .order_by = SPAN("entity") },
		{ TO(TEXT("crm"), TEXT("audit")) },
	};
	struct route_set *set = compile(routes, 2);
	struct asked asked = { "a", "t", "e-1", NULL };
	assert_int_equal(match(set, asked), CRM | AUDIT | SMS);
	assert_true(order(set, asked, 0) != 0);
	assert_true(order(set, asked, 1) == 0);
	assert_true(order(set, asked, 2) == order(set, asked, 0));
	route_set_free(set);
}

static void the_same_value_is_the_same_order(void **state)
{
	(void)state;
	struct route_spec routes[] = {
		{ FROM(TEXT("words")), TO(TEXT("crm")), .order_by = SPAN("entity") },
		{ FROM(TEXT("parts")), TO(TEXT("crm")), .order_by = SPAN("order.id") },
	};
	struct route_set *set = compile(routes, 2);
	struct asked a = { "words", NULL, "7", NULL };
	struct asked b = { "words", "other", "7", "{\"x\":1}" };
	struct asked c = { "words", NULL, "8", NULL };
	struct asked none = { "words", NULL, NULL, NULL };
	struct asked part = { "parts", NULL, NULL, "{\"order\":{\"id\":7}}" };
	struct asked other = { "parts", NULL, NULL, "{\"order\":{\"id\":\"\\u0038\"}}" };
	struct asked object = { "parts", NULL, NULL, "{\"order\":{\"id\":{}}}" };
	assert_true(order(set, a, 0) != 0 && order(set, a, 0) == order(set, b, 0));
	assert_true(order(set, c, 0) != order(set, a, 0));
	assert_true(order(set, none, 0) == 0);
	assert_true(order(set, part, 0) == order(set, a, 0));
	assert_true(order(set, other, 0) == order(set, c, 0));
	assert_true(order(set, object, 0) == 0);
	route_set_free(set);
}

static void what_is_wrong_is_told_with_its_place(void **state)
{
	(void)state;
	const struct {
		struct route_spec route;
		const char *field;
		int index;
	} rows[] = {
		{ { TO(TEXT("nowhere")) }, "to", 0 },
		{ { .to_count = 0 }, "to", -1 },
		{ { TO(TEXT("crm")), .nowhere = true }, "to", -1 },
		{ { TO(TEXT("crm")), .order_by = SPAN("a[") }, "order_by", -1 },
		{ { TO(TEXT("crm")), .type = SPAN("****************") }, "type", -1 },
		{ { TO(TEXT("crm")), .condition_count = 3,
		    .conditions = { { SPAN("type"), SPAN("a"), false },
		                    { SPAN("fine"), SPAN("a"), false },
		                    { SPAN("a..b"), SPAN("a"), false } } },
		  "when",
		  2 },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct route_spec routes[] = { { TO(TEXT("crm")) }, rows[i].route };
		struct route_set *set = NULL;
		struct route_problem problem;
		struct route_set_options options = { routes, 2, sinks, ARRAY_LEN(sinks), key };
		assert_int_equal(route_set_new(&options, &set, &problem), ERR_CONFIG);
		assert_int_equal(problem.route, 1);
		assert_string_equal(problem.field, rows[i].field);
		assert_int_equal(problem.index, rows[i].index);
		assert_true(problem.text.text[0] != '\0');
	}
}

static void numbers_of_sinks_stay(void **state)
{
	(void)state;
	/* They stand in journals. */
	assert_true(sink_id(SPAN("crm")) == 0x9ab54751);
	assert_true(sink_id(SPAN("crm")) != sink_id(SPAN("crn")));
}

static int tear_down(void **state)
{
	(void)state;
	recipe_scratch_free(&scratch);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_routes_every_sink_gets_everything),
		cmocka_unit_test(routes_are_for_their_sources),
		cmocka_unit_test(a_route_that_leads_nowhere_is_for_an_event_all_the_same),
		cmocka_unit_test(a_type_pattern_is_the_whole_type_with_its_case),
		cmocka_unit_test(conditions_ask_the_payload_and_the_event),
		cmocka_unit_test(a_name_twice_where_a_route_looks_is_refused),
		cmocka_unit_test(a_sink_gets_an_event_once_by_its_first_route),
		cmocka_unit_test(the_same_value_is_the_same_order),
		cmocka_unit_test(what_is_wrong_is_told_with_its_place),
		cmocka_unit_test(numbers_of_sinks_stay),
	};
	return cmocka_run_group_tests(tests, NULL, tear_down);
}
