/* sleeper: see sleeper.h. */
#include "sys/sleeper.h"

#include <time.h>

enum { AWAKE, ASLEEP, WOKEN };

int sleeper_init(struct sleeper *sleeper)
{
	pthread_condattr_t attr;
	int error = pthread_condattr_init(&attr);

	if (error)
		return -error;
	/* A step of the wall clock must not change how long a thread sleeps. */
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	error = pthread_cond_init(&sleeper->cond, &attr);
	pthread_condattr_destroy(&attr);
	if (error)
		return -error;
	error = pthread_mutex_init(&sleeper->mutex, NULL);
	if (error) {
		pthread_cond_destroy(&sleeper->cond);
		return -error;
	}
	atomic_init(&sleeper->state, AWAKE);
	return 0;
}

void sleeper_destroy(struct sleeper *sleeper)
{
	CHECK(atomic_load(&sleeper->state) != ASLEEP);
	pthread_mutex_destroy(&sleeper->mutex);
	pthread_cond_destroy(&sleeper->cond);
}

static struct timespec deadline_after(int timeout_ms)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += timeout_ms / 1000;
	at.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	if (at.tv_nsec >= 1000000000) {
		at.tv_sec++;
		at.tv_nsec -= 1000000000;
	}
	return at;
}

static void wait_until_woken(struct sleeper *sleeper, int timeout_ms)
{
	struct timespec at = { 0 };
	int error = 0;

	if (timeout_ms >= 0)
		at = deadline_after(timeout_ms);
	pthread_mutex_lock(&sleeper->mutex);
	while (atomic_load(&sleeper->state) == ASLEEP && error == 0)
		error = timeout_ms < 0
		                ? pthread_cond_wait(&sleeper->cond, &sleeper->mutex)
		                : pthread_cond_timedwait(&sleeper->cond, &sleeper->mutex, &at);
	pthread_mutex_unlock(&sleeper->mutex);
}

bool sleeper_sleep(struct sleeper *sleeper, int timeout_ms)
{
	int state = AWAKE;

	if (timeout_ms != 0 && atomic_compare_exchange_strong(&sleeper->state, &state, ASLEEP))
		wait_until_woken(sleeper, timeout_ms);
	return atomic_exchange(&sleeper->state, AWAKE) == WOKEN;
}

void sleeper_wake(struct sleeper *sleeper)
{
	if (atomic_exchange(&sleeper->state, WOKEN) != ASLEEP)
		return;
	/* The lock makes sure that the sleeper either sees WOKEN or waits already. */
	pthread_mutex_lock(&sleeper->mutex);
	pthread_cond_signal(&sleeper->cond);
	pthread_mutex_unlock(&sleeper->mutex);
}
