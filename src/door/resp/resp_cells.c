/*
 * Keys: their values (SET, GET, DEL …), their times (EXPIRE, TTL …), and SCAN. See
 * resp_internal.h.
 */
#include "base/mem.h"
#include "door/resp/resp_internal.h"
#include "sys/clock.h"

/* ---- times ---- */

enum unit { UNIT_S = 1, UNIT_MS = 2, UNIT_MASK = 3, UNIT_AT = 4 };

/* An expiry in the past: the key is gone. */
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

static bool is_expiry(struct span word)
{
	uint8_t unit;
	return find_unit(word, &unit);
}

static uint64_t wall_ms(void)
{
	return clock_read(clock_system()).wall_ms;
}

/* To milliseconds; false: out of range. */
static bool to_ms(uint8_t unit, int64_t value, int64_t *ret_ms)
{
	if ((unit & UNIT_MASK) == UNIT_S && __builtin_mul_overflow(value, 1000, &value))
		return false;
	/* A time from now on must have an end that fits. */
	if (!(unit & UNIT_AT) && value > INT64_MAX / 2 && value > INT64_MAX - (int64_t)wall_ms())
		return false;
	*ret_ms = value;
	return true;
}

/* Zero and below have expired already. */
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

/* `word`: EX, PX, EXAT or PXAT; false: the reply is an error. */
static bool set_expiry(struct resp_run *run, struct span word, struct span number,
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
		resp_fail(run, RESP_ERR, "invalid expire time in '%s' command", run->word->name);
		return false;
	}
	put_expiry(cell, unit, ms);
	return true;
}

/* ---- values ---- */

static enum resp_version version_of(const struct resp_job *job)
{
	return (enum resp_version)job->version;
}

static void write_value(const struct store_cell *cell, struct buf *out, enum resp_version version)
{
	if (cell->found)
		resp_write_bulk(out, buf_span(&cell->value));
	else
		resp_write_null(out, version);
}

/* ---- SET ---- */

static void write_set(struct resp_job *job, struct buf *out)
{
	if (unlikely(resp_write_failure(job, out)))
		return;
	if (job->one.changed)
		buf_append_span(out, SPAN("+OK\r\n"));
	else
		resp_write_null(out, version_of(job));
}

static void write_old(struct resp_job *job, struct buf *out)
{
	if (likely(!resp_write_failure(job, out)))
		write_value(&job->one, out, version_of(job));
}

static void write_changed(struct resp_job *job, struct buf *out)
{
	if (likely(!resp_write_failure(job, out)))
		resp_write_integer(out, job->one.changed);
}

/* Options of SET. */
struct set_words {
	struct span unit, number; /* of its expiry; empty: none */
	bool absent, present, get, keep;
};

/* False: the reply is an error. */
static bool read_set_word(struct resp_run *run, uint32_t *at, struct set_words *words)
{
	struct span arg = run->args[*at];
	if (resp_is(arg, "nx") && !words->present) {
		words->absent = true;
	} else if (resp_is(arg, "xx") && !words->absent) {
		words->present = true;
	} else if (resp_is(arg, "get")) {
		words->get = true;
	} else if (resp_is(arg, "keepttl") && words->unit.len == 0) {
		words->keep = true;
	} else if (is_expiry(arg) && !words->keep && *at + 1 < run->count &&
	           (words->unit.len == 0 || span_eq_nocase(words->unit, arg))) {
		words->unit = arg;
		words->number = run->args[++*at];
	} else {
		resp_fail_syntax(run);
		return false;
	}
	return true;
}

/* A cell that puts; NULL: the reply is an error. */
static struct store_cell *put_cell(struct resp_run *run, struct span key, struct span value)
{
	uint32_t most = run->door->shared->options.max_value;
	if (unlikely(value.len > most)) {
		resp_fail(
			run, RESP_ERR,
			"the value is too long: %zu bytes, at most %u are allowed (resp.max_value)",
			value.len, most);
		return NULL;
	}
	struct store_cell *cell = resp_cell(run, STORE_CELL_PUT, key);
	if (!cell)
		return NULL;
	cell->cell.value = value;
	run->job->write = write_set;
	return cell;
}

void resp_run_set(struct resp_run *run)
{
	struct set_words words = { 0 };
	for (uint32_t i = 3; i < run->count; i++)
		if (!read_set_word(run, &i, &words))
			return;
	struct store_cell *cell = put_cell(run, run->args[1], run->args[2]);
	if (!cell)
		return;
	cell->when = words.absent    ? STORE_IF_ABSENT
	             : words.present ? STORE_IF_PRESENT
	                             : STORE_ALWAYS;
	cell->cell.keep_expiry = words.keep;
	if (words.get) {
		cell->want_value = true;
		run->job->write = write_old;
		resp_weigh(run, run->door->shared->options.max_value);
	}
	if (words.unit.len > 0)
		set_expiry(run, words.unit, words.number, &cell->cell);
}

void resp_run_setnx(struct resp_run *run)
{
	struct store_cell *cell = put_cell(run, run->args[1], run->args[2]);
	if (!cell)
		return;
	cell->when = STORE_IF_ABSENT;
	run->job->write = write_changed;
}

static void set_with_time(struct resp_run *run, struct span unit)
{
	struct store_cell *cell = put_cell(run, run->args[1], run->args[3]);
	if (cell)
		set_expiry(run, unit, run->args[2], &cell->cell);
}

void resp_run_setex(struct resp_run *run)
{
	set_with_time(run, SPAN("EX"));
}

void resp_run_psetex(struct resp_run *run)
{
	set_with_time(run, SPAN("PX"));
}

/* ---- GET ---- */

/* Reserves memory for values. False: the reply says why not. */
static bool reserve_values(struct resp_run *run, uint64_t bytes)
{
	if (unlikely(resp_call_is_dear(run->task->call))) {
		resp_fail_memory(run);
		return false;
	}
	resp_weigh(run, bytes);
	return true;
}

static struct store_cell *value_cell(struct resp_run *run, enum store_cell_act act)
{
	if (!reserve_values(run, run->door->shared->options.max_value))
		return NULL;
	struct store_cell *cell = resp_cell(run, act, run->args[1]);
	if (!cell)
		return NULL;
	cell->want_value = true;
	run->job->write = write_old;
	return cell;
}

void resp_run_get(struct resp_run *run)
{
	value_cell(run, STORE_CELL_GET);
}

void resp_run_getdel(struct resp_run *run)
{
	value_cell(run, STORE_CELL_REMOVE);
}

void resp_run_getex(struct resp_run *run)
{
	bool persist = run->count == 3 && resp_is(run->args[2], "persist");
	bool timed = run->count == 4 && is_expiry(run->args[2]);
	if (run->count > 2 && !persist && !timed) {
		resp_fail_syntax(run);
		return;
	}
	struct store_cell *cell = value_cell(run,
	                                     persist || timed ? STORE_CELL_EXPIRE : STORE_CELL_GET);
	if (cell && timed)
		set_expiry(run, run->args[2], run->args[3], &cell->cell);
}

static void write_values(struct resp_job *job, struct buf *out)
{
	if (unlikely(resp_write_failure(job, out)))
		return;
	resp_write_array(out, job->count);
	for (uint32_t i = 0; i < job->count; i++)
		write_value(&job->cells[i], out, version_of(job));
}

void resp_run_mget(struct resp_run *run)
{
	uint64_t most = run->door->shared->options.max_value;
	uint32_t count = run->count - 1;
	if (count > 1 && count * most > RESP_VALUES_MAX) {
		resp_fail(run, RESP_ERR,
		          "too many keys: with values of up to %llu bytes, at most %llu at a time",
		          (unsigned long long)most, (unsigned long long)(RESP_VALUES_MAX / most));
		return;
	}
	if (!reserve_values(run, count * most))
		return;
	struct store_cell *cells = resp_cells(run, STORE_CELL_GET, run->args + 1, count);
	if (!cells)
		return;
	for (uint32_t i = 0; i < count; i++)
		cells[i].want_value = true;
	run->job->write = write_values;
}

/* ---- DEL, EXISTS, TYPE ---- */

static void write_removed(struct resp_job *job, struct buf *out)
{
	int64_t count = 0;
	if (unlikely(resp_write_failure(job, out)))
		return;
	for (uint32_t i = 0; i < job->count; i++)
		count += job->cells[i].changed;
	resp_write_integer(out, count);
}

void resp_run_del(struct resp_run *run)
{
	if (resp_cells(run, STORE_CELL_REMOVE, run->args + 1, run->count - 1))
		run->job->write = write_removed;
}

static void write_found(struct resp_job *job, struct buf *out)
{
	int64_t count = 0;
	if (unlikely(resp_write_failure(job, out)))
		return;
	for (uint32_t i = 0; i < job->count; i++)
		count += job->cells[i].found;
	resp_write_integer(out, count);
}

void resp_run_exists(struct resp_run *run)
{
	if (resp_cells(run, STORE_CELL_GET, run->args + 1, run->count - 1))
		run->job->write = write_found;
}

static void write_type(struct resp_job *job, struct buf *out)
{
	if (likely(!resp_write_failure(job, out)))
		resp_write_simple(out, job->one.found ? SPAN("string") : SPAN("none"));
}

void resp_run_type(struct resp_run *run)
{
	if (resp_cell(run, STORE_CELL_GET, run->args[1]))
		run->job->write = write_type;
}

/* ---- TTL, PTTL, EXPIRETIME, PEXPIRETIME ---- */

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
	/* By the wall clock, which may have been set back; or from now on. */
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

/* ---- EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT, PERSIST ---- */

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

/* GT is true only for a key that has a time, so XX adds nothing to it. */
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
		resp_fail(run, RESP_ERR, "invalid expire time in '%s' command", run->word->name);
		return;
	}
	struct store_cell *cell = resp_cell(run, STORE_CELL_EXPIRE, run->args[1]);
	if (!cell)
		return;
	run->job->write = write_changed;
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

/* ---- scans ---- */

#define NAMES_DEFAULT 10
#define NAMES_MAX 10000

struct resp_scanning {
	struct store_cell_scan scan;
	struct span match; /* empty: all */
	bool matches;      /* there is a pattern, which may be empty */
	bool none;         /* keys of another type: there are none */
};

/* ---- cursors ----
 *
 * A client's cursor has 64 bits. The position of a scan that fits is sent doubled; others are
 * kept here, under odd numbers. */

#define DIRECT_MAX (UINT64_C(1) << 62)

static uint64_t keep_cursor(struct resp_cursors *cursors, const struct store_cursor *cursor)
{
	size_t oldest = 0;
	pthread_mutex_lock(&cursors->lock);
	for (size_t i = 1; i < RESP_CURSORS_MAX; i++)
		if (cursors->slots[i].used < cursors->slots[oldest].used)
			oldest = i;
	uint64_t used = ++cursors->last, id = 2 * used + 1;
	cursors->slots[oldest].id = id;
	cursors->slots[oldest].used = used;
	cursors->slots[oldest].cursor = *cursor;
	pthread_mutex_unlock(&cursors->lock);
	return id;
}

static bool find_cursor(struct resp_cursors *cursors, uint64_t id, struct store_cursor *ret_cursor)
{
	bool found = false;
	pthread_mutex_lock(&cursors->lock);
	for (size_t i = 0; i < RESP_CURSORS_MAX && !found; i++) {
		if (cursors->slots[i].id != id)
			continue;
		cursors->slots[i].used = ++cursors->last;
		*ret_cursor = cursors->slots[i].cursor;
		found = true;
	}
	pthread_mutex_unlock(&cursors->lock);
	return found;
}

static uint64_t put_cursor(struct resp_cursors *cursors, const struct store_cell_scan *scan)
{
	const uint64_t *word = scan->cursor.word;
	if (scan->end)
		return 0;
	if (word[1] == 0 && word[0] > 0 && word[0] < DIRECT_MAX)
		return word[0] * 2;
	return keep_cursor(cursors, &scan->cursor);
}

static bool read_cursor(struct resp_cursors *cursors, struct span text,
                        struct store_cursor *ret_cursor)
{
	uint64_t number;
	if (text_parse_u64(text, &number) != 0)
		return false;
	if (number % 2 == 1)
		return find_cursor(cursors, number, ret_cursor);
	*ret_cursor = (struct store_cursor){ .word = { number / 2, 0 } };
	return true;
}

/* ---- patterns ---- */

/* The class at `at` of the pattern, after its bracket; *ret_at is then after its end. A class
 * without an end goes to the end of the pattern. */
static bool glob_class(struct span pattern, size_t at, char c, size_t *ret_at)
{
	unsigned char wanted = (unsigned char)c;
	bool negated = at < pattern.len && pattern.ptr[at] == '^', match = false;
	at += negated;
	for (; at < pattern.len && pattern.ptr[at] != ']'; at++) {
		if (pattern.ptr[at] == '\\' && at + 1 < pattern.len)
			at++;
		unsigned char low = (unsigned char)pattern.ptr[at], high = low;
		if (at + 2 < pattern.len && pattern.ptr[at + 1] == '-') {
			at += 2;
			high = (unsigned char)pattern.ptr[at];
		}
		if (low > high) {
			unsigned char swap = low;
			low = high;
			high = swap;
		}
		match |= wanted >= low && wanted <= high;
	}
	*ret_at = at < pattern.len ? at + 1 : at;
	return match != negated;
}

/* Does one character of the text match? */
static bool glob_one(struct span pattern, size_t *at, char c)
{
	char p = pattern.ptr[*at];
	if (p == '[')
		return glob_class(pattern, *at + 1, c, at);
	if (p == '\\' && *at + 1 < pattern.len)
		p = pattern.ptr[++*at];
	else if (p == '?')
		p = c;
	++*at;
	return p == c;
}

/* Backtracks to the last star only: an earlier one could match no more. */
bool resp_glob(struct span pattern, struct span text)
{
	size_t p = 0, t = 0, star = SIZE_MAX, star_text = 0;
	while (t < text.len) {
		size_t next = p;
		if (p < pattern.len && pattern.ptr[p] == '*') {
			star = ++p;
			star_text = t;
		} else if (p < pattern.len && glob_one(pattern, &next, text.ptr[t])) {
			p = next;
			t++;
		} else if (star != SIZE_MAX) {
			p = star;
			t = ++star_text;
		} else {
			return false;
		}
	}
	while (p < pattern.len && pattern.ptr[p] == '*')
		p++;
	return p == pattern.len;
}

/* ---- SCAN ---- */

static void write_scan(struct resp_job *job, struct buf *out)
{
	struct resp_scanning *scanning = job->scanning;
	struct resp_door *door = job->task->door;
	char digits[TEXT_U64_MAX];
	struct buf names = { 0 };
	uint32_t count = 0;
	int error = scanning->scan.op.error;
	size_t offset = 0;
	struct span name;
	while (!error && store_name_next(buf_span(&scanning->scan.names), &offset, &name)) {
		/* Cells without a name are not keys of this door. */
		if (name.len == 0 || scanning->none ||
		    (scanning->matches && !resp_glob(scanning->match, name)))
			continue;
		resp_write_bulk(&names, name);
		count++;
	}
	if (!error)
		error = names.failed;
	if (error) {
		resp_write_store_error(door, out, error);
	} else {
		uint64_t cursor = put_cursor(&door->shared->cursors, &scanning->scan);
		resp_write_array(out, 2);
		resp_write_bulk(out, span_of(digits, text_u64(digits, cursor)));
		resp_write_array(out, count);
		buf_append_span(out, buf_span(&names));
	}
	buf_free(&names);
}

static bool read_option(struct resp_run *run, uint32_t at, struct resp_scanning *scanning)
{
	struct span word = run->args[at], value = at + 1 < run->count ? run->args[at + 1] : word;
	int64_t count;
	bool whole = at + 1 < run->count;
	if (whole && resp_is(word, "count")) {
		if (!resp_integer(value, &count)) {
			resp_fail_integer(run);
			return false;
		}
		if (count >= 1) {
			scanning->scan.max_names = (uint32_t)(count < NAMES_MAX ? count
			                                                        : NAMES_MAX);
			return true;
		}
	} else if (whole && resp_is(word, "match")) {
		scanning->match = value;
		scanning->matches = true;
		return true;
	} else if (whole && resp_is(word, "type")) {
		scanning->none = !resp_is(value, "string");
		return true;
	}
	resp_fail_syntax(run);
	return false;
}

void resp_run_scan(struct resp_run *run)
{
	struct resp_job *job = run->job;
	struct store_cursor cursor;
	if (!read_cursor(&run->door->shared->cursors, run->args[1], &cursor)) {
		resp_fail(run, RESP_ERR, "invalid cursor");
		return;
	}
	struct resp_scanning *scanning = arena_alloc(&run->task->arena, sizeof(*scanning));
	if (!scanning) {
		resp_fail_memory(run);
		return;
	}
	scanning->scan.max_names = NAMES_DEFAULT;
	for (uint32_t i = 2; i < run->count; i += 2)
		if (!read_option(run, i, scanning))
			return;
	scanning->scan.op =
		(struct store_op){ .kind = STORE_CELL_SCAN, .done = resp_decided, .user = job };
	scanning->scan.cursor = cursor;
	job->scanning = scanning;
	job->write = write_scan;
	resp_weigh(run, (uint64_t)scanning->scan.max_names * (RESP_KEY_MAX / 16));
}

void resp_scan_submit(struct resp_job *job)
{
	store_submit(job->task->door->store, &job->scanning->scan.op);
}

void resp_scan_free(struct resp_job *job)
{
	buf_free(&job->scanning->scan.names);
	job->scanning = NULL;
}

void resp_run_dbsize(struct resp_run *run)
{
	struct store_stats stats;
	store_stats(run->door->store, &stats);
	resp_write_integer(resp_text(run->job), (int64_t)stats.live_cells);
}
