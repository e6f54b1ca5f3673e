/* json_number: see json_number.h. */
#include "codec/json_number.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

#define EXPONENT_MAX INT64_C(1000000000)
#define DIGITS_MAX 17 /* that a double ever needs */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A number taken apart: ± digits × 10^exponent, where `digits` may have a point
 * among them and zeros at both ends. */
struct pieces {
	bool negative;
	struct span digits;
	int64_t exponent; /* of the last digit */
	bool huge;        /* the exponent is beyond EXPONENT_MAX */
};

static struct pieces take_apart(struct span text)
{
	struct pieces pieces = { .negative = text.len > 0 && text.ptr[0] == '-' };
	text = span_skip(text, pieces.negative);
	size_t len = 0;
	int64_t fraction = 0;
	bool point = false;
	for (; len < text.len && (is_digit(text.ptr[len]) || text.ptr[len] == '.'); len++) {
		fraction += point;
		point |= text.ptr[len] == '.';
	}
	pieces.digits = span_of(text.ptr, len);
	text = span_skip(text, len + 1);
	bool minus = text.len > 0 && text.ptr[0] == '-';
	int64_t exponent = 0;
	for (size_t i = 0; i < text.len; i++) {
		if (is_digit(text.ptr[i]))
			exponent = exponent * 10 + (text.ptr[i] - '0');
		if (exponent > EXPONENT_MAX) {
			pieces.huge = true;
			exponent = EXPONENT_MAX;
		}
	}
	pieces.exponent = (minus ? -exponent : exponent) - fraction;
	return pieces;
}

/* Leaves the significant digits only, without the point. Zeros are written when a
 * digit follows them: those at the end need no room, however many there are. */
static int significant(struct pieces *pieces, char *bytes, size_t room, size_t *ret_len)
{
	size_t len = 0;
	size_t zeros = 0;
	for (size_t i = 0; i < pieces->digits.len; i++) {
		char c = pieces->digits.ptr[i];
		if (c == '.')
			continue;
		if (c == '0') {
			zeros += len > 0;
			continue;
		}
		if (zeros >= room - len)
			return ERR_TOO_LARGE;
		memset(bytes + len, '0', zeros);
		len += zeros;
		zeros = 0;
		bytes[len++] = c;
	}
	pieces->exponent += (int64_t)zeros;
	*ret_len = len;
	return 0;
}

bool json_number_is_plain(struct span text)
{
	if (text.len > JSON_NUMBER_PLAIN_MAX)
		return false;
	for (size_t i = 0; i < text.len; i++)
		if (!is_digit(text.ptr[i]) && (i > 0 || text.ptr[i] != '-'))
			return false;
	return text.len != 2 || text.ptr[0] != '-' || text.ptr[1] != '0';
}

int json_number_exact(struct span text, char *bytes, size_t room, struct span *ret_value)
{
	size_t len;
	if (json_number_is_plain(text)) {
		*ret_value = text;
		return 0;
	}
	/* A sign before the digits and an exponent or zeros behind them. */
	const size_t around = 1 + JSON_NUMBER_PLAIN_MAX;
	struct pieces pieces = take_apart(text);
	char *digits = bytes + pieces.negative;
	if (room < around || significant(&pieces, digits, room - around, &len) < 0)
		return ERR_TOO_LARGE;
	if (len == 0) {
		*ret_value = SPAN("0");
		return 0;
	}
	if (pieces.huge)
		return ERR_TOO_LARGE;
	char *end = digits + len;
	int64_t whole = (int64_t)len + pieces.exponent + pieces.negative;
	if (pieces.exponent >= 0 && whole <= JSON_NUMBER_PLAIN_MAX) {
		memset(end, '0', (size_t)pieces.exponent);
		end += pieces.exponent;
	} else {
		end += snprintf(end, JSON_NUMBER_PLAIN_MAX, "e%lld", (long long)pieces.exponent);
	}
	if (pieces.negative)
		bytes[0] = '-';
	*ret_value = span_of(bytes, (size_t)(end - bytes));
	return 0;
}

/* Decimal digits and where their point is: 0.digits × 10^point. */
struct decimal {
	int count;
	int point;
	char digits[DIGITS_MAX + 1];
};

static struct decimal round_to(double value, int count)
{
	char text[DIGITS_MAX + 16];
	struct decimal decimal = { .count = count };
	snprintf(text, sizeof(text), "%.*e", count - 1, value);
	const char *p = text;
	int n = 0;
	for (; *p != 'e'; p++)
		if (is_digit(*p))
			decimal.digits[n++] = *p;
	decimal.point = (int)strtol(p + 1, NULL, 10) + 1;
	while (decimal.count > 1 && decimal.digits[decimal.count - 1] == '0')
		decimal.count--;
	return decimal;
}

static bool is_same(const struct decimal *decimal, double value)
{
	char text[DIGITS_MAX + 16];
	snprintf(text, sizeof(text), "0.%.*se%d", decimal->count, decimal->digits, decimal->point);
	return strtod(text, NULL) == value;
}

/*
 * The shortest digits that give the double back, and of these the nearest. Fewer
 * than 15 need not be tried for normal numbers: printf's zeros at the end go
 * anyway. Below a power of two the doubles are twice as dense as above, so there
 * the nearest decimal may miss while its upper neighbour does not.
 */
static struct decimal shortest(double value)
{
	int exponent;
	bool uneven = frexp(value, &exponent) == 0.5;
	for (int count = value < DBL_MIN ? 1 : 15; count < DIGITS_MAX; count++) {
		struct decimal decimal = round_to(value, count);
		if (is_same(&decimal, value))
			return decimal;
		/* The next greater decimal with as many digits. */
		int i = decimal.count - 1;
		for (; i >= 0 && decimal.digits[i] == '9'; i--)
			decimal.digits[i] = '0';
		if (i >= 0) {
			decimal.digits[i]++;
		} else {
			decimal.digits[0] = '1';
			decimal.point++;
		}
		if (uneven && decimal.count == count && is_same(&decimal, value))
			return decimal;
	}
	return round_to(value, DIGITS_MAX);
}

/* ECMA-262, Number::toString. */
static int print_decimal(const struct decimal *decimal, char *bytes, size_t room)
{
	static const char zeros[] = "000000000000000000000";
	const char *digits = decimal->digits;
	int count = decimal->count;
	int point = decimal->point;
	if (count <= point && point <= 21)
		return snprintf(bytes, room, "%.*s%.*s", count, digits, point - count, zeros);
	if (point > 0 && point <= 21)
		return snprintf(bytes, room, "%.*s.%.*s", point, digits, count - point,
		                digits + point);
	if (point > -6 && point <= 0)
		return snprintf(bytes, room, "0.%.*s%.*s", -point, zeros, count, digits);
	return snprintf(bytes, room, "%c%s%.*se%+d", digits[0], count > 1 ? "." : "", count - 1,
	                digits + 1, point - 1);
}

int json_number_es(struct span text, char ret_bytes[static JSON_NUMBER_ES_MAX], size_t *ret_len)
{
	/* Fifteen digits are in every double: such whole numbers are as they are. */
	if (text.len <= 15 && json_number_is_plain(text)) {
		memcpy(ret_bytes, text.ptr, text.len);
		*ret_len = text.len;
		return 0;
	}
	double value = strtod(text.ptr, NULL);
	if (isinf(value))
		return ERR_TOO_LARGE;
	bool negative = value < 0;
	size_t len = 0;
	if (negative)
		ret_bytes[len++] = '-';
	if (value == 0) {
		ret_bytes[len++] = '0';
	} else {
		struct decimal decimal = shortest(fabs(value));
		int n = print_decimal(&decimal, ret_bytes + len, JSON_NUMBER_ES_MAX - len);
		CHECK(n > 0 && len + (size_t)n < JSON_NUMBER_ES_MAX);
		len += (size_t)n;
	}
	*ret_len = len;
	return 0;
}
