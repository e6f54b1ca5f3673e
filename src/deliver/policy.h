/*
 * policy: how a sink wants its events.
 *
 * Room: deliver; config/ fills it from the configuration. Threads: a value.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/breaker.h"
#include "deliver/judge.h"
#include "deliver/limiter.h"
#include "deliver/retry.h"

/* What follows when an attempt was sent and no answer came. */
enum deliver_unknown {
	DELIVER_UNKNOWN_RETRY = 0, /* same key, same bytes: the sink deduplicates */
	DELIVER_UNKNOWN_PROBE,     /* ask first whether the effect is there */
	DELIVER_UNKNOWN_PARK,      /* a person decides */
};

struct deliver_policy {
	struct retry_policy retry;
	struct judge_rules rules;
	struct breaker_policy breaker;
	struct limiter_policy limiter;
	enum deliver_unknown on_unknown;
	/* When the first of an entity fails so often, or so long, it steps aside to the
	 * dead letters (parked, if its outcome is unknown) and the next is delivered. Only
	 * for_ms, attempts and least are used; for_ms and attempts 0: it never does. */
	struct retry_policy stuck;
	uint64_t retry_after_max_ms; /* a sink may ask for no longer pause */
	bool forget_dead;            /* no dead letters are kept */
	bool has_dead_sink;          /* dead letters go to another sink, too: … */
	uint32_t dead_sink;          /* … this one */
	bool prompt;                 /* outcomes go to the store at once: a caller waits for them */
};

/* For a sink somewhere else: retries for 3 days, 64 at once at most. */
struct deliver_policy deliver_policy_default(void);

/* For the standard output: never gives up, has no limits. */
struct deliver_policy deliver_policy_stdout(void);
