/* What a configuration becomes: defaults, values, secrets, overrides, reloads. */
#include "config/config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "config/config_internal.h"
#include "config/preset_guide.h"
#include "gate/recipe/presets.h"
#include "support/test.h"

static const char *variable(const char *name)
{
	if (strcmp(name, "KEY") == 0)
		return "s3cret-0123456789";
	if (strcmp(name, "ODD") == 0)
		return "a/b@c:1?d#e%41%zz%";
	if (strcmp(name, "EMPTY") == 0)
		return "";
	return strcmp(name, "DIR") == 0 ? getenv("STILE_TEST_DIR_OF_CONFIG") : NULL;
}

static int load_with(const char *text, int flag_count, char **flags, struct config **ret_config,
                     struct config_report *report)
{
	struct span bytes = span_str(text);
	struct config_input input = {
		.path = "test.yaml",
		.text = &bytes,
		.flag_count = flag_count,
		.flags = flags,
		.variable = variable,
	};
	return config_load(&input, ret_config, report);
}

static struct config *load(const char *text)
{
	struct config *config = NULL;
	struct config_report report;
	if (load_with(text, 0, NULL, &config, &report) != 0)
		config_report_print(&report, stderr);
	assert_non_null(config);
	config_report_free(&report);
	return config;
}

static void assert_span(struct span span, const char *text)
{
	assert_int_equal(span.len, strlen(text));
	assert_memory_equal(span.ptr, text, span.len);
}

/* The first message of a load that fails. */
static void assert_refused(const char *text, const char *says)
{
	struct config *config = NULL;
	struct config_report report;
	assert_int_equal(load_with(text, 0, NULL, &config, &report), ERR_CONFIG);
	assert_null(config);
	assert_true(report.count > 0);
	if (!strstr(report.problems[0].text, says))
		fail_msg("\"%s\" does not say \"%s\"", report.problems[0].text, says);
	config_report_free(&report);
}

static void without_a_file_there_is_one_source_with_the_preset_auto(void **state)
{
	(void)state;
	struct config *config = NULL;
	struct config_report report;
	assert_int_equal(config_load(&(struct config_input){ 0 }, &config, &report), 0);
	assert_int_equal(report.count, 0);
	assert_int_equal(config->source_count, 1);
	const struct config_source *source = config->sources;
	assert_span(source->name, "events");
	assert_span(source->door.path, "/in/events");
	assert_span(source->preset, "auto");
	assert_span(source->recipe.source, "events");
	assert_int_equal(source->recipe.window_s, 4 * 86400);
	assert_true(source->recipe.case_count > 0);
	assert_int_equal(source->auth.kind, AUTH_NONE);
	assert_int_equal(config->sink_count, 1);
	assert_string_equal(config->serve.listen, "127.0.0.1:8080");
	assert_string_equal(config->serve.local.path, "stile-data");
	config_report_free(&report);
	config_free(config);
}

static void a_source_is_what_was_written(void **state)
{
	(void)state;
	struct config *config = load(
		"sources:\n"
		"  orders:\n"
		"    window: 90s\n"
		"    scope: shop\n"
		"    mode: shadow\n"
		"    on_conflict: reject\n"
		"    on_replay: pass\n"
		"    batch: never\n"
		"    ack: delivered\n"
		"    wait: 1500ms\n"
		"    type: kind\n"
		"    content: payload\n"
		"    claims:\n"
		"      - once: [customerId, orderId]\n"
		"        name: order\n"
		"        window: 7d\n"
		"        missing: skip\n"
		"        when: { type: 'order.*', 'header:X-Kind': '!test', a: }\n"
		"      - content: { except: [sentAt] }\n"
		"        mode: shadow\n"
		"      - newest: { entity: orderId, time: at, equal: drop,\n"
		"                  rank: { part: state, order: [on, off] } }\n");
	const struct config_source *source = config_find_source(config, SPAN("orders"));
	assert_non_null(source);
	assert_span(source->door.path, "/in/orders");
	assert_int_equal(source->door.on_conflict, STORE_CONFLICT_REJECT);
	assert_true(source->ack_delivered);
	assert_int_equal(source->door.wait_ms, 1500);
	const struct recipe_spec *recipe = &source->recipe;
	assert_int_equal(recipe->window_s, 90);
	assert_span(recipe->scope, "shop");
	assert_true(recipe->shadow);
	assert_true(recipe->replay_passes);
	assert_int_equal(recipe->batch, RECIPE_BATCH_NEVER);
	assert_int_equal(recipe->case_count, 1);
	assert_span(recipe->cases->type, "kind");
	assert_span(recipe->cases->content, "payload");
	assert_int_equal(recipe->cases->claim_count, 3);
	const struct recipe_claim_spec *once = &recipe->cases->claims[0];
	assert_int_equal(once->kind, CLAIM_ONCE);
	assert_span(once->name, "order");
	assert_int_equal(once->window_s, 7 * 86400);
	assert_int_equal(once->missing, RECIPE_MISSING_SKIP);
	assert_int_equal(once->part_count, 2);
	assert_span(once->parts[1], "orderId");
	assert_int_equal(once->condition_count, 3);
	assert_span(once->conditions[0].pattern, "order.*");
	assert_false(once->conditions[0].negate);
	assert_span(once->conditions[1].part, "header:X-Kind");
	assert_span(once->conditions[1].pattern, "test");
	assert_true(once->conditions[1].negate);
	assert_int_equal(once->conditions[2].pattern.len, 0);
	const struct recipe_claim_spec *content = &recipe->cases->claims[1];
	assert_int_equal(content->kind, CLAIM_CONTENT);
	assert_true(content->shadow);
	assert_int_equal(content->part_count, 0);
	assert_span(content->except[0], "sentAt");
	const struct recipe_claim_spec *newest = &recipe->cases->claims[2];
	assert_int_equal(newest->kind, CLAIM_NEWEST);
	assert_span(newest->parts[0], "orderId");
	assert_span(newest->time, "at");
	assert_true(newest->equal_drops);
	assert_int_equal(newest->rank_count, 2);
	assert_span(newest->ranks[1], "off");
	config_free(config);
}

static void claims_beside_a_preset_are_added_to_each_of_its_cases(void **state)
{
	(void)state;
	struct config *config = load("sources:\n"
	                             "  a:\n"
	                             "    preset: eventbridge\n"
	                             "    claims: [ { content: body, name: mine } ]\n");
	const struct preset *preset = preset_find(SPAN("eventbridge"));
	const struct recipe_spec *recipe = &config->sources[0].recipe;
	assert_int_equal(recipe->case_count, preset->case_count);
	for (uint32_t i = 0; i < recipe->case_count; i++) {
		uint32_t own = preset->cases[i].claim_count;
		assert_int_equal(recipe->cases[i].claim_count, own ? own + 1 : 0);
		if (own)
			assert_span(recipe->cases[i].claims[own].name, "mine");
	}
	config_free(config);
}

static void recipes_keep_their_order_and_names(void **state)
{
	(void)state;
	struct config *config = load(
		"sources:\n"
		"  a:\n"
		"    recipes:\n"
		"      - { name: paid, when: { type: paid }, type: t, id: i,\n"
		"          claims: [ { once: x } ] }\n"
		"      - { claims: [ { once: [y, z] }, { content: body } ] }\n");
	const struct recipe_spec *recipe = &config->sources[0].recipe;
	assert_int_equal(recipe->case_count, 2);
	assert_string_equal(recipe->cases[0].name, "paid");
	assert_span(recipe->cases[0].id, "i");
	assert_int_equal(recipe->cases[0].condition_count, 1);
	assert_span(recipe->cases[0].claims[0].parts[0], "x");
	assert_int_equal(recipe->cases[1].claim_count, 2);
	assert_int_equal(recipe->cases[1].claims[1].kind, CLAIM_CONTENT);
	config_free(config);
}

static void variables_are_replaced_wherever_a_text_stands(void **state)
{
	(void)state;
	struct config *config = load(
		"store: { local: { path: '/x/${KEY}/$$y$z/${NONE:-a b}' } }\n"
		"window: ${EMPTY:-3d}\n"
		"sources:\n"
		"  a: { preset: auto, auth: { header: K, secret: [${KEY}, x${KEY}x] } }\n");
	assert_string_equal(config->serve.local.path, "/x/s3cret-0123456789/$y$z/a b");
	assert_int_equal(config->serve.window_ms, 3 * UINT64_C(86400000));
	assert_int_equal(config->sources[0].recipe.window_s, 3 * 86400);
	assert_int_equal(config->sources[0].auth.secret_count, 2);
	assert_span(config->sources[0].auth.secrets[0], "s3cret-0123456789");
	assert_span(config->sources[0].auth.secrets[1], "xs3cret-0123456789x");
	config_free(config);
	assert_refused("window: ${NONE}\n", "no variable NONE");
}

static void no_character_of_a_password_ends_it_in_a_url(void **state)
{
	(void)state;
	struct config *config = load(
		"store: 'redis://:${ODD}@h:1'\n"
		"sinks:\n"
		"  url: { postgres: 'postgresql://u:${ODD}@h:1/d?options=${KEY}' }\n"
		"  list: { postgres: 'host=h password=${KEY}' }\n");
	assert_span(config->store.url, "redis://:a%2Fb%40c%3A1%3Fd%23e%41%25zz%25@h:1");
	assert_span(
		config->sinks[0].postgres.conninfo,
		"postgresql://u:a%2Fb%40c%3A1%3Fd%23e%41%25zz%25@h:1/d?options=s3cret-0123456789");
	assert_span(config->sinks[1].postgres.conninfo, "host=h password=s3cret-0123456789");
	config_free(config);
	assert_refused("sinks: { it: { http: 'https://me:${ODD}@h/' } }\n", "without a user");
	assert_refused("sinks: { it: { postgres: 'postgresql://u:${NONE}@h/d' } }\n",
	               "no variable NONE");
	assert_refused("sinks: { it: { postgres: [x] } }\n", "expected a text");
}

static void what_variables_have_in_a_header_is_known_by_itself(void **state)
{
	(void)state;
	struct config *config = load("sinks: { it: { http: 'https://a.example.com/', headers: {\n"
	                             "  Cookie: 'a=${KEY}; b=${NONE:-dflt}',\n"
	                             "  X-A: '{id} ${KEY}' } } }\n");
	const struct http_header_option *list = config->sinks[0].http.headers.list;
	assert_int_equal(list[0].part_count, 2);
	assert_span(list[0].parts[0], "s3cret-0123456789");
	assert_span(list[0].parts[1], "dflt");
	assert_int_equal(list[1].part_count, 1);
	assert_span(list[1].parts[0], "s3cret-0123456789");
	config_free(config);
	assert_refused("sinks: { it: { http: 'https://a.example.com/', headers: { A: '"
	               "${KEY}${KEY}${KEY}${KEY}${KEY}${KEY}${KEY}${KEY}${KEY}' } } }\n",
	               "found 9 variables, expected at most 8");
}

static void write_secret(const char *folder, const char *text, mode_t mode)
{
	char path[300];
	snprintf(path, sizeof(path), "%s/key", folder);
	FILE *file = fopen(path, "wb");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(chmod(path, mode), 0);
}

static void a_secret_may_come_from_a_file(void **state)
{
	(void)state;
	static const char text[] =
		"sources:\n  a: { preset: auto, auth: { kind: bearer, secret: 'file:${DIR}/key' } }\n";
	char folder[256];
	struct config *config = NULL;
	struct config_report report;
	test_dir_make(folder);
	assert_int_equal(setenv("STILE_TEST_DIR_OF_CONFIG", folder, 1), 0);
	write_secret(folder, "abc 0123456789 def\r\n", 0600);
	assert_int_equal(load_with(text, 0, NULL, &config, &report), 0);
	assert_int_equal(report.warnings, 0);
	assert_span(config->sources[0].auth.secrets[0], "abc 0123456789 def");
	config_report_free(&report);
	config = config_free(config);

	write_secret(folder, "0123456789-abcdef\n", 0644);
	assert_int_equal(load_with(text, 0, NULL, &config, &report), 0);
	assert_int_equal(report.warnings, 1);
	assert_non_null(strstr(report.problems[0].text, "everybody"));
	assert_null(strstr(report.problems[0].text, folder));
	assert_span(config->sources[0].auth.secrets[0], "0123456789-abcdef");
	config_report_free(&report);
	config_free(config);

	write_secret(folder, "\n", 0600);
	assert_refused(text, "empty");
	test_dir_remove(folder);
	assert_refused(text, "cannot be read");
}

/* An editor that empties the file first would let everybody in, for a moment. */
static void an_empty_file_is_refused_while_a_gateway_runs(void **state)
{
	static const struct {
		const char *text;
		bool empty;
	} files[] = {
		{ "", true }, { "# soon\n\n", true }, { "{}\n", false }, { "log: json", false }
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(files) * 2; i++) {
		struct span bytes = span_str(files[i / 2].text);
		struct config_input input = { .path = "x", .text = &bytes, .again = i % 2 };
		struct config *config = NULL;
		struct config_report report;
		bool refused = input.again && files[i / 2].empty;
		assert_int_equal(config_load(&input, &config, &report), refused ? ERR_CONFIG : 0);
		assert_int_equal(report.errors, refused);
		if (refused)
			assert_non_null(strstr(report.problems[0].text, "the file is empty"));
		config_report_free(&report);
		config_free(config);
	}
}

static void flags_count_more_than_the_file(void **state)
{
	(void)state;
	struct config *config = NULL;
	struct config_report report;
	char *flags[] = { (char *)(uintptr_t) "--window=2h", (char *)(uintptr_t) "--threads",
		          (char *)(uintptr_t) "3" };
	static const char text[] = "window: 1d\n"
				   "threads: 2\n"
				   "listen: 127.0.0.1:9\n"
				   "sources:\n"
				   "  a: { preset: auto }\n"
				   "  b: { preset: auto, window: 5d }\n";
	for (int i = 0; i < 2; i++) { /* a reload gives the same flags again */
		assert_int_equal(load_with(text, 3, flags, &config, &report), 0);
		assert_int_equal(config->serve.threads, 3);
		assert_string_equal(config->serve.listen, "127.0.0.1:9");
		assert_int_equal(config->sources[0].recipe.window_s, 7200);
		assert_int_equal(config->sources[1].recipe.window_s, 5 * 86400);
		config_report_free(&report);
		config = config_free(config);
	}
	flags[2] = (char *)(uintptr_t) "many";
	assert_int_equal(load_with(text, 3, flags, &config, &report), ERR_CONFIG);
	assert_non_null(strstr(report.problems[0].text, "--threads"));
	config_report_free(&report);
}

static const struct config_change *find_change(const struct config_diff *diff, const char *option)
{
	for (uint32_t i = 0; i < diff->count; i++)
		if (strcmp(diff->changes[i].option, option) == 0)
			return &diff->changes[i];
	return NULL;
}

/* The number of the sink for them is another, whatever it is called. */
static void a_sink_whose_dead_letters_go_elsewhere_is_changed(void **state)
{
	(void)state;
	static const char crm[] = "sinks:\n  crm: { http: https://192.0.2.1/, dead_letter: aside, "
				  "allow: 192.0.2.0/24 }\n";
	char text[2][256];
	snprintf(text[0], sizeof(text[0]), "%s  aside: { file: /tmp/aside }\n", crm);
	snprintf(text[1], sizeof(text[1]), "%s  aside: stdout\n", crm);
	struct config *old = load(text[0]);
	struct config *new = load(text[1]);
	assert_false(config_sink_changed(&old->sinks[0], &old->sinks[0]));
	assert_int_not_equal(old->sinks[0].policy.dead_sink, new->sinks[0].policy.dead_sink);
	assert_true(config_sink_changed(&old->sinks[0], &new->sinks[0]));
	config_free(old);
	config_free(new);
}

/* It is an option of the sinks: they change with it, and it must not be told otherwise. */
static void what_the_sinks_take_over_needs_no_restart(void **state)
{
	(void)state;
	struct config *old = load("print: event\n");
	struct config *new = load("print: envelope\n");
	struct config_diff diff;
	assert_true(config_sink_changed(&old->sinks[0], &new->sinks[0]));
	assert_int_equal(config_diff(&(struct config_states){ old, old, new }, &diff), 0);
	assert_true(find_change(&diff, "print")->reloads);
	assert_int_equal(diff.restarts, 0);
	config_diff_free(&diff);
	config_free(old);
	config_free(new);
}

static void what_needs_a_restart_is_told_from_what_reloads(void **state)
{
	(void)state;
	struct config *old = load(
		"listen: 127.0.0.1:1\n"
		"window: 1d\n"
		"sources:\n"
		"  same: { preset: auto, window: 9d, auth: { header: K, secret: ${KEY} } }\n"
		"  gone: { preset: auto, window: 9d }\n"
		"  auth: { preset: auto, window: 9d, auth: { header: K, secret: a } }\n"
		"  heir: { preset: auto }\n"
		"  path: { preset: auto, window: 9d }\n");
	struct config *new = load(
		"# written otherwise, meant the same\n"
		"listen: 127.0.0.1:2\n"
		"window: 2d\n"
		"log: json\n"
		"sources:\n"
		"  path: { preset: auto, window: 9d, path: /other }\n"
		"  heir: { preset: auto }\n"
		"  come: { preset: auto, window: 9d }\n"
		"  auth: { preset: auto, window: 9d, auth: { header: K, secret: b } }\n"
		"  same:\n"
		"    auth: { secret: [s3cret-0123456789], header: K }\n"
		"    preset: auto\n"
		"    window: 216h\n");
	struct config_diff diff;
	assert_int_equal(config_diff(&(struct config_states){ old, old, old }, &diff), 0);
	assert_int_equal(diff.count, 0);
	config_diff_free(&diff);
	assert_int_equal(config_diff(&(struct config_states){ old, old, new }, &diff), 0);
	assert_null(find_change(&diff, "sources.same"));
	assert_string_equal(find_change(&diff, "sources.gone")->text, "removed");
	assert_string_equal(find_change(&diff, "sources.come")->text, "added");
	assert_string_equal(find_change(&diff, "sources.auth")->text, "changed: auth.secret");
	assert_string_equal(find_change(&diff, "sources.heir")->text, "changed: window");
	assert_string_equal(find_change(&diff, "sources.path")->text, "changed: path");
	assert_true(find_change(&diff, "sources.path")->reloads);
	assert_true(find_change(&diff, "claims.window")->reloads); /* the window is the top's */
	assert_string_equal(find_change(&diff, "listen")->text, "127.0.0.1:1 becomes 127.0.0.1:2");
	assert_false(find_change(&diff, "listen")->reloads);
	assert_string_equal(find_change(&diff, "window")->text, "1d becomes 2d");
	assert_true(find_change(&diff, "window")->reloads);
	assert_string_equal(find_change(&diff, "log")->text, "text becomes json");
	assert_int_equal(diff.count, 9);
	assert_int_equal(diff.restarts, 2);
	config_diff_free(&diff);
	config_free(old);
	config_free(new);
}

static void what_needs_a_restart_is_told_as_long_as_it_differs_from_the_start(void **state)
{
	(void)state;
	struct config *start = load("threads: 1\nwindow: 1d\nsinks: { out: stdout }\n");
	struct config *next = load("threads: 2\nwindow: 2d\nsinks: { other: stdout }\n");
	struct config_diff diff;
	assert_int_equal(config_diff(&(struct config_states){ start, next, next }, &diff), 0);
	assert_string_equal(find_change(&diff, "threads")->text, "1 becomes 2");
	assert_null(find_change(&diff, "sinks.out"));
	assert_null(find_change(&diff, "window"));
	assert_int_equal(diff.count, 1);
	assert_int_equal(diff.restarts, 1);
	config_diff_free(&diff);
	/* Back to what it was at the start: nothing is left to tell of. */
	assert_int_equal(config_diff(&(struct config_states){ start, next, start }, &diff), 0);
	assert_non_null(find_change(&diff, "window"));
	assert_int_equal(diff.restarts, 0);
	config_diff_free(&diff);
	config_free(start);
	config_free(next);
}

static void every_failing_allocation_is_told_and_leaks_nothing(void **state)
{
	(void)state;
	static const char text[] = "window: ${EMPTY:-3d}\n"
				   "sources:\n"
				   "  a:\n"
				   "    preset: genesys\n"
				   "    claims: [ { once: [x], when: { y: z } } ]\n"
				   "    auth: { header: K, secret: [${KEY}, clear] }\n"
				   "  b: { recipes: [ { claims: [ { once: x } ] } ] }\n";
	int error = -ENOMEM;
	for (unsigned long n = 1; error != 0; n++) {
		struct config *config = NULL;
		struct config_report report;
		mem_fail_at(n, false);
		error = load_with(text, 0, NULL, &config, &report);
		mem_fail_at(0, false);
		assert_true(error == 0 || error == -ENOMEM);
		assert_true((error == 0) == (config != NULL));
		config_report_free(&report);
		config_free(config);
		assert_true(n < 1000);
	}
}

static void every_preset_has_a_guide(void **state)
{
	(void)state;
	uint32_t count = 0;
	const struct preset *presets = preset_list(&count);
	assert_true(count >= 14);
	for (uint32_t i = 0; i < count; i++)
		if (!preset_guide_find(span_str(presets[i].name)))
			fail_msg("%s has no guide", presets[i].name);
}

/* The table is what people read: it must not say what is not so. */
static void the_table_is_sound(void **state)
{
	(void)state;
	const struct config_option *option;
	for (size_t i = 0; (option = config_table_row(i)); i++) {
		const char *choices = config_option_choices(option);
		const char *standard = config_option_standard(option);
		assert_non_null(config_option_help(option));
		if (option->kind == CONFIG_CHOICE) {
			assert_non_null(choices);
			assert_true(option->size == 1 || option->size == 4);
		}
		/* The default is what a zeroed field means. */
		if (option->kind == CONFIG_CHOICE && option_choice(choices, span_str(standard)) > 0)
			fail_msg("%s: the default is not the first word", option->path);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(option->path, config_table_row(j)->path);
	}
}

static void sinks_and_routes_are_what_was_written(void **state)
{
	(void)state;
	struct config *config = load(
		"sources:\n"
		"  a: { preset: auto, ack: delivered }\n"
		"  b: { preset: auto }\n"
		"sinks:\n"
		"  crm:\n"
		"    http: https://crm.example.com/{id}\n"
		"    method: PATCH\n"
		"    headers: { X-Key: \"${KEY}\", X-Id: \"{id}\" }\n"
		"    timeout: 5s\n"
		"    connect_timeout: 1s\n"
		"    allow: 10.0.0.0/8\n"
		"    rate: 600/m\n"
		"    concurrency: 3\n"
		"    retry: { first: 2s, attempts: 7, on: [429, \"!501\"] }\n"
		"    on_unknown: park\n"
		"    order: { stuck: aside, attempts: 4 }\n"
		"  out: stdout\n"
		"routes:\n"
		"  - { from: [a, b], type: \"o.*\", to: crm, order_by: entity }\n"
		"  - { to: [out, crm], when: { total: \"!0\" } }\n");
	const struct config_sink *crm = &config->sinks[0];
	assert_int_equal(config->sources[0].door.wait_ms, 10000);
	assert_false(config->sources[1].ack_delivered);
	assert_int_equal(config->sink_count, 2);
	assert_int_equal(crm->kind, CONFIG_SINK_HTTP);
	assert_true(crm->id == sink_id(SPAN("crm")));
	assert_span(crm->http.url, "https://crm.example.com/{id}");
	assert_int_equal(crm->http.method, HTTP_PATCH);
	assert_int_equal(crm->http.headers.count, 2);
	assert_true(crm->http.headers.list[0].secret);
	assert_false(crm->http.headers.list[1].secret);
	assert_int_equal(crm->http.headers.list[1].part_count, 0);
	assert_int_equal(crm->http.timeout_ms, 5000);
	assert_int_equal(crm->http.connect_ms, 1000);
	assert_int_equal(crm->http.allow_count, 1);
	assert_int_equal(crm->policy.limiter.rate, 600);
	assert_int_equal(crm->policy.limiter.per_ms, 60000);
	assert_int_equal(crm->policy.limiter.burst, 1);
	assert_int_equal(crm->policy.limiter.most, 3);
	assert_int_equal(crm->policy.retry.first_ms, 2000);
	assert_int_equal(crm->policy.retry.attempts, 7);
	assert_int_equal(crm->policy.rules.count, 2);
	assert_int_equal(crm->policy.on_unknown, DELIVER_UNKNOWN_PARK);
	assert_int_equal(crm->policy.stuck.attempts, 4);
	assert_int_equal(crm->policy.stuck.for_ms, 3600000);
	assert_int_equal(config->sinks[1].kind, CONFIG_SINK_STDOUT);
	assert_int_equal(config->route_count, 2);
	assert_int_equal(config->routes[0].from_count, 2);
	assert_span(config->routes[0].type, "o.*");
	assert_span(config->routes[0].order_by, "entity");
	assert_int_equal(config->routes[1].to_count, 2);
	assert_true(config->routes[1].conditions[0].negate);
	config_free(config);
}

static void a_change_of_sinks_and_routes_is_told_without_what_it_is(void **state)
{
	(void)state;
	struct config *old = load(
		"sinks:\n"
		"  out: stdout\n"
		"  same: { http: \"https://a.example.com/\", retry: { first: 1s } }\n"
		"  url: { http: \"https://a.example.com/\" }\n"
		"  key: { http: \"https://a.example.com/\", headers: { X-Key: \"${KEY}\" } }\n"
		"  rate: { http: \"https://a.example.com/\" }\n"
		"  gone: { http: \"https://a.example.com/\" }\n"
		"routes: [ { to: [out, same, url, key, rate, gone] } ]\n");
	struct config *new = load(
		"sinks:\n"
		"  come: { http: \"https://a.example.com/\" }\n"
		"  rate: { http: \"https://a.example.com/\", rate: 5/s }\n"
		"  key: { http: \"https://a.example.com/\", headers: { X-Key: \"x${KEY}\" } }\n"
		"  url: { http: \"https://b.example.com/\" }\n"
		"  same: { http: \"https://a.example.com/\" }\n"
		"  out: stdout\n"
		"routes: [ { to: [come, out, same, url, key, rate] } ]\n");
	struct config_diff diff;
	assert_int_equal(config_diff(&(struct config_states){ old, old, old }, &diff), 0);
	assert_int_equal(diff.count, 0);
	config_diff_free(&diff);
	assert_int_equal(config_diff(&(struct config_states){ old, old, new }, &diff), 0);
	assert_string_equal(find_change(&diff, "sinks.gone")->text, "removed");
	assert_string_equal(find_change(&diff, "sinks.come")->text, "added");
	assert_string_equal(find_change(&diff, "sinks.url")->text, "changed: http");
	assert_string_equal(find_change(&diff, "sinks.key")->text, "changed: headers");
	assert_string_equal(find_change(&diff, "sinks.rate")->text, "changed: rate, burst");
	assert_string_equal(find_change(&diff, "routes")->text, "changed");
	assert_int_equal(diff.count, 6);
	assert_int_equal(diff.restarts, 0);
	config_diff_free(&diff);
	config_free(old);
	config_free(new);
}

/* What the manual says and what deliver/ thinks best are the same. */
static void defaults_of_a_sink_are_those_of_delivery(void **state)
{
	(void)state;
	struct config *config = load("sinks: { crm: { http: \"https://crm.example.com/\" } }\n");
	struct deliver_policy standard = deliver_policy_default();
	struct deliver_policy *policy = &config->sinks[0].policy;
	assert_memory_equal(&policy->retry, &standard.retry, sizeof(standard.retry));
	assert_memory_equal(&policy->breaker, &standard.breaker, sizeof(standard.breaker));
	assert_int_equal(policy->limiter.most, standard.limiter.most);
	assert_int_equal(policy->limiter.rate, 0);
	assert_int_equal(policy->retry_after_max_ms, standard.retry_after_max_ms);
	assert_int_equal(policy->on_unknown, standard.on_unknown);
	assert_int_equal(policy->stuck.attempts, standard.stuck.attempts);
	assert_int_equal(policy->stuck.for_ms, standard.stuck.for_ms);
	config_free(config);
}

static void stdout_is_always_the_same_in_the_journal(void **state)
{
	(void)state;
	struct config *none = load("threads: 1\n");
	struct config *one = load("sinks: { out: stdout }\n");
	struct config *routed = load("sinks: { out: stdout }\nroutes: [ { to: out } ]\n");
	assert_int_equal(none->sinks[0].id, 0);
	assert_int_equal(one->sinks[0].id, 0);
	assert_int_equal(routed->sinks[0].id, 0);
	config_free(none);
	config_free(one);
	config_free(routed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_file_there_is_one_source_with_the_preset_auto),
		cmocka_unit_test(a_source_is_what_was_written),
		cmocka_unit_test(claims_beside_a_preset_are_added_to_each_of_its_cases),
		cmocka_unit_test(recipes_keep_their_order_and_names),
		cmocka_unit_test(what_variables_have_in_a_header_is_known_by_itself),
		cmocka_unit_test(no_character_of_a_password_ends_it_in_a_url),
		cmocka_unit_test(variables_are_replaced_wherever_a_text_stands),
		cmocka_unit_test(a_secret_may_come_from_a_file),
		cmocka_unit_test(an_empty_file_is_refused_while_a_gateway_runs),
		cmocka_unit_test(flags_count_more_than_the_file),
		cmocka_unit_test(a_sink_whose_dead_letters_go_elsewhere_is_changed),
		cmocka_unit_test(what_the_sinks_take_over_needs_no_restart),
		cmocka_unit_test(what_needs_a_restart_is_told_from_what_reloads),
		cmocka_unit_test(what_needs_a_restart_is_told_as_long_as_it_differs_from_the_start),
		cmocka_unit_test(every_failing_allocation_is_told_and_leaks_nothing),
		cmocka_unit_test(every_preset_has_a_guide),
		cmocka_unit_test(the_table_is_sound),
		cmocka_unit_test(sinks_and_routes_are_what_was_written),
		cmocka_unit_test(a_change_of_sinks_and_routes_is_told_without_what_it_is),
		cmocka_unit_test(defaults_of_a_sink_are_those_of_delivery),
		cmocka_unit_test(stdout_is_always_the_same_in_the_journal),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
