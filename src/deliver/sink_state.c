/*
 * sink_state: whether a sink is paused or disabled, saved in the store. See lane_private.h.
 *
 * The state is a cell of the store. So it survives a restart, and the other gateways of a
 * shared store see it: they read it every few seconds. Nothing is taken before it was read.
 */
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "deliver/lane_private.h"

#define LOOK_MS 5000u /* with a shared store */

static const struct span paused_word = { "paused", 6 };
static const struct span disabled_word = { "disabled", 8 };

void sink_state_init(struct lane *lane)
{
	struct buf name = buf_on(lane->saved.name, sizeof(lane->saved.name));
	buf_append_span(&name, SPAN("sink-state:"));
	buf_append_span(&name, span_str(lane->name));
	CHECK(!name.failed);
	lane->saved.name_len = (uint32_t)name.len;
}

static void submit(struct lane *lane, enum store_cell_act act, void (*done)(struct store_op *op))
{
	static const unsigned char key[HASH_KEY_LEN] = "stile sinkstate";
	struct sink_state *saved = &lane->saved;
	struct store_cell_value cell = { 0 }; /* without a name: scans do not list it */
	hash_keyed128(key, saved->name, saved->name_len, cell.digest.word);
	cell.digest = digest_with_check(cell.digest, 0);
	if (act == STORE_CELL_PUT)
		cell.value = span_of(saved->value, saved->value_len);
	saved->under_way = true;
	saved->op.op = (struct store_op){ .kind = STORE_CELL, .done = done, .user = lane };
	saved->op.act = act;
	saved->op.when = STORE_ALWAYS;
	saved->op.want_value = act == STORE_CELL_GET;
	saved->op.cell = cell;
	lane_submit(lane, &saved->op.op, true);
}

/* It is back. True: it was of another name, and is asked anew. */
static bool is_over(struct sink_state *saved)
{
	bool renamed = saved->renamed;
	saved->under_way = false;
	saved->renamed = false;
	return renamed;
}

/* When something is to be done next; what was decided meanwhile is written at once. */
static uint64_t next_ms(const struct lane *lane, int error)
{
	if (error != 0)
		return lane->now_ms + LANE_RETRY_MS;
	return lane->saved.dirty ? 0 : lane->now_ms + LOOK_MS;
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
		log_warn("sink is paused or disabled: it receives nothing until it is resumed",
		         log_str("sink", lane->name), log_span("state", value));
	else
		lane_go(lane);
}

static void read_done(struct store_op *op)
{
	struct lane *lane = op->user;
	struct sink_state *saved = &lane->saved;
	struct span value = saved->op.found ? buf_span(&saved->op.value) : SPAN_EMPTY;
	if (is_over(saved))
		return;
	saved->at_ms = next_ms(lane, op->error);
	if (op->error == 0 && !saved->dirty)
		take_over(lane, value);
	if (op->error != 0 && op->error != ERR_CLOSING && !saved->known)
		log_error("sink state cannot be read yet: the sink receives nothing",
		          log_str("sink", lane->name), log_code(op->error));
	saved->known |= op->error == 0;
}

/* ---- writing ---- */

static void write_done(struct store_op *op)
{
	struct lane *lane = op->user;
	struct sink_state *saved = &lane->saved;
	if (is_over(saved))
		return;
	saved->at_ms = next_ms(lane, op->error);
	if (op->error == 0) {
		saved->failed = false;
		return;
	}
	saved->dirty = true;
	if (!saved->failed && op->error != ERR_CLOSING)
		log_warn("sink state not saved yet: a restart would forget it",
		         log_str("sink", lane->name), log_code(op->error));
	saved->failed = true;
}

void sink_state_changed(struct lane *lane)
{
	lane->saved.dirty = true;
	lane->saved.at_ms = 0;
}

void sink_state_renamed(struct lane *lane)
{
	CHECK(!lane->running);
	struct sink_state *saved = &lane->saved;
	sink_state_init(lane);
	lane->paused = lane->disabled = false; /* not known, so nothing starts */
	saved->known = saved->dirty = saved->failed = false;
	saved->renamed = saved->under_way;
	saved->at_ms = 0;
}

bool lane_is_state_saved(const struct lane *lane)
{
	const struct sink_state *saved = &lane->saved;
	return !saved->under_way && (!saved->dirty || saved->failed);
}

void sink_state_run(struct lane *lane)
{
	CHECK(lane->running);
	struct sink_state *saved = &lane->saved;
	bool looks = !saved->known || lane->lease_ms > 0;
	if (saved->under_way || lane->now_ms < saved->at_ms)
		return;
	if (!saved->dirty) {
		if (looks && lane->life != LANE_STOPPING)
			submit(lane, STORE_CELL_GET, read_done);
		return;
	}
	struct buf value = buf_on(saved->value, sizeof(saved->value));
	saved->dirty = false;
	if (lane->paused)
		buf_append_span(&value, paused_word);
	if (lane->paused && lane->disabled)
		buf_append_char(&value, ',');
	if (lane->disabled)
		buf_append_span(&value, disabled_word);
	CHECK(!value.failed);
	saved->value_len = (uint32_t)value.len;
	submit(lane, value.len > 0 ? STORE_CELL_PUT : STORE_CELL_REMOVE, write_done);
}

uint64_t sink_state_next_ms(const struct lane *lane)
{
	const struct sink_state *saved = &lane->saved;
	bool waits = saved->dirty || !saved->known || lane->lease_ms > 0;
	return waits && !saved->under_way ? saved->at_ms : UINT64_MAX;
}
