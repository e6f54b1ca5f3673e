/*
 * settle: what is written down of a ticket beside "done": notes, outcomes that keep it
 * open (dead, parked, given back), and releases.
 *
 * A change is made when it is decided; the ticket as it was goes to the undo list. Only
 * the new state waits for the disk: until then it is OPEN_TICKET_CHANGING.
 *
 * A note that could not be written is an error, and nothing has changed: whoever noted
 * it knows what it was about. An outcome waits for the next frame (commit.c), since it
 * has happened.
 *
 * Threads: the owner's.
 */
#include "base/error.h"
#include "store/local/local_internal.h"
#include "store/local/recovery.h"

#define SOON_MS 50u /* about when the next tick comes */

struct waits_legs local_legs(const struct local_store *local, uint64_t event)
{
	struct waits_legs legs = { 0 };
	struct open_ticket ticket = { .ticket = event - 1 };

	while (open_tickets_next(local->tickets, ticket.ticket, &ticket) &&
	       open_ticket_event(&ticket) == event) {
		legs.parked |= ticket.state == OPEN_TICKET_PARKED;
		legs.dead |= ticket.state == OPEN_TICKET_DEAD;
		legs.pending |= ticket.state != OPEN_TICKET_PARKED &&
		                ticket.state != OPEN_TICKET_DEAD;
	}
	return legs;
}

int local_find_leased(const struct local_store *local, uint64_t ticket, uint32_t attempt,
                      struct open_ticket *ret_ticket)
{
	if (!open_tickets_find(local->tickets, ticket, ret_ticket) ||
	    ret_ticket->state != OPEN_TICKET_LEASED || ret_ticket->attempt != attempt)
		return ERR_FENCED;
	return 0;
}

void local_save_ticket(struct local_store *local, const struct open_ticket *ticket)
{
	CHECK(ticket->state != OPEN_TICKET_CHANGING);
	local_undo_push(local, UNDO_TICKET)->ticket = *ticket;
}

void local_append_note(struct local_store *local, struct open_ticket *ticket,
                       struct entry_note note, struct span text)
{
	CHECK(ticket->state != OPEN_TICKET_CHANGING);
	note.ticket = ticket->ticket;
	note.at_ms = local_now_ms(local);
	note.before_segment = ticket->note_segment;
	note.before_offset = ticket->note_offset;
	ticket->due_ms = replay_due_ms(&note, ticket->due_ms);
	ticket->last = note.mark;
	ticket->status = note.status;
	ticket->note_segment = (uint32_t)local->journal.durable.segment;
	ticket->note_offset = frame_add_note(&local->journal.frame, &note, text);
}

/* --- notes -------------------------------------------------------------- */

int local_decide_note(struct local_store *local, const struct store_note *note)
{
	struct span text = store_text_cut(note->text);
	struct open_ticket ticket;

	CHECK(local->flushing);
	if (!store_mark_valid(note->mark))
		return ERR_INVALID;
	int r = local_find_leased(local, note->ticket, note->attempt, &ticket);
	if (r == 0 && local_undo_reserve(local, 1) < 0)
		r = ERR_FULL;
	if (r == 0)
		r = local_reserve(local, frame_note_size(text), JOURNAL_NOTE);
	/* A frame may have been lost meanwhile, with what it said of this ticket. */
	if (r == 0)
		r = local_find_leased(local, note->ticket, note->attempt, &ticket);
	if (r < 0)
		return r;
	bool started = note->mark == STORE_MARK_STARTED;
	local_save_ticket(local, &ticket);
	local_append_note(local, &ticket,
	                  (struct entry_note){ .mark = (uint8_t)note->mark,
	                                       .status = note->status,
	                                       .attempt = note->attempt,
	                                       .due_ms = started ? 0 : note->due_ms },
	                  text);
	if (!started)
		ticket.attempt = (uint16_t)store_attempt_next(ticket.attempt);
	open_tickets_update(local->tickets, &ticket);
	/* Somebody waits to begin, and would have to wait for the tick. */
	local->batch.events += started || note->due_ms < local_now_ms(local) + SOON_MS;
	return 0;
}

/* --- outcomes ------------------------------------------------------------- */

static bool closes(const struct store_settle *settle)
{
	return settle->outcome == OUTCOME_DONE ||
	       (settle->outcome == OUTCOME_DEAD && settle->forget);
}

/* A SETTLE entry; but a ticket that is put aside gets a note, which tells why. */
static bool writes_note(const struct store_settle *settle)
{
	return !closes(settle) && settle->outcome != OUTCOME_RELEASED;
}

static void append_outcome(struct local_store *local, const struct store_settle *settle,
                           struct open_ticket *ticket)
{
	if (writes_note(settle)) {
		bool dead = settle->outcome == OUTCOME_DEAD;
		local_append_note(local, ticket,
		                  (struct entry_note){ .mark = dead ? STORE_MARK_DEAD
		                                                    : STORE_MARK_PARKED,
		                                       .status = settle->status,
		                                       .attempt = settle->attempt },
		                  store_text_cut(settle->text));
		return;
	}
	frame_add_settle(&local->journal.frame, settle);
	if (closes(settle)) {
		local->batch.events += settle->awaited;
		return;
	}
	ticket->due_ms = settle->due_ms;
	/* What was given back should not be overtaken by what comes after it. */
	local->batch.events++;
}

bool local_decide_settle(struct local_store *local, struct store_settle *settle)
{
	struct open_ticket ticket;
	uint32_t size;
	int r = 0;

	CHECK(local->flushing);
	if (!store_outcome_valid(settle->outcome))
		r = ERR_INVALID;
	else if (unlikely(settle->answer))
		r = store_cell_value_check(settle->answer);
	if (r == 0)
		r = local_find_leased(local, settle->ticket, settle->attempt, &ticket);
	settle->op.error = r;
	if (r != 0)
		return true;
	size = writes_note(settle) ? frame_note_size(store_text_cut(settle->text))
	                           : frame_settle_size(settle);
	r = local_undo_reserve(local, 2); /* with its answer */
	if (r == 0)
		r = local_reserve(local, local_answer_size(settle, size), JOURNAL_URGENT);
	/* A frame may have been lost meanwhile, with what it said of this ticket. */
	if (r == 0)
		r = local_find_leased(local, settle->ticket, settle->attempt, &ticket);
	if (r == 0)
		r = local_put_answer(local, settle);
	if (r != 0) {
		local_defer(local, settle, ERR_FULL);
		return false;
	}
	local_save_ticket(local, &ticket);
	append_outcome(local, settle, &ticket);
	ticket.was = ticket.state;
	ticket.state = OPEN_TICKET_CHANGING;
	open_tickets_update(local->tickets, &ticket);
	return true;
}

void local_settle_is_durable(struct local_store *local, const struct store_settle *settle)
{
	struct open_ticket ticket;

	CHECK(settle->ticket <= local->durable_ticket);
	/* Mostly: done, and nobody waits to hear of it. */
	if (likely(settle->outcome == OUTCOME_DONE && local->waits.count == 0)) {
		bool dropped = open_tickets_drop(local->tickets, settle->ticket);
		CHECK(dropped);
		leases_set(&local->leases, settle->ticket, 0);
		return;
	}
	if (closes(settle)) {
		local_close_ticket(local, settle->ticket, settle->outcome == OUTCOME_DONE);
		return;
	}
	bool found = open_tickets_find(local->tickets, settle->ticket, &ticket);
	CHECK(found && ticket.state == OPEN_TICKET_CHANGING);
	ticket.state = settle->outcome == OUTCOME_DEAD      ? OPEN_TICKET_DEAD
	               : settle->outcome == OUTCOME_UNKNOWN ? OPEN_TICKET_PARKED
	                                                    : OPEN_TICKET_DUE;
	open_tickets_update(local->tickets, &ticket);
	if (unlikely(local->waits.count))
		waits_tell(&local->waits, open_ticket_event(&ticket));
}

void local_close_ticket(struct local_store *local, uint64_t ticket, bool done)
{
	struct open_ticket closed = { .ticket = ticket };

	if (unlikely(!done || local->waits.count))
		(void)!open_tickets_find(local->tickets, ticket, &closed);
	bool dropped = open_tickets_drop(local->tickets, ticket);
	CHECK(dropped);
	leases_set(&local->leases, ticket, 0);
	if (unlikely(!done))
		waits_note_dropped(&local->waits, open_ticket_event(&closed));
	if (unlikely(local->waits.count))
		waits_tell(&local->waits, open_ticket_event(&closed));
}

/* --- releases ------------------------------------------------------------- */

/* Of one whose frame is not written nobody was told. */
static bool is_in(const struct local_store *local, const struct open_ticket *ticket,
                  uint32_t states)
{
	return states & 1u << ticket->state &&
	       (ticket->state != OPEN_TICKET_DUE || ticket->ticket <= local->durable_ticket);
}

/* The tickets that a release is about and that are in one of the states. */
static uint32_t find_legs(const struct local_store *local, const struct store_release *release,
                          uint32_t states, struct open_ticket ret_tickets[static STORE_LEGS_MAX])
{
	struct open_ticket ticket;
	uint32_t count = 0;

	bool found = open_tickets_find(local->tickets, release->ticket, &ticket);
	if (!release->whole_event) {
		if (found && is_in(local, &ticket, states))
			ret_tickets[count++] = ticket;
		return count;
	}
	uint64_t event = found ? open_ticket_event(&ticket) : release->ticket;
	ticket.ticket = event - 1;
	while (open_tickets_next(local->tickets, ticket.ticket, &ticket) &&
	       open_ticket_event(&ticket) == event) {
		CHECK(count < STORE_LEGS_MAX);
		if (is_in(local, &ticket, states))
			ret_tickets[count++] = ticket;
	}
	return count;
}

static uint32_t states_of(const struct store_release *release)
{
	static const uint8_t own[] = { [STORE_STATE_DUE] = OPEN_TICKET_DUE,
		                       [STORE_STATE_HELD] = OPEN_TICKET_HELD,
		                       [STORE_STATE_PARKED] = OPEN_TICKET_PARKED,
		                       [STORE_STATE_DEAD] = OPEN_TICKET_DEAD };
	uint32_t states = store_release_states(release), bits = 0;

	for (uint32_t i = 0; i < ARRAY_LEN(own); i++)
		if (states & 1u << i)
			bits |= 1u << own[i];
	return bits;
}

static void release_one(struct local_store *local, struct open_ticket *ticket, bool drop)
{
	struct store_settle settle = { .ticket = ticket->ticket,
		                       .attempt = ticket->attempt,
		                       .outcome = drop ? OUTCOME_DEAD : OUTCOME_RELEASED };
	bool aside = ticket->state == OPEN_TICKET_PARKED || ticket->state == OPEN_TICKET_DEAD;

	local_save_ticket(local, ticket);
	if (drop || !aside)
		frame_add_settle(&local->journal.frame, &settle);
	else
		local_append_note(local, ticket,
		                  (struct entry_note){ .mark = STORE_MARK_RELEASED,
		                                       .attempt = ticket->attempt },
		                  SPAN_EMPTY);
	if (!aside)
		ticket->due_ms = 0;
	ticket->was = ticket->state;
	ticket->state = OPEN_TICKET_CHANGING;
	open_tickets_update(local->tickets, ticket);
}

int local_decide_release(struct local_store *local, struct store_release *release)
{
	struct open_ticket tickets[STORE_LEGS_MAX];
	uint32_t room = release->whole_event ? STORE_LEGS_MAX : 1;
	uint32_t states = states_of(release);

	CHECK(local->flushing);
	if (find_legs(local, release, states, tickets) == 0)
		return ERR_FENCED;
	if (local_undo_reserve(local, room) < 0)
		return ERR_FULL;
	int r = local_reserve(local, room * (uint32_t)sizeof(struct entry_note), JOURNAL_NORMAL);
	if (r < 0)
		return r;
	uint32_t count = find_legs(local, release, states, tickets);
	release->legs = 0;
	for (uint32_t i = 0; i < count; i++) {
		release->event = open_ticket_event(&tickets[i]);
		release->legs |= 1u << tickets[i].leg;
		release_one(local, &tickets[i], release->drop);
	}
	local->batch.events++;
	return count > 0 ? 0 : ERR_FENCED;
}

/* The legs that it has met, and no others that leave: those are of other releases. */
void local_release_is_durable(struct local_store *local, const struct store_release *release)
{
	struct open_ticket ticket;

	CHECK(release->legs != 0);
	for (uint32_t left = release->legs; left; left &= left - 1) {
		uint64_t number = release->event + (uint64_t)__builtin_ctz(left);
		bool found = open_tickets_find(local->tickets, number, &ticket);
		CHECK(found && ticket.state == OPEN_TICKET_CHANGING);
		ticket.state = OPEN_TICKET_DUE;
		if (release->drop)
			local_close_ticket(local, number, false);
		else
			open_tickets_update(local->tickets, &ticket);
	}
}

/* --- dead letters --------------------------------------------------------- */

/* Nothing is written: the note tells its age to the next start too, which drops it before
 * anybody sees it. */
void local_drop_dead(struct local_store *local, uint32_t looks)
{
	struct open_ticket ticket = { .ticket = local->dead_at };
	uint64_t now_ms = local_now_ms(local);

	if (open_tickets_in(local->tickets, OPEN_TICKET_DEAD) == 0)
		return;
	for (uint32_t i = 0; i < looks; i++) {
		if (!open_tickets_next(local->tickets, ticket.ticket, &ticket)) {
			ticket.ticket = 0;
			break;
		}
		if (ticket.state == OPEN_TICKET_DEAD &&
		    ticket.due_ms + local->options.dead_keep_ms <= now_ms)
			local_close_ticket(local, ticket.ticket, false);
	}
	local->dead_at = ticket.ticket;
}
