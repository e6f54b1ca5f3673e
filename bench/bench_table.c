/*
 * bench_table: what the index costs, in nanoseconds and in bytes.
 *
 *   bench_table [MILLIONS…]     default 1 10
 *
 * For each size: claims are put in batches of 1024 as the store does (three
 * steps of prefetch run ahead), then found, then missed; then the same number is
 * bulk-loaded after a reserve. Bytes are by resident size. The longest batch
 * tells of pauses. Times are CPU times. 100 million need 3 GB.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "gate/ticket.h"
#include "process.h"
#include "store/local/index/table.h"

#define BATCH 1024
#define NOW_MS (TICKET_EPOCH_MS + UINT64_C(86400000))

/* Time of this thread only: the machine may be doing other things too. */
static uint64_t cpu_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static uint64_t mix(uint64_t z)
{
	z += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static struct table_record record_at(uint64_t i)
{
	return (struct table_record){ .digest.word = { mix(i), mix(i ^ (UINT64_C(1) << 60)) },
		                      .ticket = ticket_next(i, NOW_MS),
		                      .window_s = 345600 };
}

/* The records are made before the clock starts: their cost is not the table's. */
static void make_batch(struct table_record *records, uint64_t first)
{
	for (uint64_t i = 0; i < BATCH; i++)
		records[i] = record_at(first + i);
}

static uint64_t admit_group(struct table *table, const struct table_record *records,
                            struct table_probe *probes, bool put)
{
	struct table_hit hit;
	uint64_t hits = 0;
	for (uint32_t i = 0; i < TABLE_GROUP; i++) {
		bool found = table_find_probe(table, &probes[i], NOW_MS, &hit);
		hits += found;
		if (!found && put)
			CHECK(table_put_probe(table, &probes[i], &records[i], NOW_MS) == 0);
	}
	return hits;
}

/* As the store does: a group is decided after it has been through all steps. */
static uint64_t admit_batch(struct table *table, const struct table_record *records, bool put)
{
	static struct table_probe probes[BATCH];
	uint64_t hits = 0;
	for (int i = 0; i < BATCH; i++)
		probes[i] = table_probe(&records[i].digest);
	for (uint32_t turn = 0; turn < BATCH / TABLE_GROUP + TABLE_STEPS; turn++) {
		for (uint32_t step = 0; step < TABLE_STEPS; step++) {
			uint32_t first = (turn - step) * TABLE_GROUP; /* wraps to more than BATCH */
			if (first < BATCH)
				table_fetch(table, step, &probes[first], TABLE_GROUP);
		}
		uint32_t first = (turn - TABLE_STEPS) * TABLE_GROUP;
		if (first < BATCH)
			hits += admit_group(table, &records[first], &probes[first], put);
	}
	return hits;
}

struct cost {
	double ns;
	double worst_us;
};

static struct cost run(struct table *table, uint64_t first, uint64_t count, bool put, bool hit)
{
	struct table_record records[BATCH];
	uint64_t total_ns = 0;
	uint64_t worst_ns = 0;
	for (uint64_t i = 0; i < count; i += BATCH) {
		make_batch(records, first + i);
		uint64_t start = cpu_ns();
		CHECK(admit_batch(table, records, put) == (hit ? BATCH : 0));
		uint64_t ns = cpu_ns() - start;
		total_ns += ns;
		worst_ns = ns > worst_ns ? ns : worst_ns;
	}
	return (struct cost){ (double)total_ns / (double)count, (double)worst_ns / 1000 };
}

static double run_load(struct table *table, uint64_t count)
{
	static struct table_record records[4096];
	uint64_t total_ns = 0;
	uint64_t start = cpu_ns();
	CHECK(table_load_begin(table, count) == 0);
	total_ns += cpu_ns() - start;
	for (uint64_t i = 0; i < count; i += 4096) {
		for (uint64_t j = 0; j < 4096; j++)
			records[j] = record_at(i + j);
		start = cpu_ns();
		CHECK(table_put_batch(table, records, 4096, NOW_MS) == 0);
		total_ns += cpu_ns() - start;
	}
	return (double)total_ns / (double)count;
}

/* A full round of the sweep in the store's portions, when all has expired. */
static struct cost run_sweep(struct table *table)
{
	uint64_t total_ns = 0;
	uint64_t worst_ns = 0;
	uint64_t removed = 0;
	for (struct table_stats stats = { .claims = 1 }; stats.claims > 0;) {
		uint64_t start = cpu_ns();
		removed += table_sweep(table, NOW_MS + UINT64_C(1000) * 86400 * 30, 20000);
		uint64_t ns = cpu_ns() - start;
		total_ns += ns;
		worst_ns = ns > worst_ns ? ns : worst_ns;
		table_get_stats(table, &stats);
	}
	return (struct cost){ (double)total_ns / (double)removed, (double)worst_ns / 1000 };
}

static void bench(uint64_t millions)
{
	uint64_t count = millions * 1000000 / 4096 * 4096;
	struct table *table = NULL;
	uint64_t before = resident_bytes();
	CHECK(table_new(&table) == 0);
	struct cost put = run(table, 0, count, true, false);
	double bytes = (double)(resident_bytes() - before) / (double)count;
	struct cost more = run(table, count, count / 8 / BATCH * BATCH, true, false);
	uint64_t sample = count < 4000000 ? count / BATCH * BATCH : 4000000;
	struct cost found = run(table, 0, sample, false, true);
	struct cost missed = run(table, count * 4, sample, false, false);
	struct table_stats stats;
	table_get_stats(table, &stats);
	double bytes_more = (double)(resident_bytes() - before) / (double)stats.claims;
	struct cost sweep = run_sweep(table);
	double left = (double)(resident_bytes() - before) / (1 << 20);
	table = table_free(table);
	CHECK(table_new(&table) == 0);
	double load = run_load(table, count);
	double bytes_load = (double)(resident_bytes() - before) / (double)count;
	table = table_free(table);
	printf("%6llu M  admit %5.1f ns (last eighth %5.1f), worst batch %6.0f/%5.0f us  hit %5.1f  miss %5.1f  "
	       "load %5.1f ns  sweep %4.1f ns, worst %5.0f us, leaves %.1f MiB\n"
	       "          bytes a claim %.2f, an eighth later %.2f, after load %.2f  rebuilds %llu\n",
	       (unsigned long long)millions, put.ns, more.ns, put.worst_us, more.worst_us, found.ns,
	       missed.ns, load, sweep.ns, sweep.worst_us, left, bytes, bytes_more, bytes_load,
	       (unsigned long long)stats.rebuilds);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		bench(1);
		bench(10);
	}
	for (int i = 1; i < argc; i++)
		bench(strtoull(argv[i], NULL, 10));
	return 0;
}
