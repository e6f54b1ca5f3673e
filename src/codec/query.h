/*
 * query: are the parameters of a request such as there are?
 *
 * What is not known is refused and never passed over: whoever misspells dry_run would
 * else have done what was only to be counted.
 *
 * Room: console. Threads: pure. Ownership: the caller's bytes.
 * Failure: ERR_INVALID, with a text for whoever asked.
 */
#pragma once

#include "base/check.h"
#include "base/error.h"
#include "base/span.h"

/* Each parameter of `query` is one of `names`, which stand with blanks between them, and
 * comes at most once. */
int query_check(struct span query, const char *names, struct error_text *ret_text) must_check;
