/* ticket, verdict: numbers that go up, texts that sort, names that people read. */
#include "support/test.h"

#include <string.h>

#include "base/check.h"
#include "gate/ticket.h"
#include "gate/verdict.h"

#define NOW_MS (TICKET_EPOCH_MS + UINT64_C(86400000))

static void numbers_only_go_up_even_if_the_clock_goes_back(void **state)
{
	uint64_t seed = test_seed();
	uint64_t random = seed;
	uint64_t now_ms = NOW_MS;
	uint64_t last = 0;
	(void)state;
	for (int i = 0; i < 100000; i++) {
		uint64_t next = ticket_next(last, now_ms);
		if (next <= last)
			fail_msg("%s", test_note_seed(seed));
		last = next;
		now_ms += test_random_below(&random, 3);
		if (test_random_below(&random, 1000) == 0)
			now_ms -= 3600000;
	}
}

static void a_ticket_tells_when_it_was_made(void **state)
{
	(void)state;
	uint64_t ticket = ticket_next(0, NOW_MS);
	assert_int_equal(ticket_time_ms(ticket), NOW_MS);
	assert_int_equal(ticket_time_ms(ticket_next(ticket, NOW_MS)), NOW_MS);
	assert_int_equal(ticket_next(ticket, NOW_MS), ticket + 1);
	assert_int_equal(ticket_next(ticket, NOW_MS + 1), ticket + (1u << TICKET_ORDER_BITS));
}

static void no_clock_gives_the_number_zero(void **state)
{
	(void)state;
	assert_int_equal(ticket_next(0, 0), 1);
	assert_int_equal(ticket_next(0, TICKET_EPOCH_MS), 1);
}

static void a_full_millisecond_borrows_from_the_next(void **state)
{
	(void)state;
	uint64_t last = ticket_next(0, NOW_MS);
	for (unsigned i = 0; i < 1u << TICKET_ORDER_BITS; i++)
		last = ticket_next(last, NOW_MS);
	assert_int_equal(ticket_time_ms(last), NOW_MS + 1);
	assert_int_equal(ticket_next(last, NOW_MS + 1), last + 1);
}

static void texts_come_back_as_the_number_and_sort_like_it(void **state)
{
	uint64_t seed = test_seed();
	uint64_t random = seed;
	(void)state;
	for (int i = 0; i < 10000; i++) {
		uint64_t a = test_random(&random) >> (64 - TICKET_BITS);
		uint64_t b = test_random(&random) >>
		             (64 - TICKET_BITS + test_random_below(&random, 50));
		uint64_t back = 0;
		char text_a[TICKET_TEXT_LEN];
		char text_b[TICKET_TEXT_LEN];
		ticket_text(a, text_a);
		ticket_text(b, text_b);
		bool same = a == 0 ||
		            (ticket_parse(span_of(text_a, sizeof(text_a)), &back) && back == a);
		int order = memcmp(text_a, text_b, TICKET_TEXT_LEN);
		if (!same || (order < 0) != (a < b) || (order == 0) != (a == b))
			fail_msg("%s", test_note_seed(seed));
	}
}

static void known_texts_stay_as_they_are(void **state)
{
	char text[TICKET_TEXT_LEN];
	uint64_t ticket = 0;
	(void)state;
	ticket_text(1, text);
	assert_memory_equal(text, "00000000001", TICKET_TEXT_LEN);
	ticket_text((UINT64_C(1) << TICKET_BITS) - 1, text);
	assert_memory_equal(text, "zzzzzzzzzzz", TICKET_TEXT_LEN);
	ticket_text(UINT64_C(0x123456789abcd), text);
	assert_memory_equal(text, "0938nkrkayd", TICKET_TEXT_LEN);
	assert_true(ticket_parse(SPAN("0938NKRKAYD"), &ticket));
	assert_int_equal(ticket, UINT64_C(0x123456789abcd));
}

static void what_is_no_ticket_is_not_parsed(void **state)
{
	static const char *const texts[] = {
		"",
		"0000000000",
		"000000000011",
		"0000000000u",
		"0000000000i",
		"0000000000l",
		"0000000000o",
		"0000000000-",
		" 0000000001",
		"00000000000",
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		uint64_t ticket = 42;
		assert_false(ticket_parse(span_str(texts[i]), &ticket));
		assert_int_equal(ticket, 42);
	}
	uint64_t ticket = 42;
	assert_false(ticket_parse(span_of("0000000000\0", TICKET_TEXT_LEN), &ticket));
}

static void verdicts_and_outcomes_have_the_names_of_the_design(void **state)
{
	(void)state;
	assert_string_equal(verdict_name(VERDICT_NONE), "none");
	assert_string_equal(verdict_name(VERDICT_NEW), "new");
	assert_string_equal(verdict_name(VERDICT_DUPLICATE), "duplicate");
	assert_string_equal(verdict_name(VERDICT_STALE), "stale");
	assert_string_equal(verdict_name(VERDICT_CONFLICT), "conflict");
	assert_string_equal(verdict_name(VERDICT_BUSY), "busy");
	assert_string_equal(outcome_name(OUTCOME_NONE), "none");
	assert_string_equal(outcome_name(OUTCOME_DONE), "done");
	assert_string_equal(outcome_name(OUTCOME_DEAD), "dead");
	assert_string_equal(outcome_name(OUTCOME_UNKNOWN), "unknown");
	assert_string_equal(outcome_name(OUTCOME_RELEASED), "released");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_only_go_up_even_if_the_clock_goes_back),
		cmocka_unit_test(a_ticket_tells_when_it_was_made),
		cmocka_unit_test(no_clock_gives_the_number_zero),
		cmocka_unit_test(a_full_millisecond_borrows_from_the_next),
		cmocka_unit_test(texts_come_back_as_the_number_and_sort_like_it),
		cmocka_unit_test(known_texts_stay_as_they_are),
		cmocka_unit_test(what_is_no_ticket_is_not_parsed),
		cmocka_unit_test(verdicts_and_outcomes_have_the_names_of_the_design),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
