/*
 * config: what stile shall do, from a YAML file, the environment and the flags
 * of the command line (which count more than the file).
 *
 * One table of options (config_options) drives reading, ranges, defaults, what
 * can be reloaded, `stile check`, docs/configuration.md and the manual pages.
 * Where a flag of `stile serve` is the same thing, its row is shared.
 *
 * A load reports all problems at once, each with file, line, column, the option,
 * what was found and what was expected. Secrets never get into a report: a value
 * that came from the environment or a file is shown as it was written (${NAME}),
 * the value of a secret not at all.
 *
 * Room:      app. Threads: a config is read only once it is loaded; any thread
 *            may read it. All its texts have a NUL behind them.
 * Ownership: a config owns everything that its specs point to, and wipes it when
 *            it is freed; a report owns its texts and outlives the config.
 * Failure:   ERR_CONFIG with at least one error in the report; -ENOMEM.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "app/serve.h"
#include "base/arena.h"
#include "base/buf.h"
#include "door/auth_spec.h"
#include "gate/recipe_spec.h"
#include "sys/file.h"

#define CONFIG_SOURCES_MAX 256u
#define CONFIG_SINKS_MAX 1u
#define CONFIG_CASES_MAX 64u /* of one source */
#define CONFIG_PROBLEMS_MAX 50u

/* ---- the result ---- */

/* Line 0: not from the file. */
struct config_place {
	uint32_t line, column;
};

/* What becomes of an event with a known key and other content. */
enum config_conflict {
	CONFIG_CONFLICT_KEEP_FIRST = 0, /* the second is kept aside */
	CONFIG_CONFLICT_LET_THROUGH,
	CONFIG_CONFLICT_REJECT, /* 422 */
};

struct config_source {
	struct span name;
	struct span path;   /* of its requests: "/in/genesys" */
	struct span preset; /* empty: the recipe is all its own */
	enum config_conflict on_conflict;
	uint64_t wait_ms; /* for the outcome, before the answer; 0: not at all */
	struct recipe_spec recipe;
	struct auth_spec auth;
	struct config_place place;
};

enum config_sink_kind { CONFIG_SINK_STDOUT = 0 };

struct config_sink {
	struct span name;
	enum config_sink_kind kind;
};

struct config {
	struct serve_options serve;
	uint32_t source_count;
	struct config_source *sources; /* in the order of the file; at least one */
	uint32_t sink_count;
	struct config_sink *sinks; /* at least one */

	struct arena arena;
	struct config_mark *marks; /* where texts stood in the file */
};

/* ---- the report ---- */

enum config_level { CONFIG_ERROR = 0, CONFIG_WARNING };

struct config_problem {
	enum config_level level;
	struct config_place place;
	const char *option; /* "sources.genesys.window"; may be empty */
	const char *text;   /* "found …, expected …" */
};

struct config_report {
	const char *file;                /* what was loaded; NULL: no file */
	struct config_problem *problems; /* by line and column */
	uint32_t count;
	uint32_t errors, warnings; /* also those beyond CONFIG_PROBLEMS_MAX of a level */
	struct arena arena;
};

/* "file:line:column: option: text", without a line break. */
void config_problem_write(const struct config_report *report, const struct config_problem *problem,
                          struct buf *out);
/* All of them, one a line, and how many were left out. */
void config_report_print(const struct config_report *report, FILE *out);
void config_log_report(const struct config_report *report); /* as log lines */
void config_report_free(struct config_report *report);      /* leaves an empty one */

/* ---- loading ---- */

struct config_input {
	const char *path;        /* NULL: the defaults alone */
	const struct span *text; /* not NULL: the file's content, `path` is its name only */
	int flag_count; /* flags of `stile serve`, without other arguments; kept as they are */
	char **flags;
	const char *(*variable)(const char *name); /* NULL: the environment */
	struct file_system *files;                 /* NULL: the machine's */
};

/* The report is filled also when all is well: it may have warnings. */
int config_load(const struct config_input *input, struct config **ret_config,
                struct config_report *report) must_check;
struct config *config_free(struct config *config); /* accepts NULL, returns NULL */

const struct config_source *config_find_source(const struct config *config, struct span name);

/* For people: "none", "header", "standard-webhooks", … */
const char *config_auth_word(enum auth_kind kind);

/* ---- reloading ---- */

struct config_change {
	const char *option;
	bool reloads;     /* else it needs a restart */
	const char *text; /* "changed", "added", "127.0.0.1:1 becomes 127.0.0.1:2" */
};

struct config_diff {
	struct config_change *changes;
	uint32_t count;
	uint32_t restarts; /* of them need a restart */
	struct arena arena;
};

/* What the next one changes: of what reloads, against the last that was taken over;
 * of what needs a restart, against that of the start, so that it is told as long as
 * it differs. */
struct config_states {
	const struct config *start;
	const struct config *last;
	const struct config *next;
};
int config_diff(const struct config_states *states, struct config_diff *ret_diff) must_check;
void config_diff_free(struct config_diff *diff); /* leaves an empty one */
