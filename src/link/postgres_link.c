/* postgres_link: see postgres_link.h. */
#include "link/postgres_link.h"

#include <endian.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/secret.h"
#include "base/text.h"
#include "link/postgres_args.h"
#include "sys/clock.h"

/* ---- texts ---- */

#define PASSWORD_MAX 4096u /* of one from a file */

/* Bytes that may stand in a line: no controls, no password. */
static size_t clean(char *text, size_t len, struct span password, bool cut)
{
	len = secret_blot(text, len, password, cut);
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			text[i] = ' ';
	while (len > 0 && text[len - 1] == ' ')
		len--;
	return len;
}

void postgres_link_text(const struct postgres_link_options *options, const char *message,
                        struct error_text *ret_text)
{
	char text[ERROR_TEXT_MAX + PASSWORD_MAX];
	const char *place = strstr(message, "\nLOCATION:"); /* in the server's source */
	size_t len = place ? (size_t)(place - message) : strlen(message);
	bool cut = len > sizeof(text);
	len = cut ? sizeof(text) : len;
	memcpy(text, message, len);
	len = clean(text, len, span_str(options->password ? options->password : ""), cut);
	error_fill(ret_text, 0, "%.*s", (int)len, text);
}

int postgres_conninfo_check(const char *conninfo, char **ret_password, struct error_text *ret_text)
{
	char *message = NULL;
	PQconninfoOption *list = PQconninfoParse(conninfo, &message);
	if (message)
		PQfreemem(message);
	/* libpq's text would repeat what was written, the password too. */
	if (!list)
		return error_fill(ret_text, ERR_CONFIG,
		                  "it is no connection string of PostgreSQL: "
		                  "postgresql://user@host/database or host=… dbname=…");
	int error = 0;
	*ret_password = NULL;
	for (const PQconninfoOption *it = list; it->keyword; it++)
		if (strcmp(it->keyword, "password") == 0 && it->val && it->val[0]) {
			*ret_password = mem_strdup(it->val);
			error = *ret_password ? 0 : -ENOMEM;
		}
	PQconninfoFree(list);
	return error;
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

/* The next of what PQgetResult() gives. */
static int next_result(struct postgres_link *link, PGresult **ret_result)
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

bool postgres_link_is_alive(struct postgres_link *link)
{
	if (!link->conn)
		return false;
	struct pollfd look = { .fd = PQsocket(link->conn), .events = POLLIN };
	for (int i = 0; i < 3; i++) { /* its last words, then the end */
		if (poll(&look, 1, 0) == 0)
			return true;
		if (!PQconsumeInput(link->conn) || PQstatus(link->conn) != CONNECTION_OK)
			return false;
	}
	return true;
}

int postgres_link_fd(const struct postgres_link *link)
{
	return link->conn ? PQsocket(link->conn) : -1;
}

int postgres_link_notified(struct postgres_link *link, bool *ret_notified)
{
	*ret_notified = false;
	if (!PQconsumeInput(link->conn) || PQstatus(link->conn) != CONNECTION_OK)
		return -ECONNRESET;
	for (PGnotify *note; (note = PQnotifies(link->conn)) != NULL; PQfreemem(note))
		*ret_notified = true;
	return 0;
}

/* ---- answers ---- */

void postgres_answer_free(struct postgres_answer *answer)
{
	PQclear(answer->rows);
	answer->rows = NULL;
}

uint32_t postgres_rows(const struct postgres_answer *answer)
{
	return answer->rows ? (uint32_t)PQntuples(answer->rows) : 0;
}

uint64_t postgres_affected(const struct postgres_answer *answer)
{
	uint64_t count = 0;
	if (answer->rows && text_parse_u64(span_str(PQcmdTuples(answer->rows)), &count) < 0)
		return 0;
	return count;
}

bool postgres_is_null(const struct postgres_answer *answer, uint32_t row, uint32_t column)
{
	return PQgetisnull(answer->rows, (int)row, (int)column);
}

struct span postgres_span(const struct postgres_answer *answer, uint32_t row, uint32_t column)
{
	return span_of(PQgetvalue(answer->rows, (int)row, (int)column),
	               (size_t)PQgetlength(answer->rows, (int)row, (int)column));
}

uint64_t postgres_u64(const struct postgres_answer *answer, uint32_t row, uint32_t column)
{
	struct span value = postgres_span(answer, row, column);
	uint64_t wide = 0;
	if (value.len == 0 || value.len > sizeof(wide))
		return 0;
	memcpy((char *)&wide + sizeof(wide) - value.len, value.ptr, value.len);
	return be64toh(wide);
}

/* Is it the connection that ended, whatever the words? */
static bool is_lost(const char *state)
{
	return state[0] == '\0' || memcmp(state, "08", 2) == 0 || memcmp(state, "57P", 3) == 0;
}

static int note_failure(struct postgres_link *link, struct postgres_answer *answer,
                        const PGresult *result)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	snprintf(answer->state, sizeof(answer->state), "%s", state ? state : "");
	postgres_link_text(&link->options, message ? message : PQresultErrorMessage(result),
	                   &answer->text);
	return is_lost(answer->state) ? -ECONNRESET : -EPROTO;
}

static int judge(struct postgres_link *link, struct postgres_answer *answer, PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);
	PQclear(answer->rows);
	answer->rows = result;
	if (status == PGRES_PIPELINE_ABORTED)
		return 1;
	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		return note_failure(link, answer, result);
	return 0;
}

/* The results of one command and the end behind them. The first failure counts. */
static int finish(struct postgres_link *link, struct postgres_answer *answer)
{
	int found = 0;
	answer->state[0] = '\0';
	for (;;) {
		PGresult *result = NULL;
		int error = next_result(link, &result);
		if (error)
			return error;
		if (!result)
			return found;
		int said = judge(link, answer, result);
		if (found == 0)
			found = said;
		if (PQstatus(link->conn) == CONNECTION_BAD)
			return -ECONNRESET;
	}
}

/* ---- commands ---- */

static int command(struct postgres_link *link, int sent, struct postgres_answer *answer)
{
	struct postgres_answer own = { 0 };
	int error = sent ? finish(link, answer ? answer : &own) : -ECONNRESET;
	postgres_answer_free(&own);
	return error;
}

int postgres_command(struct postgres_link *link, const char *sql, struct postgres_answer *answer)
{
	return command(link, PQsendQuery(link->conn, sql), answer);
}

int postgres_command_with(struct postgres_link *link, const char *sql, const char *const *values,
                          uint32_t count, struct postgres_answer *answer)
{
	int sent = PQsendQueryParams(link->conn, sql, (int)count, NULL, values, NULL, NULL, 0);
	return command(link, sent, answer);
}

int postgres_prepare(struct postgres_link *link, const char *name, const char *sql,
                     struct postgres_answer *answer)
{
	return command(link, PQsendPrepare(link->conn, name, sql, 0, NULL), answer);
}

/* ---- pipelines ---- */

int postgres_link_pipeline(struct postgres_link *link)
{
	return PQenterPipelineMode(link->conn) ? 0 : -EPROTO;
}

bool postgres_send(struct postgres_link *link, const char *sql)
{
	return PQsendQueryParams(link->conn, sql, 0, NULL, NULL, NULL, NULL, 0);
}

bool postgres_send_prepared(struct postgres_link *link, const char *name,
                            struct postgres_args *args)
{
	const char *values[POSTGRES_ARGS_MAX];
	int lengths[POSTGRES_ARGS_MAX], formats[POSTGRES_ARGS_MAX];
	if (args->bytes.failed || args->bytes.len > INT32_MAX)
		return false;
	for (uint32_t i = 0; i < args->count; i++) {
		/* An empty value is not null: it needs an address. */
		values[i] = args->bytes.ptr ? args->bytes.ptr + args->starts[i] : "";
		lengths[i] = (int)(args->ends[i] - args->starts[i]);
		formats[i] = 1;
	}
	return PQsendQueryPrepared(link->conn, name, (int)args->count, values, lengths, formats, 1);
}

bool postgres_send_texts(struct postgres_link *link, const char *name,
                         const struct postgres_texts *texts)
{
	return PQsendQueryPrepared(link->conn, name, (int)texts->count, texts->values,
	                           texts->lengths, texts->formats, 0);
}

bool postgres_send_sync(struct postgres_link *link)
{
	return PQpipelineSync(link->conn);
}

int postgres_take(struct postgres_link *link, struct postgres_answer *answer)
{
	return finish(link, answer);
}

int postgres_take_commit(struct postgres_link *link, struct postgres_answer *answer)
{
	int error = finish(link, answer);
	/* COMMIT of a transaction that failed says ROLLBACK, and that it went well. */
	if (error == 0 && strcmp(PQcmdStatus(answer->rows), "COMMIT") != 0)
		error = -EPROTO;
	return error;
}

/* It has no end behind it. */
int postgres_take_sync(struct postgres_link *link)
{
	PGresult *result = NULL;
	int error = next_result(link, &result);
	if (!error && PQresultStatus(result) != PGRES_PIPELINE_SYNC)
		error = -ECONNRESET;
	PQclear(result);
	return error;
}

int postgres_rollback(struct postgres_link *link)
{
	struct postgres_answer answer = { 0 };
	if (PQpipelineStatus(link->conn) == PQ_PIPELINE_ABORTED)
		return -ECONNRESET;
	if (PQtransactionStatus(link->conn) == PQTRANS_IDLE)
		return 0;
	if (!postgres_send(link, "ROLLBACK") || !postgres_send_sync(link))
		return -ECONNRESET;
	int error = postgres_take(link, &answer);
	postgres_answer_free(&answer);
	return error ? error : postgres_take_sync(link);
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
		                  link->options.connect_ms);
	postgres_link_text(&link->options, PQerrorMessage(link->conn), &said);
	return error_fill(ret_text, error, "%s: %.300s", what,
	                  said.text[0] ? said.text : error_name(error));
}

/* What is no error is nobody's: libpq would print it. */
static void ignore_notice(void *user, const PGresult *result)
{
	(void)user;
	(void)result;
}

static int begin_connect(struct postgres_link *link)
{
	const struct postgres_link_options *options = &link->options;
	/* Later ones count more; what is NULL is not there. */
	const char *const names[] = { "dbname", "client_encoding", "fallback_application_name",
		                      options->own_password ? "password" : NULL, NULL };
	const char *const values[] = { options->conninfo, "UTF8", "stile", options->password,
		                       NULL };
	link->conn = PQconnectStartParams(names, values, 1);
	if (!link->conn)
		return -ENOMEM;
	PQsetNoticeReceiver(link->conn, ignore_notice, NULL);
	PQsetErrorVerbosity(link->conn, PQERRORS_VERBOSE); /* for is_refusal() */
	return PQstatus(link->conn) == CONNECTION_BAD ? -ECONNREFUSED : 0;
}

/* Does the server answer, and want no such user or database? libpq gives no SQLSTATE before
 * there is a connection but in the text: "FATAL:  28P01: password …". */
static bool is_refusal(const char *message)
{
	return strstr(message, ":  28") || strstr(message, ":  3D000");
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
	if (error == -ECONNREFUSED && is_refusal(PQerrorMessage(link->conn)))
		error = -EACCES;
	PQsetErrorVerbosity(link->conn, PQERRORS_DEFAULT);
	if (!error && PQsetnonblocking(link->conn, 1) != 0)
		error = -ENOMEM;
	return error;
}

/* Never weaker than a commit that is on the server's disk, and no wait without end. */
static int set_session(struct postgres_link *link)
{
	static const char sql[] = "SELECT set_config('statement_timeout', $1, false),"
				  " set_config('lock_timeout', $2, false),"
				  " CASE current_setting('synchronous_commit') WHEN 'off'"
				  " THEN set_config('synchronous_commit', 'on', false) END";
	char statement[TEXT_U64_MAX + 1], lock[TEXT_U64_MAX + 1];
	snprintf(statement, sizeof(statement), "%u", link->options.statement_ms);
	snprintf(lock, sizeof(lock), "%u", link->options.lock_ms);
	const char *const values[] = { statement, lock };
	return postgres_command_with(link, sql, values, 2, NULL);
}

int postgres_link_open(struct postgres_link *link, struct error_text *ret_text)
{
	const char *what = "no connection";
	CHECK(!link->conn);
	postgres_link_limit(link, link->options.connect_ms);
	int error = connect_link(link);
	if (!error) {
		what = "the database is not ready";
		error = set_session(link);
	}
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
