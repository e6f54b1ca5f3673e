/* check: can a server be used as a store? See postgres_store.h. */
#include <string.h>

#include "base/text.h"
#include "store/postgres/address.h"
#include "store/postgres/postgres_store.h"
#include "sys/clock.h"

#define OLDEST_SERVER 140000u /* TID ranges, pipelines of 14 */
#define SKEW_MS 2000
#define CONNECTIONS_LOW 20u

/* Names and values, all as text. */
static const char settings_sql[] =
	"SELECT name, reset_val FROM pg_settings WHERE name IN ('server_version_num',"
	" 'synchronous_commit', 'fsync', 'full_page_writes', 'max_connections',"
	" 'server_encoding', 'autovacuum', 'default_transaction_read_only')"
	" UNION ALL SELECT 'recovery', pg_is_in_recovery()::text"
	" UNION ALL SELECT 'standbys', current_setting('synchronous_standby_names')"
	" UNION ALL SELECT 'clock', ((extract(epoch FROM clock_timestamp()) * 1000)::bigint)::text"
	" UNION ALL SELECT 'connections', (SELECT count(*)::text FROM pg_stat_activity"
	" WHERE backend_type = 'client backend')";

static const char rights_sql[] =
	"SELECT c.relname FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace"
	" AND c.relname LIKE 'stile\\_%' AND ((c.relkind = 'r' AND NOT has_table_privilege("
	"c.oid, 'SELECT') OR c.relkind = 'r' AND c.relname <> 'stile_meta' AND NOT"
	" (has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE')"
	" AND has_table_privilege(c.oid, 'DELETE'))) OR (c.relkind = 'S' AND NOT"
	" has_sequence_privilege(c.oid, 'USAGE, UPDATE')))";

struct check {
	struct postgres_link link;
	struct postgres_answer answer;
	void (*tell)(void *user, const struct postgres_finding *finding);
	void *user;
};

/* "" if there is none. */
static struct span value_of(const struct check *check, const char *name)
{
	for (uint32_t i = 0; i < postgres_rows(&check->answer); i++)
		if (span_eq(postgres_span(&check->answer, i, 0), span_str(name)))
			return postgres_span(&check->answer, i, 1);
	return SPAN("");
}

static uint64_t number_of(const struct check *check, const char *name)
{
	uint64_t value = 0;
	return text_parse_u64(value_of(check, name), &value) == 0 ? value : 0;
}

static bool is(const struct check *check, const char *name, const char *value)
{
	return span_eq(value_of(check, name), span_str(value));
}

static void tell(const struct check *check, enum postgres_finding_level level, const char *name,
                 const char *text)
{
	struct postgres_finding finding = { .level = level, .name = name };
	error_fill(&finding.text, 0, "%s", text);
	check->tell(check->user, &finding);
}

static void check_server(const struct check *check)
{
	uint64_t version = number_of(check, "server_version_num");
	struct postgres_finding finding = { .level = version >= OLDEST_SERVER ? POSTGRES_FINE
		                                                              : POSTGRES_ERROR,
		                            .name = "server" };
	error_fill(&finding.text, 0, "PostgreSQL %u.%u%s", (unsigned)(version / 10000),
	           (unsigned)(version % 10000),
	           version >= OLDEST_SERVER ? "" : "; version 14 or later is required");
	check->tell(check->user, &finding);
	bool standby = is(check, "recovery", "true") ||
	               is(check, "default_transaction_read_only", "on");
	tell(check, standby ? POSTGRES_ERROR : POSTGRES_FINE, "writable",
	     standby ? "the server is a standby or read-only; with target_session_attrs=read-write "
	               "in the URL the server that accepts writes is used"
	             : "the server accepts writes");
}

/* Settings that have one good value. */
static const struct setting {
	const char *name, *good;
	enum postgres_finding_level level; /* of another value */
	const char *text;
} plain_settings[] = {
	{ "fsync", "on", POSTGRES_ERROR,
	  "off: a power loss may damage the database; set it to on" },
	{ "full_page_writes", "on", POSTGRES_WARNING,
	  "off: safe only if the disk writes pages atomically" },
	{ "autovacuum", "on", POSTGRES_WARNING, "off: the tables grow with every closed ticket" },
	{ "server_encoding", "UTF8", POSTGRES_WARNING,
	  "not UTF8: stile stores bytes and works, psql may not show them" },
};

static void check_settings(const struct check *check)
{
	for (size_t i = 0; i < ARRAY_LEN(plain_settings); i++) {
		const struct setting *setting = &plain_settings[i];
		bool good = is(check, setting->name, setting->good);
		tell(check, good ? POSTGRES_FINE : setting->level, setting->name,
		     good ? setting->good : setting->text);
	}
}

static void check_durability(const struct check *check)
{
	bool off = is(check, "synchronous_commit", "off");
	bool local = is(check, "synchronous_commit", "local");
	bool standbys = value_of(check, "standbys").len > 0;
	tell(check,
	     off                 ? POSTGRES_ERROR
	     : local && standbys ? POSTGRES_WARNING
	                         : POSTGRES_FINE,
	     "synchronous_commit",
	     off ? "off: acknowledged events are lost when the server crashes; set it to on"
	     : local && standbys ? "local: a failover to a standby loses acknowledged events"
	                         : "commits are durable before they are acknowledged");
	if (!standbys)
		tell(check, POSTGRES_WARNING, "synchronous_standby_names",
		     "empty: if the server's disk is lost, or a standby takes over, the last "
		     "commits are lost");
}

static void check_limits(const struct check *check)
{
	uint64_t most = number_of(check, "max_connections");
	uint64_t used = number_of(check, "connections");
	bool tight = most < used + CONNECTIONS_LOW / 2 || most < CONNECTIONS_LOW;
	tell(check, tight ? POSTGRES_WARNING : POSTGRES_FINE, "max_connections",
	     tight ? "few connections are left; each node uses two, and one more at start"
	           : "enough for the two connections of each node");
}

static void check_clock(const struct check *check)
{
	int64_t skew_ms = (int64_t)(number_of(check, "clock") - clock_read(clock_system()).wall_ms);
	bool far = skew_ms > SKEW_MS || skew_ms < -SKEW_MS;
	struct postgres_finding finding = { .level = far ? POSTGRES_WARNING : POSTGRES_FINE,
		                            .name = "clock" };
	error_fill(&finding.text, 0, "the server is %lld ms ahead of this machine%s",
	           (long long)skew_ms, far ? "; stile uses the server's time" : "");
	check->tell(check->user, &finding);
}

static int check_tables(struct check *check, struct error_text *ret_text)
{
	struct error_text text = { "" };
	int error = schema_expect(&check->link, &text);
	if (error == ERR_AWAY)
		return error_fill(ret_text, error, "%s", text.text);
	tell(check, error ? POSTGRES_ERROR : POSTGRES_FINE, "tables",
	     error ? text.text : "the tables have the version of this stile");
	if (error)
		return 0;
	error = postgres_command(&check->link, rights_sql, &check->answer);
	if (error)
		return error_fill(ret_text, ERR_AWAY, "%s", check->answer.text.text);
	bool all = postgres_rows(&check->answer) == 0;
	tell(check, all ? POSTGRES_FINE : POSTGRES_ERROR, "rights",
	     all ? "the user may read and write all tables"
	         : "the user lacks rights on some tables: GRANT SELECT, INSERT, UPDATE, "
	           "DELETE ON ALL TABLES, USAGE, UPDATE ON ALL SEQUENCES IN the schema");
	return 0;
}

static int check_all(struct check *check, struct error_text *ret_text)
{
	int error = postgres_command(&check->link, settings_sql, &check->answer);
	if (error)
		return error_fill(ret_text, ERR_AWAY, "%s", check->answer.text.text);
	check_server(check);
	check_durability(check);
	check_settings(check);
	check_limits(check);
	check_clock(check);
	return check_tables(check, ret_text);
}

int postgres_store_check(const char *url,
                         void (*tell_one)(void *user, const struct postgres_finding *finding),
                         void *user, struct error_text *ret_text)
{
	struct check check = { .tell = tell_one, .user = user };
	struct address address;
	int error = address_read(url, &address, ret_text);
	if (error)
		return error;
	error = address_connect(&address, &check.link, ret_text);
	if (!error) {
		error = check_all(&check, ret_text);
		postgres_answer_free(&check.answer);
		postgres_link_close(&check.link);
	}
	address_free(&address);
	return error;
}
