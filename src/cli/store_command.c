/*
 * store_command: `stile store check|init|migrate`: is a shared store fit for stile, and
 * what it needs before use. Exit codes: 0 it is fit (perhaps with warnings), or the command
 * succeeded; 1 it is not fit or cannot be reached; 2 usage.
 */
#include "cli/commands.h"

#include <stdio.h>
#include <string.h>

#include "base/exit_code.h"
#include "codec/json_write.h"

struct store_options {
	const char *config;
	bool json;
};

static const struct option table[] = {
	{ "config", OPTION_TEXT, offsetof(struct store_options, config), "FILE", NULL, 0, 0, NULL,
	  "the store of this configuration, if no URL is given" },
	{ "json", OPTION_FLAG, offsetof(struct store_options, json), NULL, NULL, 0, 0, NULL,
	  "print the findings as JSON" },
};
const struct option_table store_option_table = { table, ARRAY_LEN(table) };

struct findings {
	bool json;
	uint32_t warnings, errors;
	struct buf out; /* JSON */
};

static const char *const words[] = {
	[SHARED_FINE] = "ok",
	[SHARED_WARNING] = "warning",
	[SHARED_ERROR] = "error",
};

static void tell(void *user, enum shared_level level, const char *name, const char *text)
{
	struct findings *findings = user;
	findings->warnings += level == SHARED_WARNING;
	findings->errors += level == SHARED_ERROR;
	if (!findings->json) {
		printf("%-8s %-24s %s\n", words[level], name, text);
		return;
	}
	json_object_begin(&findings->out, NULL);
	json_add_string(&findings->out, "level", words[level]);
	json_add_string(&findings->out, "name", name);
	json_add_string(&findings->out, "text", text);
	json_object_end(&findings->out);
}

static int check(const struct config *config, bool json)
{
	struct findings findings = { .json = json };
	struct error_text text = { "" };
	json_object_begin(&findings.out, NULL);
	json_array_begin(&findings.out, "findings");
	int error = shared_store_check(&config->store, &(struct shared_listener){ tell, &findings },
	                               &text);
	if (error != 0)
		tell(&findings, SHARED_ERROR, "connection",
		     text.text[0] ? text.text : error_name(error));
	json_array_end(&findings.out);
	json_add_bool(&findings.out, "fit", findings.errors == 0);
	json_object_end(&findings.out);
	if (json)
		printf("%.*s\n", (int)findings.out.len, findings.out.ptr ? findings.out.ptr : "");
	else
		printf("\n%s\n", findings.errors > 0     ? "not fit: correct the errors first"
		                 : findings.warnings > 0 ? "fit, with warnings"
		                                         : "fit");
	buf_free(&findings.out);
	return findings.errors == 0 ? EXIT_CODE_OK : EXIT_CODE_FAILED;
}

/* The URL is read as that of `stile serve` is. */
static int load(const struct store_options *options, char *url, struct config **ret_config)
{
	char flag[] = "--store";
	char *flags[] = { flag, url };
	struct config_input input = { .path = options->config,
		                      .flag_count = url ? 2 : 0,
		                      .flags = flags };
	struct config_report report;
	int error = config_load(&input, ret_config, &report);
	if (error != 0)
		config_report_print(&report, stderr);
	config_report_free(&report);
	return error;
}

int store_command(int argc, char **argv)
{
	struct store_options options = { 0 };
	struct error_text text = { "" };
	int rest = 0;
	if (options_parse(store_option_table, argc, argv, &options, &rest, &text) != 0)
		return command_usage_error("store", text.text);
	const char *what = rest > 0 ? argv[0] : "";
	if (strcmp(what, "check") != 0 && strcmp(what, "init") != 0 && strcmp(what, "migrate") != 0)
		return command_usage_error("store", "expected check, init or migrate");
	if (rest > 2 || (rest == 1 && !options.config))
		return command_usage_error("store", "expected the URL of one store, or --config");
	struct config *config = NULL;
	if (load(&options, rest == 2 ? argv[1] : NULL, &config) != 0)
		return EXIT_CODE_USAGE;
	int code = EXIT_CODE_USAGE;
	if (config->store.kind == CONFIG_STORE_LOCAL) {
		code = command_usage_error("store",
		                           "this configuration has a local store, expected "
		                           "the URL of a shared one");
	} else if (strcmp(what, "check") == 0) {
		code = check(config, options.json);
	} else {
		int error = strcmp(what, "migrate") == 0
		                    ? shared_store_migrate(&config->store, &text)
		                    : shared_store_init(&config->store, &text);
		if (error != 0)
			fprintf(stderr, "stile: %s\n",
			        text.text[0] ? text.text : error_name(error));
		else
			printf("%s\n", text.text[0] ? text.text : "done");
		code = error == 0 ? EXIT_CODE_OK : EXIT_CODE_FAILED;
	}
	config_free(config);
	return code;
}
