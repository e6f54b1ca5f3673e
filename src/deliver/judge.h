/*
 * judge: what the result of an attempt means for its ticket and for its sink.
 *
 *   answer      status       ticket    sink      why
 *   DONE                     done      works
 *   NOT_SENT                 retry     failed    it never left: never unknown
 *   UNKNOWN                  unknown   failed    on_unknown decides what follows
 *   REFUSED     none         retry     works     a sink without statuses said no
 *               3xx          dead      works     redirects are not followed: an event
 *                                                must not go where nobody allowed it
 *               401, 407     retry     failed    it is our credential that is wrong, for
 *                                                every event: they wait until it is right
 *               408          retry     failed    it gave up waiting for our bytes
 *               409          retry     works     the key of an attempt that is still under
 *                                                way there is answered so
 *               410          retry     gone      the address is gone for good: the sink is
 *                                                disabled until a person resumes it
 *               425          retry     works     too early, by its own word
 *               429          retry     too much
 *               503          retry     failed,
 *                                      too much
 *               other 4xx    dead      works     it will say the same of the same bytes
 *               other 5xx    retry     failed
 *               other        dead      works     no final answer of HTTP
 *   any         `permanent`  dead      works     no retry can help
 *
 * Rules change what becomes of a ticket that was REFUSED with a status, not what is
 * thought of the sink; a status that a rule names does not disable the sink. Forms:
 * "429", "500-599", ">400", ">=500", "<500", "<=499", each with "!" before it for
 * "not retried". A rule with "!" wins over one without, in whatever order they
 * stand. Where only rules with "!" are given, the table above holds for the rest;
 * else what no rule names is not retried.
 *
 * Room:    deliver. Threads: pure. Failure: ERR_INVALID: not a rule.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/breaker.h"
#include "base/error.h"
#include "deliver/limiter.h"
#include "sink/outlet.h"

#define JUDGE_RULES_MAX 16u

struct judge_rule {
	uint16_t low, high; /* both included */
	bool never;
};

struct judge_rules {
	struct judge_rule rules[JUDGE_RULES_MAX];
	uint32_t count;
};

enum judge_fate { JUDGE_DONE = 1, JUDGE_RETRY, JUDGE_DEAD, JUDGE_UNKNOWN };

struct judgement {
	enum judge_fate fate;
	enum breaker_says breaker;
	enum limiter_says limiter;
	bool disable; /* the sink */
	bool pause;   /* what Retry-After asks for is meant for the whole sink */
};

/* Adds what the text says. ret_text: what was expected. */
int judge_rule_add(struct judge_rules *rules, struct span text,
                   struct error_text *ret_text) must_check;

struct judgement judge(const struct judge_rules *rules, const struct outlet_result *result);
