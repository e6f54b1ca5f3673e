/* Decisions of a filter, held against the obvious model that forgets nothing. */
#include "cli/filter/claims.h"

#include "base/error.h"
#include "base/mem.h"
#include "support/test.h"

#define CHECKS 4u /* different contents; 0 is unknown */

/* One key: as a claim, and as what a conflict kept aside takes. */
struct held {
	bool taken;
	uint64_t time_ms;
	uint64_t window_ms;
	uint64_t value;
	uint64_t number;
};

struct model {
	uint32_t keys;
	struct held *claims;
	struct held *aside; /* CHECKS a key */
};

static void model_init(struct model *model, uint32_t keys, bool conflicts)
{
	model->keys = keys;
	model->claims = mem_zalloc(keys, sizeof(struct held));
	model->aside = mem_zalloc(conflicts ? (size_t)keys * CHECKS : 1, sizeof(struct held));
	assert_non_null(model->claims);
	assert_non_null(model->aside);
}

static void model_free(struct model *model)
{
	mem_free(model->claims);
	mem_free(model->aside);
}

/* A key's number goes in and out of its digest. */
static struct claim make_claim(uint32_t key, enum claim_kind kind, uint32_t check)
{
	uint64_t state = key;
	uint64_t first = test_random(&state);
	uint64_t second = test_random(&state);
	return (struct claim){
		.digest = { { first, second >> 32 << 32 | check } },
		.window_s = 60,
		.kind = (uint8_t)kind,
	};
}

static bool model_knows(const struct held *held, bool newest, uint64_t time_ms)
{
	if (!held->taken)
		return false;
	uint64_t apart = time_ms > held->time_ms ? time_ms - held->time_ms
	                                         : held->time_ms - time_ms;
	if (newest && time_ms < held->time_ms)
		return true;
	return apart < held->window_ms;
}

static enum verdict model_judge(const struct held *held, const struct claim *claim,
                                uint64_t time_ms)
{
	uint32_t check = digest_check(&claim->digest);
	bool newest = claim->kind == CLAIM_NEWEST;
	if (!model_knows(held, newest, time_ms))
		return VERDICT_NEW;
	if (newest)
		return claim->order < held->value ||
		                       (claim->order == held->value && claim->equal_drops)
		               ? VERDICT_STALE
		               : VERDICT_NEW;
	if (claim->kind == CLAIM_ONCE && check && held->value && check != held->value)
		return VERDICT_CONFLICT;
	return VERDICT_DUPLICATE;
}

static void model_take(struct held *held, const struct claim *claim,
                       const struct filter_event *event)
{
	bool newest = claim->kind == CLAIM_NEWEST;
	uint64_t time_ms = event->time_ms;
	if (newest && held->taken && held->time_ms > time_ms)
		time_ms = held->time_ms;
	*held = (struct held){ true, time_ms, claim->window_s * UINT64_C(1000),
		               newest ? claim->order : digest_check(&claim->digest),
		               event->number };
}

static struct filter_verdict model_decide(struct model *model, const struct filter_event *event,
                                          const uint32_t *keys)
{
	struct filter_verdict verdict = { .verdict = VERDICT_NEW };
	bool takes[CLAIMS_MAX] = { false };
	for (uint32_t i = 0; i < event->claim_count; i++) {
		const struct claim *claim = &event->claims[i];
		struct held *held = &model->claims[keys[i]];
		enum verdict found = model_judge(held, claim, event->time_ms);
		enum verdict would = verdict.would;
		struct filter_verdict told = { .verdict = found,
			                       .matched = i,
			                       .first = held->number,
			                       .first_time_ms = held->time_ms };
		bool conflict = found == VERDICT_CONFLICT;
		if (found != VERDICT_NEW && claim->shadow) {
			verdict.would = would ? would : found;
			continue;
		}
		takes[i] = found == VERDICT_NEW ||
		           (conflict && event->on_conflict == STORE_CONFLICT_PASS);
		if (takes[i]) {
			if (conflict && verdict.verdict == VERDICT_NEW)
				verdict = told;
			verdict.would = would;
			continue;
		}
		struct held *aside = &model->aside[keys[i] * CHECKS + digest_check(&claim->digest)];
		if (conflict && event->on_conflict == STORE_CONFLICT_ASIDE) {
			if (model_knows(aside, false, event->time_ms))
				told = (struct filter_verdict){ .verdict = VERDICT_DUPLICATE,
					                        .matched = i,
					                        .first = aside->number,
					                        .first_time_ms = aside->time_ms };
			else
				model_take(aside, claim, event);
		}
		return told;
	}
	for (uint32_t i = 0; i < event->claim_count; i++)
		if (takes[i])
			model_take(&model->claims[keys[i]], &event->claims[i], event);
	verdict.passes = true;
	return verdict;
}

static void assert_same(const struct filter_verdict *a, const struct filter_verdict *b,
                        uint64_t seed)
{
	if (a->verdict != b->verdict || a->passes != b->passes || a->matched != b->matched ||
	    a->would != b->would || a->first != b->first || a->first_time_ms != b->first_time_ms)
		fail_msg("%s, not %s; passes %d, not %d; first %llu, not %llu (%s)",
		         verdict_name(a->verdict), verdict_name(b->verdict), a->passes, b->passes,
		         (unsigned long long)a->first, (unsigned long long)b->first,
		         test_note_seed(seed));
}

/* ---- random histories ---- */

static void verdicts_are_those_of_the_model(void **state)
{
	uint64_t seed = test_seed();
	uint64_t random = seed;
	struct model model;
	struct filter_claims *claims = NULL;
	(void)state;
	model_init(&model, 600, true);
	assert_int_equal(filter_claims_new(&claims), 0);
	for (uint64_t number = 1; number <= test_scale(60000); number++) {
		struct claim list[CLAIMS_MAX];
		uint32_t keys[CLAIMS_MAX];
		struct filter_event event = { .claims = list, .number = number };
		event.claim_count = (uint32_t)test_random_below(&random, CLAIMS_MAX + 1);
		/* Back and forth, by more than a window. */
		event.time_ms = 1000000 + number * 10 + test_random_below(&random, 200000);
		event.on_conflict = (enum store_conflict)test_random_below(&random, 3);
		for (uint32_t i = 0; i < event.claim_count; i++) {
			keys[i] = (uint32_t)test_random_below(&random, 150) + i * 150;
			/* A key is always of one kind. */
			enum claim_kind kind = (enum claim_kind)(keys[i] % 3);
			uint32_t check = kind == CLAIM_ONCE
			                         ? (uint32_t)test_random_below(&random, CHECKS)
			                         : 0;
			list[i] = make_claim(keys[i], kind, check);
			list[i].shadow = test_random_below(&random, 4) == 0;
			list[i].equal_drops = test_random_below(&random, 2) == 0;
			if (kind == CLAIM_NEWEST)
				list[i].order = event.time_ms / 1000 << 8 |
				                test_random_below(&random, 3);
		}
		struct filter_verdict found;
		struct filter_verdict expected = model_decide(&model, &event, keys);
		assert_int_equal(filter_claims_decide(claims, &event, &found), 0);
		assert_same(&found, &expected, seed);
	}
	filter_claims_free(claims);
	model_free(&model);
}

/* A long history in about the order of time: claims leave, verdicts stay exact. */
static void memory_is_that_of_the_window_and_verdicts_stay_exact(void **state)
{
	uint64_t seed = test_seed();
	uint64_t random = seed;
	uint32_t events = (uint32_t)test_scale(1500000);
	struct model model;
	struct filter_claims *claims = NULL;
	uint64_t most = 0;
	(void)state;
	if (events < 1500000)
		events = 1500000; /* several windows, whatever the scale */
	model_init(&model, events + 1, false);
	assert_int_equal(filter_claims_new(&claims), 0);
	for (uint32_t number = 1; number <= events; number++) {
		/* 1 ms apart: a window is 60,000 events. One in five comes again, late. */
		bool again = test_random_below(&random, 5) == 0;
		uint32_t back = (uint32_t)test_random_below(&random, 90000);
		uint32_t key = again && back < number ? number - back : number;
		struct claim claim = make_claim(key, CLAIM_ONCE, 0);
		struct filter_event event = {
			.claims = &claim,
			.claim_count = 1,
			.number = number,
			.time_ms = 5000000 + number - test_random_below(&random, 20000),
		};
		struct filter_verdict found;
		struct filter_verdict expected = model_decide(&model, &event, &key);
		assert_int_equal(filter_claims_decide(claims, &event, &found), 0);
		assert_same(&found, &expected, seed);
		struct filter_claims_stats stats = filter_claims_get_stats(claims);
		most = stats.claims > most ? stats.claims : most;
	}
	assert_true(filter_claims_get_stats(claims).forgotten > events / 2);
	/* A window, what is late, what is recent; and the table sweeps when it must. */
	assert_true(most < 2 * (60000 + 20000 + 3 * FILTER_CLAIMS_RECENT));
	filter_claims_free(claims);
	model_free(&model);
}

/* ---- single promises ---- */

static enum verdict decide(struct filter_claims *claims, const struct claim *claim, uint64_t time_s)
{
	static uint64_t number;
	struct filter_event event = {
		.claims = claim, .claim_count = 1, .number = ++number, .time_ms = time_s * 1000
	};
	struct filter_verdict verdict;
	assert_int_equal(filter_claims_decide(claims, &event, &verdict), 0);
	return verdict.verdict;
}

static void a_window_counts_in_both_directions(void **state)
{
	struct filter_claims *claims = NULL;
	struct claim claim = make_claim(1, CLAIM_ONCE, 0);
	(void)state;
	assert_int_equal(filter_claims_new(&claims), 0);
	assert_int_equal(decide(claims, &claim, 1000), VERDICT_NEW);
	assert_int_equal(decide(claims, &claim, 1059), VERDICT_DUPLICATE);
	assert_int_equal(decide(claims, &claim, 941), VERDICT_DUPLICATE);
	assert_int_equal(decide(claims, &claim, 940), VERDICT_NEW);
	assert_int_equal(decide(claims, &claim, 1000), VERDICT_NEW);
	assert_int_equal(decide(claims, &claim, 1060), VERDICT_NEW);
	filter_claims_free(claims);
}

static void an_old_state_is_stale_however_old_it_is(void **state)
{
	struct filter_claims *claims = NULL;
	struct claim claim = make_claim(1, CLAIM_NEWEST, 0);
	(void)state;
	assert_int_equal(filter_claims_new(&claims), 0);
	claim.order = 5000 << 8;
	assert_int_equal(decide(claims, &claim, 5000), VERDICT_NEW);
	claim.order = 10 << 8;
	assert_int_equal(decide(claims, &claim, 10), VERDICT_STALE);
	claim.order = 5001 << 8;
	assert_int_equal(decide(claims, &claim, 5001), VERDICT_NEW);
	/* A window later nothing is known of it any more. */
	claim.order = 20 << 8;
	assert_int_equal(decide(claims, &claim, 5061), VERDICT_NEW);
	filter_claims_free(claims);
}

static void without_memory_nothing_is_decided(void **state)
{
	struct filter_claims *claims = NULL;
	struct claim claim;
	struct filter_event event = { .claims = &claim, .claim_count = 1, .time_ms = 1 };
	struct filter_verdict verdict;
	uint32_t key = 0;
	int error = 0;
	(void)state;
	mem_fail_at(1, true);
	assert_int_equal(filter_claims_new(&claims), -ENOMEM);
	mem_fail_at(0, false);
	assert_int_equal(filter_claims_new(&claims), 0);
	mem_fail_at(1, true);
	while (error == 0) {
		claim = make_claim(++key, CLAIM_ONCE, 0);
		error = filter_claims_decide(claims, &event, &verdict);
	}
	mem_fail_at(0, false);
	assert_int_equal(error, -ENOMEM);
	assert_int_equal(filter_claims_get_stats(claims).claims, key - 1);
	/* And all that was there is there. */
	for (uint32_t i = 1; i <= key; i++) {
		claim = make_claim(i, CLAIM_ONCE, 0);
		assert_int_equal(filter_claims_decide(claims, &event, &verdict), 0);
		assert_int_equal(verdict.verdict, i < key ? VERDICT_DUPLICATE : VERDICT_NEW);
	}
	filter_claims_free(claims);
}

/* Many more claims than the smallest table holds: none is lost when it grows. */
static void growth_loses_no_claim(void **state)
{
	struct filter_claims *claims = NULL;
	struct filter_verdict verdict;
	(void)state;
	assert_int_equal(filter_claims_new(&claims), 0);
	for (uint32_t round = 0; round < 2; round++)
		for (uint32_t key = 1; key <= 40000; key++) {
			struct claim claim = make_claim(key, CLAIM_ONCE, 0);
			struct filter_event event = {
				.claims = &claim, .claim_count = 1, .time_ms = 1, .number = key
			};
			assert_int_equal(filter_claims_decide(claims, &event, &verdict), 0);
			assert_int_equal(verdict.verdict, round ? VERDICT_DUPLICATE : VERDICT_NEW);
			assert_int_equal(verdict.first, round ? key : 0);
		}
	struct filter_claims_stats stats = filter_claims_get_stats(claims);
	assert_int_equal(stats.claims, 40000);
	assert_true(stats.bytes < 40000 * 64); /* about 32 and a third of an index */
	filter_claims_free(claims);
}

/* Keys whose homes are the last slots: they go around the end, and are found there. */
static void claims_go_around_the_end_of_the_table(void **state)
{
	struct filter_claims *claims = NULL;
	(void)state;
	assert_int_equal(filter_claims_new(&claims), 0);
	for (uint64_t round = 0; round < 2; round++)
		for (uint64_t i = 0; i < 2000; i++) {
			struct claim claim = { .digest = { { UINT64_MAX - i, i << 32 } },
				               .window_s = 60,
				               .kind = CLAIM_ONCE };
			assert_int_equal(decide(claims, &claim, 1000),
			                 round ? VERDICT_DUPLICATE : VERDICT_NEW);
		}
	filter_claims_free(claims);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verdicts_are_those_of_the_model),
		cmocka_unit_test(memory_is_that_of_the_window_and_verdicts_stay_exact),
		cmocka_unit_test(a_window_counts_in_both_directions),
		cmocka_unit_test(an_old_state_is_stale_however_old_it_is),
		cmocka_unit_test(without_memory_nothing_is_decided),
		cmocka_unit_test(growth_loses_no_claim),
		cmocka_unit_test(claims_go_around_the_end_of_the_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
