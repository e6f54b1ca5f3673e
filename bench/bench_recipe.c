/*
 * bench_recipe: nanoseconds per event for the JSON scan, for whole recipes, and for
 * other libraries that parse the same event and fetch the same members.
 *
 * A ring of different events, larger than what the branch predictor learns by
 * heart, since a loop over one event flatters any parser. Everything runs in turn,
 * round after round, so that a slow minute of the machine is everybody's.
 *
 * Usage: bench_recipe [rounds [key…]]
 * Output: `key value` lines; _ns is the median of the rounds, _best_ns the least.
 *         CPU time of the thread, so that a busy machine disturbs less.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/hash.h"
#include "base/mem.h"
#include "bench_recipe.h"
#include "gate/recipe/presets.h"
#include "gate/recipe/recipe.h"

#define EVENTS 512
#define EVENT_ROOM 2048
#define ROUNDS_MAX 101
#define LAPS 4
#define RUNNERS_MAX 24

struct ring {
	size_t count;
	struct span events[EVENTS];
	char *bytes;
};

struct runner {
	const char *key;
	void (*run)(const struct runner *runner);
	const struct ring *ring;
	const struct recipe *recipe;
	bool (*peer)(const char *text, size_t len);
	uint32_t claims;
	double ns[ROUNDS_MAX];
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

/* What a shop might send: an id at the top, 1 KB in all. */
static size_t write_plain(char *bytes)
{
	char u[12][37];
	for (int i = 0; i < 12; i++)
		uuid(u[i]);
	int len = snprintf(
		bytes, EVENT_ROOM,
		"{\"id\":\"%s\",\"type\":\"order.updated\",\"time\":\"2026-01-02T03:04:05.%03uZ\","
		"\"customerId\":\"%s\",\"orderId\":\"%s\",\"state\":\"paid\",\"total\":%u.50,"
		"\"currency\":\"EUR\",\"lines\":[{\"sku\":\"%s\",\"count\":%u,\"price\":%u},"
		"{\"sku\":\"%s\",\"count\":%u,\"price\":%u},{\"sku\":\"%s\",\"count\":1,\"price\":2}],"
		"\"shipping\":{\"name\":\"Jane Doe\",\"street\":\"1 High Street\",\"city\":\"Bern\","
		"\"zip\":\"3000\",\"country\":\"CH\",\"note\":\"leave it at the door, please\"},"
		"\"trace\":[\"%s\",\"%s\",\"%s\"],\"session\":\"%s\",\"device\":\"%s\","
		"\"campaign\":\"%s\",\"agent\":\"Mozilla/5.0 (X11; Linux x86_64)\",\"active\":true,"
		"\"coupon\":null,\"tags\":[\"new\",\"web\",\"gift\"],\"parent\":\"%s\"}",
		u[0], (unsigned)(next_random() % 1000), u[1], u[2],
		(unsigned)(next_random() % 10000), u[3], (unsigned)(next_random() % 10),
		(unsigned)(next_random() % 1000), u[4], (unsigned)(next_random() % 10),
		(unsigned)(next_random() % 1000), u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[0]);
	CHECK(len > 0 && len < EVENT_ROOM);
	return (size_t)len;
}

enum shape { DENSE, PRETTY, ORDER };

static size_t write_shape(enum shape shape, char *bytes)
{
	if (shape == ORDER)
		return write_plain(bytes);
	return shape == PRETTY ? write_event(bytes, "\n", "  ") : write_event(bytes, "", "");
}

static void fill_ring(struct ring *ring, enum shape shape)
{
	ring->count = EVENTS;
	ring->bytes = mem_alloc((size_t)EVENTS * EVENT_ROOM);
	CHECK(ring->bytes);
	for (size_t i = 0; i < EVENTS; i++) {
		char *at = ring->bytes + i * EVENT_ROOM;
		ring->events[i] = span_of(at, write_shape(shape, at));
	}
}

static struct recipe_scratch scratch;
static struct json_plan id_plan;

static void run_scan(const struct runner *runner)
{
	static struct json_doc doc;
	for (size_t i = 0; i < runner->ring->count; i++)
		CHECK(json_scan(runner->ring->events[i], &id_plan, &doc) == 0);
}

static void run_content(const struct runner *runner)
{
	static volatile uint64_t sum;
	for (size_t i = 0; i < runner->ring->count; i++)
		sum += hash_checksum64(runner->ring->events[i].ptr, runner->ring->events[i].len, 7);
}

static void run_recipe(const struct runner *runner)
{
	static const struct http1_header headers[] = {
		{ { "Host", 4 }, { "127.0.0.1:8080", 14 } },
		{ { "Content-Type", 12 }, { "application/json", 16 } },
		{ { "Content-Length", 14 }, { "1100", 4 } },
		{ { "User-Agent", 10 }, { "Amazon/EventBridge", 18 } },
		{ { "Connection", 10 }, { "close", 5 } },
	};
	struct recipe_result result;
	for (size_t i = 0; i < runner->ring->count; i++) {
		struct recipe_input input = {
			.body = runner->ring->events[i],
			.headers = headers,
			.header_count = ARRAY_LEN(headers),
		};
		CHECK(recipe_run(runner->recipe, &scratch, &input, &result, NULL) == 0);
		CHECK(result.claim_count == runner->claims);
	}
}

static void run_peer(const struct runner *runner)
{
	for (size_t i = 0; i < runner->ring->count; i++)
		CHECK(runner->peer(runner->ring->events[i].ptr, runner->ring->events[i].len));
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;
	return (x > y) - (x < y);
}

static void measure(struct runner *runner, size_t round)
{
	uint64_t begin = now_ns();
	for (int lap = 0; lap < LAPS; lap++)
		runner->run(runner);
	runner->ns[round] = (double)(now_ns() - begin) / (double)(LAPS * runner->ring->count);
}

static size_t mean_len(const struct ring *ring)
{
	size_t sum = 0;
	for (size_t i = 0; i < ring->count; i++)
		sum += ring->events[i].len;
	return sum / ring->count;
}

static const struct recipe *compile(struct recipe_spec *spec)
{
	static const unsigned char key[DIGEST_KEY_LEN] = { 1, 2, 3 };
	struct recipe *recipe = NULL;
	struct recipe_problem problem;
	spec->source = SPAN("events");
	spec->window_s = 345600;
	if (recipe_compile(spec, key, &recipe, &problem) != 0)
		fprintf(stderr, "%s\n", problem.text.text);
	CHECK(recipe);
	return recipe;
}

static const struct recipe *compile_preset(const char *name)
{
	const struct preset *preset = preset_find(span_str(name));
	CHECK(preset);
	return compile(
		&(struct recipe_spec){ .cases = preset->cases, .case_count = preset->case_count });
}

/* The business key of a conversation's event, once, twice and four times. */
static const struct recipe *compile_claims(uint32_t count)
{
	static const char *const names[] = { "one", "two", "three", "four" };
	struct recipe_case_spec it = { .name = "event", .claim_count = count };
	for (uint32_t i = 0; i < count; i++)
		it.claims[i] = (struct recipe_claim_spec){
			.name = span_str(names[i]),
			.part_count = 4,
			.parts = { SPAN("detail.topicName"), SPAN("detail.eventBody.participantId"),
			           SPAN("detail.eventBody.sessionId"),
			           SPAN("detail.eventBody.eventTime") },
		};
	return compile(&(struct recipe_spec){ .cases = &it, .case_count = 1 });
}

static const struct recipe *compile_content(void)
{
	struct recipe_case_spec it = {
		.name = "event",
		.claim_count = 1,
		.claims = { { .kind = CLAIM_CONTENT,
		              .part_count = 1,
		              .parts = { SPAN("detail") } } },
	};
	return compile(&(struct recipe_spec){ .cases = &it, .case_count = 1 });
}

static void make_plan(void)
{
	static const char *const names[] = { "id",          "source",      "type",
		                             "specversion", "detail-type", "detail" };
	json_plan_init(&id_plan);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct json_path path;
		struct json_problem problem;
		uint8_t node;
		CHECK(json_path_parse(span_str(names[i]), &path, &problem) == 0);
		CHECK(json_plan_add(&id_plan, &path, &node) == 0);
	}
	json_plan_seal(&id_plan);
}

static void report(struct runner *runner, size_t rounds)
{
	qsort(runner->ns, rounds, sizeof(runner->ns[0]), compare);
	printf("%s_ns %.0f\n%s_best_ns %.0f\n", runner->key, runner->ns[rounds / 2], runner->key,
	       runner->ns[0]);
}

/* Those whose keys are in the list; how many. */
static size_t keep_asked(struct runner *runners, size_t count, char **keys)
{
	size_t kept = 0;
	for (size_t i = 0; i < count; i++)
		for (char **key = keys; *key; key++)
			if (strcmp(*key, runners[i].key) == 0)
				runners[kept++] = runners[i];
	return kept;
}

int main(int argc, char **argv)
{
	long asked = argc > 1 ? strtol(argv[1], NULL, 10) : ROUNDS_MAX;
	size_t rounds = asked < 1 ? 1 : asked > ROUNDS_MAX ? ROUNDS_MAX : (size_t)asked;
	static struct ring dense, pretty, order;
	make_plan();
	fill_ring(&dense, DENSE);
	fill_ring(&pretty, PRETTY);
	fill_ring(&order, ORDER);
	static struct runner runners[RUNNERS_MAX];
	const struct runner ours[] = {
		{ .key = "scan", .run = run_scan, .ring = &dense },
		{ .key = "scan_pretty", .run = run_scan, .ring = &pretty },
		{ .key = "content", .run = run_content, .ring = &dense },
		{ .key = "genesys",
		  .run = run_recipe,
		  .ring = &dense,
		  .recipe = compile_preset("genesys"),
		  .claims = 2 },
		{ .key = "genesys_pretty",
		  .run = run_recipe,
		  .ring = &pretty,
		  .recipe = compile_preset("genesys"),
		  .claims = 2 },
		{ .key = "eventbridge",
		  .run = run_recipe,
		  .ring = &dense,
		  .recipe = compile_preset("eventbridge"),
		  .claims = 1 },
		{ .key = "auto_genesys",
		  .run = run_recipe,
		  .ring = &dense,
		  .recipe = compile_preset("auto"),
		  .claims = 2 },
		{ .key = "auto_plain",
		  .run = run_recipe,
		  .ring = &order,
		  .recipe = compile_preset("auto"),
		  .claims = 1 },
		{ .key = "claims_1",
		  .run = run_recipe,
		  .ring = &dense,
		  .recipe = compile_claims(1),
		  .claims = 1 },
		{ .key = "claims_2",
		  .run = run_recipe,
		  .ring = &dense,
		  .recipe = compile_claims(2),
		  .claims = 2 },
		{ .key = "claims_4",
		  .run = run_recipe,
		  .ring = &dense,
		  .recipe = compile_claims(4),
		  .claims = 4 },
		{ .key = "content_claim",
		  .run = run_recipe,
		  .ring = &dense,
		  .recipe = compile_content(),
		  .claims = 1 },
	};
	size_t count = 0;
	for (; count < ARRAY_LEN(ours); count++)
		runners[count] = ours[count];
	struct bench_peer peers[BENCH_PEERS_MAX];
	size_t peer_count = bench_peers(peers);
	for (size_t i = 0; i < peer_count; i++, count++)
		runners[count] = (struct runner){
			.key = peers[i].key,
			.run = run_peer,
			.ring = &dense,
			.peer = peers[i].parse,
		};
	CHECK(count <= RUNNERS_MAX);
	printf("dense_bytes %zu\npretty_bytes %zu\nplain_bytes %zu\n", mean_len(&dense),
	       mean_len(&pretty), mean_len(&order));
	if (argc > 2)
		count = keep_asked(runners, count, argv + 2);
	for (size_t round = 0; round < rounds; round++)
		for (size_t i = 0; i < count; i++)
			measure(&runners[i], round);
	for (size_t i = 0; i < count; i++)
		report(&runners[i], rounds);
	return 0;
}
