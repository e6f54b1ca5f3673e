/*
 * bench_recipe: nanoseconds per event for the JSON scan and for a whole recipe.
 *
 * A ring of different events, larger than what the branch predictor learns by
 * heart, since a loop over one event flatters any parser.
 *
 * Usage: bench_recipe [rounds]
 * Output: `key value` lines; _ns is the median of the rounds, _best_ns the least.
 *         CPU time of the thread, so that a busy machine disturbs less.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "gate/recipe_auto.h"

#define EVENTS 512
#define EVENT_ROOM 2048
#define ROUNDS_MAX 101
#define LAPS 4

struct ring {
	size_t count;
	struct span events[EVENTS];
	char *bytes;
};

static uint64_t random_state = 1;

static uint64_t next_random(void)
{
	uint64_t z = (random_state += UINT64_C(0x9e3779b97f4a7c15));
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static uint64_t now_ns(void)
{
	struct timespec at;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
	return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static const char *uuid(char text[static 37])
{
	uint64_t a = next_random();
	uint64_t b = next_random();
	snprintf(text, 37, "%08x-%04x-%04x-%04x-%012llx", (unsigned)(a >> 32),
	         (unsigned)(a >> 16 & 0xFFFF), (unsigned)(a & 0xFFFF), (unsigned)(b >> 48),
	         (unsigned long long)(b & 0xFFFFFFFFFFFF));
	return text;
}

/* `nl` and `in` are a line's end and its indentation, or empty. */
static size_t write_event(char *bytes, const char *nl, const char *in)
{
	static const char *const media[] = { "CHAT", "VOICE", "CALLBACK", "MESSAGE", "EMAIL" };
	static const char *const step[] = { "customer.end", "agent.start", "acd.start", "wrapup" };
	static const char *const name[] = { "PureCloud Webchat v2", "Edge", "Rösti Öl AG", "" };
	char u[8][37];
	for (int i = 0; i < 8; i++)
		uuid(u[i]);
	const char *s = step[next_random() % ARRAY_LEN(step)];
	int len = snprintf(
		bytes, EVENT_ROOM,
		"{%s%s\"version\":\"0\",%s%s\"id\":\"%s\",%s%s"
		"\"detail-type\":\"v2.detail.events.conversation.{id}.%s\",%s%s"
		"\"source\":\"aws.partner/genesys.com/cloud/%s/prod-bus\",%s%s"
		"\"account\":\"123456789012\",%s%s\"time\":\"2026-01-02T03:04:05Z\",%s%s"
		"\"region\":\"us-east-1\",%s%s\"resources\":[],%s%s\"detail\":{%s%s%s"
		"\"topicName\":\"v2.detail.events.conversation.%s.%s\",%s%s%s\"version\":\"2\",%s%s%s"
		"\"eventBody\":{%s%s%s%s\"eventTime\":%llu,%s%s%s%s\"conversationId\":\"%s\",%s%s%s%s"
		"\"participantId\":\"%s\",%s%s%s%s\"sessionId\":\"%s\",%s%s%s%s\"mediaType\":\"%s\",%s%s%s%s"
		"\"provider\":\"%s\",%s%s%s%s\"direction\":\"INBOUND\",%s%s%s%s"
		"\"externalContactId\":\"%s\",%s%s%s%s\"externalOrganizationId\":\"%s\",%s%s%s%s"
		"\"conversationExternalContactIds\":[\"%s\"],%s%s%s%s"
		"\"interactingDurationMs\":%u,%s%s%s%s\"addressTo\":null,%s%s%s%s\"active\":true},%s%s%s"
		"\"metadata\":{\"CorrelationId\":\"%s\"},%s%s%s"
		"\"timestamp\":\"2026-01-02T03:04:05.%03uZ\"}%s}",
		nl, in, nl, in, u[0], nl, in, s, nl, in, u[1], nl, in, nl, in, nl, in, nl, in, nl,
		in, nl, in, in, u[2], s, nl, in, in, nl, in, in, nl, in, in, in,
		(unsigned long long)(1649237504949 + next_random() % 100000), nl, in, in, in, u[2],
		nl, in, in, in, u[3], nl, in, in, in, u[4], nl, in, in, in,
		media[next_random() % ARRAY_LEN(media)], nl, in, in, in,
		name[next_random() % ARRAY_LEN(name)], nl, in, in, in, nl, in, in, in, u[5], nl, in,
		in, in, u[7], nl, in, in, in, u[5], nl, in, in, in,
		(unsigned)(next_random() % 1000000), nl, in, in, in, nl, in, in, in, nl, in, in,
		u[6], nl, in, in, (unsigned)(next_random() % 1000), nl);
	CHECK(len > 0 && len < EVENT_ROOM);
	return (size_t)len;
}

static void fill_ring(struct ring *ring, bool pretty)
{
	ring->count = EVENTS;
	ring->bytes = mem_alloc((size_t)EVENTS * EVENT_ROOM);
	CHECK(ring->bytes);
	for (size_t i = 0; i < EVENTS; i++) {
		char *at = ring->bytes + i * EVENT_ROOM;
		size_t len = write_event(at, pretty ? "\n" : "", pretty ? "  " : "");
		ring->events[i] = span_of(at, len);
	}
}

static void run_scan(const struct ring *ring, const struct recipe_auto *recipe)
{
	struct json_doc doc;
	for (size_t i = 0; i < ring->count; i++)
		CHECK(json_scan(ring->events[i], &recipe->wanted, &doc) == 0);
}

static void run_recipe(const struct ring *ring, const struct recipe_auto *recipe)
{
	static const struct http1_header headers[] = {
		{ { "Host", 4 }, { "127.0.0.1:8080", 14 } },
		{ { "Content-Type", 12 }, { "application/json", 16 } },
		{ { "Content-Length", 14 }, { "1100", 4 } },
		{ { "User-Agent", 10 }, { "Amazon/EventBridge", 18 } },
		{ { "Connection", 10 }, { "close", 5 } },
	};
	struct event event;
	struct claim claims[CLAIMS_MAX];
	uint32_t count;
	for (size_t i = 0; i < ring->count; i++) {
		struct recipe_auto_input input = { ring->events[i], headers, ARRAY_LEN(headers) };
		CHECK(recipe_auto_run(recipe, &input, &event, claims, &count, NULL) == 0);
		CHECK(event.kind == EVENT_EVENTBRIDGE && count == 1);
	}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;
	return (x > y) - (x < y);
}

static void measure(const char *key, void (*run)(const struct ring *, const struct recipe_auto *),
                    const struct ring *ring, const struct recipe_auto *recipe, size_t rounds)
{
	double ns[ROUNDS_MAX];
	for (size_t i = 0; i < rounds; i++) {
		uint64_t begin = now_ns();
		for (int lap = 0; lap < LAPS; lap++)
			run(ring, recipe);
		ns[i] = (double)(now_ns() - begin) / (double)(LAPS * ring->count);
	}
	qsort(ns, rounds, sizeof(ns[0]), compare);
	printf("%s_ns %.0f\n%s_best_ns %.0f\n", key, ns[rounds / 2], key, ns[0]);
}

static size_t mean_len(const struct ring *ring)
{
	size_t sum = 0;
	for (size_t i = 0; i < ring->count; i++)
		sum += ring->events[i].len;
	return sum / ring->count;
}

int main(int argc, char **argv)
{
	long asked = argc > 1 ? strtol(argv[1], NULL, 10) : ROUNDS_MAX;
	size_t rounds = asked < 1 ? 1 : asked > ROUNDS_MAX ? ROUNDS_MAX : (size_t)asked;
	struct recipe_auto_options options = { .source = SPAN("events"), .window_s = 345600 };
	static struct recipe_auto recipe;
	static struct ring dense;
	static struct ring pretty;
	CHECK(recipe_init_auto(&recipe, &options, NULL) == 0);
	fill_ring(&dense, false);
	fill_ring(&pretty, true);
	printf("dense_bytes %zu\npretty_bytes %zu\n", mean_len(&dense), mean_len(&pretty));
	measure("dense_scan", run_scan, &dense, &recipe, rounds);
	measure("dense_recipe", run_recipe, &dense, &recipe, rounds);
	measure("pretty_scan", run_scan, &pretty, &recipe, rounds);
	measure("pretty_recipe", run_recipe, &pretty, &recipe, rounds);
	mem_free(dense.bytes);
	mem_free(pretty.bytes);
	return 0;
}
