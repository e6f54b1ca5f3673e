/*
 * postgres_internal: the parts of a postgres outlet.
 *
 *   postgres_plan.c    options, judged and compiled; an event's parameters
 *   postgres_link.c    a connection that an interrupt and a time end
 *   postgres_outlet.c  transactions, what came of them, the contract of outlet.h
 *
 * Room: sink, postgres_*.c alone. Threads: the lane's.
 */
#pragma once

#include <libpq-fe.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "gate/template.h"
#include "sink/postgres_outlet.h"

#define POSTGRES_PARAMS_MAX 64u

struct postgres_plan {
	struct arena arena;
	struct templates *templates;
	const char *name, *conninfo, *password; /* password: NULL, or what texts must not have */
	bool own_password;                      /* it is not in conninfo */
	const char *insert;                     /* the key, or the row of the event */
	const char *create;                     /* DDL; NULL: not to be made */
	const char *statement;                  /* with $1 …; NULL: the row is all */
	uint32_t statement_number, key_number;  /* templates */
	uint32_t connect_ms, timeout_ms;
};

int postgres_plan_new(const struct postgres_outlet_options *options,
                      struct postgres_plan **ret_plan, struct error_text *ret_text) must_check;
struct postgres_plan *postgres_plan_free(struct postgres_plan *plan);

/* Parameters of one execution. */
struct postgres_params {
	uint32_t count;
	size_t starts[POSTGRES_PARAMS_MAX]; /* SIZE_MAX: NULL */
	int lengths[POSTGRES_PARAMS_MAX];
	int formats[POSTGRES_PARAMS_MAX]; /* 1: bytes */
	const char *values[POSTGRES_PARAMS_MAX];
	struct buf text;
	struct template_run run;
};

/* ERR_INVALID and a text: the event can never be one. `bytes`: the payload is no jsonb. */
int postgres_params_insert(struct postgres_params *params, const struct postgres_plan *plan,
                           const struct outlet_attempt *attempt, bool bytes,
                           struct error_text *ret_text) must_check;
int postgres_params_effect(struct postgres_params *params, const struct postgres_plan *plan,
                           const struct outlet_attempt *attempt,
                           struct error_text *ret_text) must_check;

/* ---- the connection ---- */

struct postgres_link {
	const struct postgres_plan *plan;
	PGconn *conn;     /* NULL: none */
	int interrupt_fd; /* readable: give up */
	uint64_t until_ns;
};

/* Connected, prepared and in pipeline mode when it returns 0; else a text. */
int postgres_link_open(struct postgres_link *link, struct error_text *ret_text) must_check;
void postgres_link_close(struct postgres_link *link);

/* From now on. */
void postgres_link_limit(struct postgres_link *link, uint32_t ms);

/* The next of what PQgetResult() gives. ERR_CLOSING, -ETIMEDOUT, -ECONNRESET. */
int postgres_link_result(struct postgres_link *link, PGresult **ret_result) must_check;

/* What the server or libpq says, cleaned, without the password. */
void postgres_link_text(const struct postgres_plan *plan, const char *message,
                        struct error_text *ret_text);
