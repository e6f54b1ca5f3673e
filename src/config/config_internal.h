/*
 * config_internal: the table of options, and functions shared by the files of config.
 *
 * config_rows.c     the table
 * config_read.c     load and free; walks the tree of the file by the table
 * config_value.c    one value: ${NAME}, file:, kinds and ranges
 * config_store.c    which store, URLs with a password; shared stores by their kind
 * config_source.c   a source: name, path, recipe, claims, conditions, auth
 * config_sink.c     a sink: its kind, the options that fit it, its outlet
 * config_route.c    routes, and checks of sources and sinks against them
 * config_check.c    checks across options and sections, and advice
 * config_report.c   the list of problems
 * config_diff.c     what a reload changes, by the table
 *
 * The table drives reading a file, comparing two, defaults, the manual and suggestions for
 * misspelt names. Offsets are those of the struct that the row's section is read into.
 *
 * A reader continues after every problem, so that all are reported at once; a value that it
 * could not read stays zero. Lack of memory is kept in `failed` and reported once, at the
 * end. "False: told" below means: it failed, and the problem is in the report.
 *
 * Room: config. Threads: as config.h; the table is constant.
 */
#pragma once

#include "codec/yaml.h"
#include "config/config.h"

/* ---- the table ---- */

/* The kind of a value, and the type of the field that it is read into. */
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
	/* with a reader of their own */
	CONFIG_WHEN,      /* struct recipe_condition [], uint32_t at `count_offset` */
	CONFIG_CONTENT,   /* struct recipe_claim_spec */
	CONFIG_RATE,      /* struct limiter_policy: "50/s" */
	CONFIG_HEADERS,   /* struct http_headers: names and values */
	CONFIG_URL,       /* struct span: perhaps with a password, from a variable */
	CONFIG_STORE_URL, /* struct span */
};

/* The kinds of sinks that an option is for; 0: all. */
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
	const char *flag; /* CONFIG_FLAG: the flag of serve whose row is shared */
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

/* The shared row of a flag, or NULL. */
const struct option *config_option_flag(const struct config_option *option);

/* From its own row, or from the shared row of a flag. */
const char *config_option_help(const struct config_option *option);
const char *config_option_standard(const struct config_option *option);
const char *config_option_value(const struct config_option *option);
const char *config_option_choices(const struct config_option *option);

/* ---- reading ---- */

struct config_reader {
	const struct config_input *input;
	struct config *config;
	struct config_report *report;
	struct buf option;            /* where it is: "sources.genesys.window" */
	int failed;                   /* -ENOMEM: not everything was read */
	struct config_values *values; /* NULL, or gets the values of the variables of a text */
};

#define CONFIG_VALUES_MAX 8u

struct config_values {
	struct span list[CONFIG_VALUES_MAX];
	uint32_t count; /* may be larger than CONFIG_VALUES_MAX */
};

/* A text that was written in the file, for problems that are found later. */
struct config_mark {
	struct config_mark *next;
	const char *ptr;
	struct config_place place;
	bool exact; /* its characters are those of the file, so columns can be added */
};

/* ---- config_report.c ---- */

/* About the option that the reader is at. A NULL node: about no place. */
void config_tell(struct config_reader *reader, enum config_level level,
                 const struct yaml_node *node, const char *format, ...) printf_like(4, 5);
void config_tell_at(struct config_reader *reader, enum config_level level,
                    struct config_place place, const char *format, ...) printf_like(4, 5);
void config_report_sort(struct config_report *report);

/* What a node is, for "found …": its text as it was written, cut. */
#define CONFIG_FOUND_MAX 96
struct config_found {
	char text[CONFIG_FOUND_MAX];
};
struct config_found config_found(const struct yaml_node *node);
/* The same, without the text: it may be a secret. */
const char *config_found_kind(const struct yaml_node *node);

/* The option's name grows by a member, an index, and shrinks again. */
size_t config_enter(struct config_reader *reader, struct span name);
size_t config_enter_index(struct config_reader *reader, uint32_t index);
void config_leave(struct config_reader *reader, size_t mark);

/* ---- config_value.c ---- */

void *config_alloc(struct config_reader *reader, size_t count, size_t size);

/* A text with its ${NAME}s replaced. False: told. */
bool config_read_text(struct config_reader *reader, const struct yaml_node *node,
                      struct span *ret_text);
/* The same, with a warning about likely typing errors. */
bool config_read_part(struct config_reader *reader, const struct yaml_node *node,
                      struct span *ret_text);
/* A value of one of the kinds that are no section. */
void config_read_value(struct config_reader *reader, const struct config_option *option,
                       const struct yaml_node *node, void *base);
/* One text or a list of at most `max`. False: told. */
bool config_read_texts(struct config_reader *reader, const struct config_option *option,
                       const struct yaml_node *node, struct span *ret_texts, uint32_t *ret_count);

/* A text, ${NAME} or file:PATH, that no report shows. False: told. */
bool config_read_secret(struct config_reader *reader, const struct yaml_node *node,
                        struct span *ret_text);
/* Reports a file that cannot hold certificates or keys (NULL: no file). The libraries that
 * read it later give poor messages. */
void config_check_pem(struct config_reader *reader, const char *option, const char *path);
/* Fields below a section become what the table calls their default, where that is a
 * number, a time, a size or a word. */
void config_set_defaults(const char *section, void *base);

/* Where a text of the configuration was written; line 0 if nowhere. */
struct config_mark config_mark_of(const struct config *config, const char *ptr);

/* ---- config_read.c ---- */

void config_read_section(struct config_reader *reader, const char *section,
                         const struct yaml_node *map, void *base);
/* A misspelt option may be the one that a later check misses: one mistake, one message. */
bool config_has_unknown(const char *section, const struct yaml_node *map);
/* False: told. */
bool config_is_map(struct config_reader *reader, const struct yaml_node *node);
/* True: told, with the line of the first. */
bool config_is_repeated(struct config_reader *reader, const struct yaml_node *map,
                        const struct yaml_node *member);

/* ---- config_store.c ---- */

/* A text that may be a URL. The value of a variable in the place of the password is the
 * whole password: none of its characters ends it. False: told. */
bool config_read_url(struct config_reader *reader, const struct yaml_node *node,
                     struct span *ret_url);
void config_read_store_url(struct config_reader *reader, const struct yaml_node *node,
                           struct span *ret_url);
void config_check_store(struct config_reader *reader);

/* ---- config_source.c ---- */

void config_read_sources(struct config_reader *reader, const struct yaml_node *map);
void config_add_default_source(struct config_reader *reader);
/* Names stand in URLs, metrics and digests. False: told. */
bool config_check_name(struct config_reader *reader, const struct yaml_node *node);

/* Checks the section; its options are read already. */
void config_read_claims_api(struct config_reader *reader, const struct yaml_node *map);

/* ---- config_sink.c ---- */

void config_read_rate(struct config_reader *reader, const struct yaml_node *node,
                      struct limiter_policy *limiter);
/* Names and values, one a member of the map. */
void config_read_headers(struct config_reader *reader, const struct yaml_node *map,
                         struct http_headers *ret_headers);
void config_read_sinks(struct config_reader *reader, const struct yaml_node *map);
void config_add_default_sink(struct config_reader *reader);
void config_check_sinks(struct config_reader *reader);

/* ---- config_route.c ---- */

void config_read_routes(struct config_reader *reader, const struct yaml_node *list);
void config_check_routes(struct config_reader *reader);

void config_read_claims(struct config_reader *reader, const struct yaml_node *list,
                        struct recipe_case_spec *spec);
/* Conditions, and the place of their number. */
void config_read_when(struct config_reader *reader, const struct yaml_node *map,
                      struct recipe_condition *ret_conditions, uint32_t *ret_count);

/* errors_before: how many there were before the source was read. */
void config_check_auth(struct config_reader *reader, const struct yaml_node *map,
                       struct auth_spec *auth, uint32_t errors_before);

/* ---- config_check.c ---- */

/* After file and flags: sets what sources inherit, and reports options that do not fit
 * together. */
void config_check_all(struct config_reader *reader);
