/* turns: one at a time, who came first goes first, and nobody waits for ever. */
#include "support/test.h"

#include <sched.h>

#include "sys/fair_lock.h"
#include "sys/thread.h"

#define THREADS 4u
#define ROUNDS 2000u
#define LONG_MS 600000

struct place {
	struct fair_lock turns;
	uint32_t order[THREADS]; /* who had a turn, one after the other */
	uint32_t count;
	uint32_t inside;
	uint32_t most; /* at the same time */
};

struct waiter {
	struct place *place;
	uint32_t number;
	uint32_t rounds;
	struct thread thread;
};

static void have_turns(void *user)
{
	struct waiter *waiter = user;
	struct place *place = waiter->place;
	for (uint32_t i = 0; i < waiter->rounds; i++) {
		if (!fair_lock_take(&place->turns, LONG_MS))
			return; /* it will be missed */
		place->inside++;
		if (place->inside > place->most)
			place->most = place->inside;
		place->order[place->count++ % THREADS] = waiter->number;
		place->inside--;
		fair_lock_release(&place->turns);
	}
}

static void start(struct waiter *waiter)
{
	struct thread_options options = {
		.name = "waiter", .cpu = THREAD_ANY_CPU, .run = have_turns, .user = waiter
	};
	assert_int_equal(thread_start(&waiter->thread, &options), 0);
}

static uint32_t waiting(struct fair_lock *lock)
{
	pthread_mutex_lock(&lock->mutex);
	uint32_t count = lock->waiting;
	pthread_mutex_unlock(&lock->mutex);
	return count;
}

/* Each of them waits before the next one comes. */
static void start_in_order(struct waiter guests[static THREADS], struct place *place)
{
	for (uint32_t i = 0; i < THREADS; i++) {
		guests[i] = (struct waiter){ .place = place, .number = i, .rounds = 1 };
		start(&guests[i]);
		while (waiting(&place->turns) < i + 1)
			sched_yield();
	}
}

static void join_in_order(struct waiter guests[static THREADS], const struct place *place)
{
	for (uint32_t i = 0; i < THREADS; i++)
		thread_join(&guests[i].thread);
	assert_int_equal(place->count, THREADS);
	for (uint32_t i = 0; i < THREADS; i++)
		assert_int_equal(place->order[i], i);
}

static void who_came_first_goes_first(void **state)
{
	(void)state;
	struct place place = { .turns = FAIR_LOCK_INIT };
	struct waiter guests[THREADS];
	assert_true(fair_lock_take(&place.turns, 0));
	start_in_order(guests, &place);
	assert_int_equal(place.count, 0);
	fair_lock_release(&place.turns);
	assert_true(fair_lock_take(&place.turns, LONG_MS)); /* all others came before */
	assert_int_equal(place.count, THREADS);
	fair_lock_release(&place.turns);
	join_in_order(guests, &place);
}

/* And those who wait do not wait for somebody who has gone. */
static void who_waits_too_long_goes_without(void **state)
{
	(void)state;
	struct place place = { .turns = FAIR_LOCK_INIT };
	struct waiter guests[THREADS];
	assert_true(fair_lock_take(&place.turns, 0));
	assert_false(fair_lock_take(&place.turns, 0));
	start_in_order(guests, &place);
	assert_false(fair_lock_take(&place.turns, 1)); /* the last of them */
	assert_int_equal(waiting(&place.turns), THREADS);
	assert_int_equal(place.count, 0);
	fair_lock_release(&place.turns);
	join_in_order(guests, &place);
	assert_true(fair_lock_take(&place.turns, 0));
	fair_lock_release(&place.turns);
}

static void nobody_meets_another(void **state)
{
	(void)state;
	struct place place = { .turns = FAIR_LOCK_INIT };
	struct waiter guests[THREADS];
	for (uint32_t i = 0; i < THREADS; i++) {
		guests[i] = (struct waiter){ .place = &place, .number = i, .rounds = ROUNDS };
		start(&guests[i]);
	}
	for (uint32_t i = 0; i < THREADS; i++)
		thread_join(&guests[i].thread);
	assert_int_equal(place.count, THREADS * ROUNDS);
	assert_int_equal(place.most, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_came_first_goes_first),
		cmocka_unit_test(who_waits_too_long_goes_without),
		cmocka_unit_test(nobody_meets_another),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
