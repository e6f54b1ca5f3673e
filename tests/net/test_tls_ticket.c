/* The keys of session tickets: when they change, and that threads may share them. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "net/tls/tls_ticket.h"
#include "support/clock_fake.h"
#include "support/test.h"

#define THREADS 4
#define ROUNDS 2000

static struct tls_ticket ticket;
static struct clock_fake fake;

static int setup(void **state)
{
	(void)state;
	clock_fake_init(&fake);
	return tls_ticket_init(&ticket, &fake.clock);
}

static int teardown(void **state)
{
	(void)state;
	tls_ticket_destroy(&ticket);
	tls_ticket_destroy(&ticket); /* of one that is gone: nothing */
	return 0;
}

static struct tls_ticket_key seal_key(void)
{
	struct tls_ticket_key key;
	assert_int_equal(tls_ticket_seal_key(&ticket, &key), 0);
	return key;
}

static bool same(const struct tls_ticket_key *a, const struct tls_ticket_key *b)
{
	return memcmp(a->name, b->name, sizeof(a->name)) == 0;
}

static bool equal(const struct tls_ticket_key *a, const struct tls_ticket_key *b)
{
	return same(a, b) && memcmp(a->cipher, b->cipher, sizeof(a->cipher)) == 0 &&
	       memcmp(a->mac, b->mac, sizeof(a->mac)) == 0 && a->made_ms == b->made_ms;
}

static int open_key(const struct tls_ticket_key *of)
{
	struct tls_ticket_key key;
	int r = tls_ticket_open_key(&ticket, of->name, &key);
	if (r >= 0)
		assert_true(equal(&key, of));
	return r;
}

static void a_key_seals_for_half_a_day_and_opens_for_a_day(void **state)
{
	(void)state;
	struct tls_ticket_key first = seal_key();
	clock_fake_advance(&fake, TLS_TICKET_ROTATE_MS - 1);
	struct tls_ticket_key still = seal_key();
	assert_true(same(&still, &first));
	assert_int_equal(open_key(&first), 0);
	clock_fake_advance(&fake, 1);
	struct tls_ticket_key second = seal_key();
	assert_false(same(&second, &first));
	assert_memory_not_equal(second.cipher, first.cipher, sizeof(first.cipher));
	assert_memory_not_equal(second.mac, first.mac, sizeof(first.mac));
	assert_int_equal(open_key(&first), 1);
	assert_int_equal(open_key(&second), 0);
	clock_fake_advance(&fake, TLS_TICKET_ROTATE_MS - 1);
	assert_int_equal(open_key(&first), 1);
	clock_fake_advance(&fake, 1);
	assert_int_equal(open_key(&first), -ENOENT);
	assert_int_equal(open_key(&second), 1);
}

/* Nobody may have called for days: age decides, not the number of changes. */
static void a_key_that_is_too_old_does_not_become_the_previous_one(void **state)
{
	(void)state;
	struct tls_ticket_key first = seal_key();
	clock_fake_advance(&fake, 2 * TLS_TICKET_ROTATE_MS);
	assert_int_equal(open_key(&first), -ENOENT);
	assert_false(ticket.previous.there);
}

static void setting_the_wall_clock_changes_no_key(void **state)
{
	(void)state;
	struct tls_ticket_key first = seal_key();
	clock_fake_jump(&fake, INT64_C(400) * 24 * 60 * 60 * 1000);
	struct tls_ticket_key second = seal_key();
	assert_true(same(&second, &first));
}

static void a_name_of_zeros_opens_nothing(void **state)
{
	(void)state;
	struct tls_ticket_key key = { .there = true };
	assert_int_equal(open_key(&key), -ENOENT);
}

/* ---- threads ---- */

static atomic_uint_fast64_t hands_ms;

static void read_hands(void *user, struct clock_reading *ret_reading)
{
	(void)user;
	uint64_t now_ms = atomic_fetch_add(&hands_ms, TLS_TICKET_ROTATE_MS / 7);
	*ret_reading = (struct clock_reading){ .wall_ms = now_ms, .boot_ms = now_ms };
}

static void *use_keys(void *user)
{
	uint64_t *whole = user;
	for (int i = 0; i < ROUNDS; i++) {
		struct tls_ticket_key sealed, opened;
		if (tls_ticket_seal_key(&ticket, &sealed) < 0)
			return NULL;
		int r = tls_ticket_open_key(&ticket, sealed.name, &opened);
		/* Whole, or gone since; never half of one and half of another. */
		*whole += r == -ENOENT || (r >= 0 && equal(&sealed, &opened));
	}
	return NULL;
}

static void threads_never_see_half_a_key(void **state)
{
	(void)state;
	static const struct clock hands = { .read = read_hands };
	pthread_t threads[THREADS];
	uint64_t whole[THREADS] = { 0 };
	tls_ticket_destroy(&ticket);
	assert_int_equal(tls_ticket_init(&ticket, &hands), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use_keys, &whole[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(whole[i], ROUNDS);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_key_seals_for_half_a_day_and_opens_for_a_day),
		TEST(a_key_that_is_too_old_does_not_become_the_previous_one),
		TEST(setting_the_wall_clock_changes_no_key),
		TEST(a_name_of_zeros_opens_nothing),
		TEST(threads_never_see_half_a_key),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
