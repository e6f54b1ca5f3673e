/* Where the HTTP outlet connects to: names, addresses, TLS, HTTP/2. */
#include "sink/http_kit.h"

#include <netdb.h>
#include <semaphore.h>

static atomic_uint lookups;
static atomic_int fails_with; /* EAI_… */
static atomic_bool moved;     /* everything is at meta.test's address */
static sem_t may_answer;      /* for slow.test */

static void put(struct name_addresses *addresses, const char *text)
{
	assert_int_equal(ip_parse(span_str(text), &addresses->list[addresses->count++]), 0);
}

static int look_up(const char *host, struct name_addresses *ret_addresses)
{
	atomic_fetch_add(&lookups, 1);
	if (atomic_load(&fails_with))
		return atomic_load(&fails_with);
	if (strcmp(host, "slow.test") == 0)
		sem_wait(&may_answer);
	if (strcmp(host, "none.test") == 0)
		return EAI_NONAME;
	put(ret_addresses, "127.0.0.1");
	if (strcmp(host, "mixed.test") == 0)
		put(ret_addresses, "10.0.0.1");
	if (strcmp(host, "meta.test") == 0 || atomic_load(&moved)) {
		ret_addresses->count = 0;
		put(ret_addresses, "169.254.169.254");
	}
	if (strcmp(host, "two.test") == 0)
		put(ret_addresses, "127.0.0.2");
	return 0;
}

struct scene {
	struct hostile server;
	struct hostile_ca ca;
	struct http_kit kit;
	struct http_outlet_options options;
	struct outlet_attempt attempt;
};

static void scene_begin(struct scene *scene, const char *host)
{
	hostile_open(&scene->server);
	scene->options = http_kit_begin(&scene->kit, host, scene->server.port, "/ok");
	scene->options.lookup = look_up;
	atomic_store(&lookups, 0);
	atomic_store(&fails_with, 0);
}

static const struct outlet_result *scene_send(struct scene *scene)
{
	if (!scene->kit.outlet)
		http_kit_open(&scene->kit, &scene->options);
	scene->attempt = http_kit_attempt(&scene->kit);
	return http_kit_send(&scene->kit, &scene->attempt);
}

static void scene_end(struct scene *scene)
{
	http_kit_close(&scene->kit);
	hostile_close(&scene->server);
	if (scene->ca.key)
		hostile_ca_close(&scene->ca);
}

static void a_name_is_looked_up_once_for_many(void **state)
{
	struct scene scene = { .server = { 0 } };
	struct outlet_attempt attempts[10];
	(void)state;
	scene_begin(&scene, "http://good.test");
	http_kit_open(&scene.kit, &scene.options);
	for (size_t i = 0; i < 10; i++) {
		attempts[i] = http_kit_attempt(&scene.kit);
		attempts[i].next = i < 9 ? &attempts[i + 1] : NULL;
	}
	http_kit_send(&scene.kit, attempts);
	for (size_t i = 0; i < 10; i++)
		assert_int_equal(attempts[i].result.answer, OUTLET_DONE);
	assert_int_equal(scene_send(&scene)->answer, OUTLET_DONE);
	assert_int_equal(lookups, 1);
	assert_int_equal(scene.server.requests, 11);
	char line[64];
	snprintf(line, sizeof(line), "Host: good.test:%u", scene.server.port);
	assert_true(hostile_has_line(&scene.server, line));
	scene_end(&scene);
}

static void expect_not_sent(const char *host, const char *text)
{
	struct scene scene = { .server = { 0 } };
	scene_begin(&scene, host);
	const struct outlet_result *result = scene_send(&scene);
	assert_int_equal(result->answer, OUTLET_NOT_SENT);
	assert_false(result->permanent);
	http_kit_expect_text(result, text);
	assert_int_equal(scene.server.connections, 0);
	scene_end(&scene);
}

static void one_address_that_is_not_public_is_too_much(void **state)
{
	(void)state;
	expect_not_sent("http://mixed.test", "mixed.test is at 10.0.0.1, a private address");
	expect_not_sent("http://meta.test", "169.254.169.254, a link-local address");
}

static void a_name_without_an_address_is_not_sent(void **state)
{
	(void)state;
	expect_not_sent("http://none.test", "no address for none.test");
}

static void the_system_s_names_are_judged_too(void **state)
{
	struct scene scene = { .server = { 0 } };
	(void)state;
	scene_begin(&scene, "http://localhost");
	scene.options.lookup = NULL;
	scene.options.allow_count = 0;
	assert_int_equal(scene_send(&scene)->answer, OUTLET_NOT_SENT);
	http_kit_expect_text(&scene.attempt.result, "a loopback address");
	assert_int_equal(scene.server.connections, 0);
	scene_end(&scene);
}

static void a_name_that_takes_too_long_is_not_sent(void **state)
{
	struct scene scene = { .server = { 0 } };
	(void)state;
	sem_init(&may_answer, 0, 0);
	scene_begin(&scene, "http://slow.test");
	scene.options.connect_ms = 50;
	assert_int_equal(scene_send(&scene)->answer, OUTLET_NOT_SENT);
	http_kit_expect_text(&scene.attempt.result, "no address for slow.test within 50 ms");
	sem_post(&may_answer); /* the late answer is used by the next */
	sem_post(&may_answer);
	assert_int_equal(scene_send(&scene)->answer, OUTLET_DONE);
	scene_end(&scene);
}

static void an_outlet_does_not_wait_for_a_name_it_no_longer_wants(void **state)
{
	struct scene scene = { .server = { 0 } };
	(void)state;
	sem_init(&may_answer, 0, 0);
	scene_begin(&scene, "http://slow.test");
	http_kit_open(&scene.kit, &scene.options);
	scene.attempt = http_kit_attempt(&scene.kit);
	http_kit_start(&scene.kit, &scene.attempt);
	scene.kit.outlet->methods->interrupt(scene.kit.outlet);
	http_kit_wait(&scene.kit);
	assert_int_equal(scene.attempt.result.answer, OUTLET_NOT_SENT);
	scene_end(&scene);
	sem_post(&may_answer); /* its thread frees what it shares */
}

static void the_next_address_is_tried(void **state)
{
	struct scene scene = { .server = { 0 } };
	(void)state;
	scene_begin(&scene, "http://two.test");
	assert_int_equal(scene_send(&scene)->answer, OUTLET_DONE);
	scene_end(&scene);
}

/* The scene's server speaks TLS as `name`, and its CA is trusted. */
static void begin_tls(struct scene *scene, const char *host, const struct hostile_name *name)
{
	hostile_ca_open(&scene->ca);
	scene->server.tls = hostile_ca_server(&scene->ca, name);
	scene_begin(scene, host);
	scene->options.ca_file = scene->ca.ca_file;
}

static void tls_is_verified(void **state)
{
	struct scene scene = { .server = { 0 } };
	const struct hostile_name name = { .name = "good.test" };
	(void)state;
	begin_tls(&scene, "https://good.test", &name);
	scene.options.http1 = true;
	assert_int_equal(scene_send(&scene)->answer, OUTLET_DONE);
	assert_int_equal(scene_send(&scene)->answer, OUTLET_DONE);
	assert_int_equal(scene.server.connections, 1);
	assert_int_equal(scene.server.requests, 2);
	scene_end(&scene);
}

static void expect_no_tls(const char *host, const struct hostile_name *name, bool trusted)
{
	struct scene scene = { .server = { 0 } };
	begin_tls(&scene, host, name);
	if (!trusted)
		scene.options.ca_file = NULL;
	assert_int_equal(scene_send(&scene)->answer, OUTLET_NOT_SENT);
	http_kit_expect_text(&scene.attempt.result, "SSL");
	assert_int_equal(scene.server.requests, 0);
	scene_end(&scene);
}

static void a_wrong_certificate_is_not_sent_to(void **state)
{
	(void)state;
	expect_no_tls("https://good.test", &(struct hostile_name){ .name = "other.test" }, true);
	expect_no_tls("https://good.test", &(struct hostile_name){ .name = "127.0.0.1" }, true);
	expect_no_tls("https://good.test", &(struct hostile_name){ .name = "good.test" }, false);
	expect_no_tls("https://good.test",
	              &(struct hostile_name){ .name = "good.test", .expired = true }, true);
}

static void tls_to_a_plain_server_is_not_sent(void **state)
{
	struct scene scene = { .server = { 0 } };
	(void)state;
	scene_begin(&scene, "https://good.test");
	scene.options.timeout_ms = 300;
	assert_int_equal(scene_send(&scene)->answer, OUTLET_NOT_SENT);
	assert_int_equal(scene.server.requests, 0);
	scene_end(&scene);
}

static void another_name_may_be_verified(void **state)
{
	struct scene scene = { .server = { 0 } };
	const struct hostile_name name = { .name = "inner.test" };
	(void)state;
	begin_tls(&scene, "https://127.0.0.1", &name);
	scene.options.http1 = true;
	scene.options.server_name = SPAN("inner.test");
	assert_int_equal(scene_send(&scene)->answer, OUTLET_DONE);
	char line[64];
	snprintf(line, sizeof(line), "Host: 127.0.0.1:%u", scene.server.port);
	assert_true(hostile_has_line(&scene.server, line));
	scene_end(&scene);
}

static void a_client_s_certificate_is_shown(void **state)
{
	struct scene scene = { .server = { 0 } };
	const struct hostile_name name = { .name = "good.test" };
	(void)state;
	begin_tls(&scene, "https://good.test", &name);
	assert_int_equal(SSL_CTX_load_verify_locations(scene.server.tls, scene.ca.ca_file, NULL),
	                 1);
	SSL_CTX_set_verify(scene.server.tls, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
	                   NULL);
	scene.options.http1 = true;
	scene.options.cert_file = scene.ca.cert_file;
	scene.options.key_file = scene.ca.key_file;
	assert_int_equal(scene_send(&scene)->answer, OUTLET_DONE);
	scene_end(&scene);
}

static void http2_carries_many_on_one_connection(void **state)
{
	struct scene scene = { .server = { .http2 = true } };
	const struct hostile_name name = { .name = "good.test" };
	static struct outlet_attempt attempts[50];
	(void)state;
	begin_tls(&scene, "https://good.test", &name);
	http_kit_open(&scene.kit, &scene.options);
	http_kit_fill(&scene.kit, attempts, ARRAY_LEN(attempts));
	http_kit_send(&scene.kit, attempts);
	for (size_t i = 0; i < ARRAY_LEN(attempts); i++) {
		assert_int_equal(attempts[i].result.answer, OUTLET_DONE);
		assert_int_equal(attempts[i].result.status, 200);
	}
	assert_int_equal(scene.server.requests, ARRAY_LEN(attempts));
	assert_int_equal(scene.server.connections, 1);
	scene_end(&scene);
}

/* REFUSED_STREAM and HTTP_1_1_REQUIRED make libcurl send again by itself. */
static void a_refused_stream_is_not_sent_twice(void **state)
{
	static const unsigned char codes[] = { 2, 7, 13 };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		struct scene scene = { .server = { .http2 = true, .http2_error = codes[i] } };
		const struct hostile_name name = { .name = "good.test" };
		begin_tls(&scene, "https://good.test", &name);
		assert_int_equal(scene_send(&scene)->answer, OUTLET_UNKNOWN);
		assert_int_equal(scene.server.requests, 1);
		scene_end(&scene);
	}
}

static void what_goaway_leaves_out_goes_to_another_connection(void **state)
{
	struct scene scene = { .server = { .http2 = true, .http2_last = 7 } };
	const struct hostile_name name = { .name = "good.test" };
	static struct outlet_attempt attempts[30];
	(void)state;
	begin_tls(&scene, "https://good.test", &name);
	http_kit_open(&scene.kit, &scene.options);
	http_kit_fill(&scene.kit, attempts, ARRAY_LEN(attempts));
	http_kit_send(&scene.kit, attempts);
	for (size_t i = 0; i < ARRAY_LEN(attempts); i++)
		assert_int_equal(attempts[i].result.answer, OUTLET_DONE);
	assert_int_equal(scene.server.requests, ARRAY_LEN(attempts));
	assert_true(scene.server.connections > 1);
	scene_end(&scene);
}

/* Sends until the name has been asked for again. */
static const struct outlet_result *send_past_name(struct scene *scene)
{
	uint32_t before = lookups;
	do
		scene_send(scene);
	while (lookups == before);
	return &scene->attempt.result;
}

static void a_name_that_moves_is_judged_anew(void **state)
{
	struct scene scene = { .server = { 0 } };
	(void)state;
	scene_begin(&scene, "http://good.test");
	scene.options.name_ms = 1;
	atomic_store(&moved, false);
	assert_int_equal(scene_send(&scene)->answer, OUTLET_DONE);
	assert_int_equal(send_past_name(&scene)->answer, OUTLET_DONE);
	atomic_store(&fails_with, EAI_AGAIN);
	assert_int_equal(send_past_name(&scene)->answer, OUTLET_DONE);
	atomic_store(&fails_with, EAI_NONAME);
	assert_int_equal(send_past_name(&scene)->answer, OUTLET_NOT_SENT);
	atomic_store(&fails_with, 0);
	assert_int_equal(send_past_name(&scene)->answer, OUTLET_DONE);
	atomic_store(&moved, true); /* to the machine's own secrets */
	assert_int_equal(send_past_name(&scene)->answer, OUTLET_NOT_SENT);
	http_kit_expect_text(&scene.attempt.result, "169.254.169.254");
	atomic_store(&moved, false);
	scene_end(&scene);
}

static void a_refused_connection_asks_for_the_name_again(void **state)
{
	struct scene scene = { .server = { 0 } };
	(void)state;
	scene_begin(&scene, "http://good.test");
	http_kit_open(&scene.kit, &scene.options);
	hostile_close(&scene.server);
	assert_int_equal(scene_send(&scene)->answer, OUTLET_NOT_SENT);
	assert_int_equal(scene_send(&scene)->answer, OUTLET_NOT_SENT);
	assert_int_equal(lookups, 2);
	http_kit_close(&scene.kit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_is_looked_up_once_for_many),
		cmocka_unit_test(one_address_that_is_not_public_is_too_much),
		cmocka_unit_test(a_name_without_an_address_is_not_sent),
		cmocka_unit_test(the_system_s_names_are_judged_too),
		cmocka_unit_test(a_name_that_takes_too_long_is_not_sent),
		cmocka_unit_test(an_outlet_does_not_wait_for_a_name_it_no_longer_wants),
		cmocka_unit_test(the_next_address_is_tried),
		cmocka_unit_test(tls_is_verified),
		cmocka_unit_test(a_wrong_certificate_is_not_sent_to),
		cmocka_unit_test(tls_to_a_plain_server_is_not_sent),
		cmocka_unit_test(another_name_may_be_verified),
		cmocka_unit_test(a_client_s_certificate_is_shown),
		cmocka_unit_test(http2_carries_many_on_one_connection),
		cmocka_unit_test(a_refused_stream_is_not_sent_twice),
		cmocka_unit_test(what_goaway_leaves_out_goes_to_another_connection),
		cmocka_unit_test(a_name_that_moves_is_judged_anew),
		cmocka_unit_test(a_refused_connection_asks_for_the_name_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
