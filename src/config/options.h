/*
 * options: one table per command drives parsing, ranges, defaults and help; suggestions for
 * misspelt words; and what a command is.
 *
 * Room:      config. Threads: start-up only.
 * Ownership: text values point into argv or the table; nothing to free.
 * Failure:   -EINVAL with a text that names the option, what was found and
 *            what was expected.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/check.h"
#include "base/error.h"
#include "base/span.h"

enum option_kind {
	OPTION_TEXT,     /* const char * */
	OPTION_FLAG,     /* bool */
	OPTION_COUNT,    /* uint64_t */
	OPTION_SIZE,     /* uint64_t, bytes: 64KiB, 1MiB */
	OPTION_DURATION, /* uint64_t, milliseconds: 10s, 4d */
	OPTION_CHOICE,   /* uint64_t: which of the words in `choices` */
	OPTION_ADDRESS,  /* const char *, ADDR:PORT */
	OPTION_LISTEN,   /* const char *, ADDR:PORT or none */
	OPTION_UNIX,     /* const char *, ADDR:PORT, unix:/PATH or none */
	OPTION_TEXTS,    /* struct option_texts: may be given several times */
};

#define OPTION_TEXTS_MAX 32

struct option_texts {
	const char *texts[OPTION_TEXTS_MAX];
	uint32_t count;
};

struct option {
	const char *name; /* without the dashes */
	enum option_kind kind;
	size_t offset;        /* of its field in the command's struct */
	const char *value;    /* what help calls its value */
	const char *standard; /* the default, as one would write it; NULL: none */
	uint64_t min, max;    /* of numbers; both 0: no range */
	const char *choices;  /* "text|json" */
	const char *help;
};

/*
 * An option that earlier releases had. It is still read for one release, with a warning:
 * what it set is ignored, or set by its successor.
 */
struct option_old {
	const char *flag;      /* without the dashes; NULL: it was none */
	const char *path;      /* of the configuration file; NULL: it did not stand there */
	const char *successor; /* flag or last name of the path; NULL: there is none */
	const char *advice;    /* "store.keep_for is its successor" */
};

/* NULL: no release had it. */
const struct option_old *option_old_flag(struct span name);
const struct option_old *option_old_path(struct span path);

struct option_table {
	const struct option *options;
	size_t count;
};

/* NULL: there is none. */
const struct option *option_find(struct option_table table, struct span name);

void options_set_defaults(struct option_table table, void *values);

/* Sets what the arguments say and leaves the rest as it was. Arguments that are
 * not options are left in argv[0 … *ret_rest_count). */
int options_apply(struct option_table table, int argc, char **argv, void *values,
                  int *ret_rest_count, struct error_text *ret_text) must_check;

/* The defaults, then the arguments. */
int options_parse(struct option_table table, int argc, char **argv, void *ret_values,
                  int *ret_rest_count, struct error_text *ret_text) must_check;

/* Reads one value into its field of `values`; a text is borrowed. On failure
 * -EINVAL, and ret_expected says what would have been right. */
int option_set(const struct option *option, const char *text, void *values,
               struct error_text *ret_expected) must_check;

/* Which of the words in "one|two", or -1. */
int option_choice(const char *choices, struct span word);

bool option_is_address(const char *text); /* ADDR:PORT */
bool option_is_unix(const char *text);    /* unix:/PATH */
/* Of either: can only this machine reach it? */
bool option_is_loopback(const char *text);
/* The URL of a listener that was told one of these, and got this port. */
void option_url(const char *scheme, const char *address, uint16_t port, char *out, size_t room);

/* The table as people read it. */
void options_print(struct option_table table, FILE *out);

/* ---- "did you mean …?" ---- */

/* The known word nearest to what was written. Borrows all words. */
struct suggest {
	struct span wrote;
	struct span best; /* empty: nothing is near */
	unsigned distance;
};

struct suggest suggest_begin(struct span wrote);
void suggest_offer(struct suggest *suggest, struct span word);
/* All words of a list "one|two|three". */
void suggest_offer_choices(struct suggest *suggest, const char *choices);

/* ---- commands ---- */

/* A command of stile, for help and the manual. */
struct command {
	const char *name;
	const char *usage;
	const char *summary;
	const char *more; /* under the options; may be NULL */
	const struct option_table *options;
	int (*run)(int argc, char **argv);
};

struct command_list {
	const struct command *commands;
	size_t count;
};

/* Says what is wrong and where to read on; the exit code. */
int command_usage_error(const char *command, const char *text);
