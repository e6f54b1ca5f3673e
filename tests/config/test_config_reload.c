/*
 * Every option of the table: a file that changes it alone is told from the file before,
 * under its name and as a reload or a restart, as the manual says. Both files are read as
 * a gateway reads them, so what is inherited, derived or joined is compared, too.
 *
 * An option for which no changed value is known here fails the test.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "config/config_internal.h"
#include "support/test.h"

#define TEXT_MAX 1024
#define HTTP "http: \"http://1.2.3.4/\", "
#define STILE "stile: \"http://1.2.3.4/in/a\", "
#define FILE_SINK "file: /tmp/stile-out, "
#define POSTGRES "postgres: \"postgresql://u@192.0.2.1/d\", "
#define KEY16 "0123456789abcdef"

/* What an option needs beside it: all of its section, with %s for its value. Values that
 * are NULL are those of its kind. */
static const struct special {
	const char *path, *section, *old, *new;
} specials[] = {
	{ "tls.cert", "tls: { cert: %s, key: a.pem }", "a.pem", "b.pem" },
	{ "tls.key", "tls: { cert: a.pem, key: %s }", "a.pem", "b.pem" },
	{ "tls.client_ca", "tls: { cert: a.pem, key: a.pem, client_ca: %s }", "a.pem", "b.pem" },
	{ "store.url", NULL, "redis://192.0.2.1", "redis://192.0.2.2" },
	{ "store.password", "store: { url: \"redis://192.0.2.1\", password: %s }", NULL, NULL },
	{ "sources", "%s", "sources: { x: { preset: auto } }", "sources: { y: { preset: auto } }" },
	{ "sources.*.preset", "preset: %s", "genesys", "stripe" },
	{ "sources.*.store_away", "preset: auto, store_away: %s", NULL, NULL },
	{ "sources.*.wait", "preset: auto, ack: delivered, wait: %s", NULL, NULL },
	{ "sources.*.claims", "claims: %s", "[ { once: a } ]", "[ { once: a }, { once: b } ]" },
	{ "sources.*.recipes", "recipes: %s", "[ { claims: [ { once: a } ] } ]",
	  "[ { when: { a: b }, claims: [ { once: a } ] }, { claims: [ { once: a } ] } ]" },
	{ "sources.*.recipes[].claims", "claims: %s", "[ { once: a } ]",
	  "[ { once: a, window: 1h } ]" },
	{ "sources.*.claims[].once", "once: %s", NULL, NULL },
	{ "sources.*.claims[].content", "%s", "content: [ a ]", "once: [ a ]" },
	{ "sources.*.claims[].newest.entity", "newest: { time: at, entity: %s }", NULL, NULL },
	{ "sources.*.claims[].newest.time", "newest: { entity: a, time: %s }", NULL, NULL },
	{ "sources.*.claims[].newest.equal", "newest: { entity: a, time: t, equal: %s }", NULL,
	  NULL },
	{ "sources.*.claims[].newest.rank.part",
	  "newest: { entity: a, time: t, rank: { order: [ on, off ], part: %s } }", NULL, NULL },
	{ "sources.*.claims[].newest.rank.order",
	  "newest: { entity: a, time: t, rank: { part: s, order: %s } }", "[ on, off ]",
	  "[ off, on ]" },
	{ "*.auth.kind", "auth: { secret: 0123456789abcdef, kind: %s }", "github", "shopify" },
	{ "*.auth.header", "auth: { secret: 0123456789abcdef, header: %s }", NULL, NULL },
	{ "*.auth.user", "auth: { secret: 0123456789abcdef, user: %s }", NULL, NULL },
	{ "*.auth.secret", "auth: { kind: bearer, secret: %s }", NULL, NULL },
	{ "*.auth.names", "auth: { kind: certificate, names: %s }", NULL, NULL },
	{ "*.auth.networks", "auth: { networks: %s }", NULL, NULL },
	{ "*.auth.public_url", "auth: { kind: twilio, secret: 0123456789abcdef, public_url: %s }",
	  "https://a.example.com", "https://b.example.com" },
	{ "*.auth.signed",
	  "auth: { kind: hmac, header: X-S, secret: 0123456789abcdef, signed: %s }", "body",
	  "[ method, body ]" },
	{ "*.auth.timestamp",
	  "auth: { kind: hmac, header: X-S, secret: 0123456789abcdef, "
	  "signed: [ \"header:X-T\", \"header:X-U\", body ], timestamp: %s }",
	  "\"header:X-T\"", "\"header:X-U\"" },
	{ "*.auth.*", "auth: { kind: hmac, header: X-S, secret: 0123456789abcdef, %s }", NULL,
	  NULL },
	{ "sinks", "%s", "sinks: { x: stdout }", "sinks: { y: stdout }" },
	{ "sinks.*.stdout", "stdout: %s", NULL, NULL },
	{ "sinks.*.http", "http: %s", NULL, NULL },
	{ "sinks.*.stile", "stile: %s", "\"http://1.2.3.4/in/a\"", "\"http://1.2.3.4/in/b\"" },
	{ "sinks.*.file", "file: %s", "/tmp/one", "/tmp/two" },
	{ "sinks.*.postgres", "postgres: %s", "\"postgresql://u@192.0.2.1/d\"",
	  "\"postgresql://u@192.0.2.1/e\"" },
	{ "sinks.*.statement", POSTGRES "statement: %s", "\"CALL a({id})\"", "\"CALL b({id})\"" },
	{ "sinks.*.key", POSTGRES "key: %s", "\"a-{ticket}\"", "\"b-{ticket}\"" },
	{ "sinks.*.rotate.keep", FILE_SINK "rotate: { size: 1MiB, keep: %s }", NULL, NULL },
	{ "sinks.*.body", HTTP "body: %s", "\"[1]\"", "\"[2]\"" },
	{ "sinks.*.body_form", HTTP "body: \"{id}\", body_form: %s", NULL, NULL },
	{ "sinks.*.batch_events", HTTP "batch: ndjson, batch_events: %s", NULL, NULL },
	{ "sinks.*.batch_size", HTTP "batch: ndjson, batch_size: %s", NULL, NULL },
	{ "sinks.*.connect_timeout", HTTP "connect_timeout: %s", "5s", "6s" },
	{ "sinks.*.timeout", HTTP "timeout: %s", "15s", "16s" },
	{ "sinks.*.sign", HTTP "sign: %s", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3",
	  "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY4" },
	{ "sinks.*.tls.ca", HTTP "tls: { ca: %s }", "a.pem", "b.pem" },
	{ "sinks.*.tls.cert", HTTP "tls: { key: a.pem, cert: %s }", "a.pem", "b.pem" },
	{ "sinks.*.tls.key", HTTP "tls: { cert: a.pem, key: %s }", "a.pem", "b.pem" },
	{ "sinks.*.tls.name", "http: \"https://1.2.3.4/\", tls: { name: %s }", NULL, NULL },
	{ "sinks.*.retry.max", HTTP "retry: { max: %s }", "2s", "3s" },
	{ "sinks.*.retry.on", HTTP "retry: { on: %s }", "[ 429 ]", "[ 429, 503 ]" },
	{ "sinks.*.breaker.open_max", HTTP "breaker: { open_max: %s }", "2s", "3s" },
	{ "sinks.*.on_unknown", HTTP "on_unknown: %s", "retry", "park" },
	{ "sinks.*.probe", HTTP "on_unknown: probe, probe: %s", NULL, NULL },
	{ "sinks.*.burst", HTTP "rate: 100/s, burst: %s", NULL, NULL },
	{ "sinks.*.order.attempts", HTTP "order: { stuck: aside, attempts: %s }", NULL, NULL },
	{ "sinks.*.order.for", HTTP "order: { stuck: aside, for: %s }", NULL, NULL },
	{ "sinks.*.dead_letter", HTTP "dead_letter: %s", "other", "another" },
	{ "routes", "%s", "routes: [ { to: out } ]", "routes: [ { to: out }, { to: out } ]" },
	{ "routes[].from", "to: out, from: %s", "[ in ]", "[ in, events ]" },
	{ "routes[].to", "to: %s", "[ out ]", "[ out, other ]" },
};

static bool is_for(const struct special *special, const char *path)
{
	const char *auth = strstr(path, ".auth.");
	if (special->path[0] != '*')
		return strcmp(special->path, path) == 0;
	return auth &&
	       (strcmp(special->path, "*.auth.*") == 0 || strcmp(special->path + 1, auth) == 0);
}

static struct special special_of(const struct config_option *row)
{
	for (size_t i = 0; i < ARRAY_LEN(specials); i++)
		if (is_for(&specials[i], row->path))
			return specials[i];
	return (struct special){ .path = row->path };
}

/* ---- values ---- */

struct values {
	char old[128], new[128];
};

static void set(struct values *values, const char *old, const char *new)
{
	snprintf(values->old, sizeof(values->old), "%s", old);
	snprintf(values->new, sizeof(values->new), "%s", new);
}

static void set_numbers(struct values *values, uint64_t least, uint64_t step, const char *unit)
{
	uint64_t first = least > 0 ? least : step;
	snprintf(values->old, sizeof(values->old), "%llu%s", (unsigned long long)first, unit);
	snprintf(values->new, sizeof(values->new), "%llu%s", (unsigned long long)(first + step),
	         unit);
}

static void set_words(struct values *values, const char *choices)
{
	size_t len = strcspn(choices, "|");
	snprintf(values->old, sizeof(values->old), "%.*s", (int)len, choices);
	choices += len + 1;
	snprintf(values->new, sizeof(values->new), "%.*s", (int)strcspn(choices, "|"), choices);
}

static void flag_values(const struct option *flag, struct values *values)
{
	switch (flag->kind) {
	case OPTION_TEXT: set(values, "one", "two"); return;
	case OPTION_COUNT: set_numbers(values, flag->min, 1, ""); return;
	case OPTION_SIZE: set_numbers(values, flag->min, 1024, "B"); return;
	case OPTION_DURATION: set_numbers(values, flag->min, 1000, "ms"); return;
	case OPTION_CHOICE: set_words(values, flag->choices); return;
	case OPTION_ADDRESS:
	case OPTION_LISTEN:
	case OPTION_UNIX: set(values, "127.0.0.1:1", "127.0.0.1:2"); return;
	case OPTION_FLAG:
	case OPTION_TEXTS: break;
	}
	fail_msg("no value for --%s", flag->name);
}

static void values_of(const struct config_option *row, struct values *values)
{
	switch (row->kind) {
	case CONFIG_FLAG: flag_values(config_option_flag(row), values); return;
	case CONFIG_TEXT:
	case CONFIG_STRING:
	case CONFIG_PART: set(values, "one", "two"); return;
	case CONFIG_CHOICE: set_words(values, row->choices); return;
	case CONFIG_SECONDS:
	case CONFIG_MS: set_numbers(values, row->min, 1000, "ms"); return;
	case CONFIG_COUNT: set_numbers(values, row->min, 1, ""); return;
	case CONFIG_SIZE: set_numbers(values, row->min, 1024, "B"); return;
	case CONFIG_PATH: set(values, "/one", "/two"); return;
	case CONFIG_PARTS:
	case CONFIG_TEXTS: set(values, "[ one ]", "[ one, two ]"); return;
	case CONFIG_SECRET:
	case CONFIG_SECRETS: set(values, KEY16 "0", KEY16 "1"); return;
	case CONFIG_NETWORKS: set(values, "192.0.2.0/24", "192.0.2.0/25"); return;
	case CONFIG_WHEN: set(values, "{ a: b }", "{ a: \"!b\" }"); return;
	case CONFIG_RATE: set(values, "1/s", "1/m"); return;
	case CONFIG_HEADERS: set(values, "{ X-A: b }", "{ X-A: c }"); return;
	case CONFIG_URL: set(values, "\"http://1.2.3.4/one\"", "\"http://1.2.3.4/two\""); return;
	case CONFIG_PRESET:
	case CONFIG_CONTENT:
	case CONFIG_STORE_URL:
	case CONFIG_NAMED:
	case CONFIG_LIST:
	case CONFIG_SECTION: break;
	}
	fail_msg("no value for %s", row->path);
}

/* ---- files ---- */

static const char *const sections[] = { "sources.*.claims[].", "sources.*.recipes[].", "sources.*.",
	                                "sinks.*.", "routes[]." };

/* "a.b.c" and a value become "a: { b: { c: value } }". */
static void nest(const char *path, const char *value, char *out, size_t room)
{
	const char *dot = strchr(path, '.');
	if (dot) {
		char inner[TEXT_MAX];
		nest(dot + 1, value, inner, sizeof(inner));
		int len = snprintf(out, room, "%.*s: { %s }", (int)(dot - path), path, inner);
		assert_true(len > 0 && (size_t)len < room);
	} else {
		snprintf(out, room, "%s: %s", path, value);
	}
}

static const char *sink_before(const char *path)
{
	const char *name = path + strlen("sinks.*.");
	const struct config_option *row = config_option_find("sinks.*",
	                                                     span_of(name, strcspn(name, ".")));
	if (row->sinks == 0 || row->sinks & CONFIG_OF_HTTP)
		return HTTP;
	if (row->sinks & CONFIG_OF_FILE)
		return FILE_SINK;
	return row->sinks & CONFIG_OF_POSTGRES ? POSTGRES : STILE;
}

/* What a section needs at least. */
static const char *before(const struct config_option *row, size_t section)
{
	const char *name = strrchr(row->path, '.') + 1;
	switch (section) {
	case 0: return "once: a, ";
	case 1: return "claims: [ { once: a } ], ";
	case 2:
		return strstr("id type entity time content correlation", name)
		               ? "claims: [ { once: a } ], "
		               : "preset: auto, ";
	case 3: return sink_before(row->path);
	default: return "to: out, ";
	}
}

static void put_replaced(const char *section, const char *value, char *out, size_t room)
{
	const char *mark = strstr(section, "%s");
	assert_non_null(mark);
	snprintf(out, room, "%.*s%s%s", (int)(mark - section), section, value, mark + 2);
}

/* `value` is that of the row; all else is the same in both files. */
static void write_file(const struct config_option *row, const struct special *special,
                       const char *value, char *out, size_t room)
{
	static const char *const around[] = {
		"sources: { x: { claims: [ { %s } ] } }",
		"sources: { x: { recipes: [ { %s } ] } }",
		"sources: { x: { %s } }",
		"sinks: { x: { %s }, other: { file: /tmp/other }, another: { file: /tmp/another } }",
		("sources: { in: { preset: auto }, events: { preset: auto } }\n"
		 "sinks: { out: stdout, other: { file: /tmp/other } }\nroutes: [ { %s } ]"),
	};
	char own[2 * TEXT_MAX], inner[TEXT_MAX];
	size_t at = 0;
	while (at < ARRAY_LEN(sections) &&
	       strncmp(row->path, sections[at], strlen(sections[at])) != 0)
		at++;
	size_t skip = at < ARRAY_LEN(sections) ? strlen(sections[at]) : 0;
	const char *name = row->path + skip;
	bool auth = special->path[0] == '*';
	const char *last = strrchr(row->path, '.');
	nest(auth ? last + 1 : name, value, own, TEXT_MAX);
	if (special->section)
		put_replaced(special->section, strcmp(special->path, "*.auth.*") == 0 ? own : value,
		             inner, sizeof(inner));
	else
		snprintf(inner, sizeof(inner), "%.*s", TEXT_MAX - 1, own);
	if (at == ARRAY_LEN(sections)) {
		snprintf(own, sizeof(own), "%s", inner);
		if (auth)
			put_replaced("claims: { %s }", inner, own, sizeof(own));
		snprintf(out, room, "%s%s\n", own,
		         strncmp(row->path, "routes", 6) == 0 ? "\nsinks: { out: stdout }" : "");
		return;
	}
	bool whole = special->section && !auth;
	snprintf(own, sizeof(own), "%s%s", whole ? "" : before(row, at), inner);
	put_replaced(around[at], own, out, room);
}

static struct config *load(const struct config_option *row, const char *text)
{
	static char ca[] = "--tls-client-ca=a.pem", cert[] = "--tls-cert=a.pem",
		    key[] = "--tls-key=a.pem";
	char *flags[] = { ca, cert, key };
	struct span bytes = span_str(text);
	struct config_input input = { .path = "test.yaml",
		                      .text = &bytes,
		                      .flag_count = strstr(text, "kind: certificate") ? 3 : 0,
		                      .flags = flags };
	struct config *config = NULL;
	struct config_report report;
	if (config_load(&input, &config, &report) != 0) {
		config_report_print(&report, stderr);
		fail_msg("%s: not a configuration:\n%s", row->path, text);
	}
	config_report_free(&report);
	return config;
}

/* ---- what is said ---- */

static void assert_noticed(const struct config_option *row, const struct config_diff *diff)
{
	const char *name = row->path;
	char option[64] = "", changed[64] = "";
	if (strncmp(name, "routes", 6) == 0) {
		snprintf(option, sizeof(option), "routes");
	} else if (strstr(name, ".*.")) {
		size_t kind = strcspn(name, ".");
		snprintf(option, sizeof(option), "%.*s.x", (int)kind, name);
		name += kind + 3;
		snprintf(changed, sizeof(changed), "%.*s", (int)strcspn(name, "["), name);
	} else {
		snprintf(option, sizeof(option), "%s%s", name,
		         row->kind == CONFIG_NAMED ? ".y" : "");
	}
	for (uint32_t i = 0; i < diff->count; i++) {
		const struct config_change *change = &diff->changes[i];
		if (strcmp(change->option, option) != 0 || !strstr(change->text, changed))
			continue;
		assert_int_equal(change->reloads, config_option_reloads(row));
		return;
	}
	fail_msg("%s: a reload does not notice that it changed (%s%s)", row->path,
	         diff->count > 0 ? "only: " : "nothing did",
	         diff->count > 0 ? diff->changes[0].option : "");
}

static void a_reload_notices_every_option(void **state)
{
	(void)state;
	const struct config_option *row;
	uint32_t count = 0;
	for (size_t i = 0; (row = config_table_row(i)); i++) {
		char old_text[4 * TEXT_MAX], new_text[4 * TEXT_MAX];
		struct config_diff diff;
		struct values values;
		if (row->kind == CONFIG_SECTION)
			continue; /* has no value but those below it */
		struct special special = special_of(row);
		if (special.old)
			set(&values, special.old, special.new);
		else
			values_of(row, &values);
		write_file(row, &special, values.old, old_text, sizeof(old_text));
		write_file(row, &special, values.new, new_text, sizeof(new_text));
		struct config *old = load(row, old_text), *same = load(row, old_text);
		struct config *new = load(row, new_text);
		assert_int_equal(config_diff(&(struct config_states){ old, old, same }, &diff), 0);
		if (diff.count > 0)
			fail_msg("%s: the same file is a change of %s", row->path,
			         diff.changes[0].option);
		config_diff_free(&diff);
		assert_int_equal(config_diff(&(struct config_states){ old, old, new }, &diff), 0);
		assert_noticed(row, &diff);
		config_diff_free(&diff);
		config_free(old);
		config_free(same);
		config_free(new);
		count++;
	}
	assert_true(count > 150);
}

static int make_folder(void **state)
{
	static char folder[256];
	static const char *const names[] = { "a.pem", "b.pem" };
	test_dir_make(folder);
	if (chdir(folder) != 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		FILE *file = fopen(names[i], "w");
		if (!file)
			return -1;
		fputs("-----BEGIN CERTIFICATE-----\n", file);
		fclose(file);
	}
	*state = folder;
	return 0;
}

static int remove_folder(void **state)
{
	test_dir_remove(*state);
	return chdir("/");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_reload_notices_every_option) };
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
