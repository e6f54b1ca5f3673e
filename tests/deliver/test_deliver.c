/* Delivery with its threads: every open ticket reaches its sink, and only success
 * closes it; one sink does not delay another; commands and views from elsewhere. */
#include "deliver/deliver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "store/port.h"
#include "support/model_store.h"
#include "support/test.h"
#include "sys/loop.h"

#define EVENTS 3000u
#define OPEN_MAX 256u

/* An outlet that counts what it was given per event number (the payload). */
struct counting {
	struct outlet outlet;
	struct loop *loop;
	struct loop_timer timer;
	bool later;           /* answers from the loop, not from inside send() */
	bool deaf;            /* does not answer until it is interrupted */
	atomic_uint failures; /* so many attempts fail first */
	atomic_uint given[EVENTS];
	atomic_uint done;
	atomic_bool interrupted;
	struct outlet_attempt *open[OPEN_MAX];
	uint32_t open_count;
};

static void answer(struct counting *own, struct outlet_attempt *attempt)
{
	uint32_t number;
	CHECK(attempt->payload.len == sizeof(number));
	memcpy(&number, attempt->payload.ptr, sizeof(number));
	bool fails = atomic_load(&own->failures) > 0;
	if (fails)
		atomic_fetch_sub(&own->failures, 1);
	if (own->deaf)
		fails = true;
	attempt->result = (struct outlet_result){ .answer = fails ? OUTLET_NOT_SENT : OUTLET_DONE };
	if (!fails) {
		atomic_fetch_add(&own->given[number], 1);
		atomic_fetch_add(&own->done, 1);
	}
	attempt->done(attempt);
}

static void answer_open(struct loop_timer *timer)
{
	struct counting *own = container_of(timer, struct counting, timer);
	if (own->deaf && !atomic_load(&own->interrupted)) {
		CHECK(loop_timer_set(own->loop, &own->timer, 1) == 0);
		return;
	}
	while (own->open_count > 0)
		answer(own, own->open[--own->open_count]);
}

static void send_chain(struct outlet *outlet, struct outlet_attempt *chain)
{
	struct counting *own = container_of(outlet, struct counting, outlet);
	while (chain) {
		struct outlet_attempt *next = chain->next;
		if (own->later) {
			CHECK(own->open_count < OPEN_MAX);
			own->open[own->open_count++] = chain;
			CHECK(loop_timer_set(own->loop, &own->timer, 1) == 0);
		} else {
			answer(own, chain);
		}
		chain = next;
	}
}

static void interrupt(struct outlet *outlet)
{
	struct counting *own = container_of(outlet, struct counting, outlet);
	atomic_store(&own->interrupted, true);
}

static void outlet_free(struct outlet *outlet)
{
	mem_free(container_of(outlet, struct counting, outlet));
}

static const struct outlet_methods methods = { .send = send_chain,
	                                       .interrupt = interrupt,
	                                       .free = outlet_free };

static struct counting *counting_on(struct loop *loop, bool later)
{
	struct counting *own = mem_zalloc(1, sizeof(*own));
	CHECK(own);
	own->outlet = (struct outlet){ .methods = &methods, .batch_max = 1, .immediate = !later };
	own->later = later;
	own->timer.due = answer_open;
	own->loop = loop;
	return own;
}

static struct counting *counting_new(bool later)
{
	struct loop *loop = NULL;
	assert_int_equal(loop_new(&loop), 0);
	return counting_on(loop, later);
}

struct setting {
	struct store_host *host;
	struct port *door;
	struct deliver *deliver;
};

static struct deliver_sink sink_of(struct counting *own, const char *name, uint32_t sink)
{
	struct deliver_policy policy = deliver_policy_stdout();
	policy.retry.first_ms = 1;
	policy.retry.max_ms = 5;
	policy.breaker.first_ms = 1;
	policy.breaker.max_ms = 5;
	policy.limiter.most = own->later ? OPEN_MAX : 100000;
	policy.limiter.ramp_ms = 1;
	return (struct deliver_sink){ .name = name,
		                      .sink = sink,
		                      .loop = own->loop,
		                      .outlet = &own->outlet,
		                      .policy = policy };
}

static void setting_open(struct setting *setting, const struct deliver_sink *sinks, uint32_t count)
{
	struct store *store = NULL;
	assert_int_equal(model_store_open(&(struct model_store_options){ 0 }, &store), 0);
	struct store_host_options options = { .store = store, .mode = STORE_HOST_THREAD };
	assert_int_equal(store_host_new(&options, &setting->host), 0);
	assert_int_equal(port_new(setting->host, &(struct port_options){ 0 }, &setting->door), 0);
	struct deliver_options deliver = { .host = setting->host,
		                           .sinks = sinks,
		                           .sink_count = count };
	assert_int_equal(deliver_start(&deliver, &setting->deliver), 0);
}

static void setting_close(struct setting *setting)
{
	store_host_end_takes(setting->host);
	deliver_join(setting->deliver);
	store_host_close(setting->host);
	deliver_free(setting->deliver);
	port_collect(setting->door);
	store_free(port_store(setting->door));
	store_host_free(setting->host);
}

static void admitted(struct store_op *op)
{
	assert_int_equal(op->error, 0);
	atomic_uint *left = op->user;
	atomic_fetch_sub(left, 1);
}

/* Each event has a leg for every sink of 1 … legs; no legs: the only sink, 0. */
static void admit_all(struct setting *setting, uint32_t legs)
{
	static struct store_admit admits[EVENTS];
	static uint32_t numbers[EVENTS];
	static struct store_leg all[STORE_LEGS_MAX];
	atomic_uint left = EVENTS;
	for (uint32_t i = 0; i < legs; i++)
		all[i] = (struct store_leg){ .sink = i + 1 };
	for (uint32_t i = 0; i < EVENTS; i++) {
		numbers[i] = i;
		admits[i] = (struct store_admit){
			.op = { .kind = STORE_ADMIT, .done = admitted, .user = &left },
			.claims = { { .digest = { { i + 1, ~(uint64_t)i } }, .window_s = 60 } },
			.claim_count = 1,
			.source = SPAN("test"),
			.payload = span_of(&numbers[i], sizeof(numbers[i])),
			.legs = all,
			.leg_count = legs,
		};
		store_submit(port_store(setting->door), &admits[i].op);
	}
	store_flush(port_store(setting->door));
	while (atomic_load(&left) > 0)
		port_wait(setting->door, -1);
}

static void wait_until_open(struct setting *setting, uint64_t most)
{
	struct store_stats stats;
	do {
		port_wait(setting->door, 1);
		store_stats(port_store(setting->door), &stats);
	} while (stats.open_tickets > most);
}

static void assert_each_once(struct counting *own)
{
	for (uint32_t i = 0; i < EVENTS; i++)
		assert_int_equal(atomic_load(&own->given[i]), 1);
}

static void every_event_reaches_the_sink_once(void **state)
{
	(void)state;
	for (uint32_t later = 0; later < 2; later++) {
		struct counting *own = counting_new(later);
		struct deliver_sink sink = sink_of(own, "only", 0);
		struct setting setting;
		struct lane_view view;
		setting_open(&setting, &sink, 1);
		admit_all(&setting, 0);
		wait_until_open(&setting, 0);
		assert_each_once(own);
		deliver_view(setting.deliver, 0, &view); /* counted before it was recorded */
		assert_int_equal(view.outcomes[OUTCOME_DONE], EVENTS);
		assert_string_equal(view.name, "only");
		setting_close(&setting);
	}
}

static void what_fails_is_tried_again_and_the_rest_is_not(void **state)
{
	(void)state;
	for (uint32_t later = 0; later < 2; later++) {
		struct counting *own = counting_new(later);
		atomic_store(&own->failures, 50);
		struct deliver_sink sink = sink_of(own, "only", 0);
		struct setting setting;
		struct lane_view view;
		setting_open(&setting, &sink, 1);
		admit_all(&setting, 0);
		wait_until_open(&setting, 0);
		assert_each_once(own);
		deliver_view(setting.deliver, 0, &view);
		assert_int_equal(view.failed, 50);
		setting_close(&setting);
	}
}

/* One never answers: the other gets all of its own. */
static void a_sink_that_hangs_delays_no_other(void **state)
{
	(void)state;
	struct counting *deaf = counting_new(true);
	struct counting *good = counting_new(true);
	deaf->deaf = true;
	struct deliver_sink sinks[] = { sink_of(deaf, "deaf", 1), sink_of(good, "good", 2) };
	struct setting setting;
	setting_open(&setting, sinks, 2);
	admit_all(&setting, 2);
	wait_until_open(&setting, EVENTS);
	assert_each_once(good);
	assert_int_equal(atomic_load(&deaf->done), 0);
	assert_int_equal(deliver_find(setting.deliver, SPAN("good")), 1);
	assert_int_equal(deliver_find(setting.deliver, SPAN("bad")), -ENOENT);
	setting_close(&setting);
}

static void an_end_interrupts_and_leaves_undelivered_events_open(void **state)
{
	(void)state;
	struct counting *own = counting_new(true);
	own->deaf = true;
	struct deliver_sink sink = sink_of(own, "deaf", 0);
	struct setting setting;
	struct store_stats stats;
	setting_open(&setting, &sink, 1);
	admit_all(&setting, 0);
	deliver_end(setting.deliver);
	while (!deliver_ended(setting.deliver))
		port_wait(setting.door, 1);
	assert_true(atomic_load(&own->interrupted));
	store_stats(port_store(setting.door), &stats);
	assert_int_equal(stats.open_tickets, EVENTS);
	setting_close(&setting);
}

static void obeyed(struct deliver_command *command)
{
	atomic_store((atomic_bool *)command->user, true);
}

static int command(struct setting *setting, enum deliver_command_kind kind, uint64_t ticket)
{
	atomic_bool done = false;
	struct deliver_command it = {
		.kind = kind, .ticket = ticket, .done = obeyed, .user = &done
	};
	deliver_post(setting->deliver, 0, &it);
	while (!atomic_load(&done))
		port_wait(setting->door, 1);
	return it.error;
}

static void commands_come_from_any_thread(void **state)
{
	(void)state;
	struct counting *own = counting_new(false);
	struct deliver_sink sink = sink_of(own, "only", 0);
	struct setting setting;
	struct lane_view view;
	setting_open(&setting, &sink, 1);
	assert_int_equal(command(&setting, DELIVER_PAUSE, 0), 0);
	admit_all(&setting, 0);
	assert_int_equal(command(&setting, DELIVER_DROP, 42), -ENOENT);
	do
		deliver_view(setting.deliver, 0, &view);
	while (view.waiting < EVENTS);
	assert_int_equal(view.state, LANE_PAUSED);
	assert_int_equal(atomic_load(&own->done), 0);
	assert_int_equal(command(&setting, DELIVER_RESUME, 0), 0);
	wait_until_open(&setting, 0);
	assert_each_once(own);
	setting_close(&setting);
}

struct exchange {
	struct deliver_command command;
	struct counting *made;
	int error; /* of make */
	atomic_bool done;
};

static int make_other(struct deliver_command *it, struct loop *loop, struct outlet **ret_outlet)
{
	struct exchange *exchange = container_of(it, struct exchange, command);
	if (exchange->error != 0)
		return exchange->error;
	exchange->made = counting_on(loop, true);
	*ret_outlet = &exchange->made->outlet;
	return 0;
}

static void post_exchange(struct setting *setting, struct exchange *exchange,
                          const struct deliver_policy *policy)
{
	exchange->command = (struct deliver_command){ .kind = DELIVER_CHANGE,
		                                      .policy = *policy,
		                                      .make = make_other,
		                                      .done = obeyed,
		                                      .user = &exchange->done };
	deliver_post(setting->deliver, 0, &exchange->command);
}

static void wait_exchange(struct setting *setting, struct exchange *exchange)
{
	while (!atomic_load(&exchange->done))
		port_wait(setting->door, 1);
}

static void another_outlet_gets_what_waited_for_the_first(void **state)
{
	(void)state;
	struct counting *own = counting_new(true);
	atomic_store(&own->failures, UINT32_MAX); /* it never works */
	struct deliver_sink sink = sink_of(own, "only", 0);
	struct setting setting;
	struct exchange exchange = { .error = 0 };
	setting_open(&setting, &sink, 1);
	admit_all(&setting, 0);
	post_exchange(&setting, &exchange, &sink.policy);
	wait_exchange(&setting, &exchange);
	assert_int_equal(exchange.command.error, 0);
	wait_until_open(&setting, 0);
	assert_each_once(exchange.made);
	setting_close(&setting);
}

static void an_outlet_that_cannot_be_made_changes_nothing(void **state)
{
	(void)state;
	struct counting *own = counting_new(true);
	struct deliver_sink sink = sink_of(own, "only", 0);
	struct setting setting;
	struct exchange exchange = { .error = ERR_CONFIG };
	setting_open(&setting, &sink, 1);
	post_exchange(&setting, &exchange, &sink.policy);
	wait_exchange(&setting, &exchange);
	assert_int_equal(exchange.command.error, ERR_CONFIG);
	admit_all(&setting, 0);
	wait_until_open(&setting, 0);
	assert_each_once(own);
	setting_close(&setting);
}

/* What is under way does not end: the change waits, a second is refused, and the end
 * answers both. */
static void a_change_waits_for_what_is_under_way(void **state)
{
	(void)state;
	struct counting *own = counting_new(true);
	own->deaf = true;
	struct deliver_sink sink = sink_of(own, "deaf", 0);
	struct setting setting;
	struct exchange first = { .error = 0 };
	struct exchange second = { .error = 0 };
	struct lane_view view;
	setting_open(&setting, &sink, 1);
	admit_all(&setting, 0);
	do
		deliver_view(setting.deliver, 0, &view);
	while (view.in_flight == 0);
	post_exchange(&setting, &first, &sink.policy);
	post_exchange(&setting, &second, &sink.policy);
	wait_exchange(&setting, &second);
	assert_int_equal(second.command.error, ERR_BUSY);
	assert_false(atomic_load(&first.done));
	setting_close(&setting);
	assert_true(atomic_load(&first.done));
	assert_int_equal(first.command.error, ERR_CLOSING);
}

static void a_lane_that_is_added_gets_what_waits_for_it(void **state)
{
	(void)state;
	struct counting *one = counting_new(true);
	struct counting *two = counting_new(true);
	struct deliver_sink sinks[] = { sink_of(one, "one", 1), sink_of(two, "two", 2) };
	struct setting setting;
	setting_open(&setting, sinks, 1);
	admit_all(&setting, 2);
	wait_until_open(&setting, EVENTS);
	assert_int_equal(deliver_find(setting.deliver, SPAN("two")), -ENOENT);
	assert_int_equal(deliver_add(setting.deliver, &sinks[1]), 0);
	assert_int_equal(deliver_lane_count(setting.deliver), 2);
	assert_int_equal(deliver_find(setting.deliver, SPAN("two")), 1);
	wait_until_open(&setting, 0);
	assert_each_once(one);
	assert_each_once(two);
	setting_close(&setting);
}

/* ---- no thread ---- */

static int threads_left = -1; /* so many more can be made; negative: any number */

/* In the place of the C library's. The failure comes late, so that lanes whose threads
 * are there could have begun. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *user)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = NULL;
	void *symbol = dlsym(RTLD_NEXT, "pthread_create");
	memcpy(&real, &symbol, sizeof(symbol)); /* as POSIX wants it */
	if (threads_left == 0) {
		usleep(20000);
		return EAGAIN;
	}
	threads_left -= threads_left > 0;
	return real(thread, attributes, run, user);
}

static void a_start_that_fails_half_way_is_undone(void **state)
{
	(void)state;
	struct counting *owns[] = { counting_new(false), counting_new(true) };
	struct deliver_sink sinks[] = { sink_of(owns[0], "one", 1), sink_of(owns[1], "two", 2) };
	struct setting setting;
	setting_open(&setting, NULL, 0);
	struct deliver_options options = { .host = setting.host, .sinks = sinks, .sink_count = 2 };
	struct deliver *deliver = NULL;
	threads_left = 1;
	assert_int_equal(deliver_start(&options, &deliver), -EAGAIN);
	threads_left = -1;
	assert_null(deliver);
	for (size_t i = 0; i < ARRAY_LEN(owns); i++) { /* still ours */
		loop_free(owns[i]->loop);
		outlet_free(&owns[i]->outlet);
	}
	setting_close(&setting);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_start_that_fails_half_way_is_undone),
		cmocka_unit_test(every_event_reaches_the_sink_once),
		cmocka_unit_test(what_fails_is_tried_again_and_the_rest_is_not),
		cmocka_unit_test(a_sink_that_hangs_delays_no_other),
		cmocka_unit_test(an_end_interrupts_and_leaves_undelivered_events_open),
		cmocka_unit_test(commands_come_from_any_thread),
		cmocka_unit_test(another_outlet_gets_what_waited_for_the_first),
		cmocka_unit_test(an_outlet_that_cannot_be_made_changes_nothing),
		cmocka_unit_test(a_change_waits_for_what_is_under_way),
		cmocka_unit_test(a_lane_that_is_added_gets_what_waits_for_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
