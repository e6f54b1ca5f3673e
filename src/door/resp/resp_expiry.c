/* Times of keys. See resp_internal.h. */
#include "door/resp/resp_internal.h"
#include "sys/clock.h"

enum unit { UNIT_S = 1, UNIT_MS = 2, UNIT_MASK = 3, UNIT_AT = 4 };

/* Long over: whatever has this expiry is gone. */
#define PAST_MS UINT64_C(1)

static bool find_unit(struct span word, uint8_t *ret_unit)
{
	static const struct {
		const char *word;
		uint8_t unit;
	} units[] = {
		{ "ex", UNIT_S },
		{ "px", UNIT_MS },
		{ "exat", UNIT_S | UNIT_AT },
		{ "pxat", UNIT_MS | UNIT_AT },
	};
	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		if (!resp_is(word, units[i].word))
			continue;
		*ret_unit = units[i].unit;
		return true;
	}
	return false;
}

bool resp_is_expiry(struct span word)
{
	uint8_t unit;
	return find_unit(word, &unit);
}

static uint64_t wall_ms(void)
{
	return clock_read(clock_system()).wall_ms;
}

/* To milliseconds; false: they are more than there are. */
static bool to_ms(uint8_t unit, int64_t value, int64_t *ret_ms)
{
	if ((unit & UNIT_MASK) == UNIT_S && __builtin_mul_overflow(value, 1000, &value))
		return false;
	/* From now on, they must have an end that can be told. */
	if (!(unit & UNIT_AT) && value > INT64_MAX / 2 && value > INT64_MAX - (int64_t)wall_ms())
		return false;
	*ret_ms = value;
	return true;
}

/* Zero and below are over at once. */
static void put_expiry(struct store_cell_value *cell, uint8_t unit, int64_t ms)
{
	if (ms <= 0) {
		cell->expiry_ms = PAST_MS;
	} else if (unit & UNIT_AT) {
		cell->expiry_ms = (uint64_t)ms;
		cell->wall_ms = wall_ms();
	} else {
		cell->ttl_ms = (uint64_t)ms;
	}
}

static void fail_expiry(struct resp_run *run)
{
	resp_fail(run, RESP_ERR, "invalid expire time in '%s' command", run->word->name);
}

bool resp_set_expiry(struct resp_run *run, struct span word, struct span number,
                     struct store_cell_value *cell)
{
	uint8_t unit = 0;
	int64_t value, ms;
	bool known = find_unit(word, &unit);
	CHECK(known);
	if (!resp_integer(number, &value)) {
		resp_fail_integer(run);
		return false;
	}
	if (value <= 0 || !to_ms(unit, value, &ms)) {
		fail_expiry(run);
		return false;
	}
	put_expiry(cell, unit, ms);
	return true;
}

/* ---- TTL and its kin ---- */

static void write_ttl(struct resp_job *job, struct buf *out)
{
	const struct store_cell *cell = &job->one;
	if (unlikely(resp_write_failure(job, out)))
		return;
	if (!cell->found || cell->expiry_ms == 0) {
		resp_write_integer(out, cell->found ? -1 : -2);
		return;
	}
	uint64_t ms = cell->expiry_ms;
	/* By the wall, which may have been set back; or from now on. */
	uint64_t from_ms = job->unit & UNIT_AT ? store_ahead_ms(cell->now_ms, wall_ms())
	                                       : cell->now_ms;
	ms = ms > from_ms ? ms - from_ms : 0;
	resp_write_integer(out,
	                   (int64_t)((job->unit & UNIT_MASK) == UNIT_S ? (ms + 500) / 1000 : ms));
}

static void run_ttl(struct resp_run *run, uint8_t unit)
{
	run->job->unit = unit;
	if (resp_cell(run, STORE_CELL_GET, run->args[1]))
		run->job->write = write_ttl;
}

void resp_run_ttl(struct resp_run *run)
{
	run_ttl(run, UNIT_S);
}

void resp_run_pttl(struct resp_run *run)
{
	run_ttl(run, UNIT_MS);
}

void resp_run_expiretime(struct resp_run *run)
{
	run_ttl(run, UNIT_S | UNIT_AT);
}

void resp_run_pexpiretime(struct resp_run *run)
{
	run_ttl(run, UNIT_MS | UNIT_AT);
}

/* ---- EXPIRE and its kin ---- */

enum condition { IF_NONE = 1, IF_SOME = 2, IF_LATER = 4, IF_EARLIER = 8 };

static bool read_conditions(struct resp_run *run, uint8_t *ret_conditions)
{
	static const struct {
		const char *word;
		uint8_t condition;
	} words[] = {
		{ "nx", IF_NONE }, { "xx", IF_SOME }, { "gt", IF_LATER }, { "lt", IF_EARLIER }
	};
	uint8_t conditions = 0;
	for (uint32_t i = 3; i < run->count; i++) {
		size_t w = 0;
		while (w < ARRAY_LEN(words) && !resp_is(run->args[i], words[w].word))
			w++;
		if (w == ARRAY_LEN(words)) {
			resp_fail(run, RESP_ERR, "Unsupported option %.*s",
			          (int)strnlen(run->args[i].ptr, run->args[i].len),
			          run->args[i].ptr);
			return false;
		}
		conditions |= words[w].condition;
	}
	if ((conditions & IF_NONE) && conditions != IF_NONE) {
		resp_fail(run, RESP_ERR,
		          "NX and XX, GT or LT options at the same time are not compatible");
		return false;
	}
	if ((conditions & IF_LATER) && (conditions & IF_EARLIER)) {
		resp_fail(run, RESP_ERR, "GT and LT options at the same time are not compatible");
		return false;
	}
	*ret_conditions = conditions;
	return true;
}

/* GT holds only of a key that has a time, so XX adds nothing to it. */
static enum store_when when_of(uint8_t conditions)
{
	if (conditions & IF_NONE)
		return STORE_IF_TIMELESS;
	if (conditions & IF_LATER)
		return STORE_IF_LATER;
	if (conditions & IF_EARLIER)
		return conditions & IF_SOME ? STORE_IF_TIMED_EARLIER : STORE_IF_EARLIER;
	return conditions & IF_SOME ? STORE_IF_TIMED : STORE_ALWAYS;
}

static void write_moved(struct resp_job *job, struct buf *out)
{
	if (likely(!resp_write_failure(job, out)))
		resp_write_integer(out, job->one.changed);
}

static void run_expire(struct resp_run *run, uint8_t unit)
{
	uint8_t conditions;
	int64_t value, ms;
	if (!read_conditions(run, &conditions))
		return;
	if (!resp_integer(run->args[2], &value)) {
		resp_fail_integer(run);
		return;
	}
	if (!to_ms(unit, value, &ms)) {
		fail_expiry(run);
		return;
	}
	struct store_cell *cell = resp_cell(run, STORE_CELL_EXPIRE, run->args[1]);
	if (!cell)
		return;
	run->job->write = write_moved;
	cell->when = when_of(conditions);
	put_expiry(&cell->cell, unit, ms);
}

void resp_run_expire(struct resp_run *run)
{
	run_expire(run, UNIT_S);
}

void resp_run_pexpire(struct resp_run *run)
{
	run_expire(run, UNIT_MS);
}

void resp_run_expireat(struct resp_run *run)
{
	run_expire(run, UNIT_S | UNIT_AT);
}

void resp_run_pexpireat(struct resp_run *run)
{
	run_expire(run, UNIT_MS | UNIT_AT);
}

static void write_persisted(struct resp_job *job, struct buf *out)
{
	if (likely(!resp_write_failure(job, out)))
		resp_write_integer(out, job->one.changed && job->one.expiry_ms != 0);
}

void resp_run_persist(struct resp_run *run)
{
	if (resp_cell(run, STORE_CELL_EXPIRE, run->args[1]))
		run->job->write = write_persisted;
}
