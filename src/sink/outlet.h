/*
 * outlet: a destination of events. The contract between deliver/ and every sink.
 *
 * deliver/ decides which attempt starts when, and what its result means for the ticket; an
 * outlet makes attempts and reports their results. It never retries by itself, and changes
 * neither key nor bytes between attempts.
 *
 * Each outlet has a thread of its own with a loop of its own (sys/loop.h), so it may block
 * in send(), or continue in the loop and report later: a slow sink delays no other.
 *
 * Room:      sink; deliver/ sees only this header, config/ names concrete outlets.
 * Threads:   all on the outlet's thread, except interrupt(), which is for any.
 * Ownership: an attempt belongs to the outlet from send() or probe() to done(); its texts
 *            stay until then. done() may send again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"
#include "gate/metadata.h"
#include "gate/template.h"

#define OUTLET_TEXT_MAX 256u

/* The result of an attempt. An attempt that was not sent is never unknown. */
enum outlet_answer {
	OUTLET_DONE = 1,  /* the effect exists: success, or a probe that found it */
	OUTLET_REFUSED,   /* the sink answered and rejected it: see status */
	OUTLET_NOT_SENT,  /* nothing was sent: connection refused, no name, TLS, interrupted … */
	OUTLET_UNKNOWN,   /* it was sent, or may have been, and no answer came */
	OUTLET_NOT_FOUND, /* probe: the effect does not exist */
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
	uint64_t event;  /* the event's own, which its sender has; the Idempotency-Key */
	uint32_t number; /* of the attempt, from 1 */
	bool json;       /* the payload is valid JSON */
	bool line;       /* and known to be without line breaks */
	struct span source;
	struct span payload;
	struct metadata metadata;
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
	/* Any thread: end all attempts soon. What was not sent is NOT_SENT, what was is
	 * UNKNOWN; later sends are NOT_SENT at once. A second call does nothing. */
	void (*interrupt)(struct outlet *outlet);
	void (*free)(struct outlet *outlet); /* nothing is under way any more */
};

struct outlet {
	const struct outlet_methods *methods;
	uint32_t batch_max; /* how many attempts of one chain it can use; 1: one at a time */
	bool immediate;     /* every done() is called from inside send(), which may block; it gets
	                     * no longer chains than batch_max */
};

/* Fills text, cut at the end of a character. */
void outlet_result_text(struct outlet_result *result, struct span text);

/* For outlets with nothing more to report: fills the result and calls done(). Returns the next
 * of the chain, which done() may change. */
struct outlet_attempt *outlet_finish(struct outlet_attempt *attempt, enum outlet_answer answer,
                                     struct span text);

/* The values for the places of a template; valid as long as the attempt. */
struct template_event outlet_template_event(const struct outlet_attempt *attempt);

/* One line of UTF-8 for messages: blanks for control characters, ? for invalid UTF-8.
 * Returns the new length. */
size_t outlet_clean(char *text, size_t len);

/* ---- payloads as lines of JSON ---- */

/* The payload as JSON without line breaks: those between tokens become blanks, and what is
 * not JSON becomes a JSON string. */
void outlet_append_line(struct buf *out, const struct outlet_attempt *attempt);

/* Blanks for the line breaks from `start` on, which must be between tokens of JSON. */
void outlet_one_line(struct buf *out, size_t start);

/* A whole line with its end. With `envelope` it is {"ticket","source","attempt","event"}, and
 * a payload that is not JSON is under "text". */
void outlet_append_event(struct buf *out, const struct outlet_attempt *attempt, bool envelope);

/* The lines of a chain from `first` on, until there are `enough` bytes; each attempt's `own`
 * is then where its line ends. Returns the first without a line. Without memory for an event
 * there is no part of its line. */
struct outlet_attempt *outlet_append_events(struct buf *out, struct outlet_attempt *first,
                                            bool envelope, size_t enough);
