/* Delivery: every open ticket reaches the sink, and only success closes it. */
#include "deliver/deliver.h"

#include <stdatomic.h>

#include "base/check.h"
#include "store/memory/memory_store.h"
#include "store/port.h"
#include "support/test.h"

#define EVENTS 3000u

/* A sink that counts what it was given per event number (the payload), and
 * fails as long as it is told to. */
struct counting_sink {
	struct sink sink;
	atomic_uint failures; /* this many batches fail first */
	atomic_uint given[EVENTS];
	atomic_uint done;
	atomic_bool interrupted;
};

static void count(struct sink *base, struct sink_event *events, uint32_t n)
{
	struct counting_sink *sink = container_of(base, struct counting_sink, sink);
	bool fails = atomic_load(&sink->failures) > 0;
	if (fails)
		atomic_fetch_sub(&sink->failures, 1);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t number;
		CHECK(events[i].payload.len == sizeof(number));
		memcpy(&number, events[i].payload.ptr, sizeof(number));
		/* A failing batch gets half of it through. */
		bool ok = !fails || i < n / 2;
		events[i].outcome = ok ? OUTCOME_DONE : OUTCOME_RELEASED;
		if (ok) {
			atomic_fetch_add(&sink->given[number], 1);
			atomic_fetch_add(&sink->done, 1);
		}
	}
}

static void interrupt(struct sink *base)
{
	struct counting_sink *sink = container_of(base, struct counting_sink, sink);
	atomic_store(&sink->interrupted, true);
}

static void free_nothing(struct sink *base)
{
	(void)base;
}

static const struct sink_methods methods = { count, interrupt, free_nothing };

struct setting {
	struct store_host *host;
	struct port *door;
	struct port *deliver_port;
	struct deliver *deliver;
};

static void setting_open(struct setting *setting, struct sink *sink)
{
	struct store *store = NULL;
	assert_int_equal(memory_store_open(&(struct memory_store_options){ 0 }, &store), 0);
	struct store_host_options options = { .store = store, .mode = STORE_HOST_THREAD };
	assert_int_equal(store_host_new(&options, &setting->host), 0);
	assert_int_equal(port_new(setting->host, &(struct port_options){ 0 }, &setting->door), 0);
	assert_int_equal(port_new(setting->host, &(struct port_options){ 0 },
	                          &setting->deliver_port),
	                 0);
	assert_int_equal(deliver_start(setting->deliver_port, sink, &setting->deliver), 0);
}

static void setting_close(struct setting *setting)
{
	store_host_end_takes(setting->host);
	deliver_free(setting->deliver);
	store_free(port_store(setting->deliver_port));
	store_free(port_store(setting->door));
	store_host_free(setting->host);
}

static void admitted(struct store_op *op)
{
	assert_int_equal(op->error, 0);
	atomic_uint *left = op->user;
	atomic_fetch_sub(left, 1);
}

static void admit_all(struct setting *setting)
{
	static struct store_admit admits[EVENTS];
	static uint32_t numbers[EVENTS];
	atomic_uint left = EVENTS;
	for (uint32_t i = 0; i < EVENTS; i++) {
		numbers[i] = i;
		admits[i] = (struct store_admit){
			.op = { .kind = STORE_ADMIT, .done = admitted, .user = &left },
			.claims = { { .digest = { { i + 1, ~(uint64_t)i } }, .window_s = 60 } },
			.claim_count = 1,
			.source = SPAN("test"),
			.payload = span_of(&numbers[i], sizeof(numbers[i])),
		};
		store_submit(port_store(setting->door), &admits[i].op);
	}
	store_flush(port_store(setting->door));
	while (atomic_load(&left) > 0)
		port_wait(setting->door, -1);
}

static void wait_until_settled(struct setting *setting)
{
	struct store_stats stats;
	do {
		port_wait(setting->door, 1);
		store_stats(port_store(setting->door), &stats);
	} while (stats.open_tickets > 0);
}

static void assert_each_once(struct counting_sink *sink)
{
	for (uint32_t i = 0; i < EVENTS; i++)
		assert_int_equal(atomic_load(&sink->given[i]), 1);
}

static void every_event_reaches_the_sink_once(void **state)
{
	(void)state;
	static struct counting_sink sink = { .sink = { &methods } };
	struct setting setting;
	setting_open(&setting, &sink.sink);
	admit_all(&setting);
	wait_until_settled(&setting);
	assert_each_once(&sink);
	assert_int_equal(atomic_load(&deliver_counters(setting.deliver)->outcomes[OUTCOME_DONE]),
	                 EVENTS);
	setting_close(&setting);
}

static void what_a_sink_gives_back_is_tried_again_and_the_rest_is_not(void **state)
{
	(void)state;
	static struct counting_sink sink = { .sink = { &methods }, .failures = 3 };
	struct setting setting;
	setting_open(&setting, &sink.sink);
	admit_all(&setting);
	wait_until_settled(&setting);
	assert_each_once(&sink);
	assert_true(atomic_load(&deliver_counters(setting.deliver)->outcomes[OUTCOME_RELEASED]) >
	            0);
	setting_close(&setting);
}

static void an_end_leaves_undelivered_events_open(void **state)
{
	(void)state;
	static struct counting_sink sink = { .sink = { &methods }, .failures = UINT32_MAX };
	struct setting setting;
	setting_open(&setting, &sink.sink);
	admit_all(&setting);
	deliver_end(setting.deliver);
	while (!deliver_ended(setting.deliver))
		port_wait(setting.door, 1);
	assert_true(atomic_load(&sink.interrupted));
	struct store_stats stats;
	store_stats(port_store(setting.door), &stats);
	assert_int_equal(stats.open_tickets, EVENTS - atomic_load(&sink.done));
	setting_close(&setting);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_event_reaches_the_sink_once),
		cmocka_unit_test(what_a_sink_gives_back_is_tried_again_and_the_rest_is_not),
		cmocka_unit_test(an_end_leaves_undelivered_events_open),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
