/*
 * file_names: what the files of a file outlet are called, and which of them are old.
 *
 * Room: sink, file_*.c alone. Threads: one owner; files_remove_old() works on a folder.
 */
#pragma once

#include "base/error.h"
#include "base/span.h"

#define FILE_PATH_MAX 1024u /* bytes, with a NUL */

struct file_names {
	char folder[FILE_PATH_MAX];
	char before[FILE_PATH_MAX]; /* the file's own name, up to {date} */
	char behind[FILE_PATH_MAX];
	bool dated;
};

struct file_path {
	char text[FILE_PATH_MAX];
};

/* ERR_CONFIG and a text that begins with "path". */
int file_names_init(struct file_names *ret_names, struct span path,
                    struct error_text *ret_text) must_check;

/* Where lines go now. */
void file_names_current(const struct file_names *names, uint64_t now_ms,
                        struct file_path *ret_path);

/* A name for what was `current`, that no file has. */
void file_names_rotated(const struct file_path *current, uint64_t now_ms,
                        struct file_path *ret_path);

/* Removes all but the newest `keep` of those that are not `current`. 0 or -errno. */
int file_names_remove_old(const struct file_names *names, const struct file_path *current,
                          uint32_t keep) must_check;
