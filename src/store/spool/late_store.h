/*
 * late_store: a shared store that was away when the process began, and is opened later.
 *
 * A thread of its own tries to open it. Until that goes well every operation is ERR_AWAY;
 * then all are passed on. It stands behind a spool (spool_store.h), whose probes find out.
 *
 * Room:      store. Only serve/ and tests name this header.
 * Threads:   store.h's rule. Stats are for any thread.
 * Ownership: late_store_new() gives it, store_free() takes it and what was opened. To free
 *            one that is being opened waits for that.
 * Failure:   -ENOMEM, or what thread_start() says.
 */
#pragma once

#include "base/check.h"
#include "base/error.h"
#include "store/store.h"

struct late_store_options {
	/* On a thread of its own, every `every_ms` as long as it says ERR_AWAY. */
	int (*open)(void *user, struct store **ret_store, struct error_text *ret_text);
	/* On that thread, once: it said something else, and is not asked again. */
	void (*refused)(void *user, int error, const char *text);
	void *user;
	uint32_t every_ms; /* 0: a second */
};

int late_store_new(const struct late_store_options *options, struct store **ret_store) must_check;
