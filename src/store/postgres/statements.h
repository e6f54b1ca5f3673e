/*
 * statements: the numbers of gate/ticket.h in SQL.
 *
 * Room: store/postgres.
 */
#pragma once

#include <stdint.h>

#include "gate/ticket.h"

/* As text for SQL; statements_ticket_ms() checks them against ticket.h. */
#define SQL_TICKET_EPOCH "1704067200000"
#define SQL_TICKET_BITS "14"

/* The time, by a parameter of postgres_clock(). */
#define SQL_NOW(clock) "greatest(stile_now(" clock "::bigint), -" clock "::bigint)"
#define SQL_CLOCK(clock)                                                                      \
	"CASE WHEN " clock "::bigint > 0 THEN " clock "::bigint ELSE greatest(stile_clock()," \
	" -" clock "::bigint) END"

static inline uint64_t statements_ticket_ms(uint64_t ticket)
{
	_Static_assert(TICKET_EPOCH_MS == UINT64_C(1704067200000) && TICKET_ORDER_BITS == 14,
	               "the statements know these numbers");
	return ticket_time_ms(ticket);
}
