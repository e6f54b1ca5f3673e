/* postgres_begin: the connection of a postgres outlet. See postgres_internal.h. */
#include <string.h>

#include "sink/postgres/postgres_internal.h"

#define UNDEFINED_TABLE "42P01"

static int prepare(const struct postgres_plan *plan, struct postgres_link *link,
                   struct postgres_answer *answer)
{
	int error = postgres_prepare(link, "stile_insert", plan->insert, answer);
	if (error && plan->create && strcmp(answer->state, UNDEFINED_TABLE) == 0) {
		error = postgres_command(link, plan->create, answer);
		if (!error)
			error = postgres_prepare(link, "stile_insert", plan->insert, answer);
	}
	if (!error && plan->statement)
		error = postgres_prepare(link, "stile_effect", plan->statement, answer);
	return error;
}

static int fail(const struct postgres_plan *plan, const struct postgres_answer *answer, int error,
                struct error_text *ret_text)
{
	if (error == ERR_CLOSING)
		return error_fill(ret_text, error, "interrupted");
	if (error == -ETIMEDOUT)
		return error_fill(ret_text, error,
		                  "the database is not ready: no answer within %u ms",
		                  plan->connect_ms);
	return error_fill(ret_text, error, "the database is not ready: %.300s",
	                  answer->text.text[0] ? answer->text.text : error_name(error));
}

int postgres_plan_connect(const struct postgres_plan *plan, struct postgres_link *link,
                          struct error_text *ret_text)
{
	struct postgres_answer answer = { 0 };
	int error = postgres_link_open(link, ret_text);
	if (error)
		return error;
	error = prepare(plan, link, &answer);
	if (!error)
		error = postgres_link_pipeline(link);
	if (error) {
		fail(plan, &answer, error, ret_text);
		postgres_link_close(link);
	}
	postgres_answer_free(&answer);
	return error;
}
