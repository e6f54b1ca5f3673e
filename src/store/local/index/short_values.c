/* short_values: see short_values.h. */
#include "store/local/index/short_values.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

#define HEADS 2048u
#define GUESSES 1024u
#define OFTEN 8u /* a value that came so often is likely to come again */

struct value {
	char bytes[SHORT_VALUE_MAX];
	uint64_t users;
	uint32_t hash;
	uint16_t next; /* in its chain; 0 is the end */
	uint8_t len;
};

/* What came last with this hash, and how often in a row. */
struct guess {
	uint32_t hash;
	uint32_t count;
};

struct short_values {
	uint64_t seed;
	uint32_t given; /* codes up to this one */
	uint32_t hand;  /* where the search for one without users goes on */
	uint16_t heads[HEADS];
	struct guess guesses[GUESSES];
	struct value values[SHORT_VALUES_MAX + 1];
};

int short_values_new(struct short_values **ret_values)
{
	struct short_values *values = mem_zalloc(1, sizeof(*values));

	if (!values)
		return -ENOMEM;
	int r = hash_random(&values->seed, sizeof(values->seed));
	if (r < 0) {
		mem_free(values);
		return r;
	}
	*ret_values = values;
	return 0;
}

struct short_values *short_values_free(struct short_values *values)
{
	return mem_free(values);
}

static uint32_t find(const struct short_values *values, struct span value, uint32_t hash)
{
	uint32_t code = values->heads[hash % HEADS];

	for (; code; code = values->values[code].next) {
		const struct value *at = &values->values[code];
		if (at->hash == hash && span_eq(span_of(at->bytes, at->len), value))
			break;
	}
	return code;
}

static bool comes_often(struct short_values *values, uint32_t hash)
{
	struct guess *guess = &values->guesses[hash / HEADS % GUESSES];

	if (guess->hash != hash)
		*guess = (struct guess){ .hash = hash };
	return ++guess->count >= OFTEN;
}

static void unlink_code(struct short_values *values, uint32_t code)
{
	uint16_t *at = &values->heads[values->values[code].hash % HEADS];

	while (*at != code)
		at = &values->values[*at].next;
	*at = values->values[code].next;
}

/* 0: all have users, as far as was looked. */
static uint32_t free_code(struct short_values *values)
{
	if (values->given < SHORT_VALUES_MAX)
		return ++values->given;
	for (uint32_t i = 0; i < 16; i++) {
		values->hand = values->hand % SHORT_VALUES_MAX + 1;
		if (values->values[values->hand].users == 0) {
			unlink_code(values, values->hand);
			return values->hand;
		}
	}
	return 0;
}

uint32_t short_values_code(struct short_values *values, struct span value)
{
	if (value.len > SHORT_VALUE_MAX)
		return 0;
	uint32_t hash = (uint32_t)hash_checksum64(value.ptr, value.len, values->seed);
	uint32_t code = find(values, value, hash);
	if (code || !comes_often(values, hash))
		return code;
	code = free_code(values);
	if (code == 0)
		return 0;
	struct value *given = &values->values[code];
	uint16_t *head = &values->heads[hash % HEADS];
	*given = (struct value){ .hash = hash, .len = (uint8_t)value.len, .next = *head };
	if (value.len)
		memcpy(given->bytes, value.ptr, value.len);
	*head = (uint16_t)code;
	return code;
}

struct span short_values_get(const struct short_values *values, uint32_t code)
{
	CHECK(code > 0 && code <= values->given);
	return span_of(values->values[code].bytes, values->values[code].len);
}

void short_values_hold(struct short_values *values, uint32_t code)
{
	values->values[code].users += code != 0;
}

void short_values_drop(struct short_values *values, uint32_t code)
{
	CHECK(code == 0 || values->values[code].users > 0);
	values->values[code].users -= code != 0;
}
