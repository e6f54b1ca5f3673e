/*
 * statements: the numbers of gate/ticket.h in SQL.
 *
 * Room: store/postgres.
 */
#pragma once

#include <stdint.h>

#include "gate/ticket.h"

/* As text, for the server; checked against ticket.h by statements_ticket_ms(). */
#define SQL_TICKET_EPOCH "1704067200000"
#define SQL_TICKET_BITS "14"

static inline uint64_t statements_ticket_ms(uint64_t ticket)
{
	_Static_assert(TICKET_EPOCH_MS == UINT64_C(1704067200000) && TICKET_ORDER_BITS == 14,
	               "the statements know these numbers");
	return ticket_time_ms(ticket);
}
