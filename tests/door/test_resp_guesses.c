/* resp_guesses: wrong passwords of an address make it wait, longer each time, never for ever. */
#include "door/resp/resp_guesses.h"

#include "support/test.h"

#define NOW UINT64_C(1000000)

static struct ip_address address(const char *text)
{
	struct ip_address address;
	assert_int_equal(ip_parse(span_str(text), &address), 0);
	return address;
}

static uint32_t ask(struct resp_guesses *guesses, const char *from, bool wrong, uint64_t now_ms)
{
	struct ip_address who = address(from);
	return resp_guesses_wait(guesses, &who, wrong, now_ms);
}

static struct resp_guesses *make(void)
{
	struct resp_guesses *guesses = NULL;
	assert_int_equal(resp_guesses_new(&guesses), 0);
	return guesses;
}

static void each_wrong_one_waits_twice_as_long_up_to_a_bound(void **state)
{
	(void)state;
	struct resp_guesses *guesses = make();
	uint64_t now_ms = NOW;
	assert_int_equal(ask(guesses, "192.0.2.1", false, now_ms), 0);
	for (uint32_t n = 0; n < 40; n++) {
		uint64_t wanted = n < 6 ? RESP_GUESS_FIRST_MS << n : RESP_GUESS_MAX_MS;
		uint32_t got = ask(guesses, "192.0.2.1", true, now_ms);
		assert_int_equal(got, wanted < RESP_GUESS_MAX_MS ? wanted : RESP_GUESS_MAX_MS);
		now_ms += got;
	}
	resp_guesses_free(guesses);
}

static void many_at_once_share_the_delay_of_their_address(void **state)
{
	(void)state;
	struct resp_guesses *guesses = make();
	assert_int_equal(ask(guesses, "192.0.2.1", true, NOW), 50);
	assert_int_equal(ask(guesses, "192.0.2.1", true, NOW), 150);
	assert_int_equal(ask(guesses, "192.0.2.1", true, NOW), 350);
	assert_int_equal(ask(guesses, "192.0.2.1", false, NOW + 100), 250);
	assert_int_equal(ask(guesses, "192.0.2.1", false, NOW + 350), 0);
	assert_int_equal(ask(guesses, "192.0.2.2", false, NOW), 0);
	resp_guesses_free(guesses);
}

static void a_network_of_ipv6_is_one_guesser(void **state)
{
	(void)state;
	struct resp_guesses *guesses = make();
	assert_int_equal(ask(guesses, "2001:db8::1", true, NOW), 50);
	assert_int_equal(ask(guesses, "2001:db8::2", true, NOW), 150);
	assert_int_equal(ask(guesses, "2001:db8:0:1::1", true, NOW), 50);
	resp_guesses_free(guesses);
}

static void what_was_wrong_is_forgotten(void **state)
{
	(void)state;
	struct resp_guesses *guesses = make();
	assert_int_equal(ask(guesses, "192.0.2.1", true, NOW), 50);
	assert_int_equal(ask(guesses, "192.0.2.1", true, NOW + RESP_GUESS_MEMORY_MS - 1), 100);
	assert_int_equal(ask(guesses, "192.0.2.1", true, NOW + 2 * RESP_GUESS_MEMORY_MS), 50);
	resp_guesses_free(guesses);
}

static void of_too_many_addresses_the_oldest_goes(void **state)
{
	(void)state;
	struct resp_guesses *guesses = make();
	char text[32];
	for (uint32_t i = 0; i < RESP_GUESS_ADDRESSES + 1; i++) {
		snprintf(text, sizeof(text), "10.0.%u.%u", i / 256, i % 256);
		assert_int_equal(ask(guesses, text, true, NOW + i), 50);
	}
	assert_int_equal(ask(guesses, "10.0.0.1", true, NOW + 5000), 100);
	assert_int_equal(ask(guesses, "10.0.0.0", true, NOW + 5000), 50);
	resp_guesses_free(guesses);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_wrong_one_waits_twice_as_long_up_to_a_bound),
		cmocka_unit_test(many_at_once_share_the_delay_of_their_address),
		cmocka_unit_test(a_network_of_ipv6_is_one_guesser),
		cmocka_unit_test(what_was_wrong_is_forgotten),
		cmocka_unit_test(of_too_many_addresses_the_oldest_goes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
