/*
 * Damage: every bit of a small folder flipped, every length cut.
 *
 * The store must open with everything that was promised, or refuse with a text
 * that names the file and the offset. Nothing may be lost silently. The tool that
 * verifies a folder must accept exactly what the store accepts. Two folders:
 * one that was closed cleanly, one whose process was killed a while after its
 * last commit (so that the superblock knows of all frames).
 *
 * In the fast tier long runs of zeros are sampled: one bit in each of their
 * sectors; and so are the files in the middle, which are as their neighbours, and of
 * the second folder the old ones, which are as in the first: one bit in each fifteenth
 * byte. The other bytes of the second folder have one bit flipped, those of the first all
 * eight. STILE_TEST_SCALE of 10 and more flips them all, and one
 * below 1 flips one bit of each fifth byte, or 75th in the middle.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/local/inspect.h"
#include "store/local/journal/format.h"
#include "store/local/local_store.h"
#include "support/clock_fake.h"
#include "support/oracle.h"
#include "support/simfs.h"
#include "support/test.h"

#define STEPS_MAX 100u

static struct clock_fake wall;
static struct oracle record;
static struct local_store_options options;
static uint64_t opened, refused;
static bool first_folder; /* of it the oldest files are not sampled either */

/* Has a segment left, so that its claims stand in the claims file alone? */
static bool segment_retired(const struct simfs *simfs)
{
	const char *path;

	for (size_t i = 0; (path = simfs_file_name(simfs, i)) != NULL; i++) {
		const char *next = simfs_file_name(simfs, i + 1);
		size_t stem = strlen(path) - 3;
		if (strcmp(path + stem, "clm") == 0 && (!next || strncmp(path, next, stem) != 0))
			return true;
	}
	return false;
}

/* Do the claims files say of an entity how far it is? */
static bool claims_have_newest(const struct simfs *simfs)
{
	const char *path;

	for (size_t i = 0; (path = simfs_file_name(simfs, i)) != NULL; i++) {
		if (!strstr(path, ".clm"))
			continue;
		for (uint64_t at = FORMAT_BLOCK + sizeof(struct claims_block);
		     at + sizeof(struct claims_record) <= 2 * FORMAT_BLOCK;
		     at += sizeof(struct claims_record))
			if (simfs_file_byte(simfs, path,
			                    at + offsetof(struct claims_record, kind)) ==
			    CLAIMS_RECORD_NEWEST)
				return true;
	}
	return false;
}

static struct simfs *folder_make(bool clean)
{
	struct simfs *simfs = simfs_new(test_seed());
	struct store *store = NULL;

	clock_fake_init(&wall);
	oracle_init(&record, test_seed(), &wall);
	record.payload_max = 400;
	options = (struct local_store_options){
		.path = "data",
		.clock = &wall.clock,
		.fs = simfs_fs(simfs),
		.segment_bytes = LOCAL_STORE_SEGMENT_MIN,
		.retain_ms = 500,
		.retain_bytes = 64u << 10,
		.keeper_inline = true,
	};
	assert_int_equal(local_store_open(&options, &store, NULL), 0);
	for (uint64_t i = 0; i < STEPS_MAX && !segment_retired(simfs); i++) {
		oracle_step(&record, store);
		if (i == 11)
			oracle_release_one(&record, store);
		if (i >= 12)
			oracle_settle_most(&record, store);
		clock_fake_advance(&wall, 100);
		store_tick(store);
	}
	assert_true(segment_retired(simfs));
	assert_true(claims_have_newest(simfs));
	for (uint64_t i = 0; i < 5; i++) /* and some after that */
		oracle_step(&record, store);
	assert_true(record.releases > 0);
	for (int i = 0; i < 40; i++) {
		clock_fake_advance(&wall, 200);
		store_tick(store);
		store_flush(store);
	}
	if (clean) {
		store_free(store);
		oracle_restarted(&record);
		return simfs;
	}
	struct simfs *killed = simfs_copy(simfs);
	store_free(store);
	simfs_free(simfs);
	oracle_restarted(&record);
	return killed;
}

static bool names_file(const char *text, const char *path)
{
	const char *slash = strrchr(path, '/');

	return strstr(text, slash ? slash + 1 : path) != NULL;
}

/* Before the store is opened, which mends what it can. */
static int verify(struct error_text *ret_text)
{
	struct journal_inspect_options inspect = { .path = options.path,
		                                   .fs = options.fs,
		                                   .clock = options.clock };
	struct journal_report report;

	return journal_verify(&inspect, NULL, &report, ret_text);
}

static void damaged_check(struct simfs *simfs, const char *path, const char *what, uint64_t where)
{
	static struct oracle oracle;
	char about[256];
	struct error_text text = { "" }, verify_text = { "" };
	struct store *store = NULL;

	snprintf(about, sizeof(about), "%s, %s %llu", path, what, (unsigned long long)where);
	options.fs = simfs_fs(simfs);
	int verified = verify(&verify_text);
	int error = local_store_open(&options, &store, &text);
	if (verified != error)
		fail_msg("%s: verify says %s (%s), the store %s (%s)", about, error_name(verified),
		         verify_text.text, error_name(error), text.text);
	if (error < 0) {
		refused++;
		if (error != ERR_DAMAGED && error != ERR_VERSION)
			fail_msg("%s: refused with %s: %s", about, error_name(error), text.text);
		if (!names_file(text.text, path) || !strstr(text.text, "offset"))
			fail_msg("%s: the refusal does not name file and offset: %s", about,
			         text.text);
		return;
	}
	opened++;
	oracle_copy(&oracle, &record);
	oracle.about = about;
	oracle_check(&oracle, store);
	store_free(store);
}

static bool sector_is_zero(const struct simfs *simfs, const char *path, uint64_t byte)
{
	uint64_t start = byte / SIMFS_SECTOR * SIMFS_SECTOR;

	for (uint64_t i = start; i < start + SIMFS_SECTOR; i++)
		if (simfs_file_byte(simfs, path, i))
			return false;
	return true;
}

/* The number in a file's name; 0: it has none. */
static uint64_t number_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strtoull(slash ? slash + 1 : path, NULL, 16);
}

/* Neither among the oldest numbers nor among the newest two, of which one is empty. */
static bool in_the_middle(const struct simfs *simfs, const char *path)
{
	uint64_t number = number_of(path), oldest = UINT64_MAX, newest = 0;
	const char *each;

	for (size_t i = 0; (each = simfs_file_name(simfs, i)) != NULL; i++) {
		uint64_t other = strstr(each, ".seg") || strstr(each, ".clm") ? number_of(each) : 0;
		oldest = other > 0 && other < oldest ? other : oldest;
		newest = other > newest ? other : newest;
	}
	return number >= oldest + first_folder && number > 0 && number + 2 <= newest;
}

#define MIDDLE_BYTES 15u
#define STRIDE 5u /* of bytes, under sanitizers: odd, so that each part of a field has its turn */

static uint64_t step_in(const struct simfs *simfs, const char *path, bool all)
{
	bool middle = !all && in_the_middle(simfs, path);

	return test_stride(STRIDE) * (middle ? MIDDLE_BYTES : 1);
}

static void flips_of_file(const struct simfs *simfs, const char *path)
{
	uint64_t size = simfs_file_size(simfs, path);
	bool all = test_scale(10) >= 100;
	uint64_t bytes = step_in(simfs, path, all);
	uint64_t bits = bytes > 1 || !(first_folder || all) ? 1 : 8;
	bool is_spare = strstr(path, "spare") != NULL; /* of no meaning after a start */

	for (uint64_t byte = 0; byte < size;) {
		bool sample = !all && (is_spare || sector_is_zero(simfs, path, byte));
		for (uint64_t bit = 0; bit < (sample ? 1 : bits); bit++) {
			uint64_t at = sample ? byte * 8 + byte / SIMFS_SECTOR * 37 % 4096
			                     : byte * 8 + (bits == 8 ? bit : byte / bytes % 8);
			struct simfs *damaged = simfs_copy(simfs);
			simfs_flip_bit(damaged, path, at);
			damaged_check(damaged, path, "bit", at);
			simfs_free(damaged);
		}
		byte += sample ? SIMFS_SECTOR : bytes;
	}
}

static void cuts_of_file(const struct simfs *simfs, const char *path)
{
	uint64_t size = simfs_file_size(simfs, path);
	bool all = test_scale(10) >= 100;
	uint64_t bytes = step_in(simfs, path, all);
	bool is_spare = strstr(path, "spare") != NULL;

	for (uint64_t length = 0; length < size;) {
		struct simfs *damaged = simfs_copy(simfs);
		simfs_cut_file(damaged, path, length);
		damaged_check(damaged, path, "cut to", length);
		simfs_free(damaged);
		bool sample = !all && (is_spare || sector_is_zero(simfs, path, length));
		length += sample ? SIMFS_SECTOR : bytes;
	}
}

static void folder_damage(bool clean)
{
	struct simfs *simfs = folder_make(clean);
	const char *path;

	first_folder = clean;
	opened = refused = 0;
	for (size_t i = 0; (path = simfs_file_name(simfs, i)) != NULL; i++) {
		uint64_t opened_before = opened, refused_before = refused;
		flips_of_file(simfs, path);
		cuts_of_file(simfs, path);
		printf("%s, %llu bytes: %llu opened whole, %llu refused\n", path,
		       (unsigned long long)simfs_file_size(simfs, path),
		       (unsigned long long)(opened - opened_before),
		       (unsigned long long)(refused - refused_before));
	}
	simfs_free(simfs);
	oracle_free(&record);
}

static void test_damage_to_a_closed_folder_is_never_silent(void **state)
{
	(void)state;
	folder_damage(true);
}

static void test_damage_to_a_killed_folder_is_never_silent(void **state)
{
	(void)state;
	folder_damage(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_damage_to_a_closed_folder_is_never_silent),
		cmocka_unit_test(test_damage_to_a_killed_folder_is_never_silent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
