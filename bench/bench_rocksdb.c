/*
 * bench_rocksdb: durable insert-if-absent on RocksDB, the peer of bench_store.
 *
 * A batch of new keys is looked up in one batched multi-get and written in one
 * WriteBatch with the WAL synced: the cheapest way that RocksDB offers to do
 * what a store of claims does. Keys are 16 random bytes, values 16 bytes (a
 * ticket and the end of its window). A database that does not exist yet is
 * filled first, without WAL, and compacted; one that exists is used as it is,
 * so that rounds can alternate with those of another store.
 *
 * Nothing is deleted: what has expired would leave by a compaction of its own, at
 * RocksDB's cost, which is not counted here. So its figure is the same whether the
 * claims beside it grow in number or come and go.
 *
 * Tuned in RocksDB's favour: Bloom filters of 10 bits, a block cache that
 * holds everything, no compression, large write buffers.
 *
 * Prints lines of "key value". Threads: RocksDB's own; all are counted.
 */
#include <rocksdb/c.h>

#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"

#define KEY_BYTES 16
#define VALUE_BYTES 16
#define BATCH_MAX 16384

struct bench {
	rocksdb_t *db;
	rocksdb_column_family_handle_t *family;
	rocksdb_readoptions_t *read;
	rocksdb_writeoptions_t *synced;
	rocksdb_writeoptions_t *unlogged;
	uint64_t claims;
	uint32_t batch;
	double seconds;
	const char *path;
	int cpu;
	uint64_t next;  /* number of the next new key */
	uint64_t first; /* number of the first key of the measured part */
	uint64_t admitted;
	uint64_t found;
};

static char keys[BATCH_MAX][KEY_BYTES];
static const char *key_list[BATCH_MAX];
static size_t key_sizes[BATCH_MAX];
static rocksdb_pinnableslice_t *values[BATCH_MAX];
static char *errors[BATCH_MAX];

static void die_on(char *error)
{
	if (!error)
		return;
	(void)fprintf(stderr, "bench_rocksdb: %s\n", error);
	exit(1);
}

static double clock_s(clockid_t id)
{
	struct timespec now;
	(void)clock_gettime(id, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* splitmix64: a different, well-mixed key for every number. */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static void make_keys(struct bench *bench, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t halves[2] = { mix(bench->next * 2), mix(bench->next * 2 + 1) };
		memcpy(keys[i], halves, sizeof(halves));
		bench->next++;
	}
}

static void put_keys(rocksdb_writebatch_t *batch, uint32_t count)
{
	static const char value[VALUE_BYTES] = { 1 };
	for (uint32_t i = 0; i < count; i++)
		rocksdb_writebatch_put(batch, keys[i], KEY_BYTES, value, VALUE_BYTES);
}

static rocksdb_options_t *make_options(void)
{
	rocksdb_options_t *options = rocksdb_options_create();
	rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
	rocksdb_options_set_create_if_missing(options, 1);
	rocksdb_options_set_compression(options, rocksdb_no_compression);
	rocksdb_options_set_write_buffer_size(options, (size_t)128 << 20);
	rocksdb_options_set_max_write_buffer_number(options, 4);
	rocksdb_options_set_max_background_jobs(options, 2);
	rocksdb_block_based_options_set_filter_policy(table,
	                                              rocksdb_filterpolicy_create_bloom_full(10));
	rocksdb_block_based_options_set_block_cache(table,
	                                            rocksdb_cache_create_lru((size_t)2 << 30));
	rocksdb_options_set_block_based_table_factory(options, table);
	return options;
}

static void open_db(struct bench *bench)
{
	static const char *const names[] = { "default" };
	rocksdb_options_t *options = make_options();
	const rocksdb_options_t *family_options[] = { options };
	char *error = NULL;
	bench->db = rocksdb_open_column_families(options, bench->path, 1, names, family_options,
	                                         &bench->family, &error);
	die_on(error);
	bench->read = rocksdb_readoptions_create();
	bench->synced = rocksdb_writeoptions_create();
	rocksdb_writeoptions_set_sync(bench->synced, 1);
	bench->unlogged = rocksdb_writeoptions_create();
	rocksdb_writeoptions_disable_WAL(bench->unlogged, 1);
}

static void fill(struct bench *bench)
{
	rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
	while (bench->next < bench->claims) {
		uint64_t left = bench->claims - bench->next;
		uint32_t count = left < BATCH_MAX ? (uint32_t)left : BATCH_MAX;
		char *error = NULL;
		make_keys(bench, count);
		put_keys(batch, count);
		rocksdb_write(bench->db, bench->unlogged, batch, &error);
		die_on(error);
		rocksdb_writebatch_clear(batch);
	}
	rocksdb_writebatch_destroy(batch);
	rocksdb_compact_range(bench->db, NULL, 0, NULL, 0);
}

static uint32_t count_found(uint32_t count)
{
	uint32_t found = 0;
	for (uint32_t i = 0; i < count; i++) {
		die_on(errors[i]);
		if (values[i]) {
			found++;
			rocksdb_pinnableslice_destroy(values[i]);
		}
	}
	return found;
}

static void admit_batch(struct bench *bench, rocksdb_writebatch_t *batch)
{
	char *error = NULL;
	make_keys(bench, bench->batch);
	rocksdb_batched_multi_get_cf(bench->db, bench->read, bench->family, bench->batch, key_list,
	                             key_sizes, values, errors, false);
	bench->found += count_found(bench->batch);
	put_keys(batch, bench->batch);
	rocksdb_write(bench->db, bench->synced, batch, &error);
	die_on(error);
	rocksdb_writebatch_clear(batch);
	bench->admitted += bench->batch;
}

static void measure(struct bench *bench)
{
	rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
	double from_s = clock_s(CLOCK_MONOTONIC);
	double cpu_s = clock_s(CLOCK_PROCESS_CPUTIME_ID);
	double now_s = from_s;
	while (now_s - from_s < bench->seconds) {
		admit_batch(bench, batch);
		now_s = clock_s(CLOCK_MONOTONIC);
	}
	double wall_s = now_s - from_s;
	double used_s = clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu_s;
	printf("admits %" PRIu64 "\n", bench->admitted);
	printf("found %" PRIu64 "\n", bench->found);
	printf("seconds %.3f\n", wall_s);
	printf("admits_per_s %.0f\n", (double)bench->admitted / wall_s);
	printf("cpu_ns_per_admit %.1f\n", used_s * 1e9 / (double)bench->admitted);
	rocksdb_writebatch_destroy(batch);
}

static void pin(int cpu)
{
	if (cpu < 0)
		return;
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

static int read_options(struct bench *bench, int argc, char **argv)
{
	static const struct option table[] = {
		{ "claims", required_argument, NULL, 'n' },
		{ "batch", required_argument, NULL, 'b' },
		{ "seconds", required_argument, NULL, 's' },
		{ "path", required_argument, NULL, 'p' },
		{ "cpu", required_argument, NULL, 'c' },
		{ "first", required_argument, NULL, 'f' },
		{ NULL, 0, NULL, 0 },
	};
	int id = 0;
	while ((id = getopt_long(argc, argv, "", table, NULL)) != -1) {
		switch (id) {
		case 'n': bench->claims = strtoull(optarg, NULL, 10); break;
		case 'b': bench->batch = (uint32_t)strtoul(optarg, NULL, 10); break;
		case 's': bench->seconds = strtod(optarg, NULL); break;
		case 'p': bench->path = optarg; break;
		case 'f': bench->first = strtoull(optarg, NULL, 10); break;
		case 'c': bench->cpu = (int)strtol(optarg, NULL, 10); break;
		default: return -1;
		}
	}
	return bench->path && bench->batch > 0 && bench->batch <= BATCH_MAX ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct bench bench = { .claims = 10000000, .batch = 1024, .seconds = 3, .cpu = -1 };
	if (read_options(&bench, argc, argv) != 0) {
		(void)fputs(
			"usage: bench_rocksdb --path DIR [--claims N] [--batch N] [--seconds S] "
			"[--cpu N] [--first N]\n"
			"DIR is filled with N claims if it does not exist; then, for S seconds, "
			"new claims\nare admitted, counted from --first (the number of claims).\n",
			stderr);
		return 2;
	}
	for (uint32_t i = 0; i < BATCH_MAX; i++) {
		key_list[i] = keys[i];
		key_sizes[i] = KEY_BYTES;
	}
	pin(bench.cpu); /* before the database is opened: its threads inherit it */
	bool exists = access(bench.path, F_OK) == 0;
	open_db(&bench);
	if (!exists)
		fill(&bench);
	bench.next = bench.first ? bench.first : bench.claims;
	if (bench.seconds > 0)
		measure(&bench);
	rocksdb_column_family_handle_destroy(bench.family);
	rocksdb_close(bench.db);
	return 0;
}
