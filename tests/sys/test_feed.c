/* feed: messages from others, while somebody listens. */
#include "support/test.h"

#include "sys/feed.h"

static void count_wake(void *user)
{
	++*(int *)user;
}

static struct feed *open_feed(void)
{
	struct feed *feed = NULL;
	assert_int_equal(feed_new(&feed), 0);
	return feed;
}

static void test_nobody_listens_and_nothing_is_kept(void **state)
{
	(void)state;
	struct feed *feed = open_feed();
	struct buf out = { .cap = FEED_BYTES_MAX };
	int wakes = 0;
	assert_false(feed_heard(NULL));
	assert_false(feed_heard(feed));
	feed_say(feed, SPAN("early"));
	feed_listen(feed, count_wake, &wakes);
	assert_true(feed_heard(feed));
	assert_int_equal(feed_take(feed, &out), 0);
	assert_int_equal(out.len, 0);
	assert_int_equal(wakes, 0);
	feed_listen(feed, NULL, NULL);
	assert_false(feed_heard(feed));
	buf_free(&out);
	feed_free(feed);
}

static void test_messages_come_in_order_and_wake_once(void **state)
{
	(void)state;
	struct feed *feed = open_feed();
	struct buf out = { .cap = FEED_BYTES_MAX };
	int wakes = 0;
	feed_listen(feed, count_wake, &wakes);
	feed_say(feed, SPAN("one "));
	feed_say(feed, SPAN("two"));
	assert_int_equal(wakes, 1);
	assert_int_equal(feed_take(feed, &out), 0);
	assert_true(span_eq(buf_span(&out), SPAN("one two")));
	buf_clear(&out);
	feed_say(feed, SPAN("three"));
	assert_int_equal(wakes, 2);
	assert_int_equal(feed_take(feed, &out), 0);
	assert_true(span_eq(buf_span(&out), SPAN("three")));
	buf_free(&out);
	feed_free(feed);
}

static void test_what_does_not_fit_is_counted_and_not_cut(void **state)
{
	(void)state;
	struct feed *feed = open_feed();
	struct buf out = { .cap = FEED_BYTES_MAX };
	char message[1000];
	int wakes = 0;
	uint64_t said = FEED_BYTES_MAX / sizeof(message) + 5;
	memset(message, 'x', sizeof(message));
	feed_listen(feed, count_wake, &wakes);
	for (uint64_t i = 0; i < said; i++)
		feed_say(feed, span_of(message, sizeof(message)));
	uint64_t lost = feed_take(feed, &out);
	assert_int_equal(out.len % sizeof(message), 0);
	assert_int_equal(lost + out.len / sizeof(message), said);
	assert_true(lost > 0);
	buf_clear(&out);
	assert_int_equal(feed_take(feed, &out), 0);
	buf_free(&out);
	feed_free(feed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody_listens_and_nothing_is_kept),
		cmocka_unit_test(test_messages_come_in_order_and_wake_once),
		cmocka_unit_test(test_what_does_not_fit_is_counted_and_not_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
