/* Keys and values. See resp_internal.h. */
#include "door/resp/resp_internal.h"

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

/* Words behind key and value; the reply is an error if false. */
struct set_words {
	struct span unit, number; /* of its expiry; empty: none */
	bool absent, present, get, keep;
};

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
	} else if (resp_is_expiry(arg) && !words->keep && *at + 1 < run->count &&
	           (words->unit.len == 0 || span_eq_nocase(words->unit, arg))) {
		words->unit = arg;
		words->number = run->args[++*at];
	} else {
		resp_fail_syntax(run);
		return false;
	}
	return true;
}

static bool check_value(struct resp_run *run, struct span value)
{
	uint32_t most = run->door->shared->options.max_value;
	if (likely(value.len <= most))
		return true;
	resp_fail(run, RESP_ERR,
	          "the value has %zu bytes; stile keeps values of up to %u (resp.max_value)",
	          value.len, most);
	return false;
}

/* A cell that puts; NULL: the reply is an error. */
static struct store_cell *put_cell(struct resp_run *run, struct span key, struct span value)
{
	if (!check_value(run, value))
		return NULL;
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
		resp_set_expiry(run, words.unit, words.number, &cell->cell);
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
		resp_set_expiry(run, unit, run->args[2], &cell->cell);
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

/* False: the reply is why not. */
static bool may_bring(struct resp_run *run, uint64_t bytes)
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
	if (!may_bring(run, run->door->shared->options.max_value))
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
	bool timed = run->count == 4 && resp_is_expiry(run->args[2]);
	if (run->count > 2 && !persist && !timed) {
		resp_fail_syntax(run);
		return;
	}
	struct store_cell *cell = value_cell(run,
	                                     persist || timed ? STORE_CELL_EXPIRE : STORE_CELL_GET);
	if (cell && timed)
		resp_set_expiry(run, run->args[2], run->args[3], &cell->cell);
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
	if (!may_bring(run, count * most))
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
