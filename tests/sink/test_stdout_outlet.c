/* The stdout outlet: one line an event, whole lines only, never stuck. */
#include "sink/stdout_outlet.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "gate/ticket.h"
#include "support/test.h"
#include "sys/thread.h"

struct pipe_outlet {
	struct outlet *outlet;
	int reader;
	int writer;
};

static struct pipe_outlet pipe_outlet_new(bool envelope)
{
	int fds[2];
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	struct pipe_outlet pair = { .reader = fds[0], .writer = fds[1] };
	struct stdout_outlet_options options = { .fd = fds[1], .envelope = envelope };
	assert_int_equal(stdout_outlet_new(&options, &pair.outlet), 0);
	return pair;
}

static void pipe_outlet_free(struct pipe_outlet *pair)
{
	pair->outlet->methods->free(pair->outlet);
	close(pair->reader);
	if (pair->writer >= 0)
		close(pair->writer);
}

static void told(struct outlet_attempt *attempt)
{
	attempt->next = NULL;
	attempt->user = attempt; /* once each */
}

static void send(struct outlet *outlet, struct outlet_attempt *events, size_t count)
{
	assert_true(outlet->immediate);
	for (size_t i = 0; i < count; i++) {
		events[i].done = told;
		events[i].next = i + 1 < count ? &events[i + 1] : NULL;
	}
	outlet->methods->send(outlet, events);
	for (size_t i = 0; i < count; i++)
		assert_ptr_equal(events[i].user, &events[i]);
}

/* What was written so far; the writer end is closed first. */
static size_t read_all(struct pipe_outlet *pair, char *bytes, size_t room)
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
	struct pipe_outlet pair = pipe_outlet_new(false);
	struct outlet_attempt events[] = {
		{ .ticket = 1,
		  .number = 1,
		  .json = true,
		  .payload = SPAN("{\n\t\"id\":\r\n \"a\"\n}") },
		{ .ticket = 2, .number = 1, .json = true, .payload = SPAN("{\"id\":\"b\"}") },
		{ .ticket = 3, .number = 1, .json = false, .payload = SPAN("not \"json\"\n") },
	};
	send(pair.outlet, events, ARRAY_LEN(events));
	char text[256];
	size_t len = read_all(&pair, text, sizeof(text) - 1);
	text[len] = '\0';
	assert_string_equal(text,
	                    "{ \t\"id\":   \"a\" }\n{\"id\":\"b\"}\n\"not \\\"json\\\"\\n\"\n");
	for (size_t i = 0; i < ARRAY_LEN(events); i++)
		assert_int_equal(events[i].result.answer, OUTLET_DONE);
	pipe_outlet_free(&pair);
}

static void an_envelope_names_ticket_and_source(void **state)
{
	(void)state;
	struct pipe_outlet pair = pipe_outlet_new(true);
	struct outlet_attempt events[] = {
		{ .ticket = 1,
		  .number = 2,
		  .json = true,
		  .source = SPAN("events"),
		  .payload = SPAN("{\"id\":1}") },
		{ .ticket = 2,
		  .number = 1,
		  .json = false,
		  .source = SPAN("events"),
		  .payload = SPAN("x") },
	};
	send(pair.outlet, events, ARRAY_LEN(events));
	char text[512];
	size_t len = read_all(&pair, text, sizeof(text) - 1);
	text[len] = '\0';
	assert_string_equal(text, "{\"ticket\":\"00000000001\",\"source\":\"events\",\"attempt\":2,"
	                          "\"event\":{\"id\":1}}\n"
	                          "{\"ticket\":\"00000000002\",\"source\":\"events\",\"attempt\":1,"
	                          "\"text\":\"x\"}\n");
	pipe_outlet_free(&pair);
}

static void a_closed_reader_gives_the_events_back(void **state)
{
	(void)state;
	struct pipe_outlet pair = pipe_outlet_new(false);
	close(pair.reader);
	pair.reader = -1;
	struct outlet_attempt event = { .ticket = 1, .json = true, .payload = SPAN("{}") };
	send(pair.outlet, &event, 1);
	assert_int_equal(event.result.answer, OUTLET_NOT_SENT);
	pair.reader = open("/dev/null", O_RDONLY | O_CLOEXEC);
	pipe_outlet_free(&pair);
}

#define BIG_EVENTS 64u
#define BIG_BYTES 8192u

struct blocked {
	struct pipe_outlet pair;
	struct outlet_attempt events[BIG_EVENTS];
	atomic_bool returned;
};

static void deliver_blocked(void *user)
{
	struct blocked *blocked = user;
	send(blocked->pair.outlet, blocked->events, BIG_EVENTS);
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
	struct blocked blocked = { .pair = pipe_outlet_new(false) };
	for (uint32_t i = 0; i < BIG_EVENTS; i++)
		blocked.events[i] = (struct outlet_attempt){
			.ticket = i + 1, .json = true, .payload = span_of(payload, sizeof(payload))
		};
	struct thread thread;
	struct thread_options options = {
		.name = "blocked", .cpu = THREAD_ANY_CPU, .run = deliver_blocked, .user = &blocked
	};
	assert_int_equal(thread_start(&thread, &options), 0);
	blocked.pair.outlet->methods->interrupt(blocked.pair.outlet);
	thread_join(&thread);
	assert_true(atomic_load(&blocked.returned));

	uint32_t done = 0;
	while (done < BIG_EVENTS && blocked.events[done].result.answer == OUTLET_DONE)
		done++;
	assert_true(done < BIG_EVENTS);
	for (uint32_t i = done; i < BIG_EVENTS; i++)
		assert_int_equal(blocked.events[i].result.answer, OUTLET_NOT_SENT);
	static char text[BIG_EVENTS * (BIG_BYTES + 1)];
	size_t len = read_all(&blocked.pair, text, sizeof(text));
	assert_true(len >= done * (BIG_BYTES + 1));
	assert_true(len < (done + 1) * (BIG_BYTES + 1));
	pipe_outlet_free(&blocked.pair);
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

static struct outlet *file_outlet_new(int fd)
{
	struct stdout_outlet_options options = { .fd = fd, .sync = sync_told };
	struct outlet *sink = NULL;
	synced = 0;
	sync_result = 0;
	assert_int_equal(stdout_outlet_new(&options, &sink), 0);
	return sink;
}

static void deliver_two(struct outlet *sink, enum outlet_answer expected)
{
	struct outlet_attempt events[] = {
		{ .ticket = 1, .number = 1, .json = true, .payload = SPAN("{\"id\":1}") },
		{ .ticket = 2, .number = 1, .json = true, .payload = SPAN("{\"id\":2}") },
	};
	send(sink, events, ARRAY_LEN(events));
	for (size_t i = 0; i < ARRAY_LEN(events); i++)
		assert_int_equal(events[i].result.answer, expected);
}

static void a_file_has_a_batch_on_disk_before_it_is_done(void **state)
{
	(void)state;
	FILE *file = tmpfile();
	assert_non_null(file);
	struct outlet *sink = file_outlet_new(fileno(file));
	deliver_two(sink, OUTLET_DONE);
	assert_int_equal(synced, 1);
	sync_result = -1;
	deliver_two(sink, OUTLET_NOT_SENT);
	assert_int_equal(synced, 2);
	sync_result = 0;
	deliver_two(sink, OUTLET_DONE); /* once more, in whole lines */
	char text[256];
	ssize_t len = pread(fileno(file), text, sizeof(text) - 1, 0);
	assert_true(len > 0);
	text[len] = '\0';
	assert_string_equal(text, "{\"id\":1}\n{\"id\":2}\n{\"id\":1}\n{\"id\":2}\n"
	                          "{\"id\":1}\n{\"id\":2}\n");
	sink->methods->free(sink);
	fclose(file);
}

/* RLIMIT_FSIZE tears a write as a full disk does, here in the second of two large
 * lines. */
static void a_torn_line_is_ended_before_the_next(void **state)
{
	(void)state;
	static char payload[1024];
	memset(payload, '1', sizeof(payload));
	struct outlet_attempt events[2];
	for (uint32_t i = 0; i < ARRAY_LEN(events); i++)
		events[i] = (struct outlet_attempt){ .ticket = i + 1,
			                             .json = true,
			                             .payload = span_of(payload, sizeof(payload)) };
	FILE *file = tmpfile();
	assert_non_null(file);
	struct outlet *sink = file_outlet_new(fileno(file));
	struct rlimit limit;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	struct rlimit small = { .rlim_cur = 1500, .rlim_max = limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	send(sink, events, ARRAY_LEN(events));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(events[0].result.answer, OUTLET_DONE);
	assert_int_equal(events[1].result.answer, OUTLET_NOT_SENT);
	send(sink, &events[1], 1);
	assert_int_equal(events[1].result.answer, OUTLET_DONE);
	deliver_two(sink, OUTLET_DONE);
	static char text[4096];
	ssize_t len = pread(fileno(file), text, sizeof(text) - 1, 0);
	assert_int_equal(len, 1500 + 1 + 1025 + 2 * 9);
	assert_int_equal(text[1024], '\n');
	assert_int_equal(text[1499], '1');
	assert_int_equal(text[1500], '\n');
	assert_memory_equal(text + 1501, payload, sizeof(payload));
	assert_string_equal(text + 1501 + 1024, "\n{\"id\":1}\n{\"id\":2}\n");
	sink->methods->free(sink);
	fclose(file);
}

static void what_is_no_file_is_not_synced(void **state)
{
	(void)state;
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	assert_true(null >= 0);
	struct outlet *sink = file_outlet_new(null);
	deliver_two(sink, OUTLET_DONE);
	assert_int_equal(synced, 0);
	sink->methods->free(sink);
	close(null);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_event_is_one_line_whatever_its_spacing),
		cmocka_unit_test(an_envelope_names_ticket_and_source),
		cmocka_unit_test(a_closed_reader_gives_the_events_back),
		cmocka_unit_test(an_interrupt_frees_a_stuck_sink),
		cmocka_unit_test(a_file_has_a_batch_on_disk_before_it_is_done),
		cmocka_unit_test(a_torn_line_is_ended_before_the_next),
		cmocka_unit_test(what_is_no_file_is_not_synced),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
