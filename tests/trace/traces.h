/*
 * traces: made-up traces and a log over a simulated disk, for the tests of the
 * trace log.
 */
#pragma once

#include "gate/ticket.h"
#include "support/simfs.h"
#include "trace/trace_log.h"

#define TRACES_NOW_MS UINT64_C(1767225600000) /* 2026-01-01 */

/* Everything of a trace follows from its number, so that whatever is read back
 * can be held against it. */
struct made_trace {
	struct trace trace;
	char id[48];
	char key[64];
	char entity[32];
	char correlation[32];
};
void made_trace_fill(struct made_trace *made, uint64_t number);

/* The number that its id tells; fails the test when anything else of the trace
 * is not as it was made. */
uint64_t made_trace_check(const struct trace *trace);

/* No thread, smallest limits. */
struct trace_log_options traces_options(struct simfs *simfs);
struct trace_log *traces_open(struct simfs *simfs);

/* The lines that were logged between begin and end. */
struct told {
	int warnings;
	int notes;
	char text[4096]; /* all of them */
};
void told_begin(void);
void told_end(struct told *ret_told);

/* What a search found: numbers, newest first. */
struct numbers {
	uint64_t numbers[4096];
	uint32_t count;
};
void numbers_find(struct trace_log *log, const struct trace_query *query, struct numbers *ret);

/* Questions with one term. */
#define BY_TEXT(kind_, text_) \
	(&(struct trace_query){ .terms = &(struct trace_term){ kind_, text_, 0 }, .term_count = 1 })
#define BY_ID(text_) BY_TEXT(TRACE_TERM_ID, text_)
#define BY_KEY(text_) BY_TEXT(TRACE_TERM_KEY, text_)
#define BY_TICKET(ticket_)                                                               \
	(&(struct trace_query){                                                          \
		.terms = &(struct trace_term){ TRACE_TERM_TICKET, SPAN_EMPTY, ticket_ }, \
		.term_count = 1 })
