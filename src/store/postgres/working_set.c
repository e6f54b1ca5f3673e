/* working set: see working set.h. */
#include "store/postgres/working_set.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

void working_set_clear(struct working_set *set)
{
	arena_free(&set->arena);
	rows_clear(&set->claims);
	rows_clear(&set->cells);
	rows_clear(&set->tickets);
	rows_clear(&set->seen);
	set->events.count = set->notes.count = set->drops.count = 0;
	set->entry_count = 0;
	set->numbers = 0;
	set->incomplete = set->sent_as_new = set->any_due = set->any_closed = false;
	set->failed = 0;
}

void working_set_free(struct working_set *set)
{
	working_set_clear(set);
	rows_free(&set->claims);
	rows_free(&set->cells);
	rows_free(&set->tickets);
	rows_free(&set->seen);
	row_list_free(&set->events);
	row_list_free(&set->notes);
	row_list_free(&set->drops);
	set->entries = mem_free(set->entries);
	set->entry_room = 0;
}

struct ticket_row *working_set_ticket(const struct working_set *set, uint64_t ticket)
{
	struct row_key key = row_key_of_number(ticket);
	struct ticket_row *row = rows_find(&set->tickets, &key);
	return row && row->state != 0 && !row->closed ? row : NULL;
}

static void *add_row(struct working_set *set, struct rows *rows, struct row_key key, size_t size)
{
	void *row = rows_add(rows, &key, size, &set->arena);

	if (!row)
		set->failed = -ENOMEM;
	return row;
}

struct ticket_row *working_set_ticket_add(struct working_set *set, uint64_t ticket)
{
	struct ticket_row *row = add_row(set, &set->tickets, row_key_of_number(ticket),
	                                 sizeof(*row));

	if (row)
		row->ticket = ticket;
	return row;
}

struct seen_row *working_set_seen(struct working_set *set, uint64_t event)
{
	struct seen_row *row = add_row(set, &set->seen, row_key_of_number(event), sizeof(*row));

	if (row)
		row->event = event;
	return row;
}

uint64_t working_set_window_ms(uint32_t window_s)
{
	unsigned bits = 32u - (unsigned)__builtin_clz(window_s | 1);
	unsigned shift = bits > 9 ? bits - 9 : 0;
	uint64_t below = (UINT64_C(1) << shift) - 1;
	return ((window_s + below) & ~below) * 1000;
}

/* ---- entering ---- */

static struct claim_row *want_claim(struct working_set *set, const struct digest *digest,
                                    bool newest)
{
	uint32_t kind = newest ? KEY_OF_ENTITY : KEY_OF_CLAIM;

	return add_row(set, &set->claims, row_key_of_digest(digest, kind),
	               sizeof(struct claim_row));
}

static struct claim_row *enter_claim(struct working_set *set, const struct store_admit *admit,
                                     const struct claim *claim)
{
	struct claim_row *row = want_claim(set, &claim->digest, claim->kind == CLAIM_NEWEST);

	if (!row)
		return NULL;
	if (!row->wanted) {
		row->offset = set->numbers;
		row->window_ms = working_set_window_ms(claim->window_s);
		row->order = claim->order;
		row->check = digest_check(&claim->digest);
		row->wanted = true;
	}
	row->locked |= set->lock_all || claim->kind == CLAIM_NEWEST ||
	               admit->on_conflict == STORE_CONFLICT_PASS;
	row->asked |= admit->busy_if_open;
	return row;
}

static bool may_be_aside(const struct store_admit *admit, const struct claim *claim)
{
	return admit->on_conflict == STORE_CONFLICT_ASIDE && !admit->no_ticket &&
	       claim->kind == CLAIM_ONCE && digest_check(&claim->digest) != 0;
}

static void enter_admit(struct working_set *set, struct entry *entry)
{
	const struct store_admit *admit = container_of(entry->op, struct store_admit, op);
	if (store_admit_check(admit) < 0)
		return;
	entry->offset = set->numbers;
	for (uint32_t i = 0; i < admit->claim_count; i++) {
		const struct claim *claim = &admit->claims[i];
		entry->claims[i] = enter_claim(set, admit, claim);
		if (set->lock_all && may_be_aside(admit, claim)) {
			struct claim aside = store_aside_claim(claim);
			entry->asides[i] = enter_claim(set, admit, &aside);
		}
	}
	set->numbers += store_leg_count(admit);
}

static void enter_lookup(struct working_set *set, struct entry *entry)
{
	const struct store_lookup *lookup = container_of(entry->op, struct store_lookup, op);

	entry->claims[0] = want_claim(set, &lookup->digest, lookup->kind == CLAIM_NEWEST);
	if (entry->claims[0])
		entry->claims[0]->asked = true;
}

static struct cell_row *enter_cell(struct working_set *set, const struct digest *digest)
{
	return add_row(set, &set->cells, row_key_of_digest(digest, 0), sizeof(struct cell_row));
}

static void enter_cell_op(struct working_set *set, struct entry *entry)
{
	const struct store_cell *cell = container_of(entry->op, struct store_cell, op);
	if (store_cell_check(cell) < 0)
		return;
	struct cell_row *row = entry->cell = enter_cell(set, &cell->cell.digest);
	if (!row)
		return;
	row->put |= cell->act == STORE_CELL_PUT;
	row->locked |= cell->act != STORE_CELL_GET;
	row->value_wanted |= cell->want_value;
}

static struct ticket_row *enter_ticket(struct working_set *set, uint64_t ticket)
{
	struct ticket_row *row = working_set_ticket_add(set, ticket);

	if (row)
		row->locked = true;
	return row;
}

static void enter_settle(struct working_set *set, struct entry *entry)
{
	const struct store_settle *settle = container_of(entry->op, struct store_settle, op);
	enter_ticket(set, settle->ticket);
	if (!settle->answer || store_cell_value_check(settle->answer) < 0)
		return;
	entry->cell = enter_cell(set, &settle->answer->digest);
	if (entry->cell)
		entry->cell->put = entry->cell->locked = true;
}

/* The event is not known yet: enter every ticket that could be one of its legs. */
static void enter_release(struct working_set *set, const struct store_release *release)
{
	enter_ticket(set, release->ticket);
	if (!release->whole_event)
		return;
	for (uint64_t i = 1; i < STORE_LEGS_MAX; i++) {
		enter_ticket(set, release->ticket + i);
		if (release->ticket > i)
			enter_ticket(set, release->ticket - i);
	}
}

static void enter_take(struct working_set *set, const struct store_take *take)
{
	struct ticket_row *row = enter_ticket(set, take->ticket);

	CHECK(take->ticket != 0); /* takes of a sink are the taker's */
	if (row)
		row->parts_wanted |= !take->without_payload;
}

static void enter_op(struct working_set *set, struct entry *entry)
{
	struct store_op *op = entry->op;

	switch (op->kind) {
	case STORE_ADMIT: enter_admit(set, entry); break;
	case STORE_LOOKUP: enter_lookup(set, entry); break;
	case STORE_CELL: enter_cell_op(set, entry); break;
	case STORE_SETTLE: enter_settle(set, entry); break;
	case STORE_NOTE: enter_ticket(set, container_of(op, struct store_note, op)->ticket); break;
	case STORE_RENEW:
		enter_ticket(set, container_of(op, struct store_renew, op)->ticket);
		break;
	case STORE_RELEASE: enter_release(set, container_of(op, struct store_release, op)); break;
	case STORE_TAKE: enter_take(set, container_of(op, struct store_take, op)); break;
	case STORE_READ:
	case STORE_SCAN:
	case STORE_WAIT:
	case STORE_HELD:
	case STORE_CELL_SCAN:
		CHECK(false); /* the taker's operations */
		break;
	}
}

int working_set_enter(struct working_set *set, struct store_op *op)
{
	CHECK(!set->sent_as_new && !set->failed);
	if (set->entry_count == set->entry_room) {
		uint32_t room = set->entry_room ? 2 * set->entry_room : 256;
		struct entry *entries = mem_realloc(set->entries, room * sizeof(*entries));
		if (!entries)
			return -ENOMEM;
		set->entries = entries;
		set->entry_room = room;
	}
	struct entry *entry = &set->entries[set->entry_count++];
	*entry = (struct entry){ .op = op };
	enter_op(set, entry);
	return set->failed;
}
