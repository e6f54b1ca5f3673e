/*
 * http_lookup: one name to its addresses, off the loop's thread.
 *
 * The system's resolver blocks, for many seconds when a server of names is away. So
 * each question has a short-lived thread of its own, and nobody waits for one whose
 * answer is no longer wanted.
 *
 * Room:      sink, http_*.c alone. Threads: the loop's; the question's own wakes it.
 * Ownership: http_lookup_free() at any time, answered or not; before the loop goes.
 * Failure:   -errno: no thread.
 */
#pragma once

#include "sink/http_outlet.h"

struct http_lookup;

struct http_lookup_question {
	const char *host; /* copied */
	struct loop *loop;
	http_lookup_fn *ask; /* NULL: the system's resolver */
};

int http_lookup_start(const struct http_lookup_question *question,
                      struct http_lookup **ret_lookup) must_check;
struct http_lookup *http_lookup_free(struct http_lookup *lookup);

/* True when the answer is here: 0, or an EAI_… of <netdb.h>. */
bool http_lookup_ready(struct http_lookup *lookup, int *ret_error,
                       struct http_addresses *ret_addresses);
