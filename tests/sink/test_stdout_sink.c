/* The stdout sink: one line an event, whole lines only, never stuck. */
#include "sink/stdout_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "gate/ticket.h"
#include "support/test.h"
#include "sys/thread.h"

struct pipe_sink {
	struct sink *sink;
	int reader;
	int writer;
};

static struct pipe_sink pipe_sink_new(bool envelope)
{
	int fds[2];
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	struct pipe_sink pair = { .reader = fds[0], .writer = fds[1] };
	struct stdout_sink_options options = { .fd = fds[1], .envelope = envelope };
	assert_int_equal(stdout_sink_new(&options, &pair.sink), 0);
	return pair;
}

static void pipe_sink_free(struct pipe_sink *pair)
{
	pair->sink->methods->free(pair->sink);
	close(pair->reader);
	if (pair->writer >= 0)
		close(pair->writer);
}

/* What was written so far; the writer end is closed first. */
static size_t read_all(struct pipe_sink *pair, char *bytes, size_t room)
{
	close(pair->writer);
	pair->writer = -1;
	size_t len = 0;
	for (ssize_t n; (n = read(pair->reader, bytes + len, room - len)) > 0;)
		len += (size_t)n;
	return len;
}

static void an_event_is_one_line_whatever_its_spacing(void **state)
{
	(void)state;
	struct pipe_sink pair = pipe_sink_new(false);
	struct sink_event events[] = {
		{ .ticket = 1,
		  .attempt = 1,
		  .json = true,
		  .payload = SPAN("{\n\t\"id\":\r\n \"a\"\n}") },
		{ .ticket = 2, .attempt = 1, .json = true, .payload = SPAN("{\"id\":\"b\"}") },
		{ .ticket = 3, .attempt = 1, .json = false, .payload = SPAN("not \"json\"\n") },
	};
	pair.sink->methods->deliver(pair.sink, events, ARRAY_LEN(events));
	char text[256];
	size_t len = read_all(&pair, text, sizeof(text) - 1);
	text[len] = '\0';
	assert_string_equal(text,
	                    "{ \t\"id\":   \"a\" }\n{\"id\":\"b\"}\n\"not \\\"json\\\"\\n\"\n");
	for (size_t i = 0; i < ARRAY_LEN(events); i++)
		assert_int_equal(events[i].outcome, OUTCOME_DONE);
	pipe_sink_free(&pair);
}

static void an_envelope_names_ticket_and_source(void **state)
{
	(void)state;
	struct pipe_sink pair = pipe_sink_new(true);
	struct sink_event events[] = {
		{ .ticket = 1,
		  .attempt = 2,
		  .json = true,
		  .source = SPAN("events"),
		  .payload = SPAN("{\"id\":1}") },
		{ .ticket = 2,
		  .attempt = 1,
		  .json = false,
		  .source = SPAN("events"),
		  .payload = SPAN("x") },
	};
	pair.sink->methods->deliver(pair.sink, events, ARRAY_LEN(events));
	char text[512];
	size_t len = read_all(&pair, text, sizeof(text) - 1);
	text[len] = '\0';
	assert_string_equal(text, "{\"ticket\":\"00000000001\",\"source\":\"events\",\"attempt\":2,"
	                          "\"event\":{\"id\":1}}\n"
	                          "{\"ticket\":\"00000000002\",\"source\":\"events\",\"attempt\":1,"
	                          "\"text\":\"x\"}\n");
	pipe_sink_free(&pair);
}

static void a_closed_reader_gives_the_events_back(void **state)
{
	(void)state;
	struct pipe_sink pair = pipe_sink_new(false);
	close(pair.reader);
	pair.reader = -1;
	struct sink_event event = { .ticket = 1, .json = true, .payload = SPAN("{}") };
	pair.sink->methods->deliver(pair.sink, &event, 1);
	assert_int_equal(event.outcome, OUTCOME_RELEASED);
	pair.reader = open("/dev/null", O_RDONLY | O_CLOEXEC);
	pipe_sink_free(&pair);
}

#define BIG_EVENTS 64u
#define BIG_BYTES 8192u

struct blocked {
	struct pipe_sink pair;
	struct sink_event events[BIG_EVENTS];
	atomic_bool returned;
};

static void deliver_blocked(void *user)
{
	struct blocked *blocked = user;
	blocked->pair.sink->methods->deliver(blocked->pair.sink, blocked->events, BIG_EVENTS);
	atomic_store(&blocked->returned, true);
}

/* 512 KiB into a pipe of 64 KiB that nobody reads: the call blocks until it is
 * interrupted; what was wholly written is done, the rest is given back. */
static void an_interrupt_frees_a_stuck_sink(void **state)
{
	(void)state;
	static char payload[BIG_BYTES];
	memset(payload, ' ', sizeof(payload));
	payload[0] = '{';
	payload[sizeof(payload) - 1] = '}';
	struct blocked blocked = { .pair = pipe_sink_new(false) };
	for (uint32_t i = 0; i < BIG_EVENTS; i++)
		blocked.events[i] = (struct sink_event){
			.ticket = i + 1, .json = true, .payload = span_of(payload, sizeof(payload))
		};
	struct thread thread;
	struct thread_options options = {
		.name = "blocked", .cpu = THREAD_ANY_CPU, .run = deliver_blocked, .user = &blocked
	};
	assert_int_equal(thread_start(&thread, &options), 0);
	blocked.pair.sink->methods->interrupt(blocked.pair.sink);
	thread_join(&thread);
	assert_true(atomic_load(&blocked.returned));

	uint32_t done = 0;
	while (done < BIG_EVENTS && blocked.events[done].outcome == OUTCOME_DONE)
		done++;
	assert_true(done < BIG_EVENTS);
	for (uint32_t i = done; i < BIG_EVENTS; i++)
		assert_int_equal(blocked.events[i].outcome, OUTCOME_RELEASED);
	static char text[BIG_EVENTS * (BIG_BYTES + 1)];
	size_t len = read_all(&blocked.pair, text, sizeof(text));
	assert_true(len >= done * (BIG_BYTES + 1));
	assert_true(len < (done + 1) * (BIG_BYTES + 1));
	pipe_sink_free(&blocked.pair);
}

static int synced;      /* how often */
static int sync_result; /* of the next ones */

static int sync_told(int fd)
{
	assert_true(fd >= 0);
	synced++;
	errno = EIO;
	return sync_result;
}

static struct sink *file_sink_new(int fd)
{
	struct stdout_sink_options options = { .fd = fd, .sync = sync_told };
	struct sink *sink = NULL;
	synced = 0;
	sync_result = 0;
	assert_int_equal(stdout_sink_new(&options, &sink), 0);
	return sink;
}

static void deliver_two(struct sink *sink, enum outcome expected)
{
	struct sink_event events[] = {
		{ .ticket = 1, .attempt = 1, .json = true, .payload = SPAN("{\"id\":1}") },
		{ .ticket = 2, .attempt = 1, .json = true, .payload = SPAN("{\"id\":2}") },
	};
	sink->methods->deliver(sink, events, ARRAY_LEN(events));
	for (size_t i = 0; i < ARRAY_LEN(events); i++)
		assert_int_equal(events[i].outcome, expected);
}

static void a_file_has_a_batch_on_disk_before_it_is_done(void **state)
{
	(void)state;
	FILE *file = tmpfile();
	assert_non_null(file);
	struct sink *sink = file_sink_new(fileno(file));
	deliver_two(sink, OUTCOME_DONE);
	assert_int_equal(synced, 1);
	sync_result = -1;
	deliver_two(sink, OUTCOME_RELEASED);
	assert_int_equal(synced, 2);
	sync_result = 0;
	deliver_two(sink, OUTCOME_DONE); /* once more, in whole lines */
	char text[256];
	ssize_t len = pread(fileno(file), text, sizeof(text) - 1, 0);
	assert_true(len > 0);
	text[len] = '\0';
	assert_string_equal(text, "{\"id\":1}\n{\"id\":2}\n{\"id\":1}\n{\"id\":2}\n"
	                          "{\"id\":1}\n{\"id\":2}\n");
	sink->methods->free(sink);
	fclose(file);
}

static void what_is_no_file_is_not_synced(void **state)
{
	(void)state;
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	assert_true(null >= 0);
	struct sink *sink = file_sink_new(null);
	deliver_two(sink, OUTCOME_DONE);
	assert_int_equal(synced, 0);
	sink->methods->free(sink);
	close(null);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_event_is_one_line_whatever_its_spacing),
		cmocka_unit_test(an_envelope_names_ticket_and_source),
		cmocka_unit_test(a_closed_reader_gives_the_events_back),
		cmocka_unit_test(an_interrupt_frees_a_stuck_sink),
		cmocka_unit_test(a_file_has_a_batch_on_disk_before_it_is_done),
		cmocka_unit_test(what_is_no_file_is_not_synced),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
