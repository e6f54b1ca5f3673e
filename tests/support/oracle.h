/*
 * oracle: what was promised, kept outside the store.
 *
 * It drives a store with random operations and writes down every answer: what
 * was acknowledged, what was settled, and what nobody knows (submitted without
 * an answer, or answered with an error). After a crash, a fault or damage
 * oracle_check() holds a store that was opened again against that:
 *
 *   - every claim of an acknowledged event is taken, by the same ticket, with the
 *     same content;
 *   - every leg of an acknowledged event that was not settled is open, byte for byte,
 *     whatever became of the others;
 *   - what was kept aside, parked or dead is so until its release was acknowledged, and
 *     not after;
 *   - the last note that was acknowledged is there, and no attempt's number comes again;
 *   - an entity is where the last event that is there has moved it;
 *   - nothing that was acknowledged as settled is open;
 *   - a cell is as it was acknowledged last, or as one of the operations since would have
 *     made it; the answer of an outcome is there if the outcome is;
 *   - an event of unknown fate is there whole or not at all;
 *   - nothing else is open, and claims of refused events are free.
 *
 * Room:    tests. Threads: one.
 * Failure: fails the test with `about` and the seed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"
#include "support/clock_fake.h"

#define ORACLE_EVENTS_MAX 640u
#define ORACLE_BATCH_MAX 12u /* operations of one step */
#define ORACLE_OPS_MAX 512u  /* with those that the store keeps for later */
#define ORACLE_NOBODY UINT32_MAX
#define ORACLE_LEGS_MAX 3u
#define ORACLE_SINKS 3u
#define ORACLE_CELLS 16u
#define ORACLE_CELL_STATES 12u
#define ORACLE_ANSWER_EVERY 8u /* events: their outcomes have answers */

enum oracle_fate {
	ORACLE_UNKNOWN, /* no answer, or an error */
	ORACLE_KEPT,    /* a ticket was told */
	ORACLE_REFUSED, /* another event had one of its claims */
};

enum oracle_outcome {
	ORACLE_OPEN,
	ORACLE_SETTLING, /* no answer, or an error */
	ORACLE_SETTLED,
};

enum oracle_kind {
	ORACLE_PLAIN,
	ORACLE_SECOND, /* its second claim is another's */
	ORACLE_SHADOW, /* the same, but that claim is a shadow */
	ORACLE_ASIDE,  /* its first claim is another's, with other content */
	ORACLE_PASS,
	ORACLE_REJECT,
	ORACLE_BARE, /* has no claims */
};

enum oracle_hold {
	ORACLE_FREE,
	ORACLE_GOING,     /* settled as dead or unknown: no answer, or an error */
	ORACLE_HELD,      /* or parked, or dead */
	ORACLE_RELEASING, /* no answer, or an error */
	ORACLE_DROPPING,
};

struct oracle_leg {
	struct store_leg leg;
	bool leased;
	bool open; /* found by the check */
	enum oracle_hold hold;
	enum store_state aside; /* what it is, or will be, when it is held */
	enum oracle_outcome outcome;
	uint32_t attempt;
	uint32_t noted;       /* the highest attempt of which something was acknowledged */
	enum store_mark last; /* acknowledged */
	uint32_t maybe;       /* bits of marks since: no answer, or an error */
	uint64_t freed_step;  /* when it was released last */
	bool answered;        /* acknowledged */
	bool answer_maybe;    /* an outcome with an answer was submitted */
};

/* What a cell may be. */
struct oracle_cell_state {
	uint32_t value;  /* 0: it is not there */
	uint32_t serial; /* of the operation that made it so */
	uint64_t expiry_ms;
};

struct oracle_cell {
	uint32_t count;   /* 0: nothing was ever done to it */
	uint32_t pending; /* operations */
	/* As acknowledged last; then what it may be: no answer, or an error. */
	struct oracle_cell_state states[ORACLE_CELL_STATES];
};

struct oracle_event {
	enum oracle_kind kind;
	struct claim asked[CLAIMS_MAX]; /* what is submitted */
	uint32_t asked_count;
	struct claim claims[CLAIMS_MAX]; /* what it has then, if it is kept */
	uint32_t claim_count;
	uint32_t entity; /* or ORACLE_NOBODY */
	uint64_t order;
	uint16_t flags;
	bool no_ticket;
	bool starts;    /* leased from the beginning; it has one leg */
	bool contested; /* a conflict may have taken its first claim over */
	enum oracle_fate fate;
	uint32_t holder; /* itself, or the event that has the claim it meets */
	struct span source, metadata, payload;
	uint64_t ticket;    /* 0: not known */
	uint32_t leg_count; /* 0: one, of sink 0 */
	struct oracle_leg legs[ORACLE_LEGS_MAX];
};

struct oracle_op {
	union {
		struct store_op op;
		struct store_admit admit;
		struct store_settle settle;
		struct store_take take;
		struct store_release release;
		struct store_note note;
		struct store_cell cell;
	};
	struct oracle_cell_state before, after;
	struct store_cell_value answer;
	struct oracle *oracle;
	uint32_t event;
	uint32_t leg;
	bool pending;
	struct store_leg legs[ORACLE_LEGS_MAX];
};

struct oracle {
	uint64_t seed, random;
	struct clock_fake *clock;
	const char *about; /* for the failure message */
	uint64_t step;
	uint32_t payload_max;
	uint32_t count;
	uint64_t acknowledged, errors; /* answers so far */
	uint64_t verdicts[VERDICT_COUNT];
	uint64_t releases, notes, starts, outcomes[OUTCOME_COUNT];
	int last_error;
	uint32_t cell_serial;
	uint64_t cell_changes;
	struct oracle_cell cells[ORACLE_CELLS];
	bool take_waits[ORACLE_SINKS];
	struct oracle_event events[ORACLE_EVENTS_MAX];
	struct oracle_op ops[ORACLE_OPS_MAX];
	struct oracle_op takes[ORACLE_SINKS];
};

void oracle_init(struct oracle *oracle, uint64_t seed, struct clock_fake *clock);
void oracle_free(struct oracle *oracle);

/* The written record alone, to check (or go on) elsewhere. */
void oracle_copy(struct oracle *to, const struct oracle *from);

bool oracle_full(const struct oracle *oracle);

/* One random batch: admits of every verdict, some leased at once, retries, notes, settles,
 * releases, takes of one, a take or a passing of time. */
void oracle_step(struct oracle *oracle, struct store *store);

/* Takes what is due and settles most of it, so that segments can leave. */
void oracle_settle_most(struct oracle *oracle, struct store *store);

/* One new event; its error. */
int oracle_admit_one(struct oracle *oracle, struct store *store);

/* Releases one that is held; makes one that is, if need be. */
void oracle_release_one(struct oracle *oracle, struct store *store);

/* The store is gone: leases and a waiting take with it. Before the next open. */
void oracle_restarted(struct oracle *oracle);

/* Holds a store that was just opened against the record, settles the unknown
 * in the record, and leaves everything open leased. */
void oracle_check(struct oracle *oracle, struct store *store);
