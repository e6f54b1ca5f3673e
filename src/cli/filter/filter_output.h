/*
 * filter_output: what a filter writes: the events that pass, and a line of JSON
 * about each that does not.
 *
 * Room:      cli. Threads: one owner.
 * Ownership: events that pass are borrowed until filter_output_flush(). Zeroed but
 *            for the descriptors is ready; filter_output_free() ends it.
 * Failure:   -errno of the write; -EPIPE of standard output alone.
 */
#pragma once

#include "base/buf.h"
#include "base/check.h"
#include "base/span.h"
#include "sys/stream.h"

struct filter_output {
	int out_fd;
	int rejected_fd;      /* -1: none */
	bool rejected_failed; /* an error was that of the rejected, not of the output */
	int count;
	struct iovec parts[STREAM_PARTS_MAX];
	struct buf rejected;
};

/* `bytes` with what is needed to make them a line. */
int filter_output_pass(struct filter_output *output, struct span bytes) must_check;

/* Why an event does not pass. */
struct filter_rejection {
	uint64_t number;
	uint64_t line;
	uint64_t first;   /* 0: none */
	const char *file; /* may be NULL */
	const char *verdict;
	struct span rule;  /* of the claim; empty: none */
	struct span parts; /* what the claim is made of */
	struct span reason;
	struct span event;
	bool json; /* the event is one JSON text */
	bool cut;  /* … and only its beginning is here */
};
int filter_output_reject(struct filter_output *output,
                         const struct filter_rejection *rejection) must_check;

int filter_output_flush(struct filter_output *output) must_check;
void filter_output_free(struct filter_output *output);
