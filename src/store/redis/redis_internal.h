/*
 * redis_internal: what the files of the Redis store share.
 *
 *   redis_store.c    the owner's side: submit, flush, tick, waits, open and close
 *   redis_thread.c   the store's own thread: operations go to their shards
 *   redis_batch.c    a shard's calls of the script
 *   redis_takes.c    takes that wait, leases that are renewed and given back
 *   redis_parcel.c   events that are leased as they are admitted
 *   redis_span.c     events whose claims are in several shards
 *   redis_leases.c   which tickets are leased to this process
 *   redis_encode.c   an operation as arguments of the script
 *   redis_decode.c   a result of the script as the answer of an operation
 *   redis_guard.c    is it still the store that was opened?
 *   redis_ask.c      a question before the thread runs
 *   redis_check.c    is a server fit?
 *
 * The way of an operation: queue (owner) ── flush ──► inbox ──► shard's queue ──► batch ──►
 * outbox ── flush ──► done().
 *
 * Room: store/redis. Only these files include it.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/histogram.h"
#include "link/redis_client.h"
#include "store/redis/redis_leases.h"
#include "store/redis/redis_store.h"
#include "sys/thread.h"
#include "sys/wake_event.h"

#define REDIS_LEASE_MS 30000u
#define REDIS_BATCH_PARTS 1024u
#define REDIS_BATCH_BYTES (1u << 20)
#define REDIS_PLACE_MAX (REDIS_PREFIX_MAX + 16u)
#define REDIS_OFFERS_MAX 8u    /* in a batch */
#define REDIS_NAME_LEN 16u     /* of a parcel */
#define REDIS_PLACE_LEN 16u    /* in its table */
#define REDIS_BODY_HEAD_LEN 5u /* of what is stored of an event */
#define REDIS_WAITS_POLL 256u
#define REDIS_WAITS_POLL_MS 50u

/* Kinds of operations beside those of store.h. */
enum redis_op_kind {
	REDIS_OP_ASK = 100, /* what came of an event so far */
	REDIS_OP_SWEEP,     /* what is too old leaves */
	REDIS_OP_CLOSE,     /* leases are given back */
};

struct op_list {
	struct store_op *head;
	struct store_op **tail;
};

static inline void op_list_init(struct op_list *list)
{
	list->head = NULL;
	list->tail = &list->head;
}

static inline void op_list_add(struct op_list *list, struct store_op *op)
{
	op->next = NULL;
	*list->tail = op;
	list->tail = &op->next;
}

static inline void op_list_move(struct op_list *to, struct op_list *from)
{
	if (!from->head)
		return;
	*to->tail = from->head;
	to->tail = from->tail;
	op_list_init(from);
}

/* What the script says of an event. */
enum redis_event_bits {
	REDIS_EVENT_PENDING = 1,
	REDIS_EVENT_PARKED = 2,
	REDIS_EVENT_DEAD = 4,
	REDIS_EVENT_DROPPED = 8,
};

/* A wait of the owner's, and the question that is asked for it. */
struct redis_wait {
	struct store_op ask;     /* REDIS_OP_ASK */
	struct store_wait *wait; /* NULL: it is over */
	uint64_t ticket;
	uint32_t bits; /* the answer */
	bool used, asked;
};

/* A take by sink that is with the thread. */
struct redis_taker {
	struct redis_taker *next;
	struct store_take *take;
	bool under_way;      /* in a batch */
	bool waits;          /* all shards have been asked since it came */
	uint32_t asked_from; /* else: the first of them, */
	uint32_t asked;      /* and how many were */
};

enum redis_span_act {
	REDIS_SPAN_NONE = 0,
	REDIS_SPAN_TAKEN,        /* the event has the claim, */
	REDIS_SPAN_ASIDE,        /* or that of its conflict */
	REDIS_SPAN_MET,          /* it came again, */
	REDIS_SPAN_MET_CONFLICT, /* or that of its conflict */
};

/* An event whose claims are in several shards: see redis_span.c. */
struct redis_span {
	struct redis_span *next; /* of those that are tried again */
	struct store_admit *admit;
	char token[8];
	uint64_t deadline_ms, retry_at_ms;
	uint64_t ends_ms; /* its reservations, by the servers' clocks */
	uint64_t ticket;
	uint32_t home; /* the shard that decides */
	uint32_t shards[CLAIMS_MAX];
	bool reserved[CLAIMS_MAX];
	struct buf met[CLAIMS_MAX], aside_met[CLAIMS_MAX];
	uint8_t acts[CLAIMS_MAX];
	uint32_t missing; /* answers */
	uint32_t tries;
	bool simple, again; /* one shard's; to be tried again */
	int error;
};

/* One operation's piece of work at one shard. */
struct redis_part {
	struct redis_part *next;
	char letter;               /* of the script; 0: by its operation */
	struct store_op *op;       /* NULL: an affair of the store's own, */
	uint64_t ticket;           /* about this, */
	uint32_t attempt;          /* or, of a multiple operation, the number of its shard */
	struct redis_taker *taker; /* T */
	struct redis_gather *gather;
	struct redis_span *span;
	/* redis_parcel.c's, while it is in a batch */
	uint64_t parcel; /* S: that its ticket came in; 0: none */
	uint8_t offer;   /* A, T: number of its offer; 0: none */
	uint16_t place;  /* in the parcel */
	bool decides;    /* A: nothing is kept of it but its claims */
	bool follows;    /* is of one operation with the part before */
	bool has_some;   /* T: of its offer */
};

/* Admits of a batch that a take may have at once. */
struct redis_offer {
	struct redis_taker *taker;
	uint64_t parcel;
	uint64_t take_bytes; /* that its items would have there */
	size_t bytes;        /* stored */
	uint32_t places;
	bool full;  /* nothing more is offered */
	bool taken; /* some of it is */
};

/* The answer of parts that are one operation, being read. */
struct redis_group {
	struct span reply;
	size_t at;
	const char *bits; /* of the next part */
	uint64_t ticket;  /* the next */
	uint64_t now_ms;
	int error;
};

/* An operation that all shards answer. */
struct redis_gather {
	uint32_t missing;
	int error;
	struct buf replies[]; /* one a shard */
};

struct part_list {
	struct redis_part *head;
	struct redis_part **tail;
	uint32_t count;
};

/* Why a server does not write, while it answers: told once, and when it is over. */
enum redis_trouble { REDIS_FINE = 0, REDIS_FULL, REDIS_REFUSES, REDIS_TROUBLES };

struct redis_shard {
	struct redis_store *redis;
	uint32_t number;
	enum redis_trouble trouble;
	char place[REDIS_PLACE_MAX]; /* what its keys begin with */
	struct part_list queue;
	struct part_list under_way;
	struct redis_part *takers; /* the takes among those, which are the last; or NULL */
	struct redis_offer offers[REDIS_OFFERS_MAX];
	uint32_t offer_count;
	struct redis_group group;
	uint32_t answers; /* that the batch has */
	bool busy;
	bool silent;       /* the last batch was not answered in time */
	uint32_t crowd;    /* operations that the last batch answered or found waiting, while
	                    * the next one waits until most of as many are there; 0: it does not */
	uint64_t batch;    /* the number of the last, */
	uint64_t heard;    /* and that of the last that was answered */
	uint64_t began_ns; /* it was sent */
	uint64_t counted_ms;
	struct redis_call call;
	_Atomic uint64_t last, open, leased, held, parked, dead;
	_Atomic uint64_t callers;
	_Atomic uint64_t keys; /* of the whole server */
	_Atomic uint32_t node; /* which that is */
};

struct redis_store {
	struct store store;
	struct redis_login login;
	struct clock clock;
	bool fake_clock;
	uint64_t dead_keep_ms;
	unsigned char key[REDIS_STORE_KEY_LEN];
	char node[8];

	/* the owner's */
	struct op_list queue;
	struct redis_wait *waits; /* STORE_WAITS_MAX, from the first on */
	uint32_t wait_count, wait_at;
	uint64_t floor; /* tickets up to here were given before */
	uint64_t polled_ms, swept_ms;
	struct store_op sweep, close;
	bool sweeping, ending;

	/* both threads' */
	pthread_mutex_t mutex; /* inbox and outbox */
	struct op_list inbox, outbox;
	_Atomic uint32_t pending; /* operations that a flush waits for */
	_Atomic uint64_t now_ms;  /* of a fake clock */
	atomic_bool hurry;        /* see store_hurry() */
	struct wake_event wake;   /* where the owner waits */
	struct thread thread;
	struct loop *loop;
	_Atomic uint64_t commits, commit_ops, wait_stat, io_errors;
	struct histogram commit_us, commit_batch;

	/* the thread's */
	struct loop_hook hook;
	struct loop_timer poll_timer, lease_timer;
	struct loop_timer crowd_timer; /* nobody waits longer for the others */
	bool crowd_timed;              /* it is set */
	struct redis_client *client;
	struct redis_shard *shards;
	uint32_t shard_count, shard_bits;
	uint32_t poll_shard, spread;
	struct redis_taker *takers;
	struct redis_leases leases;
	struct redis_span *spans; /* that are tried again */
	uint64_t spanned;
	uint64_t parcels;
	struct redis_part *free_parts;
	struct op_list finished; /* this round, */
	uint32_t settled;        /* and how many that a flush waits for are not pending any more */
	uint32_t troubles[REDIS_TROUBLES]; /* shards that have it */
	bool hurried;                      /* what was under way then has less time */
	bool closing;
	struct loop_timer guard_timer;
	struct redis_call guard_call;
	bool guard_asks; /* the call is under way */
	bool foreign;    /* the store has another secret than ours */
};

/* redis_ask.c: one command, an answer; -ENOMEM, ERR_AWAY, or what reads the reply says. */
struct redis_asker {
	struct loop *loop;
	struct redis_client *client;
	const struct redis_login *login;
	bool writes; /* what is asked is to be replicated */
};
int redis_ask(struct redis_asker *asker, uint32_t slot, const struct span *words, size_t count,
              struct buf *ret_reply) must_check;
int redis_asker_open(struct redis_asker *asker, const struct redis_login *login,
                     struct span script) must_check;
void redis_asker_close(struct redis_asker *asker);
/* The value of a parameter in an INFO or of CONFIG GET; false: it is not there. */
bool redis_info_find(struct span info, struct span name, struct span *ret_value);

/* How the server evicts, or `policy` as it was: it tells nobody. */
int redis_ask_policy(struct redis_asker *asker, uint32_t slot, struct buf *reply,
                     struct span *policy) must_check;

/* redis_thread.c */
void redis_thread_run(void *user);
void redis_complete(struct redis_store *redis, struct store_op *op, int error);
/* Waits for all shards to answer this letter; then the operation is decoded and complete. */
void redis_gather_begin(struct redis_store *redis, struct store_op *op, char letter);
void redis_gather_add(struct redis_store *redis, struct redis_part *part, int error,
                      struct span reply);
uint32_t redis_shard_of_digest(const struct redis_store *redis, const struct digest *digest);
uint32_t redis_shard_of_ticket(const struct redis_store *redis, uint64_t ticket);
struct redis_part *redis_part_get(struct redis_store *redis); /* NULL: no memory */
void redis_part_put(struct redis_store *redis, struct redis_part *part);
void redis_part_queue(struct redis_store *redis, uint32_t shard, struct redis_part *part);
void redis_op_queue(struct redis_store *redis, struct store_op *op);
/* The cell of an outcome's answer is in another shard than its ticket. */
bool redis_answer_is_elsewhere(const struct redis_store *redis, const struct store_op *op);

static inline void part_list_init(struct part_list *list)
{
	list->head = NULL;
	list->tail = &list->head;
	list->count = 0;
}

static inline void part_list_add(struct part_list *list, struct redis_part *part)
{
	part->next = NULL;
	*list->tail = part;
	list->tail = &part->next;
	list->count++;
}

static inline struct redis_part *part_list_cut(struct part_list *list)
{
	struct redis_part *part = list->head;

	if (part) {
		list->head = part->next;
		list->count--;
		if (!list->head)
			list->tail = &list->head;
	}
	return part;
}

/* redis_batch.c: sends what the shard has, if it is not busy; `poll`: also if that is
 * nothing but takes that wait. */
void redis_shard_pump(struct redis_shard *shard, bool poll);
/* Of crowd_timer: what waits for others is sent. */
void redis_crowd_over(struct loop_timer *timer);

/* redis_takes.c */
void redis_takes_add(struct redis_store *redis, struct store_take *take);
void redis_takes_choose(struct redis_shard *shard, bool poll); /* those that want this shard */
void redis_take_answered(struct redis_store *redis, struct redis_taker *taker, int error);
int redis_takes_begin(struct redis_store *redis) must_check;
void redis_takes_fail(struct redis_store *redis, int error);
void redis_leases_give_back(struct redis_store *redis);
/* An operation on a ticket came back. */
void redis_lease_follow(struct redis_store *redis, const struct store_op *op);

/* redis_parcel.c: what of a batch goes together; its offers; a part of one of those. Encoding
 * gives the number of arguments, decoding the part's error. */
void redis_decisions_find(struct redis_shard *shard);
void redis_parcels_choose(struct redis_shard *shard);
uint32_t redis_encode_offers(const struct redis_shard *shard, struct buf *out);
uint32_t redis_encode_group(const struct redis_shard *shard, const struct redis_part *part,
                            struct buf *out);
int redis_offers_answered(struct redis_shard *shard, struct span reply, size_t *at) must_check;
int redis_group_decode(struct redis_shard *shard, struct redis_part *part, struct span reply);

static inline bool redis_part_is_grouped(const struct redis_part *part)
{
	return !part->taker && (part->offer || part->parcel || part->decides);
}

/* redis_span.c */
#define REDIS_RETRY (-1000)        /* of the script: a claim is about to be taken */
#define REDIS_SPAN_LEASE_MS 10000u /* of a reservation */
bool redis_span_begin(struct redis_store *redis,
                      struct store_admit *admit); /* false: it needs none */
void redis_span_again(struct redis_store *redis, struct store_admit *admit); /* of one shard */
void redis_span_answered(struct redis_store *redis, const struct redis_part *part, int error,
                         struct span reply);
void redis_spans_look(struct redis_store *redis);

/* redis_guard.c: of what a digest says where it is, nothing is asked of another's store. */
int redis_guard_begin(struct redis_store *redis) must_check;
bool redis_guard_refuses(const struct redis_store *redis, unsigned kind);

/* redis_encode.c: appends the arguments; returns how many. */
uint32_t redis_encode(const struct redis_shard *shard, const struct redis_part *part,
                      struct buf *out);
/* The keys of its claims; in a cluster each with that of its reservation. How many. */
uint32_t redis_encode_keys(const struct redis_shard *shard, const struct store_admit *admit,
                           struct buf *out);
bool redis_part_writes(const struct redis_part *part);
size_t redis_admit_head_len(const struct store_admit *admit);
void redis_encode_admit_head(const struct store_admit *admit, struct buf *out);
void redis_encode_body(const struct store_admit *admit, struct buf *out); /* the event */
uint64_t redis_lease_ms(const struct redis_store *redis, uint32_t lease_ms);

/* How far the numbers of events that follow each other are apart. */
static inline uint32_t redis_ticket_step(const struct redis_store *redis)
{
	return redis->shard_count > 1 ? 16 * redis->shard_count : 1;
}

/* redis_decode.c: `reply` is the element of the answer that belongs to it. 0 or the
 * operation's error. */
int redis_decode(struct redis_store *redis, struct redis_part *part, struct span reply);
void redis_decode_admit(struct store_admit *admit, struct span text);
int redis_decode_gathered(struct store_op *op, const struct redis_gather *gather, uint32_t shards);

static inline uint64_t big_u64(const char *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return __builtin_bswap64(value);
}

static inline uint32_t big_u32(const char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return __builtin_bswap32(value);
}

static inline uint16_t big_u16(const char *at)
{
	return (uint16_t)((unsigned)(unsigned char)at[0] << 8 | (unsigned char)at[1]);
}
