/*
 * simfs: a disk in memory that loses power, after the model of SQLite's test6.c.
 *
 * What the page cache holds and what is durable are kept apart:
 *   - a write is durable once sync_data() on its file returned, or at once if
 *     the file was opened with FILE_SYNC_DATA;
 *   - a create, rename or remove is durable once sync_dir() on its folder
 *     returned, and the folder itself after sync_dir() on its parent;
 *   - at a crash every 512-byte sector that is not durable is kept, dropped or
 *     garbled, sizes are kept or dropped, and of the folder's changes any
 *     subset or any prefix survives. A write under way is one not yet durable.
 *
 * Faults: the n-th call, once or for ever, fails with EIO or ENOSPC or writes
 * only a part. A failed write may have left any part of itself, durable or not;
 * a failed sync drops some of what it should have kept. A capacity makes ENOSPC
 * as a full disk does, and room returns when files go.
 *
 * Content is shared between copies page by page, so a copy costs little: one
 * history gives many crash states (simfs_on_point(), simfs_crash_copy()).
 *
 * Room:      tests. Uses malloc, not mem.h: a planned failure of an allocation
 *            is meant for the code under test.
 * Threads:   calls through the file_system are locked; the rest is the test's.
 * Everything follows from the seed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "sys/file.h"

#define SIMFS_SECTOR 512u

struct simfs;

enum simfs_fault_kind {
	SIMFS_NO_FAULT,
	SIMFS_EIO,
	SIMFS_ENOSPC, /* EIO where a full disk is no reason: reads, locks, … */
	SIMFS_SHORT,  /* a write stops in the middle and says EIO; else EIO */
};

enum simfs_point {
	SIMFS_DURING, /* the call has begun: the page cache knows, the disk may not */
	SIMFS_AFTER,  /* the call has done its work and is about to return */
};

struct simfs *simfs_new(uint64_t seed);
struct simfs *simfs_free(struct simfs *simfs); /* accepts NULL, returns NULL */
struct file_system *simfs_fs(struct simfs *simfs);

/* A second disk with the same content (cache and disk), nothing open. */
struct simfs *simfs_copy(const struct simfs *simfs);

/* What the next start would find if power went now. */
struct simfs *simfs_crash_copy(const struct simfs *simfs, uint64_t seed);

/* The process died: descriptors and locks are gone, the cache is not. */
void simfs_kill(struct simfs *simfs);

/* Called inside every call that changes something. Only simfs_copy() and
 * simfs_crash_copy() of this disk are allowed there. */
void simfs_on_point(struct simfs *simfs,
                    void (*point)(void *user, struct simfs *simfs, enum simfs_point point),
                    void *user);

/* Call number `at` from now (1 is the next) fails; `forever`: all from there. */
void simfs_fail_at(struct simfs *simfs, enum simfs_fault_kind kind, uint64_t at, bool forever);
uint64_t simfs_calls(const struct simfs *simfs);  /* since simfs_fail_at(), or ever */
uint64_t simfs_faults(const struct simfs *simfs); /* how many calls were made to fail */

/* The sum of file sizes; 0 is no limit. */
void simfs_set_capacity(struct simfs *simfs, uint64_t bytes);
uint64_t simfs_used(const struct simfs *simfs);

/* The files, in order of name; NULL beyond the last. Valid until a change. */
const char *simfs_file_name(const struct simfs *simfs, size_t index);
uint64_t simfs_file_size(const struct simfs *simfs, const char *path);
unsigned char simfs_file_byte(const struct simfs *simfs, const char *path, uint64_t offset);

/* Damage: done to cache and disk alike, no call is counted. */
void simfs_overwrite(struct simfs *simfs, const char *path, uint64_t offset, struct span bytes);
void simfs_flip_bit(struct simfs *simfs, const char *path, uint64_t bit);
void simfs_cut_file(struct simfs *simfs, const char *path, uint64_t size);
