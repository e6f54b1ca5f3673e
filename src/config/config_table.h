/*
 * config_table: the one table of all options of the configuration file.
 *
 * It drives reading a file, comparing two, defaults, the manual and suggestions for
 * misspelt names. The rows themselves: config_rows.h. Offsets are those of the struct
 * that the row's section is read into.
 *
 * Room: config. Threads: constant.
 */
#pragma once

#include "config/options.h"

/* What is written at a path, and what becomes of it. */
enum config_kind {
	/* values */
	CONFIG_FLAG,    /* that of a flag of serve, in struct serve_options */
	CONFIG_TEXT,    /* struct span */
	CONFIG_STRING,  /* const char * */
	CONFIG_CHOICE,  /* which of the words; an enum or bool of `size` bytes */
	CONFIG_SECONDS, /* uint32_t, from a duration */
	CONFIG_MS,      /* uint32_t or uint64_t, from a duration */
	CONFIG_COUNT,   /* uint32_t or uint64_t */
	CONFIG_SIZE,    /* the same, bytes */
	CONFIG_PATH,    /* struct span: of a request */
	CONFIG_PRESET,  /* struct span: the name of one */
	CONFIG_PART,    /* struct span: a part of an event */
	CONFIG_SECRET,  /* struct span */
	/* one or a list of at most `max`: struct span [max], uint32_t at `count_offset` */
	CONFIG_PARTS,
	CONFIG_TEXTS,
	CONFIG_SECRETS,
	CONFIG_NETWORKS,
	/* what holds others: their paths begin with this one. Structs of `size` bytes, their
	 * number a uint32_t at `count_offset` */
	CONFIG_SECTION,
	CONFIG_NAMED, /* by a name that one chooses, their first member: `*` in the paths below */
	CONFIG_LIST,  /* `[]` in the paths below */
	/* shapes of their own */
	CONFIG_WHEN,      /* struct recipe_condition [], uint32_t at `count_offset` */
	CONFIG_CONTENT,   /* struct recipe_claim_spec */
	CONFIG_RATE,      /* struct limiter_policy: "50/s" */
	CONFIG_HEADERS,   /* struct http_headers: names and values */
	CONFIG_URL,       /* struct span: perhaps with a password, from a variable */
	CONFIG_STORE_URL, /* struct span */
};

/* Of which kinds of sinks an option is; 0: of all. */
enum config_sinks {
	CONFIG_OF_STDOUT = 1u << 0,
	CONFIG_OF_HTTP = 1u << 1,
	CONFIG_OF_FILE = 1u << 2,
	CONFIG_OF_POSTGRES = 1u << 3,
	CONFIG_OF_STILE = 1u << 4,
	CONFIG_OF_REQUESTS = CONFIG_OF_HTTP | CONFIG_OF_STILE,
};

struct config_option {
	const char *path; /* "sources.*.window" */
	enum config_kind kind;
	const struct option *flag; /* CONFIG_FLAG: the row that is shared */
	size_t offset, size, count_offset;
	uint64_t min, max;
	const char *choices;
	const char *value;    /* what the manual calls it */
	const char *standard; /* the default as one would write it; NULL: none */
	bool reload;          /* SIGHUP is enough, also for all below it */
	bool inside;          /* NAMED, LIST: the structs are at `offset`, else a pointer to them */
	const char *rows_of;  /* LIST: the section of its rows; NULL: PATH[] */
	uint8_t sinks;        /* enum config_sinks, as bits */
	const char *bare;     /* a section: a text in its place is this member of it */
	const char *also;     /* "password|token": what people write for its name */
	const char *help;
};

/* The rows from 0 on, in the order of the manual; NULL after the last. */
const struct config_option *config_table_row(size_t index);

/* The row of "SECTION.name" or, for the top, of "name"; NULL if there is none. */
const struct config_option *config_option_find(const char *section, struct span name);
/* Is the row directly in the section? ret_name (may be NULL) is its own name. */
bool config_option_in(const struct config_option *option, const char *section,
                      struct span *ret_name);

/* Is SIGHUP enough? */
bool config_option_reloads(const struct config_option *option);

/* Whichever row says it: its own or the shared one. */
const char *config_option_help(const struct config_option *option);
const char *config_option_standard(const struct config_option *option);
const char *config_option_value(const struct config_option *option);
const char *config_option_choices(const struct config_option *option);
