/*
 * bench_trace: nanoseconds that a trace costs whoever leaves it, and how long a
 * question takes on a full log.
 *
 * Usage: bench_trace FOLDER [rounds]
 * Output: `key value` lines; _ns is the median of the rounds. CPU time of the
 *         thread, so that the writer's own work is not in it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "gate/ticket.h"
#include "sys/clock.h"
#include "trace/trace_log.h"

#define TRACES 4000
#define ROUNDS_MAX 101
#define NOW_MS UINT64_C(1767225600000)

static uint64_t thread_ns(void)
{
	struct timespec at;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
	return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a;
	uint64_t two = *(const uint64_t *)b;
	return one < two ? -1 : one > two;
}

static uint64_t word_of(uint64_t n)
{
	uint64_t z = (n + 1) * UINT64_C(0x9e3779b97f4a7c15);
	return (z ^ z >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

/* What a Genesys event with two claims leaves. */
static void fill(struct trace *trace, uint64_t n, bool passed, char id[static 40])
{
	int len = snprintf(id, 40, "%08x-f0fa-97f9-3b24-%012llx", (unsigned)word_of(n),
	                   (unsigned long long)n);
	uint64_t ticket = ticket_next(0, NOW_MS + n / 10);
	*trace = (struct trace){
		.time_ms = NOW_MS + n / 10 + (passed ? 0 : 3000),
		.verdict = passed ? VERDICT_NEW : VERDICT_DUPLICATE,
		.flags = TRACE_CONTENT,
		.ticket = passed ? ticket : 0,
		.original = passed ? 0 : ticket,
		.gap_ms = passed ? 0 : 3000,
		.content = n,
		.source = SPAN("genesys"),
		.id = span_of(id, (size_t)len),
		.type = SPAN("v2.detail.events.conversation.{id}.customer.end"),
		.rule = SPAN("business"),
		.parts = SPAN("topicName, participantId, sessionId, eventTime"),
		.keys = { SPAN("v2.detail.events.conversation.0e1c7a4e.customer.end\x1f"
		               "3f9a1c2b-7d55\x1f"
		               "91b2c3d4-e5f6\x1f"
		               "1649237504949") },
		.claim_count = 2,
		.claims = { { word_of(n), 345600 }, { word_of(~n), 345600 } },
	};
}

struct bench {
	struct trace_log *log;
	struct trace traces[TRACES];
	char ids[TRACES][40];
	uint64_t rounds;
	uint64_t next;
	uint64_t write_ns; /* of the writer, all in all */
	uint64_t written;
};

static void time_adds(struct bench *bench, bool passed, const char *name)
{
	uint64_t ns[ROUNDS_MAX];
	for (uint64_t r = 0; r < bench->rounds; r++) {
		for (uint64_t i = 0; i < TRACES; i++)
			fill(&bench->traces[i], bench->next++, passed, bench->ids[i]);
		uint64_t began = thread_ns();
		for (uint64_t i = 0; i < TRACES; i++)
			trace_log_add(bench->log, &bench->traces[i]);
		ns[r] = (thread_ns() - began) / TRACES;
		began = thread_ns();
		trace_log_tick(bench->log);
		bench->write_ns += thread_ns() - began;
		bench->written += TRACES;
	}
	qsort(ns, bench->rounds, sizeof(ns[0]), by_size);
	printf("%s %llu\n", name, (unsigned long long)ns[bench->rounds / 2]);
}

/* Claims that are not in the sample: what most events cost at a high rate. */
static void time_thinned(struct bench *bench)
{
	uint64_t began = thread_ns();
	uint64_t wanted = 0;
	for (uint64_t i = 0; i < 1000 * TRACES; i++)
		wanted += trace_log_wants_new(bench->log, bench->traces[i % TRACES].claims, 2);
	printf("thinned_new_ns %llu\nthinned_kept %llu\n",
	       (unsigned long long)((thread_ns() - began) / (1000 * TRACES)),
	       (unsigned long long)wanted);
}

static int count_one(void *user, uint32_t term, const struct trace *trace)
{
	(void)term;
	(void)trace;
	++*(int *)user;
	return 0;
}

static void time_find(struct bench *bench)
{
	struct trace_term term = { TRACE_TERM_ID, SPAN("no such id"), 0 };
	struct trace_query query = { .terms = &term, .term_count = 1 };
	int found = 0;
	CHECK(trace_log_find(bench->log, &query, count_one, &found) == 0);
	uint64_t began = clock_monotonic_ns();
	for (int i = 0; i < 10; i++)
		CHECK(trace_log_find(bench->log, &query, count_one, &found) == 0);
	printf("find_nothing_us %llu\n",
	       (unsigned long long)((clock_monotonic_ns() - began) / 10000));
	term.text = bench->traces[0].id;
	began = clock_monotonic_ns();
	CHECK(trace_log_find(bench->log, &query, count_one, &found) >= 0);
	printf("find_one_us %llu\n", (unsigned long long)((clock_monotonic_ns() - began) / 1000));
}

static int open_log(const char *folder, uint32_t per_s, struct trace_log **ret_log)
{
	struct trace_log_options options = {
		.path = folder,
		.new_per_s = per_s,
		.new_burst = per_s,
		.suppressed_per_s = per_s,
		.suppressed_burst = per_s,
		.no_thread = true,
	};
	struct error_text text = { "" };
	int r = trace_log_open(&options, ret_log, &text);
	if (r < 0)
		fprintf(stderr, "bench_trace: %s\n", text.text);
	return r;
}

int main(int argc, char **argv)
{
	struct bench *bench = mem_zalloc(1, sizeof(*bench));
	CHECK(bench);
	bench->rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 61;
	if (argc < 2 || bench->rounds < 1 || bench->rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: bench_trace FOLDER [rounds up to %d]\n", ROUNDS_MAX);
		return 2;
	}
	if (open_log(argv[1], 1000000000, &bench->log) < 0)
		return 1;
	time_adds(bench, true, "add_new_ns");
	time_adds(bench, false, "add_suppressed_ns");
	printf("write_ns %llu\n", (unsigned long long)(bench->write_ns / bench->written));
	time_find(bench);
	struct trace_stats stats;
	trace_log_stats(bench->log, &stats);
	printf("records %llu\ndisk_bytes %llu\nlost %llu\n", (unsigned long long)stats.records,
	       (unsigned long long)stats.disk_bytes, (unsigned long long)stats.lost);
	bench->log = trace_log_free(bench->log);
	uint64_t began = clock_monotonic_ns();
	if (open_log(argv[1], 50, &bench->log) < 0)
		return 1;
	printf("open_ms %llu\n", (unsigned long long)((clock_monotonic_ns() - began) / 1000000));
	time_adds(bench, true, "add_new_flood_ns");
	time_thinned(bench);
	bench->log = trace_log_free(bench->log);
	mem_free(bench);
	return 0;
}
