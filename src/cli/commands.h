/*
 * commands: the commands of stile, one file each: name_command.c. main.c has the table.
 *
 * Room:    cli. Threads: the main thread.
 * Failure: each command returns the exit code (base/exit_code.h) and has printed what is
 *          wrong.
 */
#pragma once

#include "base/buf.h"
#include "config/config.h"
#include "config/options.h"
#include "config/preset_guide.h"
#include "gate/recipe/presets.h"

extern const struct option_table check_option_table, init_option_table, explain_option_table,
	why_option_table, advise_option_table, tickets_option_table, release_option_table,
	drop_option_table, replay_option_table, sinks_option_table, stats_option_table,
	store_option_table;

int check_command(int argc, char **argv);
int init_command(int argc, char **argv);
int explain_command(int argc, char **argv);
int journal_command(int argc, char **argv);
int why_command(int argc, char **argv);
int advise_command(int argc, char **argv);
int tickets_command(int argc, char **argv);
int release_command(int argc, char **argv);
int drop_command(int argc, char **argv);
int replay_command(int argc, char **argv);
int sinks_command(int argc, char **argv);
int stats_command(int argc, char **argv);
int store_command(int argc, char **argv);

/* What commands print, appended to `out`. */

/* One JSON object, without any secret. `config` is NULL when there are errors. */
void check_write_json(const struct config *config, const struct config_report *report,
                      struct buf *out);
/* The sources as a table. */
void check_write_table(const struct config *config, struct buf *out);
/* The sinks, and which sources lead there. */
void check_write_sinks(const struct config *config, struct buf *out);

/* A commented configuration. It passes `stile check` as it is, and with the lines that are
 * commented out taken in. */
void init_write(const struct preset *preset, const struct preset_guide *guide, struct buf *out);

/* As text, the JSON of recipe_explain(), why_answer() and why_advise(). ERR_INVALID: it is
 * of another shape. */
int explain_write_text(struct span json, struct buf *out) must_check;
int why_write_text(struct span json, struct buf *out) must_check;
int advise_write_text(struct span json, struct buf *out) must_check;
