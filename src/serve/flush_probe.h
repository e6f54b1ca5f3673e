/*
 * flush_probe: how long a durable write takes on the data folder's disk.
 *
 * With one io thread the journal can be written by that thread itself, once a
 * round, which costs no hand-over; while it waits for the disk it serves
 * nobody. So it pays when the disk is quick. The probe measures.
 *
 * Room: serve. Threads: start-up only, once the store has the folder's lock.
 */
#pragma once

#include <stdint.h>

#include "base/check.h"
#include "sys/file.h"

/* Microseconds of the quickest of a few small durable writes to a file of its
 * own in the folder, which is removed again: what the disk can do, whatever else
 * it is doing just now. */
int flush_probe_us(struct file_system *fs, const char *folder, uint64_t *ret_us) must_check;
