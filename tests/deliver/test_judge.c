/* What a result means: the table of judge.h, and rules that change it. */
#include "deliver/judge.h"

#include "support/test.h"

static struct judgement judge_status(const struct judge_rules *rules, uint16_t status)
{
	struct outlet_result result = { .answer = OUTLET_REFUSED, .status = status };
	return judge(rules, &result);
}

static bool is_retried_by_default(uint16_t status)
{
	static const uint16_t retried[] = { 0, 401, 407, 408, 409, 410, 425, 429 };
	for (size_t i = 0; i < ARRAY_LEN(retried); i++)
		if (status == retried[i])
			return true;
	return status >= 500 && status <= 599;
}

static void every_status_has_the_fate_of_the_table(void **state)
{
	(void)state;
	struct judge_rules none = { 0 };
	for (uint32_t status = 0; status <= UINT16_MAX; status++) {
		struct judgement it = judge_status(&none, (uint16_t)status);
		assert_int_equal(it.fate, is_retried_by_default((uint16_t)status) ? JUDGE_RETRY
		                                                                  : JUDGE_DEAD);
		assert_int_equal(it.disable, status == 410);
		assert_int_equal(it.pause, status == 429 || status == 503);
		assert_int_equal(it.limiter, it.pause ? LIMITER_OVERLOADED : LIMITER_FINE);
		bool fails = status == 401 || status == 407 || status == 408 ||
		             (status >= 500 && status <= 599);
		assert_int_equal(it.breaker, fails ? BREAKER_FAILURE : BREAKER_SUCCESS);
	}
}

static void what_was_not_sent_is_never_unknown(void **state)
{
	(void)state;
	struct judge_rules none = { 0 };
	struct judgement it = judge(&none, &(struct outlet_result){ .answer = OUTLET_NOT_SENT });
	assert_int_equal(it.fate, JUDGE_RETRY);
	assert_int_equal(it.breaker, BREAKER_FAILURE);
	it = judge(&none, &(struct outlet_result){ .answer = OUTLET_UNKNOWN });
	assert_int_equal(it.fate, JUDGE_UNKNOWN);
	assert_int_equal(it.breaker, BREAKER_FAILURE);
	it = judge(&none, &(struct outlet_result){ .answer = OUTLET_DONE, .status = 500 });
	assert_int_equal(it.fate, JUDGE_DONE);
}

static void what_no_retry_can_help_is_dead_and_not_the_sinks_fault(void **state)
{
	(void)state;
	struct judge_rules none = { 0 };
	struct outlet_result result = { .answer = OUTLET_NOT_SENT, .permanent = true };
	struct judgement it = judge(&none, &result);
	assert_int_equal(it.fate, JUDGE_DEAD);
	assert_int_equal(it.breaker, BREAKER_NOTHING);
	result.answer = OUTLET_REFUSED;
	assert_int_equal(judge(&none, &result).fate, JUDGE_DEAD);
	result.answer = OUTLET_UNKNOWN; /* it may have left: it is not dead */
	assert_int_equal(judge(&none, &result).fate, JUDGE_UNKNOWN);
}

static struct judge_rules rules_of(const char *const *texts, size_t count)
{
	struct judge_rules rules = { 0 };
	struct error_text text = { "" };
	for (size_t i = 0; i < count; i++)
		assert_int_equal(judge_rule_add(&rules, span_str(texts[i]), &text), 0);
	return rules;
}

static void rules_decide_and_an_exclusion_wins_wherever_it_stands(void **state)
{
	(void)state;
	static const char *const orders[][3] = { { "500-599", ">400", "!401" },
		                                 { "!401", ">400", "500-599" } };
	for (size_t i = 0; i < 2; i++) {
		struct judge_rules rules = rules_of(orders[i], 3);
		for (uint16_t status = 100; status < 600; status++)
			assert_int_equal(judge_status(&rules, status).fate,
			                 status > 400 && status != 401 ? JUDGE_RETRY : JUDGE_DEAD);
		assert_int_equal(judge_status(&rules, 0).fate, JUDGE_RETRY); /* not a status */
	}
}

static void exclusions_alone_leave_the_rest_as_it_is(void **state)
{
	(void)state;
	static const char *const texts[] = { "!501", "!>=598" };
	struct judge_rules rules = rules_of(texts, 2);
	for (uint16_t status = 100; status < 600; status++)
		assert_int_equal(judge_status(&rules, status).fate,
		                 is_retried_by_default(status) && status != 501 && status < 598
		                         ? JUDGE_RETRY
		                         : JUDGE_DEAD);
}

static void a_rule_that_names_410_keeps_the_sink(void **state)
{
	(void)state;
	static const char *const never[] = { "!410" };
	static const char *const again[] = { "<=410" };
	static const char *const other[] = { "500-599" };
	struct judge_rules rules = rules_of(never, 1);
	assert_false(judge_status(&rules, 410).disable);
	assert_int_equal(judge_status(&rules, 410).fate, JUDGE_DEAD);
	rules = rules_of(again, 1);
	assert_false(judge_status(&rules, 410).disable);
	assert_int_equal(judge_status(&rules, 410).fate, JUDGE_RETRY);
	rules = rules_of(other, 1); /* says nothing of it */
	assert_true(judge_status(&rules, 410).disable);
	assert_int_equal(judge_status(&rules, 410).fate, JUDGE_RETRY);
}

static void texts_that_are_no_rules_are_refused(void **state)
{
	(void)state;
	static const char *const bad[] = { "",      "!",     "5xx",       "50",   "5000",
		                           "099",   "600",   "599-500",   "500-", "-500",
		                           ">",     "> 400", ">599",      "<100", "400-499x",
		                           "!!500", "=500",  "4294967696" };
	struct judge_rules rules = { 0 };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct error_text text = { "" };
		assert_int_equal(judge_rule_add(&rules, span_str(bad[i]), &text), ERR_INVALID);
		assert_true(text.text[0] != '\0');
		assert_int_equal(rules.count, 0);
	}
	for (uint32_t i = 0; i < JUDGE_RULES_MAX; i++)
		assert_int_equal(judge_rule_add(&rules, SPAN("500"), NULL), 0);
	assert_int_equal(judge_rule_add(&rules, SPAN("500"), NULL), ERR_TOO_LARGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_status_has_the_fate_of_the_table),
		cmocka_unit_test(what_was_not_sent_is_never_unknown),
		cmocka_unit_test(what_no_retry_can_help_is_dead_and_not_the_sinks_fault),
		cmocka_unit_test(rules_decide_and_an_exclusion_wins_wherever_it_stands),
		cmocka_unit_test(exclusions_alone_leave_the_rest_as_it_is),
		cmocka_unit_test(a_rule_that_names_410_keeps_the_sink),
		cmocka_unit_test(texts_that_are_no_rules_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
