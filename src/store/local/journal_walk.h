/*
 * journal_walk: goes through everything in a data folder, read-only, for the
 * tools of journal_inspect.h.
 *
 * Threads:   one owner.
 * Failure:   what a visitor returns if not 0; ERR_BUSY, -ENOENT, ERR_VERSION,
 *            -errno, with a text. What is found damaged is given to the visitor,
 *            and the walk goes on.
 *
 * A start does not read everything (recovery.c): not a segment whose claims stand
 * in a good claims file or have expired, if no ticket of it is open. The walk
 * does, and tells apart what a start would refuse from what it would not see.
 */
#pragma once

#include "store/local/journal/catalog.h"
#include "store/local/journal/claims_file.h"
#include "store/local/journal/format.h"
#include "store/local/journal/superblock.h"
#include "store/local/journal_inspect.h"

struct journal_walk {
	struct folder folder;
	struct file_system *fs;
	int lock_fd;
	struct superblock superblock;
	struct catalog catalog;
	uint64_t now_ms; /* by the store's clock, as a start would have it */
	uint64_t bytes;  /* of all files read */
	struct error_text *text;
	struct error_text told; /* the last damage: it may be met twice */
};

enum journal_finding {
	JOURNAL_DAMAGE, /* a start refuses the folder */
	JOURNAL_LOST,   /* cannot be read, but a start does not need it */
	JOURNAL_MENDED, /* a start makes it good again */
};

struct journal_visitor {
	int (*segment)(void *user, const struct segment_header *header, uint64_t frames,
	               uint64_t end);
	int (*entry)(void *user, const struct segment_header *segment,
	             const struct frame_header *frame, const struct entry *entry);
	/* `alone`: the segment is gone, these are the only records of its claims. */
	int (*records)(void *user, uint64_t number, bool alone, const struct claims_record *records,
	               size_t count);
	int (*torn)(void *user, uint64_t number, uint64_t offset);
	int (*found)(void *user, enum journal_finding finding, const char *text);
	void *user;
};

/* Locks the folder and reads superblock and names. `text` is used until the end. */
int journal_walk_open(struct journal_walk *walk, const struct journal_inspect_options *options,
                      struct error_text *text) must_check;
int journal_walk_run(struct journal_walk *walk, const struct journal_visitor *visitor) must_check;
void journal_walk_close(struct journal_walk *walk); /* also after a failed open */
