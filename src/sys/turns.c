/* turns: see turns.h. */
#include "sys/turns.h"

#include "sys/sleeper.h"

struct turns_guest {
	struct turns_guest *next;
	struct sleeper sleeper;
	bool called; /* it has its turn */
};

static struct turns_guest **link_to(struct turns *turns, const struct turns_guest *guest)
{
	struct turns_guest **link = &turns->first;

	while (*link != guest)
		link = &(*link)->next;
	return link;
}

/* With the mutex, which is let go meanwhile. */
static bool wait_for_call(struct turns *turns, int limit_ms)
{
	struct turns_guest guest = { .next = NULL };

	sleeper_init(&guest.sleeper);
	*link_to(turns, NULL) = &guest;
	turns->waiting++;
	pthread_mutex_unlock(&turns->mutex);
	sleeper_sleep(&guest.sleeper, limit_ms);
	pthread_mutex_lock(&turns->mutex);
	if (!guest.called) {
		*link_to(turns, &guest) = guest.next;
		turns->waiting--;
	}
	return guest.called;
}

bool turns_take(struct turns *turns, int limit_ms)
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
		sleeper_wake(&next->sleeper); /* with the mutex: it is there until it has that */
	}
	pthread_mutex_unlock(&turns->mutex);
}
