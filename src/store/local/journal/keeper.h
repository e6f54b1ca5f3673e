/*
 * keeper: does the slow file work beside the owner: prepares the next segment,
 * writes claims files, retires files. It decides nothing.
 *
 * Threads:   a thread of its own, or none (`inline`): then each call does its
 *            work at once, for tests that must repeat exactly. The owner calls
 *            everything here but keeper_turn(); only keeper_get() with `wait` ever waits.
 * Ownership: a posted job is the keeper's until keeper_collect() gives it back;
 *            free it with keeper_job_free().
 * Failure:   in job->error and from keeper_get(): -errno.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "store/local/journal/claims_file.h"
#include "store/local/journal/segment.h"

enum keeper_job_kind { KEEPER_CLAIMS = 1, KEEPER_RETIRE = 2 };

struct keeper_job {
	struct keeper_job *next;
	enum keeper_job_kind kind;
	uint64_t number;
	int error;
	/* CLAIMS. A dropped list is gathered again from the segment. */
	struct claims_list list;
	struct claims_summary summary;
	uint64_t segment_end;
	size_t records_max;
	bool dense; /* out: more records than that, no file was written */
	/* RETIRE */
	bool retire_segment;
	bool reuse; /* it has the size of a new one: may become the spare */
	bool retire_claims;
};

struct keeper;

int keeper_new(const struct folder *folder, bool run_inline, struct keeper **ret_keeper) must_check;
struct keeper *keeper_free(struct keeper *keeper); /* accepts NULL; jobs not begun are dropped */

/* Prepare this number's file; nothing if that is under way already. */
void keeper_want(struct keeper *keeper, uint64_t number);
/* So many bytes of the current segment are used: the next one must be ready before all
 * are. */
void keeper_note_used(struct keeper *keeper, uint64_t bytes);
/* A write of the journal has ended, and the disk is free until the next one: from any
 * thread. What the keeper writes in between does not stand before a commit. */
void keeper_turn(struct keeper *keeper);
/* The file wanted last, open for writing: 0; -EAGAIN: not yet (never with
 * `wait`, unless none was wanted); else why it could not be. Once an attempt has
 * failed nobody waits for the next one: that error stands until one succeeds. */
int keeper_get(struct keeper *keeper, uint64_t number, bool wait, int *ret_fd) must_check;

int keeper_problem(struct keeper *keeper);    /* the error that stands, or 0 */
bool keeper_preparing(struct keeper *keeper); /* keeper_get() may soon say more */

struct keeper_job *keeper_job_new(enum keeper_job_kind kind, uint64_t number);
struct keeper_job *keeper_job_free(struct keeper_job *job);
void keeper_post(struct keeper *keeper, struct keeper_job *job);
struct keeper_job *keeper_collect(struct keeper *keeper); /* a finished one, or NULL */
