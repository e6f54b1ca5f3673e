/*
 * lane_view: the state of a lane and what it has counted.
 *
 * Room: deliver; read through deliver_view(). Threads: a value.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/breaker.h"
#include "gate/verdict.h"
#include "sink/outlet.h"

#define LANE_NAME_MAX 64u

enum lane_state {
	LANE_RUNNING = 0,
	LANE_PAUSED,   /* by a person */
	LANE_DISABLED, /* the sink said that it is gone (410); a person resumes it */
	LANE_REMOVED,  /* from the configuration; its tickets stay */
	LANE_ENDED,
};

struct lane_view {
	char name[LANE_NAME_MAX + 1];
	uint32_t sink;
	enum lane_state state;
	uint64_t waiting;    /* tickets that the lane has, and no attempt of them is under way */
	uint64_t in_flight;  /* attempts under way */
	bool resting;        /* none is, none may start now, and all outcomes are recorded */
	uint32_t limit;      /* of them, now */
	uint32_t latency_us; /* smoothed; 0: not known, or not looked at */
	enum breaker_state breaker;
	uint64_t breaker_until_ms;        /* open: CLOCK_BOOTTIME */
	uint64_t paused_until_ms;         /* at the sink's saved; CLOCK_BOOTTIME, 0: not */
	uint64_t outcomes[OUTCOME_COUNT]; /* attempts by outcome; RELEASED is never an attempt's */
	uint64_t failed;                  /* attempts that failed and are made again */
	uint64_t answers[OUTLET_NOT_FOUND + 1]; /* of the outlet, also to probes */
	uint64_t disabled;                      /* how often it was */
	uint64_t lost;                          /* leases that ended under way, damaged events */
	uint64_t unrecorded;                    /* outcomes that the store could not keep */
	uint64_t oldest_ms;   /* unix: when the one arrived that is next; 0: none waits */
	uint64_t error_at_ms; /* unix: of the last error; 0: there was none */
	uint16_t error_status;
	uint16_t error_len;
	char error[OUTLET_TEXT_MAX];
};

const char *lane_state_name(enum lane_state state); /* "running", … */
