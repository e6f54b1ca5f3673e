/*
 * oracle_internal: what oracle.c and oracle_check.c share.
 *
 * Room: tests.
 */
#pragma once

#include "support/oracle.h"
#include "support/test.h"

#define ORACLE_LONG_S 2592000u
#define ORACLE_SHORT_S 3u
#define ORACLE_ENTITIES 6u

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
			fail_msg("%s, %s, step %llu, event %u (ticket %llx, fate %d, "    \
			         "outcome %d): %s does not hold (%s:%d)",                 \
			         test_note_seed((oracle)->seed), (oracle)->about,         \
			         (unsigned long long)(oracle)->step,                      \
			         (unsigned)((event) - (oracle)->events),                  \
			         (unsigned long long)(event)->ticket, (int)(event)->fate, \
			         (int)(event)->outcome, #condition, __FILE__, __LINE__);  \
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
/* Every item is one that may be delivered; returns how many. */
uint32_t oracle_items(struct oracle *oracle, const struct store_take *take);
