/*
 * A restart with so many claims that reading, gathering and filling the index are
 * threads of their own: all is there again, and damage is told as ever.
 */
#include <string.h>

#include "base/error.h"
#include "store/local/local_store.h"
#include "support/clock_fake.h"
#include "support/simfs.h"
#include "support/store_calls.h"
#include "support/test.h"

#define BATCH 1024u
#define CLAIMS (560u * BATCH) /* more than loader.c gathers from */
#define EVENTS (12u * BATCH)  /* with a payload, so that their segments have claims files */
#define SEGMENT_BYTES (4u << 20)
#define WINDOW_S 86400u

struct place {
	struct clock_fake clock;
	struct simfs *simfs;
	struct store *store;
};

static struct place place;
static struct store_admit admits[BATCH];
static char payload[1000];

static int place_open(struct error_text *text)
{
	struct local_store_options options = { .path = "data",
		                               .clock = &place.clock.clock,
		                               .fs = simfs_fs(place.simfs),
		                               .segment_bytes = SEGMENT_BYTES };

	return local_store_open(&options, &place.store, text);
}

static void done(struct store_op *op)
{
	assert_int_equal(op->error, 0);
}

/* A batch of new ones, or of the same again. */
static void admit_batch(uint64_t first, bool with_payload, enum verdict expected)
{
	for (uint32_t i = 0; i < BATCH; i++) {
		uint64_t seed = first + i;
		admits[i] = (struct store_admit){
			.op = { .kind = STORE_ADMIT, .done = done },
			.claims = { { .window_s = WINDOW_S } },
			.claim_count = 1,
			.no_ticket = true,
		};
		admits[i].claims[0].digest.word[0] = test_random(&seed);
		admits[i].claims[0].digest.word[1] = test_random(&seed);
		if (with_payload)
			admits[i].payload = span_of(payload, sizeof(payload));
		store_submit(place.store, &admits[i].op);
	}
	store_calls_flush(place.store);
	for (uint32_t i = 0; i < BATCH; i++)
		assert_int_equal(admits[i].verdict, expected);
}

/* All of them, or one batch of so many. */
static void admit_all(enum verdict expected, uint32_t step)
{
	for (uint32_t at = 0; at < EVENTS; at += BATCH * step)
		admit_batch(at, true, expected);
	for (uint32_t at = EVENTS; at < EVENTS + CLAIMS; at += BATCH * step)
		admit_batch(at, false, expected);
}

static int fill(void **state)
{
	struct error_text text = { "" };

	(void)state;
	place = (struct place){ .simfs = simfs_new(1) };
	clock_fake_init(&place.clock);
	memset(payload, 'x', sizeof(payload));
	assert_int_equal(place_open(&text), 0);
	admit_all(VERDICT_NEW, 1);
	place.store = store_free(place.store);
	return 0;
}

static int end(void **state)
{
	(void)state;
	place.simfs = simfs_free(place.simfs);
	return 0;
}

static void test_every_claim_is_there_again(void **state)
{
	struct error_text text = { "" };
	struct store_stats stats;

	(void)state;
	assert_true(simfs_file_size(place.simfs, "data/0000000000000001.clm") > 0);
	assert_int_equal(place_open(&text), 0);
	store_stats(place.store, &stats);
	assert_int_equal(stats.live_claims, CLAIMS + EVENTS);
	admit_all(VERDICT_DUPLICATE, (uint32_t)test_stride(8));
	place.store = store_free(place.store);
}

static void test_damage_is_told_with_its_place(void **state)
{
	struct error_text text = { "" };

	(void)state;
	/* In the second piece of a segment without a claims file, within a frame. */
	simfs_flip_bit(place.simfs, "data/0000000000000006.seg", 8 * ((UINT64_C(1) << 20) + 5000));
	assert_int_equal(place_open(&text), ERR_DAMAGED);
	assert_non_null(strstr(text.text, "0000000000000006.seg is damaged at offset "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_claim_is_there_again),
		cmocka_unit_test(test_damage_is_told_with_its_place),
	};
	return cmocka_run_group_tests(tests, fill, end);
}
