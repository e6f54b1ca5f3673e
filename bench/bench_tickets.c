/*
 * bench_tickets: many open tickets, in process, as when a sink does not answer.
 *
 *   --path DIR     data folder (made if needed; emptied at the end)
 *   --tickets N    legs in all
 *   --legs N       of an event
 *   --payload N    bytes of an event
 *
 * Events without claims are admitted, so that the memory is that of the tickets; all of
 * them are taken without payload, as a lane does that cannot start them now; a failed
 * attempt is noted of each; the store is closed and opened again; all are taken with
 * their payload and done. Prints lines of "key value"; CPU is of the whole process.
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

#define BATCH 1024u
#define SINK 7u

struct bench {
	struct store *store;
	const char *path;
	uint64_t tickets;
	uint32_t legs;
	uint32_t payload_len;
	uint64_t failed;
};

struct lease {
	uint64_t ticket;
	uint32_t attempt;
};

static struct store_admit admits[BATCH];
static struct store_note notes[BATCH];
static struct store_settle settles[BATCH];
static struct lease leases[BATCH];

static double seconds(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void done(struct store_op *op)
{
	struct bench *bench = op->user;

	bench->failed += op->error < 0;
}

static void submit(struct bench *bench, struct store_op *op, enum store_op_kind kind)
{
	op->kind = kind;
	op->done = done;
	op->user = bench;
	store_submit(bench->store, op);
}

static void admit_all(struct bench *bench)
{
	static struct store_leg legs[STORE_LEGS_MAX];
	static char payload[65536];
	uint64_t events = bench->tickets / bench->legs;

	for (uint32_t i = 0; i < bench->legs; i++)
		legs[i] = (struct store_leg){ .sink = SINK, .order = i };
	while (events > 0 && !bench->failed) {
		uint32_t count = events < BATCH ? (uint32_t)events : BATCH;
		for (uint32_t i = 0; i < count; i++) {
			admits[i] = (struct store_admit){
				.source = SPAN("bench"),
				.payload = span_of(payload, bench->payload_len),
				.legs = legs,
				.leg_count = bench->legs,
			};
			submit(bench, &admits[i].op, STORE_ADMIT);
		}
		store_flush(bench->store);
		events -= count;
	}
	store_tick(bench->store);
}

static uint32_t take_some(struct bench *bench, struct store_take *take)
{
	struct store_item item;
	struct store_parts parts;
	uint32_t count = 0;

	take->sink = SINK;
	take->max_items = BATCH;
	take->max_bytes = 16u << 20;
	submit(bench, &take->op, STORE_TAKE);
	store_flush(bench->store);
	for (size_t at = 0; store_item_next(buf_span(&take->items), &at, &item, &parts);)
		leases[count++] = (struct lease){ item.ticket, item.attempt };
	return count;
}

/* Every lease, noted as failed; or done. */
static void note_some(struct bench *bench, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		notes[i] = (struct store_note){ .ticket = leases[i].ticket,
			                        .attempt = leases[i].attempt,
			                        .mark = STORE_MARK_FAILED,
			                        .status = 503,
			                        .text = SPAN("connection refused") };
		submit(bench, &notes[i].op, STORE_NOTE);
	}
	store_flush(bench->store);
}

static void settle_some(struct bench *bench, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		settles[i] = (struct store_settle){ .ticket = leases[i].ticket,
			                            .attempt = leases[i].attempt,
			                            .outcome = OUTCOME_DONE };
		submit(bench, &settles[i].op, STORE_SETTLE);
	}
	store_flush(bench->store);
}

static void deliver_all(struct bench *bench, bool fail)
{
	struct store_take take = { .without_payload = fail };
	uint64_t left = bench->tickets;

	while (left > 0 && !bench->failed) {
		uint32_t count = take_some(bench, &take);
		if (fail)
			note_some(bench, count);
		else
			settle_some(bench, count);
		left -= count;
	}
	store_tick(bench->store);
	buf_free(&take.items);
}

static int open_store(struct bench *bench)
{
	struct local_store_options options = { .path = bench->path };
	struct error_text text = { "" };

	int r = local_store_open(&options, &bench->store, &text);
	if (r < 0)
		(void)fprintf(stderr, "bench_tickets: %s\n", text.text);
	return r;
}

static uint64_t open_tickets(const struct bench *bench)
{
	struct store_stats stats;

	store_stats(bench->store, &stats);
	return stats.open_tickets;
}

struct span_of_time {
	double wall, cpu;
};

static struct span_of_time now(void)
{
	return (struct span_of_time){ seconds(CLOCK_MONOTONIC), seconds(CLOCK_PROCESS_CPUTIME_ID) };
}

static void report(const struct bench *bench, const char *what, struct span_of_time began)
{
	struct span_of_time ended = now();

	printf("%s_per_s %.0f\n", what, (double)bench->tickets / (ended.wall - began.wall));
	printf("%s_cpu_ns %.1f\n", what, (ended.cpu - began.cpu) * 1e9 / (double)bench->tickets);
}

static int run(struct bench *bench)
{
	uint64_t before = resident_bytes();
	struct store_stats stats;

	if (open_store(bench) < 0)
		return 1;
	struct span_of_time began = now();
	admit_all(bench);
	report(bench, "admit", began);
	store_stats(bench->store, &stats);
	printf("index_bytes_per_ticket %.1f\n", (double)stats.index_bytes / (double)bench->tickets);
	began = now();
	deliver_all(bench, true);
	report(bench, "take_and_note", began);
	printf("bytes_per_ticket %.1f\n",
	       (double)(resident_bytes() - before) / (double)bench->tickets);
	bench->store = store_free(bench->store);
	began = now();
	if (open_store(bench) < 0)
		return 1;
	printf("recover_s %.3f\nrecovered_tickets %" PRIu64 "\n", now().wall - began.wall,
	       open_tickets(bench));
	began = now();
	deliver_all(bench, false);
	report(bench, "take_and_done", began);
	printf("left_tickets %" PRIu64 "\nfailed %" PRIu64 "\n", open_tickets(bench),
	       bench->failed);
	store_free(bench->store);
	return bench->failed ? 1 : 0;
}

static bool parse(struct bench *bench, int argc, char **argv)
{
	static const struct option options[] = { { "path", required_argument, NULL, 'p' },
		                                 { "tickets", required_argument, NULL, 't' },
		                                 { "legs", required_argument, NULL, 'l' },
		                                 { "payload", required_argument, NULL, 'y' },
		                                 { NULL, 0, NULL, 0 } };
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'p': bench->path = optarg; break;
		case 't': bench->tickets = strtoull(optarg, NULL, 10); break;
		case 'l': bench->legs = (uint32_t)strtoul(optarg, NULL, 10); break;
		case 'y': bench->payload_len = (uint32_t)strtoul(optarg, NULL, 10); break;
		default: return false;
		}
	}
	bench->tickets -= bench->legs ? bench->tickets % bench->legs : 0;
	return bench->path && bench->legs >= 1 && bench->legs <= STORE_LEGS_MAX &&
	       bench->tickets >= 1 && bench->payload_len <= 65536;
}

int main(int argc, char **argv)
{
	struct bench bench = { .tickets = 1000000, .legs = 1, .payload_len = 1024 };

	if (!parse(&bench, argc, argv)) {
		(void)fputs("usage: bench_tickets --path DIR [--tickets N] [--legs N] "
		            "[--payload N]\n",
		            stderr);
		return 2;
	}
	int code = run(&bench);
	empty_folder(bench.path);
	return code;
}
