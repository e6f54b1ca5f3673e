/* moment: times as senders write them. */
#include "support/test.h"

#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "codec/moment.h"

static void times_are_read(void **state)
{
	static const struct {
		const char *text;
		uint64_t ms;
	} rows[] = {
		{ "1970-01-01T00:00:00Z", 0 },
		{ "1970-01-01", 0 },
		{ "19700102", 86400000 },
		{ "2026-01-02T03:04:05Z", 1767323045000 },
		{ "2026-01-02t03:04:05z", 1767323045000 },
		{ "2026-01-02 03:04:05", 1767323045000 },
		{ "20260102T030405Z", 1767323045000 },
		{ "2026-01-02T03:04Z", 1767323040000 },
		{ "2026-01-02T03:04:05.6Z", 1767323045600 },
		{ "2026-01-02T03:04:05,67Z", 1767323045670 },
		{ "2026-01-02T03:04:05.678901234Z", 1767323045678 },
		{ "2026-01-02T04:34:05+01:30", 1767323045000 },
		{ "2026-01-02T01:04:05-0200", 1767323045000 },
		{ "2026-01-02T04:04:05+01", 1767323045000 },
		{ "2024-02-29T00:00:00Z", 1709164800000 },
		{ "2016-12-31T23:59:60Z", 1483228799999 },
		{ "9999-12-31T23:59:59.999Z", 253402300799999 },
		{ "0", 0 },
		{ "1767323045", 1767323045000 },
		{ "1767323045.678", 1767323045678 },
		{ "1767323045678", 1767323045678 },
		{ "1767323045678.9", 1767323045678 },
		{ "1767323045678901", 1767323045678 },
		{ "1767323045678901234", 1767323045678 },
		{ "99999999999", 99999999999000 },
		{ "100000000000", 100000000000 },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t ms = 1;
		if (moment_parse(span_str(rows[i].text), &ms) != 0 || ms != rows[i].ms)
			fail_msg("%s: %llu", rows[i].text, (unsigned long long)ms);
	}
}

static void what_is_no_time_is_refused(void **state)
{
	static const char *const texts[] = {
		"",
		"x",
		"-1",
		"1e9",
		"1.",
		".5",
		"2026-01",
		"2026-13-01",
		"2026-00-01",
		"2026-01-32",
		"2026-02-29",
		"1900-02-29",
		"0000-01-01",
		"2026-0102",
		"2026-01-02T",
		"2026-01-02T24:00:00Z",
		"2026-01-02T03:60:00Z",
		"2026-01-02T03:04:61Z",
		"2026-01-02T03:04:05.Z",
		"2026-01-02T03:04:05ZZ",
		"2026-01-02T03:04:05+1",
		"2026-01-02T03:04:05+24:00",
		"2026-01-02T03:04:05+01:60",
		"2026-01-02T03:04:05 Z",
		"1969-12-31T23:59:59Z",
		"1970-01-01T00:30:00+01:00",
		"9999-12-31T23:59:59-01:00",
		"99999999999999999999",
		"9999999999999999999999999",
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		uint64_t ms = 7;
		if (moment_parse(span_str(texts[i]), &ms) != ERR_INVALID || ms != 7)
			fail_msg("accepted: %s", texts[i]);
	}
}

/* text_time() writes what is read here. */
static void written_times_come_back(void **state)
{
	uint64_t seed = test_seed();
	uint64_t random = seed;
	(void)state;
	for (uint64_t round = test_scale(20000); round > 0; round--) {
		char text[TEXT_TIME_LEN];
		uint64_t ms = test_random_below(&random, 253402300800000);
		uint64_t read = 0;
		text_time(text, ms);
		if (moment_parse(span_of(text, sizeof(text)), &read) != 0 || read != ms)
			fail_msg("%.24s: %llu (%s)", text, (unsigned long long)read,
			         test_note_seed(seed));
	}
}

/* Most times are written in one way, which is read in another: to the same effect. */
static void the_usual_way_to_write_is_read_as_any_other(void **state)
{
	uint64_t seed = test_seed();
	uint64_t random = seed;
	(void)state;
	for (uint64_t round = test_scale(50000); round > 0; round--) {
		char text[TEXT_TIME_LEN];
		uint64_t usual = 7, other = 7;
		text_time(text, test_random_below(&random, 253402300800000));
		text[test_random_below(&random, sizeof(text))] =
			"0123456789-:TZ. "[test_random_below(&random, 16)];
		size_t len = sizeof(text);
		if (test_random_below(&random, 2)) {
			text[19] = 'Z';
			len = 20;
		}
		int usual_error = moment_parse(span_of(text, len), &usual);
		/* The same moment in small letters, which is the long way. */
		if (text[10] == 'T')
			text[10] = 't';
		int other_error = moment_parse(span_of(text, len), &other);
		if (usual_error != other_error || usual != other)
			fail_msg("%.*s: %llu, not %llu (%s)", (int)len, text,
			         (unsigned long long)usual, (unsigned long long)other,
			         test_note_seed(seed));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_are_read),
		cmocka_unit_test(what_is_no_time_is_refused),
		cmocka_unit_test(written_times_come_back),
		cmocka_unit_test(the_usual_way_to_write_is_read_as_any_other),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
