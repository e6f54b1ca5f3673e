/*
 * config: the configuration, from a YAML file, the environment and the flags of the
 * command line (which override the file).
 *
 * One table of options (config_rows.c) drives reading, ranges, defaults, what
 * can be reloaded, `stile check`, docs/configuration.md and the manual pages.
 * Where a flag of `stile serve` is the same thing, its row is shared. A value is written
 * into the options of the module that uses it.
 *
 * A load reports all problems at once, each with file, line, column, the option,
 * what was found and what was expected. Secrets never get into a report: a value
 * that came from the environment or a file is shown as it was written (${NAME}),
 * the value of a secret not at all.
 *
 * Room:      config. Threads: a config is read only once it is loaded; any thread
 *            may read it. All its texts have a NUL behind them.
 * Ownership: a config owns everything that its specs point to, and wipes it when
 *            it is freed; a report owns its texts and outlives the config.
 * Failure:   ERR_CONFIG with at least one error in the report; -ENOMEM.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"
#include "config/options.h"
#include "deliver/policy.h"
#include "door/auth/auth_spec.h"
#include "door/source.h"
#include "gate/recipe/recipe_spec.h"
#include "gate/recipe/route.h"
#include "net/tls/tls.h"
#include "sink/file_outlet.h"
#include "sink/http/http_outlet.h"
#include "sink/postgres/postgres_outlet.h"
#include "store/local/local_store.h"
#include "store/store.h"
#include "sys/file.h"

struct loop;

#define CONFIG_SOURCES_MAX 256u
#define CONFIG_SINKS_MAX ROUTE_SINKS_MAX
#define CONFIG_ROUTES_MAX ROUTES_MAX
#define CONFIG_ROUTE_NAMES_MAX 32u /* in `from` and in `to` */
#define CONFIG_CASES_MAX 64u       /* of one source */
#define CONFIG_PROBLEMS_MAX 50u
#define CONFIG_ADMIN_TOKENS_MAX 5u
#define CONFIG_RESP_PASSWORDS_MAX 5u

/* ---- options of `stile serve` ---- */

/* Flags. Most of them are options of the file too, with the same kind, range, default and
 * help. */
struct serve_options {
	const char *config; /* the configuration file; NULL: none */
	const char *listen;
	const char *admin; /* where the admin listener is; "none" */
	const char *resp;  /* where the Redis door is; "none" */
	const char *resp_scope;
	uint64_t resp_tls; /* enum serve_resp_tls */
	uint64_t resp_max_value;
	uint64_t resp_idle_ms;            /* 0: no limit */
	struct local_store_options local; /* `path` is the data folder */
	const char *store; /* the URL of a shared one; NULL: that of the file, or none */
	uint64_t window_ms;
	struct tls_options tls; /* without cert_file: none */
	uint64_t threads;
	uint64_t log_json;
	uint64_t print_envelope;
	uint64_t commit;   /* enum serve_commit */
	uint64_t io_uring; /* enum serve_io_uring */
	uint64_t body_bytes;
	uint64_t connections;
	uint64_t connections_per_address;
	uint64_t open_tickets;
};

enum serve_commit { SERVE_COMMIT_AUTO, SERVE_COMMIT_INLINE, SERVE_COMMIT_THREAD };

enum serve_resp_tls { SERVE_RESP_TLS_AUTO, SERVE_RESP_TLS_OFF };

enum serve_io_uring { SERVE_IO_URING_AUTO, SERVE_IO_URING_OFF };

extern const struct option_table serve_option_table;

/* ---- the result ---- */

/* Line 0: not from the file. */
struct config_place {
	uint32_t line, column;
};

struct config_source {
	struct span name;
	struct span preset;         /* empty: the recipe is all its own */
	struct source_options door; /* as the doors take it; `recipe` and `auth` are those below */
	bool ack_delivered;         /* the answer waits for the outcome: door.wait_ms */
	struct recipe_case_spec plain; /* id, type, …, claims: without `recipes` */
	struct recipe_spec recipe;     /* its cases are those of the preset, `recipes` or `plain` */
	struct auth_spec auth;
	struct config_place place;
};

enum config_claims_enabled { CONFIG_CLAIMS_AUTO = 0, CONFIG_CLAIMS_ON, CONFIG_CLAIMS_OFF };

/* The claims API. */
struct config_claims {
	enum config_claims_enabled enabled;
	struct source_claims_options door; /* but for `mode`, which depends on the listener */
	struct auth_spec auth;
	struct config_place place;
};

/* Does it need a known caller, or can only this machine reach it? `listen` is the address
 * of the start, which a reload does not change. */
bool config_claims_guarded(const struct config_claims *claims, const char *listen);

enum config_sink_kind {
	CONFIG_SINK_STDOUT = 0,
	CONFIG_SINK_HTTP,
	CONFIG_SINK_FILE,
	CONFIG_SINK_POSTGRES,
	CONFIG_SINK_STILE,
	CONFIG_SINK_KINDS,
};

/* A line of standard output or of a file. */
enum config_print { CONFIG_PRINT_EVENT = 0, CONFIG_PRINT_ENVELOPE, CONFIG_PRINT_AS_TOP };

struct config_sink {
	struct span name;
	enum config_sink_kind kind;
	uint32_t id; /* of its tickets; 0: standard output */
	struct deliver_policy policy;
	uint32_t rule_count; /* of `retry.on` … */
	struct span rules[JUDGE_RULES_MAX];
	bool steps_aside;                        /* order.stuck */
	struct span dead_letter;                 /* the sink that dead letters go to; empty: none */
	enum config_print print;                 /* stdout, file */
	struct http_outlet_options http;         /* http, stile */
	struct file_outlet_options file;         /* file; of stdout, `envelope` */
	struct postgres_outlet_options postgres; /* `timeout` and `connect_timeout` are in `http` */
	struct config_place place;
};

struct config_route {
	uint32_t from_count, to_count, condition_count;
	struct span from[CONFIG_ROUTE_NAMES_MAX];
	struct span to[CONFIG_ROUTE_NAMES_MAX];
	struct span type, order_by;
	struct recipe_condition conditions[RECIPE_SPEC_CONDITIONS_MAX];
	struct config_place place;
};

enum config_store_kind { CONFIG_STORE_LOCAL = 0, CONFIG_STORE_REDIS, CONFIG_STORE_POSTGRES };

/* A store that several gateways share; without a URL, the local one of `serve`. */
struct config_store {
	enum config_store_kind kind;
	struct span url;      /* a secret: with its password */
	struct span password; /* empty: that of the URL */
	uint32_t lease_ms;    /* of a delivery; a node that is silent this long counts as dead */
};

struct config {
	struct serve_options serve;
	struct config_store store;
	uint32_t admin_token_count;
	struct span admin_tokens[CONFIG_ADMIN_TOKENS_MAX];
	struct config_claims claims;
	uint32_t resp_password_count;
	struct span resp_passwords[CONFIG_RESP_PASSWORDS_MAX];
	uint32_t source_count;
	struct config_source *sources; /* in the order of the file; at least one */
	uint32_t sink_count;
	struct config_sink *sinks; /* at least one */
	uint32_t route_count;
	struct config_route *routes; /* none: everything goes to every sink */

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
/* All problems, one a line, and the number of those left out. */
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
	/* A reload: does not wait for a pipe, and rejects an empty file, which is probably being
	 * written. */
	bool again;
};

/* The report is also filled on success: it may have warnings. */
int config_load(const struct config_input *input, struct config **ret_config,
                struct config_report *report) must_check;
struct config *config_free(struct config *config); /* accepts NULL, returns NULL */

const struct config_source *config_find_source(const struct config *config, struct span name);
const struct config_sink *config_find_sink(const struct config *config, struct span name);

const char *config_sink_word(enum config_sink_kind kind); /* "stdout", "http", … */

enum config_store_kind config_store_kind_of(struct span url);
/* Can a part of it be unreachable while others work: a cluster? */
bool config_store_in_parts(struct span url);
/* The URL for messages: without user, password and parameters. */
void config_store_label(struct span url, struct buf *out);
bool config_spools(const struct config *config); /* does any source? */

/* The routes, compiled; a configuration that was loaded has no problem but memory. `key`
 * as for route_set_new(). */
int config_routes_new(const struct config *config, const unsigned char *key,
                      struct route_set **ret_set, struct route_problem *ret_problem) must_check;

/* For people: "none", "header", "standard-webhooks", … */
const char *config_auth_word(enum auth_kind kind);

/* ---- outlets of sinks ---- */

/* The outlet does not need the configuration. ERR_CONFIG with a text, -ENOMEM. */
int config_outlet_open(const struct config_sink *sink, struct loop *loop,
                       struct outlet **ret_outlet, struct error_text *ret_text) must_check;

/* ---- shared stores, by their kind ---- */

/* Texts of errors hold nothing of the URL's secrets. */

/* `ret_key`: claims are digested under it; it lives as long as the store. ERR_AWAY: the store
 * is unreachable, try again; a person has to fix all else. */
int shared_store_open(const struct config *config, struct store **ret_store,
                      const unsigned char **ret_key, struct error_text *ret_text) must_check;

enum shared_level { SHARED_FINE = 0, SHARED_WARNING, SHARED_ERROR };

/* Gets the findings of shared_store_check(). */
struct shared_listener {
	void (*tell)(void *user, enum shared_level level, const char *name, const char *text);
	void *user;
};

/* Is the server fit? An error: it cannot be asked. */
int shared_store_check(const struct config_store *store, const struct shared_listener *listener,
                       struct error_text *ret_text) must_check;
/* Create what the store needs, or bring it to this version. The text reports the changes. */
int shared_store_init(const struct config_store *store, struct error_text *ret_text) must_check;
int shared_store_migrate(const struct config_store *store, struct error_text *ret_text) must_check;

/* ---- reloading ---- */

struct config_change {
	const char *option; /* "listen", "sources.orders", "routes" */
	bool reloads;       /* else it needs a restart */
	/* "added", "changed", "changed: window, auth.secret", "127.0.0.1:1 becomes 127.0.0.1:2";
	 * of what may be a secret only that it changed. */
	const char *text;
};

struct config_diff {
	struct config_change *changes;
	uint32_t count;
	uint32_t restarts; /* of them need a restart */
	struct arena arena;
};

/* What `next` changes. Options that reload are compared with the last configuration in use;
 * options that need a restart with that of the start, so that they are reported as long as
 * they differ. */
struct config_states {
	const struct config *start;
	const struct config *last;
	const struct config *next;
};
/* Does the sink need another outlet or another policy? */
bool config_sink_changed(const struct config_sink *old, const struct config_sink *next);
int config_diff(const struct config_states *states, struct config_diff *ret_diff) must_check;
void config_diff_free(struct config_diff *diff); /* leaves an empty one */
