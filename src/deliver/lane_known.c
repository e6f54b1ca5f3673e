/*
 * lane_known: successes that the store did not hear of in time. See lane_private.h.
 *
 * While a shared store is away outcomes wait, and leases go on to end. When it is back, the
 * tickets are given out again, perhaps to this very lane: before it is told that its outcome
 * was refused, or after. What it knows to be done is then neither delivered once more nor
 * parked, but settled under the new number. Not so if a person has released it meanwhile.
 */
#include "base/mem.h"
#include "deliver/lane_private.h"

/* The last LANE_RECORDS_MAX; without memory for them nothing is known. */
void lane_known_add(struct lane *lane, uint64_t ticket)
{
	if (!lane->known)
		lane->known = mem_zalloc(LANE_RECORDS_MAX, sizeof(*lane->known));
	if (lane->known)
		lane->known[lane->known_count++ % LANE_RECORDS_MAX] = ticket;
}

static uint64_t *find_refused(const struct lane *lane, uint64_t ticket)
{
	uint64_t count = lane->known_count < LANE_RECORDS_MAX ? lane->known_count
	                                                      : LANE_RECORDS_MAX;
	for (uint64_t i = 0; i < count; i++)
		if (lane->known[i] == ticket)
			return &lane->known[i];
	return NULL;
}

/* A person wants it once more. */
static void forget(struct lane *lane, uint64_t ticket)
{
	uint64_t *refused;
	while ((refused = find_refused(lane, ticket)) != NULL)
		*refused = 0;
}

/* On its way to the store; one that was refused is of no interest any more then. */
static bool is_recording(struct lane *lane, uint64_t ticket)
{
	bool found = false;
	if (lane->recordable == LANE_RECORDS_MAX)
		return false;
	for (uint32_t i = 0; i < lane->record_slab_count; i++) {
		for (uint32_t k = 0; k < LANE_SLAB; k++) {
			struct lane_record *record = &lane->record_slabs[i][k];
			if (record->settle.ticket != ticket)
				continue;
			record->outdated = true;
			found = true;
		}
	}
	return found;
}

bool lane_known_settle(struct lane *lane, const struct store_item *item)
{
	if (item->last == STORE_MARK_RELEASED)
		forget(lane, item->ticket);
	if (item->attempt < 2 || item->last == STORE_MARK_RELEASED ||
	    (!is_recording(lane, item->ticket) && !find_refused(lane, item->ticket)))
		return false;
	struct lane_attempt *attempt = lane_pool_get(lane);
	if (!attempt)
		return false;
	attempt->out.ticket = item->ticket;
	attempt->out.event = item->event;
	attempt->out.number = item->attempt;
	lane_settle(attempt, OUTCOME_DONE);
	return true;
}
