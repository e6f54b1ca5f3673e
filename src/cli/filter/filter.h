/*
 * filter: the gate over files and pipes. Events in; those that are new out, byte for
 * byte.
 *
 *   read a block ──► split ──► recipe ──► claims ──► write what passes
 *
 * A line of `rejected` is a JSON object: number (of the event, from 1 over all
 * inputs), line, file, verdict, reason, first (number of the event that holds the
 * claim), claim and parts (its rule), and the event itself: under `event`, or as a
 * string under `text` when it is not JSON, or its first bytes under `begins`.
 *
 * Room:      cli. Threads: one owner.
 * Ownership: filter_new() gives it, filter_free() takes it; descriptors and recipe
 *            are the caller's and outlive it.
 * Failure:   0 or a negative error, and a text for the operator; only filter_free()
 *            then. -EPIPE: the reader of the output has closed it. An event that is not
 *            understood is `bad`, no failure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "gate/recipe/recipe.h"
#include "gate/verdict.h"
#include "store/store.h"
#include "sys/clock.h"

struct filter;

struct filter_stats {
	uint64_t bytes;
	uint64_t read; /* events, also bad ones */
	uint64_t passed;
	uint64_t verdicts[VERDICT_COUNT];
	uint64_t bad;
	uint64_t would;   /* events that passed and that a shadow claim would have dropped */
	uint64_t undated; /* events without a time: judged at that of the event before */
	uint64_t claims;  /* in memory */
	uint64_t claims_bytes;
	uint64_t claims_forgotten; /* expired and removed */
};

struct filter_options {
	const struct recipe *recipe;
	int out_fd;
	int rejected_fd; /* -1: none */
	bool arrival;    /* windows by the clock, not by the time in the events */
	bool envelope;   /* events come with their headers, see split.h */
	enum store_conflict on_conflict;
	const struct clock *clock; /* of `arrival` */
	/* After each block. May be NULL. */
	void (*progress)(void *user, const struct filter_stats *stats);
	/* A bad event, in words: "file:line: …". May be NULL. */
	void (*complain)(void *user, const char *text);
	void *user;
};

struct filter_input {
	int fd;
	const char *name; /* for messages; NULL: standard input */
};

int filter_new(const struct filter_options *options, struct filter **ret_filter) must_check;
struct filter *filter_free(struct filter *filter); /* accepts NULL, returns NULL */

/* All events of one input. What was decided before a failure is still written, if
 * possible. ERR_INVALID: nobody can know where the next event begins. */
int filter_run(struct filter *filter, const struct filter_input *input,
               struct error_text *ret_text) must_check;

struct filter_stats filter_get_stats(const struct filter *filter);
