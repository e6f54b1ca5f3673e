/*
 * decide: what operations do to the rows of a working set. See working_set.h.
 *
 * Nothing here talks to the server. A row that is needed and was not read, or not locked,
 * sets `incomplete`; a lack of memory sets `failed`. Both end the transaction.
 */
#include "store/decide.h"

#include <errno.h>

#include "base/error.h"
#include "gate/ticket.h"
#include "store/postgres/working_set.h"

/* ---- rows that are added ---- */

static void *add_row(struct working_set *set, struct row_list *list, size_t size)
{
	void *row = arena_alloc(&set->arena, size);

	if (!row || row_list_add(list, row) < 0) {
		set->failed = -ENOMEM;
		return NULL;
	}
	return row;
}

/* The newest note of the ticket. */
static void add_note(struct working_set *set, struct ticket_row *ticket,
                     const struct note_row *note)
{
	struct note_row *row = add_row(set, &set->notes, sizeof(*row));

	if (!row)
		return;
	*row = *note;
	row->ticket = ticket->ticket;
	row->at = set->now_ms;
	row->text = store_text_cut(note->text);
	ticket->last = note->mark;
	ticket->status = note->status;
	ticket->changed = true;
}

static void add_drop(struct working_set *set, uint64_t event)
{
	struct drop_row *row = add_row(set, &set->drops, sizeof(*row));

	if (row)
		row->event = event;
}

static void open_ticket(struct working_set *set, const struct store_admit *admit, uint64_t event,
                        uint32_t i, bool held)
{
	static const struct store_leg only = { 0 };
	const struct store_leg *leg = admit->leg_count ? &admit->legs[i] : &only;
	struct ticket_row *row = working_set_ticket_add(set, event + i);

	if (!row)
		return;
	row->event = event;
	row->sink = leg->sink;
	row->order = leg->order;
	row->len = admit->source.len + admit->metadata.len + admit->payload.len;
	row->state = held ? STORE_STATE_HELD : STORE_STATE_DUE;
	row->fresh = true;
	set->any_due |= !held;
	if (admit->lease_ms == 0 || held)
		return;
	row->state = STORE_STATE_LEASED;
	row->attempt = row->used = 1;
	row->lease = set->now_ms + admit->lease_ms;
	add_note(set, row, &(struct note_row){ .mark = STORE_MARK_STARTED, .attempt = 1 });
}

static void open_event(struct working_set *set, const struct store_admit *admit, uint64_t event,
                       bool held)
{
	struct event_row *row = add_row(set, &set->events, sizeof(*row));

	if (!row)
		return;
	*row = (struct event_row){ .event = event,
		                   .flags = admit->flags,
		                   .source = admit->source,
		                   .metadata = admit->metadata,
		                   .payload = admit->payload };
	for (uint32_t i = 0; i < store_leg_count(admit); i++)
		open_ticket(set, admit, event, i, held);
}

/* ---- admissions ---- */

/* An admission on its way through store/decide.h. */
struct admission {
	struct working_set *set;
	const struct entry *entry;
	struct claim_row *aside; /* of the conflict that is kept aside */
};

static bool find(void *user, const struct claim *claim, uint32_t index, bool aside,
                 struct decide_hit *ret_hit)
{
	struct admission *admission = user;
	const struct entry *entry = admission->entry;
	struct claim_row *row = aside ? entry->asides[index] : entry->claims[index];

	(void)claim;
	if (aside) {
		admission->aside = row;
		admission->set->incomplete |= row == NULL;
	}
	if (!row || !row->live)
		return false;
	*ret_hit = (struct decide_hit){ .ticket = row->now.ticket,
		                        .order = row->now.order,
		                        .expiry_ms = row->now.expiry,
		                        .check = (uint32_t)row->now.check };
	return true;
}

static bool event_is_open(const struct working_set *set, uint64_t event)
{
	for (uint64_t leg = event; leg < event + STORE_LEGS_MAX; leg++) {
		const struct ticket_row *row = working_set_ticket(set, leg);
		if (row && row->event == event && store_state_pending((enum store_state)row->state))
			return true;
	}
	return false;
}

static bool is_open(void *user, uint64_t ticket)
{
	return event_is_open(((const struct admission *)user)->set, ticket);
}

static uint64_t count_repeat(void *user, const struct decide_hit *hit)
{
	const struct admission *admission = user;
	struct seen_row *seen = working_set_seen(admission->set, hit->ticket);

	if (!seen)
		return 0;
	seen->more++;
	if (hit->expiry_ms > seen->expiry)
		seen->expiry = hit->expiry_ms;
	return seen->seen + seen->more;
}

static void put_claim(struct working_set *set, uint64_t ticket, const struct claim *claim,
                      struct claim_row *row)
{
	uint64_t now_ms = ticket_time_ms(ticket);
	uint32_t window_s = claim->window_s;

	if (row->live)
		window_s = store_window_s(window_s, row->now.expiry, now_ms);
	/* Another node may change a row that was there and is not locked. */
	set->incomplete |= row->found && !row->locked;
	row->now = (struct claim_values){ .ticket = ticket,
		                          .expiry = now_ms + working_set_window_ms(window_s),
		                          .order = claim->order,
		                          .check = digest_check(&claim->digest) };
	row->live = true;
}

static int keep(void *user, const struct decide_kept *kept)
{
	const struct admission *admission = user;
	const struct entry *entry = admission->entry;
	struct store_admit *admit = container_of(entry->op, struct store_admit, op);
	struct working_set *set = admission->set;

	if (set->incomplete)
		return -EAGAIN;
	uint64_t ticket = set->dense ? set->next : set->first + entry->offset;
	set->next = ticket + store_leg_count(admit);
	admit->own_ticket = ticket;
	for (uint32_t left = kept->once | kept->newest; left; left &= left - 1) {
		int i = __builtin_ctz(left);
		put_claim(set, ticket, &kept->claims[i],
		          kept->held ? admission->aside : entry->claims[i]);
	}
	if (!admit->no_ticket)
		open_event(set, admit, ticket, kept->held);
	return 0;
}

static int admit_event(struct working_set *set, const struct entry *entry)
{
	static const struct decide_hooks hooks = { find, is_open, count_repeat, keep };

	return decide_admit(container_of(entry->op, struct store_admit, op), set->now_ms, &hooks,
	                    &(struct admission){ .set = set, .entry = entry });
}

static int look_up(struct working_set *set, const struct entry *entry)
{
	struct store_lookup *lookup = container_of(entry->op, struct store_lookup, op);
	const struct claim_row *row = entry->claims[0];
	bool newest = lookup->kind == CLAIM_NEWEST;

	lookup->taken = row->live;
	lookup->open = lookup->held = false;
	if (!row->live)
		return 0;
	const struct ticket_row *first = working_set_ticket(set, row->now.ticket);
	const struct seen_row *seen = working_set_seen(set, row->now.ticket);
	lookup->open = event_is_open(set, row->now.ticket);
	lookup->held = first && first->state == STORE_STATE_HELD;
	lookup->check = newest ? 0 : (uint32_t)row->now.check;
	lookup->order = newest ? row->now.order : 0;
	lookup->ticket = row->now.ticket;
	lookup->first_seen_ms = ticket_time_ms(row->now.ticket);
	lookup->seen = newest || !seen ? 0 : seen->seen + seen->more;
	return 0;
}

/* ---- all events are new ---- */

bool working_set_may_be_new(const struct working_set *set)
{
	uint32_t wanted = 0;

	if (set->cells.count > 0 || set->tickets.count > 0 || set->lock_all)
		return false;
	for (uint32_t i = 0; i < set->entry_count; i++) {
		const struct store_op *op = set->entries[i].op;
		const struct store_admit *admit = container_of(op, const struct store_admit, op);
		if (op->kind != STORE_ADMIT || admit->lease_ms > 0 || store_admit_check(admit) < 0)
			return false;
		wanted += admit->claim_count;
	}
	for (uint32_t i = 0; i < set->claims.count; i++)
		if (((const struct claim_row *)set->claims.at[i])->locked)
			return false;
	return wanted == set->claims.count && wanted > 0;
}

void working_set_open_all(struct working_set *set)
{
	for (uint32_t i = 0; i < set->entry_count; i++) {
		const struct entry *entry = &set->entries[i];
		const struct store_admit *admit = container_of(entry->op, struct store_admit, op);
		CHECK(entry->op->kind == STORE_ADMIT);
		if (!admit->no_ticket)
			open_event(set, admit, entry->offset, false);
	}
}

void working_set_all_new(struct working_set *set)
{
	for (uint32_t i = 0; i < set->entry_count; i++) {
		const struct entry *entry = &set->entries[i];
		entry->op->error = 0;
		decide_new(container_of(entry->op, struct store_admit, op), set->now_ms,
		           set->first + entry->offset);
	}
}

bool working_set_was_all_new(const struct working_set *set)
{
	for (uint32_t i = 0; i < set->claims.count; i++)
		if (!((const struct claim_row *)set->claims.at[i])->inserted)
			return false;
	return true;
}

/* ---- cells ---- */

static bool cell_is_live(const struct working_set *set, const struct cell_row *row)
{
	return row->expiry == 0 || row->expiry > set->now_ms;
}

static void put_cell(struct working_set *set, struct cell_row *row,
                     const struct store_cell_value *value)
{
	CHECK(row && row->locked);
	row->expiry = store_cell_expiry(value, set->now_ms, row->live ? row->expiry : 0);
	row->name = value->name;
	row->value = value->value;
	row->rewritten = true;
	row->live = cell_is_live(set, row);
}

static int decide_cell(struct working_set *set, const struct entry *entry)
{
	struct store_cell *cell = container_of(entry->op, struct store_cell, op);
	struct cell_row *row = entry->cell;

	int error = store_cell_check(cell);
	if (error < 0)
		return error;
	cell->now_ms = set->now_ms;
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
		put_cell(set, row, &cell->cell);
		cell->changed = true;
	} else if (cell->act == STORE_CELL_REMOVE && row->live) {
		row->live = false;
		cell->changed = true;
	} else if (cell->act == STORE_CELL_EXPIRE && row->live) {
		uint64_t expiry = store_cell_expiry(&cell->cell, set->now_ms, row->expiry);
		cell->changed = store_when_moves(cell->when, row->expiry, expiry);
		if (!cell->changed)
			return 0;
		row->expiry = expiry;
		row->moved = true;
		row->live = cell_is_live(set, row);
	}
	return 0;
}

/* ---- tickets ---- */

/* NULL: the ticket is not leased with this attempt. */
static struct ticket_row *leased(const struct working_set *set, uint64_t ticket, uint32_t attempt)
{
	struct ticket_row *row = working_set_ticket(set, ticket);

	return row && row->state == STORE_STATE_LEASED && row->attempt == attempt ? row : NULL;
}

static void set_state(struct working_set *set, struct ticket_row *row, enum store_state state)
{
	CHECK(row->locked && !row->closed);
	row->state = state;
	row->changed = true;
	set->any_due |= state == STORE_STATE_DUE;
	set->any_closed |= !store_state_pending(state);
}

static void close_ticket(struct working_set *set, struct ticket_row *row, bool drop)
{
	CHECK(row->locked && !row->closed);
	row->closed = true;
	set->any_closed = true;
	if (drop)
		add_drop(set, row->event);
}

static int decide_note(struct working_set *set, const struct store_note *note)
{
	struct ticket_row *row = leased(set, note->ticket, note->attempt);
	bool started = note->mark == STORE_MARK_STARTED;

	if (!store_mark_valid(note->mark))
		return ERR_INVALID;
	if (!row)
		return ERR_FENCED;
	add_note(set, row,
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

static int settle_ticket(struct working_set *set, const struct entry *entry)
{
	const struct store_settle *settle = container_of(entry->op, struct store_settle, op);
	struct ticket_row *row = leased(set, settle->ticket, settle->attempt);
	bool dead = settle->outcome == OUTCOME_DEAD;

	int error = settle->answer ? store_cell_value_check(settle->answer) : 0;
	if (error < 0)
		return error;
	if (!store_outcome_valid(settle->outcome))
		return ERR_INVALID;
	if (!row)
		return ERR_FENCED;
	row->used = settle->attempt;
	if (settle->outcome == OUTCOME_RELEASED) {
		row->due = settle->due_ms;
		set_state(set, row, STORE_STATE_DUE);
	} else if (settle->outcome == OUTCOME_DONE || (dead && settle->forget)) {
		close_ticket(set, row, dead);
	} else {
		add_note(set, row,
		         &(struct note_row){ .mark = dead ? STORE_MARK_DEAD : STORE_MARK_PARKED,
		                             .status = settle->status,
		                             .attempt = settle->attempt,
		                             .text = settle->text });
		row->due = set->now_ms;
		set_state(set, row, dead ? STORE_STATE_DEAD : STORE_STATE_PARKED);
	}
	if (settle->answer)
		put_cell(set, entry->cell, settle->answer);
	return 0;
}

/* False: it is not in a state that the release is about. */
static bool release_ticket(struct working_set *set, struct ticket_row *row,
                           const struct store_release *op)
{
	if (!row || !(store_release_states(op) & 1u << row->state))
		return false;
	if (op->drop) {
		close_ticket(set, row, true);
		return true;
	}
	if (row->state == STORE_STATE_PARKED || row->state == STORE_STATE_DEAD)
		add_note(set, row,
		         &(struct note_row){ .mark = STORE_MARK_RELEASED,
		                             .attempt = row->attempt });
	row->due = 0;
	row->used = row->attempt;
	set_state(set, row, STORE_STATE_DUE);
	return true;
}

static int decide_release(struct working_set *set, const struct store_release *op)
{
	struct ticket_row *row = working_set_ticket(set, op->ticket);
	bool any = false;

	if (!op->whole_event)
		return release_ticket(set, row, op) ? 0 : ERR_FENCED;
	/* The ticket that was named may be closed already: it is then the event's first. */
	uint64_t event = row ? row->event : op->ticket;
	for (uint64_t leg = event; leg < event + STORE_LEGS_MAX; leg++) {
		row = working_set_ticket(set, leg);
		if (row && row->event == event && row->locked)
			any |= release_ticket(set, row, op);
	}
	return any ? 0 : ERR_FENCED;
}

static uint64_t lease_end(const struct working_set *set, uint32_t lease_ms)
{
	return lease_ms ? set->now_ms + lease_ms : 0;
}

static int renew_lease(struct working_set *set, const struct store_renew *renew)
{
	struct ticket_row *row = leased(set, renew->ticket, renew->attempt);
	uint32_t lease_ms;

	if (!row || !store_renew_lease(renew, set->now_ms, &lease_ms))
		return ERR_FENCED;
	row->lease = lease_end(set, lease_ms);
	if (lease_ms == 0)
		row->node = set->node;
	row->changed = true;
	return 0;
}

static int take_ticket(struct working_set *set, struct store_take *take)
{
	static const struct store_parts none = { 0 };
	struct ticket_row *row = working_set_ticket(set, take->ticket);

	buf_clear(&take->items);
	take->count = 0;
	take->now_ms = set->now_ms;
	if (!row || row->state != STORE_STATE_DUE || row->sink != take->sink ||
	    row->due > set->now_ms)
		return 0;
	row->attempt = store_attempt_next((uint32_t)row->attempt);
	/* With the last note before this take, which is noted below. */
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
	if (store_item_append(&take->items, &item, take->without_payload ? &none : &row->parts) <
	    0) {
		set->failed = -ENOMEM;
		return ERR_FULL;
	}
	take->count = 1;
	row->used = row->attempt;
	row->lease = lease_end(set, take->lease_ms);
	row->node = take->lease_ms ? 0 : set->node;
	set_state(set, row, STORE_STATE_LEASED);
	add_note(set, row,
	         &(struct note_row){ .mark = STORE_MARK_STARTED, .attempt = row->attempt });
	return 0;
}

/* ---- all of them ---- */

static int decide(struct working_set *set, const struct entry *entry)
{
	struct store_op *op = entry->op;

	switch (op->kind) {
	case STORE_ADMIT: return admit_event(set, entry);
	case STORE_LOOKUP: return look_up(set, entry);
	case STORE_CELL: return decide_cell(set, entry);
	case STORE_SETTLE: return settle_ticket(set, entry);
	case STORE_NOTE: return decide_note(set, container_of(op, struct store_note, op));
	case STORE_RENEW: return renew_lease(set, container_of(op, struct store_renew, op));
	case STORE_RELEASE: return decide_release(set, container_of(op, struct store_release, op));
	case STORE_TAKE: return take_ticket(set, container_of(op, struct store_take, op));
	case STORE_READ:
	case STORE_SCAN:
	case STORE_WAIT:
	case STORE_HELD:
	case STORE_CELL_SCAN: break;
	}
	return ERR_INVALID;
}

void working_set_decide(struct working_set *set)
{
	CHECK(!set->sent_as_new);
	set->next = set->first;
	for (uint32_t i = 0; i < set->entry_count && !set->incomplete && !set->failed; i++)
		set->entries[i].op->error = decide(set, &set->entries[i]);
}
