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
 *   - every acknowledged ticket that was not settled is open, byte for byte;
 *   - what was kept aside is held until its release was acknowledged, and not after;
 *   - an entity is where the last event that is there has moved it;
 *   - nothing that was acknowledged as settled is open;
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
	ORACLE_HELD,
	ORACLE_RELEASING, /* no answer, or an error */
	ORACLE_DROPPING,
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
	bool leased;
	bool contested; /* a conflict may have taken its first claim over */
	enum oracle_hold hold;
	enum oracle_fate fate;
	enum oracle_outcome outcome;
	uint32_t attempt;
	uint32_t holder; /* itself, or the event that has the claim it meets */
	struct span source, payload;
	uint64_t ticket; /* 0: not known */
};

struct oracle_op {
	union {
		struct store_op op;
		struct store_admit admit;
		struct store_settle settle;
		struct store_take take;
		struct store_release release;
	};
	struct oracle *oracle;
	uint32_t event;
	bool pending;
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
	uint64_t releases;
	int last_error;
	bool take_waits;
	struct oracle_event events[ORACLE_EVENTS_MAX];
	struct oracle_op ops[ORACLE_OPS_MAX];
	struct oracle_op take;
};

void oracle_init(struct oracle *oracle, uint64_t seed, struct clock_fake *clock);
void oracle_free(struct oracle *oracle);

/* The written record alone, to check (or go on) elsewhere. */
void oracle_copy(struct oracle *to, const struct oracle *from);

bool oracle_full(const struct oracle *oracle);

/* One random batch: admits of every verdict, retries, settles, releases, a take
 * or a passing of time. */
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
