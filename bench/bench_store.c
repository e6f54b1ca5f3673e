/*
 * bench_store: durable admits in process, one claim each, no payload, on top of
 * many live claims. The peer is bench_rocksdb.
 *
 *   --path DIR       data folder (made if needed; emptied at the end without --keep)
 *   --claims N       live claims before the measured part
 *   --steady         as many claims expire as arrive; see below
 *   --batch N        admits per flush (one durable write each)
 *   --seconds S      length of a measured round; 0: only fill
 *   --rounds N       rounds; the median is printed
 *   --cells          cells in the place of claims: PUT if absent, a name of 28 bytes, the
 *                    value "1" (what SET NX EX of the Redis door does)
 *   --memory         print resident bytes per claim after filling
 *   --keep           leave the folder
 *   --recover        only open what is there and tell how long that took
 *
 * Without --steady nothing expires: the index grows all the time, before and in
 * the measured part, and what a system takes to find fresh memory is part of the
 * figure. With --steady a clock of our own turns with the admits, so that each
 * claim expires when N more have come: the folder is filled, half as many more are
 * admitted until the index has about found its size, and from then on the number of
 * live claims stays N. Removing the expired is part of the figure then. Neither
 * stands for the other.
 *
 * The steady clock runs as it would at 3 million admits a second. So windows are
 * seconds long, the sweep (once around in a minute) hardly helps, and more of the
 * expired wait for a full bucket than with windows of days: memory is higher.
 *
 * Prints lines of "key value". CPU is of the whole process: the keeper's thread
 * and the making of digests (a few ns) are counted.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "process.h"
#include "store/local/local_store.h"

#define BATCH_MAX 65536
#define ROUNDS_MAX 64
#define WINDOW_S (4u * 24 * 60 * 60)
#define TICK_NS 50000000u
#define STEADY_PER_S 3000000u /* admits in a second of the steady clock */

struct bench {
	struct store *store;
	const char *path;
	uint64_t claims;
	uint32_t batch;
	double seconds;
	uint32_t rounds;
	bool memory, keep, recover, steady, cells;
	uint32_t window_s;
	double ms_per_admit;  /* of the steady clock */
	struct clock clock;   /* the same, for the store */
	uint64_t first, next; /* number of the first and of the next digest */
	uint64_t began_ms;    /* unix */
	uint64_t failed, duplicates;
	uint64_t ticked_ns;
};

static struct store_admit admits[BATCH_MAX];
static struct store_cell cells[BATCH_MAX];
static char names[BATCH_MAX][28];

static uint64_t clock_ns(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static void done(struct store_op *op)
{
	struct bench *bench = op->user;
	const struct store_admit *admit = container_of(op, struct store_admit, op);

	bench->failed += op->error < 0;
	bench->duplicates += op->error == 0 && admit->verdict != VERDICT_NEW;
}

static void cell_done(struct store_op *op)
{
	struct bench *bench = op->user;

	bench->failed += op->error < 0;
	bench->duplicates += op->error == 0 && !container_of(op, struct store_cell, op)->changed;
}

/* Turns with the admits; its zero is when the program began. */
static void read_steady(void *user, struct clock_reading *ret_reading)
{
	const struct bench *bench = user;
	uint64_t ms = (uint64_t)((double)(bench->next - bench->first) * bench->ms_per_admit);

	*ret_reading = (struct clock_reading){ bench->began_ms + ms, bench->began_ms + ms };
}

static struct digest digest_next(struct bench *bench)
{
	uint64_t n = bench->next++;

	return (struct digest){ { mix(n * 2 + UINT64_C(0x9e3779b97f4a7c15)), mix(n * 2 + 1) } };
}

static void submit_admit(struct bench *bench, uint32_t i)
{
	struct store_admit *admit = &admits[i];

	admit->op.kind = STORE_ADMIT;
	admit->op.done = done;
	admit->op.user = bench;
	admit->claims[0].digest = digest_next(bench);
	admit->claims[0].window_s = bench->window_s;
	admit->claim_count = 1;
	admit->no_ticket = true;
	store_submit(bench->store, &admit->op);
}

static void submit_cell(struct bench *bench, uint32_t i)
{
	struct store_cell *cell = &cells[i];
	char *name = names[i];

	cell->op.kind = STORE_CELL;
	cell->op.done = cell_done;
	cell->op.user = bench;
	cell->act = STORE_CELL_PUT;
	cell->when = STORE_IF_ABSENT;
	cell->cell.digest = digest_next(bench);
	cell->cell.ttl_ms = (uint64_t)bench->window_s * 1000;
	memcpy(name, "event:dedup:", 12);
	for (uint32_t at = 0; at < 16; at++)
		name[12 + at] = "0123456789abcdef"[cell->cell.digest.word[0] >> 4 * at & 15];
	cell->cell.name = span_of(name, 28);
	cell->cell.value = SPAN("1");
	store_submit(bench->store, &cell->op);
}

static void run_batch(struct bench *bench, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (bench->cells)
			submit_cell(bench, i);
		else
			submit_admit(bench, i);
	}
	store_flush(bench->store);
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	if (now_ns - bench->ticked_ns >= TICK_NS) {
		bench->ticked_ns = now_ns;
		store_tick(bench->store);
	}
}

static void admit_many(struct bench *bench, uint64_t count)
{
	uint64_t end = bench->next + count;

	while (bench->next < end && !bench->failed)
		run_batch(bench, end - bench->next < bench->batch ? (uint32_t)(end - bench->next)
		                                                  : bench->batch);
}

struct round {
	double admits_per_s;
	double cpu_ns;
	uint64_t admits;
};

static struct round run_round(struct bench *bench)
{
	uint64_t first = bench->next;
	uint64_t began_ns = clock_ns(CLOCK_MONOTONIC);
	uint64_t cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID), now_ns;

	do {
		run_batch(bench, bench->batch);
		now_ns = clock_ns(CLOCK_MONOTONIC);
	} while ((double)(now_ns - began_ns) < bench->seconds * 1e9 && !bench->failed);
	now_ns = clock_ns(CLOCK_MONOTONIC);
	cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
	double admitted = (double)(bench->next - first);
	return (struct round){ admitted * 1e9 / (double)(now_ns - began_ns),
		               (double)cpu_ns / admitted, bench->next - first };
}

static int by_rate(const void *a, const void *b)
{
	double x = ((const struct round *)a)->admits_per_s;
	double y = ((const struct round *)b)->admits_per_s;

	return x < y ? -1 : x > y;
}

static void measure(struct bench *bench)
{
	struct round rounds[ROUNDS_MAX];

	for (uint32_t i = 0; i < bench->rounds; i++)
		rounds[i] = run_round(bench);
	qsort(rounds, bench->rounds, sizeof(rounds[0]), by_rate);
	const struct round *median = &rounds[bench->rounds / 2];
	printf("admits %" PRIu64 "\n", median->admits);
	printf("admits_per_s %.0f\n", median->admits_per_s);
	printf("cpu_ns_per_admit %.1f\n", median->cpu_ns);
}

static int open_store(struct bench *bench)
{
	struct local_store_options options = { .path = bench->path,
		                               .clock = bench->steady ? &bench->clock : NULL };
	struct error_text text = { "" };

	uint64_t began_ns = clock_ns(CLOCK_MONOTONIC);
	int r = local_store_open(&options, &bench->store, &text);
	if (r < 0) {
		(void)fprintf(stderr, "bench_store: %s\n", text.text);
		return r;
	}
	struct store_stats stats;
	store_stats(bench->store, &stats);
	printf("recover_s %.3f\n", (double)(clock_ns(CLOCK_MONOTONIC) - began_ns) / 1e9);
	printf("recovered_claims %" PRIu64 "\n", stats.live_claims);
	printf("recovered_cells %" PRIu64 "\n", stats.live_cells);
	return 0;
}

static void report_memory(const struct bench *bench, uint64_t before)
{
	struct store_stats stats;

	store_tick(bench->store);
	store_stats(bench->store, &stats);
	uint64_t live = bench->cells ? stats.live_cells : stats.live_claims;
	printf("live_%s %" PRIu64 "\n", bench->cells ? "cells" : "claims", live);
	printf("rss_bytes %" PRIu64 "\n", resident_bytes());
	printf("index_bytes %" PRIu64 "\n", stats.index_bytes);
	printf("bytes_per_%s %.2f\n", bench->cells ? "cell" : "claim",
	       (double)(resident_bytes() - before) / (double)(live + !live));
}

/* The expired that still wait for the sweep are not live. */
static void report_steady(const struct bench *bench, uint64_t before)
{
	struct store_stats stats;

	store_tick(bench->store);
	store_stats(bench->store, &stats);
	printf("steady_claims %" PRIu64 "\n", bench->claims);
	printf("steady_expired %" PRIu64 "\n", stats.expired_claims);
	printf("steady_waiting %" PRIu64 "\n", stats.live_claims - bench->claims);
	printf("steady_bytes_per_claim %.2f\n",
	       (double)(resident_bytes() - before) / (double)bench->claims);
}

static void start_clocks(struct bench *bench)
{
	uint32_t window_s = (uint32_t)(bench->claims / STEADY_PER_S);

	bench->ticked_ns = clock_ns(CLOCK_MONOTONIC);
	bench->next = bench->first = bench->ticked_ns << 20; /* others than any run before */
	bench->began_ms = clock_ns(CLOCK_REALTIME) / 1000000u;
	bench->window_s = !bench->steady ? WINDOW_S : window_s ? window_s : 1;
	bench->ms_per_admit = bench->window_s * 1e3 / (double)bench->claims;
	bench->clock = (struct clock){ .read = read_steady, .user = bench };
}

static int run(struct bench *bench)
{
	uint64_t before = resident_bytes();

	start_clocks(bench);
	if (open_store(bench) < 0)
		return 1;
	if (!bench->recover) {
		uint64_t began_ns = clock_ns(CLOCK_MONOTONIC);
		admit_many(bench, bench->claims);
		printf("fill_s %.3f\n", (double)(clock_ns(CLOCK_MONOTONIC) - began_ns) / 1e9);
	}
	if (bench->memory)
		report_memory(bench, before);
	if (bench->steady)
		admit_many(bench, bench->claims / 2);
	if (!bench->recover && bench->seconds > 0)
		measure(bench);
	if (bench->steady)
		report_steady(bench, before);
	printf("failed %" PRIu64 "\nfound %" PRIu64 "\n", bench->failed, bench->duplicates);
	store_free(bench->store);
	if (!bench->keep && !bench->recover)
		empty_folder(bench->path);
	return bench->failed || bench->duplicates ? 1 : 0;
}

static const struct option options[] = {
	{ "path", required_argument, NULL, 'p' },
	{ "claims", required_argument, NULL, 'c' },
	{ "batch", required_argument, NULL, 'b' },
	{ "seconds", required_argument, NULL, 's' },
	{ "rounds", required_argument, NULL, 'r' },
	{ "memory", no_argument, NULL, 'm' },
	{ "keep", no_argument, NULL, 'k' },
	{ "recover", no_argument, NULL, 'R' },
	{ "steady", no_argument, NULL, 'S' },
	{ "cells", no_argument, NULL, 'C' },
	{ NULL, 0, NULL, 0 },
};

static bool parse(struct bench *bench, int argc, char **argv)
{
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'p': bench->path = optarg; break;
		case 'c': bench->claims = strtoull(optarg, NULL, 10); break;
		case 'b': bench->batch = (uint32_t)strtoul(optarg, NULL, 10); break;
		case 's': bench->seconds = strtod(optarg, NULL); break;
		case 'r': bench->rounds = (uint32_t)strtoul(optarg, NULL, 10); break;
		case 'm': bench->memory = true; break;
		case 'k': bench->keep = true; break;
		case 'R': bench->recover = true; break;
		case 'S': bench->steady = true; break;
		case 'C': bench->cells = true; break;
		default: return false;
		}
	}
	return bench->path && bench->claims >= 1 && bench->batch >= 1 &&
	       bench->batch <= BATCH_MAX && bench->rounds >= 1 && bench->rounds <= ROUNDS_MAX;
}

int main(int argc, char **argv)
{
	struct bench bench = { .batch = 1024, .seconds = 5, .rounds = 1, .claims = 1000000 };

	if (!parse(&bench, argc, argv)) {
		(void)fputs("usage: bench_store --path DIR [--claims N] [--batch N] [--seconds S] "
		            "[--rounds N] [--steady] [--cells] [--memory] [--keep] "
		            "[--recover]\n",
		            stderr);
		return 2;
	}
	return run(&bench);
}
