/* waits: see waits.h. */
#include "store/waits.h"

#include "base/error.h"

static struct store_wait *wait_of(struct store_op *op)
{
	return container_of(op, struct store_wait, op);
}

static uint32_t bucket_number(uint64_t event)
{
	return (uint32_t)((event ^ event >> 10 ^ event >> 20) % WAITS_BUCKETS);
}

static struct store_op **bucket_of(struct waits *waits, uint64_t event)
{
	return &waits->buckets[bucket_number(event)];
}

void waits_init(struct waits *waits, uint64_t floor,
                struct waits_legs (*legs)(void *user, uint64_t event), void *user)
{
	*waits = (struct waits){ .floor = floor, .legs = legs, .user = user };
}

/* False: it is not settled yet. */
static bool answer(const struct waits *waits, struct store_wait *wait)
{
	struct waits_legs legs = waits->legs(waits->user, wait->ticket);
	uint32_t kept = waits->dropped_count < WAITS_DROPPED_MAX ? waits->dropped_count
	                                                         : WAITS_DROPPED_MAX;

	wait->was_open |= legs.pending || legs.parked || legs.dead;
	if (legs.pending)
		return false;
	for (uint32_t i = 0; i < kept && !legs.dead; i++)
		legs.dead = waits->dropped[i] == wait->ticket;
	if (legs.parked)
		wait->outcome = OUTCOME_UNKNOWN;
	else if (legs.dead)
		wait->outcome = OUTCOME_DEAD;
	else
		wait->outcome = wait->was_open || wait->ticket > waits->floor ? OUTCOME_DONE
		                                                              : OUTCOME_NONE;
	return true;
}

bool waits_add(struct waits *waits, struct store_wait *wait)
{
	CHECK(waits->count <= STORE_WAITS_MAX);
	wait->was_open = false;
	wait->outcome = OUTCOME_NONE;
	wait->op.error = 0;
	if (answer(waits, wait))
		return false;
	if (waits->count == STORE_WAITS_MAX) {
		wait->op.error = ERR_FULL;
		return false;
	}
	struct store_op **at = bucket_of(waits, wait->ticket);
	wait->op.next = *at;
	*at = &wait->op;
	waits->count++;
	return true;
}

void waits_note_dropped(struct waits *waits, uint64_t event)
{
	uint64_t *at = &waits->dropped[waits->dropped_count++ % WAITS_DROPPED_MAX];

	if (*at > waits->floor)
		waits->floor = *at;
	*at = event;
}

/* Takes it out of its bucket first: done() may submit. */
static void finish(struct waits *waits, struct store_op **at)
{
	struct store_op *op = *at;

	CHECK(waits->count > 0);
	*at = op->next;
	waits->count--;
	op->done(op);
}

void waits_tell(struct waits *waits, uint64_t event)
{
	struct store_op **at = bucket_of(waits, event);

	while (*at) {
		struct store_wait *wait = wait_of(*at);
		if (wait->ticket == event && answer(waits, wait))
			finish(waits, at);
		else
			at = &(*at)->next;
	}
}

void waits_expire(struct waits *waits, uint64_t boot_ms)
{
	for (uint32_t i = 0; i < WAITS_BUCKETS && waits->count > 0; i++) {
		struct store_op **at = &waits->buckets[i];
		while (*at) {
			if (store_wait_is_over(wait_of(*at), boot_ms))
				finish(waits, at);
			else
				at = &(*at)->next;
		}
	}
}

void waits_fail(struct waits *waits, int error)
{
	CHECK(error < 0);
	for (uint32_t i = 0; i < WAITS_BUCKETS; i++) {
		while (waits->buckets[i]) {
			waits->buckets[i]->error = error;
			finish(waits, &waits->buckets[i]);
		}
	}
	CHECK(waits->count == 0);
}

void waits_check(const struct waits *waits)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < WAITS_BUCKETS; i++)
		for (struct store_op *op = waits->buckets[i]; op; op = op->next, count++)
			CHECK(bucket_number(wait_of(op)->ticket) == i);
	CHECK(count == waits->count);
	CHECK(count <= STORE_WAITS_MAX);
}
