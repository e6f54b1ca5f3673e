/* The loop: readiness, removal within a round, timers, hooks, wakes. */
#include "sys/loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "support/test.h"
#include "sys/clock.h"

struct fixture {
	struct loop *loop;
	struct loop_hook hook;
	int rounds, stop_after;
};

static void count_round(struct loop_hook *hook)
{
	struct fixture *fixture = container_of(hook, struct fixture, hook);
	if (++fixture->rounds >= fixture->stop_after)
		loop_stop(fixture->loop);
	loop_again(fixture->loop);
}

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	if (!fixture || loop_new(&fixture->loop))
		return -1;
	fixture->hook.round = count_round;
	loop_hook_add(fixture->loop, &fixture->hook);
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	loop_free(fixture->loop);
	free(fixture);
	return 0;
}

static void run_rounds(struct fixture *fixture, int count)
{
	fixture->stop_after = fixture->rounds + count;
	loop_again(fixture->loop);
	loop_run(fixture->loop);
}

struct peer {
	struct loop_handler handler;
	struct fixture *fixture;
	struct peer *victim; /* removed when this one is called */
	int calls;
	uint32_t events;
};

static void peer_ready(struct loop_handler *handler, uint32_t events)
{
	struct peer *peer = container_of(handler, struct peer, handler);
	peer->calls++;
	peer->events = events;
	if (peer->victim)
		loop_remove(peer->fixture->loop, &peer->victim->handler);
}

static void open_pair(int fds[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
}

static void write_byte(int fd)
{
	assert_int_equal(write(fd, "x", 1), 1);
}

static void level_reports_until_read_and_edge_once(void **state)
{
	struct fixture *fixture = *state;
	int level[2], edge[2];
	open_pair(level);
	open_pair(edge);
	struct peer a = { .handler = { peer_ready, level[0] }, .fixture = fixture };
	struct peer b = { .handler = { peer_ready, edge[0] }, .fixture = fixture };
	assert_int_equal(loop_add(fixture->loop, &a.handler, LOOP_READ), 0);
	assert_int_equal(loop_add(fixture->loop, &b.handler, LOOP_READ | LOOP_EDGE), 0);
	write_byte(level[1]);
	write_byte(edge[1]);
	run_rounds(fixture, 3);
	assert_int_equal(a.calls, 3);
	assert_int_equal(b.calls, 1);
	assert_int_equal(b.events, LOOP_READ);
	write_byte(edge[1]);
	run_rounds(fixture, 2);
	assert_int_equal(b.calls, 2);
	loop_remove(fixture->loop, &a.handler);
	run_rounds(fixture, 2);
	assert_int_equal(a.calls, 5);
	for (int i = 0; i < 2; i++) {
		close(level[i]);
		close(edge[i]);
	}
}

static void writability_is_reported_when_asked_for(void **state)
{
	struct fixture *fixture = *state;
	int fds[2];
	open_pair(fds);
	struct peer peer = { .handler = { peer_ready, fds[0] }, .fixture = fixture };
	assert_int_equal(loop_add(fixture->loop, &peer.handler, LOOP_READ), 0);
	run_rounds(fixture, 1);
	assert_int_equal(peer.calls, 0);
	loop_remove(fixture->loop, &peer.handler);
	assert_int_equal(loop_add(fixture->loop, &peer.handler, LOOP_WRITE), 0);
	run_rounds(fixture, 1);
	assert_int_equal(peer.events, LOOP_WRITE);
	close(fds[0]);
	close(fds[1]);
}

static void a_hang_up_is_reported_as_readable(void **state)
{
	struct fixture *fixture = *state;
	int fds[2];
	open_pair(fds);
	struct peer peer = { .handler = { peer_ready, fds[0] }, .fixture = fixture };
	assert_int_equal(loop_add(fixture->loop, &peer.handler, LOOP_READ | LOOP_EDGE), 0);
	close(fds[1]);
	run_rounds(fixture, 1);
	assert_int_equal(peer.events & (LOOP_READ | LOOP_HANGUP), LOOP_READ | LOOP_HANGUP);
	close(fds[0]);
}

/* Two ready handlers that each remove the other: one call in all. */
static void a_removed_handler_is_not_called_in_the_same_round(void **state)
{
	struct fixture *fixture = *state;
	int one[2], two[2];
	open_pair(one);
	open_pair(two);
	struct peer a = { .handler = { peer_ready, one[0] }, .fixture = fixture };
	struct peer b = { .handler = { peer_ready, two[0] }, .fixture = fixture, .victim = &a };
	a.victim = &b;
	assert_int_equal(loop_add(fixture->loop, &a.handler, LOOP_READ), 0);
	assert_int_equal(loop_add(fixture->loop, &b.handler, LOOP_READ), 0);
	write_byte(one[1]);
	write_byte(two[1]);
	run_rounds(fixture, 1);
	assert_int_equal(a.calls + b.calls, 1);
	for (int i = 0; i < 2; i++) {
		close(one[i]);
		close(two[i]);
	}
}

struct alarm {
	struct loop_timer timer;
	struct fixture *fixture;
	struct alarm *victim;
	int calls, round, repeat;
	int *order, place;
};

static void alarm_due(struct loop_timer *timer)
{
	struct alarm *alarm = container_of(timer, struct alarm, timer);
	alarm->calls++;
	alarm->round = alarm->fixture->rounds;
	if (alarm->order)
		alarm->place = (*alarm->order)++;
	if (alarm->victim)
		loop_timer_clear(alarm->fixture->loop, &alarm->victim->timer);
	if (alarm->repeat-- > 0)
		assert_int_equal(loop_timer_set(alarm->fixture->loop, timer, 0), 0);
}

static void a_timer_set_in_its_callback_runs_once_a_round(void **state)
{
	struct fixture *fixture = *state;
	struct alarm alarm = { .timer.due = alarm_due, .fixture = fixture, .repeat = 3 };
	assert_int_equal(loop_timer_set(fixture->loop, &alarm.timer, 0), 0);
	run_rounds(fixture, 2);
	assert_int_equal(alarm.calls, 2);
	run_rounds(fixture, 4);
	assert_int_equal(alarm.calls, 4);
}

static void a_cleared_timer_does_not_run_even_if_due(void **state)
{
	struct fixture *fixture = *state;
	struct alarm b = { .timer.due = alarm_due, .fixture = fixture };
	struct alarm a = { .timer.due = alarm_due, .fixture = fixture, .victim = &b };
	assert_int_equal(loop_timer_set(fixture->loop, &a.timer, 0), 0);
	assert_int_equal(loop_timer_set(fixture->loop, &b.timer, 0), 0);
	run_rounds(fixture, 3);
	assert_int_equal(a.calls, 1);
	assert_int_equal(b.calls, 0);
	loop_timer_clear(fixture->loop, &b.timer);
}

/* The order of many timers, with changes of mind, is that of a sorted list. */
static void timers_run_in_the_order_of_their_time(void **state)
{
	struct fixture *fixture = *state;
	uint64_t seed = test_seed(), random = seed;
	enum { COUNT = 200 };
	static struct alarm alarms[COUNT];
	int order = 0, set = 0;
	memset(alarms, 0, sizeof(alarms));
	for (int i = 0; i < 4 * COUNT; i++) {
		struct alarm *alarm = &alarms[test_random_below(&random, COUNT)];
		alarm->timer.due = alarm_due;
		alarm->fixture = fixture;
		alarm->order = &order;
		if (test_random_below(&random, 4) == 0)
			loop_timer_clear(fixture->loop, &alarm->timer);
		else
			assert_int_equal(loop_timer_set(fixture->loop, &alarm->timer,
			                                test_random_below(&random, 12)),
			                 0);
	}
	for (int i = 0; i < COUNT; i++)
		set += alarms[i].timer.slot > 0;
	while (order < set)
		run_rounds(fixture, 1);
	for (int i = 0; i < COUNT; i++)
		for (int j = 0; j < COUNT; j++)
			if (alarms[i].calls && alarms[j].calls &&
			    alarms[i].timer.at_ms < alarms[j].timer.at_ms &&
			    alarms[i].place > alarms[j].place)
				fail_msg("a later timer ran first; %s", test_note_seed(seed));
	assert_int_equal(order, set);
}

struct witness {
	struct loop_hook hook;
	int *order, place;
};

static void note_place(struct loop_hook *hook)
{
	struct witness *witness = container_of(hook, struct witness, hook);
	witness->place = (*witness->order)++;
}

static void hooks_run_in_the_order_they_were_added(void **state)
{
	struct fixture *fixture = *state;
	int order = 1;
	struct witness a = { .hook.round = note_place, .order = &order }, b = a, c = a;
	loop_hook_add(fixture->loop, &a.hook);
	loop_hook_add(fixture->loop, &b.hook);
	loop_hook_add(fixture->loop, &c.hook);
	run_rounds(fixture, 1);
	assert_true(a.place == 1 && b.place == 2 && c.place == 3);
	loop_hook_remove(fixture->loop, &b.hook);
	run_rounds(fixture, 1);
	assert_true(a.place == 4 && b.place == 2 && c.place == 5);
	loop_hook_remove(fixture->loop, &a.hook);
	loop_hook_remove(fixture->loop, &c.hook);
}

/* Makes the next of a row ready when it is called. */
struct domino {
	struct loop_handler handler;
	int next_fd; /* negative: the last */
	int calls;
};

static void domino_ready(struct loop_handler *handler, uint32_t events)
{
	struct domino *domino = container_of(handler, struct domino, handler);
	(void)events;
	domino->calls++;
	if (domino->next_fd >= 0)
		write_byte(domino->next_fd);
}

/* Four of them, each of which makes the next fall. */
struct dominoes {
	struct domino row[4];
	int fds[4][2];
};

static void dominoes_set_up(struct dominoes *its, struct loop *loop)
{
	*its = (struct dominoes){ 0 };
	for (int i = 0; i < 4; i++) {
		struct loop_handler *handler = &its->row[i].handler;
		open_pair(its->fds[i]);
		*handler = (struct loop_handler){ .ready = domino_ready, .fd = its->fds[i][0] };
		assert_int_equal(loop_add(loop, handler, LOOP_READ | LOOP_EDGE), 0);
	}
	for (int i = 0; i < 4; i++)
		its->row[i].next_fd = i < 3 ? its->fds[i + 1][1] : -1;
}

static void dominoes_clear(struct dominoes *its, struct loop *loop)
{
	for (int i = 0; i < 4; i++) {
		loop_remove(loop, &its->row[i].handler);
		close(its->fds[i][0]);
		close(its->fds[i][1]);
	}
}

static void gathering_takes_what_comes_meanwhile_into_the_round(void **state)
{
	struct fixture *fixture = *state;
	struct dominoes its;
	dominoes_set_up(&its, fixture->loop);
	loop_gather(fixture->loop, 2);
	write_byte(its.fds[0][1]);
	run_rounds(fixture, 1);
	assert_true(its.row[0].calls == 1 && its.row[1].calls == 1 && its.row[2].calls == 1);
	assert_int_equal(its.row[3].calls, 0); /* bounded: hooks and timers get their turn */
	run_rounds(fixture, 1);
	assert_int_equal(its.row[3].calls, 1);

	loop_gather(fixture->loop, 0);
	write_byte(its.fds[0][1]);
	run_rounds(fixture, 1);
	assert_true(its.row[0].calls == 2 && its.row[1].calls == 1);
	dominoes_clear(&its, fixture->loop);
}

/* Once for each look, whose handlers have all been called before. */
struct looker {
	struct loop_hook hook;
	const struct domino *row;
	int looks, seen[4];
};

static void note_look(struct loop_hook *hook)
{
	struct looker *looker = container_of(hook, struct looker, hook);
	assert_in_range(looker->looks, 0, 3);
	looker->seen[looker->looks++] = looker->row[0].calls + looker->row[1].calls;
}

static void look_hooks_run_after_the_handlers_of_each_look(void **state)
{
	struct fixture *fixture = *state;
	struct domino row[2] = { 0 };
	struct looker looker = { .hook.round = note_look, .row = row };
	int fds[2][2];
	for (int i = 0; i < 2; i++) {
		open_pair(fds[i]);
		row[i].handler = (struct loop_handler){ .ready = domino_ready, .fd = fds[i][0] };
		assert_int_equal(loop_add(fixture->loop, &row[i].handler, LOOP_READ | LOOP_EDGE),
		                 0);
	}
	row[0].next_fd = fds[1][1];
	row[1].next_fd = -1;
	loop_look_hook_add(fixture->loop, &looker.hook);
	loop_gather(fixture->loop, 4);
	write_byte(fds[0][1]);
	run_rounds(fixture, 1);
	assert_int_equal(looker.looks, 3); /* the third found nothing and was the last */
	assert_true(looker.seen[0] == 1 && looker.seen[1] == 2 && looker.seen[2] == 2);
	loop_hook_remove(fixture->loop, &looker.hook);
	run_rounds(fixture, 1);
	assert_int_equal(looker.looks, 3);
	for (int i = 0; i < 2; i++) {
		loop_remove(fixture->loop, &row[i].handler);
		close(fds[i][0]);
		close(fds[i][1]);
	}
}

static void loop_time_and_the_measuring_clock_are_one(void **state)
{
	struct fixture *fixture = *state;
	uint64_t before_ns = clock_monotonic_ns();
	run_rounds(fixture, 1);
	assert_true(loop_now_ns(fixture->loop) >= before_ns);
	assert_true(loop_now_ns(fixture->loop) <= clock_monotonic_ns());
}

/* A mailbox of the poorest kind: every value posted must be seen, though a wake
 * is skipped when one is on its way. A lost wake would hang here. */
#define POSTS 20000
#define POSTERS 3

struct mail {
	struct loop_hook hook;
	struct loop *loop;
	pthread_mutex_t lock;
	uint64_t posted, seen;
};

static void *post_all(void *user)
{
	struct mail *mail = user;
	for (int i = 0; i < POSTS; i++) {
		pthread_mutex_lock(&mail->lock);
		mail->posted++;
		pthread_mutex_unlock(&mail->lock);
		loop_wake(mail->loop);
	}
	return NULL;
}

static void see_mail(struct loop_hook *hook)
{
	struct mail *mail = container_of(hook, struct mail, hook);
	pthread_mutex_lock(&mail->lock);
	mail->seen = mail->posted;
	pthread_mutex_unlock(&mail->lock);
	if (mail->seen == (uint64_t)POSTS * POSTERS)
		loop_stop(mail->loop);
}

static void no_wake_from_another_thread_is_lost(void **state)
{
	(void)state;
	struct mail mail = { .hook.round = see_mail };
	pthread_t threads[POSTERS];
	assert_int_equal(loop_new(&mail.loop), 0);
	pthread_mutex_init(&mail.lock, NULL);
	loop_hook_add(mail.loop, &mail.hook);
	for (int i = 0; i < POSTERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, post_all, &mail), 0);
	loop_run(mail.loop);
	for (int i = 0; i < POSTERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(mail.seen, POSTS * POSTERS);
	pthread_mutex_destroy(&mail.lock);
	loop_free(mail.loop);
}

static void *stop_it(void *user)
{
	loop_stop(user);
	return NULL;
}

static void a_loop_that_waits_for_ever_is_stopped_by_another_thread(void **state)
{
	(void)state;
	struct loop *loop;
	pthread_t thread;
	assert_int_equal(loop_new(&loop), 0);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(pthread_create(&thread, NULL, stop_it, loop), 0);
		loop_run(loop);
		pthread_join(thread, NULL);
	}
	loop_free(loop);
}

static void a_loop_without_memory_is_not_half_made(void **state)
{
	(void)state;
	struct loop *loop = NULL;
	mem_fail_at(1, false);
	assert_int_equal(loop_new(&loop), -ENOMEM);
	mem_fail_at(0, false);
	assert_null(loop);
	assert_int_equal(loop_new(&loop), 0);
	struct alarm alarm = { .timer.due = alarm_due };
	mem_fail_at(1, false);
	assert_int_equal(loop_timer_set(loop, &alarm.timer, 1), -ENOMEM);
	mem_fail_at(0, false);
	assert_int_equal(alarm.timer.slot, 0);
	assert_int_equal(loop_timer_set(loop, &alarm.timer, 1), 0);
	assert_null(loop_free(loop));
	assert_null(loop_free(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(level_reports_until_read_and_edge_once, setup,
		                                teardown),
		cmocka_unit_test_setup_teardown(writability_is_reported_when_asked_for, setup,
		                                teardown),
		cmocka_unit_test_setup_teardown(a_hang_up_is_reported_as_readable, setup, teardown),
		cmocka_unit_test_setup_teardown(a_removed_handler_is_not_called_in_the_same_round,
		                                setup, teardown),
		cmocka_unit_test_setup_teardown(a_timer_set_in_its_callback_runs_once_a_round,
		                                setup, teardown),
		cmocka_unit_test_setup_teardown(a_cleared_timer_does_not_run_even_if_due, setup,
		                                teardown),
		cmocka_unit_test_setup_teardown(timers_run_in_the_order_of_their_time, setup,
		                                teardown),
		cmocka_unit_test_setup_teardown(hooks_run_in_the_order_they_were_added, setup,
		                                teardown),
		cmocka_unit_test_setup_teardown(gathering_takes_what_comes_meanwhile_into_the_round,
		                                setup, teardown),
		cmocka_unit_test_setup_teardown(look_hooks_run_after_the_handlers_of_each_look,
		                                setup, teardown),
		cmocka_unit_test_setup_teardown(loop_time_and_the_measuring_clock_are_one, setup,
		                                teardown),
		cmocka_unit_test(no_wake_from_another_thread_is_lost),
		cmocka_unit_test(a_loop_that_waits_for_ever_is_stopped_by_another_thread),
		cmocka_unit_test(a_loop_without_memory_is_not_half_made),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
