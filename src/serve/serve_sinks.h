/*
 * serve_sinks: the sinks of a configuration, ready for delivery.
 *
 * Room:      serve. Threads: the main one.
 * Ownership: what is made needs the configuration no more.
 * Failure:   ERR_CONFIG with a text, -ENOMEM.
 */
#pragma once

#include "config/config.h"
#include "deliver/deliver.h"

/*
 * Sinks that change while stile runs. New ones get a lane; changed ones go on with
 * another outlet and policy when what is under way has ended; the lanes of removed ones
 * are paused, and keep what waits for them. All that takes a while: until
 * serve_sinks_changing() is false, neither configuration may be freed nor another
 * change begun.
 *
 * One whose outlet could not be made goes on as it was. serve_sinks_failed() tells which;
 * given to the next change, of the same configuration or another, it is tried again.
 */
struct sinks_change;

struct sinks_failed {
	uint32_t count;
	uint32_t ids[CONFIG_SINKS_MAX];
};

struct sinks_step {
	const struct config *last, *next;
	const struct sinks_failed *failed; /* of the change before */
};

/* New lanes are there when it returns: what is routed to them is safe. On failure those
 * that were made stay, without a use. */
int serve_sinks_change(struct deliver *deliver, const struct sinks_step *step,
                       struct sinks_change **ret_change, struct error_text *ret_text) must_check;
bool serve_sinks_changing(const struct sinks_change *change); /* accepts NULL */
/* Of one that is done; NULL: none failed. */
void serve_sinks_failed(const struct sinks_change *change, struct sinks_failed *ret_failed);
/* When it is done, or no lane runs any more. Accepts NULL, returns NULL. */
struct sinks_change *serve_sinks_change_free(struct sinks_change *change);

struct serve_sinks_options {
	struct store_host *host;
	struct feed *feed;
	uint32_t lease_ms; /* 0: leases do not end */
};

/* A lane for every sink. */
int serve_sinks_start(const struct config *config, const struct serve_sinks_options *options,
                      struct deliver **ret_deliver, struct error_text *ret_text) must_check;
