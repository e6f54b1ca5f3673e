/*
 * oracle_internal: what oracle.c, oracle_tickets.c, oracle_cells.c and oracle_check.c
 * share.
 *
 * Room: tests.
 */
#pragma once

#include "support/oracle.h"
#include "support/test.h"

#define ORACLE_LONG_S 2592000u
#define ORACLE_SHORT_S 3u
#define ORACLE_ENTITIES 6u
#define ORACLE_LEASE_MS 2000000000u /* none ends by itself */

#define EXPECT(oracle, condition)                                                          \
	do {                                                                               \
		if (!(condition))                                                          \
			fail_msg("%s, %s, step %llu: %s does not hold (%s:%d)",            \
			         test_note_seed((oracle)->seed), (oracle)->about,          \
			         (unsigned long long)(oracle)->step, #condition, __FILE__, \
			         __LINE__);                                                \
	} while (0)

/* As above, of one event. */
#define EXPECT_OF(oracle, event, condition)                                               \
	do {                                                                              \
		if (!(condition))                                                         \
			fail_msg("%s, %s, step %llu, event %u (ticket %llx, fate %d): "   \
			         "%s does not hold (%s:%d)",                              \
			         test_note_seed((oracle)->seed), (oracle)->about,         \
			         (unsigned long long)(oracle)->step,                      \
			         (unsigned)((event) - (oracle)->events),                  \
			         (unsigned long long)(event)->ticket, (int)(event)->fate, \
			         #condition, __FILE__, __LINE__);                         \
	} while (0)

static inline bool oracle_is_short(const struct oracle_event *event)
{
	return event->claim_count && event->claims[0].window_s == ORACLE_SHORT_S;
}

struct digest oracle_digest(uint64_t id);
struct digest oracle_entity(uint32_t entity);
struct oracle_event *oracle_by_ticket(struct oracle *oracle, uint64_t ticket);
/* Of an entity: the last event that is known to be kept, or NULL. */
struct oracle_event *oracle_last_of(struct oracle *oracle, uint32_t entity);

static inline uint64_t oracle_below(struct oracle *oracle, uint64_t n)
{
	return n ? test_random_below(&oracle->random, n) : 0;
}

static inline uint32_t oracle_legs(const struct oracle_event *event)
{
	return event->leg_count ? event->leg_count : 1;
}

/* oracle.c */
struct oracle_op *oracle_op_begin(struct oracle *oracle);
void oracle_answered(struct oracle *oracle, int error);
void oracle_ops_check(struct oracle *oracle);
struct span oracle_bytes(uint32_t start, uint32_t len);

/* oracle_cells.c */
void oracle_cell(struct oracle *oracle, struct store *store);
void oracle_answer(struct oracle_op *own, struct oracle_leg *leg); /* of its settle, if any */
/* When it is known which legs are open. */
void oracle_cells_check(struct oracle *oracle, struct store *store);

/* oracle_tickets.c: each does nothing if there is nothing to do it to. */
void oracle_take(struct oracle *oracle, struct store *store, uint32_t sink);
void oracle_take_one(struct oracle *oracle, struct store *store, uint32_t event, uint32_t leg);
/* It has the attempt from now on, which is known to have started. */
void oracle_started(struct oracle *oracle, struct oracle_leg *leg, uint32_t attempt);
void oracle_settle(struct oracle *oracle, struct store *store, uint32_t event, uint32_t leg);
void oracle_note(struct oracle *oracle, struct store *store, uint32_t event, uint32_t leg);
bool oracle_release(struct oracle *oracle, struct store *store);
/* Every item is one that may be delivered; returns how many. */
uint32_t oracle_items(struct oracle *oracle, const struct store_take *take);
/* The item is the event's, byte for byte. */
void oracle_item_check(struct oracle *oracle, const struct oracle_event *event,
                       const struct store_item *item, const struct store_parts *parts);
/* Could the leg have left delivery by now? */
bool oracle_may_be_settled(const struct oracle_leg *leg);
