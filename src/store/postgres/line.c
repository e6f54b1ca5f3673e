/* line: see line.h. */
#include "store/postgres/line.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hex.h"
#include "base/secret.h"
#include "base/text.h"

/* Tables may have been empty when they were last analysed: an index is right, always. */
static const char session[] = "SET enable_seqscan = off; SET jit = off;"
			      "SET plan_cache_mode = force_generic_plan;"
			      "SET idle_in_transaction_session_timeout = '60s'";

static const char unsafe[] =
	"SELECT name FROM pg_settings WHERE (name = 'synchronous_commit' AND reset_val = 'off')"
	" OR (name = 'fsync' AND setting = 'off')";

/* Of "mark", when there is no row. */
#define DIVISION_BY_ZERO "22012"

static const struct line_statement marks[] = {
	{ "mark", "WITH u AS (UPDATE stile_lines SET batch = $3::bigint WHERE node = $1::bigint"
	          " AND line = $2::bigint AND batch = $4::bigint RETURNING 1)"
	          " SELECT 1 / count(*) FROM u" },
	{ 0 },
};

static int keep_text(struct line *line, const struct postgres_answer *answer, int error)
{
	if (error != -EPROTO && error != -ECONNRESET)
		error_fill(&line->text, 0, "%s", error_name(error));
	else if (answer->text.text[0])
		line->text = answer->text;
	snprintf(line->state, sizeof(line->state), "%s", answer->state);
	return error;
}

static int command(struct line *line, const char *sql)
{
	struct postgres_answer answer = { 0 };
	int error = postgres_command(&line->link, sql, &answer);
	if (error)
		keep_text(line, &answer, error);
	postgres_answer_free(&answer);
	return error;
}

static int expect_safe(struct line *line)
{
	struct postgres_answer answer = { 0 };
	int error = postgres_command(&line->link, unsafe, &answer);
	if (error) {
		keep_text(line, &answer, error);
	} else if (postgres_rows(&answer) > 0) {
		struct span name = postgres_span(&answer, 0, 0);
		error = error_fill(&line->text, ERR_CONFIG,
		                   "%.*s is off: what was acknowledged would be lost when the "
		                   "server stops",
		                   (int)name.len, name.ptr);
	}
	postgres_answer_free(&answer);
	return error;
}

static int prepare_all(struct line *line, const struct line_statement *statements)
{
	struct postgres_answer answer = { 0 };
	int error = 0;
	for (; statements->name && !error; statements++)
		error = postgres_prepare(&line->link, statements->name, statements->sql, &answer);
	if (error)
		keep_text(line, &answer, error);
	postgres_answer_free(&answer);
	return error;
}

/* Tables that were made anew have another secret: two would not know each other's claims. */
static int expect_key(struct line *line)
{
	struct postgres_answer answer = { 0 };
	unsigned char key[POSTGRES_STORE_KEY_LEN] = { 0 };
	int error = postgres_command(&line->link, "SELECT encode(key, 'hex') FROM stile_meta",
	                             &answer);
	if (error)
		keep_text(line, &answer, error);
	else if (postgres_rows(&answer) != 1 ||
	         !hex_decode(postgres_span(&answer, 0, 0), key, sizeof(key)) ||
	         memcmp(key, line->key, sizeof(key)) != 0)
		error = error_fill(&line->text, ERR_CONFIG,
		                   "the tables were made anew, with another secret of claims, "
		                   "while this gateway ran: restart it to begin with them");
	secret_wipe(key, sizeof(key));
	postgres_answer_free(&answer);
	return error;
}

static int make_row(struct line *line)
{
	char sql[160];
	snprintf(sql, sizeof(sql),
	         "INSERT INTO stile_lines VALUES (%" PRIu64 ", %u, %" PRIu64
	         ") ON CONFLICT (node, line) DO UPDATE SET batch = excluded.batch",
	         line->node, line->number, line->batch);
	line->mark = (int64_t)line->batch;
	return command(line, sql);
}

static int set_up(struct line *line)
{
	int error = schema_choose(&line->link, line->address->schema, &line->text);
	if (!error)
		error = command(line, session);
	if (!error)
		error = expect_safe(line);
	if (!error)
		error = schema_expect(&line->link, &line->text);
	if (!error)
		error = expect_key(line);
	/* If it is gone while something is in doubt, nobody knows. */
	if (!error && !line->in_doubt)
		error = make_row(line);
	if (!error && line->first)
		error = command(line, line->first);
	if (!error)
		error = prepare_all(line, marks);
	if (!error)
		error = prepare_all(line, line->statements);
	if (!error)
		error = postgres_link_pipeline(&line->link);
	return error;
}

int line_open(struct line *line)
{
	line->sent = 0;
	postgres_args_clear(&line->args);
	int error = postgres_link_open(&line->link, &line->text);
	if (error)
		return error;
	postgres_link_limit(&line->link, line->link.options.connect_ms);
	error = set_up(line);
	if (error)
		line_close(line);
	return error;
}

void line_close(struct line *line)
{
	postgres_link_close(&line->link);
}

void line_free(struct line *line)
{
	line_close(line);
	postgres_args_free(&line->args);
}

bool line_is_open(const struct line *line)
{
	return line->link.conn != NULL;
}

/* ---- a transaction ---- */

/* What cannot be sent is noticed when its answer is waited for. */
static void send_failed(struct line *line)
{
	error_fill(&line->text, 0, "the connection is lost");
	line_close(line);
}

static void send_plain(struct line *line, const char *sql)
{
	if (line_is_open(line) && !postgres_send(&line->link, sql))
		send_failed(line);
	line->sent++;
}

void line_begin_bare(struct line *line)
{
	CHECK(line->sent == 0);
	line->batch++;
	line->state[0] = '\0';
	line->text.text[0] = '\0';
}

uint64_t line_first(const struct line *line)
{
	CHECK(line->mark < 0);
	return (uint64_t)(-1 - line->mark);
}

void line_begin(struct line *line)
{
	line_begin_bare(line);
	send_plain(line, "BEGIN");
	postgres_args_u64(&line->args, line->node);
	postgres_args_u64(&line->args, line->number);
	postgres_args_u64(&line->args, line->batch);
	postgres_args_u64(&line->args, (uint64_t)line->mark);
	line_send(line, "mark");
}

void line_send(struct line *line, const char *name)
{
	if (line_is_open(line) && !postgres_send_prepared(&line->link, name, &line->args))
		send_failed(line);
	postgres_args_clear(&line->args);
	line->sent++;
}

void line_commit(struct line *line)
{
	send_plain(line, "COMMIT");
}

void line_sync(struct line *line)
{
	if (line_is_open(line) && !postgres_send_sync(&line->link))
		send_failed(line);
	postgres_link_limit(&line->link, line->limit_ms);
}

static int take(struct line *line, struct postgres_answer *answer,
                int (*how)(struct postgres_link *link, struct postgres_answer *answer))
{
	CHECK(line->sent > 0);
	line->sent--;
	if (!line_is_open(line))
		return -ECONNRESET;
	int error = how(&line->link, answer);
	if (error < 0 && line->state[0] == '\0')
		keep_text(line, answer, error);
	return error;
}

int line_take(struct line *line, struct postgres_answer *answer)
{
	return take(line, answer, postgres_take);
}

int line_take_commit(struct line *line)
{
	struct postgres_answer answer = { 0 };
	int error = take(line, &answer, postgres_take_commit);
	postgres_answer_free(&answer);
	return error;
}

void line_committed(struct line *line)
{
	line->mark = (int64_t)line->batch;
}

int line_take_nothing(struct line *line)
{
	struct postgres_answer answer = { 0 };
	int error = line_take(line, &answer);
	postgres_answer_free(&answer);
	return error;
}

int line_take_sync(struct line *line)
{
	CHECK(line->sent == 0);
	return line_is_open(line) ? postgres_take_sync(&line->link) : -ECONNRESET;
}

int line_query(struct line *line, const char *name, struct postgres_answer *answer)
{
	line->state[0] = '\0';
	line_send(line, name);
	line_sync(line);
	int error = line_take(line, answer);
	int synced = error == 0 || error == -EPROTO ? line_take_sync(line) : error;
	if (synced)
		line_close(line);
	return error ? error : synced;
}

bool line_divided(const struct line *line)
{
	return strcmp(line->state, DIVISION_BY_ZERO) == 0;
}

bool line_lost_tables(const struct line *line)
{
	/* No row of this line; no table, schema, function. */
	static const char *const states[] = { DIVISION_BY_ZERO, SCHEMA_UNDEFINED_TABLE, "3F000",
		                              "42883" };
	for (size_t i = 0; i < ARRAY_LEN(states); i++)
		if (strcmp(line->state, states[i]) == 0)
			return true;
	return false;
}

int line_rollback(struct line *line)
{
	int error = line_is_open(line) ? postgres_rollback(&line->link) : -ECONNRESET;
	/* A number may have been on its way when the transaction was stopped. */
	if (!error && (!postgres_send(&line->link, "SELECT pg_advisory_unlock_all()") ||
	               !postgres_send_sync(&line->link)))
		error = -ECONNRESET;
	struct postgres_answer answer = { 0 };
	if (!error)
		error = postgres_take(&line->link, &answer);
	postgres_answer_free(&answer);
	if (!error)
		error = postgres_take_sync(&line->link);
	if (error)
		line_close(line);
	return error;
}

/* ---- what came of it ---- */

static int64_t number_of(struct span text)
{
	char digits[TEXT_U64_MAX + 2];
	snprintf(digits, sizeof(digits), "%.*s", (int)text.len, text.ptr);
	return strtoll(digits, NULL, 10);
}

/* No number of a transaction, nor one that was here before. */
static int64_t fence_of(const struct line *line)
{
	return INT64_MAX - (int64_t)line->batch;
}

int line_was_committed(struct line *line, bool *ret_committed)
{
	struct postgres_answer answer = { 0 };
	char sql[240];
	snprintf(sql, sizeof(sql),
	         "UPDATE stile_lines SET batch = CASE batch WHEN %" PRId64 " THEN %" PRId64
	         " ELSE batch END WHERE node = %" PRIu64 " AND line = %u RETURNING batch::text",
	         line->mark, fence_of(line), line->node, line->number);
	postgres_link_limit(&line->link, line->limit_ms);
	bool sent = postgres_send(&line->link, sql) && postgres_send_sync(&line->link);
	int error = sent ? postgres_take(&line->link, &answer) : -ECONNRESET;
	if (error < 0)
		keep_text(line, &answer, error);
	int synced = error == 0 || error == -EPROTO ? postgres_take_sync(&line->link) : 0;
	if (!error && postgres_rows(&answer) != 1)
		error = -ENOENT;
	if (!error && !synced) {
		line->mark = number_of(postgres_span(&answer, 0, 0));
		*ret_committed = line->mark != fence_of(line);
	}
	postgres_answer_free(&answer);
	if (error == -EPROTO || synced)
		error = ERR_BUSY;
	return error;
}
