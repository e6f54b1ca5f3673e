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
                               const struct store_parts *parts)
{
	if (oracle_by_ticket(oracle, item->event))
		return;
	for (uint32_t i = 0; i < oracle->count; i++) {
		struct oracle_event *event = &oracle->events[i];
		if (event->fate != ORACLE_UNKNOWN || event->no_ticket ||
		    (!oracle_is_short(event) && event->kind != ORACLE_BARE) ||
		    event->flags != item->flags || !span_eq(event->source, parts->source) ||
		    !span_eq(event->metadata, parts->metadata) ||
		    !span_eq(event->payload, parts->payload))
			continue;
		event->fate = ORACLE_KEPT;
		event->ticket = item->event;
		return;
	}
}

/* Which states may a leg be in that is found open? */
static bool state_allowed(const struct oracle_leg *leg, enum store_state state)
{
	if (leg->outcome == ORACLE_SETTLED)
		return false;
	switch (leg->hold) {
	case ORACLE_FREE: return state == STORE_STATE_DUE;
	case ORACLE_HELD:
	case ORACLE_DROPPING: return state == leg->aside;
	case ORACLE_GOING:
	case ORACLE_RELEASING: break;
	}
	return state == STORE_STATE_DUE || state == leg->aside;
}

static void open_item_check(struct oracle *oracle, const struct store_item *item,
                            const struct store_parts *parts)
{
	unknown_by_content(oracle, item, parts);
	struct oracle_event *event = oracle_by_ticket(oracle, item->event);
	EXPECT(oracle, event != NULL);
	oracle_item_check(oracle, event, item, parts);
	struct oracle_leg *leg = &event->legs[item->ticket - item->event];
	EXPECT_OF(oracle, event, !event->no_ticket && !leg->open);
	EXPECT_OF(oracle, event, state_allowed(leg, item->state));
	EXPECT_OF(oracle, event, item->last == leg->last || leg->maybe & 1u << item->last);
	EXPECT_OF(oracle, event, item->attempt >= leg->noted);
	leg->open = true;
	leg->outcome = ORACLE_OPEN;
	leg->hold = item->state == STORE_STATE_DUE ? ORACLE_FREE : ORACLE_HELD;
	leg->last = item->last;
	leg->maybe = 0;
	leg->noted = item->attempt;
}

/* Every open ticket, whatever its state. */
static uint64_t open_check(struct oracle *oracle, struct store *store)
{
	struct store_scan scan = { .with_payload = true, .max_items = 256, .max_bytes = 1u << 20 };
	uint64_t count = 0;

	for (uint32_t i = 0; i < oracle->count; i++)
		for (uint32_t leg = 0; leg < ORACLE_LEGS_MAX; leg++)
			oracle->events[i].legs[leg].open = false;
	while (!scan.end) {
		struct store_item item;
		struct store_parts parts;
		EXPECT(oracle, store_call(store, &scan.op, STORE_SCAN) == 0);
		for (size_t at = 0; store_item_next(buf_span(&scan.items), &at, &item, &parts);
		     count++)
			open_item_check(oracle, &item, &parts);
	}
	buf_free(&scan.items);
	return count;
}

/* Who should have been there is. */
static void closed_check(struct oracle *oracle, struct oracle_event *event)
{
	if (event->fate != ORACLE_KEPT || event->no_ticket)
		return;
	for (uint32_t i = 0; i < oracle_legs(event); i++) {
		struct oracle_leg *leg = &event->legs[i];
		EXPECT_OF(oracle, event,
		          leg->open || leg->outcome != ORACLE_OPEN || leg->hold == ORACLE_DROPPING);
		if (leg->open)
			continue;
		leg->outcome = ORACLE_SETTLED;
		leg->hold = ORACLE_FREE;
	}
}

static uint64_t due_count(const struct oracle *oracle, uint32_t sink)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < oracle->count; i++)
		for (uint32_t leg = 0; leg < ORACLE_LEGS_MAX; leg++) {
			const struct oracle_leg *it = &oracle->events[i].legs[leg];
			count += it->open && it->hold == ORACLE_FREE && it->leg.sink == sink;
		}
	return count;
}

static void lease_all(struct oracle *oracle, struct store *store, uint32_t sink)
{
	struct take_call call = { .take.sink = sink };

	for (uint64_t left = due_count(oracle, sink); left > 0;) {
		take_call_begin(store, &call, 64, 1u << 20);
		store_calls_flush(store);
		EXPECT(oracle, take_call_poll(&call));
		EXPECT(oracle, call.take.op.error == 0);
		left -= oracle_items(oracle, &call.take);
	}
	buf_free(&call.take.items);
}

static void stats_check(struct oracle *oracle, struct store *store, uint64_t open)
{
	struct store_stats stats;

	store_stats(store, &stats);
	EXPECT(oracle, stats.open_tickets == open);
	EXPECT(oracle, stats.due_tickets == 0); /* all leased */
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
	}
	entities_check(oracle, store);
	uint64_t open = open_check(oracle, store);
	oracle_cells_check(oracle, store);
	for (uint32_t i = 0; i < oracle->count; i++)
		closed_check(oracle, &oracle->events[i]);
	for (uint32_t sink = 0; sink < ORACLE_SINKS; sink++)
		lease_all(oracle, store, sink);
	stats_check(oracle, store, open);
}
