/*
 * journal: the parts of the local store together: the ring of frames, rolling,
 * retention, takes that read back, the keeper's thread, and the tools.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "gate/ticket.h"
#include "store/local/inspect.h"
#include "store/local/journal/journal.h"
#include "store/local/local_store.h"
#include "support/clock_fake.h"
#include "support/simfs.h"
#include "support/store_calls.h"
#include "support/test.h"

struct world {
	struct simfs *simfs;
	struct clock_fake clock;
	struct local_store_options options;
	struct store *store;
	char log[512];
	int logs;
};

static void keep_log(void *user, enum local_store_level level, const char *text)
{
	struct world *world = user;

	(void)level;
	world->logs++;
	(void)snprintf(world->log, sizeof(world->log), "%s", text);
}

static void open_store(struct world *world)
{
	struct error_text text = { "" };
	int r = local_store_open(&world->options, &world->store, &text);

	if (r < 0)
		fail_msg("open: %s: %s", error_name(r), text.text);
}

static void begin(struct world *world)
{
	memset(world, 0, sizeof(*world));
	world->simfs = simfs_new(1);
	clock_fake_init(&world->clock);
	world->options = (struct local_store_options){ .path = "data",
		                                       .fs = simfs_fs(world->simfs),
		                                       .clock = &world->clock.clock,
		                                       .segment_bytes = LOCAL_STORE_SEGMENT_MIN,
		                                       .keeper_inline = true,
		                                       .log = keep_log,
		                                       .log_user = world };
	open_store(world);
}

static void end(struct world *world)
{
	store_free(world->store);
	simfs_free(world->simfs);
}

static struct store_admit admit_number(uint64_t number, struct span payload)
{
	return (struct store_admit){ .claim_count = 1,
		                     .claims = { { .digest = { { number, ~number } },
		                                   .window_s = 3600 } },
		                     .source = SPAN("test"),
		                     .payload = payload };
}

static enum verdict admit(struct world *world, uint64_t number, struct span payload)
{
	struct store_admit op = admit_number(number, payload);

	assert_int_equal(store_call(world->store, &op.op, STORE_ADMIT), 0);
	return op.verdict;
}

static uint32_t settle_all(struct world *world, uint32_t max_items, enum outcome outcome)
{
	struct take_call call = { 0 };
	struct store_item item;
	struct store_parts parts;
	size_t at = 0;
	uint32_t count = 0;

	take_call_begin(world->store, &call, max_items, 1u << 20);
	store_flush(world->store);
	if (!take_call_poll(&call))
		fail_msg("nothing was due");
	while (store_item_next(buf_span(&call.take.items), &at, &item, &parts)) {
		struct store_settle settle = { .ticket = item.ticket,
			                       .attempt = item.attempt,
			                       .outcome = outcome };
		assert_int_equal(store_call(world->store, &settle.op, STORE_SETTLE), 0);
		count++;
	}
	buf_free(&call.take.items);
	return count;
}

static uint32_t count_files(const struct world *world, const char *ending)
{
	uint32_t count = 0;
	const char *name;

	for (size_t i = 0; (name = simfs_file_name(world->simfs, i)); i++) {
		size_t len = strlen(name);
		count += len > 4 && strcmp(name + len - 4, ending) == 0;
	}
	return count;
}

/* ---- the ring ---- */

static void test_young_frames_are_read_from_memory_and_only_those(void **state)
{
	(void)state;
	const uint32_t ring = 8 * FORMAT_BLOCK;
	uint64_t random = test_seed();
	static unsigned char disk[64 * FORMAT_BLOCK];
	struct frame frame;
	uint32_t offset = FORMAT_BLOCK, span;

	assert_int_equal(frame_init(&frame, ring, 4 * FORMAT_BLOCK), 0);
	while (offset + 4 * FORMAT_BLOCK <= sizeof(disk)) {
		frame_begin(&frame, &(struct frame_place){ .segment = 1,
		                                           .epoch = 77,
		                                           .offset = offset,
		                                           .limit = 4 * FORMAT_BLOCK });
		uint64_t count = 1 + test_random_below(&random, 300);
		for (uint64_t i = 0; i < count; i++) {
			struct store_settle settle = { .ticket = test_random(&random) };
			if (frame_fits(&frame, sizeof(struct entry_settle)))
				frame_add_settle(&frame, &settle);
		}
		const unsigned char *bytes = frame_finish(&frame, &(struct frame_stamp){ 1, 2, 3 },
		                                          &span);
		memcpy(disk + offset, bytes, span);
		assert_null(frame_cached(&frame, 1, offset, 8)); /* not on disk yet */
		frame_written(&frame, span);
		offset += span;
		assert_non_null(frame_cached(&frame, 1, offset - span, span));
		for (uint32_t at = FORMAT_BLOCK; at < offset; at += 512) {
			const unsigned char *cached = frame_cached(&frame, 1, at, 512);
			if (cached)
				assert_memory_equal(cached, disk + at, 512);
			else
				assert_true(offset - at > ring - 4 * FORMAT_BLOCK);
		}
	}
	frame_free(&frame);
}

/* ---- lazy outcomes ---- */

struct lazy_settle {
	struct take_call call;
	struct store_settle settle;
	bool finished;
};

/* Takes what is due and submits its outcome, without an event beside it. */
static void settle_it(struct world *world, struct lazy_settle *lazy, bool awaited)
{
	struct store_item item;
	struct store_parts parts;
	size_t at = 0;

	*lazy = (struct lazy_settle){ .finished = false };
	take_call_begin(world->store, &lazy->call, 1, 1u << 20);
	store_flush(world->store);
	assert_true(take_call_poll(&lazy->call));
	assert_true(store_item_next(buf_span(&lazy->call.take.items), &at, &item, &parts));
	lazy->settle = (struct store_settle){
		.op = { .kind = STORE_SETTLE, .done = store_calls_done, .user = &lazy->finished },
		.ticket = item.ticket,
		.attempt = item.attempt,
		.outcome = OUTCOME_DONE,
		.awaited = awaited,
	};
	store_submit(world->store, &lazy->settle.op);
	store_flush(world->store);
	buf_free(&lazy->call.take.items);
}

static void settle_lazily(struct world *world, struct lazy_settle *lazy)
{
	settle_it(world, lazy, false);
}

static uint64_t commits(const struct world *world)
{
	struct store_stats stats;

	store_stats(world->store, &stats);
	return stats.commits;
}

/* Whether a note of a failed attempt is durable with the flush; else it is with the tick. */
static bool is_noted_at_once(struct world *world, const struct store_item *item, uint32_t attempt,
                             uint64_t due_ms)
{
	bool finished = false;
	struct store_note note = {
		.op = { .kind = STORE_NOTE, .done = store_calls_done, .user = &finished },
		.ticket = item->ticket,
		.attempt = attempt,
		.mark = STORE_MARK_FAILED,
		.due_ms = due_ms,
	};
	store_submit(world->store, &note.op);
	store_flush(world->store);
	bool at_once = finished;
	store_tick(world->store);
	assert_true(finished);
	assert_int_equal(note.op.error, 0);
	return at_once;
}

static void test_retry_that_is_due_at_once_does_not_wait_for_the_tick(void **state)
{
	(void)state;
	struct world world;
	struct take_call call = { 0 };
	struct store_item item;
	struct store_parts parts;
	size_t at = 0;

	begin(&world);
	store_free(world.store);
	world.options.lazy_outcomes = true;
	open_store(&world);
	assert_int_equal(admit(&world, 1, SPAN("first")), VERDICT_NEW);
	take_call_begin(world.store, &call, 1, 1u << 20);
	store_flush(world.store);
	assert_true(take_call_poll(&call));
	assert_true(store_item_next(buf_span(&call.take.items), &at, &item, &parts));
	uint64_t now_ms = call.take.now_ms;
	assert_true(is_noted_at_once(&world, &item, 1, 0));
	assert_true(is_noted_at_once(&world, &item, 2, now_ms + 10));
	assert_false(is_noted_at_once(&world, &item, 3, now_ms + 1000));
	buf_free(&call.take.items);
	end(&world);
}

static void test_outcomes_alone_cost_no_write_and_delay_no_duplicate(void **state)
{
	(void)state;
	struct world world;
	struct lazy_settle lazy;

	begin(&world);
	store_free(world.store);
	world.options.lazy_outcomes = true;
	open_store(&world);
	assert_int_equal(admit(&world, 1, SPAN("first")), VERDICT_NEW);
	uint64_t before = commits(&world);
	settle_lazily(&world, &lazy);
	assert_false(lazy.finished);
	assert_int_equal(admit(&world, 1, SPAN("first")), VERDICT_DUPLICATE);
	assert_int_equal(commits(&world), before);

	/* With the next event's write … */
	assert_int_equal(admit(&world, 2, SPAN("second")), VERDICT_NEW);
	assert_true(lazy.finished);
	assert_int_equal(commits(&world), before + 1);

	/* … with the tick's … */
	settle_lazily(&world, &lazy);
	assert_false(lazy.finished);
	store_tick(world.store);
	assert_true(lazy.finished);
	assert_int_equal(lazy.settle.op.error, 0);

	/* … with one that is worth it … */
	assert_int_equal(admit(&world, 4, SPAN("fourth")), VERDICT_NEW);
	before = commits(&world);
	settle_it(&world, &lazy, true);
	assert_true(lazy.finished);
	assert_int_equal(commits(&world), before + 1);

	/* … or with the end. */
	assert_int_equal(admit(&world, 3, SPAN("third")), VERDICT_NEW);
	settle_lazily(&world, &lazy);
	assert_false(lazy.finished);
	store_free(world.store);
	assert_true(lazy.finished);
	assert_int_equal(lazy.settle.op.error, 0);
	open_store(&world);
	struct store_stats stats;
	store_stats(world.store, &stats);
	assert_int_equal(stats.open_tickets, 0);
	end(&world);
}

/* ---- retention ---- */

static void test_old_segments_leave_and_their_claims_stay(void **state)
{
	(void)state;
	static char payload[2000];
	struct world world;

	begin(&world);
	world.options.retain_bytes = 0;
	for (uint64_t i = 1; i <= 400; i++) {
		assert_int_equal(admit(&world, i, span_of(payload, sizeof(payload))), VERDICT_NEW);
		if (i % 20 == 0)
			assert_int_equal(settle_all(&world, 20, OUTCOME_DONE), 20);
	}
	uint32_t before = count_files(&world, ".seg");
	assert_true(before > 10);
	clock_fake_advance(&world.clock, UINT64_C(3599) * 1000); /* claims live on */
	store_free(world.store);
	world.options.retain_ms = 1000;
	open_store(&world);
	store_tick(world.store);
	store_tick(world.store);
	assert_true(count_files(&world, ".seg") < 6);
	assert_true(count_files(&world, ".clm") > 10);
	for (uint64_t i = 1; i <= 400; i++)
		assert_int_equal(admit(&world, i, SPAN_EMPTY), VERDICT_DUPLICATE);
	store_free(world.store);
	open_store(&world); /* from claims files alone */
	for (uint64_t i = 1; i <= 400; i++)
		assert_int_equal(admit(&world, i, SPAN_EMPTY), VERDICT_DUPLICATE);
	clock_fake_advance(&world.clock, UINT64_C(40) * 1000); /* now they have expired */
	for (int i = 0; i < 4; i++)
		store_tick(world.store);
	assert_true(count_files(&world, ".clm") <= 1);
	assert_int_equal(admit(&world, 1, SPAN_EMPTY), VERDICT_NEW);
	end(&world);
}

/* A copy of the folder as it is, with one of the superblock's slots damaged, opens. */
static void opens_with_either_slot_alone(const struct world *world)
{
	for (uint64_t slot = 0; slot < 2; slot++) {
		struct local_store_options options = world->options;
		struct error_text text = { "" };
		struct store *store = NULL;
		struct simfs *copy = simfs_copy(world->simfs);
		simfs_flip_bit(copy, "data/superblock", 8 * (slot * 4096 + 20));
		options.fs = simfs_fs(copy);
		int r = local_store_open(&options, &store, &text);
		if (r < 0)
			fail_msg("without slot %d: %s: %s", (int)slot, error_name(r), text.text);
		store_free(store);
		simfs_free(copy);
	}
}

/* What left may be named by neither slot: one of them may be all that is left. */
static void test_a_damaged_slot_does_no_harm_right_after_segments_left(void **state)
{
	(void)state;
	static char payload[2000];
	struct world world;

	begin(&world);
	for (uint64_t i = 1; i <= 200; i++)
		assert_int_equal(admit(&world, i, span_of(payload, sizeof(payload))), VERDICT_NEW);
	store_tick(world.store);
	store_free(world.store);
	world.options.retain_ms = 1000;
	open_store(&world);
	uint32_t segments = count_files(&world, ".seg"), claims = count_files(&world, ".clm");
	for (uint32_t left = 200; left > 0;)
		left -= settle_all(&world, left, OUTCOME_DONE);
	clock_fake_advance(&world.clock, UINT64_C(3590) * 1000); /* segments leave, claims stay */
	for (int i = 0; i < 4; i++) {
		store_tick(world.store);
		opens_with_either_slot_alone(&world);
		clock_fake_advance(&world.clock, 20000); /* and then claims leave */
	}
	assert_true(count_files(&world, ".seg") < segments);
	assert_true(count_files(&world, ".clm") < claims);
	end(&world);
}

/* Segments with claims files, closed; their claims live for an hour. */
static void fill_segments(struct world *world, uint64_t count)
{
	static char payload[2000];

	for (uint64_t i = 1; i <= count; i++)
		assert_int_equal(admit(world, i, span_of(payload, sizeof(payload))), VERDICT_NEW);
	store_free(world->store);
}

static void all_are_duplicates(struct world *world, uint64_t count)
{
	for (uint64_t i = 1; i <= count; i++)
		if (admit(world, i, SPAN_EMPTY) != VERDICT_DUPLICATE)
			fail_msg("the claim of event %llu is lost", (unsigned long long)i);
}

/* Opens with everything settled and old, so that segments leave. */
static void let_segments_leave(struct world *world)
{
	world->options.retain_ms = 1000;
	open_store(world);
	for (int i = 0; i < 4; i++) {
		clock_fake_advance(&world->clock, 2000);
		store_tick(world->store);
	}
}

/* What was there before it was used again is no write that was cut short. */
static void test_a_file_that_is_used_again_has_no_torn_tail(void **state)
{
	(void)state;
	static char payload[3 * FORMAT_BLOCK];
	struct world world;
	struct journal_report report;
	struct error_text text = { "" };

	begin(&world);
	world.options.retain_ms = 1000;
	store_free(world.store);
	open_store(&world);
	memset(payload, 'x', sizeof(payload));
	for (uint64_t i = 1; i <= 40; i++)
		assert_int_equal(admit(&world, i, span_of(payload, sizeof(payload))), VERDICT_NEW);
	assert_int_equal(settle_all(&world, 40, OUTCOME_DONE), 40);
	for (int i = 0; i < 4; i++) {
		clock_fake_advance(&world.clock, 2000);
		store_tick(world.store);
	}
	for (uint64_t i = 41; i <= 80; i++) {
		assert_int_equal(admit(&world, i, SPAN("{}")), VERDICT_NEW);
		struct world killed = world;
		killed.simfs = simfs_copy(world.simfs);
		killed.options.fs = simfs_fs(killed.simfs);
		killed.options.log_user = &killed;
		killed.logs = 0;
		struct journal_inspect_options options = { .path = "data",
			                                   .fs = killed.options.fs,
			                                   .clock = killed.options.clock };
		assert_int_equal(journal_verify(&options, NULL, &report, &text), 0);
		assert_false(report.torn_tail);
		open_store(&killed);
		if (killed.logs != 0)
			fail_msg("said after event %llu: %s", (unsigned long long)i, killed.log);
		end(&killed);
	}
	/* After a clean stop it is gone on with, so a start leaves no file behind. */
	uint32_t segments = 0;
	for (uint64_t i = 81; i <= 120; i++) {
		store_free(world.store);
		open_store(&world);
		assert_int_equal(world.logs, 0);
		if (i == 81)
			segments = count_files(&world, ".seg");
		if (i % 4 == 0)
			assert_int_equal(admit(&world, i, SPAN("{}")), VERDICT_NEW);
	}
	assert_true(count_files(&world, ".seg") <= segments + 2); /* ten frames */
	end(&world);
}

/* It may have been answered: the superblock says only later how far the journal goes. */
static void test_a_damaged_last_frame_does_not_vanish_without_a_word(void **state)
{
	(void)state;
	struct world world;

	begin(&world);
	for (uint64_t i = 1; i <= 3; i++)
		assert_int_equal(admit(&world, i, SPAN("{}")), VERDICT_NEW);
	struct simfs *killed = simfs_copy(world.simfs);
	for (uint64_t bit = 0; bit < 8 * sizeof(struct frame_header); bit++) {
		struct error_text text = { "" };
		struct simfs *copy = simfs_copy(killed);
		struct store *store = NULL;
		simfs_flip_bit(copy, "data/0000000000000001.seg", 8 * 3 * FORMAT_BLOCK + bit);
		world.options.fs = simfs_fs(copy);
		world.logs = 0;
		int r = local_store_open(&world.options, &store, &text);
		assert_true(r == 0 || r == ERR_DAMAGED);
		if (r == 0 && world.logs == 0)
			fail_msg("nothing was said of bit %u", (unsigned)bit);
		store_free(store);
		simfs_free(copy);
	}
	simfs_free(killed);
	end(&world);
}

static void damaged_claims_file(const char *path, uint64_t bit, bool settled)
{
	struct world world;

	begin(&world);
	fill_segments(&world, 200);
	if (settled) {
		open_store(&world);
		settle_all(&world, 1000, OUTCOME_DONE);
		store_free(world.store);
	}
	simfs_flip_bit(world.simfs, path, bit);
	world.logs = 0;
	open_store(&world);
	assert_true(world.logs > 0);
	assert_non_null(strstr(world.log, "claims"));
	if (!settled)
		settle_all(&world, 1000, OUTCOME_DONE);
	store_free(world.store);
	let_segments_leave(&world);
	assert_true(count_files(&world, ".seg") < 4);
	all_are_duplicates(&world, 200);
	store_free(world.store);
	open_store(&world); /* from the claims files alone */
	all_are_duplicates(&world, 200);
	end(&world);
}

static void test_a_damaged_claims_file_is_made_again_before_its_segment_leaves(void **state)
{
	(void)state;
	for (int settled = 0; settled < 2; settled++) {
		damaged_claims_file("data/0000000000000002.clm", 8 * 40, settled);
		damaged_claims_file("data/0000000000000002.clm", 8 * (4096 + 100), settled);
	}
}

/* A disk that says EIO for a frame which it wrote whole, and then takes no header
 * any more: the next segment cannot begin. */
static struct file_methods lying;
static const struct file_methods *honest;

static int lying_write(struct file_system *fs, int fd, const void *ptr, size_t len, uint64_t offset)
{
	if (offset == 0 && len == FORMAT_BLOCK)
		return -EIO;
	int r = honest->write(fs, fd, ptr, len, offset);
	return r < 0 || offset == 0 || len < 2 * FORMAT_BLOCK ? r : -EIO;
}

static void test_a_frame_that_failed_and_is_there_keeps_its_claims(void **state)
{
	(void)state;
	static char payload[2 * FORMAT_BLOCK];
	struct world world;
	struct store_admit op = admit_number(41, span_of(payload, sizeof(payload)));

	begin(&world);
	for (uint64_t i = 1; i <= 40; i++)
		assert_int_equal(admit(&world, i, span_of(payload, 10)), VERDICT_NEW);
	honest = world.options.fs->methods;
	lying = *honest;
	lying.write = lying_write;
	world.options.fs->methods = &lying;
	assert_true(store_call(world.store, &op.op, STORE_ADMIT) < 0);
	for (int i = 0; i < 3; i++)
		store_tick(world.store);
	struct simfs *killed = simfs_copy(world.simfs);
	world.options.fs->methods = honest;
	end(&world);
	world.simfs = killed;
	world.options.fs = simfs_fs(killed);
	open_store(&world);
	settle_all(&world, 1000, OUTCOME_DONE);
	store_free(world.store);
	let_segments_leave(&world);
	all_are_duplicates(&world, 41);
	store_free(world.store);
	open_store(&world);
	all_are_duplicates(&world, 41);
	end(&world);
}

static void test_an_open_ticket_is_carried_out_of_an_old_segment(void **state)
{
	(void)state;
	static char payload[2000] = "the one that stays";
	struct world world;
	struct take_call call = { 0 };
	struct store_item item;
	struct store_parts parts;
	size_t at = 0;

	begin(&world);
	world.options.retain_ms = 1000;
	store_free(world.store);
	open_store(&world);
	assert_int_equal(admit(&world, 1, span_of(payload, sizeof(payload))), VERDICT_NEW);
	take_call_begin(world.store, &call, 1, 1u << 20); /* leased, never settled */
	store_flush(world.store);
	assert_true(take_call_poll(&call));
	for (uint64_t i = 2; i <= 100; i++)
		assert_int_equal(admit(&world, i, span_of(payload, 1000)), VERDICT_NEW);
	settle_all(&world, 99, OUTCOME_DONE);
	for (int i = 0; i < 8; i++) {
		clock_fake_advance(&world.clock, 2000);
		store_tick(world.store);
	}
	assert_true(count_files(&world, ".seg") <= 3);
	store_free(world.store);
	open_store(&world);
	take_call_begin(world.store, &call, 10, 1u << 20);
	store_flush(world.store);
	assert_true(take_call_poll(&call));
	assert_int_equal(call.take.count, 1);
	assert_true(store_item_next(buf_span(&call.take.items), &at, &item, &parts));
	assert_true(span_eq(parts.source, SPAN("test")));
	assert_true(span_eq(parts.payload, span_of(payload, sizeof(payload))));
	buf_free(&call.take.items);
	end(&world);
}

/* ---- restarts ---- */

static void test_restarts_do_not_leave_whole_segments_behind(void **state)
{
	(void)state;
	struct world world;

	begin(&world);
	for (uint64_t i = 1; i <= 20; i++) {
		assert_int_equal(admit(&world, i, SPAN("x")), VERDICT_NEW);
		store_free(world.store);
		open_store(&world);
	}
	assert_true(simfs_used(world.simfs) < 4 * LOCAL_STORE_SEGMENT_MIN + 20 * 4 * FORMAT_BLOCK);
	assert_int_equal(settle_all(&world, 100, OUTCOME_DONE), 20);
	end(&world);
}

/* The process dies, and what it wrote is still there. */
static void kill_store(struct world *world)
{
	struct simfs *killed = simfs_copy(world->simfs);

	end(world);
	world->simfs = killed;
	world->options.fs = simfs_fs(killed);
}

static void test_restarts_without_traffic_leave_no_new_files(void **state)
{
	(void)state;
	struct world world;

	begin(&world);
	assert_int_equal(admit(&world, 1, SPAN("lives on")), VERDICT_NEW);
	for (int killed = 0; killed < 2; killed++) {
		uint32_t segments = 0, claims = 0;
		for (int i = 0; i < 20; i++) {
			if (killed)
				kill_store(&world);
			else
				store_free(world.store);
			open_store(&world);
			store_tick(world.store);
			if (i == 0) { /* after a kill with traffic there is one more */
				segments = count_files(&world, ".seg");
				claims = count_files(&world, ".clm");
			}
		}
		assert_int_equal(count_files(&world, ".seg"), segments);
		assert_int_equal(count_files(&world, ".clm"), claims);
	}
	assert_int_equal(admit(&world, 1, SPAN("lives on")), VERDICT_DUPLICATE);
	assert_int_equal(settle_all(&world, 10, OUTCOME_DONE), 1);
	end(&world);
}

/* What stands in it from the lives before must reach its claims file too. */
static void test_a_segment_of_many_lives_keeps_all_its_claims(void **state)
{
	(void)state;
	static char payload[2000];
	struct world world;

	begin(&world);
	for (uint64_t i = 1; i <= 100; i++) {
		assert_int_equal(admit(&world, i, span_of(payload, sizeof(payload))), VERDICT_NEW);
		if (i % 3 == 0) {
			store_free(world.store);
			open_store(&world);
		}
	}
	/* A frame takes a block: as many as without restarts. */
	assert_true(count_files(&world, ".seg") <= 2 + 100 / 13);
	assert_int_equal(settle_all(&world, 100, OUTCOME_DONE), 100);
	store_free(world.store);
	let_segments_leave(&world);
	assert_true(count_files(&world, ".seg") < 4);
	all_are_duplicates(&world, 100);
	store_free(world.store);
	open_store(&world); /* from the claims files */
	all_are_duplicates(&world, 100);
	end(&world);
}

static uint64_t last_segment(const struct world *world)
{
	struct journal_inspect_options options = { .path = "data",
		                                   .fs = world->options.fs,
		                                   .clock = world->options.clock };
	struct journal_report report;

	assert_int_equal(journal_verify(&options, NULL, &report, NULL), 0);
	return report.last;
}

/* Nothing of a frame of two blocks arrives. */
static int refusing_write(struct file_system *fs, int fd, const void *ptr, size_t len,
                          uint64_t offset)
{
	return offset >= FORMAT_BLOCK && len >= 2 * FORMAT_BLOCK
	               ? -EIO
	               : honest->write(fs, fd, ptr, len, offset);
}

static void test_a_segment_with_a_failed_write_is_not_gone_on_with(void **state)
{
	(void)state;
	static char payload[2 * FORMAT_BLOCK];
	struct world world;
	struct store_admit op = admit_number(2, span_of(payload, sizeof(payload)));

	begin(&world);
	assert_int_equal(admit(&world, 1, SPAN("x")), VERDICT_NEW);
	honest = world.options.fs->methods;
	lying = *honest;
	lying.write = refusing_write;
	world.options.fs->methods = &lying;
	assert_true(store_call(world.store, &op.op, STORE_ADMIT) < 0);
	store_free(world.store);
	world.options.fs->methods = honest;
	uint64_t last = last_segment(&world);
	open_store(&world);
	assert_int_equal(admit(&world, 3, SPAN("y")), VERDICT_NEW);
	store_free(world.store);
	assert_true(last_segment(&world) > last);
	simfs_free(world.simfs);
}

static void test_a_second_store_on_the_folder_is_refused(void **state)
{
	(void)state;
	struct world world;
	struct error_text text = { "" };
	struct store *other = NULL;

	begin(&world);
	assert_int_equal(local_store_open(&world.options, &other, &text), ERR_BUSY);
	assert_null(other);
	assert_non_null(strstr(text.text, "in use"));
	end(&world);
}

/* Earlier builds locked a file of that name. */
/* As one whose battery is empty may say. */
static void test_a_clock_that_no_ticket_can_tell_is_refused(void **state)
{
	struct error_text text = { "" };
	struct store *store = NULL;
	struct world world;

	(void)state;
	begin(&world);
	end(&world);
	world.simfs = simfs_new(1);
	world.options.fs = simfs_fs(world.simfs);
	clock_fake_jump(&world.clock, INT64_C(80) * 365 * 24 * 60 * 60 * 1000);
	assert_int_equal(local_store_open(&world.options, &store, &text), ERR_CONFIG);
	assert_non_null(strstr(text.text, "2105-"));
	clock_fake_init(&world.clock); /* nothing of that was written down */
	open_store(&world);
	assert_int_equal(admit(&world, 1, SPAN("x")), VERDICT_NEW);
	end(&world);
}

static void test_a_folder_with_a_file_lock_opens_and_loses_it(void **state)
{
	(void)state;
	struct world world;
	struct file_system *fs;
	int fd = -1;

	begin(&world);
	assert_int_equal(admit(&world, 1, SPAN("x")), VERDICT_NEW);
	store_free(world.store);
	fs = world.options.fs;
	assert_int_equal(fs->methods->open(fs, "data/lock", FILE_WRITE | FILE_CREATE, &fd), 0);
	assert_int_equal(fs->methods->close(fs, fd), 0);
	open_store(&world);
	assert_int_equal(admit(&world, 1, SPAN("x")), VERDICT_DUPLICATE);
	assert_int_equal(fs->methods->open(fs, "data/lock", FILE_READ, &fd), -ENOENT);
	end(&world);
}

static void test_an_event_too_large_for_a_frame_is_refused_alone(void **state)
{
	(void)state;
	static char payload[LOCAL_STORE_SEGMENT_MIN];
	struct world world;
	struct store_admit op = admit_number(1, span_of(payload, sizeof(payload)));

	begin(&world);
	assert_int_equal(store_call(world.store, &op.op, STORE_ADMIT), ERR_TOO_LARGE);
	assert_int_equal(admit(&world, 1, SPAN("small")), VERDICT_NEW);
	end(&world);
}

/* ---- a damaged payload ---- */

static void test_a_damaged_payload_is_parked_and_the_others_are_served(void **state)
{
	(void)state;
	static char payload[4000];
	struct world world;

	begin(&world);
	memset(payload, 'p', sizeof(payload));
	/* Enough to leave the ring, so that takes read the disk. */
	for (uint64_t i = 1; i <= 30; i++)
		assert_int_equal(admit(&world, i, span_of(payload, sizeof(payload))), VERDICT_NEW);
	simfs_flip_bit(world.simfs, "data/0000000000000001.seg", 8 * (4096 + 1000));
	assert_int_equal(settle_all(&world, 100, OUTCOME_DONE), 29);
	assert_non_null(strstr(world.log, "0000000000000001.seg"));
	end(&world);
}

static void test_an_operator_is_told_once_that_damage_keeps_segments(void **state)
{
	(void)state;
	static char payload[4000];
	struct world world;
	int told = 0;

	begin(&world);
	world.options.retain_ms = 1000;
	store_free(world.store);
	open_store(&world);
	for (uint64_t i = 1; i <= 60; i++)
		assert_int_equal(admit(&world, i, span_of(payload, sizeof(payload))), VERDICT_NEW);
	simfs_flip_bit(world.simfs, "data/0000000000000002.seg", 8 * (4096 + 1000));
	assert_int_equal(settle_all(&world, 100, OUTCOME_DONE), 59);
	for (int i = 0; i < 20; i++) {
		clock_fake_advance(&world.clock, 2000);
		world.logs = 0;
		store_tick(world.store);
		told += world.logs > 0 && strstr(world.log, "damaged data") != NULL;
	}
	assert_int_equal(told, 1);
	end(&world);
}

/* The disk's methods with one of them replaced, until restore_disk(). */
static void replace_open(struct world *world, int (*open)(struct file_system *fs, const char *path,
                                                          int flags, int *ret_fd))
{
	honest = world->options.fs->methods;
	lying = *honest;
	lying.open = open;
	world->options.fs->methods = &lying;
}

static void restore_disk(struct world *world)
{
	world->options.fs->methods = honest;
}

static int open_error;

static int failing_open(struct file_system *fs, const char *path, int flags, int *ret_fd)
{
	return strstr(path, ".seg") ? open_error : honest->open(fs, path, flags, ret_fd);
}

static void test_events_wait_for_a_descriptor_and_are_not_parked(void **state)
{
	(void)state;
	static char payload[4000];
	static const int errors[] = { -EMFILE, -EIO };

	for (size_t k = 0; k < 2; k++) {
		struct world world;
		struct take_call call = { 0 };

		begin(&world);
		for (uint64_t i = 1; i <= 30; i++)
			assert_int_equal(admit(&world, i, span_of(payload, sizeof(payload))),
			                 VERDICT_NEW);
		open_error = errors[k];
		replace_open(&world, failing_open);
		take_call_begin(world.store, &call, 100, 1u << 20);
		for (int i = 0; i < 8; i++) {
			store_flush(world.store);
			store_tick(world.store);
		}
		assert_false(take_call_poll(&call));
		restore_disk(&world);
		store_tick(world.store);
		assert_true(take_call_poll(&call));
		assert_int_equal(call.take.count, 30);
		buf_free(&call.take.items);
		end(&world);
	}
}

static void test_events_that_stay_unreadable_do_not_hold_up_the_others(void **state)
{
	(void)state;
	static char payload[4000];
	struct world world;
	struct take_call call = { 0 };

	begin(&world);
	for (uint64_t i = 1; i <= 30; i++)
		assert_int_equal(admit(&world, i, span_of(payload, sizeof(payload))), VERDICT_NEW);
	open_error = -EIO;
	replace_open(&world, failing_open);
	take_call_begin(world.store, &call, 100, 1u << 20);
	store_flush(world.store);
	for (int i = 0; i < 30 * 50 && !take_call_poll(&call); i++)
		store_tick(world.store);
	assert_true(call.finished || call.take.count > 0); /* what is still in memory */
	restore_disk(&world);
	buf_free(&call.take.items);
	end(&world);
}

/* ---- the keeper's thread, on real files ---- */

static void test_the_keepers_thread_keeps_up_with_rolling(void **state)
{
	(void)state;
	static char payload[3000];
	char path[256];
	struct world world = { 0 };

	test_dir_make(path);
	world.options = (struct local_store_options){ .path = path,
		                                      .segment_bytes = LOCAL_STORE_SEGMENT_MIN,
		                                      .retain_bytes = 256u << 10,
		                                      .log = keep_log,
		                                      .log_user = &world };
	open_store(&world);
	for (uint64_t i = 1; i <= 500; i++) {
		assert_int_equal(admit(&world, i, span_of(payload, sizeof(payload))), VERDICT_NEW);
		if (i % 10 == 0) {
			assert_int_equal(settle_all(&world, 10, OUTCOME_DONE), 10);
			store_tick(world.store);
		}
	}
	store_free(world.store);
	open_store(&world);
	for (uint64_t i = 1; i <= 500; i++)
		assert_int_equal(admit(&world, i, SPAN_EMPTY), VERDICT_DUPLICATE);
	struct store_stats stats;
	store_tick(world.store);
	store_stats(world.store, &stats);
	assert_int_equal(stats.live_claims, 500);
	assert_int_equal(stats.open_tickets, 0);
	assert_true(stats.writable);
	store_free(world.store);
	test_dir_remove(path);
}

/* ---- tools ---- */

static void count_damage(void *user, const char *text)
{
	struct world *world = user;

	world->logs++;
	(void)snprintf(world->log, sizeof(world->log), "%s", text);
}

static int count_line(void *user, struct span json)
{
	struct world *world = user;

	world->logs++;
	assert_int_equal(json.ptr[0], '{');
	assert_int_equal(json.ptr[json.len - 1], '}');
	return 0;
}

static void fill_for_tools(struct world *world)
{
	static const char bytes[] = { 'a', (char)0xff, 'b' };

	begin(world);
	for (uint64_t i = 1; i <= 50; i++)
		assert_int_equal(admit(world, i,
		                       i % 2 ? SPAN("{\"a\":\"\xc3\xbc\"}")
		                             : span_of(bytes, sizeof(bytes))),
		                 VERDICT_NEW);
	assert_int_equal(admit(world, 1, SPAN_EMPTY), VERDICT_DUPLICATE);
	assert_int_equal(settle_all(world, 30, OUTCOME_DONE), 30);
}

static void test_verify_counts_what_is_there_and_finds_it_sound(void **state)
{
	(void)state;
	struct world world;
	struct error_text text = { "" };
	struct journal_report report;

	fill_for_tools(&world);
	struct journal_inspect_options options = { .path = "data",
		                                   .fs = world.options.fs,
		                                   .clock = world.options.clock };
	assert_int_equal(journal_verify(&options, NULL, &report, &text), ERR_BUSY);
	store_free(world.store);
	assert_int_equal(journal_verify(&options, NULL, &report, &text), 0);
	assert_true(report.clean);
	assert_int_equal(report.events, 50);
	assert_int_equal(report.claims, 50);
	assert_int_equal(report.live_claims, 50);
	assert_int_equal(report.open_tickets, 20);
	assert_int_equal(report.settles, 30);
	assert_int_equal(report.seen_records, 1);
	assert_false(report.torn_tail);
	clock_fake_advance(&world.clock, UINT64_C(2) * 3600 * 1000);
	assert_int_equal(journal_verify(&options, NULL, &report, &text), 0);
	assert_int_equal(report.expired_claims, 50);
	simfs_free(world.simfs);
}

static void test_verify_names_the_place_of_damage(void **state)
{
	(void)state;
	struct world world;
	struct error_text text = { "" };
	struct journal_report report;

	fill_for_tools(&world);
	store_free(world.store);
	struct journal_inspect_options options = { .path = "data", .fs = world.options.fs };
	struct journal_verify_sink sink = { .damage = count_damage, .user = &world };
	/* Of the first segment all tickets are settled, of the third some are not. */
	simfs_flip_bit(world.simfs, "data/0000000000000003.seg", 8 * (2 * 4096 + 70));
	world.logs = 0;
	assert_int_equal(journal_verify(&options, &sink, &report, &text), ERR_DAMAGED);
	assert_int_equal(world.logs, 1);
	assert_non_null(strstr(world.log, "0000000000000003.seg is damaged at offset 8192"));
	simfs_free(world.simfs);
}

static void test_verify_warns_of_damage_that_a_start_does_not_meet(void **state)
{
	(void)state;
	struct world world;
	struct error_text text = { "" };
	struct journal_report report;

	fill_for_tools(&world);
	store_free(world.store);
	struct journal_inspect_options options = { .path = "data",
		                                   .fs = world.options.fs,
		                                   .clock = world.options.clock };
	struct journal_verify_sink sink = { .warning = count_damage, .user = &world };
	struct journal_dump_sink lines = { count_line, &world };
	simfs_flip_bit(world.simfs, "data/0000000000000001.seg", 8 * (2 * 4096 + 70));
	world.logs = 0;
	assert_int_equal(journal_verify(&options, &sink, &report, &text), 0);
	assert_int_equal(world.logs, 1);
	assert_non_null(strstr(world.log, "0000000000000001.seg is damaged at offset 8192"));
	assert_int_equal(journal_dump(&options, &lines, &text), ERR_DAMAGED);
	open_store(&world);
	all_are_duplicates(&world, 50);
	end(&world);
}

/* What a start mends is no reason for verify to refuse. */
static void test_verify_warns_of_what_a_start_mends(void **state)
{
	(void)state;
	static const struct {
		const char *path;
		uint64_t bit;
		const char *word;
	} harms[] = { { "data/superblock", 8 * 20, "slot" },
		      { "data/0000000000000001.clm", 8 * 4200, "segment" } };

	for (size_t i = 0; i < ARRAY_LEN(harms); i++) {
		struct world world;
		struct journal_report report;
		begin(&world);
		fill_segments(&world, 50);
		struct journal_inspect_options options = { .path = "data",
			                                   .fs = world.options.fs,
			                                   .clock = world.options.clock };
		struct journal_verify_sink sink = { .warning = count_damage, .user = &world };
		simfs_flip_bit(world.simfs, harms[i].path, harms[i].bit);
		world.logs = 0;
		assert_int_equal(journal_verify(&options, &sink, &report, NULL), 0);
		assert_int_equal(report.warnings, 1);
		assert_int_equal(report.damages, 0);
		assert_int_equal(world.logs, 1);
		assert_non_null(strstr(world.log, harms[i].word));
		open_store(&world);
		all_are_duplicates(&world, 50);
		store_free(world.store);
		assert_int_equal(journal_verify(&options, NULL, &report, NULL), 0);
		assert_int_equal(report.warnings, 0);
		simfs_free(world.simfs);
	}
}

static void test_dump_gives_a_line_for_each_record(void **state)
{
	(void)state;
	struct world world;
	struct error_text text = { "" };

	fill_for_tools(&world);
	store_free(world.store);
	struct journal_inspect_options options = { .path = "data", .fs = world.options.fs };
	struct journal_dump_sink sink = { count_line, &world };
	world.logs = 0;
	assert_int_equal(journal_dump(&options, &sink, &text), 0);
	assert_true(world.logs >= 50 + 30 + 1 + 1);
	simfs_free(world.simfs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_young_frames_are_read_from_memory_and_only_those),
		cmocka_unit_test(test_retry_that_is_due_at_once_does_not_wait_for_the_tick),
		cmocka_unit_test(test_outcomes_alone_cost_no_write_and_delay_no_duplicate),
		cmocka_unit_test(test_old_segments_leave_and_their_claims_stay),
		cmocka_unit_test(test_a_damaged_slot_does_no_harm_right_after_segments_left),
		cmocka_unit_test(test_a_file_that_is_used_again_has_no_torn_tail),
		cmocka_unit_test(test_a_damaged_last_frame_does_not_vanish_without_a_word),
		cmocka_unit_test(
			test_a_damaged_claims_file_is_made_again_before_its_segment_leaves),
		cmocka_unit_test(test_a_frame_that_failed_and_is_there_keeps_its_claims),
		cmocka_unit_test(test_an_open_ticket_is_carried_out_of_an_old_segment),
		cmocka_unit_test(test_restarts_do_not_leave_whole_segments_behind),
		cmocka_unit_test(test_restarts_without_traffic_leave_no_new_files),
		cmocka_unit_test(test_a_segment_of_many_lives_keeps_all_its_claims),
		cmocka_unit_test(test_a_segment_with_a_failed_write_is_not_gone_on_with),
		cmocka_unit_test(test_a_second_store_on_the_folder_is_refused),
		cmocka_unit_test(test_a_folder_with_a_file_lock_opens_and_loses_it),
		cmocka_unit_test(test_a_clock_that_no_ticket_can_tell_is_refused),
		cmocka_unit_test(test_an_event_too_large_for_a_frame_is_refused_alone),
		cmocka_unit_test(test_a_damaged_payload_is_parked_and_the_others_are_served),
		cmocka_unit_test(test_an_operator_is_told_once_that_damage_keeps_segments),
		cmocka_unit_test(test_events_wait_for_a_descriptor_and_are_not_parked),
		cmocka_unit_test(test_events_that_stay_unreadable_do_not_hold_up_the_others),
		cmocka_unit_test(test_the_keepers_thread_keeps_up_with_rolling),
		cmocka_unit_test(test_verify_counts_what_is_there_and_finds_it_sound),
		cmocka_unit_test(test_verify_names_the_place_of_damage),
		cmocka_unit_test(test_verify_warns_of_damage_that_a_start_does_not_meet),
		cmocka_unit_test(test_verify_warns_of_what_a_start_mends),
		cmocka_unit_test(test_dump_gives_a_line_for_each_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
