/*
 * lane_wish: that a sink is paused, or disabled, is written down. See lane_private.h.
 *
 * It is a cell of the store, so a restart knows it, and so do the other nodes of a shared
 * store, which look from time to time. Nothing is taken before it was read.
 */
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "deliver/lane_private.h"

#define LOOK_MS 5000u /* with a shared store */

static const struct span paused_word = { "paused", 6 };
static const struct span disabled_word = { "disabled", 8 };

static struct store_cell_value cell_of(struct lane *lane)
{
	static const unsigned char key[HASH_KEY_LEN] = "stile sinkstate";
	struct lane_wish *wish = &lane->wish;
	struct store_cell_value cell = { 0 }; /* without a name: scans do not tell of it */
	hash_keyed128(key, wish->name, wish->name_len, cell.digest.word);
	cell.digest = digest_with_check(cell.digest, 0);
	return cell;
}

void lane_wish_init(struct lane *lane)
{
	struct buf name = buf_on(lane->wish.name, sizeof(lane->wish.name));
	buf_append_span(&name, SPAN("sink-state:"));
	buf_append_span(&name, span_str(lane->name));
	CHECK(!name.failed);
	lane->wish.name_len = (uint32_t)name.len;
}

static void submit(struct lane *lane, enum store_cell_act act, void (*done)(struct store_op *op))
{
	struct lane_wish *wish = &lane->wish;
	wish->under_way = true;
	wish->op.op = (struct store_op){ .kind = STORE_CELL, .done = done, .user = lane };
	wish->op.act = act;
	wish->op.when = STORE_ALWAYS;
	wish->op.want_value = act == STORE_CELL_GET;
	wish->op.cell = cell_of(lane);
	wish->op.cell.value = act == STORE_CELL_PUT ? span_of(wish->value, wish->value_len)
	                                            : SPAN_EMPTY;
	lane_submit(lane, &wish->op.op, true);
}

/* It is back. True: it was of another name, and is asked anew. */
static bool is_over(struct lane_wish *wish)
{
	bool renamed = wish->renamed;
	wish->under_way = false;
	wish->renamed = false;
	return renamed;
}

/* When something is to be done next; what was decided meanwhile is written at once. */
static uint64_t next_ms(const struct lane *lane, int error)
{
	if (error != 0)
		return lane->now_ms + LANE_RETRY_MS;
	return lane->wish.dirty ? 0 : lane->now_ms + LOOK_MS;
}

/* ---- reading ---- */

static bool has(struct span value, struct span word)
{
	return value.len > 0 && memmem(value.ptr, value.len, word.ptr, word.len) != NULL;
}

/* What another node, or the life before, has written. */
static void take_over(struct lane *lane, struct span value)
{
	bool paused = has(value, paused_word), disabled = has(value, disabled_word);
	if (paused == lane->paused && disabled == lane->disabled)
		return;
	lane->paused = paused;
	lane->disabled = disabled;
	if (paused || disabled)
		log_warn("a sink gets nothing until someone resumes it",
		         log_str("sink", lane->name), log_span("state", value));
	else
		lane_go(lane);
}

static void read_done(struct store_op *op)
{
	struct lane *lane = op->user;
	struct lane_wish *wish = &lane->wish;
	struct span value = wish->op.found ? buf_span(&wish->op.value) : SPAN_EMPTY;
	if (is_over(wish))
		return;
	wish->at_ms = next_ms(lane, op->error);
	if (op->error == 0 && !wish->dirty)
		take_over(lane, value);
	if (op->error != 0 && op->error != ERR_CLOSING && !wish->known)
		log_error("whether a sink is paused is not known yet; it gets nothing",
		          log_str("sink", lane->name), log_code(op->error));
	wish->known |= op->error == 0;
}

/* ---- writing ---- */

static void write_done(struct store_op *op)
{
	struct lane *lane = op->user;
	struct lane_wish *wish = &lane->wish;
	if (is_over(wish))
		return;
	wish->at_ms = next_ms(lane, op->error);
	if (op->error == 0) {
		wish->failed = false;
		return;
	}
	wish->dirty = true;
	if (!wish->failed && op->error != ERR_CLOSING)
		log_warn("the state of a sink could not be written down yet; a restart would "
		         "forget it",
		         log_str("sink", lane->name), log_code(op->error));
	wish->failed = true;
}

static void write_state(struct lane *lane)
{
	struct lane_wish *wish = &lane->wish;
	struct buf value = buf_on(wish->value, sizeof(wish->value));
	wish->dirty = false;
	if (lane->paused)
		buf_append_span(&value, paused_word);
	if (lane->paused && lane->disabled)
		buf_append_char(&value, ',');
	if (lane->disabled)
		buf_append_span(&value, disabled_word);
	CHECK(!value.failed);
	wish->value_len = (uint32_t)value.len;
	submit(lane, value.len > 0 ? STORE_CELL_PUT : STORE_CELL_REMOVE, write_done);
}

void lane_wish_changed(struct lane *lane)
{
	lane->wish.dirty = true;
	lane->wish.at_ms = 0;
}

void lane_wish_renamed(struct lane *lane)
{
	struct lane_wish *wish = &lane->wish;
	lane_wish_init(lane);
	lane->paused = lane->disabled = false; /* not known, so nothing starts */
	wish->known = wish->dirty = wish->failed = false;
	wish->renamed = wish->under_way;
	wish->at_ms = 0;
}

bool lane_wish_written(const struct lane *lane)
{
	const struct lane_wish *wish = &lane->wish;
	return !wish->under_way && (!wish->dirty || wish->failed);
}

void lane_wish_run(struct lane *lane)
{
	struct lane_wish *wish = &lane->wish;
	bool looks = !wish->known || lane->lease_ms > 0;
	if (wish->under_way || lane->now_ms < wish->at_ms)
		return;
	if (wish->dirty)
		write_state(lane);
	else if (looks && !lane->stopping)
		submit(lane, STORE_CELL_GET, read_done);
}

uint64_t lane_wish_next_ms(const struct lane *lane)
{
	const struct lane_wish *wish = &lane->wish;
	bool waits = wish->dirty || !wish->known || lane->lease_ms > 0;
	return waits && !wish->under_way ? wish->at_ms : UINT64_MAX;
}

void lane_wish_free(struct lane *lane)
{
	CHECK(!lane->wish.under_way);
	buf_free(&lane->wish.op.value);
}
