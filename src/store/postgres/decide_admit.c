/* decide_admit: admissions and lookups on a sheet. See sheet.h. */
#include <errno.h>

#include "base/error.h"
#include "gate/ticket.h"
#include "store/decide.h"
#include "store/postgres/sheet.h"

static bool is_pending(const struct sheet *sheet, uint64_t event)
{
	for (uint64_t leg = event; leg < event + STORE_LEGS_MAX; leg++) {
		const struct ticket_row *row = sheet_ticket(sheet, leg);
		if (row && row->event == event && store_state_pending((enum store_state)row->state))
			return true;
	}
	return false;
}

/* ---- keeping ---- */

/* The event has the claim from now on, whoever had it. */
static void put_claim(struct sheet *sheet, uint64_t ticket, const struct claim *claim,
                      struct claim_row *row)
{
	uint64_t now_ms = ticket_time_ms(ticket);
	uint32_t window_s = claim->window_s;

	if (row->live)
		window_s = store_window_s(window_s, row->now.expiry, now_ms);
	/* A row that was there, and may be changed by others. */
	if (row->found && !row->locked)
		sheet->short_of = true;
	row->now = (struct claim_values){ .ticket = ticket,
		                          .expiry = now_ms + sheet_window_ms(window_s),
		                          .order = claim->order,
		                          .check = digest_check(&claim->digest) };
	row->live = true;
}

static void open_ticket(struct sheet *sheet, const struct store_admit *admit, uint64_t event,
                        uint32_t i, bool held)
{
	static const struct store_leg only = { 0 };
	const struct store_leg *leg = admit->leg_count ? &admit->legs[i] : &only;
	struct ticket_row *row = sheet_ticket_add(sheet, event + i);

	if (!row)
		return;
	row->event = event;
	row->sink = leg->sink;
	row->order = leg->order;
	row->len = admit->source.len + admit->letter.len + admit->payload.len;
	row->state = held ? STORE_STATE_HELD : STORE_STATE_DUE;
	row->fresh = true;
	sheet->any_due |= !held;
	if (admit->lease_ms == 0 || held)
		return;
	row->state = STORE_STATE_LEASED;
	row->attempt = row->used = 1;
	row->lease = sheet->now_ms + admit->lease_ms;
	sheet_note_add(sheet, row, &(struct note_row){ .mark = STORE_MARK_STARTED, .attempt = 1 });
}

static void open_event(struct sheet *sheet, const struct store_admit *admit, uint64_t event,
                       bool held)
{
	struct event_row *row = arena_alloc(&sheet->arena, sizeof(*row));

	if (!row || row_list_add(&sheet->events, row) < 0) {
		sheet->failed = -ENOMEM;
		return;
	}
	*row = (struct event_row){ .event = event,
		                   .flags = admit->flags,
		                   .source = admit->source,
		                   .letter = admit->letter,
		                   .payload = admit->payload };
	for (uint32_t i = 0; i < store_leg_count(admit); i++)
		open_ticket(sheet, admit, event, i, held);
}

/* ---- deciding ---- */

/* An admission on its way through store/decide.h. */
struct admission {
	struct sheet *sheet;
	const struct entry *entry;
	struct claim_row *aside; /* of the conflict that is kept aside */
};

static bool find(void *user, const struct claim *claim, uint32_t index, bool aside,
                 struct decide_hit *ret_hit)
{
	struct admission *admission = user;
	const struct entry *entry = admission->entry;
	const struct claim_row *row = aside ? entry->asides[index] : entry->claims[index];

	(void)claim;
	if (aside) {
		admission->aside = entry->asides[index];
		admission->sheet->short_of |= row == NULL;
	}
	if (!row || !row->live)
		return false;
	*ret_hit = (struct decide_hit){ .ticket = row->now.ticket,
		                        .order = row->now.order,
		                        .expiry_ms = row->now.expiry,
		                        .check = (uint32_t)row->now.check };
	return true;
}

static bool is_open(void *user, uint64_t ticket)
{
	const struct admission *admission = user;

	return is_pending(admission->sheet, ticket);
}

static uint64_t count_repeat(void *user, const struct decide_hit *hit)
{
	const struct admission *admission = user;
	struct seen_row *seen = sheet_seen(admission->sheet, hit->ticket);

	if (!seen)
		return 0;
	seen->more++;
	if (hit->expiry_ms > seen->expiry)
		seen->expiry = hit->expiry_ms;
	return seen->seen + seen->more;
}

static int keep(void *user, const struct decide_kept *kept)
{
	const struct admission *admission = user;
	const struct entry *entry = admission->entry;
	struct store_admit *admit = container_of(entry->op, struct store_admit, op);
	struct sheet *sheet = admission->sheet;

	if (sheet->short_of)
		return -EAGAIN; /* the row of the claim aside was not read */
	uint64_t ticket = sheet->dense ? sheet->next : sheet->first + entry->offset;
	sheet->next = ticket + store_leg_count(admit);
	admit->own_ticket = ticket;
	for (uint32_t left = kept->once | kept->newest; left; left &= left - 1) {
		int i = __builtin_ctz(left);
		put_claim(sheet, ticket, &kept->claims[i],
		          kept->held ? admission->aside : entry->claims[i]);
	}
	if (!admit->no_ticket)
		open_event(sheet, admit, ticket, kept->held);
	return 0;
}

int sheet_admit(struct sheet *sheet, const struct entry *entry)
{
	static const struct decide_hooks hooks = { find, is_open, count_repeat, keep };

	return decide_admit(container_of(entry->op, struct store_admit, op), sheet->now_ms, &hooks,
	                    &(struct admission){ .sheet = sheet, .entry = entry });
}

/* ---- all new ---- */

bool sheet_is_plain(const struct sheet *sheet)
{
	uint32_t wanted = 0;

	if (sheet->cells.count > 0 || sheet->tickets.count > 0 || sheet->thorough)
		return false;
	for (uint32_t i = 0; i < sheet->entry_count; i++) {
		const struct store_op *op = sheet->entries[i].op;
		const struct store_admit *admit = container_of(op, const struct store_admit, op);
		if (op->kind != STORE_ADMIT || admit->lease_ms > 0 || store_admit_check(admit) < 0)
			return false;
		wanted += admit->claim_count;
	}
	for (uint32_t i = 0; i < sheet->claims.count; i++)
		if (((const struct claim_row *)sheet->claims.at[i])->locked)
			return false;
	return wanted == sheet->claims.count && wanted > 0;
}

void sheet_open_all(struct sheet *sheet)
{
	for (uint32_t i = 0; i < sheet->entry_count; i++) {
		const struct entry *entry = &sheet->entries[i];
		const struct store_admit *admit = container_of(entry->op, struct store_admit, op);
		if (!admit->no_ticket)
			open_event(sheet, admit, entry->offset, false);
	}
}

void sheet_all_new(struct sheet *sheet)
{
	for (uint32_t i = 0; i < sheet->entry_count; i++) {
		const struct entry *entry = &sheet->entries[i];
		struct store_admit *admit = container_of(entry->op, struct store_admit, op);
		admit->op.error = 0;
		decide_new(admit, sheet->now_ms, sheet->first + entry->offset);
	}
}

bool sheet_was_all_new(const struct sheet *sheet)
{
	for (uint32_t i = 0; i < sheet->claims.count; i++)
		if (!((const struct claim_row *)sheet->claims.at[i])->inserted)
			return false;
	return true;
}

/* ---- lookups ---- */

int sheet_lookup(struct sheet *sheet, const struct entry *entry)
{
	struct store_lookup *lookup = container_of(entry->op, struct store_lookup, op);
	const struct claim_row *row = entry->claims[0];
	bool newest = lookup->kind == CLAIM_NEWEST;

	lookup->taken = row->live;
	lookup->open = lookup->held = false;
	if (!row->live)
		return 0;
	const struct ticket_row *first = sheet_ticket(sheet, row->now.ticket);
	const struct seen_row *seen = sheet_seen(sheet, row->now.ticket);
	lookup->open = is_pending(sheet, row->now.ticket);
	lookup->held = first && first->state == STORE_STATE_HELD;
	lookup->check = newest ? 0 : (uint32_t)row->now.check;
	lookup->order = newest ? row->now.order : 0;
	lookup->ticket = row->now.ticket;
	lookup->first_seen_ms = ticket_time_ms(row->now.ticket);
	lookup->seen = newest || !seen ? 0 : seen->seen + seen->more;
	return 0;
}
