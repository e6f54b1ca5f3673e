/* fair_lock: see fair_lock.h. */
#include "sys/fair_lock.h"

#include "sys/wake_event.h"

struct fair_lock_waiter {
	struct fair_lock_waiter *next;
	struct wake_event wake;
	bool granted;
};

static struct fair_lock_waiter **link_to(struct fair_lock *lock,
                                         const struct fair_lock_waiter *waiter)
{
	struct fair_lock_waiter **link = &lock->first;

	while (*link != waiter)
		link = &(*link)->next;
	return link;
}

bool fair_lock_take(struct fair_lock *lock, int limit_ms)
{
	pthread_mutex_lock(&lock->mutex);
	bool has = !lock->taken;
	if (!has) {
		struct fair_lock_waiter waiter = { .next = NULL };
		wake_event_init(&waiter.wake);
		*link_to(lock, NULL) = &waiter;
		lock->waiting++;
		pthread_mutex_unlock(&lock->mutex);
		wake_event_wait(&waiter.wake, limit_ms);
		pthread_mutex_lock(&lock->mutex);
		has = waiter.granted;
		if (!has) {
			*link_to(lock, &waiter) = waiter.next;
			lock->waiting--;
		}
	}
	if (has)
		lock->taken = true;
	pthread_mutex_unlock(&lock->mutex);
	return has;
}

void fair_lock_release(struct fair_lock *lock)
{
	pthread_mutex_lock(&lock->mutex);
	CHECK(lock->taken);
	struct fair_lock_waiter *next = lock->first;
	lock->taken = next != NULL;
	if (next) {
		lock->first = next->next;
		lock->waiting--;
		next->granted = true;
		wake_event_set(&next->wake); /* with the mutex: it is there until it has that */
	}
	pthread_mutex_unlock(&lock->mutex);
}
