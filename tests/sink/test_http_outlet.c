/* The HTTP outlet against servers that misbehave: what is known is told, and nothing is
 * sent twice. */
#include "sink/http_kit.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

struct expectation {
	const char *path;
	enum outlet_answer answer;
	uint16_t status;
	const char *text;
};

/* Sends one attempt on a connection of its own; the server must have read it once. */
static void expect(const struct expectation *it)
{
	struct http_scene scene;
	http_scene_begin(&scene, it->path);
	scene.options.timeout_ms = 300;
	http_kit_open(&scene.kit, &scene.options);
	struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
	const struct outlet_result *result = http_kit_send(&scene.kit, &attempt);
	if (result->answer != it->answer || result->status != it->status)
		fail_msg("%s: answer %d, status %u: %.*s", it->path, (int)result->answer,
		         result->status, result->text_len, result->text);
	http_kit_expect_text(result, it->text);
	assert_false(result->permanent);
	assert_int_equal(scene.server.requests, 1);
	http_scene_end(&scene);
}

static void an_answer_is_its_status(void **state)
{
	static const struct expectation all[] = {
		{ "/ok", OUTLET_DONE, 200, "hello" },
		{ "/204", OUTLET_DONE, 204, "" },
		{ "/slow", OUTLET_DONE, 200, "hello" },
		{ "/no-length", OUTLET_DONE, 200, "until the end" },
		{ "/long", OUTLET_DONE, 200, "abc" },
		{ "/redirect", OUTLET_REFUSED, 302, "" },
		{ "/interim", OUTLET_DONE, 200, "hello" },
		{ "/400", OUTLET_REFUSED, 400, "no" },
		{ "/404", OUTLET_REFUSED, 404, "" },
		{ "/410", OUTLET_REFUSED, 410, "" },
		{ "/413", OUTLET_REFUSED, 413, "" },
		{ "/503-bare", OUTLET_REFUSED, 503, "" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		expect(&all[i]);
}

static void a_broken_body_changes_no_status(void **state)
{
	static const struct expectation all[] = {
		{ "/short", OUTLET_DONE, 200, "ten bytes." },
		{ "/half-body-stall", OUTLET_DONE, 200, "hal" },
		{ "/bad-chunk", OUTLET_REFUSED, 500, "" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		expect(&all[i]);
}

static void what_left_without_an_answer_is_unknown(void **state)
{
	static const struct expectation all[] = {
		{ "/head-close", OUTLET_UNKNOWN, 0, "" },
		{ "/read-close", OUTLET_UNKNOWN, 0, "closed before an answer" },
		{ "/read-reset", OUTLET_UNKNOWN, 0, "" },
		{ "/stall", OUTLET_UNKNOWN, 0, "no answer within 300 ms" },
		{ "/half-head-stall", OUTLET_UNKNOWN, 0, "no answer within 300 ms" },
		{ "/half-head", OUTLET_UNKNOWN, 0, "" },
		{ "/garbage", OUTLET_UNKNOWN, 0, "" },
		{ "/bad-length", OUTLET_UNKNOWN, 0, "" },
		{ "/interim-close", OUTLET_UNKNOWN, 0, "" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		expect(&all[i]);
}

static void a_server_that_closes_before_reading_leaves_it_unknown(void **state)
{
	struct hostile server = { .deaf = true };
	struct http_kit kit;
	(void)state;
	hostile_open(&server);
	struct http_outlet_options options = http_kit_begin(&kit, "http://127.0.0.1", server.port,
	                                                    "/ok");
	http_kit_open(&kit, &options);
	struct outlet_attempt attempt = http_kit_attempt(&kit);
	assert_int_equal(http_kit_send(&kit, &attempt)->answer, OUTLET_UNKNOWN);
	assert_int_equal(server.connections, 1);
	http_kit_close(&kit);
	hostile_close(&server);
}

/* libcurl would send it again, on a fresh connection. */
static void expect_one_write(const char *path)
{
	struct http_scene scene;
	http_scene_begin(&scene, path);
	http_kit_open(&scene.kit, &scene.options);
	struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->answer, OUTLET_DONE);
	attempt = http_kit_attempt(&scene.kit);
	attempt.event++;
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->answer, OUTLET_UNKNOWN);
	http_kit_expect_text(&attempt.result, "closed before an answer");
	assert_int_equal(scene.server.requests, 2);
	attempt = http_kit_attempt(&scene.kit);
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->answer, OUTLET_DONE);
	assert_int_equal(scene.server.requests, 3);
	http_scene_end(&scene);
}

static void a_kept_connection_that_dies_does_not_send_twice(void **state)
{
	(void)state;
	expect_one_write("/second-close");
	expect_one_write("/second-reset");
}

static void a_connection_closed_while_idle_is_not_used(void **state)
{
	struct http_scene scene;
	(void)state;
	http_scene_begin(&scene, "/idle-close");
	http_kit_open(&scene.kit, &scene.options);
	for (unsigned i = 0; i < 20; i++) {
		struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
		assert_int_equal(http_kit_send(&scene.kit, &attempt)->answer, OUTLET_DONE);
		/* Until it has closed: it takes the socket out before. */
		for (bool open = true; open;) {
			pthread_mutex_lock(&scene.server.lock);
			open = scene.server.sockets[i] >= 0;
			pthread_mutex_unlock(&scene.server.lock);
		}
	}
	assert_int_equal(scene.server.requests, 20);
	http_scene_end(&scene);
}

static void connections_are_kept(void **state)
{
	struct http_scene scene;
	(void)state;
	http_scene_begin(&scene, "/ok");
	http_kit_open(&scene.kit, &scene.options);
	for (int i = 0; i < 100; i++) {
		struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
		assert_int_equal(http_kit_send(&scene.kit, &attempt)->answer, OUTLET_DONE);
	}
	assert_int_equal(scene.server.requests, 100);
	assert_int_equal(scene.server.connections, 1);
	http_scene_end(&scene);
}

static void fresh_means_a_connection_for_each(void **state)
{
	struct http_scene scene;
	(void)state;
	http_scene_begin(&scene, "/ok");
	scene.options.fresh = true;
	http_kit_open(&scene.kit, &scene.options);
	for (int i = 0; i < 5; i++) {
		struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
		assert_int_equal(http_kit_send(&scene.kit, &attempt)->answer, OUTLET_DONE);
	}
	assert_int_equal(scene.server.connections, 5);
	http_scene_end(&scene);
}

static void many_go_at_the_same_time(void **state)
{
	struct http_scene scene;
	static struct outlet_attempt attempts[100];
	(void)state;
	http_scene_begin(&scene, "/ok");
	http_kit_open(&scene.kit, &scene.options);
	http_kit_fill(&scene.kit, attempts, ARRAY_LEN(attempts));
	http_kit_send(&scene.kit, attempts);
	for (size_t i = 0; i < ARRAY_LEN(attempts); i++)
		assert_int_equal(attempts[i].result.answer, OUTLET_DONE);
	assert_int_equal(scene.server.requests, ARRAY_LEN(attempts));
	http_scene_end(&scene);
}

static void a_refused_connection_is_not_sent(void **state)
{
	struct hostile server = { 0 };
	struct http_kit kit;
	(void)state;
	hostile_open(&server);
	uint16_t port = server.port;
	hostile_close(&server);
	struct http_outlet_options options = http_kit_begin(&kit, "http://127.0.0.1", port, "/ok");
	http_kit_open(&kit, &options);
	struct outlet_attempt attempt = http_kit_attempt(&kit);
	assert_int_equal(http_kit_send(&kit, &attempt)->answer, OUTLET_NOT_SENT);
	assert_false(attempt.result.permanent);
	http_kit_expect_text(&attempt.result, "connection refused by 127.0.0.1 port");
	http_kit_close(&kit);
}

/* A backlog that is full does not answer. */
static void a_connection_that_takes_too_long_is_not_sent(void **state)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof(address);
	struct http_kit kit;
	int fillers[4];
	(void)state;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(fd, 0), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	for (size_t i = 0; i < ARRAY_LEN(fillers); i++) {
		fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		(void)connect(fillers[i], (struct sockaddr *)&address, size);
	}
	struct http_outlet_options options = http_kit_begin(&kit, "http://127.0.0.1",
	                                                    ntohs(address.sin_port), "/ok");
	options.connect_ms = 100;
	http_kit_open(&kit, &options);
	struct outlet_attempt attempt = http_kit_attempt(&kit);
	assert_int_equal(http_kit_send(&kit, &attempt)->answer, OUTLET_NOT_SENT);
	http_kit_expect_text(&attempt.result, "no connection to 127.0.0.1 within 100 ms");
	http_kit_close(&kit);
	for (size_t i = 0; i < ARRAY_LEN(fillers); i++)
		close(fillers[i]);
	close(fd);
}

static void retry_after_is_read_in_both_forms(void **state)
{
	struct http_scene scene;
	(void)state;
	http_scene_begin(&scene, "/{$.id}");
	http_kit_open(&scene.kit, &scene.options);
	struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
	attempt.payload = SPAN("{\"id\":\"429\"}");
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->status, 429);
	assert_int_equal(attempt.result.retry_after_ms, 7000);
	attempt = http_kit_attempt(&scene.kit);
	attempt.payload = SPAN("{\"id\":\"503\"}"); /* a minute after the fake clock's time */
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->status, 503);
	assert_int_equal(attempt.result.retry_after_ms, 60000);
	attempt = http_kit_attempt(&scene.kit);
	attempt.payload = SPAN("{\"id\":\"503-never\"}"); /* more than any number */
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->status, 503);
	assert_int_equal(attempt.result.retry_after_ms, UINT64_C(365) * 86400 * 1000);
	attempt = http_kit_attempt(&scene.kit);
	attempt.payload = SPAN("{\"id\":\"503-bare\"}");
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->status, 503);
	assert_int_equal(attempt.result.retry_after_ms, 0);
	http_scene_end(&scene);
}

static void a_long_answer_is_cut_off(void **state)
{
	struct http_scene scene;
	(void)state;
	http_scene_begin(&scene, "/large");
	scene.options.answer_max = 100000;
	http_kit_open(&scene.kit, &scene.options);
	struct outlet_attempt attempt = http_kit_attempt(&scene.kit);
	assert_int_equal(http_kit_send(&scene.kit, &attempt)->answer, OUTLET_DONE);
	assert_int_equal(attempt.result.status, 200);
	http_scene_end(&scene);
}

static void texts_of_answers_are_fit_for_a_terminal(void **state)
{
	struct expectation it = { "/dirty", OUTLET_REFUSED, 500,
		                  "a [2J ?"
		                  "\xc3\xa4"
		                  " b." };
	char turned[] = "a\xe2\x80\xae"
			"b\xe2\x81\xa6\xc2\x9b"
			"c\xe2\x82\xac";
	(void)state;
	expect(&it);
	size_t len = outlet_clean(turned, strlen(turned));
	assert_int_equal(len, 8);
	assert_memory_equal(turned, "a b c\xe2\x82\xac", len);
}

struct interrupter {
	pthread_t thread;
	struct hostile *server;
	struct outlet *outlet;
	uint32_t requests; /* that must have been read before */
};

static void *interrupt_later(void *argument)
{
	struct interrupter *it = argument;
	while (atomic_load(&it->server->requests) < it->requests)
		sched_yield();
	it->outlet->methods->interrupt(it->outlet);
	return NULL;
}

static void an_interrupt_ends_what_is_under_way(void **state)
{
	struct http_scene scene;
	(void)state;
	http_scene_begin(&scene, "/stall");
	http_kit_open(&scene.kit, &scene.options);
	struct outlet_attempt attempts[3];
	for (size_t i = 0; i < 3; i++) {
		attempts[i] = http_kit_attempt(&scene.kit);
		attempts[i].next = i < 2 ? &attempts[i + 1] : NULL;
	}
	struct interrupter it = { .server = &scene.server,
		                  .outlet = scene.kit.outlet,
		                  .requests = 3 };
	http_kit_start(&scene.kit, attempts);
	pthread_create(&it.thread, NULL, interrupt_later, &it);
	http_kit_wait(&scene.kit);
	pthread_join(it.thread, NULL);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(attempts[i].result.answer, OUTLET_UNKNOWN);
	struct outlet_attempt late = http_kit_attempt(&scene.kit);
	assert_int_equal(http_kit_send(&scene.kit, &late)->answer, OUTLET_NOT_SENT);
	assert_int_equal(scene.server.requests, 3);
	http_scene_end(&scene);
}

struct resender {
	struct http_kit *kit;
	uint32_t left;
	struct outlet_attempt attempt;
};

static void send_again(struct outlet_attempt *attempt)
{
	struct resender *it = attempt->user;
	assert_int_equal(attempt->result.answer, OUTLET_DONE);
	if (it->left-- == 0) {
		loop_stop(it->kit->loop);
		return;
	}
	attempt->next = NULL;
	it->kit->outlet->methods->send(it->kit->outlet, attempt);
}

static void done_may_send_the_next(void **state)
{
	struct http_scene scene;
	(void)state;
	http_scene_begin(&scene, "/ok");
	http_kit_open(&scene.kit, &scene.options);
	struct resender it = { .kit = &scene.kit,
		               .left = 200,
		               .attempt = http_kit_attempt(&scene.kit) };
	it.attempt.done = send_again;
	it.attempt.user = &it;
	scene.kit.outlet->methods->send(scene.kit.outlet, &it.attempt);
	assert_int_equal(loop_timer_set(scene.kit.loop, &scene.kit.guard, HTTP_KIT_PATIENCE_MS), 0);
	loop_run(scene.kit.loop);
	assert_int_equal(scene.server.requests, 201);
	http_scene_end(&scene);
}

/* Whatever allocation fails: one result, of which DONE means that the server has it. */
static void memory_that_runs_out_never_doubles(void **state)
{
	struct hostile server = { 0 };
	(void)state;
	hostile_open(&server);
	unsigned long steps = 0;
	for (unsigned long n = 1; n < 2000; n++) {
		struct http_kit kit;
		uint32_t before = server.requests;
		struct error_text text;
		struct http_outlet_options options = http_kit_begin(&kit, "http://127.0.0.1",
		                                                    server.port, "/ok?x={$.id}");
		options.fresh = true;
		options.timeout_ms = 2000;
		/* The loop has room for timers before the plan begins. */
		assert_int_equal(loop_timer_set(kit.loop, &kit.guard, HTTP_KIT_PATIENCE_MS), 0);
		struct outlet_attempt attempt = http_kit_attempt(&kit);
		mem_fail_at(n, false);
		int error = http_outlet_new(&options, &kit.outlet, &text);
		if (error == 0)
			http_kit_start(&kit, &attempt);
		kit.running = true;
		if (error == 0 && kit.under_way > 0)
			loop_run(kit.loop);
		bool ended = mem_fail_count() < n;
		mem_fail_at(0, false);
		if (error == 0) {
			uint32_t reached = server.requests - before;
			assert_true(reached <= 1);
			if (attempt.result.answer == OUTLET_NOT_SENT)
				assert_int_equal(reached, 0);
			if (attempt.result.answer == OUTLET_DONE)
				assert_int_equal(reached, 1);
			kit.outlet->methods->free(kit.outlet);
		}
		loop_timer_clear(kit.loop, &kit.guard);
		loop_free(kit.loop);
		steps = n;
		if (ended)
			break;
		if (server.connections > HOSTILE_CONNECTIONS_MAX - 2) {
			hostile_close(&server);
			server = (struct hostile){ 0 };
			hostile_open(&server);
		}
	}
	assert_true(steps > 10 && steps < 1999);
	hostile_close(&server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_is_its_status),
		cmocka_unit_test(a_broken_body_changes_no_status),
		cmocka_unit_test(what_left_without_an_answer_is_unknown),
		cmocka_unit_test(a_server_that_closes_before_reading_leaves_it_unknown),
		cmocka_unit_test(a_kept_connection_that_dies_does_not_send_twice),
		cmocka_unit_test(a_connection_closed_while_idle_is_not_used),
		cmocka_unit_test(connections_are_kept),
		cmocka_unit_test(fresh_means_a_connection_for_each),
		cmocka_unit_test(many_go_at_the_same_time),
		cmocka_unit_test(a_refused_connection_is_not_sent),
		cmocka_unit_test(a_connection_that_takes_too_long_is_not_sent),
		cmocka_unit_test(retry_after_is_read_in_both_forms),
		cmocka_unit_test(a_long_answer_is_cut_off),
		cmocka_unit_test(texts_of_answers_are_fit_for_a_terminal),
		cmocka_unit_test(an_interrupt_ends_what_is_under_way),
		cmocka_unit_test(done_may_send_the_next),
		cmocka_unit_test(memory_that_runs_out_never_doubles),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
