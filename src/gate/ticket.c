/* ticket: see ticket.h. */
#include "gate/ticket.h"

#include "codec/json_write.h"

#include "base/check.h"

#define BITS_PER_CHARACTER 5

_Static_assert(TICKET_BITS == TICKET_TEXT_LEN * BITS_PER_CHARACTER, "a text is exactly a number");

/* Crockford's: no i, l, o, u. In ASCII order, so texts sort as numbers do. */
static const char alphabet[32] = "0123456789abcdefghjkmnpqrstvwxyz";

void ticket_text(uint64_t ticket, char ret_text[static TICKET_TEXT_LEN])
{
	CHECK(ticket >> TICKET_BITS == 0);
	for (int i = TICKET_TEXT_LEN - 1; i >= 0; i--) {
		ret_text[i] = alphabet[ticket & 31];
		ticket >>= BITS_PER_CHARACTER;
	}
}

void ticket_add(struct buf *out, const char *name, uint64_t ticket)
{
	char text[TICKET_TEXT_LEN];
	if (ticket == 0)
		return;
	ticket_text(ticket, text);
	json_add_text(out, name, span_of(text, sizeof(text)));
}

bool ticket_parse(struct span text, uint64_t *ret_ticket)
{
	uint64_t ticket = 0;
	if (text.len != TICKET_TEXT_LEN)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		const char *at = memchr(alphabet, span_lower(text.ptr[i]), sizeof(alphabet));
		if (!at)
			return false;
		ticket = ticket << BITS_PER_CHARACTER | (uint64_t)(at - alphabet);
	}
	if (ticket == 0)
		return false;
	*ret_ticket = ticket;
	return true;
}
