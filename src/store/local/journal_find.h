/*
 * journal_find: the event of one ticket, read from the files of a data folder.
 *
 * For questions of people, beside a gateway that may be running: takes no lock,
 * changes nothing, and costs the reading of a segment or two. Every frame is
 * checked, so what is found was admitted; what is being written, or has left by
 * retention, is not found.
 *
 * Room:    store/local. Threads: any.
 * Failure: -ENOENT: it is not there, or not any more. -ENOMEM, -errno, ERR_VERSION.
 */
#pragma once

#include "base/buf.h"
#include "base/check.h"
#include "store/local/journal_inspect.h"

/* Appends the event's payload. */
int journal_find_event(const struct journal_inspect_options *options, uint64_t ticket,
                       struct buf *ret_payload) must_check;
