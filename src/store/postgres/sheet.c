/* sheet: see sheet.h. */
#include "store/postgres/sheet.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

void sheet_clear(struct sheet *sheet)
{
	arena_free(&sheet->arena);
	rows_clear(&sheet->claims);
	rows_clear(&sheet->cells);
	rows_clear(&sheet->tickets);
	rows_clear(&sheet->seen);
	sheet->events.count = sheet->notes.count = sheet->drops.count = 0;
	sheet->entry_count = 0;
	sheet->numbers = 0;
	sheet->short_of = sheet->all_at_once = sheet->any_due = sheet->any_closed = false;
	sheet->failed = 0;
}

void sheet_free(struct sheet *sheet)
{
	sheet_clear(sheet);
	rows_free(&sheet->claims);
	rows_free(&sheet->cells);
	rows_free(&sheet->tickets);
	rows_free(&sheet->seen);
	row_list_free(&sheet->events);
	row_list_free(&sheet->notes);
	row_list_free(&sheet->drops);
	sheet->entries = mem_free(sheet->entries);
	sheet->entry_room = 0;
}

struct ticket_row *sheet_ticket(const struct sheet *sheet, uint64_t ticket)
{
	struct row_key key = row_key_of_number(ticket);
	struct ticket_row *row = rows_find(&sheet->tickets, &key);
	return row && row->state != 0 && !row->closed ? row : NULL;
}

struct ticket_row *sheet_ticket_add(struct sheet *sheet, uint64_t ticket)
{
	struct row_key key = row_key_of_number(ticket);
	struct ticket_row *row = rows_add(&sheet->tickets, &key, sizeof(*row), &sheet->arena);
	if (row)
		row->ticket = ticket;
	else
		sheet->failed = -ENOMEM;
	return row;
}

struct seen_row *sheet_seen(struct sheet *sheet, uint64_t event)
{
	struct row_key key = row_key_of_number(event);
	struct seen_row *row = rows_add(&sheet->seen, &key, sizeof(*row), &sheet->arena);
	if (row)
		row->event = event;
	else
		sheet->failed = -ENOMEM;
	return row;
}

uint64_t sheet_window_ms(uint32_t window_s)
{
	unsigned bits = 32u - (unsigned)__builtin_clz(window_s | 1);
	unsigned shift = bits > 9 ? bits - 9 : 0;
	uint64_t below = (UINT64_C(1) << shift) - 1;
	return ((window_s + below) & ~below) * 1000;
}

/* ---- entering ---- */

static struct claim_row *want_claim(struct sheet *sheet, const struct claim *claim)
{
	uint32_t kind = claim->kind == CLAIM_NEWEST ? SHEET_ENTITY : SHEET_CLAIM;
	struct row_key key = row_key_of_digest(&claim->digest, kind);
	struct claim_row *row = rows_add(&sheet->claims, &key, sizeof(*row), &sheet->arena);
	if (!row)
		sheet->failed = -ENOMEM;
	return row;
}

static struct claim_row *enter_claim(struct sheet *sheet, const struct store_admit *admit,
                                     const struct claim *claim)
{
	struct claim_row *row = want_claim(sheet, claim);
	if (!row)
		return NULL;
	if (!row->wanted) {
		row->offset = sheet->numbers;
		row->window_ms = sheet_window_ms(claim->window_s);
		row->order = claim->order;
		row->check = digest_check(&claim->digest);
		row->wanted = true;
	}
	row->locked |= sheet->thorough || claim->kind == CLAIM_NEWEST ||
	               admit->on_conflict == STORE_CONFLICT_PASS;
	row->asked |= admit->busy_if_open;
	return row;
}

static bool may_be_aside(const struct store_admit *admit, const struct claim *claim)
{
	return admit->on_conflict == STORE_CONFLICT_ASIDE && !admit->no_ticket &&
	       claim->kind == CLAIM_ONCE && digest_check(&claim->digest) != 0;
}

static void enter_admit(struct sheet *sheet, struct entry *entry)
{
	const struct store_admit *admit = container_of(entry->op, struct store_admit, op);
	if (store_admit_check(admit) < 0)
		return;
	entry->offset = sheet->numbers;
	for (uint32_t i = 0; i < admit->claim_count; i++) {
		const struct claim *claim = &admit->claims[i];
		entry->claims[i] = enter_claim(sheet, admit, claim);
		if (sheet->thorough && may_be_aside(admit, claim)) {
			struct claim aside = store_aside_claim(claim);
			entry->asides[i] = enter_claim(sheet, admit, &aside);
		}
	}
	sheet->numbers += store_leg_count(admit);
}

static void enter_lookup(struct sheet *sheet, struct entry *entry)
{
	const struct store_lookup *lookup = container_of(entry->op, struct store_lookup, op);
	struct claim claim = { .digest = lookup->digest, .kind = (uint8_t)lookup->kind };
	entry->claims[0] = want_claim(sheet, &claim);
	if (entry->claims[0])
		entry->claims[0]->asked = true;
}

static struct cell_row *enter_cell(struct sheet *sheet, const struct digest *digest)
{
	struct row_key key = row_key_of_digest(digest, 0);
	struct cell_row *row = rows_add(&sheet->cells, &key, sizeof(*row), &sheet->arena);
	if (!row)
		sheet->failed = -ENOMEM;
	return row;
}

static void enter_cell_op(struct sheet *sheet, struct entry *entry)
{
	const struct store_cell *cell = container_of(entry->op, struct store_cell, op);
	if (store_cell_check(cell) < 0)
		return;
	struct cell_row *row = entry->cell = enter_cell(sheet, &cell->cell.digest);
	if (!row)
		return;
	row->put |= cell->act == STORE_CELL_PUT;
	row->locked |= cell->act != STORE_CELL_GET;
	row->value_wanted |= cell->want_value;
}

static void enter_ticket(struct sheet *sheet, uint64_t ticket)
{
	struct ticket_row *row = sheet_ticket_add(sheet, ticket);
	if (row)
		row->locked = true;
}

static void enter_settle(struct sheet *sheet, struct entry *entry)
{
	const struct store_settle *settle = container_of(entry->op, struct store_settle, op);
	enter_ticket(sheet, settle->ticket);
	if (!settle->answer || store_cell_value_check(settle->answer) < 0)
		return;
	entry->cell = enter_cell(sheet, &settle->answer->digest);
	if (entry->cell)
		entry->cell->put = entry->cell->locked = true;
}

/* Which event it is of is not known yet: all that could be its legs. */
static void enter_release(struct sheet *sheet, const struct store_release *release)
{
	enter_ticket(sheet, release->ticket);
	if (!release->whole_event)
		return;
	for (uint64_t i = 1; i < STORE_LEGS_MAX; i++) {
		enter_ticket(sheet, release->ticket + i);
		if (release->ticket > i)
			enter_ticket(sheet, release->ticket - i);
	}
}

static void enter_take(struct sheet *sheet, const struct store_take *take)
{
	enter_ticket(sheet, take->ticket);
	struct row_key key = row_key_of_number(take->ticket);
	struct ticket_row *row = rows_find(&sheet->tickets, &key);
	if (row)
		row->parts_wanted |= !take->without_payload;
}

static void enter_op(struct sheet *sheet, struct entry *entry)
{
	struct store_op *op = entry->op;

	switch (op->kind) {
	case STORE_ADMIT: enter_admit(sheet, entry); break;
	case STORE_LOOKUP: enter_lookup(sheet, entry); break;
	case STORE_CELL: enter_cell_op(sheet, entry); break;
	case STORE_SETTLE: enter_settle(sheet, entry); break;
	case STORE_NOTE:
		enter_ticket(sheet, container_of(op, struct store_note, op)->ticket);
		break;
	case STORE_RENEW:
		enter_ticket(sheet, container_of(op, struct store_renew, op)->ticket);
		break;
	case STORE_RELEASE: enter_release(sheet, container_of(op, struct store_release, op)); break;
	case STORE_TAKE: enter_take(sheet, container_of(op, struct store_take, op)); break;
	case STORE_READ:
	case STORE_SCAN:
	case STORE_WAIT:
	case STORE_HELD:
	case STORE_CELL_SCAN:
		CHECK(false); /* an operation that decides nothing */
		break;
	}
}

int sheet_enter(struct sheet *sheet, struct store_op *op)
{
	if (sheet->entry_count == sheet->entry_room) {
		uint32_t room = sheet->entry_room ? 2 * sheet->entry_room : 256;
		struct entry *entries = mem_realloc(sheet->entries, room * sizeof(*entries));
		if (!entries)
			return -ENOMEM;
		sheet->entries = entries;
		sheet->entry_room = room;
	}
	struct entry *entry = &sheet->entries[sheet->entry_count++];
	*entry = (struct entry){ .op = op };
	enter_op(sheet, entry);
	return sheet->failed;
}

/* ---- deciding ---- */

static int decide(struct sheet *sheet, const struct entry *entry)
{
	struct store_op *op = entry->op;

	switch (op->kind) {
	case STORE_ADMIT: return sheet_admit(sheet, entry);
	case STORE_LOOKUP: return sheet_lookup(sheet, entry);
	case STORE_CELL: return sheet_cell(sheet, entry);
	case STORE_SETTLE: return sheet_settle(sheet, entry);
	case STORE_NOTE: return sheet_note(sheet, container_of(op, struct store_note, op));
	case STORE_RENEW: return sheet_renew(sheet, container_of(op, struct store_renew, op));
	case STORE_RELEASE: return sheet_release(sheet, container_of(op, struct store_release, op));
	case STORE_TAKE: return sheet_take_one(sheet, container_of(op, struct store_take, op));
	case STORE_READ:
	case STORE_SCAN:
	case STORE_WAIT:
	case STORE_HELD:
	case STORE_CELL_SCAN: break;
	}
	return ERR_INVALID;
}

void sheet_decide(struct sheet *sheet)
{
	sheet->next = sheet->first;
	for (uint32_t i = 0; i < sheet->entry_count && !sheet->short_of && !sheet->failed; i++)
		sheet->entries[i].op->error = decide(sheet, &sheet->entries[i]);
}
