/*
 * postgres_link: a connection to PostgreSQL that an interrupt and a time end.
 *
 * After postgres_link_open() the connection runs single commands; then, from
 * postgres_link_pipeline() on, statements go out without waiting and their answers come
 * in order: send …, postgres_send_sync(), then for each of them postgres_take(), and
 * postgres_take_sync(). After an answer of -EPROTO the rest of the pipeline is skipped by
 * the server, and the connection can be used again behind the sync. After any other error
 * it cannot: close it.
 *
 * The session has client_encoding UTF8, statement_timeout and lock_timeout as the options
 * say, and synchronous_commit on if it would be off.
 *
 * Where it connects to is said by the options alone. The password is in no text, unless it is
 * too short to be told from one (SECRET_BLOT_MIN).
 *
 * Room:      link, with postgres_args.c the only includers of libpq.
 * Threads:   one owner, which it blocks. Whoever writes to interrupt_fd ends all waiting
 *            but the look-up of a host's name.
 * Ownership: texts of the options stay the caller's, and must stay. An answer is freed by
 *            postgres_answer_free(); so is one that was never filled, if it is zeroed.
 * Failure:   ERR_CLOSING (interrupted), -ETIMEDOUT, -ECONNRESET, -ECONNREFUSED, -ENOMEM;
 *            -EACCES: the server is there and refuses the user, the password or the
 *            database; -EPROTO: it said no, and answer.state is its SQLSTATE.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/error.h"
#include "base/span.h"

struct pg_conn;
struct pg_result;
struct postgres_args;

#define POSTGRES_STATE_LEN 5 /* of an SQLSTATE */

struct postgres_link_options {
	const char *conninfo; /* a URL or "host=… dbname=…", as libpq knows it */
	const char *password; /* NULL, or what texts must not have */
	bool own_password;    /* it is not in conninfo */
	uint32_t connect_ms;
	uint32_t statement_ms;
	uint32_t lock_ms;
};

struct postgres_link {
	struct postgres_link_options options;
	struct pg_conn *conn; /* NULL: none */
	int interrupt_fd;     /* readable: give up */
	uint64_t until_ns;
};

/* What came of one statement. */
struct postgres_answer {
	struct pg_result *rows;
	char state[POSTGRES_STATE_LEN + 1]; /* of a failure that the server told; else "" */
	struct error_text text;             /* of a failure */
};

/* Is it a URL or a list that libpq understands? ERR_CONFIG and why not. `ret_password`:
 * empty, or the password that is in it; freed by whoever frees the buf of its memory. */
int postgres_conninfo_check(const char *conninfo, char **ret_password,
                            struct error_text *ret_text) must_check;

int postgres_link_open(struct postgres_link *link, struct error_text *ret_text) must_check;
void postgres_link_close(struct postgres_link *link); /* of one that is closed: nothing */

/* From now on. */
void postgres_link_limit(struct postgres_link *link, uint32_t ms);

/* A server that went away meanwhile is noticed before anything is sent. */
bool postgres_link_is_alive(struct postgres_link *link);

/* The descriptor that becomes readable when the server says something unasked. */
int postgres_link_fd(const struct postgres_link *link);
/* Reads what it said: were there notifications? Negative: the connection is lost. */
int postgres_link_notified(struct postgres_link *link, bool *ret_notified) must_check;

/* Outside of a pipeline: one or several commands in one text, one statement with texts as
 * parameters, one statement to be prepared. `answer` may be NULL. */
int postgres_command(struct postgres_link *link, const char *sql,
                     struct postgres_answer *answer) must_check;
int postgres_command_with(struct postgres_link *link, const char *sql, const char *const *values,
                          uint32_t count, struct postgres_answer *answer) must_check;
int postgres_prepare(struct postgres_link *link, const char *name, const char *sql,
                     struct postgres_answer *answer) must_check;

int postgres_link_pipeline(struct postgres_link *link) must_check;

/* Within one. False: the connection is lost. */
bool postgres_send(struct postgres_link *link, const char *sql) must_check;
bool postgres_send_prepared(struct postgres_link *link, const char *name,
                            struct postgres_args *args) must_check;
/* Parameters as libpq has them; rows come back as text. */
struct postgres_texts {
	const char *const *values;
	const int *lengths, *formats;
	uint32_t count;
};
bool postgres_send_texts(struct postgres_link *link, const char *name,
                         const struct postgres_texts *texts) must_check;
bool postgres_send_sync(struct postgres_link *link) must_check;

/* The answer to the next statement; `answer` is zeroed, or of an earlier one. 1: it was
 * skipped, since one before it failed. */
int postgres_take(struct postgres_link *link, struct postgres_answer *answer) must_check;
/* Of a COMMIT: -EPROTO also if the server rolled back. */
int postgres_take_commit(struct postgres_link *link, struct postgres_answer *answer) must_check;
int postgres_take_sync(struct postgres_link *link) must_check;
/* After -EPROTO, behind the sync: ends the transaction, if there is one. */
int postgres_rollback(struct postgres_link *link) must_check;

void postgres_answer_free(struct postgres_answer *answer);
uint32_t postgres_rows(const struct postgres_answer *answer);
uint64_t postgres_affected(const struct postgres_answer *answer); /* rows of an INSERT … */
/* As it came: text, or bytes of prepared statements. Empty if it is null. */
struct span postgres_span(const struct postgres_answer *answer, uint32_t row, uint32_t column);
bool postgres_is_null(const struct postgres_answer *answer, uint32_t row, uint32_t column);
/* Of prepared statements: int2, int4, int8, bool; 0 if null. */
uint64_t postgres_u64(const struct postgres_answer *answer, uint32_t row, uint32_t column);

/* What the server or libpq says, cleaned, without the password. */
void postgres_link_text(const struct postgres_link_options *options, const char *message,
                        struct error_text *ret_text);
