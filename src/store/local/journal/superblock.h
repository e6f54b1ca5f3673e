/*
 * superblock: what must be known before the segments are read, and how far
 * they were durable.
 *
 * Two slots are written in turn, so a torn write leaves the other, and so does damage:
 * what only one of them knows to be needless must stay. After a
 * failed write the file is not written again: a new one takes its place
 * (PROMISES: a failed sync is final).
 *
 * Format:  format.h
 * Threads: the owner's.
 * Failure: -errno, ERR_DAMAGED, ERR_VERSION. On a failed write the state in
 *          memory is as before, what is on disk is the old slot or the new.
 */
#pragma once

#include "base/check.h"
#include "base/error.h"
#include "store/local/journal/segment.h"
#include "store/local/journal/steady_clock.h"

struct superblock {
	struct superblock_slot slot; /* as last made durable */
	/* What a start needs at least, whichever slot is all that it finds. */
	uint64_t oldest, scan_from;
	int fd; /* -1: none */
	unsigned char *block;
	bool poisoned;     /* a write failed: the next one makes a new file */
	bool one_slot_bad; /* when it was read; for the log */
};

/* A new folder: draws id and key, writes the file. folder->id is filled in. */
int superblock_create(struct superblock *sb, struct folder *folder) must_check;
/* Reads it; -ENOENT if there is none. folder->id is filled in. */
int superblock_open(struct superblock *sb, struct folder *folder,
                    struct error_text *text) must_check;
/* Reads without opening for writing; for tools. */
int superblock_read(struct superblock *sb, struct folder *folder,
                    struct error_text *text) must_check;
/* Makes `next` durable; generation, id and key are filled in. */
int superblock_write(struct superblock *sb, const struct folder *folder,
                     const struct superblock_slot *next) must_check;
/* The store's time as it was written down. */
struct steady_clock_state superblock_clock(const struct superblock_slot *slot);
void superblock_close(struct superblock *sb, const struct folder *folder);
