/*
 * postgres_internal: the parts of a postgres outlet.
 *
 *   postgres_plan.c    options, judged and compiled; an event's parameters
 *   postgres_begin.c   the connection, and what is prepared on it (link/postgres_link.h)
 *   postgres_outlet.c  transactions, what came of them, the contract of outlet.h
 *
 * Room: sink, postgres_*.c alone. Threads: the lane's.
 */
#pragma once

#include "base/arena.h"
#include "gate/template.h"
#include "link/postgres_link.h"
#include "sink/postgres/postgres_outlet.h"

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

/* Connected, prepared and in pipeline mode when it returns 0; else a text. */
int postgres_plan_connect(const struct postgres_plan *plan, struct postgres_link *link,
                          struct error_text *ret_text) must_check;
