/* The ends of leases, against an array that is searched. */
#include "store/local/index/leases.h"
#include "support/test.h"

#define TICKETS 200u

struct model {
	struct leases leases;
	uint64_t end_ms[TICKETS]; /* 0: none */
};

/* Numbers that lie apart, and some that are neighbours. */
static uint64_t ticket_of(uint64_t i)
{
	return (i / 4 * UINT64_C(0x10000001)) + i % 4 + 1;
}

static uint64_t first_end(const struct model *model)
{
	uint64_t first = 0;

	for (uint32_t i = 0; i < TICKETS; i++)
		if (model->end_ms[i] && (!first || model->end_ms[i] < first))
			first = model->end_ms[i];
	return first;
}

static void compare(const struct model *model)
{
	uint64_t first = first_end(model), ticket, count = 0;

	leases_check(&model->leases);
	for (uint32_t i = 0; i < TICKETS; i++) {
		count += model->end_ms[i] != 0;
		assert_int_equal(leases_end(&model->leases, ticket_of(i)), model->end_ms[i]);
	}
	assert_int_equal(model->leases.count, count);
	assert_false(leases_over(&model->leases, first ? first - 1 : UINT64_MAX, &ticket));
	if (first) {
		assert_true(leases_over(&model->leases, first, &ticket));
		assert_int_equal(leases_end(&model->leases, ticket), first);
	}
}

static void test_the_first_lease_that_is_over_is_found_whatever_was_set_before(void **state)
{
	uint64_t random = test_seed();
	static struct model model;

	(void)state;
	for (uint32_t step = 0; step < 20000; step++) {
		uint64_t i = test_random_below(&random, TICKETS);
		uint64_t end_ms = test_random_below(&random, 3)
		                          ? 1 + test_random_below(&random, 1000)
		                          : 0;
		assert_int_equal(leases_reserve(&model.leases, ticket_of(i)), 0);
		leases_set(&model.leases, ticket_of(i), end_ms);
		model.end_ms[i] = end_ms;
		if (step % 16 == 0)
			compare(&model);
	}
	compare(&model);
	leases_free(&model.leases);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_the_first_lease_that_is_over_is_found_whatever_was_set_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
