/*
 * ticket_kit: what tests of tickets do with a store, one operation at a time. The local
 * one is killed and opened again between the steps (place_restart()), so that what it says
 * comes from the disk too, and a shared one is closed.
 *
 * Room: tests.
 */
#pragma once

#include "place.h"

#define CRM 11u
#define ERP 22u
#define SMS 33u
#define KIT_LEGS 3u

extern const struct store_leg kit_legs[KIT_LEGS];

struct store_admit kit_event_make(uint32_t legs);
/* A new event with so many legs; its ticket. */
uint64_t kit_admit(uint32_t legs);
/* A take that waits is ended by a restart alone; so ask before. */
uint64_t kit_due_count(void);
/* The first that is due at a sink; there must be one. */
struct store_item kit_must_take(uint32_t sink);
int kit_note(const struct store_item *item, enum store_mark mark, uint16_t status);
int kit_settle(const struct store_item *item, enum outcome outcome);
int kit_release(uint64_t ticket, bool drop);
/* The state of an open ticket, or STORE_STATE_CLOSED. */
struct store_item kit_item_of(uint64_t ticket);

/* Events of this size come and go. */
void kit_churn_once(size_t size);
/* So much comes and goes that the first segments have to leave. */
void kit_churn(void);
