/* template: values in URLs, headers and JSON, and never more than values. */
#include "gate/template.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "gate/ticket.h"
#include "support/test.h"

struct setting {
	struct templates *templates;
	struct metadata metadata;
	struct template_event event;
	struct error_text text;
};

static void begin(struct setting *setting, const char *payload)
{
	memset(setting, 0, sizeof(*setting));
	assert_int_equal(templates_new(&setting->templates), 0);
	setting->metadata.texts[METADATA_TYPE] = SPAN("order/made \"x\"");
	setting->metadata.texts[METADATA_ID] = SPAN("1");
	setting->event = (struct template_event){
		.ticket = 42,
		.attempt = 3,
		.json = payload != NULL,
		.source = SPAN("shop"),
		.payload = payload ? span_str(payload) : SPAN("a\nb"),
		.metadata = &setting->metadata,
	};
}

/* What comes of a template; the text lives until the next call. NULL: an error. */
static const char *fill(const char *payload, const char *text, enum template_form form)
{
	static char out[4096];
	static char problem[ERROR_TEXT_MAX];
	struct setting setting;
	struct template_run *run = mem_alloc(sizeof(*run));
	struct buf buf = buf_on(out, sizeof(out) - 1);
	uint32_t number;
	begin(&setting, payload);
	int error = templates_add(setting.templates, span_str(text), form, &number, &setting.text);
	if (!error) {
		templates_seal(setting.templates);
		error = template_begin(run, setting.templates, &setting.event, &setting.text);
	}
	if (!error)
		error = template_put(run, number, &buf, &setting.text);
	out[buf.len] = '\0';
	memcpy(problem, setting.text.text, sizeof(problem));
	templates_free(setting.templates);
	mem_free(run);
	return error ? problem : out;
}

static void expect(const char *payload, const char *text, enum template_form form,
                   const char *wanted)
{
	assert_string_equal(fill(payload, text, form), wanted);
}

static void values_in_urls_are_one_piece(void **state)
{
	(void)state;
	expect("{}", "/a/{source}/{type}?n={attempt}", TEMPLATE_URL,
	       "/a/shop/order%2Fmade%20%22x%22?n=3");
	expect("{\"a\":{\"b\":[1,\"\\u00e4/\\u0000\"]}}", "/{$.a.b[1]}/{$.a.b[0]}", TEMPLATE_URL,
	       "/%C3%A4%2F%00/1");
	expect("{\"odd}.name\":true}", "/{$[\"odd}.name\"]}", TEMPLATE_URL, "/true");
	expect("[{\"x\":-1.50e3}]", "/{$[0].x}", TEMPLATE_URL, "/-1.50e3");
}

static void values_in_headers_end_no_line(void **state)
{
	(void)state;
	expect("{\"a\":\"x\\r\\ny: z\\t\\u0000%\\u00e4\"}", "v={$.a}", TEMPLATE_HEADER,
	       "v=x%0D%0Ay: z%09%00%25%C3%A4");
	expect("{}", "{type} { 1}", TEMPLATE_HEADER, "order/made \"x\" { 1}");
}

static void values_in_json_are_values(void **state)
{
	(void)state;
	const char *payload =
		"{\"s\":\"q\\\"\\n\",\"n\":1.0,\"o\":{\"k\":[ 1 ]},\"z\":null,\"e\":\"\"}";
	expect(payload, "{\"a\":\"{$.s}\",\"b\":{$.s}}", TEMPLATE_JSON,
	       "{\"a\":\"q\\\"\\n\",\"b\":\"q\\\"\\n\"}");
	expect(payload, "[{$.n},\"{$.n}\",{$.o},{$.z},{$.e}]", TEMPLATE_JSON,
	       "[1.0,\"1.0\",{\"k\":[ 1 ]},null,\"\"]");
	expect(payload, "[{type},\"{type}!\",{attempt},\"{attempt}\"]", TEMPLATE_JSON,
	       "[\"order/made \\\"x\\\"\",\"order/made \\\"x\\\"!\",3,\"3\"]");
	expect("{\"a\":1}", "{\"e\":{$}}", TEMPLATE_JSON, "{\"e\":{\"a\":1}}");
	expect(NULL, "{\"e\":{$}}", TEMPLATE_JSON, "{\"e\":\"a\\nb\"}");
	expect("{}", "{\"a\":\"\\u007bid} \\\"{id}\"}", TEMPLATE_JSON,
	       "{\"a\":\"\\u007bid} \\\"1\"}");
}

static void tickets_are_written_as_people_know_them(void **state)
{
	char ticket[TICKET_TEXT_LEN + 1] = "";
	(void)state;
	ticket_text(42, ticket);
	expect("{}", "{ticket}", TEMPLATE_HEADER, ticket);
	expect("{}", "{ticket}", TEMPLATE_URL, ticket);
}

static void what_is_missing_is_named(void **state)
{
	(void)state;
	expect("{}", "/{$.a.b}", TEMPLATE_URL, "{$.a.b} is missing");
	expect("{\"a\":null}", "/{$.a}", TEMPLATE_URL, "{$.a} is missing");
	expect("{\"a\":\"\"}", "/{$.a}", TEMPLATE_URL, "{$.a} is missing");
	expect("{\"a\":\"\"}", "[\"{$.a}\"]", TEMPLATE_JSON, "{$.a} is missing");
	expect("{}", "[{$.a}]", TEMPLATE_JSON, "{$.a} is missing");
	expect("{}", "/{entity}", TEMPLATE_URL, "{entity} is missing");
	expect("{\"a\":{}}", "/{$.a}", TEMPLATE_URL, "{$.a} is an object or an array");
	expect("{\"a\":[]}", "[\"{$.a}\"]", TEMPLATE_JSON, "{$.a} is an object or an array");
	expect(NULL, "/{$.a}", TEMPLATE_URL,
	       "a template wants a value of the payload, which is no JSON");
	assert_non_null(
		strstr(fill("{\"a\":1,\"a\":2}", "/{$.a}", TEMPLATE_URL), "payload at byte"));
}

static void values_have_a_limit(void **state)
{
	static char payload[3 * TEMPLATE_VALUE_MAX];
	(void)state;
	size_t len = (size_t)snprintf(payload, sizeof(payload), "{\"a\":\"");
	memset(payload + len, 'x', TEMPLATE_VALUE_MAX + 1);
	memcpy(payload + len + TEMPLATE_VALUE_MAX + 1, "\"}", 3);
	expect(payload, "/{$.a}", TEMPLATE_URL, "{$.a} is too long");
	payload[len] = '\\';
	payload[len + 1] = 'n';
	memset(payload + len + TEMPLATE_VALUE_MAX + 1, 'x', 8);
	memcpy(payload + len + TEMPLATE_VALUE_MAX + 8, "\"}", 3);
	expect(payload, "/{$.a}", TEMPLATE_URL, "{$.a} is too long");
}

static void expect_problem(const char *text, enum template_form form, const char *part)
{
	const char *problem = fill("{}", text, form);
	if (!strstr(problem, part))
		fail_msg("%s: expected \"%s\" in \"%s\"", text, part, problem);
}

static void slips_are_told_with_their_place(void **state)
{
	(void)state;
	expect_problem("/{orderId}", TEMPLATE_URL, "at byte 3: expected {ticket}");
	expect_problem("/{id", TEMPLATE_URL, "at byte 2: expected a }");
	expect_problem("/{$.a[}", TEMPLATE_URL, "at byte 7:");
	expect_problem("/{$.a[*].b}", TEMPLATE_URL, "without [*]");
	expect_problem("/{$}", TEMPLATE_URL, "{$} only in SQL");
	expect_problem("/a{1}", TEMPLATE_URL, "at byte 3: expected a URL");
	expect_problem("/a b", TEMPLATE_URL, "at byte 3: expected a URL");
	expect_problem("/\xc3\xa4", TEMPLATE_URL, "at byte 2: expected a URL");
	expect_problem("a\r\nb", TEMPLATE_HEADER, "at byte 2: expected a header's value");
	expect_problem("{\"a\":\"{$}\"}", TEMPLATE_JSON, "outside of quotes");
	expect_problem("{\"a\":{id}", TEMPLATE_JSON, "no JSON with its places filled");
	expect_problem("{\"a\":{id}{id}}", TEMPLATE_JSON, "no JSON with its places filled");
	expect_problem("[1{id}]", TEMPLATE_JSON, "no JSON with its places filled");
}

/* The statement, and behind | the values of its places; a bare - is NULL. */
static const char *fill_sql(const char *payload, const char *text)
{
	static char memory[4096];
	static char problem[ERROR_TEXT_MAX];
	struct setting setting;
	struct template_run *run = mem_alloc(sizeof(*run));
	struct buf out = buf_on(memory, sizeof(memory));
	uint32_t number = 0;
	begin(&setting, payload);
	int error = templates_add(setting.templates, span_str(text), TEMPLATE_SQL, &number,
	                          &setting.text);
	if (!error) {
		templates_seal(setting.templates);
		template_sample(setting.templates, number, &out);
		error = template_begin(run, setting.templates, &setting.event, &setting.text);
	}
	for (uint32_t i = 0; !error && i < template_place_count(setting.templates, number); i++) {
		bool there = false;
		buf_append_char(&out, '|');
		error = template_value(run, number, i, &out, &there, &setting.text);
		if (!error && !there)
			buf_append_char(&out, '-');
	}
	buf_append_char(&out, '\0');
	memcpy(problem, setting.text.text, sizeof(problem));
	templates_free(setting.templates);
	mem_free(run);
	return error ? problem : memory;
}

static void values_of_sql_are_parameters(void **state)
{
	(void)state;
	const char *payload = "{\"s\":\"a'\\n\\\"\",\"n\":1.50,\"o\":{\"k\": [1]},\"z\":null,"
			      "\"e\":\"\",\"t\":true}";
	assert_string_equal(fill_sql(payload, "INSERT INTO t VALUES ({id}, {$.s},{$.n}::int)"),
	                    "INSERT INTO t VALUES ($1, $2,$3::int)|1|a'\n\"|1.50");
	assert_string_equal(fill_sql(payload, "{$.o} {$.z} {$.e} {$.none} {$.t} {entity}"),
	                    "$1 $2 $3 $4 $5 $6|{\"k\": [1]}|-||-|true|-");
	assert_string_equal(fill_sql("{\"a\": 1}", "SELECT {$}"), "SELECT $1|{\"a\": 1}");
	assert_string_equal(fill_sql("{}", "SELECT '{a,b}', \"{\", '{\"k\":1}', 'it''s', {id}"),
	                    "SELECT '{a,b}', \"{\", '{\"k\":1}', 'it''s', $1|1");
	assert_string_equal(fill_sql("{}", "SELECT 1 -- 'x\n, {id} /* \" */, {type}"),
	                    "SELECT 1 -- 'x\n, $1 /* \" */, $2|1|order/made \"x\"");
}

static void slips_in_sql_are_told(void **state)
{
	(void)state;
	expect_problem("SELECT '{id}'", TEMPLATE_SQL,
	               "at byte 9: expected a placeholder without quotes");
	expect_problem("SELECT '{$.a}'", TEMPLATE_SQL, "without quotes");
	expect_problem("SELECT \"{id}\"", TEMPLATE_SQL, "without quotes");
	expect_problem("SELECT 1 -- {id}", TEMPLATE_SQL, "without quotes");
	expect_problem("SELECT /* {id} */ 1", TEMPLATE_SQL, "without quotes");
	expect_problem("SELECT $1", TEMPLATE_SQL, "at byte 8: expected one statement");
	expect_problem("SELECT $$x$$", TEMPLATE_SQL, "at byte 8: expected one statement");
	expect_problem("SELECT 1; SELECT 2", TEMPLATE_SQL, "at byte 9: expected one statement");
	expect_problem("SELECT {orderId}", TEMPLATE_SQL, "expected {ticket}");
	assert_string_equal(fill_sql("{\"a\":\"x\\u0000\"}", "SELECT {$.a}"),
	                    "{$.a} has a NUL, which no text of a database can have");
}

static void fixed_texts_know_that_they_are(void **state)
{
	struct setting setting;
	uint32_t fixed, places;
	char memory[64];
	struct buf out = buf_on(memory, sizeof(memory));
	(void)state;
	begin(&setting, "{}");
	assert_int_equal(templates_add(setting.templates, SPAN("/a?b=c"), TEMPLATE_URL, &fixed,
	                               &setting.text),
	                 0);
	assert_int_equal(templates_add(setting.templates, SPAN("/a/{id}/b"), TEMPLATE_URL, &places,
	                               &setting.text),
	                 0);
	assert_true(template_is_fixed(setting.templates, fixed));
	assert_false(template_is_fixed(setting.templates, places));
	template_sample(setting.templates, places, &out);
	assert_true(span_eq(buf_span(&out), SPAN("/a/x/b")));
	templates_free(setting.templates);
}

static void a_refused_template_leaves_the_others_whole(void **state)
{
	struct setting setting;
	struct template_run *run = mem_alloc(sizeof(*run));
	uint32_t first, second;
	char memory[64];
	struct buf out = buf_on(memory, sizeof(memory));
	(void)state;
	begin(&setting, "{\"a\":1,\"b\":2}");
	struct templates *all = setting.templates;
	assert_int_equal(templates_add(all, SPAN("/{$.a}"), TEMPLATE_URL, &first, NULL), 0);
	assert_int_equal(templates_add(all, SPAN("/{$.b}/{"), TEMPLATE_URL, &second, NULL),
	                 ERR_INVALID);
	assert_int_equal(templates_add(all, SPAN("={$.b}"), TEMPLATE_URL, &second, NULL), 0);
	templates_seal(all);
	assert_int_equal(template_begin(run, all, &setting.event, NULL), 0);
	assert_int_equal(template_put(run, first, &out, NULL), 0);
	assert_int_equal(template_put(run, second, &out, NULL), 0);
	assert_true(span_eq(buf_span(&out), SPAN("/1=2")));
	templates_free(all);
	mem_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_in_urls_are_one_piece),
		cmocka_unit_test(values_in_headers_end_no_line),
		cmocka_unit_test(values_in_json_are_values),
		cmocka_unit_test(tickets_are_written_as_people_know_them),
		cmocka_unit_test(what_is_missing_is_named),
		cmocka_unit_test(values_have_a_limit),
		cmocka_unit_test(slips_are_told_with_their_place),
		cmocka_unit_test(values_of_sql_are_parameters),
		cmocka_unit_test(slips_in_sql_are_told),
		cmocka_unit_test(fixed_texts_know_that_they_are),
		cmocka_unit_test(a_refused_template_leaves_the_others_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
