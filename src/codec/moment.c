/* moment: see moment.h. */
#include "codec/moment.h"

#include "base/error.h"

#define MS_PER_DAY INT64_C(86400000)
#define LAST_MS INT64_C(253402300799999) /* 9999-12-31T23:59:59.999Z */

static bool is_digit(struct span text, size_t at)
{
	return at < text.len && text.ptr[at] >= '0' && text.ptr[at] <= '9';
}

/* Takes exactly `count` digits off the front; -1 when they are not there. */
static int take_digits(struct span *text, size_t count)
{
	int value = 0;
	for (size_t i = 0; i < count; i++) {
		if (!is_digit(*text, i))
			return -1;
		value = value * 10 + (text->ptr[i] - '0');
	}
	*text = span_skip(*text, count);
	return value;
}

static bool take(struct span *text, const char *any_of)
{
	while (text->len > 0 && *any_of && *any_of != text->ptr[0])
		any_of++;
	if (text->len == 0 || !*any_of)
		return false;
	*text = span_skip(*text, 1);
	return true;
}

/* Days since 1970 (Hinnant's days_from_civil), for years from 1 on. */
static int64_t days_of_date(int64_t year, int64_t month, int64_t day)
{
	year -= month <= 2;
	int64_t era = year / 400;
	int64_t year_of_era = year - era * 400;
	int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
	int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
	return era * 146097 + day_of_era - 719468;
}

static int days_in_month(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
	return month == 2 && leap ? 29 : days[month - 1];
}

/* Milliseconds of the digits after the point; -1 without one. */
static int take_fraction(struct span *text)
{
	int ms = 0;
	int weight = 100;
	if (!is_digit(*text, 0))
		return -1;
	for (; is_digit(*text, 0); *text = span_skip(*text, 1)) {
		ms += weight * (text->ptr[0] - '0');
		weight /= 10;
	}
	return ms;
}

static int take_clock(struct span *text, int64_t *ret_ms)
{
	int hour = take_digits(text, 2);
	bool colons = take(text, ":");
	int minute = take_digits(text, 2);
	int second = 0;
	int ms = 0;
	if (colons ? take(text, ":") : is_digit(*text, 0))
		second = take_digits(text, 2);
	if (second >= 0 && take(text, ".,"))
		ms = take_fraction(text);
	if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60 ||
	    ms < 0)
		return ERR_INVALID;
	if (second == 60) {
		second = 59;
		ms = 999;
	}
	*ret_ms = ((hour * 60 + minute) * 60 + second) * INT64_C(1000) + ms;
	return 0;
}

/* What must be subtracted to have UTC. */
static int take_offset(struct span *text, int64_t *ret_ms)
{
	*ret_ms = 0;
	if (text->len == 0 || take(text, "Zz"))
		return 0;
	bool west = text->ptr[0] == '-';
	if (!take(text, "+-"))
		return ERR_INVALID;
	int hours = take_digits(text, 2);
	int minutes = 0;
	if (take(text, ":") || text->len > 0)
		minutes = take_digits(text, 2);
	if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59)
		return ERR_INVALID;
	*ret_ms = (hours * 60 + minutes) * INT64_C(60000) * (west ? -1 : 1);
	return 0;
}

int moment_parse_iso(struct span text, uint64_t *ret_unix_ms)
{
	int64_t date;
	int64_t clock = 0;
	int64_t offset = 0;
	int year = take_digits(&text, 4);
	bool dashed = take(&text, "-");
	int month = take_digits(&text, 2);
	if (year < 1 || month < 1 || month > 12 || take(&text, "-") != dashed)
		return ERR_INVALID;
	int day = take_digits(&text, 2);
	if (day < 1 || day > days_in_month(year, month))
		return ERR_INVALID;
	date = days_of_date(year, month, day) * MS_PER_DAY;
	if (text.len > 0 && (!take(&text, "Tt ") || take_clock(&text, &clock) < 0 ||
	                     take_offset(&text, &offset) < 0))
		return ERR_INVALID;
	int64_t ms = date + clock - offset;
	if (text.len > 0 || ms < 0 || ms > LAST_MS)
		return ERR_INVALID;
	*ret_unix_ms = (uint64_t)ms;
	return 0;
}

/* Seconds, milli-, micro- or nanoseconds, by the size of the number. */
static int parse_number(struct span text, uint64_t *ret_unix_ms)
{
	uint64_t whole = 0;
	size_t digits = 0;
	int fraction = 0;
	for (; is_digit(text, 0) && digits < 19; digits++, text = span_skip(text, 1))
		whole = whole * 10 + (uint64_t)(text.ptr[0] - '0');
	if (digits == 0)
		return ERR_INVALID;
	if (take(&text, "."))
		fraction = take_fraction(&text);
	if (fraction < 0 || text.len > 0)
		return ERR_INVALID;
	if (whole < UINT64_C(100000000000))
		whole = whole * 1000 + (uint64_t)fraction;
	else if (whole >= UINT64_C(100000000000000000))
		whole /= 1000000;
	else if (whole >= UINT64_C(100000000000000))
		whole /= 1000;
	if (whole > (uint64_t)LAST_MS)
		return ERR_INVALID;
	*ret_unix_ms = whole;
	return 0;
}

int moment_parse(struct span text, uint64_t *ret_unix_ms)
{
	size_t digits = 0;
	while (is_digit(text, digits))
		digits++;
	/* Eight digits alone are a date, 20260102: as seconds that is August 1970. */
	bool number = digits == text.len ? digits != 8 : text.ptr[digits] == '.';
	return number ? parse_number(text, ret_unix_ms) : moment_parse_iso(text, ret_unix_ms);
}
