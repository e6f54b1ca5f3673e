/*
 * ticket: the number of a new event, and its text.
 *
 * A ticket number is 55 bits: 41 bits of milliseconds since 2024-01-01 UTC (69
 * years), then 14 bits of order within the millisecond. So a ticket contains the time when its
 * event was first seen, sorts by age, and the index needs no separate time.
 * More than 16,384 tickets in one millisecond borrow from the next: numbers
 * only ever go up. Zero is no ticket.
 *
 * The text is 11 characters of Crockford's base 32 (lower case), which sorts
 * as the number does.
 *
 * Room: gate.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

#define TICKET_BITS 55
#define TICKET_ORDER_BITS 14
#define TICKET_TEXT_LEN 11
#define TICKET_EPOCH_MS UINT64_C(1704067200000) /* 2024-01-01T00:00:00Z */
/* The first time that no number can represent, in 2093. */
#define TICKET_END_MS (TICKET_EPOCH_MS + (UINT64_C(1) << (TICKET_BITS - TICKET_ORDER_BITS)))

/* The first number at or after `now_ms` (unix) that is greater than `last`. */
static inline uint64_t ticket_next(uint64_t last, uint64_t now_ms)
{
	uint64_t since = now_ms > TICKET_EPOCH_MS ? now_ms - TICKET_EPOCH_MS : 0;
	uint64_t first = since << TICKET_ORDER_BITS;
	return first > last ? first : last + 1;
}

/* Unix milliseconds, by the store's clock, at which the ticket was made. */
static inline uint64_t ticket_time_ms(uint64_t ticket)
{
	return (ticket >> TICKET_ORDER_BITS) + TICKET_EPOCH_MS;
}

/* See digest_place(). The lowest four bits distinguish the legs of an event. */
static inline uint32_t ticket_place(uint64_t ticket)
{
	return (uint32_t)(ticket >> 4) & 1023u;
}

void ticket_text(uint64_t ticket, char ret_text[static TICKET_TEXT_LEN]); /* no NUL */
/* As a member of JSON, see codec/json_write.h; nothing for 0. */
void ticket_add(struct buf *out, const char *name, uint64_t ticket);
bool ticket_parse(struct span text, uint64_t *ret_ticket);
