/*
 * redis_internal: what the files of the Redis store share.
 *
 *   redis_store.c    the owner's side: submit, flush, tick, waits, open and close
 *   redis_open.c     what is asked before the thread runs: secret, layout, memory policy
 *   redis_thread.c   the store's own thread: which shard an operation goes to
 *   redis_batch.c    a shard's calls of the script
 *   redis_takes.c    takes that wait; leases that are renewed and given back
 *   redis_cross.c    events whose claims are in several shards
 *   redis_encode.c   an operation as arguments of the script
 *   redis_decode.c   a result of the script as the answer of an operation
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
#include "base/map.h"
#include "link/redis_client.h"
#include "store/op_queue.h"
#include "store/redis/redis_store.h"
#include "sys/thread.h"
#include "sys/wake_event.h"

#define REDIS_LAYOUT 3u /* of the keys: see redis_open.c */
#define REDIS_LEASE_MS 30000u
#define REDIS_KEY_MAX (REDIS_PREFIX_MAX + 16u) /* of a key that is not one of an entry */
#define REDIS_BODY_HEAD_LEN 5u                 /* of a stored event */
#define REDIS_WAITS_POLL 256u
#define REDIS_WAITS_POLL_MS 50u

/* Kinds of operations beside those of store.h. */
enum redis_op_kind {
	REDIS_OP_ASK = 100, /* the outcome of an event so far */
	REDIS_OP_SWEEP,     /* dead letters that are too old are removed */
	REDIS_OP_CLOSE,     /* leases are given back */
};

/* What the script says of an event. */
enum redis_event_bits {
	REDIS_EVENT_PENDING = 1,
	REDIS_EVENT_PARKED = 2,
	REDIS_EVENT_DEAD = 4,
	REDIS_EVENT_DROPPED = 8,
};

enum redis_wait_state {
	REDIS_WAIT_FREE = 0,
	REDIS_WAIT_IDLE,  /* is asked again at its time */
	REDIS_WAIT_ASKED, /* the question is with the thread */
	REDIS_WAIT_OVER,  /* the same, but no caller waits for the answer any more */
};

/* A wait of the owner's, and the question that is asked for it. */
struct redis_wait {
	struct store_op ask; /* REDIS_OP_ASK */
	struct store_wait *wait;
	uint64_t ticket;
	uint32_t bits; /* the answer */
	enum redis_wait_state state;
};

/* A take by sink that is with the thread. */
struct redis_taker {
	struct redis_taker *next;
	struct store_take *take;
	bool under_way;      /* in a batch */
	bool waits;          /* every shard has been asked since it was submitted */
	uint32_t asked_from; /* until then: the first shard asked, */
	uint32_t asked;      /* and how many were asked */
};

/* What a cross-shard admit does to a claim in a shard that is not its home: see the script, Q. */
enum redis_cross_act {
	REDIS_CROSS_NONE = 0,
	REDIS_CROSS_TAKEN,         /* the event takes the claim, */
	REDIS_CROSS_ASIDE,         /* or the claim of its conflict */
	REDIS_CROSS_SEEN,          /* it was taken, and is counted as seen again, */
	REDIS_CROSS_SEEN_CONFLICT, /* or the claim of its conflict is */
};

/* An admit whose claims are in several shards, or one that is tried again: see redis_cross.c. */
struct redis_cross {
	struct redis_cross *next; /* of those that are tried again */
	struct store_admit *admit;
	char token[8];
	uint64_t deadline_ms, retry_at_ms;
	uint64_t ends_ms; /* its reservations, by the servers' clocks */
	uint64_t ticket;
	uint32_t home; /* the shard that decides */
	uint32_t shards[CLAIMS_MAX];
	bool reserved[CLAIMS_MAX];
	struct buf stored[CLAIMS_MAX],
		aside_stored[CLAIMS_MAX]; /* what the other shards have of them */
	uint8_t acts[CLAIMS_MAX];
	uint32_t missing; /* answers */
	uint32_t tries;
	bool one_shard; /* all its claims are in its home: only tried again from here */
	bool again;     /* a claim was reserved by another event: try again */
	int error;
};

enum redis_part_kind {
	REDIS_PART_OP = 0, /* an operation that one shard answers */
	REDIS_PART_TAKE,   /* a take by sink */
	REDIS_PART_GATHER, /* a share of an operation that all shards answer, */
	REDIS_PART_SWEEP,  /* or of one that has no answer but its error */
	REDIS_PART_ANSWER, /* the cell of an outcome's answer, in another shard than the ticket */
	REDIS_PART_RENEW,  /* the store's own: a lease is renewed, */
	REDIS_PART_GIVE_BACK, /* or given back */
	REDIS_PART_RESERVE,   /* the steps of a cross-shard admit */
	REDIS_PART_DECIDE,
	REDIS_PART_CONFIRM,
	REDIS_PART_FORGET, /* all its claims are confirmed: the home forgets its mark */
};

/* One operation's piece of work at one shard. */
struct redis_part {
	struct redis_part *next;
	enum redis_part_kind kind;
	bool only_decides;   /* OP: an admit that keeps nothing but its claims */
	bool follows;        /* is in one operation of the script with the part before */
	struct store_op *op; /* OP, TAKE, GATHER, SWEEP, ANSWER */
	uint32_t shard;      /* GATHER, SWEEP, RESERVE, CONFIRM */
	uint32_t attempt;    /* RENEW, GIVE_BACK, */
	uint64_t ticket;     /* and FORGET; of a SWEEP how long dead letters are kept */
	struct redis_taker *taker;
	struct redis_gather *gather;
	struct redis_cross *cross;
};

/* The answer of admits that are one operation of the script, while it is read. */
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
	struct buf replies[]; /* one for each shard */
};

struct part_list {
	struct redis_part *head;
	struct redis_part **tail;
	uint32_t count;
};

/* Why a server does not write although it answers. Logged when it begins and when it ends. */
enum redis_trouble { REDIS_FINE = 0, REDIS_FULL, REDIS_REFUSES, REDIS_TROUBLES };

struct redis_shard {
	struct redis_store *redis;
	uint32_t number;
	enum redis_trouble trouble;
	char prefix[REDIS_KEY_MAX]; /* of its keys; P in the script */
	struct part_list queue;
	struct part_list under_way;
	struct redis_group group;
	uint32_t answers;  /* that the batch has */
	bool busy;         /* a batch is under way */
	bool silent;       /* the last batch was not answered in time */
	uint32_t linger;   /* how many operations the last batch answered or left waiting; the next
	                    * waits until most of that many are queued. 0: it does not */
	uint64_t batch;    /* the number of the last batch, */
	uint64_t heard;    /* and of the last that was answered */
	uint64_t began_ns; /* the last batch was sent */
	uint64_t counted_ms;
	struct redis_call call;
	_Atomic uint64_t last, open, leased, held, parked, dead;
	_Atomic uint64_t callers;
	_Atomic uint64_t keys; /* of the whole server */
	_Atomic uint32_t node; /* which server that is */
};

/* A ticket that a take by sink leased to this process. Without memory it is not remembered: its
 * lease ends at the server. */
struct redis_lease {
	uint64_t ticket;  /* the map's key */
	uint64_t ends_ms; /* by the loop's clock, if the caller renews it; 0: the store renews it */
	uint32_t attempt;
	uint32_t unused;
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
	struct op_queue queue;
	struct redis_wait *waits; /* STORE_WAITS_MAX, allocated with the first */
	uint32_t wait_count, wait_at;
	uint64_t floor; /* tickets up to this one are older than this process */
	uint64_t polled_ms, swept_ms;
	struct store_op sweep, close;
	bool sweeping, ending;

	/* both threads' */
	pthread_mutex_t mutex; /* inbox and outbox */
	struct op_queue inbox, outbox;
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
	struct loop_timer linger_timer; /* the longest that a batch waits for more */
	bool linger_timed;              /* it is set */
	struct redis_client *client;
	struct redis_shard *shards;
	uint32_t shard_count;
	uint32_t poll_shard, spread;
	struct redis_taker *takers;
	struct map leases;           /* of struct redis_lease */
	struct redis_cross *retries; /* admits that are tried again */
	uint64_t tokens;             /* given to cross-shard admits */
	struct redis_part *free_parts;
	struct op_queue finished;          /* in this round, */
	uint32_t settled;                  /* and how many fewer are pending */
	uint32_t troubles[REDIS_TROUBLES]; /* shards that have it */
	bool hurried;                      /* what was under way then has less time */
	bool closing;
	struct loop_timer guard_timer;
	struct redis_call guard_call;
	bool guard_asks; /* the call is under way */
	bool foreign;    /* the store's secret is not ours */
};

/* ---- redis_open.c ---- */

/* Questions to a Redis, one at a time, before the store has a thread. */
struct redis_asker {
	struct loop *loop;
	struct redis_client *client;
	const struct redis_login *login;
	bool writes; /* what is asked is to be replicated */
};
int redis_asker_open(struct redis_asker *asker, const struct redis_login *login,
                     struct span script) must_check;
void redis_asker_close(struct redis_asker *asker);
/* One command; -ENOMEM, ERR_AWAY. An error of the server's is a reply. */
int redis_ask(struct redis_asker *asker, uint32_t slot, const struct span *words, size_t count,
              struct buf *ret_reply) must_check;
/* The value of a parameter in an INFO or of CONFIG GET; false: there is none. */
bool redis_info_find(struct span info, struct span name, struct span *ret_value);
/* The server's maxmemory-policy; `policy` stays as it was if the server does not say. */
int redis_ask_policy(struct redis_asker *asker, uint32_t slot, struct buf *reply,
                     struct span *policy) must_check;

/* The layout of the keys that the asker's login names; ret_version 0: no gateway has used them
 * yet. ERR_VERSION: one that this binary does not know. */
int redis_layout_read(struct redis_asker *asker, struct buf *reply, uint64_t *ret_version,
                      uint64_t *ret_shards, struct error_text *ret_text) must_check;

/* Connects, and reads or sets what all gateways of the store share: secret, layout, shards. An
 * error's text is filled. */
int redis_connect(struct redis_store *redis, struct error_text *ret_text) must_check;

/* ---- redis_thread.c ---- */

void redis_thread_run(void *user);
int redis_guard_begin(struct redis_store *redis) must_check;
void redis_complete(struct redis_store *redis, struct store_op *op, int error);
void redis_gather_add(struct redis_store *redis, struct redis_part *part, int error,
                      struct span reply);
uint32_t redis_shard_of_digest(const struct redis_store *redis, const struct digest *digest);
uint32_t redis_shard_of_ticket(const struct redis_store *redis, uint64_t ticket);
/* A new part at the end of a shard's queue; NULL: no memory. */
struct redis_part *redis_part_queue(struct redis_store *redis, uint32_t shard,
                                    enum redis_part_kind kind, struct store_op *op);
struct redis_part *redis_part_get(struct redis_store *redis); /* zeroed; NULL: no memory */
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

/* ---- redis_batch.c ---- */

/* Sends what the shard has, unless it is busy; `poll`: also if that is only takes that wait. */
void redis_shard_pump(struct redis_shard *shard, bool poll);
/* Of linger_timer: batches do not wait any longer. */
void redis_linger_end(struct loop_timer *timer);

/* ---- redis_takes.c ---- */

void redis_takes_add(struct redis_store *redis, struct store_take *take);
/* Adds the takes that want this shard to its batch. */
void redis_takes_choose(struct redis_shard *shard, bool poll);
void redis_take_answered(struct redis_store *redis, struct redis_taker *taker, int error);
int redis_takes_begin(struct redis_store *redis) must_check;
void redis_takes_fail(struct redis_store *redis, int error);
void redis_lease_put(struct redis_store *redis, struct redis_lease lease);
void redis_leases_give_back(struct redis_store *redis);
/* An operation on a ticket was answered. */
void redis_lease_follow(struct redis_store *redis, const struct store_op *op);

/* ---- redis_cross.c ---- */

#define REDIS_RETRY (-1000)         /* of the script: a claim is reserved by another event */
#define REDIS_CROSS_LEASE_MS 10000u /* of a reservation */
/* False: all claims are in one shard. */
bool redis_cross_begin(struct redis_store *redis, struct store_admit *admit);
/* An admit of one shard that is tried again later. */
void redis_cross_retry(struct redis_store *redis, struct store_admit *admit);
void redis_cross_answered(struct redis_store *redis, const struct redis_part *part, int error,
                          struct span reply);
/* Tries again what is due. */
void redis_cross_poll(struct redis_store *redis);

/* ---- redis_encode.c ---- */

/* Appends the arguments of a part and of those that follow it; returns how many. */
uint32_t redis_encode(const struct redis_shard *shard, const struct redis_part *part,
                      struct buf *out);
bool redis_part_writes(const struct redis_part *part);
uint32_t redis_group_count(const struct redis_part *leader); /* it, and what follows it */

/* The distance between the numbers of two events in a row. */
static inline uint32_t redis_ticket_step(const struct redis_store *redis)
{
	return redis->shard_count > 1 ? 16 * redis->shard_count : 1;
}

/* ---- redis_decode.c ---- */

/* `reply` is the part's element of the answer. 0 or the operation's error. */
int redis_decode(struct redis_shard *shard, const struct redis_part *part, struct span reply);
/* The result of an admit; false: it is none, and `ret_error` says why. */
int redis_decode_admit(struct store_admit *admit, struct span reply, struct span *ret_text);
int redis_decode_gathered(struct store_op *op, const struct redis_gather *gather, uint32_t shards);
/* The next element, if it is a text. */
bool redis_text_next(struct span reply, size_t *at, struct span *ret_text);

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
