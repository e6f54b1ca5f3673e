/*
 * filter: the gate over files and pipes. Events in, those that are new out, byte
 * for byte.
 *
 *   read a block ──► split ──► recipe ──► decide ──► write what passed
 *
 * Everything stays where it was read: events are spans of the block, and what
 * passes is written from there, neighbours as one piece. Claims of a batch of
 * events are computed first and decided then, so that memory answers meanwhile.
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
 *            then. -EPIPE: whoever read the output has left. An event that is not
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
	uint64_t would;   /* shadow claims would have dropped these, and they passed */
	uint64_t undated; /* no time in them: they are judged at that of their predecessor */
	uint64_t claims;  /* remembered now … */
	uint64_t claims_bytes;
	uint64_t claims_forgotten; /* … and no more */
};

struct filter_options {
	const struct recipe *recipe;
	int out_fd;
	int rejected_fd; /* -1: nobody wants to know */
	bool arrival;    /* windows by the clock, not by the time in the events */
	bool envelope;   /* events come with their headers, see filter_envelope.h */
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
	const char *name; /* for people; NULL: standard input */
};

int filter_new(const struct filter_options *options, struct filter **ret_filter) must_check;
struct filter *filter_free(struct filter *filter); /* accepts NULL, returns NULL */

/* Everything of one input. What was found before a failure is written still, where
 * that can be done. ERR_INVALID: an array that is not one, or ends too early. */
int filter_run(struct filter *filter, const struct filter_input *input,
               struct error_text *ret_text) must_check;

struct filter_stats filter_get_stats(const struct filter *filter);
