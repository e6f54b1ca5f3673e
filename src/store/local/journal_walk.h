/*
 * journal_walk: goes through everything in a data folder, read-only, for the
 * tools of journal_inspect.h.
 *
 * Threads:   one owner.
 * Failure:   what a visitor returns if not 0; ERR_BUSY, -ENOENT, -errno. Damage
 *            is given to the visitor, and the walk goes on.
 */
#pragma once

#include "store/local/catalog.h"
#include "store/local/claims_file.h"
#include "store/local/format.h"
#include "store/local/journal_inspect.h"
#include "store/local/superblock.h"

struct journal_walk {
	struct folder folder;
	struct file_system *fs;
	int lock_fd;
	struct superblock superblock;
	struct catalog catalog;
	uint64_t bytes; /* of all files read */
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
	int (*damage)(void *user, const char *text);
	void *user;
};

/* Locks the folder and reads superblock and names. */
int journal_walk_open(struct journal_walk *walk, const struct journal_inspect_options *options,
                      struct error_text *text) must_check;
int journal_walk_run(struct journal_walk *walk, const struct journal_visitor *visitor) must_check;
void journal_walk_close(struct journal_walk *walk); /* also after a failed open */
