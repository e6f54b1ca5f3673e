/*
 * resp_internal: a command on its way through the door. For resp*.c alone.
 *
 *   resp.c          from a command to a task, to the store, and back; the table of commands;
 *                   MULTI, EXEC, DISCARD
 *   resp_cells.c    keys: SET, GET, DEL …, EXPIRE, TTL …, SCAN, DBSIZE
 *   resp_session.c  the connection: HELLO, AUTH, CLIENT …; the server: INFO, CONFIG, COMMAND
 *   resp_guesses.c  wrong passwords, by address
 *
 * A task is a call of the server: one job, or those of an EXEC. A job is one command: its
 * reply is known at once (text), or it has operations at the store and a function that
 * writes the reply when they are done.
 *
 * Room:      door/resp.
 * Ownership: a task is in the call's scratch space. Arguments live as long as the call;
 *            those of a queued command as long as its transaction.
 */
#pragma once

#include "base/arena.h"
#include "door/resp/resp.h"

#define RESP_NAME_MAX 256u /* of a client */

struct resp_job;
struct resp_run;
struct resp_task;

enum resp_word_flags {
	RESP_WRITES = 1,
	RESP_READS = 2,
	RESP_FOR_STRANGERS = 4, /* allowed before AUTH */
	RESP_NEVER_QUEUED = 8,  /* runs at once inside MULTI */
	RESP_FAST = 16,
	RESP_ADMIN = 32,
	RESP_CONTAINER = 64, /* has subcommands */
};

struct resp_word {
	const char *name;
	int8_t arity; /* with the name; negative: at least */
	uint8_t flags;
	int8_t first_key, last_key;
	void (*run)(struct resp_run *run);
	const char *group, *summary;
};

/* A connection's state. */
struct resp_session {
	uint8_t version; /* enum resp_version; 0: 2 */
	bool in_multi;
	bool multi_failed; /* a command of the transaction was rejected */
	uint32_t queued;
	struct arena arena; /* of the transaction */
	struct resp_queued *first, **tail;
	char name[RESP_NAME_MAX], library[RESP_NAME_MAX], library_version[RESP_NAME_MAX];
};

struct resp_queued {
	struct resp_queued *next;
	const struct resp_word *word;
	struct span *args;
	uint32_t count;
};

struct resp_job {
	struct resp_task *task;
	void (*write)(struct resp_job *job, struct buf *out);
	struct span fixed; /* the reply, if it is a constant */
	struct buf text;   /* or the one that was written for it */
	uint8_t version;
	uint8_t unit;   /* of TTL and others: seconds or ms, from now on or a time */
	uint32_t count; /* of cells */
	struct store_cell *cells;
	struct resp_scanning *scanning; /* SCAN; NULL: none */
	struct store_cell one;
};

struct resp_task {
	struct resp_door *door;
	struct resp_call *call;
	uint32_t left; /* operations at the store */
	uint32_t job_count;
	bool exec;
	uint64_t weight;       /* bytes that its jobs may hold until their replies are written */
	struct arena arena;    /* lives until the reply */
	struct resp_job *jobs; /* one … */
	struct resp_job one;   /* … or those of an EXEC */
};

/* The argument of a command's function. */
struct resp_run {
	struct resp_door *door;
	struct resp_session *session;
	struct resp_client *client;
	struct resp_task *task;
	struct resp_job *job;
	const struct resp_word *word;
	const struct span *args;
	uint32_t count;
};

/* ---- resp.c ---- */

/* Replies that are known at once. */
void resp_fixed(struct resp_job *job, struct span reply);
struct buf *resp_text(struct resp_job *job); /* empty: the caller writes the reply into it */
void resp_fail(struct resp_run *run, enum resp_error error, const char *format, ...)
	printf_like(3, 4);
void resp_fail_syntax(struct resp_run *run);
void resp_fail_integer(struct resp_run *run);
void resp_fail_arity(struct resp_run *run);
void resp_fail_subcommand(struct resp_run *run);
void resp_fail_memory(struct resp_run *run);
static inline void resp_ok(struct resp_run *run)
{
	resp_fixed(run->job, SPAN("+OK\r\n"));
}

/* One cell, or `count` of them, for the store: NULL without memory or if a key is too long;
 * the reply is the error then. Only the key is set. */
struct store_cell *resp_cell(struct resp_run *run, enum store_cell_act act, struct span key);
struct store_cell *resp_cells(struct resp_run *run, enum store_cell_act act,
                              const struct span *keys, uint32_t count);
/* Writes the error of a job whose operations failed; false: they did not. */
bool resp_write_failure(struct resp_job *job, struct buf *out);
void resp_write_store_error(struct resp_door *door, struct buf *out, int error);
void resp_decided(struct store_op *op); /* an operation's done(); its user is the job */

/* What one call may hold of values until its reply is written. */
#define RESP_VALUES_MAX (64u << 20)
void resp_weigh(struct resp_run *run, uint64_t bytes); /* that this job may hold */

void resp_begin_job(struct resp_task *task, struct resp_job *job,
                    const struct resp_session *session);

/* As Redis reads integers: no blanks, no plus, no zeros in front. */
bool resp_integer(struct span text, int64_t *ret_value);
static inline bool resp_is(struct span arg, const char *word)
{
	return span_eq_nocase(arg, span_str(word));
}

/* The table of commands. */
const struct resp_word *resp_word_find(struct span name);
const struct resp_word *resp_word_at(uint32_t index); /* NULL: no more */

/* ---- the commands ---- */

void resp_run_set(struct resp_run *run);
void resp_run_setnx(struct resp_run *run);
void resp_run_setex(struct resp_run *run);
void resp_run_psetex(struct resp_run *run);
void resp_run_get(struct resp_run *run);
void resp_run_getdel(struct resp_run *run);
void resp_run_getex(struct resp_run *run);
void resp_run_mget(struct resp_run *run);
void resp_run_del(struct resp_run *run);
void resp_run_exists(struct resp_run *run);
void resp_run_type(struct resp_run *run);

void resp_run_ttl(struct resp_run *run);
void resp_run_pttl(struct resp_run *run);
void resp_run_expiretime(struct resp_run *run);
void resp_run_pexpiretime(struct resp_run *run);
void resp_run_expire(struct resp_run *run);
void resp_run_pexpire(struct resp_run *run);
void resp_run_expireat(struct resp_run *run);
void resp_run_pexpireat(struct resp_run *run);
void resp_run_persist(struct resp_run *run);
void resp_run_scan(struct resp_run *run);
void resp_run_dbsize(struct resp_run *run);
void resp_scan_submit(struct resp_job *job);
void resp_scan_free(struct resp_job *job);
bool resp_glob(struct span pattern, struct span text);

void resp_run_ping(struct resp_run *run);
void resp_run_echo(struct resp_run *run);
void resp_run_hello(struct resp_run *run);
void resp_run_auth(struct resp_run *run);
void resp_run_client(struct resp_run *run);
void resp_run_select(struct resp_run *run);
void resp_run_quit(struct resp_run *run);
void resp_run_reset(struct resp_run *run);

void resp_run_multi(struct resp_run *run);
void resp_run_exec(struct resp_run *run);
void resp_run_discard(struct resp_run *run);
void resp_discard(struct resp_door *door, struct resp_session *session);
void resp_run_info(struct resp_run *run);
void resp_run_config(struct resp_run *run);
void resp_run_command(struct resp_run *run);
