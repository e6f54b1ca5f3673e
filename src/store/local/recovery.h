/*
 * recovery: what the entries of the journal, read in order, say of open tickets. For
 * recovery and for the tools that look at a folder.
 *
 * An entry of a ticket that is not known says nothing: its event lies below `scan
 * from`, and was settled long ago.
 *
 * Room:    store/local. Threads: the owner's of the tickets.
 * Failure: -ENOMEM.
 */
#pragma once

#include <stdint.h>

#include "base/check.h"
#include "store/local/index/open_tickets.h"
#include "store/local/journal/format.h"

struct replay_place {
	uint32_t segment;
	uint32_t offset; /* of the entry */
};

int replay_event(struct open_tickets *tickets, const struct entry *entry,
                 struct replay_place place) must_check;
void replay_settle(struct open_tickets *tickets, const struct entry *entry);
void replay_note(struct open_tickets *tickets, const struct entry_note *note,
                 struct replay_place place);

/* When a ticket with this note as its last is due, or since when it is aside; `before`
 * is what was known until then. */
uint64_t replay_due_ms(const struct entry_note *note, uint64_t before);
