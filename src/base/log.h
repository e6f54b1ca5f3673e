/*
 * log: what an operator reads. One line per message on standard error, as
 * logfmt text or as JSON.
 *
 *   log_warn("segment is damaged", log_str("file", path), log_u64("offset", at));
 *
 * A message is a fixed phrase; what varies is in typed fields. Values are
 * escaped here and nowhere else, so no byte of a peer can forge a line or reach
 * the terminal as a control sequence. What is secret must not be given to the
 * log at all: redaction belongs to the caller.
 *
 * Every call site may write LOG_BURST lines in LOG_WINDOW_MS; the next line that it writes
 * counts those that were suppressed (suppressed=n).
 *
 * Room:    base. It does not ask for the time: serve/ gives a clock function to
 *          log_setup(); without one, lines carry no time and have no limit.
 * Threads: any; one write(2) per line. log_setup() before threads start.
 * Failure: a line that cannot be written at once is lost and counted; a field that does not fit is
 *          left out and truncated=true says so. Nothing here allocates.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"

#define LOG_BURST 20u
#define LOG_WINDOW_MS UINT64_C(10000)
#define LOG_LINE_MAX 4096
#define LOG_VALUE_MAX 1024 /* bytes of a value; the rest is cut */

enum log_level { LOG_LEVEL_DEBUG = 0, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };
enum log_format { LOG_TEXT = 0, LOG_JSON };

struct log_options {
	enum log_format format;
	enum log_level level; /* lines below it are dropped */
	int fd;
	uint64_t (*now_ms)(void); /* unix time; NULL: no time in lines, no limit */
};

/* Before it is called: text, info and above, standard error, no time. */
void log_setup(const struct log_options *options);

enum log_kind { LOG_KIND_END = 0, LOG_KIND_SPAN, LOG_KIND_U64, LOG_KIND_BOOL };

struct log_field {
	const char *key; /* a word of ours: a-z, 0-9, _ */
	enum log_kind kind;
	struct span text;
	uint64_t number;
};

static inline struct log_field log_span(const char *key, struct span value)
{
	return (struct log_field){ .key = key, .kind = LOG_KIND_SPAN, .text = value };
}

static inline struct log_field log_str(const char *key, const char *value)
{
	return log_span(key, span_str(value));
}

static inline struct log_field log_u64(const char *key, uint64_t value)
{
	return (struct log_field){ .key = key, .kind = LOG_KIND_U64, .number = value };
}

static inline struct log_field log_bool(const char *key, bool value)
{
	return (struct log_field){ .key = key, .kind = LOG_KIND_BOOL, .number = value };
}

/* error=… in words, for a code of error.h. */
struct log_field log_code(int error);

/* The state of one call site. */
struct log_site {
	atomic_uint_fast64_t window_ms; /* when its window began */
	atomic_uint_fast32_t written;   /* in the window */
	atomic_uint_fast32_t suppressed;
};

bool log_wants(enum log_level level);
void log_write(struct log_site *site, enum log_level level, const char *message,
               const struct log_field *fields);

/* A few lines for a person, as they are; at most LOG_LINE_MAX bytes. */
void log_plain(struct span text);

#define log_debug(...) LOG_AT(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_info(...) LOG_AT(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_warn(...) LOG_AT(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_error(...) LOG_AT(LOG_LEVEL_ERROR, __VA_ARGS__)
/* With a limit that is not the call site's but, say, a source's: many lines about one
 * must not hide those about another. */
#define log_warn_of(site, ...) LOG_AT_SITE(site, LOG_LEVEL_WARN, __VA_ARGS__)

#define LOG_END ((struct log_field){ .kind = LOG_KIND_END })
#define LOG_FIRST_(first, ...) first
#define LOG_REST_(first, ...) __VA_ARGS__

/* The message is the first argument, the rest are fields; the added ends keep
 * both macros from ever being called with nothing to leave out. */
#define LOG_AT(level_, ...)                                   \
	do {                                                  \
		static struct log_site log_site_;             \
		LOG_AT_SITE(&log_site_, level_, __VA_ARGS__); \
	} while (0)

#define LOG_AT_SITE(site_, level_, ...)                                                           \
	do {                                                                                      \
		if (log_wants(level_))                                                            \
			log_write(site_, level_, LOG_FIRST_(__VA_ARGS__, LOG_END),                \
			          (const struct log_field[]){ LOG_REST_(__VA_ARGS__, LOG_END) }); \
	} while (0)
