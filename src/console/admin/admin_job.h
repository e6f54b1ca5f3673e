/*
 * admin_job: what is done to many tickets, one after the other: replay, release, drop.
 *
 * A job scans the store a piece at a time and acts on what its filter matches, a few
 * operations at once. It lives in memory and ends with the process. Nothing is lost by
 * that: a release or drop goes on by being asked for again, and a replay too, under the
 * same nonce, which skips what it has sent already.
 *
 * Replay: the same bytes are admitted again, with a single claim of (nonce, original
 * ticket). So it gets a ticket and an Idempotency-Key of its own, and the same replay
 * run twice is a duplicate. A dead or parked original is closed when that is durable.
 * A replay to another sink leaves its original as it is.
 * Of one ticket (`event` of the filter) it fails when nothing is sent again, with a text in
 * `problem`: there is none, it is still on its way, or it is a caller's.
 * What a job has sent itself, and what is a replay and was delivered, it leaves out; and
 * claims of callers, which go nowhere but to another sink.
 *
 * Room:      console. Threads: the one of the admin listener.
 * Ownership: admin_job_new() gives it; admin_job_begin() hands it to admin->jobs, from
 *            where it goes when it has ended and newer ones have too.
 * Failure:   of an act it is counted, of a scan it ends the job (`error`).
 */
#pragma once

#include "console/admin/admin.h"

#define ADMIN_NONCE_MAX 64u

enum job_kind { JOB_REPLAY, JOB_RELEASE, JOB_DROP };
enum job_state { JOB_RUNNING, JOB_DONE, JOB_CANCELLED, JOB_FAILED };

struct admin_job {
	struct admin_job *next;
	struct admin *admin;
	uint32_t id;
	enum job_kind kind;
	enum job_state state;

	/* What is asked of it, set before it begins. */
	struct admin_filter filter;
	bool dry_run;
	bool first_open; /* of one ticket: look among the open ones before the whole journal */
	/* Called once: when something is meant, when it has ended, or when that is not
	 * known for a while. NULL: nobody waits for it. */
	void (*known)(struct admin_job *job);
	struct http_request *request; /* for `known` */
	char nonce[ADMIN_NONCE_MAX];
	uint32_t nonce_len;
	uint64_t rate;  /* a second; 0: no limit */
	bool elsewhere; /* a replay to another sink: `to` */
	uint32_t to;

	/* What came of it. */
	uint64_t began_ms, ended_ms;
	uint64_t matched, acted, skipped, failed;
	int error;           /* why it failed */
	const char *problem; /* of one ticket: why nothing was meant; else NULL */

	/* Where it stands. */
	bool cancelled;
	bool met_open, met_claim; /* of one ticket: it is there, but not to be sent again */
	uint64_t allowed_at_ms;
	uint64_t allowance; /* acts that may begin now */
	uint64_t first_own; /* the lowest ticket that it made; 0: none */
	struct store_scan scan;
	bool scanning;
	bool stepping; /* an operation may end inside of its submit */
	size_t at;     /* in scan.items */
	uint32_t in_flight;
	struct act *spare;
	struct act *acts; /* NULL when it has ended */
};

struct admin_job *admin_job_new(struct admin *admin, enum job_kind kind); /* NULL: no memory */
struct admin_job *admin_job_free(struct admin_job *job); /* only before it has begun */

/* From now on it is among admin->jobs, and works. */
void admin_job_begin(struct admin_job *job);

/* Goes on, if it can. */
void admin_job_step(struct admin_job *job);
