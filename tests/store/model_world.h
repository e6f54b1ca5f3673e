/*
 * model_world: a local store, or one that is shared, and the model store that get the same
 * operations, for test_model.c and its parts.
 *
 * Room: tests.
 */
#pragma once

#include "base/error.h"
#include "store/local/local_store.h"
#include "store_under_test.h"
#include "support/clock_fake.h"
#include "support/model_store.h"
#include "support/simfs.h"
#include "support/store_calls.h"
#include "support/test.h"

#define DIGESTS 160u
#define ENTITIES 24u
#define ORDERS 40u
#define CHECKS 3u
#define CELLS 300u
#define SINKS 4u
#define CALLER STORE_SINK_CALLER /* its tickets alone have leases that end */
#define BATCH_MAX 24u
#define LEASES_MAX 4096u
#define CALLERS_MAX 512u
#define WAITS_MAX 64u
#define PAYLOAD_MAX 9000u
#define HOUR_MS INT64_C(3600000)
#define DAY_MS (24 * HOUR_MS)

struct lease {
	uint64_t ticket;
	uint32_t attempt;
	bool ends;
};

struct pair {
	enum store_op_kind kind;
	union {
		struct store_op op;
		struct store_admit admit;
		struct store_settle settle;
		struct store_lookup lookup;
		struct store_release release;
		struct store_note note;
		struct store_renew renew;
		struct store_take take;
		struct store_cell cell;
	} on[2]; /* model, local */
	bool done[2];
	struct store_cell_value answer;
	struct store_leg legs[STORE_LEGS_MAX];
};

/* One wait at both. */
struct wait_pair {
	struct store_wait on[2];
	bool done[2];
	bool used;
};

struct world {
	uint64_t seed, random, step;
	const char *doing;
	struct simfs *simfs;
	struct clock_fake true_clock, jumpy_clock;
	struct store *model, *local; /* local: or the shared one */
	bool shared;
	struct local_store_options options;
	struct take_call waiting; /* at the local store */
	struct buf model_items;
	struct lease leases[LEASES_MAX];
	size_t lease_count;
	uint64_t aside
		[LEASES_MAX]; /* tickets that were held, parked or dead, some of them not now */
	size_t aside_count;
	uint64_t callers[CALLERS_MAX]; /* the last tickets of whoever claimed an event */
	size_t caller_count, caller_at;
	uint64_t last_event;   /* the last that was admitted */
	uint64_t killed_after; /* counts of tickets up to this one may be low */
	uint64_t first_event;  /* since the store was opened; 0: none yet */
	/* Claims of one event end at different times. A count may go with the claim
	 * by which it was raised, so it may be low too. */
	bool told; /* when a write has ended */
	bool mixed_windows;
	bool mostly_cells;
	unsigned char bytes[PAYLOAD_MAX];
	struct pair pairs[BATCH_MAX];
	size_t pair_count;
	struct wait_pair waits[WAITS_MAX];
	char log[ERROR_TEXT_MAX];
};

/* What the histories came to, so that a rule that never applies is seen. */
struct model_tally {
	uint64_t verdicts[VERDICT_COUNT], would_verdicts[VERDICT_COUNT];
	uint64_t ops[STORE_CELL + 1], fenced; /* that were done; that were refused */
	uint64_t settled[OUTCOME_COUNT], noted[STORE_MARK_RELEASED + 1];
	uint64_t waited[OUTCOME_COUNT];
	uint64_t states[STORE_STATE_CLOSED + 1]; /* seen by scans */
	uint64_t legs, histories, starts, takes_of_one;
	uint64_t cells[STORE_CELL_REMOVE + 1][2][2]; /* by act, found, changed */
	uint64_t answers, cells_told;
};
extern struct model_tally model_tally;

#define EXPECT(world, condition)                                                                   \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail_msg("%s, step %llu (%s): %s does not hold (%s:%d); last log: %s",     \
			         test_note_seed((world)->seed), (unsigned long long)(world)->step, \
			         (world)->doing, #condition, __FILE__, __LINE__, (world)->log);    \
	} while (0)

static inline uint64_t below(struct world *world, uint64_t n)
{
	return n ? test_random_below(&world->random, n) : 0;
}

/* A sink that takes ask for. */
static inline uint32_t sink_choose(struct world *world)
{
	uint32_t sink = (uint32_t)below(world, SINKS - 1);

	return sink < CALLER ? sink : sink + 1;
}

/* model_make.c: a random operation, the same for both. */
void pair_make(struct world *world, struct pair *pair);
/* A ticket that was once given, mostly. */
uint64_t ticket_choose(struct world *world);

/* model_cells.c: the same for cells. */
void cell_make(struct world *world, struct store_cell *cell);
void cell_value_make(struct world *world, struct store_cell_value *value);
void cell_compare(struct world *world, struct store_cell on[2]); /* frees the values */
void cells_compare(struct world *world);                         /* which there are */

/* model_compare.c: equal answers. */
void pair_compare(struct world *world, struct pair *pair);
void take_compare(struct world *world); /* what the local store leased, both do */
void stats_compare(struct world *world);
void read_compare(struct world *world, uint64_t ticket);
void scan_compare(struct world *world);
void waits_compare(struct world *world);
