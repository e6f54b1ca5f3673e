/* decide_admit: admissions and lookups on a sheet. See sheet.h. */
#include <string.h>

#include "base/error.h"
#include "gate/ticket.h"
#include "store/postgres/sheet.h"

/* ---- questions ---- */

static bool is_pending(const struct sheet *sheet, uint64_t event)
{
	for (uint64_t leg = event; leg < event + STORE_LEGS_MAX; leg++) {
		const struct ticket_row *row = sheet_ticket(sheet, leg);
		if (row && row->event == event && store_state_pending((enum store_state)row->state))
			return true;
	}
	return false;
}

/* What this claim alone says of the event. */
static enum verdict judge(const struct sheet *sheet, const struct store_admit *admit,
                          const struct claim *claim, const struct claim_row *row)
{
	if (!row->live)
		return VERDICT_NEW;
	if (claim->kind == CLAIM_NEWEST) {
		bool passes = claim->order > row->now.order ||
		              (claim->order == row->now.order && !claim->equal_drops);
		return passes ? VERDICT_NEW : VERDICT_STALE;
	}
	if (store_conflicts(claim, (uint32_t)row->now.check))
		return VERDICT_CONFLICT;
	if (admit->busy_if_open && is_pending(sheet, row->now.ticket))
		return VERDICT_BUSY;
	return VERDICT_DUPLICATE;
}

/* ---- keeping ---- */

/* The claims that an event takes, which may be fewer than it came with. */
struct taking {
	const struct claim *claims[CLAIMS_MAX];
	struct claim_row *rows[CLAIMS_MAX];
	uint32_t count;
	bool held; /* its ticket */
};

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

/* Gives the event a ticket and the claims. */
static void keep(struct sheet *sheet, const struct entry *entry, struct store_admit *admit,
                 const struct taking *taking)
{
	uint64_t ticket = sheet->dense ? sheet->next : sheet->first + entry->offset;

	sheet->next = ticket + store_leg_count(admit);
	admit->own_ticket = ticket;
	for (uint32_t i = 0; i < taking->count; i++)
		put_claim(sheet, ticket, taking->claims[i], taking->rows[i]);
	if (!admit->no_ticket)
		open_event(sheet, admit, ticket, taking->held);
}

/* ---- answers ---- */

static uint64_t count_seen(struct sheet *sheet, const struct claim_row *row)
{
	struct seen_row *seen = sheet_seen(sheet, row->now.ticket);

	if (!seen)
		return 0;
	seen->more++;
	if (row->now.expiry > seen->expiry)
		seen->expiry = row->now.expiry;
	return seen->seen + seen->more;
}

static void answer(struct sheet *sheet, struct store_admit *admit, enum verdict verdict,
                   uint32_t matched, const struct claim_row *row)
{
	admit->verdict = verdict;
	admit->matched = matched;
	admit->ticket = row->now.ticket;
	admit->first_seen_ms = ticket_time_ms(row->now.ticket);
	if (verdict == VERDICT_DUPLICATE || verdict == VERDICT_BUSY)
		admit->seen = count_seen(sheet, row);
	if (verdict == VERDICT_STALE)
		admit->order = row->now.order;
}

static void answer_clear(struct store_admit *admit)
{
	admit->verdict = admit->would = VERDICT_NONE;
	admit->matched = admit->would_matched = 0;
	admit->ticket = admit->own_ticket = admit->would_ticket = 0;
	admit->first_seen_ms = admit->seen = admit->order = 0;
}

/* The first time it is kept, then it is a duplicate of that. */
static void answer_conflict(struct sheet *sheet, const struct entry *entry,
                            struct store_admit *admit, uint32_t matched)
{
	struct claim aside = store_aside_claim(&admit->claims[matched]);
	struct claim_row *row = entry->asides[matched];

	if (admit->on_conflict == STORE_CONFLICT_ASIDE && !admit->no_ticket) {
		if (!row) {
			sheet->short_of = true;
			return;
		}
		if (row->live) {
			answer(sheet, admit, judge(sheet, admit, &aside, row), matched, row);
			return;
		}
		keep(sheet, entry, admit,
		     &(struct taking){ { &aside }, { row }, .count = 1, .held = true });
	}
	answer(sheet, admit, VERDICT_CONFLICT, matched, entry->claims[matched]);
}

static void note_would(struct store_admit *admit, enum verdict verdict, uint32_t matched,
                       const struct claim_row *row)
{
	if (admit->would != VERDICT_NONE)
		return;
	admit->would = verdict;
	admit->would_matched = matched;
	admit->would_ticket = row->now.ticket;
}

/* True: claim `i` drops the event, which has its answer. */
static bool claim_drops(struct sheet *sheet, const struct entry *entry, uint32_t i,
                        struct taking *taking)
{
	struct store_admit *admit = container_of(entry->op, struct store_admit, op);
	const struct claim *claim = &admit->claims[i];
	struct claim_row *row = entry->claims[i];
	enum verdict verdict = judge(sheet, admit, claim, row);

	if (verdict != VERDICT_NEW && claim->shadow) {
		note_would(admit, verdict, i, row);
		return false;
	}
	if (verdict == VERDICT_CONFLICT && admit->on_conflict == STORE_CONFLICT_PASS) {
		if (admit->verdict == VERDICT_NONE)
			answer(sheet, admit, verdict, i, row);
		verdict = VERDICT_NEW;
	}
	if (verdict == VERDICT_NEW) {
		taking->claims[taking->count] = claim;
		taking->rows[taking->count++] = row;
		return false;
	}
	answer_clear(admit);
	if (verdict == VERDICT_CONFLICT)
		answer_conflict(sheet, entry, admit, i);
	else
		answer(sheet, admit, verdict, i, row);
	return true;
}

int sheet_admit(struct sheet *sheet, const struct entry *entry)
{
	struct store_admit *admit = container_of(entry->op, struct store_admit, op);
	struct taking taking = { .count = 0 };
	int error = store_admit_check(admit);

	answer_clear(admit);
	admit->decided_ms = sheet->now_ms;
	if (error < 0)
		return error;
	for (uint32_t i = 0; i < admit->claim_count; i++)
		if (claim_drops(sheet, entry, i, &taking))
			return 0;
	keep(sheet, entry, admit, &taking);
	if (admit->verdict == VERDICT_NONE) {
		admit->verdict = VERDICT_NEW;
		admit->ticket = admit->own_ticket;
		admit->first_seen_ms = ticket_time_ms(admit->ticket);
	}
	return 0;
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
		answer_clear(admit);
		admit->op.error = 0;
		admit->decided_ms = sheet->now_ms;
		admit->verdict = VERDICT_NEW;
		admit->ticket = admit->own_ticket = sheet->first + entry->offset;
		admit->first_seen_ms = ticket_time_ms(admit->ticket);
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
