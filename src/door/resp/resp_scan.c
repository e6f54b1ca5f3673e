/* SCAN and DBSIZE. See resp_internal.h. */
#include "base/mem.h"
#include "door/resp/resp_internal.h"

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
 * Clients have 64 bits for them. The place of a scan that fits is sent as it is, doubled;
 * others are kept here, under odd numbers. */

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

static uint64_t tell_cursor(struct resp_cursors *cursors, const struct store_cell_scan *scan)
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

/* The class at `at` of the pattern, behind its bracket; *ret_at is then behind it. One that
 * does not end goes to the pattern's end. */
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

/* One character of the text; false: it is another. */
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

/* The last star alone is gone back to: an earlier one could not do more. */
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

static uint32_t append_names(const struct resp_scanning *scanning, struct buf *names)
{
	size_t offset = 0;
	struct span name;
	uint32_t count = 0;
	while (store_name_next(buf_span(&scanning->scan.names), &offset, &name)) {
		/* Cells without a name are not of this door. */
		if (name.len == 0 || scanning->none ||
		    (scanning->matches && !resp_glob(scanning->match, name)))
			continue;
		resp_write_bulk(names, name);
		count++;
	}
	return count;
}

static void write_scan(struct resp_job *job, struct buf *out)
{
	struct resp_scanning *scanning = job->scanning;
	struct resp_door *door = job->task->door;
	char digits[TEXT_U64_MAX];
	struct buf names = { 0 };
	uint32_t count = 0;
	int error = scanning->scan.op.error;
	if (!error) {
		count = append_names(scanning, &names);
		error = names.failed;
	}
	if (error) {
		resp_write_store_error(door, out, error);
	} else {
		uint64_t cursor = tell_cursor(&door->shared->cursors, &scanning->scan);
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
