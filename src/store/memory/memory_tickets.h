/*
 * memory_tickets: the open tickets of the memory store, and all that can be done with
 * one. Written to be obviously right: one array in the order of the numbers.
 *
 * Room:      store/memory. Threads: one owner.
 * Ownership: memory_tickets_new() gives it, memory_tickets_free() takes it.
 * Failure:   only memory_tickets_prepare() and the ones that fill a buf need memory;
 *            they change nothing if there is none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "store/store.h"
#include "store/waits.h"

struct memory_tickets;
struct ticket_body;

int memory_tickets_new(struct memory_tickets **ret_tickets) must_check;
struct memory_tickets *memory_tickets_free(struct memory_tickets *tickets); /* accepts NULL */

/* What time it is, for all that follows. */
void memory_tickets_set_time(struct memory_tickets *tickets, uint64_t now_ms, uint64_t boot_ms);

/* All that the tickets of this event need; then opening them cannot fail. */
int memory_tickets_prepare(struct memory_tickets *tickets, const struct store_admit *admit,
                           struct ticket_body **ret_body) must_check;
struct ticket_body *memory_tickets_unprepare(struct ticket_body *body); /* accepts NULL */
void memory_tickets_open(struct memory_tickets *tickets, const struct store_admit *admit,
                         uint64_t event, struct ticket_body *body, bool held);

/* Each is the operation of store.h. `waits` is told what has left delivery. */
int memory_tickets_settle(struct memory_tickets *tickets, const struct store_settle *settle,
                          struct waits *waits);
int memory_tickets_note(struct memory_tickets *tickets, const struct store_note *note);
int memory_tickets_release(struct memory_tickets *tickets, const struct store_release *release,
                           struct waits *waits);
int memory_tickets_renew(struct memory_tickets *tickets, const struct store_renew *renew);
int memory_tickets_read(struct memory_tickets *tickets, struct store_read *read);
int memory_tickets_scan(struct memory_tickets *tickets, struct store_scan *scan);
int memory_tickets_list_held(const struct memory_tickets *tickets, struct store_held *held);
/* Of one ticket. */
int memory_tickets_take_one(struct memory_tickets *tickets, struct store_take *take);
/* False: there is nothing to give now. */
bool memory_tickets_take(struct memory_tickets *tickets, struct store_take *take);

struct waits_legs memory_tickets_legs(struct memory_tickets *tickets, uint64_t event);
bool memory_tickets_held(struct memory_tickets *tickets, uint64_t ticket);

void memory_tickets_end_leases(struct memory_tickets *tickets); /* that are over */
/* Dead letters that are older. */
void memory_tickets_drop_dead(struct memory_tickets *tickets, uint64_t dead_keep_ms,
                              struct waits *waits);
/* `shared`: others go on, and with them leases that have an end. */
void memory_tickets_restart(struct memory_tickets *tickets, bool shared);

uint64_t memory_tickets_count(const struct memory_tickets *tickets, enum store_state state);
uint64_t memory_tickets_callers(const struct memory_tickets *tickets); /* STORE_SINK_CALLER */
uint64_t memory_tickets_open_count(const struct memory_tickets *tickets);
uint64_t memory_tickets_bytes(const struct memory_tickets *tickets);
