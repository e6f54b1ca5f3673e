/* text: see text.h. */
#include "base/text.h"

#include <stdio.h>

#define MS_PER_DAY UINT64_C(86400000)
#define LAST_MS UINT64_C(253402300799999) /* 9999-12-31T23:59:59.999Z */

static const char digit_pairs[201] = "00010203040506070809"
				     "10111213141516171819"
				     "20212223242526272829"
				     "30313233343536373839"
				     "40414243444546474849"
				     "50515253545556575859"
				     "60616263646566676869"
				     "70717273747576777879"
				     "80818283848586878889"
				     "90919293949596979899";

static void write_pair(char *at, uint64_t value)
{
	memcpy(at, digit_pairs + 2 * value, 2);
}

size_t text_u64(char ret_digits[static TEXT_U64_MAX], uint64_t value)
{
	char digits[TEXT_U64_MAX];
	size_t at = TEXT_U64_MAX;
	while (value >= 100) {
		at -= 2;
		write_pair(digits + at, value % 100);
		value /= 100;
	}
	if (value >= 10) {
		at -= 2;
		write_pair(digits + at, value);
	} else {
		digits[--at] = (char)('0' + value);
	}
	memcpy(ret_digits, digits + at, TEXT_U64_MAX - at);
	return TEXT_U64_MAX - at;
}

struct date {
	uint64_t year, month, day;
};

/* Days since 1970 to a date, by eras of 400 years that begin on 1 March, so
 * that the leap day is the last of its year (Hinnant's civil_from_days). */
static struct date date_of_days(uint64_t days)
{
	uint64_t shifted = days + 719468;
	uint64_t era = shifted / 146097;
	uint64_t day_of_era = shifted % 146097;
	uint64_t year_of_era =
		(day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
	uint64_t day_of_year = day_of_era -
	                       (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	uint64_t month_from_march = (5 * day_of_year + 2) / 153;
	struct date date = {
		.day = day_of_year - (153 * month_from_march + 2) / 5 + 1,
		.month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9,
	};
	date.year = year_of_era + era * 400 + (date.month <= 2);
	return date;
}

void text_time(char ret_text[static TEXT_TIME_LEN], uint64_t unix_ms)
{
	if (unix_ms > LAST_MS)
		unix_ms = LAST_MS;
	struct date date = date_of_days(unix_ms / MS_PER_DAY);
	uint64_t ms = unix_ms % MS_PER_DAY;
	memcpy(ret_text, "0000-00-00T00:00:00.000Z", TEXT_TIME_LEN);
	write_pair(ret_text, date.year / 100);
	write_pair(ret_text + 2, date.year % 100);
	write_pair(ret_text + 5, date.month);
	write_pair(ret_text + 8, date.day);
	write_pair(ret_text + 11, ms / 3600000);
	write_pair(ret_text + 14, ms / 60000 % 60);
	write_pair(ret_text + 17, ms / 1000 % 60);
	ret_text[20] = (char)('0' + ms % 1000 / 100);
	write_pair(ret_text + 21, ms % 100);
}

struct unit {
	struct span name;
	uint64_t factor;
};

#define UNIT(name, factor)                                   \
	{                                                    \
		{ name, sizeof(name) - 1 }, UINT64_C(factor) \
	}

/* Greatest first: text_duration() takes the first that divides. */
static const struct unit duration_units[] = {
	UNIT("w", 604800000), UNIT("d", 86400000), UNIT("h", 3600000),
	UNIT("m", 60000),     UNIT("s", 1000),     UNIT("ms", 1),
};

static const struct unit size_units[] = { UNIT("B", 1),
	                                  UNIT("KiB", 1024),
	                                  UNIT("MiB", 1048576),
	                                  UNIT("GiB", 1073741824),
	                                  UNIT("TiB", 1099511627776),
	                                  UNIT("kB", 1000),
	                                  UNIT("KB", 1000),
	                                  UNIT("MB", 1000000),
	                                  UNIT("GB", 1000000000),
	                                  UNIT("TB", 1000000000000) };

void text_duration(char ret_text[static TEXT_DURATION_MAX], uint64_t ms)
{
	const struct unit *unit = &duration_units[ARRAY_LEN(duration_units) - 1];
	for (size_t i = 1; ms > 0 && i < ARRAY_LEN(duration_units); i++) {
		/* Weeks are understood but not written: "14d" reads better than "2w". */
		if (ms % duration_units[i].factor == 0) {
			unit = &duration_units[i];
			break;
		}
	}
	snprintf(ret_text, TEXT_DURATION_MAX, "%llu%s", (unsigned long long)(ms / unit->factor),
	         unit->name.ptr);
}

/* Reads leading digits; how many, or 0 when there are none, or ERR_TOO_LARGE. */
static int parse_digits(struct span text, uint64_t *ret_value)
{
	uint64_t value = 0;
	size_t i = 0;
	for (; i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9'; i++) {
		if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
		    __builtin_add_overflow(value, (uint64_t)(text.ptr[i] - '0'), &value))
			return ERR_TOO_LARGE;
	}
	*ret_value = value;
	/* Only leading zeros could make this many digits. */
	return i > 1000 ? ERR_TOO_LARGE : (int)i;
}

int text_parse_u64(struct span text, uint64_t *ret_value)
{
	uint64_t value = 0;
	int n = parse_digits(text, &value);
	if (n < 0)
		return n;
	if (n == 0 || (size_t)n != text.len)
		return ERR_INVALID;
	*ret_value = value;
	return 0;
}

struct unit_grammar {
	const struct unit *units;
	size_t unit_count;
	const char *expected;
};

static int parse_with_unit(struct span text, const struct unit_grammar *grammar,
                           uint64_t *ret_value, struct error_text *ret_text)
{
	int shown = text.len > 40 ? 40 : (int)text.len;
	const char *start = text.len ? text.ptr : "";
	uint64_t value = 0;
	int n = parse_digits(text, &value);
	if (n < 0)
		return error_fill(ret_text, n, "\"%.*s\" is too large", shown, start);
	struct span name = span_of(start + n, text.len - (size_t)n);
	for (size_t i = 0; n > 0 && i < grammar->unit_count; i++) {
		if (!span_eq(name, grammar->units[i].name))
			continue;
		if (__builtin_mul_overflow(value, grammar->units[i].factor, &value))
			return error_fill(ret_text, ERR_TOO_LARGE, "\"%.*s\" is too large", shown,
			                  start);
		*ret_value = value;
		return 0;
	}
	return error_fill(ret_text, ERR_INVALID, "\"%.*s\" is not %s", shown, start,
	                  grammar->expected);
}

int text_parse_duration(struct span text, uint64_t *ret_ms, struct error_text *ret_text)
{
	static const struct unit_grammar grammar = {
		duration_units,
		ARRAY_LEN(duration_units),
		"a duration: expected a whole number and a unit (ms, s, m, h, d, w), "
		"such as 500ms or 4d",
	};
	return parse_with_unit(text, &grammar, ret_ms, ret_text);
}

int text_parse_size(struct span text, uint64_t *ret_bytes, struct error_text *ret_text)
{
	static const struct unit_grammar grammar = {
		size_units,
		ARRAY_LEN(size_units),
		"a size: expected a whole number and a unit (B, KiB, MiB, GiB, TiB, kB, MB, "
		"GB, TB), such as 64KiB",
	};
	return parse_with_unit(text, &grammar, ret_bytes, ret_text);
}
