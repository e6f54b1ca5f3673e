/* connection: see connection.h. */
#include "store/postgres/connection.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hex.h"
#include "base/secret.h"
#include "base/text.h"

/* Always use an index: the tables may have been empty when they were last analysed. */
static const char session[] = "SET enable_seqscan = off; SET jit = off;"
			      "SET plan_cache_mode = force_generic_plan;"
			      "SET idle_in_transaction_session_timeout = '60s'";

static const char unsafe[] =
	"SELECT name FROM pg_settings WHERE (name = 'synchronous_commit' AND reset_val = 'off')"
	" OR (name = 'fsync' AND setting = 'off')";

/* SQLSTATE of "mark" without a row. */
#define DIVISION_BY_ZERO "22012"

static const struct statement marks[] = {
	{ "mark", "WITH u AS (UPDATE stile_lines SET batch = $3::bigint WHERE node = $1::bigint"
	          " AND line = $2::bigint AND batch = $4::bigint RETURNING 1)"
	          " SELECT 1 / count(*) FROM u" },
	{ 0 },
};

static int keep_text(struct connection *conn, const struct postgres_answer *answer, int error)
{
	if (error != -EPROTO && error != -ECONNRESET)
		error_fill(&conn->text, 0, "%s", error_name(error));
	else if (answer->text.text[0])
		conn->text = answer->text;
	snprintf(conn->state, sizeof(conn->state), "%s", answer->state);
	return error;
}

static int command(struct connection *conn, const char *sql)
{
	struct postgres_answer answer = { 0 };
	int error = postgres_command(&conn->link, sql, &answer);
	if (error)
		keep_text(conn, &answer, error);
	postgres_answer_free(&answer);
	return error;
}

static int expect_safe(struct connection *conn)
{
	struct postgres_answer answer = { 0 };
	int error = postgres_command(&conn->link, unsafe, &answer);
	if (error) {
		keep_text(conn, &answer, error);
	} else if (postgres_rows(&answer) > 0) {
		struct span name = postgres_span(&answer, 0, 0);
		error = error_fill(&conn->text, ERR_CONFIG,
		                   "%.*s is off: acknowledged events would be lost when the "
		                   "server stops",
		                   (int)name.len, name.ptr);
	}
	postgres_answer_free(&answer);
	return error;
}

static int prepare_all(struct connection *conn, const struct statement *statements)
{
	struct postgres_answer answer = { 0 };
	int error = 0;
	for (; statements->name && !error; statements++)
		error = postgres_prepare(&conn->link, statements->name, statements->sql, &answer);
	if (error)
		keep_text(conn, &answer, error);
	postgres_answer_free(&answer);
	return error;
}

/* Tables that were made anew have another secret: digests of the same key would differ. */
static int expect_key(struct connection *conn)
{
	struct postgres_answer answer = { 0 };
	unsigned char key[POSTGRES_STORE_KEY_LEN] = { 0 };
	int error = postgres_command(&conn->link, "SELECT encode(key, 'hex') FROM stile_meta",
	                             &answer);
	if (error)
		keep_text(conn, &answer, error);
	else if (postgres_rows(&answer) != 1 ||
	         !hex_decode(postgres_span(&answer, 0, 0), key, sizeof(key)) ||
	         memcmp(key, conn->key, sizeof(key)) != 0)
		error = error_fill(
			&conn->text, ERR_CONFIG,
			"the tables were recreated while this gateway ran, and have another secret: restart the gateway to use them");
	secret_wipe(key, sizeof(key));
	postgres_answer_free(&answer);
	return error;
}

static int make_row(struct connection *conn)
{
	char sql[160];
	snprintf(sql, sizeof(sql),
	         "INSERT INTO stile_lines VALUES (%" PRIu64 ", %u, %" PRIu64
	         ") ON CONFLICT (node, line) DO UPDATE SET batch = excluded.batch",
	         conn->node, conn->number, conn->transaction);
	conn->mark = (int64_t)conn->transaction;
	return command(conn, sql);
}

static int set_up(struct connection *conn)
{
	int error = schema_choose(&conn->link, conn->address->schema, &conn->text);
	if (!error)
		error = command(conn, session);
	if (!error)
		error = expect_safe(conn);
	if (!error)
		error = schema_expect(&conn->link, &conn->text);
	if (!error)
		error = expect_key(conn);
	/* While a transaction is in doubt the row must stay as it is. */
	if (!error && !conn->in_doubt)
		error = make_row(conn);
	if (!error && conn->on_open)
		error = command(conn, conn->on_open);
	if (!error)
		error = prepare_all(conn, marks);
	for (size_t i = 0; i < CONNECTION_LISTS && !error && conn->statements[i]; i++)
		error = prepare_all(conn, conn->statements[i]);
	if (!error)
		error = postgres_link_pipeline(&conn->link);
	return error;
}

int connection_open(struct connection *conn)
{
	conn->sent = 0;
	postgres_args_clear(&conn->args);
	int error = postgres_link_open(&conn->link, &conn->text);
	if (error)
		return error;
	postgres_link_limit(&conn->link, conn->link.options.connect_ms);
	error = set_up(conn);
	if (error)
		connection_close(conn);
	return error;
}

void connection_close(struct connection *conn)
{
	postgres_link_close(&conn->link);
}

void connection_free(struct connection *conn)
{
	connection_close(conn);
	postgres_args_free(&conn->args);
}

bool connection_is_open(const struct connection *conn)
{
	return conn->link.conn != NULL;
}

/* ---- a transaction ---- */

/* Reported when its answer is taken. */
static void send_failed(struct connection *conn)
{
	error_fill(&conn->text, 0, "the connection is lost");
	connection_close(conn);
}

static void send_plain(struct connection *conn, const char *sql)
{
	if (connection_is_open(conn) && !postgres_send(&conn->link, sql))
		send_failed(conn);
	conn->sent++;
}

void connection_begin_bare(struct connection *conn)
{
	CHECK(conn->sent == 0);
	conn->transaction++;
	conn->state[0] = '\0';
	conn->text.text[0] = '\0';
}

uint64_t connection_first(const struct connection *conn)
{
	CHECK(conn->mark < 0);
	return (uint64_t)(-1 - conn->mark);
}

void connection_begin(struct connection *conn)
{
	connection_begin_bare(conn);
	send_plain(conn, "BEGIN");
	postgres_args_u64(&conn->args, conn->node);
	postgres_args_u64(&conn->args, conn->number);
	postgres_args_u64(&conn->args, conn->transaction);
	postgres_args_u64(&conn->args, (uint64_t)conn->mark);
	connection_send(conn, "mark");
}

void connection_send(struct connection *conn, const char *name)
{
	if (connection_is_open(conn) && !postgres_send_prepared(&conn->link, name, &conn->args))
		send_failed(conn);
	postgres_args_clear(&conn->args);
	conn->sent++;
}

void connection_commit(struct connection *conn)
{
	send_plain(conn, "COMMIT");
}

void connection_sync(struct connection *conn)
{
	CHECK(conn->sent > 0);
	if (connection_is_open(conn) && !postgres_send_sync(&conn->link))
		send_failed(conn);
	postgres_link_limit(&conn->link, conn->limit_ms);
}

static int take(struct connection *conn, struct postgres_answer *answer,
                int (*how)(struct postgres_link *link, struct postgres_answer *answer))
{
	CHECK(conn->sent > 0);
	conn->sent--;
	if (!connection_is_open(conn))
		return -ECONNRESET;
	int error = how(&conn->link, answer);
	if (error < 0 && conn->state[0] == '\0')
		keep_text(conn, answer, error);
	return error;
}

int connection_take(struct connection *conn, struct postgres_answer *answer)
{
	return take(conn, answer, postgres_take);
}

int connection_take_commit(struct connection *conn)
{
	struct postgres_answer answer = { 0 };
	int error = take(conn, &answer, postgres_take_commit);
	postgres_answer_free(&answer);
	return error;
}

void connection_committed(struct connection *conn)
{
	CHECK(conn->sent == 0 && !conn->in_doubt);
	conn->mark = (int64_t)conn->transaction;
}

int connection_take_nothing(struct connection *conn)
{
	struct postgres_answer answer = { 0 };
	int error = connection_take(conn, &answer);
	postgres_answer_free(&answer);
	return error;
}

int connection_take_sync(struct connection *conn)
{
	CHECK(conn->sent == 0);
	return connection_is_open(conn) ? postgres_take_sync(&conn->link) : -ECONNRESET;
}

void connection_join_sync(int *error, struct connection *conn)
{
	if (*error == 0 || *error == 1 || *error == -EPROTO)
		connection_join(error, connection_take_sync(conn));
}

int connection_query(struct connection *conn, const char *name, struct postgres_answer *answer)
{
	CHECK(conn->sent == 0);
	conn->state[0] = '\0';
	connection_send(conn, name);
	connection_sync(conn);
	int error = connection_take(conn, answer);
	int synced = error == 0 || error == -EPROTO ? connection_take_sync(conn) : error;
	if (synced)
		connection_close(conn);
	return error ? error : synced;
}

bool connection_divided(const struct connection *conn)
{
	return strcmp(conn->state, DIVISION_BY_ZERO) == 0;
}

bool connection_lost_tables(const struct connection *conn)
{
	/* No row of this connection; no table, schema or function. */
	static const char *const states[] = { DIVISION_BY_ZERO, SCHEMA_UNDEFINED_TABLE, "3F000",
		                              "42883" };
	for (size_t i = 0; i < ARRAY_LEN(states); i++)
		if (strcmp(conn->state, states[i]) == 0)
			return true;
	return false;
}

int connection_rollback(struct connection *conn)
{
	CHECK(conn->sent == 0 && !conn->in_doubt);
	int error = connection_is_open(conn) ? postgres_rollback(&conn->link) : -ECONNRESET;
	/* The transaction may have been stopped while stile_number() held its lock. */
	if (!error && (!postgres_send(&conn->link, "SELECT pg_advisory_unlock_all()") ||
	               !postgres_send_sync(&conn->link)))
		error = -ECONNRESET;
	struct postgres_answer answer = { 0 };
	if (!error)
		error = postgres_take(&conn->link, &answer);
	postgres_answer_free(&answer);
	if (!error)
		error = postgres_take_sync(&conn->link);
	if (error)
		connection_close(conn);
	return error;
}

/* ---- was it committed? ---- */

static int64_t number_of(struct span text)
{
	char digits[TEXT_U64_MAX + 2];
	snprintf(digits, sizeof(digits), "%.*s", (int)text.len, text.ptr);
	return strtoll(digits, NULL, 10);
}

/* Neither the number of a transaction nor of an earlier fence. */
static int64_t fence_of(const struct connection *conn)
{
	return INT64_MAX - (int64_t)conn->transaction;
}

int connection_was_committed(struct connection *conn, bool *ret_committed)
{
	struct postgres_answer answer = { 0 };
	char sql[240];
	CHECK(conn->in_doubt && conn->sent == 0);
	snprintf(sql, sizeof(sql),
	         "UPDATE stile_lines SET batch = CASE batch WHEN %" PRId64 " THEN %" PRId64
	         " ELSE batch END WHERE node = %" PRIu64 " AND line = %u RETURNING batch::text",
	         conn->mark, fence_of(conn), conn->node, conn->number);
	postgres_link_limit(&conn->link, conn->limit_ms);
	bool sent = postgres_send(&conn->link, sql) && postgres_send_sync(&conn->link);
	int error = sent ? postgres_take(&conn->link, &answer) : -ECONNRESET;
	if (error < 0)
		keep_text(conn, &answer, error);
	int synced = error == 0 || error == -EPROTO ? postgres_take_sync(&conn->link) : 0;
	if (!error && postgres_rows(&answer) != 1)
		error = -ENOENT;
	if (!error && !synced) {
		conn->mark = number_of(postgres_span(&answer, 0, 0));
		*ret_committed = conn->mark != fence_of(conn);
	}
	postgres_answer_free(&answer);
	if (error == -EPROTO || synced)
		error = ERR_BUSY;
	return error;
}
