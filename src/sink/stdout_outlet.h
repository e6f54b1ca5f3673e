/*
 * stdout_outlet: each event as one line of JSON on a descriptor.
 *
 * A line is the event's own bytes; line breaks between its tokens become
 * blanks, which mean the same in JSON (inside strings they are always
 * escaped). With `envelope` the line is {"ticket","source","attempt","event"};
 * a body that is not JSON (CloudEvents in binary mode) is then a string under
 * "text", and without an envelope it is written as a JSON string.
 *
 * Room:    sink. Threads: its lane's; interrupt() from any. send() blocks while the
 *          reader does not read.
 * Failure: events that were not wholly written are NOT_SENT. After a crash an
 *          event whose line was written but whose outcome was not yet recorded
 *          is written again: nobody knows what a pipe took.
 *          Into a file, a batch is synced before any of it is DONE; if that fails,
 *          all of it is NOT_SENT. An event is DONE when the pipe has it: the rest is up
 *          to the reader.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "sink/outlet.h"

struct stdout_outlet_options {
	int fd;
	bool envelope;
	int (*sync)(int fd); /* of a file; NULL: fdatasync() */
};

int stdout_outlet_new(const struct stdout_outlet_options *options,
                      struct outlet **ret_outlet) must_check;
