/*
 * spool_internal: what spool_store.c and spool_drain.c share.
 *
 * Room: store.
 */
#pragma once

#include <stdatomic.h>

#include "base/breaker.h"
#include "store/op_queue.h"
#include "store/spool/spool_record.h"
#include "store/spool/spool_store.h"

/* An operation at the shared store, whose done() and user are kept here meanwhile. */
struct spool_letter {
	struct spool_letter *next; /* free */
	struct spool *spool;
	struct store_op *op;
	void (*done)(struct store_op *op);
	void *user;
	uint32_t turn; /* of the breaker when it went */
	bool marked;   /* an admit that has the mark as its last claim */
	struct digest mark;
};

#define SPOOL_DRAIN_MAX 128u   /* events that leave the spool together */
#define SPOOL_DRAINS_MAX 8u    /* such groups, if a part of the store can be away */
#define SPOOL_ASIDE_MAX 65536u /* events that such a part can leave undecided; more wait */

enum drain_state {
	DRAIN_IDLE = 0,
	DRAIN_READING, /* again, at the local store */
	DRAIN_READY,   /* to be admitted */
	DRAIN_ASKED,   /* at the shared store */
	DRAIN_DECIDED, /* to be closed */
	DRAIN_CLOSING, /* at the local store */
};

struct drain_entry {
	struct drain *drain;
	enum drain_state state;
	uint64_t ticket; /* the local store's */
	uint32_t attempt;
	uint32_t turn;
	struct store_parts parts; /* in the take's items */
	struct spool_record record;
	struct store_settle settle;
	struct store_read read;
};

/* One whose part of the store is away. It stays leased in the local store. */
struct drain_aside {
	uint64_t ticket;
	uint64_t until_ms; /* boot */
	uint32_t attempt;
};

struct drain {
	struct spool *spool;
	struct store_take take;
	uint64_t taken_ms; /* boot */
	bool taking;
	uint32_t count; /* entries that are not idle */
	uint32_t asked;
	uint64_t asked_ms;
	uint64_t after_ms; /* not before */
	struct drain_entry *entries;
};

struct spool {
	struct store store;
	struct store *shared;
	struct store *local;
	const struct clock *clock;
	bool ready_when_away, in_parts;
	void (*log)(void *user, enum spool_level level, const char *text);
	void *log_user;

	uint64_t now_ms; /* boot, of this flush or tick */
	uint64_t random;
	struct breaker breaker;
	uint64_t away_since_ms;
	struct store_lookup probe;
	uint32_t probe_turn;
	bool probing;

	struct spool_letter *free_letters;
	struct spool_chunk *chunks;
	struct op_queue finished; /* without the store: done() at the next flush */
	struct op_queue held;     /* until the store is back */
	struct drain drains[SPOOL_DRAINS_MAX];
	uint32_t drain_count;
	struct drain again;        /* of what was put aside */
	struct drain_aside *aside; /* a ring of SPOOL_ASIDE_MAX; NULL: nothing ever was */
	uint32_t aside_first, aside_count;
	uint64_t decided[VERDICT_COUNT]; /* since it was empty */
	bool dirty;                      /* something was submitted that no flush has seen */
	bool ending;                     /* nothing waits any more */

	atomic_bool away;
	atomic_uint_fast64_t away_times;
	atomic_uint_fast64_t waiting; /* in the spool, or on their way into it */
};

/* spool_store.c */
void spool_say(const struct spool *spool, enum spool_level level, const char *format, ...)
	printf_like(3, 4);
/* The shared store has answered an operation that went in this turn. */
void spool_judge(struct spool *spool, uint32_t turn, int error);
void spool_submit_to(struct spool *spool, struct store *store, struct store_op *op);

static inline bool spool_is_back(const struct spool *spool)
{
	return spool->breaker.state == BREAKER_CLOSED;
}

/* spool_drain.c */
int drain_init(struct spool *spool) must_check;
void drain_step(struct spool *spool); /* does what can be done now */
void drain_free(struct spool *spool); /* the stores are freed */
