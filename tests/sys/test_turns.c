/* turns: one at a time, and who came first goes first. */
#include "support/test.h"

#include <sched.h>

#include "sys/thread.h"
#include "sys/turns.h"

#define THREADS 4u
#define ROUNDS 2000u

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
		turns_take(&place->turns);
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

static uint64_t came(struct turns *turns)
{
	pthread_mutex_lock(&turns->mutex);
	uint64_t last = turns->last;
	pthread_mutex_unlock(&turns->mutex);
	return last;
}

static void who_came_first_goes_first(void **state)
{
	(void)state;
	struct place place = { .turns = TURNS_INIT };
	struct guest guests[THREADS];
	turns_take(&place.turns);
	for (uint32_t i = 0; i < THREADS; i++) {
		guests[i] = (struct guest){ .place = &place, .number = i, .rounds = 1 };
		start(&guests[i]);
		while (came(&place.turns) < i + 2)
			sched_yield();
	}
	assert_int_equal(place.count, 0);
	turns_give(&place.turns);
	/* All others came before. */
	turns_take(&place.turns);
	assert_int_equal(place.count, THREADS);
	turns_give(&place.turns);
	for (uint32_t i = 0; i < THREADS; i++) {
		thread_join(&guests[i].thread);
		assert_int_equal(place.order[i], i);
	}
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
		cmocka_unit_test(nobody_meets_another),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
