/*
 * short_values: values that come often ("1", "OK", "PROCESSED"), each kept once under a
 * code, so that a cell with one needs no look at the journal.
 *
 * A value gets a code when it has come some times of late. Its users are counted; when
 * all codes are given, one without users goes to another value.
 *
 * Room:      store/local, only for cells. Threads: one owner.
 * Ownership: short_values_new() gives it, short_values_free() takes it.
 */
#pragma once

#include <stdint.h>

#include "base/check.h"
#include "base/span.h"

#define SHORT_VALUE_MAX 64u    /* bytes */
#define SHORT_VALUES_MAX 1023u /* codes: 1 … */

struct short_values;

int short_values_new(struct short_values **ret_values) must_check;
struct short_values *short_values_free(struct short_values *values); /* accepts NULL */

/* The code of a value, 0: it has none. The code is its own as long as it is held, and
 * until the next call. */
uint32_t short_values_code(struct short_values *values, struct span value);
struct span short_values_get(const struct short_values *values, uint32_t code);

/* One user more, one less; code 0: nothing. */
void short_values_hold(struct short_values *values, uint32_t code);
void short_values_drop(struct short_values *values, uint32_t code);
