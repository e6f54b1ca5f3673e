/* turns: one at a time, who came first goes first, and nobody waits for ever. */
#include "support/test.h"

#include <sched.h>

#include "sys/thread.h"
#include "sys/turns.h"

#define THREADS 4u
#define ROUNDS 2000u
#define LONG_MS 600000

struct place {
	struct turns turns;
	uint32_t order[THREADS]; /* who had a turn, one after the other */
	uint32_t count;
	uint32_t inside;
	uint32_t most; /* at the same time */
};

struct guest {
	struct place *place;
	uint32_t number;
	uint32_t rounds;
	struct thread thread;
};

static void have_turns(void *user)
{
	struct guest *guest = user;
	struct place *place = guest->place;
	for (uint32_t i = 0; i < guest->rounds; i++) {
		if (!turns_take(&place->turns, LONG_MS))
			return; /* it will be missed */
		place->inside++;
		if (place->inside > place->most)
			place->most = place->inside;
		place->order[place->count++ % THREADS] = guest->number;
		place->inside--;
		turns_give(&place->turns);
	}
}

static void start(struct guest *guest)
{
	struct thread_options options = {
		.name = "guest", .cpu = THREAD_ANY_CPU, .run = have_turns, .user = guest
	};
	assert_int_equal(thread_start(&guest->thread, &options), 0);
}

static uint32_t waiting(struct turns *turns)
{
	pthread_mutex_lock(&turns->mutex);
	uint32_t count = turns->waiting;
	pthread_mutex_unlock(&turns->mutex);
	return count;
}

/* Each of them waits before the next one comes. */
static void start_in_order(struct guest guests[static THREADS], struct place *place)
{
	for (uint32_t i = 0; i < THREADS; i++) {
		guests[i] = (struct guest){ .place = place, .number = i, .rounds = 1 };
		start(&guests[i]);
		while (waiting(&place->turns) < i + 1)
			sched_yield();
	}
}

static void join_in_order(struct guest guests[static THREADS], const struct place *place)
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
	struct place place = { .turns = TURNS_INIT };
	struct guest guests[THREADS];
	assert_true(turns_take(&place.turns, 0));
	start_in_order(guests, &place);
	assert_int_equal(place.count, 0);
	turns_give(&place.turns);
	assert_true(turns_take(&place.turns, LONG_MS)); /* all others came before */
	assert_int_equal(place.count, THREADS);
	turns_give(&place.turns);
	join_in_order(guests, &place);
}

/* And those who wait do not wait for somebody who has gone. */
static void who_waits_too_long_goes_without(void **state)
{
	(void)state;
	struct place place = { .turns = TURNS_INIT };
	struct guest guests[THREADS];
	assert_true(turns_take(&place.turns, 0));
	assert_false(turns_take(&place.turns, 0));
	start_in_order(guests, &place);
	assert_false(turns_take(&place.turns, 1)); /* the last of them */
	assert_int_equal(waiting(&place.turns), THREADS);
	assert_int_equal(place.count, 0);
	turns_give(&place.turns);
	join_in_order(guests, &place);
	assert_true(turns_take(&place.turns, 0));
	turns_give(&place.turns);
}

static void nobody_meets_another(void **state)
{
	(void)state;
	struct place place = { .turns = TURNS_INIT };
	struct guest guests[THREADS];
	for (uint32_t i = 0; i < THREADS; i++) {
		guests[i] = (struct guest){ .place = &place, .number = i, .rounds = ROUNDS };
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
