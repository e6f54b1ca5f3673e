/* decide_ticket: outcomes, notes, leases and releases on a sheet. See sheet.h. */
#include <string.h>

#include "base/error.h"
#include "store/postgres/sheet.h"

void sheet_note_add(struct sheet *sheet, struct ticket_row *ticket, const struct note_row *note)
{
	struct note_row *row = arena_alloc(&sheet->arena, sizeof(*row));

	if (!row || row_list_add(&sheet->notes, row) < 0) {
		sheet->failed = -ENOMEM;
		return;
	}
	*row = *note;
	row->ticket = ticket->ticket;
	row->at = sheet->now_ms;
	row->text = store_text_cut(note->text);
	ticket->last = note->mark;
	ticket->status = note->status;
	ticket->changed = true;
}

static void note_drop(struct sheet *sheet, uint64_t event)
{
	struct drop_row *row = arena_alloc(&sheet->arena, sizeof(*row));

	if (!row || row_list_add(&sheet->drops, row) < 0) {
		sheet->failed = -ENOMEM;
		return;
	}
	row->event = event;
}

static struct ticket_row *leased(const struct sheet *sheet, uint64_t ticket, uint32_t attempt)
{
	struct ticket_row *row = sheet_ticket(sheet, ticket);

	return row && row->state == STORE_STATE_LEASED && row->attempt == attempt ? row : NULL;
}

static void set_state(struct sheet *sheet, struct ticket_row *row, enum store_state state)
{
	row->state = state;
	row->changed = true;
	sheet->any_due |= state == STORE_STATE_DUE;
	sheet->any_closed |= !store_state_pending(state);
}

static void close_ticket(struct sheet *sheet, struct ticket_row *row)
{
	row->closed = true;
	sheet->any_closed = true;
}

int sheet_note(struct sheet *sheet, const struct store_note *note)
{
	struct ticket_row *row = leased(sheet, note->ticket, note->attempt);
	bool started = note->mark == STORE_MARK_STARTED;

	if (!store_mark_valid(note->mark))
		return ERR_INVALID;
	if (!row)
		return ERR_FENCED;
	sheet_note_add(sheet, row,
	               &(struct note_row){ .mark = note->mark,
	                                   .status = note->status,
	                                   .attempt = note->attempt,
	                                   .due = started ? 0 : note->due_ms,
	                                   .text = note->text });
	row->used = note->attempt;
	if (started)
		return 0;
	row->attempt = store_attempt_next((uint32_t)row->attempt);
	row->due = note->due_ms;
	return 0;
}

static void settle_aside(struct sheet *sheet, struct ticket_row *row,
                         const struct store_settle *settle)
{
	bool dead = settle->outcome == OUTCOME_DEAD;

	sheet_note_add(sheet, row,
	               &(struct note_row){ .mark = dead ? STORE_MARK_DEAD : STORE_MARK_PARKED,
	                                   .status = settle->status,
	                                   .attempt = settle->attempt,
	                                   .text = settle->text });
	row->due = sheet->now_ms;
	set_state(sheet, row, dead ? STORE_STATE_DEAD : STORE_STATE_PARKED);
}

static int check_settle(const struct store_settle *settle)
{
	if (settle->answer) {
		int error = store_cell_value_check(settle->answer);
		if (error < 0)
			return error;
	}
	return store_outcome_valid(settle->outcome) ? 0 : ERR_INVALID;
}

int sheet_settle(struct sheet *sheet, const struct entry *entry)
{
	const struct store_settle *settle = container_of(entry->op, struct store_settle, op);
	struct ticket_row *row = leased(sheet, settle->ticket, settle->attempt);
	bool forget = settle->outcome == OUTCOME_DEAD && settle->forget;

	int error = check_settle(settle);
	if (error < 0)
		return error;
	if (!row)
		return ERR_FENCED;
	row->used = settle->attempt;
	if (settle->outcome == OUTCOME_RELEASED) {
		row->due = settle->due_ms;
		set_state(sheet, row, STORE_STATE_DUE);
	} else if (settle->outcome == OUTCOME_DONE || forget) {
		close_ticket(sheet, row);
	} else {
		settle_aside(sheet, row, settle);
	}
	if (forget)
		note_drop(sheet, row->event);
	if (settle->answer)
		sheet_cell_put(sheet, entry->cell, settle->answer);
	return 0;
}

static bool is_meant(const struct ticket_row *row, const struct store_release *op)
{
	return row && store_release_states(op) & 1u << row->state;
}

static void release(struct sheet *sheet, struct ticket_row *row, bool drop)
{
	if (drop) {
		close_ticket(sheet, row);
		note_drop(sheet, row->event);
		return;
	}
	if (row->state == STORE_STATE_PARKED || row->state == STORE_STATE_DEAD)
		sheet_note_add(sheet, row,
		               &(struct note_row){ .mark = STORE_MARK_RELEASED,
		                                   .attempt = row->attempt });
	row->due = 0;
	row->used = row->attempt;
	set_state(sheet, row, STORE_STATE_DUE);
}

int sheet_release(struct sheet *sheet, const struct store_release *op)
{
	struct ticket_row *row = sheet_ticket(sheet, op->ticket);
	int error = ERR_FENCED;

	if (!op->whole_event) {
		if (!is_meant(row, op))
			return ERR_FENCED;
		release(sheet, row, op->drop);
		return 0;
	}
	/* The ticket itself may be closed: it is then the event's, or one of its legs. */
	uint64_t event = row ? row->event : op->ticket;
	for (uint64_t leg = event; leg < event + STORE_LEGS_MAX; leg++) {
		row = sheet_ticket(sheet, leg);
		if (!is_meant(row, op) || row->event != event)
			continue;
		release(sheet, row, op->drop);
		error = 0;
	}
	return error;
}

static uint64_t lease_end(const struct sheet *sheet, uint32_t lease_ms)
{
	return lease_ms ? sheet->now_ms + lease_ms : 0;
}

int sheet_renew(struct sheet *sheet, const struct store_renew *renew)
{
	struct ticket_row *row = leased(sheet, renew->ticket, renew->attempt);
	uint32_t lease_ms;

	if (!row || !store_renew_lease(renew, sheet->now_ms, &lease_ms))
		return ERR_FENCED;
	row->lease = lease_end(sheet, lease_ms);
	if (lease_ms == 0)
		row->node = sheet->node;
	row->changed = true;
	return 0;
}

static int append_taken(struct store_take *take, const struct ticket_row *row)
{
	static const struct store_parts none = { 0 };
	const struct store_parts *parts = take->without_payload ? &none : &row->parts;
	struct store_item item = { .ticket = row->ticket,
		                   .event = row->event,
		                   .order = row->order,
		                   .due_ms = row->due,
		                   .sink = (uint32_t)row->sink,
		                   .attempt = (uint32_t)row->attempt,
		                   .flags = take->without_payload ? 0 : row->flags,
		                   .state = STORE_STATE_LEASED,
		                   .last = (uint8_t)row->last,
		                   .status = (uint16_t)row->status,
		                   .bare = take->without_payload };
	return store_item_append(&take->items, &item, parts);
}

int sheet_take_one(struct sheet *sheet, struct store_take *take)
{
	struct ticket_row *row = sheet_ticket(sheet, take->ticket);

	buf_clear(&take->items);
	take->count = 0;
	take->now_ms = sheet->now_ms;
	if (!row || row->state != STORE_STATE_DUE || row->sink != take->sink ||
	    row->due > sheet->now_ms)
		return 0;
	row->attempt = store_attempt_next((uint32_t)row->attempt);
	/* As it was taken: what it was told before is the last that is known of it. */
	if (append_taken(take, row) < 0) {
		sheet->failed = -ENOMEM;
		return ERR_FULL;
	}
	take->count = 1;
	row->used = row->attempt;
	row->lease = lease_end(sheet, take->lease_ms);
	row->node = take->lease_ms ? 0 : sheet->node;
	set_state(sheet, row, STORE_STATE_LEASED);
	sheet_note_add(sheet, row,
	               &(struct note_row){ .mark = STORE_MARK_STARTED, .attempt = row->attempt });
	return 0;
}
