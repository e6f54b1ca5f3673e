/*
 * main: the command line. Each command has a table of options, from which its help is
 * made.
 *
 * Room: cli.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/exit_code.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/filter/command.h"
#include "config/config.h"
#include "config/manual.h"
#include "config/options.h"
#include "serve/serve.h"

static int run_serve(int argc, char **argv);
static int run_version(int argc, char **argv);
static int run_help(int argc, char **argv);
static int run_manual(int argc, char **argv);

static const struct command commands[] = {
	{ "serve", "stile serve [OPTION…]", "run the gateway", NULL, &serve_option_table,
	  run_serve },
	{ "check", "stile check [OPTION…] FILE", "check a configuration for errors",
	  "  FILE                         the configuration; exit code 2 if it has errors\n",
	  &check_option_table, check_command },
	{ "init", "stile init [OPTION…]", "write a configuration to start from",
	  "  presets: auto, genesys, eventbridge, cxone, cloudevents, standard-webhooks, sns,\n"
	  "  sqs, lambda, journey, stripe, github, shopify, twilio\n",
	  &init_option_table, init_command },
	{ "journal", "stile journal verify|dump DIR", "read a data folder that no gateway has open",
	  "  verify DIR                   show what is in it and whether it is damaged\n"
	  "  dump DIR                     print its records as JSON lines\n",
	  NULL, journal_command },
	{ "why", "stile why [OPTION…] ID | --held", "show what was decided about an event, and why",
	  NULL, &why_option_table, why_command },
	{ "advise", "stile advise [OPTION…]", "show which windows are too short", NULL,
	  &advise_option_table, advise_command },
	{ "tickets", "stile tickets [OPTION…] [show TICKET]",
	  "list the open deliveries, or show everything about one event",
	  "  show TICKET                  the event's deliveries, and every attempt of each\n",
	  &tickets_option_table, tickets_command },
	{ "release", "stile release [OPTION…] [TICKET…]",
	  "deliver tickets that wait for a person: held, parked or dead",
	  "  TICKET                       the tickets; without any, the options select them\n",
	  &release_option_table, release_command },
	{ "drop", "stile drop [OPTION…] [TICKET…]",
	  "close tickets that wait for a person, without delivery",
	  "  TICKET                       the tickets; without any, the options select them\n",
	  &drop_option_table, drop_command },
	{ "replay", "stile replay [OPTION…] [TICKET…]",
	  "send events again, as new events, once for each nonce",
	  "  TICKET                       the tickets; without any, the options select them\n"
	  "\n"
	  "  stile replay --state dead --sink crm --since 2h --dry-run\n",
	  &replay_option_table, replay_command },
	{ "sinks", "stile sinks [OPTION…] [pause|resume NAME]",
	  "show the state of the sinks, pause or resume one", NULL, &sinks_option_table,
	  sinks_command },
	{ "stats", "stile stats [OPTION…]", "print the counters of a gateway", NULL,
	  &stats_option_table, stats_command },
	{ "store", "stile store check|init|migrate [OPTION…] [URL]",
	  "check a shared store, or prepare it",
	  "  check URL                    check the settings of the server; exit code 1 if stile\n"
	  "                               would refuse it\n"
	  "  init URL                     create the tables (PostgreSQL)\n"
	  "  migrate URL                  upgrade the tables to this version (PostgreSQL)\n"
	  "\n"
	  "  stile store check 'redis://:${REDIS_PASSWORD}@cache.example.com:6379'\n",
	  &store_option_table, store_command },
	{ "filter", "stile filter [OPTION…] [FILE…]",
	  "remove duplicate events from files and pipes",
	  "  FILE                         NDJSON or JSON arrays; without one, standard input\n"
	  "\n"
	  "  stile filter --preset genesys < events.ndjson > unique.ndjson\n"
	  "  zcat events.ndjson.gz | stile filter --rejected doubles.ndjson > unique.ndjson\n",
	  &filter_option_table, filter_command },
	{ "explain", "stile explain [OPTION…] [FILE…]", "show how a recipe reads an event",
	  "  FILE                         an event, several events (one per line), or an array;\n"
	  "                               - or no FILE: standard input\n",
	  &explain_option_table, explain_command },
	{ "manual", "stile manual stile.1|stile.yaml.5|options", "print a page of the manual",
	  "  stile.1                      this command line (roff; read it with man -l)\n"
	  "  stile.yaml.5                 the configuration file (roff)\n"
	  "  options                      the options of the file (Markdown)\n",
	  NULL, run_manual },
	{ "version", "stile version", "print the version", NULL, NULL, run_version },
	{ "help", "stile help [COMMAND]", "explain stile or one command", NULL, NULL, run_help },
};

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static void print_overview(FILE *out)
{
	fprintf(out, "stile makes at-least-once systems act once.\n"
	             "\n"
	             "usage: stile COMMAND [OPTION…]\n"
	             "\n");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
	fprintf(out, "\nSee stile help COMMAND. Exit codes: 0 done, 1 failed, 2 usage, 3 damaged "
	             "data.\n");
}

static void print_command(const struct command *command, FILE *out)
{
	fprintf(out, "usage: %s\n\n%s\n", command->usage, command->summary);
	if (command->options) {
		fputc('\n', out);
		options_print(*command->options, out);
	}
	if (command->more)
		fprintf(out, "\n%s", command->more);
}

static int run_serve(int argc, char **argv)
{
	struct serve_options flags = { 0 };
	struct error_text text;
	int rest = 0;
	if (options_parse(serve_option_table, argc, argv, &flags, &rest, &text) != 0)
		return command_usage_error("serve", text.text);
	if (rest > 0) {
		error_fill(&text, 0, "unexpected argument \"%s\"", argv[0]);
		return command_usage_error("serve", text.text);
	}
	struct config_input input = { .path = flags.config, .flag_count = argc, .flags = argv };
	struct config *config = NULL;
	struct config_report report;
	int code = EXIT_CODE_FAILED;
	int error = config_load(&input, &config, &report);
	if (error == ERR_CONFIG && !report.file && report.count > 0) {
		/* The command line alone is wrong. */
		code = command_usage_error("serve", report.problems[0].text);
	} else if (error == ERR_CONFIG) {
		config_report_print(&report, stderr);
		code = EXIT_CODE_USAGE;
	} else if (error != 0) {
		fprintf(stderr, "stile serve: %s\n", error_name(error));
	} else {
		serve_setup_log(&config->serve);
		config_log_report(&report);
		code = serve_run(config, &input);
	}
	config_report_free(&report);
	return code;
}

static int run_version(int argc, char **argv)
{
	if (argc > 0) {
		struct error_text text;
		error_fill(&text, 0, "unexpected argument \"%s\"", argv[0]);
		return command_usage_error("version", text.text);
	}
	printf("stile %s\n", STILE_VERSION);
	return EXIT_CODE_OK;
}

static int unknown_command(const char *name)
{
	struct error_text text;
	error_fill(&text, 0, "unknown command \"%s\"", name);
	return command_usage_error(NULL, text.text);
}

static int run_help(int argc, char **argv)
{
	if (argc == 0) {
		print_overview(stdout);
		return EXIT_CODE_OK;
	}
	const struct command *command = find_command(argv[0]);
	if (!command)
		return unknown_command(argv[0]);
	print_command(command, stdout);
	return EXIT_CODE_OK;
}

static int run_manual(int argc, char **argv)
{
	struct command_list list = { commands, ARRAY_LEN(commands) };
	if (argc != 1 || !manual_print(argv[0], list, stdout))
		return command_usage_error("manual", "expected stile.1, stile.yaml.5 or options");
	return fflush(stdout) == 0 ? EXIT_CODE_OK : EXIT_CODE_FAILED;
}

/* Keeps descriptors 0 to 2 from becoming files or sockets of ours, which a print would
 * then write to. */
static bool claim_standard_descriptors(void)
{
	bool out = fcntl(STDOUT_FILENO, F_GETFD) >= 0;
	for (int fd = open("/dev/null", O_RDWR); fd >= 0; fd = open("/dev/null", O_RDWR))
		if (fd > STDERR_FILENO) {
			close(fd);
			break;
		}
	return out;
}

int main(int argc, char **argv)
{
	if (!claim_standard_descriptors()) {
		fprintf(stderr,
		        "stile: standard output is closed; it must be open, since events are printed there\n");
		return EXIT_CODE_FAILED;
	}
	if (argc < 2) {
		print_overview(stderr);
		return EXIT_CODE_USAGE;
	}
	const char *name = argv[1];
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		name = "help";
	if (strcmp(name, "--version") == 0)
		name = "version";
	const struct command *command = find_command(name);
	if (!command)
		return unknown_command(name);
	for (int i = 2; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			print_command(command, stdout);
			return EXIT_CODE_OK;
		}
	return command->run(argc - 2, argv + 2);
}
