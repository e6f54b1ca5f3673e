/*
 * postgres_internal: the parts of a PostgreSQL store.
 *
 *   postgres_store.c  the contract of store.h: hands operations over and back
 *   decider.c         the thread that decides: admissions, outcomes, notes, cells, lookups
 *     working_set.c, decide.c, transaction.c   one transaction of it
 *   taker.c           the thread that leases tickets and answers waits; on its connection,
 *     reader.c        reads and scans, and
 *     housekeeping.c  what expires: leases, nodes, claims, cells, dead letters
 *   connection.c, schema.c, address.c          the connection, the tables, the URL
 *
 * Handing over: flush moves what was submitted to `inbox`. Takes and waits go to `asked`
 * at once, so that they do not wait behind admissions. The decider passes operations that
 * only read to `asked`, after all that was submitted before them is decided. Finished
 * operations go to `finished`; the owner's flush calls their done().
 *
 * Room: store/postgres. Threads: fields under a heading belong to that thread.
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
	uint64_t floor_ticket, floor_drop; /* at open: the outcome of older ones is not known */
	struct histogram commit_us, commit_batch;

	/* The owner. */
	struct op_queue queue;

	/* Under the mutex. */
	pthread_mutex_t mutex;
	pthread_cond_t decider_wake, settled;
	struct op_queue inbox, asked, finished;
	bool deciding, taking; /* the threads are working */
	bool look_wanted;      /* the taker must look: there may be tickets or outcomes */
	bool tick_wanted;      /* … and do all of its housekeeping */
	bool ending, closing, decided_all;
	int wake_fd;      /* of the taker */
	int interrupt_fd; /* ends all waiting for the server */
	struct thread decider_thread, taker_thread;

	/* The decider. */
	struct connection decider;
	struct working_set set;
	uint32_t new_run; /* transactions in a row in which everything was new */
	bool was_old;     /* the last transaction was sent as new in vain */
	uint64_t away_since_ms, try_again_ms; /* 0: it is reachable */
	int away_error;

	/* The taker. */
	struct connection taker;
	struct op_queue takes, waits;
	bool look_now;           /* there may be something for takes or waits */
	bool unusable;           /* the server is there, but cannot be used */
	int64_t clock_offset_ms; /* the server's clock minus CLOCK_BOOTTIME; 0: not known */
	uint64_t beat_at_ms, keep_at_ms, count_at_ms, look_at_ms, open_at_ms;
	struct sweep sweeps[4];

	/* Any thread. */
	_Atomic uint64_t latest_ms; /* the latest time that the server has given */
	_Atomic uint64_t nodes;     /* that are alive */
	_Atomic uint64_t away;      /* connections that are not usable */
	_Atomic uint64_t claims, cells, expired, callers, tickets_in[STORE_STATE_CLOSED + 1],
		waiting;
	_Atomic uint64_t commits, commit_ops, io_errors;
};

/* CLOCK_MONOTONIC, in milliseconds. */
uint64_t postgres_boot_ms(void);
/* For SQL_NOW() and SQL_CLOCK(): a test's time; or minus the latest time that this node
 * knows, before which the server's time cannot be. */
uint64_t postgres_clock(const struct postgres_store *own);
void postgres_note_time(struct postgres_store *own, uint64_t now_ms); /* any thread */
void postgres_wake_taker(struct postgres_store *own);
/* Hands the operations back to the owner; the list is empty then. */
void postgres_finish(struct postgres_store *own, struct op_queue *list);

void decider_main(void *user);
void taker_main(void *user);

extern const struct statement taker_statements[], reader_statements[], housekeeping_statements[];

/* reader.c: reads, scans, held, cell scans; 0 or the connection's error. */
int reader_run(struct postgres_store *own, struct store_op *op) must_check;

/* housekeeping.c: 0 or the connection's error. */
int housekeeping_run(struct postgres_store *own, uint64_t now_ms, bool all) must_check;
int housekeeping_end_leases(struct postgres_store *own) must_check; /* that are over */
int housekeeping_count(struct postgres_store *own) must_check;      /* for stats */
int housekeeping_leave(struct postgres_store *own) must_check;      /* the node ends */
