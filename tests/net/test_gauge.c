/* Connections in all and per address, from several threads. */
#include "net/gauge.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>

#include "support/test.h"

static struct gauge_limits limits = { .connections = 10, .connections_per_address = 3 };

static enum gauge_result take4(struct gauge *gauge, const char *text, struct gauge_slot **ret_slot)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
	return gauge_take(gauge, (struct sockaddr *)&address, &limits, ret_slot);
}

static enum gauge_result take6(struct gauge *gauge, const char *text, struct gauge_slot **ret_slot)
{
	struct sockaddr_in6 address = { .sin6_family = AF_INET6 };
	assert_int_equal(inet_pton(AF_INET6, text, &address.sin6_addr), 1);
	return gauge_take(gauge, (struct sockaddr *)&address, &limits, ret_slot);
}

static void limits_hold_for_an_address_and_for_all(void **state)
{
	(void)state;
	struct gauge *gauge;
	struct gauge_slot *slots[16];
	char text[32];
	assert_int_equal(gauge_new(&gauge), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(take4(gauge, "10.0.0.1", &slots[i]), GAUGE_OK);
	assert_int_equal(take4(gauge, "10.0.0.1", &slots[3]), GAUGE_ADDRESS_FULL);
	for (int i = 3; i < 10; i++) {
		snprintf(text, sizeof(text), "10.0.1.%d", i);
		assert_int_equal(take4(gauge, text, &slots[i]), GAUGE_OK);
	}
	assert_int_equal(take4(gauge, "10.0.2.1", &slots[10]), GAUGE_FULL);
	gauge_release(gauge, slots[0]);
	assert_int_equal(take4(gauge, "10.0.0.1", &slots[0]), GAUGE_OK);
	for (int i = 0; i < 10; i++)
		gauge_release(gauge, slots[i]);
	gauge_free(gauge);
}

static void an_ipv6_network_is_one_address(void **state)
{
	(void)state;
	struct gauge *gauge;
	struct gauge_slot *slots[8];
	assert_int_equal(gauge_new(&gauge), 0);
	assert_int_equal(take6(gauge, "2001:db8::1", &slots[0]), GAUGE_OK);
	assert_int_equal(take6(gauge, "2001:db8::2", &slots[1]), GAUGE_OK);
	assert_int_equal(take6(gauge, "2001:db8::ffff:1", &slots[2]), GAUGE_OK);
	assert_int_equal(take6(gauge, "2001:db8::3", &slots[3]), GAUGE_ADDRESS_FULL);
	assert_int_equal(take6(gauge, "2001:db8:0:1::3", &slots[3]), GAUGE_OK);
	/* An IPv4 address counts once, whichever way it comes. */
	assert_int_equal(take6(gauge, "::ffff:10.0.0.1", &slots[4]), GAUGE_OK);
	assert_int_equal(take4(gauge, "10.0.0.1", &slots[5]), GAUGE_OK);
	assert_int_equal(take4(gauge, "10.0.0.1", &slots[6]), GAUGE_OK);
	assert_int_equal(take6(gauge, "::ffff:10.0.0.1", &slots[7]), GAUGE_ADDRESS_FULL);
	for (int i = 0; i < 7; i++)
		gauge_release(gauge, slots[i]);
	gauge_free(gauge);
}

static void *take_and_release(void *user)
{
	for (int i = 0; i < 5000; i++) {
		struct gauge_slot *slot;
		if (take4(user, i % 2 ? "10.0.0.1" : "10.0.0.2", &slot) == GAUGE_OK)
			gauge_release(user, slot);
	}
	return NULL;
}

/* gauge_free() checks that all came back. */
static void threads_do_not_lose_count(void **state)
{
	(void)state;
	struct gauge *gauge;
	pthread_t threads[4];
	assert_int_equal(gauge_new(&gauge), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_and_release, gauge), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_null(gauge_free(gauge));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_hold_for_an_address_and_for_all),
		cmocka_unit_test(an_ipv6_network_is_one_address),
		cmocka_unit_test(threads_do_not_lose_count),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
