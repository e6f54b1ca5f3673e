/* decide_cell: cells on a sheet. See sheet.h. */
#include "base/error.h"
#include "store/postgres/sheet.h"

static bool is_over(const struct sheet *sheet, const struct cell_row *row)
{
	return row->expiry != 0 && row->expiry <= sheet->now_ms;
}

void sheet_cell_put(struct sheet *sheet, struct cell_row *row, const struct store_cell_value *value)
{
	CHECK(row && row->locked);
	row->expiry = store_cell_expiry(value, sheet->now_ms, row->live ? row->expiry : 0);
	row->name = value->name;
	row->value = value->value;
	row->rewritten = true;
	row->live = !is_over(sheet, row);
}

static void change(struct sheet *sheet, struct cell_row *row, struct store_cell *cell)
{
	uint64_t expiry = store_cell_expiry(&cell->cell, sheet->now_ms, row->expiry);

	cell->changed = cell->act == STORE_CELL_REMOVE ||
	                store_when_moves(cell->when, row->expiry, expiry);
	if (cell->act == STORE_CELL_REMOVE)
		row->live = false;
	if (cell->act == STORE_CELL_REMOVE || !cell->changed)
		return;
	row->expiry = expiry;
	row->moved = true;
	row->live = !is_over(sheet, row);
}

int sheet_cell(struct sheet *sheet, const struct entry *entry)
{
	struct store_cell *cell = container_of(entry->op, struct store_cell, op);
	struct cell_row *row = entry->cell;
	int error = store_cell_check(cell);

	if (error < 0)
		return error;
	cell->now_ms = sheet->now_ms;
	buf_clear(&cell->value);
	cell->found = row->live;
	cell->changed = false;
	cell->expiry_ms = row->live ? row->expiry : 0;
	if (row->live && cell->want_value) {
		if (buf_reserve(&cell->value, row->value.len) < 0)
			return ERR_FULL;
		buf_append_span(&cell->value, row->value);
	}
	if (cell->act == STORE_CELL_PUT && store_when_holds(cell->when, cell->found)) {
		sheet_cell_put(sheet, row, &cell->cell);
		cell->changed = true;
	} else if (row->live &&
	           (cell->act == STORE_CELL_EXPIRE || cell->act == STORE_CELL_REMOVE)) {
		change(sheet, row, cell);
	}
	return 0;
}
