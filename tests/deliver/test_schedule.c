/*
 * The schedule against a model: an array that is looked through. Random tickets come
 * and go; at every step what starts must be allowed, and what is allowed must start.
 */
#include "deliver/schedule.h"

#include "base/error.h"
#include "base/mem.h"
#include "support/test.h"

#define TICKETS 400u

enum model_state { ABSENT = 0, READY, STARTED };

struct model_ticket {
	uint64_t ticket, order, due_ms;
	enum model_state state;
	uint32_t place; /* when started */
};

struct model {
	struct model_ticket tickets[TICKETS];
	uint32_t count;
	struct schedule schedule;
	uint64_t now_ms;
	uint64_t next_ticket;
	uint64_t seed;
};

/* No other of its entity is under way or has a lower number. */
static bool may_start(const struct model *model, const struct model_ticket *it)
{
	if (it->state != READY)
		return false;
	if (it->order == 0)
		return true;
	for (uint32_t i = 0; i < TICKETS; i++) {
		const struct model_ticket *other = &model->tickets[i];
		if (other == it || other->state == ABSENT || other->order != it->order)
			continue;
		if (other->state == STARTED || other->ticket < it->ticket)
			return false;
	}
	return true;
}

static uint64_t model_due_ms(const struct model *model)
{
	uint64_t due_ms = UINT64_MAX;
	for (uint32_t i = 0; i < TICKETS; i++) {
		const struct model_ticket *it = &model->tickets[i];
		if (may_start(model, it) && it->due_ms < due_ms)
			due_ms = it->due_ms;
	}
	return due_ms;
}

static struct model_ticket *model_find(struct model *model, uint64_t ticket)
{
	for (uint32_t i = 0; i < TICKETS; i++)
		if (model->tickets[i].state != ABSENT && model->tickets[i].ticket == ticket)
			return &model->tickets[i];
	return NULL;
}

static struct model_ticket *pick(struct model *model, enum model_state state)
{
	uint32_t from = (uint32_t)test_random_below(&model->seed, TICKETS);
	for (uint32_t i = 0; i < TICKETS; i++) {
		struct model_ticket *it = &model->tickets[(from + i) % TICKETS];
		if (it->state == state)
			return it;
	}
	return NULL;
}

static void add(struct model *model)
{
	struct model_ticket *it = pick(model, ABSENT);
	if (!it)
		return;
	uint64_t step = test_random_below(&model->seed, 3) + 1;
	uint64_t ticket = model->next_ticket += step;
	if (test_random_below(&model->seed, 8) == 0) /* released: an old one comes late */
		ticket = test_random_below(&model->seed, model->next_ticket) + 1;
	if (model_find(model, ticket))
		return;
	bool waits = test_random_below(&model->seed, 3) == 0;
	*it = (struct model_ticket){
		.ticket = ticket,
		.order = test_random_below(&model->seed, 2) ? 0
		                                            : test_random_below(&model->seed, 40),
		.due_ms = waits ? model->now_ms + test_random_below(&model->seed, 100) : 0,
		.state = READY,
	};
	uint32_t place = SCHEDULE_NONE;
	struct schedule_ticket own = {
		.ticket = it->ticket, .order = it->order, .due_ms = it->due_ms, .attempt = 7
	};
	assert_int_equal(schedule_add(&model->schedule, &own, model->now_ms, &place), 0);
	assert_int_equal(schedule_at(&model->schedule, place)->ticket, ticket);
	assert_int_equal(schedule_at(&model->schedule, place)->attempt, 7);
	model->count++;
}

static void start(struct model *model)
{
	bool due = model_due_ms(model) <= model->now_ms;
	assert_int_equal(schedule_is_due(&model->schedule, model->now_ms), due);
	uint32_t place = schedule_start(&model->schedule, model->now_ms);
	assert_int_equal(place != SCHEDULE_NONE, due);
	if (!due)
		return;
	struct model_ticket *it = model_find(model, schedule_at(&model->schedule, place)->ticket);
	assert_non_null(it);
	assert_true(may_start(model, it));
	assert_true(it->due_ms <= model->now_ms);
	it->state = STARTED;
	it->place = place;
}

static void again(struct model *model)
{
	struct model_ticket *it = pick(model, STARTED);
	if (!it)
		return;
	it->state = READY;
	it->due_ms = model->now_ms + test_random_below(&model->seed, 100);
	schedule_again(&model->schedule, it->place, it->due_ms, model->now_ms);
}

static void leave(struct model *model, enum model_state state)
{
	struct model_ticket *it = pick(model, state);
	if (!it)
		return;
	uint32_t place = schedule_find(&model->schedule, it->ticket);
	assert_true(place != SCHEDULE_NONE);
	if (state == STARTED)
		assert_int_equal(place, it->place);
	schedule_remove(&model->schedule, place);
	it->state = ABSENT;
	model->count--;
}

static void hurry(struct model *model)
{
	struct model_ticket *it = pick(model, READY);
	if (!it)
		return;
	bool waits = may_start(model, it) && it->due_ms > model->now_ms;
	uint32_t place = schedule_find(&model->schedule, it->ticket);
	/* One that was due when it moved up, or by now, may stand in the heap too. */
	if (schedule_hurry(&model->schedule, place))
		it->due_ms = 0;
	else
		assert_false(waits);
}

static void walk(struct model *model)
{
	uint32_t seen = 0;
	for (uint32_t place = SCHEDULE_NONE;
	     (place = schedule_each(&model->schedule, place)) != SCHEDULE_NONE; seen++)
		assert_non_null(model_find(model, schedule_at(&model->schedule, place)->ticket));
	assert_int_equal(seen, model->count);
	assert_int_equal(model->schedule.count, model->count);
}

static void step(struct model *model)
{
	switch (test_random_below(&model->seed, 12)) {
	case 0:
	case 1:
	case 2: add(model); break;
	case 3:
	case 4:
	case 5: start(model); break;
	case 6: again(model); break;
	case 7:
	case 8: leave(model, STARTED); break;
	case 9:
		if (test_random_below(&model->seed, 4) == 0)
			leave(model, READY);
		break;
	case 10: hurry(model); break;
	default: model->now_ms += test_random_below(&model->seed, 20); break;
	}
}

static void any_history_starts_what_may_start_and_nothing_else(void **state)
{
	(void)state;
	for (uint64_t run = 0; run < test_scale(40); run++) {
		static struct model model;
		model = (struct model){ .seed = test_seed() + run, .now_ms = 1000 };
		schedule_init(&model.schedule);
		for (uint32_t i = 0; i < 4000; i++) {
			step(&model);
			if (i % 64 == 0)
				walk(&model);
		}
		while (model.count > 0) { /* everything comes out in the end */
			model.now_ms += 10;
			start(&model);
			leave(&model, STARTED);
		}
		assert_int_equal(schedule_start(&model.schedule, UINT64_MAX), SCHEDULE_NONE);
		schedule_free(&model.schedule);
	}
}

static uint32_t add_one(struct schedule *schedule, uint64_t ticket, uint64_t order, uint64_t due_ms)
{
	uint32_t place = SCHEDULE_NONE;
	struct schedule_ticket own = { .ticket = ticket, .order = order, .due_ms = due_ms };
	assert_int_equal(schedule_add(schedule, &own, 0, &place), 0);
	return place;
}

static void due_tickets_start_in_the_order_they_came(void **state)
{
	(void)state;
	struct schedule schedule;
	schedule_init(&schedule);
	for (uint64_t ticket = 1; ticket <= 1000; ticket++)
		add_one(&schedule, ticket, 0, 0);
	for (uint64_t ticket = 1; ticket <= 1000; ticket++) {
		uint32_t place = schedule_start(&schedule, 0);
		assert_int_equal(schedule_at(&schedule, place)->ticket, ticket);
	}
	schedule_free(&schedule);
}

/* 1,000 that failed and are due again, and 1,000 new ones: neither starves. */
static void a_backlog_and_retries_take_turns(void **state)
{
	(void)state;
	struct schedule schedule;
	schedule_init(&schedule);
	for (uint64_t ticket = 1; ticket <= 1000; ticket++)
		add_one(&schedule, ticket, 0, 50);
	for (uint64_t ticket = 1001; ticket <= 2000; ticket++)
		add_one(&schedule, ticket, 0, 0);
	uint32_t retries = 0;
	for (uint32_t i = 0; i < 100; i++)
		retries += schedule_at(&schedule, schedule_start(&schedule, 100))->ticket <= 1000;
	assert_int_equal(retries, 50);
	schedule_free(&schedule);
}

static void only_the_only_due_one_can_start_past_the_queue(void **state)
{
	(void)state;
	struct schedule schedule;
	schedule_init(&schedule);
	uint32_t first = add_one(&schedule, 1, 9, 0);
	uint32_t blocked = add_one(&schedule, 2, 9, 0);
	uint32_t second = add_one(&schedule, 3, 0, 0);
	assert_false(schedule_start_this(&schedule, blocked));
	assert_false(schedule_start_this(&schedule, second));
	schedule_remove(&schedule, schedule_find(&schedule, 1)); /* leaves a hole in the queue */
	assert_true(schedule_start_this(&schedule, second));
	assert_int_equal(schedule_at(&schedule, schedule_start(&schedule, 0))->ticket, 2);
	(void)first;
	schedule_free(&schedule);
}

/* The memory that tickets take. */
static size_t bytes_of(const struct schedule *schedule)
{
	return (size_t)schedule->used * sizeof(*schedule->tickets) +
	       (size_t)schedule->heap_count * sizeof(*schedule->heap) +
	       (size_t)(map_bytes(&schedule->entities) + map_bytes(&schedule->numbers));
}

static void a_waiting_ticket_takes_no_more_than_80_bytes(void **state)
{
	(void)state;
	uint64_t count = 1000000;
	for (uint32_t with = 0; with < 2; with++) {
		struct schedule schedule;
		schedule_init(&schedule);
		for (uint64_t i = 1; i <= count; i++) /* each of its own entity; half for a time */
			add_one(&schedule, i, with ? i : 0, i % 2 ? 100 : 0);
		assert_true(bytes_of(&schedule) <= count * 80);
		for (uint64_t i = 1; i <= count; i++)
			schedule_remove(&schedule, schedule_start(&schedule, 100));
		assert_int_equal(bytes_of(&schedule), 0);
		schedule_free(&schedule);
	}
}

static void no_memory_changes_nothing(void **state)
{
	(void)state;
	for (unsigned long n = 1; n < 12; n++) {
		struct schedule schedule;
		schedule_init(&schedule);
		uint64_t added = 0;
		mem_fail_at(n, true);
		for (uint64_t ticket = 1; ticket <= 2000; ticket++) {
			uint32_t place = 0;
			struct schedule_ticket own = { .ticket = ticket, .order = ticket };
			int error = schedule_add(&schedule, &own, 0, &place);
			assert_true(error == 0 || error == -ENOMEM);
			added += error == 0;
		}
		mem_fail_at(0, false);
		assert_int_equal(schedule.count, added);
		uint64_t started = 0;
		while (schedule_start(&schedule, 0) != SCHEDULE_NONE)
			started++;
		assert_int_equal(started, added);
		schedule_free(&schedule);
	}
}

/* Among many, with holes, places that move, and without memory for an index. */
static void a_ticket_is_found_by_its_number(void **state)
{
	(void)state;
	struct schedule schedule;
	uint32_t place;
	for (uint32_t starved = 0; starved < 2; starved++) {
		schedule_init(&schedule);
		for (uint64_t i = 1; i <= 5000; i++) {
			struct schedule_ticket ticket = { .ticket = 10000 - i, .order = i % 7 };
			assert_int_equal(schedule_add(&schedule, &ticket, 0, &place), 0);
			if (i == 1000)
				assert_int_equal(schedule_find(&schedule, 1), SCHEDULE_NONE);
		}
		mem_fail_at(starved, true);
		for (uint64_t i = 1; i <= 5000; i += 3)
			schedule_remove(&schedule, schedule_find(&schedule, 10000 - i));
		for (uint64_t i = 1; i <= 5000; i++) {
			place = schedule_find(&schedule, 10000 - i);
			assert_true((place == SCHEDULE_NONE) == (i % 3 == 1));
			if (place != SCHEDULE_NONE)
				assert_true(schedule_at(&schedule, place)->ticket == 10000 - i);
		}
		mem_fail_at(0, false);
		schedule_free(&schedule);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_ticket_is_found_by_its_number),
		cmocka_unit_test(any_history_starts_what_may_start_and_nothing_else),
		cmocka_unit_test(due_tickets_start_in_the_order_they_came),
		cmocka_unit_test(a_backlog_and_retries_take_turns),
		cmocka_unit_test(only_the_only_due_one_can_start_past_the_queue),
		cmocka_unit_test(a_waiting_ticket_takes_no_more_than_80_bytes),
		cmocka_unit_test(no_memory_changes_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
