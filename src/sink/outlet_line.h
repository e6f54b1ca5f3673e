/*
 * outlet_line: an event's payload as one line of JSON, for those who write many.
 *
 * JSON stays as it is but for line breaks between its tokens, which become blanks;
 * what is no JSON becomes a string of it.
 *
 * Room: sink. Threads: pure.
 */
#pragma once

#include "base/buf.h"
#include "sink/outlet.h"

void outlet_append_line(struct buf *out, const struct outlet_attempt *attempt);

/* Blanks for the line breaks from `start` on; they stand between tokens of JSON. */
void outlet_one_line(struct buf *out, size_t start);

/* A whole line with its end. With `envelope` it is {"ticket","source","attempt","event"},
 * and what is no JSON stands under "text". */
void outlet_append_event(struct buf *out, const struct outlet_attempt *attempt, bool envelope);

/* The lines of a chain from `first` on, until there are `enough` bytes; each one's `own`
 * is then where its line ends. Returns the first that has none. An event that finds no
 * memory has no part of a line. */
struct outlet_attempt *outlet_append_events(struct buf *out, struct outlet_attempt *first,
                                            bool envelope, size_t enough);
