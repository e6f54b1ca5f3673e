/*
 * model_store_tickets: the open tickets of the model store, and all that can be done
 * with one. Written to be obviously right: one array in the order of the numbers.
 *
 * Room:      tests. Threads: one owner.
 * Ownership: model_tickets_new() gives it, model_tickets_free() takes it.
 * Failure:   only model_tickets_prepare() and the ones that fill a buf need memory;
 *            they change nothing if there is none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "store/store.h"
#include "store/waits.h"

struct model_tickets;
struct ticket_body;

int model_tickets_new(struct model_tickets **ret_tickets) must_check;
struct model_tickets *model_tickets_free(struct model_tickets *tickets); /* accepts NULL */

/* What time it is, for all that follows. */
void model_tickets_set_time(struct model_tickets *tickets, uint64_t now_ms, uint64_t boot_ms);

/* All that the tickets of this event need; then opening them cannot fail. */
int model_tickets_prepare(struct model_tickets *tickets, const struct store_admit *admit,
                          struct ticket_body **ret_body) must_check;
struct ticket_body *model_tickets_unprepare(struct ticket_body *body); /* accepts NULL */
void model_tickets_open(struct model_tickets *tickets, const struct store_admit *admit,
                        uint64_t event, struct ticket_body *body, bool held);

/* Each is the operation of store.h. `waits` is told what has left delivery. */
int model_tickets_settle(struct model_tickets *tickets, const struct store_settle *settle,
                         struct waits *waits);
int model_tickets_note(struct model_tickets *tickets, const struct store_note *note);
int model_tickets_release(struct model_tickets *tickets, const struct store_release *release,
                          struct waits *waits);
int model_tickets_renew(struct model_tickets *tickets, const struct store_renew *renew);
int model_tickets_read(struct model_tickets *tickets, struct store_read *read);
int model_tickets_scan(struct model_tickets *tickets, struct store_scan *scan);
int model_tickets_list_held(const struct model_tickets *tickets, struct store_held *held);
/* Of one ticket. */
int model_tickets_take_one(struct model_tickets *tickets, struct store_take *take);
/* False: there is nothing to give now. */
bool model_tickets_take(struct model_tickets *tickets, struct store_take *take);

struct waits_legs model_tickets_legs(struct model_tickets *tickets, uint64_t event);
bool model_tickets_held(struct model_tickets *tickets, uint64_t ticket);

void model_tickets_end_leases(struct model_tickets *tickets); /* that are over */
/* Dead letters that are older. */
void model_tickets_drop_dead(struct model_tickets *tickets, uint64_t dead_keep_ms,
                             struct waits *waits);
/* `shared`: others go on, and with them leases that have an end. */
void model_tickets_restart(struct model_tickets *tickets, bool shared);

uint64_t model_tickets_count(const struct model_tickets *tickets, enum store_state state);
uint64_t model_tickets_callers(const struct model_tickets *tickets); /* STORE_SINK_CALLER */
uint64_t model_tickets_open_count(const struct model_tickets *tickets);
uint64_t model_tickets_bytes(const struct model_tickets *tickets);
