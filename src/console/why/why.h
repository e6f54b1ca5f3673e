/*
 * why: the answers of GET /v1/why and GET /v1/advise, and the metrics of gaps,
 * from a trace log.
 *
 * A question is about an id, a ticket or a key (or any: an id, else a ticket, else
 * a key). The answer has each original event that it concerns, and under each its
 * repeats, with the reason of the decision. Or it is about the events that are held:
 * then the answer has each of them, newest first, and `next` is the value of before=
 * for the next page; without it there are no more.
 *
 *   GET /v1/why?id=…|ticket=…|key=…|any=…[&source=…][&limit=20]
 *   GET /v1/why?held=1[&before=TICKET][&source=…][&limit=20]
 *   GET /v1/advise[?source=…]
 *
 * Answers are JSON; the commands of the CLI print text.
 *
 * Room:      console.
 * Threads:   any; trace_log.h says what a search may wait for.
 * Ownership: everything is the caller's. Answers are appended to `out`, which
 *            should have a cap.
 * Failure:   the functions return the HTTP status. 200: `out` has the answer,
 *            also when nothing was found. Otherwise it has one sentence with the
 *            reason: 400 the question is invalid, 503 it cannot be answered now.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"
#include "gate/advice.h"
#include "trace/trace_log.h"

#define WHY_LIMIT 20u      /* repeats of one original that are listed */
#define WHY_LIMIT_MAX 500u /* … at most */
#define WHY_ORIGINALS_MAX 16u
#define WHY_HELD_MAX 100u      /* held events that one answer covers */
#define WHY_TEXT_MAX 512u      /* bytes of a value in a question */
#define WHY_DIFFERENCES_MAX 4u /* conflicts that one answer compares */
#define WHY_PATHS_MAX 12u      /* members that one comparison names */

enum why_about {
	WHY_ABOUT_NOTHING = 0,
	WHY_ABOUT_ID,
	WHY_ABOUT_TICKET,
	WHY_ABOUT_KEY,
	WHY_ABOUT_ANY,
	WHY_ABOUT_HELD
};

struct why_value {
	uint32_t len;
	char bytes[WHY_TEXT_MAX];
};

struct why_question {
	enum why_about about;
	struct why_value value; /* as asked */
	struct why_value source;
	uint64_t before; /* HELD: older tickets than this one; 0: all */
	uint32_t limit;
};

/* Tickets that are held, newest first: all from the newest (or from before the
 * question's `before`) to the last. Not `known`: the store could not be asked. */
struct why_held {
	bool known;
	bool all; /* there are none older than the last */
	uint32_t count;
	const uint64_t *tickets;
};

struct why_context {
	struct trace_log *log;
	struct why_held held;
	/* Appends the payload of an event, to compare two events of one key. -ENOENT: it
	 * is not kept any more. NULL: payloads cannot be read. */
	int (*read)(void *user, uint64_t ticket, struct buf *ret_payload);
	void *read_user;
	uint32_t *compared; /* why_answer()'s own: conflicts so far */
	/* The sources and their windows, for advice. */
	const struct advice_question *sources;
	size_t source_count;
	uint64_t window_ms; /* of sources that are not among them; 0: not known */
};

#define WHY_PARAMETERS "id ticket key any held source before limit format"
#define ADVISE_PARAMETERS "source format"

/* Reads the query of the target ("id=…&limit=5"). ERR_INVALID or ERR_TOO_LARGE
 * with a text for the caller. */
int why_question_parse(struct span query, struct why_question *ret_question,
                       struct error_text *ret_text) must_check;

uint16_t why_answer(const struct why_context *context, const struct why_question *question,
                    struct buf *out);
uint16_t why_advise(const struct why_context *context, const struct why_question *question,
                    struct buf *out);

/* For GET /metrics. */
void why_metrics(const struct why_context *context, struct buf *out);
