/* redis_login and redis_slots: URLs of Redis, and where keys are in a cluster. */
#include "support/test.h"

#include "link/redis_client.h"
#include "link/redis_link.h"

static struct redis_login login_of(const char *url)
{
	struct error_text text = { "" };
	struct redis_login login;

	if (redis_login_read(span_str(url), &login, &text) < 0)
		fail_msg("%s: %s", url, text.text);
	return login;
}

static void test_a_host_alone_has_the_defaults(void **state)
{
	(void)state;
	struct redis_login login = login_of("redis://db.example.com");

	assert_string_equal(login.hosts[0].name, "db.example.com");
	assert_int_equal(login.hosts[0].port, REDIS_PORT);
	assert_int_equal(login.host_count, 1);
	assert_int_equal(login.db | login.replicas, 0);
	assert_int_equal(login.timeout_ms, 5000);
	assert_int_equal(login.shards, 1);
	assert_string_equal(login.prefix, "stile");
	assert_false(login.tls || login.cluster);
}

static void test_everything_that_a_url_may_say_is_read(void **state)
{
	(void)state;
	struct redis_login login = login_of(
		"rediss-cluster://me:p%40ss@[::1]:7001,b:7002/"
		"?replicas=2&wait=250ms&timeout=3s&prefix=crm:prod&shards=64&ca=/etc/ca.pem");

	assert_true(login.tls && login.cluster);
	assert_string_equal(login.user, "me");
	assert_string_equal(login.password, "p@ss");
	assert_int_equal(login.host_count, 2);
	assert_string_equal(login.hosts[0].name, "::1");
	assert_int_equal(login.hosts[0].port, 7001);
	assert_string_equal(login.hosts[1].name, "b");
	assert_int_equal(login.replicas, 2);
	assert_int_equal(login.wait_ms, 250);
	assert_int_equal(login.timeout_ms, 3000);
	assert_int_equal(login.shards, 64);
	assert_string_equal(login.prefix, "crm:prod");
	assert_string_equal(login.ca_file, "/etc/ca.pem");
	assert_int_equal(login_of("redis://:pass:word@h/15").db, 15);
	assert_string_equal(login_of("redis://:pass:word@h/15").password, "pass:word");
}

static void test_what_makes_no_sense_is_refused_without_telling_the_password(void **state)
{
	(void)state;
	static const char *const urls[] = {
		"redis://",
		"http://host",
		"redis://:hidden@a,b",
		"redis://:hidden@host:0",
		"redis://:hidden@host:port",
		"redis://:hidden@host/db",
		"redis-cluster://:hidden@host/1",
		"redis://:hidden@host?replicas=many",
		"redis://:hidden@host?shards=3",
		"redis://:hidden@host?prefix=a{b}",
		"redis://:hidden@host?colour=blue",
		"redis://:hidden%@host",
	};

	for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
		struct error_text text = { "" };
		struct redis_login login;
		assert_true(redis_login_read(span_str(urls[i]), &login, &text) < 0);
		assert_true(text.text[0] != '\0');
		assert_null(strstr(text.text, "hidden"));
	}
}

static void test_keys_are_in_the_slots_that_redis_says(void **state)
{
	(void)state;
	assert_int_equal(redis_slot_of(SPAN("123456789")), 12739);
	assert_int_equal(redis_slot_of(SPAN("foo")), 12182);
	assert_int_equal(redis_slot_of(SPAN("{user1000}.following")),
	                 redis_slot_of(SPAN("user1000")));
	assert_int_equal(redis_slot_of(SPAN("foo{}{bar}")), 8363);
	assert_int_equal(redis_slot_of(SPAN("foo{{bar}}zap")), redis_slot_of(SPAN("{bar")));
	assert_int_equal(redis_slot_of(SPAN("foo{bar}{zap}")), redis_slot_of(SPAN("bar")));
	assert_true(redis_slot_of(SPAN("foo{bar")) != redis_slot_of(SPAN("bar")));
}

static void range_keep(void *user, const struct redis_slots_range *range)
{
	struct redis_slots_range **next = user;

	*(*next)++ = *range;
}

static void test_the_map_of_slots_is_read(void **state)
{
	(void)state;
	struct span reply = SPAN(
		"*2\r\n*4\r\n:0\r\n:100\r\n*4\r\n$1\r\na\r\n:7001\r\n$2\r\nid\r\n*0\r\n"
		"*3\r\n$1\r\nb\r\n:7002\r\n$2\r\nid\r\n"
		"*3\r\n:101\r\n:16383\r\n*2\r\n$0\r\n\r\n:7003\r\n");
	struct redis_host asked = { .name = "asked", .port = 1 };
	struct redis_slots_range ranges[2], *next = ranges;

	assert_true(redis_slots_walk(reply, &asked, range_keep, &next));
	assert_true(next == ranges + 2);
	assert_int_equal(ranges[0].last, 100);
	assert_int_equal(ranges[0].replicas, 1);
	assert_string_equal(ranges[0].master.name, "a");
	assert_int_equal(ranges[1].first, 101);
	assert_string_equal(ranges[1].master.name, "asked"); /* it does not know its own */
	assert_int_equal(ranges[1].master.port, 7003);
	next = ranges;
	assert_false(redis_slots_walk(SPAN("*1\r\n*3\r\n:5\r\n:4\r\n*2\r\n$1\r\na\r\n:1\r\n"),
	                              &asked, range_keep, &next));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_host_alone_has_the_defaults),
		cmocka_unit_test(test_everything_that_a_url_may_say_is_read),
		cmocka_unit_test(test_what_makes_no_sense_is_refused_without_telling_the_password),
		cmocka_unit_test(test_keys_are_in_the_slots_that_redis_says),
		cmocka_unit_test(test_the_map_of_slots_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
