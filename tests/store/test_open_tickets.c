/* open_tickets against an array that holds a state for every number. */
#include <stdio.h>
#include <string.h>

#include "support/test.h"

#include "base/error.h"
#include "base/mem.h"
#include "store/local/index/open_tickets.h"

#define NUMBERS 6000
#define SINKS 3u

struct model {
	struct open_ticket tickets[NUMBERS + 1]; /* state 0: not open */
	uint64_t open;
	uint64_t counts[OPEN_TICKET_STATES];
};

static struct open_ticket sample(uint64_t number, uint32_t segment)
{
	return (struct open_ticket){
		.ticket = number, .segment = segment, .offset = (uint32_t)number * 7, .length = 100
	};
}

/* Runs of a sink's own, so that whole blocks have none of another's. */
static uint32_t sink_of(uint64_t number)
{
	return (uint32_t)(number / 700 % 2 ? number % SINKS : number / 1400 % SINKS);
}

static void model_count(struct model *model)
{
	model->open = 0;
	memset(model->counts, 0, sizeof(model->counts));
	for (uint64_t i = 1; i <= NUMBERS; i++) {
		enum open_ticket_state state = model->tickets[i].state;
		model->open += state != OPEN_TICKET_GONE;
		model->counts[state]++;
	}
}

static void step_insert(struct open_tickets *tickets, struct model *model, uint64_t number,
                        uint32_t segment)
{
	struct open_ticket ticket = sample(number, segment);
	struct open_ticket *at = &model->tickets[number];
	static const enum open_ticket_state states[] = { OPEN_TICKET_HELD, OPEN_TICKET_PARKED,
		                                         OPEN_TICKET_DEAD, OPEN_TICKET_GONE };
	enum open_ticket_state state = states[number % 8 < 3 ? number % 8 : 3];
	ticket.state = (uint8_t)state;
	ticket.sink = sink_of(number);
	assert_int_equal(open_tickets_insert(tickets, &ticket), 0);
	if (at->state) {
		at->segment = segment;
		return;
	}
	*at = ticket;
	at->state = (uint8_t)(state ? state : OPEN_TICKET_DUE);
}

static void step_take(struct open_tickets *tickets, struct model *model, uint32_t sink)
{
	uint64_t first = 1;
	while (first <= NUMBERS &&
	       (model->tickets[first].state != OPEN_TICKET_DUE || sink_of(first) != sink))
		first++;
	const struct open_ticket *peeked = open_tickets_peek(tickets, sink);
	assert_int_equal(peeked != NULL, first <= NUMBERS);
	const struct open_ticket *ticket = open_tickets_take(tickets, sink);
	assert_ptr_equal(ticket, peeked);
	if (!ticket)
		return;
	assert_int_equal(ticket->ticket, first);
	assert_int_equal(ticket->attempt, ++model->tickets[first].attempt);
	model->tickets[first].state = OPEN_TICKET_LEASED;
}

static void step_state(struct open_tickets *tickets, struct model *model, uint64_t number,
                       enum open_ticket_state from, enum open_ticket_state to)
{
	struct open_ticket *at = &model->tickets[number];
	struct open_ticket now;
	if (at->state != from)
		return;
	assert_true(open_tickets_find(tickets, number, &now));
	at->state = now.state = (uint8_t)to;
	at->was = now.was = (uint8_t)from;
	open_tickets_update(tickets, &now);
}

static void step_drop(struct open_tickets *tickets, struct model *model, uint64_t number)
{
	assert_int_equal(open_tickets_drop(tickets, number), model->tickets[number].state != 0);
	model->tickets[number] = (struct open_ticket){ 0 };
}

/* Any change of an open ticket. */
static void step_update(struct open_tickets *tickets, struct model *model, uint64_t number,
                        uint64_t dice)
{
	struct open_ticket *at = &model->tickets[number];
	struct open_ticket now;
	assert_int_equal(open_tickets_find(tickets, number, &now), at->state != 0);
	if (!at->state)
		return;
	at->state = now.state = (uint8_t)(1 + dice % (OPEN_TICKET_STATES - 1));
	at->was = now.was = OPEN_TICKET_HELD;
	at->attempt = now.attempt = (uint16_t)(dice >> 8);
	at->note_offset = now.note_offset = (uint32_t)dice;
	open_tickets_update(tickets, &now);
}

static void compare(struct open_tickets *tickets, struct model *model)
{
	open_tickets_check(tickets);
	model_count(model);
	assert_int_equal(open_tickets_count(tickets), model->open);
	for (int i = OPEN_TICKET_DUE; i < OPEN_TICKET_STATES; i++)
		assert_int_equal(open_tickets_in(tickets, (enum open_ticket_state)i),
		                 model->counts[i]);
	uint32_t oldest = UINT32_MAX;
	uint64_t after = 0;
	for (uint64_t i = 1; i <= NUMBERS; i++) {
		const struct open_ticket *at = &model->tickets[i];
		struct open_ticket found;
		if (!at->state)
			continue;
		assert_true(open_tickets_next(tickets, after, &found));
		assert_int_equal(found.ticket, i);
		assert_int_equal(found.state, at->state);
		assert_int_equal(found.attempt, at->attempt);
		assert_int_equal(found.segment, at->segment);
		assert_int_equal(found.note_offset, at->note_offset);
		after = i;
		oldest = at->segment < oldest ? at->segment : oldest;
	}
	uint32_t segment = UINT32_MAX;
	assert_int_equal(open_tickets_oldest_segment(tickets, &segment), model->open > 0);
	assert_int_equal(segment, oldest);
	/* What carrying the oldest segment forward would see. */
	struct open_ticket found;
	uint64_t seen = 0;
	for (after = 0; open_tickets_next_before(tickets, after, oldest, &found); seen++) {
		assert_int_equal(found.segment, oldest);
		after = found.ticket;
	}
	assert_int_equal(seen, open_tickets_in_segment(tickets, oldest));
	/* What is held, backwards. */
	uint64_t before = 0;
	for (uint64_t i = NUMBERS; i > 0; i--) {
		const struct open_ticket *at = &model->tickets[i];
		if (at->state != OPEN_TICKET_HELD &&
		    !(at->state == OPEN_TICKET_CHANGING && at->was == OPEN_TICKET_HELD))
			continue;
		assert_true(open_tickets_held_before(tickets, before, &found));
		assert_int_equal(found.ticket, i);
		before = i;
	}
	assert_false(open_tickets_held_before(tickets, before ? before : 1, &found));
}

static void history(uint64_t seed)
{
	static struct model model;
	memset(&model, 0, sizeof(model));
	struct open_tickets *tickets = NULL;
	assert_int_equal(open_tickets_new(0, &tickets), 0);
	uint64_t random = seed;
	uint64_t tail = 0;
	uint32_t drops = (uint32_t)test_random_below(&random, 60);
	for (int i = 0; i < 20000; i++) {
		uint64_t dice = test_random(&random);
		uint64_t number = 1 + test_random_below(&random,
		                                        tail + 1 < NUMBERS ? tail + 1 : NUMBERS);
		uint32_t segment = (uint32_t)(i / 1000 + (int)(dice >> 60));
		uint64_t what = dice % 100;
		if (what < 25 && tail < NUMBERS)
			step_insert(tickets, &model, ++tail, segment);
		else if (what < 30)
			step_insert(tickets, &model, number, segment);
		else if (what < 30 + drops)
			step_drop(tickets, &model, number);
		else if (what < 92)
			dice >> 40 & 1 ? step_take(tickets, &model, (uint32_t)(dice >> 41) % SINKS)
				       : step_state(tickets, &model, number, OPEN_TICKET_LEASED,
			                            OPEN_TICKET_CHANGING);
		else if (what < 96)
			step_update(tickets, &model, number, dice >> 8);
		else
			step_state(tickets, &model, number, OPEN_TICKET_CHANGING,
			           OPEN_TICKET_LEASED);
		if (i % 1000 == 999)
			compare(tickets, &model);
	}
	open_tickets_free(tickets);
}

static void test_any_history_agrees_with_the_model(void **state)
{
	(void)state;
	uint64_t rounds = test_scale(12);
	for (uint64_t i = 0; i < rounds; i++) {
		print_message("%s\n", test_note_seed(test_seed() + i));
		history(test_seed() + i);
	}
}

static void test_memory_follows_what_is_open_though_a_few_old_ones_stay(void **state)
{
	(void)state;
	struct open_tickets *tickets = NULL;
	assert_int_equal(open_tickets_new(0, &tickets), 0);
	for (uint64_t i = 1; i <= 200000; i++) {
		struct open_ticket ticket = sample(i, 1);
		assert_int_equal(open_tickets_insert(tickets, &ticket), 0);
	}
	uint64_t full = open_tickets_bytes(tickets);
	for (uint64_t i = 1; i <= 200000; i++) {
		if (i % 500 != 0)
			assert_true(open_tickets_drop(tickets, i));
	}
	open_tickets_check(tickets);
	assert_int_equal(open_tickets_count(tickets), 400);
	assert_true(open_tickets_bytes(tickets) < full / 40);
	open_tickets_free(tickets);
}

static void test_carried_tickets_come_back_below_the_newer_ones(void **state)
{
	(void)state;
	struct open_tickets *tickets = NULL;
	assert_int_equal(open_tickets_new(0, &tickets), 0);
	for (uint64_t i = 50001; i <= 60000; i++) {
		struct open_ticket ticket = sample(i, 7);
		assert_int_equal(open_tickets_insert(tickets, &ticket), 0);
	}
	for (uint64_t i = 1; i <= 50000; i++) {
		struct open_ticket ticket = sample(i, 8);
		assert_int_equal(open_tickets_insert(tickets, &ticket), 0);
	}
	open_tickets_check(tickets);
	for (uint64_t i = 1; i <= 60000; i++) {
		const struct open_ticket *ticket = open_tickets_take(tickets, 0);
		assert_non_null(ticket);
		assert_int_equal(ticket->ticket, i);
	}
	assert_null(open_tickets_take(tickets, 0));
	open_tickets_free(tickets);
}

/* The lowest of a block may be gone, and forgotten with it, when one comes back that is
 * lower than all that are left and the block is full. */
static void test_a_carried_ticket_finds_its_place_before_a_full_block(void **state)
{
	(void)state;
	struct open_tickets *tickets;
	struct open_ticket ticket, found;
	assert_int_equal(open_tickets_new(0, &tickets), 0);
	for (uint64_t block = 1; block <= 3; block++)
		for (uint64_t i = 0; i < 512; i++) {
			ticket = sample(block * 1000 + i, 5);
			assert_int_equal(open_tickets_insert(tickets, &ticket), 0);
		}
	ticket = sample(4000, 5);
	assert_int_equal(open_tickets_insert(tickets, &ticket), 0);
	for (uint64_t i = 2000; i < 2400; i++)
		assert_true(open_tickets_drop(tickets, i));
	for (uint64_t i = 1000; i < 1400; i++)
		assert_true(open_tickets_drop(tickets, i)); /* the two become one */
	for (uint64_t i = 1112; i < 1384; i++) {            /* which is full then */
		ticket = sample(i, 6);
		assert_int_equal(open_tickets_insert(tickets, &ticket), 0);
	}
	for (uint64_t i = 1050; i < 1112; i++) {
		ticket = sample(i, 6);
		assert_int_equal(open_tickets_insert(tickets, &ticket), 0);
		open_tickets_check(tickets);
		assert_true(open_tickets_find(tickets, i, &found));
	}
	open_tickets_free(tickets);
}

static void test_more_than_the_limit_is_refused_before_it_is_admitted(void **state)
{
	(void)state;
	struct open_tickets *tickets = NULL;
	assert_int_equal(open_tickets_new(10, &tickets), 0);
	assert_int_equal(open_tickets_reserve(tickets, 11), ERR_FULL);
	assert_int_equal(open_tickets_reserve(tickets, 10), 0);
	for (uint64_t i = 1; i <= 10; i++) {
		struct open_ticket ticket = sample(i, 1);
		assert_int_equal(open_tickets_insert(tickets, &ticket), 0);
	}
	assert_int_equal(open_tickets_reserve(tickets, 1), ERR_FULL);
	assert_int_equal(open_tickets_reserve_beyond(tickets, 1), 0);
	assert_true(open_tickets_drop(tickets, 5));
	assert_int_equal(open_tickets_reserve(tickets, 1), 0);
	open_tickets_free(tickets);
}

static void test_inserts_after_a_reserve_need_no_memory(void **state)
{
	(void)state;
	struct open_tickets *tickets = NULL;
	assert_int_equal(open_tickets_new(0, &tickets), 0);
	for (uint64_t i = 1; i <= 300; i++) {
		struct open_ticket ticket = sample(i, 1);
		assert_int_equal(open_tickets_insert(tickets, &ticket), 0);
	}
	assert_int_equal(open_tickets_reserve(tickets, 5000), 0);
	mem_fail_at(1, true);
	for (uint64_t i = 301; i <= 5300; i++) {
		struct open_ticket ticket = sample(i, 2);
		assert_int_equal(open_tickets_insert(tickets, &ticket), 0);
	}
	mem_fail_at(0, false);
	open_tickets_check(tickets);
	open_tickets_free(tickets);
}

/* Inserts 3,000 in a scattered order; true if no allocation failed. */
static bool torture_run(void)
{
	struct open_tickets *tickets = NULL;
	if (open_tickets_new(0, &tickets) != 0)
		return false;
	uint64_t count = 0;
	bool failed = false;
	for (uint64_t i = 0; i < 3000 && !failed; i++) {
		struct open_ticket ticket = sample(1 + i * 1009 % 3001, (uint32_t)(i / 40));
		failed = open_tickets_insert(tickets, &ticket) != 0;
		count += !failed;
	}
	assert_int_equal(open_tickets_count(tickets), count);
	open_tickets_check(tickets);
	open_tickets_free(tickets);
	return !failed;
}

static void test_a_failed_allocation_changes_nothing(void **state)
{
	(void)state;
	bool done = false;
	for (unsigned long n = 1; !done; n++) {
		mem_fail_at(n, false);
		done = torture_run();
		mem_fail_at(0, false);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_history_agrees_with_the_model),
		cmocka_unit_test(test_memory_follows_what_is_open_though_a_few_old_ones_stay),
		cmocka_unit_test(test_carried_tickets_come_back_below_the_newer_ones),
		cmocka_unit_test(test_a_carried_ticket_finds_its_place_before_a_full_block),
		cmocka_unit_test(test_more_than_the_limit_is_refused_before_it_is_admitted),
		cmocka_unit_test(test_inserts_after_a_reserve_need_no_memory),
		cmocka_unit_test(test_a_failed_allocation_changes_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
