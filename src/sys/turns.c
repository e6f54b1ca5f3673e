/* turns: see turns.h. */
#include "sys/turns.h"

#include <time.h>

struct turns_guest {
	struct turns_guest *next;
	bool called; /* it has its turn */
};

static struct timespec in_ms(uint32_t ms)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += ms / 1000;
	end.tv_nsec += (long)(ms % 1000) * 1000000;
	if (end.tv_nsec >= 1000000000) {
		end.tv_sec++;
		end.tv_nsec -= 1000000000;
	}
	return end;
}

static struct turns_guest **link_to(struct turns *turns, const struct turns_guest *guest)
{
	struct turns_guest **link = &turns->first;

	while (*link != guest)
		link = &(*link)->next;
	return link;
}

/* With the mutex, which is let go meanwhile. */
static bool wait_for_call(struct turns *turns, uint32_t limit_ms)
{
	struct turns_guest guest = { .next = NULL };
	struct timespec end = in_ms(limit_ms);
	int error = 0;

	*link_to(turns, NULL) = &guest;
	turns->waiting++;
	while (!guest.called && error == 0)
		error = pthread_cond_clockwait(&turns->changed, &turns->mutex, CLOCK_MONOTONIC,
		                               &end);
	if (!guest.called) {
		*link_to(turns, &guest) = guest.next;
		turns->waiting--;
	}
	return guest.called;
}

bool turns_take(struct turns *turns, uint32_t limit_ms)
{
	pthread_mutex_lock(&turns->mutex);
	bool has = !turns->taken || wait_for_call(turns, limit_ms);
	if (has)
		turns->taken = true;
	pthread_mutex_unlock(&turns->mutex);
	return has;
}

void turns_give(struct turns *turns)
{
	pthread_mutex_lock(&turns->mutex);
	CHECK(turns->taken);
	struct turns_guest *next = turns->first;
	turns->taken = next != NULL;
	if (next) {
		turns->first = next->next;
		turns->waiting--;
		next->called = true;
		pthread_cond_broadcast(&turns->changed);
	}
	pthread_mutex_unlock(&turns->mutex);
}
