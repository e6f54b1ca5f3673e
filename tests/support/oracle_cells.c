/*
 * oracle_cells: cells of the oracle; see oracle.h.
 *
 * Of each cell it is written down what it was at the last answer, and what it may have
 * become since by operations without an answer, or with an error. Only what does not
 * depend on what is there is done to a cell of which that is not known.
 *
 * An outcome that closes a leg of some events is given an answer: it is there if, and only
 * if, the outcome is.
 */
#include <string.h>

#include "support/oracle_internal.h"
#include "support/store_calls.h"

#define GROUP 32u

static struct digest cell_digest(uint32_t index)
{
	return digest_with_check(oracle_digest(UINT64_C(1) << 42 | index), 0);
}

/* Some values are the same, as they are where claims are kept as cells. */
static struct span value_of(uint32_t value)
{
	uint32_t len = value % 9 == 0 ? 700 + value % 1500 : value % 60;

	return value % 3 == 0 ? SPAN("PROCESSED") : oracle_bytes(value * 37 % 8000, len);
}

static bool is_there(const struct oracle_cell_state *state, uint64_t now_ms)
{
	return state->value != 0 && (state->expiry_ms == 0 || state->expiry_ms > now_ms);
}

static bool matches(const struct oracle_cell_state *state, const struct store_cell *got)
{
	if (!is_there(state, got->now_ms))
		return !got->found;
	return got->found && got->expiry_ms == state->expiry_ms &&
	       span_eq(buf_span(&got->value), value_of(state->value));
}

/* Which of the states it may have is this? */
static uint32_t state_find(struct oracle *oracle, const struct oracle_cell *cell,
                           const struct store_cell *got)
{
	uint32_t i = 0;

	while (i < cell->count && !matches(&cell->states[i], got))
		i++;
	if (i == cell->count)
		fail_msg("%s, %s, step %llu: cell %u is %s, which it cannot be",
		         test_note_seed(oracle->seed), oracle->about,
		         (unsigned long long)oracle->step, (unsigned)(cell - oracle->cells),
		         got->found ? "there" : "not there");
	return i;
}

/* ---- operations ---- */

/* It is acknowledged: what was before does not matter any more, if it was changed. What
 * changed nothing has written nothing: so what was lost before it may still be found by a
 * start, as every event of unknown fate. (It may be told after others that came later.) */
static void settle_state(struct oracle_cell *cell, uint32_t serial, bool changed)
{
	uint32_t i = 0;

	while (i < cell->count && cell->states[i].serial != serial)
		i++;
	if (i == cell->count)
		return;
	uint32_t to = changed ? 0 : i, from = changed ? i : i + 1;
	memmove(cell->states + to, cell->states + from,
	        (cell->count - from) * sizeof(cell->states[0]));
	cell->count -= from - to;
}

static void cell_done(struct store_op *op)
{
	struct oracle_op *own = op->user;
	struct oracle *oracle = own->oracle;
	struct oracle_cell *cell = &oracle->cells[own->event];
	struct store_cell *got = &own->cell;
	struct oracle_cell_state was = own->before;

	own->pending = false;
	cell->pending--;
	oracle_answered(oracle, op->error);
	if (op->error == 0 && got->act == STORE_CELL_GET)
		EXPECT(oracle, matches(&was, got));
	buf_free(&got->value);
	if (op->error < 0 || got->act == STORE_CELL_GET)
		return;
	oracle->cell_changes += got->changed;
	bool there = is_there(&was, got->now_ms);
	bool conditional = got->act == STORE_CELL_EXPIRE || got->when == STORE_IF_ABSENT;
	if (conditional) {
		EXPECT(oracle, got->found == there);
		EXPECT(oracle, got->changed == (there == (got->act == STORE_CELL_EXPIRE)));
		EXPECT(oracle, !there || got->expiry_ms == was.expiry_ms);
	}
	settle_state(cell, own->after.serial, got->changed);
}

static void act_choose(struct oracle *oracle, const struct oracle_cell *known,
                       struct store_cell *op)
{
	bool certain = known->count == 1 && known->pending == 0;
	uint64_t dice = oracle_below(oracle, certain ? 10 : 6);

	op->act = dice < 4    ? STORE_CELL_PUT
	          : dice < 6  ? STORE_CELL_REMOVE
	          : dice == 6 ? STORE_CELL_GET
	          : dice < 8  ? STORE_CELL_EXPIRE
	                      : STORE_CELL_PUT;
	op->when = dice >= 8 ? STORE_IF_ABSENT : STORE_ALWAYS;
	op->want_value = op->act == STORE_CELL_GET;
}

/* What it is if this is done. */
static struct oracle_cell_state state_after(struct oracle *oracle, const struct store_cell *op,
                                            const struct oracle_cell_state *before)
{
	struct oracle_cell_state after = { .serial = ++oracle->cell_serial };
	uint64_t now_ms = oracle->clock->now.wall_ms;

	if (op->act == STORE_CELL_REMOVE)
		return after;
	after.value = op->act == STORE_CELL_EXPIRE ? before->value : oracle->cell_serial;
	if (oracle_below(oracle, 3))
		after.expiry_ms = now_ms + 1 + oracle_below(oracle, 30000);
	return after;
}

void oracle_cell(struct oracle *oracle, struct store *store)
{
	uint32_t index = (uint32_t)oracle_below(oracle, ORACLE_CELLS);
	struct oracle_cell *cell = &oracle->cells[index];

	if (cell->count == 0)
		cell->count = 1; /* not there */
	if (cell->count == ORACLE_CELL_STATES)
		return;
	struct oracle_op *own = oracle_op_begin(oracle);
	own->event = index;
	own->op.kind = STORE_CELL;
	own->op.done = cell_done;
	act_choose(oracle, cell, &own->cell);
	own->before = cell->states[0];
	own->cell.cell.digest = cell_digest(index);
	own->cell.cell.name = SPAN("cell");
	if (own->cell.act != STORE_CELL_GET) {
		own->after = state_after(oracle, &own->cell, &own->before);
		own->cell.cell.expiry_ms = own->after.expiry_ms;
		own->cell.cell.value = value_of(own->after.value);
		cell->states[cell->count++] = own->after;
	}
	cell->pending++;
	store_submit(store, &own->op);
}

/* ---- answers of outcomes ---- */

static struct store_cell_value answer_make(uint32_t event, uint32_t leg)
{
	uint32_t id = event * ORACLE_LEGS_MAX + leg;

	return (struct store_cell_value){ .digest = cell_digest(1000 + id),
		                          .name = SPAN("answer"),
		                          .value = value_of(1 + id) };
}

void oracle_answer(struct oracle_op *own, struct oracle_leg *leg)
{
	if (own->event % ORACLE_ANSWER_EVERY != 0 || leg->outcome != ORACLE_SETTLING)
		return;
	own->answer = answer_make(own->event, own->leg);
	own->settle.answer = &own->answer;
	leg->answer_maybe = true;
}

/* ---- checking ---- */

struct look {
	struct store_cell cell;
	bool finished;
	uint32_t event, leg;
};

static void look_begin(struct store *store, struct look *look, const struct digest *digest)
{
	*look = (struct look){ .cell = { .act = STORE_CELL_GET, .want_value = true } };
	look->cell.op = (struct store_op){ .kind = STORE_CELL,
		                           .done = store_calls_done,
		                           .user = &look->finished };
	look->cell.cell.digest = *digest;
	store_submit(store, &look->cell.op);
}

static void cells_check(struct oracle *oracle, struct store *store)
{
	struct look looks[ORACLE_CELLS];

	for (uint32_t i = 0; i < ORACLE_CELLS; i++) {
		struct digest digest = cell_digest(i);
		look_begin(store, &looks[i], &digest);
	}
	store_calls_flush(store);
	for (uint32_t i = 0; i < ORACLE_CELLS; i++) {
		struct oracle_cell *cell = &oracle->cells[i];
		struct store_cell *got = &looks[i].cell;
		EXPECT(oracle, looks[i].finished && got->op.error == 0);
		cell->count += cell->count == 0;
		cell->states[0] = cell->states[state_find(oracle, cell, got)];
		cell->count = 1;
		cell->pending = 0;
		buf_free(&got->value);
	}
}

static void answers_end(struct oracle *oracle, struct store *store, struct look *looks,
                        uint32_t count)
{
	store_calls_flush(store);
	for (uint32_t i = 0; i < count; i++) {
		const struct oracle_event *event = &oracle->events[looks[i].event];
		struct oracle_leg leg = event->legs[looks[i].leg];
		const struct store_cell *got = &looks[i].cell;
		struct store_cell_value answer = answer_make(looks[i].event, looks[i].leg);
		EXPECT_OF(oracle, event, looks[i].finished && got->op.error == 0);
		EXPECT_OF(oracle, event, got->found || !leg.answered);
		EXPECT_OF(oracle, event, !got->found || leg.answer_maybe);
		EXPECT_OF(oracle, event, !got->found || !leg.open);
		if (got->found)
			EXPECT_OF(oracle, event, span_eq(buf_span(&got->value), answer.value));
		/* Closed by its outcome, and by nothing else: then with the answer. */
		if (!leg.open && leg.hold == ORACLE_FREE && leg.answer_maybe)
			EXPECT_OF(oracle, event, got->found || event->fate != ORACLE_KEPT);
		buf_free(&looks[i].cell.value);
	}
}

static void answers_check(struct oracle *oracle, struct store *store)
{
	struct look looks[GROUP];
	uint32_t count = 0;

	for (uint32_t i = 0; i < oracle->count; i += ORACLE_ANSWER_EVERY) {
		for (uint32_t leg = 0; leg < oracle_legs(&oracle->events[i]); leg++) {
			struct digest digest = answer_make(i, leg).digest;
			look_begin(store, &looks[count], &digest);
			looks[count].event = i;
			looks[count].leg = leg;
			if (++count == GROUP) {
				answers_end(oracle, store, looks, count);
				count = 0;
			}
		}
	}
	answers_end(oracle, store, looks, count);
}

void oracle_cells_check(struct oracle *oracle, struct store *store)
{
	cells_check(oracle, store);
	answers_check(oracle, store);
}
