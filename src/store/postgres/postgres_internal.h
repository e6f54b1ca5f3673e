/*
 * postgres_internal: the parts of a PostgreSQL store.
 *
 *   postgres_store.c  the contract of store.h: hands operations over and back
 *   decider.c         the thread that decides: admissions, outcomes, notes, cells, lookups
 *   taker.c           the thread that takes: takes, waits, and
 *     reader.c        reads and scans
 *     keeper.c        what is over: leases, nodes, claims, cells, dead letters
 *   batch.c, batch_write.c, working set.c, decide_*.c   one transaction of the decider
 *   connection.c, schema.c, address.c                   the connection, the tables, the URL
 *
 * Hand-over: flush puts what was submitted into `inbox`, but for takes and waits, which go
 * to `asked` at once: they wait anyway, and so do not wait behind admissions. What reads is
 * passed on by the decider, when all that was submitted before it is decided. Whoever has
 * finished an operation puts it into `finished`, whose done()s the owner's flush calls.
 *
 * Room: store/postgres. Threads: what stands under a heading is of that thread alone.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/histogram.h"
#include "store/op_queue.h"
#include "store/postgres/address.h"
#include "store/postgres/postgres_store.h"
#include "store/postgres/transaction.h"
#include "sys/thread.h"

struct sweep {
	uint64_t page; /* the next to look at */
};

struct postgres_store {
	struct store store;
	struct postgres_store_options options; /* without url */
	struct address address;
	struct clock clock;
	bool test; /* the clock is a test's */
	uint64_t node;
	unsigned char key[POSTGRES_STORE_KEY_LEN];
	char channel[SCHEMA_NAME_MAX + 8], listen[SCHEMA_NAME_MAX + 16];
	uint64_t floor_ticket, floor_drop; /* of what is older nobody knows the outcome */
	struct histogram commit_us, commit_batch;

	/* The owner. */
	struct op_queue queue;

	/* Under the mutex. */
	pthread_mutex_t mutex;
	pthread_cond_t decider_wake, settled;
	struct op_queue inbox, asked, finished;
	bool deciding, taking; /* at work */
	bool stirred;          /* the taker must look: tickets or outcomes may be there */
	bool tick_wanted;      /* and do all of its housekeeping */
	bool ending, closing, decided_all;
	int wake_fd;      /* of the taker */
	int interrupt_fd; /* of all waiting for the server */
	struct thread decider_thread, taker_thread;

	/* The decider. */
	struct connection decider;
	struct working_set set;
	uint32_t new_run;                     /* transactions on end that were all new */
	bool was_old;                         /* the last try expected too much */
	uint64_t away_since_ms, try_again_ms; /* 0: it is there */
	int away_error;

	/* The taker. */
	struct connection taker;
	struct op_queue takes, waits;
	uint32_t wait_count;
	bool untaken;            /* a take may have been made of which nobody heard */
	bool look_now;           /* something may be there for those that wait */
	bool unfit;              /* the server is there, but not what it was */
	int64_t clock_offset_ms; /* of the server's clock to that of this boot; 0: not known */
	uint64_t beat_at_ms, keep_at_ms, count_at_ms, look_at_ms, open_at_ms;
	struct sweep sweeps[4];

	/* Any thread. */
	_Atomic uint64_t latest_ms; /* that the server said it is */
	_Atomic uint64_t nodes;     /* that live */
	_Atomic uint64_t away;      /* lines without a connection */
	_Atomic uint64_t claims, cells, expired, callers, tickets_in[STORE_STATE_CLOSED + 1],
		waiting;
	_Atomic uint64_t commits, commit_ops, io_errors;
};

/* Milliseconds that only go forward, for times here. */
uint64_t postgres_boot_ms(void);
/* For statements.h: a test's time, or minus the latest time that this node has heard of:
 * the server's then, but not before. */
uint64_t postgres_clock(const struct postgres_store *own);
void postgres_heard(struct postgres_store *own, uint64_t now_ms); /* any thread */
void postgres_wake_taker(struct postgres_store *own);
/* Hands operations back to the owner. */
void postgres_finish(struct postgres_store *own, struct op_queue *list);

void decider_main(void *user);
void taker_main(void *user);

extern const struct statement taker_statements[], reader_statements[], housekeeping_statements[];

/* reader.c: reads, scans, held, cell scans; 0 or the connection's error. */
int reader_run(struct postgres_store *own, struct store_op *op) must_check;

/* keeper.c: 0 or the connection's error. */
int housekeeping_run(struct postgres_store *own, uint64_t now_ms, bool all) must_check;
int housekeeping_end_leases(struct postgres_store *own) must_check; /* that are over */
int housekeeping_count(struct postgres_store *own) must_check;      /* for stats */
int housekeeping_leave(struct postgres_store *own) must_check;      /* the node ends */
