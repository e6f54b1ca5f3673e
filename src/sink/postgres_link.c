/* postgres_link: a connection that an interrupt and a time end. See postgres_internal.h. */
#include <poll.h>
#include <stdio.h>

#include "base/text.h"
#include "sink/postgres_internal.h"
#include "sys/clock.h"

#define UNDEFINED_TABLE "42P01"

void postgres_link_text(const struct postgres_plan *plan, const char *message,
                        struct error_text *ret_text)
{
	size_t len = strlen(message);
	char text[ERROR_TEXT_MAX];
	len = len < sizeof(text) ? len : sizeof(text);
	memcpy(text, message, len);
	if (plan->password)
		len = outlet_blot(text, len, span_str(plan->password));
	len = outlet_clean(text, len);
	error_fill(ret_text, 0, "%.*s", (int)len, text);
}

/* ---- waiting ---- */

void postgres_link_limit(struct postgres_link *link, uint32_t ms)
{
	link->until_ns = clock_monotonic_ns() + ms * UINT64_C(1000000);
}

static int wait_for(const struct postgres_link *link, short events)
{
	struct pollfd polls[2] = {
		{ .fd = PQsocket(link->conn), .events = events },
		{ .fd = link->interrupt_fd, .events = POLLIN },
	};
	uint64_t now_ns = clock_monotonic_ns();
	if (now_ns >= link->until_ns)
		return -ETIMEDOUT;
	int ready = poll(polls, 2, (int)((link->until_ns - now_ns) / 1000000) + 1);
	if (ready < 0 && errno != EINTR)
		return -errno;
	return ready > 0 && polls[1].revents != 0 ? ERR_CLOSING : 0;
}

int postgres_link_result(struct postgres_link *link, PGresult **ret_result)
{
	for (;;) {
		int unsent = PQflush(link->conn);
		if (unsent < 0)
			return -ECONNRESET;
		if (!PQisBusy(link->conn)) {
			*ret_result = PQgetResult(link->conn);
			return 0;
		}
		int error = wait_for(link, unsent ? POLLIN | POLLOUT : POLLIN);
		if (error)
			return error;
		if (!PQconsumeInput(link->conn))
			return -ECONNRESET;
	}
}

/* ---- opening ---- */

static int fail(const struct postgres_link *link, int error, const char *what,
                struct error_text *ret_text)
{
	struct error_text said = { "" };
	if (error == ERR_CLOSING)
		return error_fill(ret_text, error, "interrupted");
	if (error == -ETIMEDOUT)
		return error_fill(ret_text, error, "%s: no answer within %u ms", what,
		                  link->plan->connect_ms);
	postgres_link_text(link->plan, PQerrorMessage(link->conn), &said);
	return error_fill(ret_text, error, "%s: %.300s", what,
	                  said.text[0] ? said.text : error_name(error));
}

static int begin_connect(struct postgres_link *link)
{
	const struct postgres_plan *plan = link->plan;
	/* Later ones count more; what is NULL is not there. */
	const char *const names[] = { "dbname", "client_encoding", "fallback_application_name",
		                      plan->own_password ? "password" : NULL, NULL };
	const char *const values[] = { plan->conninfo, "UTF8", "stile", plan->password, NULL };
	link->conn = PQconnectStartParams(names, values, 1);
	if (!link->conn)
		return -ENOMEM;
	return PQstatus(link->conn) == CONNECTION_BAD ? -ECONNREFUSED : 0;
}

static int connect_link(struct postgres_link *link)
{
	int error = begin_connect(link);
	PostgresPollingStatusType state = PGRES_POLLING_WRITING;
	while (!error && state != PGRES_POLLING_OK) {
		error = wait_for(link, state == PGRES_POLLING_READING ? POLLIN : POLLOUT);
		if (!error)
			state = PQconnectPoll(link->conn);
		if (state == PGRES_POLLING_FAILED)
			error = -ECONNREFUSED;
	}
	if (!error && PQsetnonblocking(link->conn, 1) != 0)
		error = -ENOMEM;
	return error;
}

/* One command that was sent, to its end. The SQLSTATE of a failure is in `state`. */
static int finish_command(struct postgres_link *link, int sent, char state[static 6])
{
	PGresult *result = NULL;
	int error = sent ? 0 : -ECONNRESET;
	int failed = 0;
	state[0] = '\0';
	while (!error) {
		error = postgres_link_result(link, &result);
		if (error || !result)
			break;
		ExecStatusType status = PQresultStatus(result);
		const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
		if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
			failed = -EPROTO;
			snprintf(state, 6, "%s", code ? code : "");
		}
		PQclear(result);
	}
	return error ? error : failed;
}

/* Never weaker than a commit that is on the server's disk, and no wait without end. */
static int set_session(struct postgres_link *link)
{
	static const char sql[] = "SELECT set_config('statement_timeout', $1, false),"
				  " set_config('lock_timeout', $2, false),"
				  " CASE current_setting('synchronous_commit') WHEN 'off'"
				  " THEN set_config('synchronous_commit', 'on', false) END";
	char state[6], whole[TEXT_U64_MAX + 1], half[TEXT_U64_MAX + 1];
	snprintf(whole, sizeof(whole), "%u", link->plan->timeout_ms);
	snprintf(half, sizeof(half), "%u", link->plan->timeout_ms / 2 + 1);
	const char *const values[] = { whole, half };
	int sent = PQsendQueryParams(link->conn, sql, 2, NULL, values, NULL, NULL, 0);
	return finish_command(link, sent, state);
}

static int prepare_insert(struct postgres_link *link, char state[static 6])
{
	int sent = PQsendPrepare(link->conn, "stile_insert", link->plan->insert, 0, NULL);
	return finish_command(link, sent, state);
}

static int prepare(struct postgres_link *link)
{
	const struct postgres_plan *plan = link->plan;
	char state[6];
	int error = prepare_insert(link, state);
	if (error && plan->create && strcmp(state, UNDEFINED_TABLE) == 0) {
		error = finish_command(link, PQsendQuery(link->conn, plan->create), state);
		if (!error)
			error = prepare_insert(link, state);
	}
	if (!error && plan->statement)
		error = finish_command(link,
		                       PQsendPrepare(link->conn, "stile_effect", plan->statement, 0,
		                                     NULL),
		                       state);
	return error;
}

int postgres_link_open(struct postgres_link *link, struct error_text *ret_text)
{
	const char *what = "no connection";
	CHECK(!link->conn);
	postgres_link_limit(link, link->plan->connect_ms);
	int error = connect_link(link);
	if (!error) {
		what = "the database is not ready";
		error = set_session(link);
	}
	if (!error)
		error = prepare(link);
	if (!error && !PQenterPipelineMode(link->conn))
		error = -EPROTO;
	if (error) {
		fail(link, error, what, ret_text);
		postgres_link_close(link);
	}
	return error;
}

void postgres_link_close(struct postgres_link *link)
{
	PQfinish(link->conn);
	link->conn = NULL;
}
