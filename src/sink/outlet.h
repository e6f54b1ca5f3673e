/*
 * outlet: a way out. The contract between deliver/ and every destination.
 *
 * deliver/ decides which attempt starts when, and what its result means for the
 * ticket; an outlet makes attempts and says what came of them. It never retries
 * by itself, and changes neither key nor bytes between attempts.
 *
 * Each outlet lives on a thread of its own with a loop of its own (sys/loop.h),
 * so it may block in send(), or go on in the loop and tell later: a slow sink
 * delays no other.
 *
 * Room:      sink; deliver/ sees only this header, config/ names concrete outlets.
 * Threads:   all on the outlet's thread, but interrupt(), which is for any.
 * Ownership: an attempt belongs to the outlet from send() or probe() to done();
 *            its texts stay until then. done() may send again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "gate/letter.h"
#include "gate/template.h"

#define OUTLET_TEXT_MAX 256u

/* What is known of an attempt. What was not sent is never unknown. */
enum outlet_answer {
	OUTLET_DONE = 1,  /* the effect is there: success, or a probe that found it */
	OUTLET_REFUSED,   /* an answer came, and it was no: see status */
	OUTLET_NOT_SENT,  /* it never left: refused, no name, TLS, a bad template, interrupted */
	OUTLET_UNKNOWN,   /* it left, or may have, and no answer came */
	OUTLET_NOT_FOUND, /* probe: the effect is not there */
};

struct outlet_result {
	enum outlet_answer answer;
	uint16_t status; /* of HTTP; 0: none */
	bool permanent;  /* REFUSED, NOT_SENT: no retry can help (a body that cannot be made) */
	uint64_t retry_after_ms; /* asked for by the sink; 0: not */
	uint32_t latency_us;
	uint16_t text_len;
	char text[OUTLET_TEXT_MAX]; /* error, or the first bytes of the answer; UTF-8, no secrets */
};

struct outlet_attempt {
	/* in */
	uint64_t ticket; /* of this event at this sink */
	uint64_t event;  /* the event's, which its sender was told; the Idempotency-Key */
	uint32_t number; /* of the attempt, from 1 */
	bool json;       /* the payload is valid JSON */
	bool line;       /* and known to be without line breaks */
	struct span source;
	struct span payload;
	struct letter letter;
	/* out */
	struct outlet_result result;
	void (*done)(struct outlet_attempt *attempt);
	void *user;                  /* the caller's */
	struct outlet_attempt *next; /* in the chain that send() gets; then the outlet's own */
	uint64_t own;                /* the outlet's */
};

struct outlet;

struct outlet_methods {
	/* Starts every attempt of the chain, in this order; each one's done() is
	 * called once, from inside or later. */
	void (*send)(struct outlet *outlet, struct outlet_attempt *chain);
	/* Asks whether the effect of an attempt exists: DONE, NOT_FOUND, or anything
	 * else for "cannot tell now". NULL if the outlet has no way to ask. */
	void (*probe)(struct outlet *outlet, struct outlet_attempt *attempt);
	/* Any thread: give up soon. What has not left is NOT_SENT, what has is UNKNOWN;
	 * later sends are NOT_SENT at once. A second time changes nothing. */
	void (*interrupt)(struct outlet *outlet);
	void (*free)(struct outlet *outlet); /* nothing is under way any more */
};

struct outlet {
	const struct outlet_methods *methods;
	uint32_t batch_max; /* how many attempts of one chain it can use; 1: one at a time */
	bool immediate;     /* every done() is called from inside send(), which may block; it gets
	                     * no longer chains than batch_max */
};

/* Fills text, cut on a character. */
void outlet_result_text(struct outlet_result *result, struct span text);

/* For outlets that are told nothing else: fills the result and calls done(). Returns the
 * next of the chain, which done() may change. */
struct outlet_attempt *outlet_tell(struct outlet_attempt *attempt, enum outlet_answer answer,
                                   struct span text);

/* What the places of a template are filled from; lives as long as the attempt. */
struct template_event outlet_template_event(const struct outlet_attempt *attempt);

/* One line of UTF-8 for people: blanks for control characters, ? for what is no text.
 * Returns the new length. */
size_t outlet_clean(char *text, size_t len);
