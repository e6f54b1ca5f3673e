/*
 * lane_kit: a lane with the model store, a clock that the test turns, and an outlet
 * that does what the test says. One thread, nothing waits for real.
 *
 * Room: tests.
 */
#pragma once

#include "deliver/lane.h"
#include "support/clock_fake.h"
#include "support/model_store.h"
#include "support/test.h"

#define KIT_SENT_MAX 65536u

/* What the outlet saw. */
struct kit_sent {
	uint64_t ticket;
	uint64_t event;
	uint32_t number;
	bool probe;
	uint64_t at_ms;   /* boot */
	uint64_t payload; /* the first 8 bytes */
};

struct lane_kit {
	struct clock_fake clock;
	struct store *store;
	struct store front;             /* what the lane sees of it */
	uint64_t submits;               /* of the lane */
	uint64_t damaged;               /* the ticket whose bytes cannot be read */
	bool full;                      /* no event is admitted */
	bool blind;                     /* no cell can be had */
	bool late;                      /* outcomes reach the store by kit_let_go() */
	struct store_op *outcomes;      /* which are here until then, the last first */
	bool crashed;                   /* nothing of the lane reaches the store any more */
	uint32_t takes;                 /* of the lane, waiting at the store */
	uint64_t tickets[KIT_SENT_MAX]; /* of all events that were admitted to the sink */
	uint32_t ticket_count;
	struct lane *lane;
	struct lane_options options;
	struct outlet outlet;
	/* Decides the answer; NULL: DONE. The result is zeroed before. */
	void (*answer)(struct lane_kit *kit, const struct outlet_attempt *attempt, bool probe,
	               struct outlet_result *result);
	void *user;
	bool holds; /* answers only when kit_answer() is called */
	struct outlet_attempt *held[4096];
	bool held_probe[4096];
	uint32_t held_count;
	uint32_t most_held;
	struct kit_sent sent[KIT_SENT_MAX];
	uint32_t sent_count;
	bool interrupted;
	uint64_t next_payload;
};

/* The policy may be changed before kit_start(). */
void kit_open(struct lane_kit *kit);
void kit_start(struct lane_kit *kit);
void kit_close(struct lane_kit *kit);

/* Every attempt has this answer from now on; the test may change it. */
void kit_say(struct lane_kit *kit, struct outlet_result *answer);

/* The process ends without a word, and another starts: what was noted is known. What
 * the outlet holds gets lost on the way. (Some events are admitted, so that no take of
 * the old lane is left at the store.) */
void kit_crash(struct lane_kit *kit);

/* An event for the sink; its ticket. */
uint64_t kit_admit(struct lane_kit *kit, uint64_t order);
uint64_t kit_admit_to(struct lane_kit *kit, uint32_t sink, uint64_t order);
void kit_admit_many(struct lane_kit *kit, uint32_t count); /* of no entity */

void kit_let_go(struct lane_kit *kit);               /* outcomes are not late any more */
void kit_run(struct lane_kit *kit);                  /* until nothing happens */
void kit_advance(struct lane_kit *kit, uint64_t ms); /* the lane runs when it wants */
void kit_answer(struct lane_kit *kit, uint32_t which, enum outlet_answer answer,
                uint16_t status); /* of those held */

struct store_stats kit_stats(struct lane_kit *kit);
struct lane_view kit_view(struct lane_kit *kit);
uint32_t kit_sends_of(const struct lane_kit *kit, uint64_t ticket); /* not probes */

bool kit_is_open(struct lane_kit *kit, uint64_t ticket);
struct store_item kit_item(struct lane_kit *kit, uint64_t ticket); /* of an open one */
