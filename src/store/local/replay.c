/* replay: see replay.h. */
#include "store/local/replay.h"

#include "gate/verdict.h"
#include "store/store.h"

static uint16_t cut_attempt(uint32_t attempt)
{
	return (uint16_t)(attempt < STORE_ATTEMPT_MAX ? attempt : STORE_ATTEMPT_MAX);
}

int replay_event(struct open_tickets *tickets, const struct entry *entry, struct replay_place place)
{
	const struct entry_event *event = &entry->event;

	for (uint32_t i = 0; i < entry_ticket_count(entry); i++) {
		struct entry_leg leg = entry_leg_at(entry, i);
		struct open_ticket ticket = {
			.ticket = event->ticket + i,
			.order = leg.order,
			.segment = place.segment,
			.offset = place.offset,
			.length = entry->size,
			.sink = leg.sink,
			.attempt = event->attempt,
			.state = event->flags & EVENT_HELD ? OPEN_TICKET_HELD : OPEN_TICKET_DUE,
			.leg = (uint8_t)(entry->first_leg + i),
		};
		int r = open_tickets_insert(tickets, &ticket);
		if (r < 0)
			return r;
	}
	return 0;
}

void replay_settle(struct open_tickets *tickets, const struct entry *entry)
{
	const struct entry_settle *settle = &entry->settle;
	struct open_ticket ticket;

	if (!open_tickets_find(tickets, settle->ticket, &ticket))
		return;
	if (settle->outcome != OUTCOME_RELEASED) {
		open_tickets_drop(tickets, settle->ticket);
		return;
	}
	ticket.state = OPEN_TICKET_DUE;
	ticket.attempt = cut_attempt(settle->attempt);
	ticket.due_ms = entry->due_ms;
	open_tickets_update(tickets, &ticket);
}

uint64_t replay_due_ms(const struct entry_note *note, uint64_t before)
{
	switch ((enum store_mark)note->mark) {
	case STORE_MARK_DEAD:
	case STORE_MARK_PARKED: return note->at_ms;
	case STORE_MARK_STARTED: return before;
	case STORE_MARK_FAILED:
	case STORE_MARK_UNKNOWN:
	case STORE_MARK_RELEASED:
	case STORE_MARK_NONE: break;
	}
	return note->due_ms;
}

static enum open_ticket_state state_after(enum store_mark mark)
{
	if (mark == STORE_MARK_DEAD)
		return OPEN_TICKET_DEAD;
	return mark == STORE_MARK_PARKED ? OPEN_TICKET_PARKED : OPEN_TICKET_DUE;
}

void replay_note(struct open_tickets *tickets, const struct entry_note *note,
                 struct replay_place place)
{
	struct open_ticket ticket;

	if (!open_tickets_find(tickets, note->ticket, &ticket))
		return;
	ticket.state = (uint8_t)state_after(note->mark);
	ticket.attempt = cut_attempt(note->attempt);
	ticket.due_ms = replay_due_ms(note, ticket.due_ms);
	ticket.last = note->mark;
	ticket.status = note->status;
	ticket.note_segment = place.segment;
	ticket.note_offset = place.offset;
	open_tickets_update(tickets, &ticket);
}
