/* oracle_check: the checking half of oracle.h. */
#include <string.h>

#include "gate/ticket.h"
#include "support/oracle_internal.h"
#include "support/store_calls.h"

static struct store_lookup lookup_of(struct oracle *oracle, struct store *store,
                                     enum claim_kind kind, const struct digest *digest)
{
	struct store_lookup result = { .digest = *digest, .kind = kind };

	EXPECT(oracle, store_call(store, &result.op, STORE_LOOKUP) == 0);
	return result;
}

static struct store_lookup lookup(struct oracle *oracle, struct store *store,
                                  const struct digest *digest)
{
	return lookup_of(oracle, store, CLAIM_ONCE, digest);
}

static bool expired(const struct oracle *oracle, const struct oracle_event *event)
{
	return oracle_is_short(event) &&
	       ticket_time_ms(event->ticket) + ORACLE_SHORT_S * 1000 <= oracle->clock->now.wall_ms;
}

/* Nobody was told of it: it may be there, but then all of it. */
static void unknown_resolve(struct oracle *oracle, struct store *store, struct oracle_event *event)
{
	uint32_t shared = 0; /* a conflict that did not pass does not own its claim */
	uint32_t taken = 0;
	uint64_t ticket = 0;

	for (uint32_t i = 0; i < event->claim_count; i++) {
		struct store_lookup found = lookup(oracle, store, &event->claims[i].digest);
		struct oracle_event *owner = found.taken ? oracle_by_ticket(oracle, found.ticket)
		                                         : NULL;
		if (owner) {
			shared++;
			continue;
		}
		taken += found.taken;
		if (found.taken && ticket)
			EXPECT_OF(oracle, event, found.ticket == ticket);
		if (found.taken)
			ticket = found.ticket;
	}
	if (taken) {
		EXPECT_OF(oracle, event,
		          event->kind != ORACLE_SECOND && event->kind != ORACLE_REJECT);
		EXPECT_OF(oracle, event, shared == 0 && taken == event->claim_count);
		event->fate = ORACLE_KEPT;
		event->ticket = ticket;
	}
}

/* A conflict that passed has its first claim; unknown ones were resolved before. */
static bool was_robbed(const struct oracle *oracle, const struct oracle_event *event)
{
	uint32_t index = (uint32_t)(event - oracle->events);

	for (uint32_t i = 0; i < oracle->count && event->contested; i++)
		if (oracle->events[i].kind == ORACLE_PASS && oracle->events[i].holder == index &&
		    oracle->events[i].fate == ORACLE_KEPT)
			return true;
	return false;
}

static void kept_check(struct oracle *oracle, struct store *store, const struct oracle_event *event)
{
	if (expired(oracle, event))
		return;
	for (uint32_t i = was_robbed(oracle, event) ? 1 : 0; i < event->claim_count; i++) {
		const struct digest *digest = &event->claims[i].digest;
		struct store_lookup found = lookup(oracle, store, digest);
		EXPECT_OF(oracle, event, found.taken);
		EXPECT_OF(oracle, event, found.ticket == event->ticket);
		EXPECT_OF(oracle, event, found.check == digest_check(digest));
	}
}

/* What was kept aside, and may have been released. */
static void hold_check(struct oracle *oracle, struct store *store, struct oracle_event *event)
{
	struct store_lookup found = lookup(oracle, store, &event->claims[0].digest);

	if (event->hold == ORACLE_HELD)
		EXPECT_OF(oracle, event, found.held);
	EXPECT_OF(oracle, event, found.open || event->hold == ORACLE_DROPPING);
	if (!found.open)
		event->outcome = ORACLE_SETTLED;
	event->hold = found.held ? ORACLE_HELD : ORACLE_FREE;
}

static void entities_check(struct oracle *oracle, struct store *store)
{
	for (uint32_t i = 0; i < ORACLE_ENTITIES; i++) {
		struct digest digest = oracle_entity(i);
		struct store_lookup found = lookup_of(oracle, store, CLAIM_NEWEST, &digest);
		const struct oracle_event *last = oracle_last_of(oracle, i);
		EXPECT(oracle, found.taken == (last != NULL));
		if (!last)
			continue;
		EXPECT_OF(oracle, last, found.ticket == last->ticket);
		EXPECT_OF(oracle, last, found.order == last->order);
	}
}

/* A short event of unknown fate may have come, gone by its window, and still be
 * open; one without claims may be there: its ticket is known by its bytes alone. */
static void unknown_by_content(struct oracle *oracle, const struct store_item *item,
                               struct span source, struct span payload)
{
	if (oracle_by_ticket(oracle, item->ticket))
		return;
	for (uint32_t i = 0; i < oracle->count; i++) {
		struct oracle_event *event = &oracle->events[i];
		if (event->fate != ORACLE_UNKNOWN || event->no_ticket ||
		    (!oracle_is_short(event) && event->kind != ORACLE_BARE) ||
		    event->flags != item->flags || !span_eq(event->source, source) ||
		    !span_eq(event->payload, payload))
			continue;
		event->fate = ORACLE_KEPT;
		event->ticket = item->ticket;
		return;
	}
}

static uint64_t held_count(const struct oracle *oracle)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < oracle->count; i++)
		count += oracle->events[i].fate == ORACLE_KEPT &&
		         oracle->events[i].hold == ORACLE_HELD;
	return count;
}

static void open_check(struct oracle *oracle, struct store *store)
{
	struct take_call call = { 0 };
	struct store_stats stats;
	uint64_t total = 0;

	store_stats(store, &stats);
	while (total < stats.due_tickets) {
		struct store_item item;
		struct span source, payload;
		size_t at = 0;
		take_call_begin(store, &call, 64, 1u << 20);
		store_calls_flush(store);
		EXPECT(oracle, take_call_poll(&call));
		EXPECT(oracle, call.take.op.error == 0);
		while (store_item_next(buf_span(&call.take.items), &at, &item, &source, &payload))
			unknown_by_content(oracle, &item, source, payload);
		total += oracle_items(oracle, &call.take);
	}
	EXPECT(oracle, total == stats.due_tickets);
	EXPECT(oracle, total + stats.held_tickets == stats.open_tickets);
	EXPECT(oracle, stats.held_tickets == held_count(oracle));
	buf_free(&call.take.items);
}

/* After the walk over what is open: who should have been there is. */
static void outcome_check(struct oracle *oracle, struct oracle_event *event)
{
	if (event->fate != ORACLE_KEPT || event->no_ticket || event->hold == ORACLE_HELD)
		return;
	if (event->outcome == ORACLE_OPEN)
		EXPECT_OF(oracle, event, event->leased);
	else if (event->outcome == ORACLE_SETTLING)
		event->outcome = event->leased ? ORACLE_OPEN : ORACLE_SETTLED;
}

void oracle_check(struct oracle *oracle, struct store *store)
{
	oracle_restarted(oracle);
	for (uint32_t i = 0; i < oracle->count; i++)
		if (oracle->events[i].fate == ORACLE_UNKNOWN)
			unknown_resolve(oracle, store, &oracle->events[i]);
	for (uint32_t i = 0; i < oracle->count; i++) {
		struct oracle_event *event = &oracle->events[i];
		if (event->fate == ORACLE_KEPT)
			kept_check(oracle, store, event);
		else if (event->fate == ORACLE_REFUSED)
			EXPECT_OF(oracle, event,
			          !lookup(oracle, store, &event->claims[0].digest).taken);
		if (event->fate == ORACLE_KEPT && event->hold != ORACLE_FREE)
			hold_check(oracle, store, event);
	}
	entities_check(oracle, store);
	open_check(oracle, store);
	for (uint32_t i = 0; i < oracle->count; i++)
		outcome_check(oracle, &oracle->events[i]);
}
