/* schema: see schema.h. */
#include "store/postgres/schema.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"

/* Class of advisory locks. Creating or migrating a schema locks the hash of its name. */
#define LOCK_CLASS "1937009004"

/*
 * stile_number() gives `wanted` consecutive numbers, and the time. The lock makes reading and
 * advancing the sequence one step; a sequence does not roll back, so nobody waits for a
 * commit. The time is never before that of the last ticket.
 */
static const char version_1[] =
	"CREATE TABLE stile_meta (one boolean PRIMARY KEY DEFAULT true CHECK (one),"
	" version integer NOT NULL, key bytea NOT NULL, made timestamptz NOT NULL DEFAULT now());"
	"CREATE SEQUENCE stile_ticket MINVALUE 0 START 0;"
	"CREATE TABLE stile_claims (key uuid PRIMARY KEY, ticket bigint NOT NULL,"
	" expiry bigint NOT NULL, ord bigint NOT NULL, chk bigint NOT NULL);"
	"CREATE TABLE stile_seen (event bigint PRIMARY KEY, seen bigint NOT NULL,"
	" expiry bigint NOT NULL);"
	"CREATE TABLE stile_events (event bigint PRIMARY KEY, flags integer NOT NULL,"
	" source bytea NOT NULL, letter bytea NOT NULL, payload bytea NOT NULL);"
	"CREATE TABLE stile_tickets (ticket bigint PRIMARY KEY, event bigint NOT NULL,"
	" sink bigint NOT NULL, ord bigint NOT NULL, due bigint NOT NULL, lease bigint NOT NULL,"
	" node bigint NOT NULL, stamp bigint NOT NULL, len bigint NOT NULL,"
	" attempt integer NOT NULL, used integer NOT NULL, status integer NOT NULL,"
	" state smallint NOT NULL, last smallint NOT NULL);"
	"CREATE INDEX stile_tickets_due ON stile_tickets (sink, ticket) WHERE state = 1;"
	"CREATE INDEX stile_tickets_leased ON stile_tickets (lease, node) WHERE state = 2;"
	"CREATE INDEX stile_tickets_held ON stile_tickets (ticket) WHERE state = 3;"
	"CREATE INDEX stile_tickets_old ON stile_tickets (state, due) WHERE state >= 5;"
	"CREATE TABLE stile_notes (ticket bigint, id bigint GENERATED ALWAYS AS IDENTITY,"
	" at bigint NOT NULL, due bigint NOT NULL, attempt integer NOT NULL,"
	" mark smallint NOT NULL, status integer NOT NULL, text bytea NOT NULL,"
	" PRIMARY KEY (ticket, id));"
	"CREATE TABLE stile_drops (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
	" event bigint NOT NULL, at bigint NOT NULL);"
	"CREATE INDEX stile_drops_event ON stile_drops (event);"
	"CREATE TABLE stile_cells (key uuid PRIMARY KEY, expiry bigint NOT NULL,"
	" name bytea NOT NULL, value bytea NOT NULL);"
	"CREATE TABLE stile_nodes (node bigint PRIMARY KEY, beat bigint NOT NULL);"
	"CREATE TABLE stile_lines (node bigint, line integer, batch bigint NOT NULL,"
	" PRIMARY KEY (node, line));"
	/* Rows of tickets come and go; those of lines change with every transaction. */
	"ALTER TABLE stile_tickets SET (autovacuum_vacuum_scale_factor = 0.05);"
	"ALTER TABLE stile_events SET (autovacuum_vacuum_scale_factor = 0.05);"
	"ALTER TABLE stile_claims SET (autovacuum_vacuum_scale_factor = 0.05);"
	"ALTER TABLE stile_lines SET (fillfactor = 20);"
	"ALTER TABLE stile_nodes SET (fillfactor = 20);"
	"CREATE FUNCTION stile_clock() RETURNS bigint LANGUAGE sql VOLATILE AS"
	" $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;"
	"CREATE FUNCTION stile_now(test_clock bigint) RETURNS bigint LANGUAGE sql VOLATILE AS"
	" $$ SELECT greatest(CASE WHEN test_clock > 0 THEN test_clock ELSE stile_clock() END,"
	" (SELECT (last_value >> 14) + 1704067200000 FROM stile_ticket)) $$;"
	"CREATE FUNCTION stile_number(wanted bigint, test_clock bigint,"
	" OUT first bigint, OUT now bigint) LANGUAGE plpgsql VOLATILE AS $$"
	"DECLARE last bigint; lock_key integer := 'stile_ticket'::regclass::oid::bigint::bit(32)::integer;"
	"BEGIN"
	" PERFORM pg_advisory_lock(" LOCK_CLASS ", lock_key);"
	" SELECT s.last_value INTO last FROM stile_ticket s;"
	" now := greatest(CASE WHEN test_clock > 0 THEN test_clock ELSE stile_clock() END,"
	"  (last >> 14) + 1704067200000);"
	" first := greatest(last + 1, (now - 1704067200000) << 14);"
	" IF wanted > 0 THEN PERFORM setval('stile_ticket', first + wanted - 1); END IF;"
	" PERFORM pg_advisory_unlock(" LOCK_CLASS ", lock_key);"
	"END $$;"
	/* Returns the unused ones of the last numbers, unless others were given since. */
	"CREATE FUNCTION stile_give_back(last_given bigint, last_used bigint) RETURNS void"
	" LANGUAGE plpgsql VOLATILE AS $$"
	"DECLARE last bigint; lock_key integer := 'stile_ticket'::regclass::oid::bigint::bit(32)::integer;"
	"BEGIN"
	" PERFORM pg_advisory_lock(" LOCK_CLASS ", lock_key);"
	" SELECT s.last_value INTO last FROM stile_ticket s;"
	" IF last = last_given THEN PERFORM setval('stile_ticket', last_used); END IF;"
	" PERFORM pg_advisory_unlock(" LOCK_CLASS ", lock_key);"
	"END $$;"
	"INSERT INTO stile_meta (version, key) VALUES (1, substring(sha256(convert_to("
	"gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')) FROM 1 FOR 16));";

/* steps[i] migrates from version i to i + 1; the first creates the tables. */
static const char *const steps[SCHEMA_VERSION] = { version_1 };

static int say(const struct postgres_answer *answer, int error, const char *what,
               struct error_text *ret_text)
{
	return error_fill(ret_text, error == -EPROTO ? ERR_CONFIG : ERR_AWAY, "%s: %.300s", what,
	                  answer->text.text[0] ? answer->text.text : error_name(error));
}

static int run(struct postgres_link *link, const char *sql, const char *what,
               struct error_text *ret_text)
{
	struct postgres_answer answer = { 0 };
	int error = postgres_command(link, sql, &answer);
	if (error)
		error = say(&answer, error, what, ret_text);
	postgres_answer_free(&answer);
	return error;
}

int schema_choose(struct postgres_link *link, const char *schema, struct error_text *ret_text)
{
	char sql[64 + SCHEMA_NAME_MAX];
	snprintf(sql, sizeof(sql), "SET search_path = \"%s\"", schema);
	return run(link, sql, "cannot set search_path to the schema", ret_text);
}

/* 0: there are no tables. */
static int version_of(struct postgres_link *link, uint32_t *ret_version,
                      struct error_text *ret_text)
{
	struct postgres_answer answer = { 0 };
	uint64_t version = 0;
	int error = postgres_command(link, "SELECT version FROM stile_meta", &answer);
	if (error == -EPROTO && strcmp(answer.state, SCHEMA_UNDEFINED_TABLE) == 0)
		error = 0;
	else if (error)
		error = say(&answer, error, "cannot read the version of the tables", ret_text);
	else if (postgres_rows(&answer) != 1 ||
	         text_parse_u64(postgres_span(&answer, 0, 0), &version) < 0)
		error = error_fill(ret_text, ERR_DAMAGED, "stile_meta must have exactly one row");
	if (!error)
		*ret_version = (uint32_t)version;
	postgres_answer_free(&answer);
	return error;
}

int schema_expect(struct postgres_link *link, struct error_text *ret_text)
{
	uint32_t version = 0;
	int error = version_of(link, &version, ret_text);
	if (error)
		return error;
	if (version == 0)
		return error_fill(ret_text, ERR_VERSION,
		                  "the database has no tables of stile: create them with "
		                  "stile store init URL");
	if (version < SCHEMA_VERSION)
		return error_fill(ret_text, ERR_VERSION,
		                  "the tables have version %u, this stile needs %d: run stile "
		                  "store migrate URL",
		                  version, SCHEMA_VERSION);
	if (version > SCHEMA_VERSION)
		return error_fill(ret_text, ERR_VERSION,
		                  "the tables have version %u, this stile knows only %d: use "
		                  "the newer stile",
		                  version, SCHEMA_VERSION);
	return 0;
}

static int run_steps(struct postgres_link *link, uint32_t from, struct error_text *ret_text)
{
	char sql[80];
	int error = 0;
	for (uint32_t i = from; i < SCHEMA_VERSION && !error; i++)
		error = run(link, steps[i], "cannot create the tables", ret_text);
	snprintf(sql, sizeof(sql), "UPDATE stile_meta SET version = %d", SCHEMA_VERSION);
	return error ? error : run(link, sql, "cannot write the version", ret_text);
}

static int make(struct postgres_link *link, const char *schema, bool migrate,
                struct error_text *ret_text)
{
	char sql[160 + 2 * SCHEMA_NAME_MAX];
	uint32_t version = 0;
	snprintf(sql, sizeof(sql),
	         "SELECT pg_advisory_xact_lock(" LOCK_CLASS ", hashtext('%s'));"
	         "CREATE SCHEMA IF NOT EXISTS \"%s\"",
	         schema, schema);
	int error = run(link, sql, "cannot create the schema", ret_text);
	if (!error)
		error = schema_choose(link, schema, ret_text);
	/* A failed SELECT would abort the whole transaction. */
	if (!error)
		error = run(link, "SAVEPOINT looked", "cannot read the version", ret_text);
	if (!error)
		error = version_of(link, &version, ret_text);
	if (!error && version == 0)
		error = run(link, "ROLLBACK TO looked", "cannot read the version", ret_text);
	if (!error && version == 0 && migrate)
		return error_fill(ret_text, ERR_VERSION,
		                  "there are no tables to migrate: create them with stile store "
		                  "init URL");
	if (!error && version > 0 && (!migrate || version >= SCHEMA_VERSION))
		return schema_expect(link, ret_text);
	return error ? error : run_steps(link, version, ret_text);
}

int schema_make(struct postgres_link *link, const char *schema, bool migrate,
                struct error_text *ret_text)
{
	int error = run(link, "BEGIN", "cannot begin a transaction", ret_text);
	if (!error)
		error = make(link, schema, migrate, ret_text);
	if (!error)
		return run(link, "COMMIT", "cannot create the tables", ret_text);
	struct error_text ignored;
	int ended = run(link, "ROLLBACK", "", &ignored);
	(void)ended; /* report the error before it */
	return error;
}
