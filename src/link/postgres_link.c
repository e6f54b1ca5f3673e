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
#include "sys/clock.h"

/* ---- texts ---- */

#define PASSWORD_MAX 4096u /* of one from a file */

void postgres_link_text(const struct postgres_link_options *options, const char *message,
                        struct error_text *ret_text)
{
	char text[ERROR_TEXT_MAX + PASSWORD_MAX];
	const char *place = strstr(message, "\nLOCATION:"); /* in the server's source */
	size_t len = place ? (size_t)(place - message) : strlen(message);
	bool cut = len > sizeof(text);
	len = cut ? sizeof(text) : len;
	memcpy(text, message, len);
	len = secret_blot(text, len, span_str(options->password ? options->password : ""), cut);
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			text[i] = ' ';
	while (len > 0 && text[len - 1] == ' ')
		len--;
	error_fill(ret_text, 0, "%.*s", (int)len, text);
}

int postgres_conninfo_check(const char *conninfo, char **ret_password, struct error_text *ret_text)
{
	char *message = NULL;
	PQconninfoOption *list = PQconninfoParse(conninfo, &message);
	if (message)
		PQfreemem(message);
	/* libpq's text would repeat the string with the password. */
	if (!list)
		return error_fill(ret_text, ERR_CONFIG,
		                  "not a connection string of PostgreSQL: "
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

/* PQgetResult(), which may wait. */
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
	for (int i = 0; i < 3; i++) { /* a last message, then the end */
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

static int check_result(struct postgres_link *link, struct postgres_answer *answer,
                        PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);
	PQclear(answer->rows);
	answer->rows = result;
	if (status == PGRES_PIPELINE_ABORTED)
		return 1;
	if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
		return 0;
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	snprintf(answer->state, sizeof(answer->state), "%s", state ? state : "");
	postgres_link_text(&link->options, message ? message : PQresultErrorMessage(result),
	                   &answer->text);
	/* These states, or none, say that the connection ended. */
	state = answer->state;
	bool lost = state[0] == '\0' || memcmp(state, "08", 2) == 0 || memcmp(state, "57P", 3) == 0;
	return lost ? -ECONNRESET : -EPROTO;
}

/* Reads the results of one command to their end. The first failure counts. */
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
		int said = check_result(link, answer, result);
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

/* ---- parameters in binary form ---- */

/* Of pg_type; they never change. */
enum { TYPE_BYTEA = 17, TYPE_INT8 = 20, TYPE_UUID = 2950 };

void postgres_args_clear(struct postgres_args *args)
{
	buf_clear(&args->bytes);
	args->count = 0;
}

void postgres_args_free(struct postgres_args *args)
{
	buf_free(&args->bytes);
	args->count = 0;
}

static void put32(struct buf *bytes, uint32_t value)
{
	value = htobe32(value);
	buf_append(bytes, &value, sizeof(value));
}

static void put64(struct buf *bytes, uint64_t value)
{
	value = htobe64(value);
	buf_append(bytes, &value, sizeof(value));
}

static void arg_begin(struct postgres_args *args)
{
	CHECK(args->count < POSTGRES_ARGS_MAX);
	args->starts[args->count] = args->bytes.len;
}

static void arg_end(struct postgres_args *args)
{
	args->ends[args->count++] = args->bytes.len;
}

void postgres_args_u64(struct postgres_args *args, uint64_t value)
{
	arg_begin(args);
	put64(&args->bytes, value);
	arg_end(args);
}

void postgres_args_bytes(struct postgres_args *args, struct span value)
{
	arg_begin(args);
	buf_append_span(&args->bytes, value);
	arg_end(args);
}

void postgres_args_key(struct postgres_args *args, const unsigned char key[static POSTGRES_KEY_LEN])
{
	postgres_args_bytes(args, span_of(key, POSTGRES_KEY_LEN));
}

/* One dimension, no nulls, counted from 1. */
static void begin_array(struct postgres_args *args, uint32_t type, size_t count)
{
	arg_begin(args);
	put32(&args->bytes, count > 0);
	put32(&args->bytes, 0);
	put32(&args->bytes, type);
	if (count == 0)
		return;
	put32(&args->bytes, (uint32_t)count);
	put32(&args->bytes, 1);
}

static const void *field(const struct postgres_column *column, size_t i)
{
	return (const char *)column->rows[i] + column->offset;
}

void postgres_args_u64s(struct postgres_args *args, struct postgres_column column)
{
	begin_array(args, TYPE_INT8, column.count);
	for (size_t i = 0; i < column.count; i++) {
		uint64_t value;
		memcpy(&value, field(&column, i), sizeof(value));
		put32(&args->bytes, sizeof(value));
		put64(&args->bytes, value);
	}
	arg_end(args);
}

void postgres_args_keys(struct postgres_args *args, struct postgres_column column)
{
	begin_array(args, TYPE_UUID, column.count);
	for (size_t i = 0; i < column.count; i++) {
		put32(&args->bytes, POSTGRES_KEY_LEN);
		buf_append(&args->bytes, field(&column, i), POSTGRES_KEY_LEN);
	}
	arg_end(args);
}

void postgres_args_spans(struct postgres_args *args, struct postgres_column column)
{
	begin_array(args, TYPE_BYTEA, column.count);
	for (size_t i = 0; i < column.count; i++) {
		struct span value;
		memcpy(&value, field(&column, i), sizeof(value));
		put32(&args->bytes, (uint32_t)value.len);
		buf_append_span(&args->bytes, value);
	}
	arg_end(args);
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
	/* COMMIT of a failed transaction succeeds, with the status ROLLBACK. */
	if (error == 0 && strcmp(PQcmdStatus(answer->rows), "COMMIT") != 0)
		error = -EPROTO;
	return error;
}

/* A sync is one result, without an end. */
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

/* libpq would print notices. */
static void ignore_notice(void *user, const PGresult *result)
{
	(void)user;
	(void)result;
}

static int begin_connect(struct postgres_link *link)
{
	const struct postgres_link_options *options = &link->options;
	/* Later ones override; NULL is not set. */
	const char *const names[] = { "dbname", "client_encoding", "fallback_application_name",
		                      options->own_password ? "password" : NULL, NULL };
	const char *const values[] = { options->conninfo, "UTF8", "stile", options->password,
		                       NULL };
	link->conn = PQconnectStartParams(names, values, 1);
	if (!link->conn)
		return -ENOMEM;
	PQsetNoticeReceiver(link->conn, ignore_notice, NULL);
	PQsetErrorVerbosity(link->conn, PQERRORS_VERBOSE); /* for the SQLSTATE in the text */
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
	/* Did the server reject the user or the database? Before there is a connection libpq
	 * gives the SQLSTATE in the text alone: "FATAL:  28P01: password …". */
	if (error == -ECONNREFUSED && (strstr(PQerrorMessage(link->conn), ":  28") ||
	                               strstr(PQerrorMessage(link->conn), ":  3D000")))
		error = -EACCES;
	PQsetErrorVerbosity(link->conn, PQERRORS_DEFAULT);
	if (!error && PQsetnonblocking(link->conn, 1) != 0)
		error = -ENOMEM;
	return error;
}

/* A commit is on the server's disk, and every wait has an end. */
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
	struct error_text said = { "" };
	CHECK(!link->conn);
	postgres_link_limit(link, link->options.connect_ms);
	int error = connect_link(link);
	if (!error) {
		what = "the database is not ready";
		error = set_session(link);
	}
	if (!error)
		return 0;
	if (error == ERR_CLOSING) {
		error_fill(ret_text, error, "interrupted");
	} else if (error == -ETIMEDOUT) {
		error_fill(ret_text, error, "%s: no answer within %u ms", what,
		           link->options.connect_ms);
	} else {
		postgres_link_text(&link->options, PQerrorMessage(link->conn), &said);
		error_fill(ret_text, error, "%s: %.300s", what,
		           said.text[0] ? said.text : error_name(error));
	}
	postgres_link_close(link);
	return error;
}

void postgres_link_close(struct postgres_link *link)
{
	PQfinish(link->conn);
	link->conn = NULL;
}
