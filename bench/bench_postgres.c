/*
 * bench_postgres: decisions a second of the PostgreSQL store.
 *
 *   bench_postgres URL IN_FLIGHT SECONDS [PAYLOAD]
 *
 * So many admissions are always under way, each of a claim that nobody has had; with a
 * payload each of them opens a ticket too. With the URL alone it makes the tables.
 * Prints lines of "key value".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/postgres/postgres_store.h"
#include "sys/clock.h"
#include "sys/wake_event.h"

#define IN_FLIGHT_MAX 65536u

struct bench {
	struct store *store;
	struct wake_event wake;
	uint64_t seed, decided, wrong, under_way;
	uint64_t end_ns;
	char payload[65536];
	uint32_t payload_len;
};

static struct bench bench;

static uint64_t next_random(void)
{
	uint64_t z = (bench.seed += UINT64_C(0x9e3779b97f4a7c15));
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static void submit(struct store_admit *admit);

static void decided(struct store_op *op)
{
	struct store_admit *admit = container_of(op, struct store_admit, op);
	bench.decided++;
	bench.under_way--;
	bench.wrong += op->error != 0 || admit->verdict != VERDICT_NEW;
	if (clock_monotonic_ns() < bench.end_ns)
		submit(admit);
}

static void submit(struct store_admit *admit)
{
	*admit = (struct store_admit){
		.op = { .kind = STORE_ADMIT, .done = decided },
		.claims = { { .digest = { { next_random(), next_random() } },
		              .window_s = 345600 } },
		.claim_count = 1,
		.no_ticket = bench.payload_len == 0,
		.source = SPAN("bench"),
		.payload = span_of(bench.payload, bench.payload_len),
	};
	bench.under_way++;
	store_submit(bench.store, &admit->op);
}

static void wake(void *user)
{
	(void)user;
	wake_event_set(&bench.wake);
}

static double run(uint32_t in_flight, double seconds)
{
	struct store_admit *admits = mem_zalloc(in_flight, sizeof(*admits));
	if (!admits)
		return 0;
	uint64_t start_ns = clock_monotonic_ns();
	bench.end_ns = start_ns + (uint64_t)(seconds * 1e9);
	for (uint32_t i = 0; i < in_flight; i++)
		submit(&admits[i]);
	store_flush(bench.store);
	while (bench.under_way > 0) {
		wake_event_wait(&bench.wake, 100);
		store_flush(bench.store); /* what came back */
		store_flush(bench.store); /* and was submitted again */
	}
	mem_free(admits);
	return (double)(clock_monotonic_ns() - start_ns) / 1e9;
}

int main(int argc, char **argv)
{
	struct error_text text = { "" };
	if (argc == 2 && postgres_store_init(argv[1], &text) == 0)
		return 0;
	if (argc < 4) {
		fprintf(stderr, "usage: bench_postgres URL IN_FLIGHT SECONDS [PAYLOAD]\n%s\n",
		        text.text);
		return 2;
	}
	struct postgres_store_options options = { .url = argv[1] };
	uint32_t in_flight = (uint32_t)strtoul(argv[2], NULL, 10);
	bench.payload_len = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
	if (in_flight < 1 || in_flight > IN_FLIGHT_MAX || bench.payload_len > sizeof(bench.payload))
		return 2;
	memset(bench.payload, 'x', sizeof(bench.payload));
	bench.seed = clock_read(clock_system()).wall_ms << 20;
	wake_event_init(&bench.wake);
	if (postgres_store_open(&options, &bench.store, &text) < 0) {
		fprintf(stderr, "bench_postgres: %s\n", text.text);
		return 1;
	}
	bench.store->written = wake;
	double took_s = run(in_flight, strtod(argv[3], NULL));
	struct store_stats stats;
	store_stats(bench.store, &stats);
	printf("decisions_per_s %.0f\nper_transaction %.1f\nwrong %llu\n",
	       (double)bench.decided / took_s,
	       stats.commits ? (double)stats.commit_ops / (double)stats.commits : 0.0,
	       (unsigned long long)bench.wrong);
	store_free(bench.store);
	wake_event_destroy(&bench.wake);
	return bench.wrong ? 1 : 0;
}
