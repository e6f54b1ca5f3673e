/*
 * segment: the files of a data folder, one call for each durable step.
 *
 * A segment is prepared under the name spare.seg: filled with zeros (or an old
 * segment that was retired: its frames carry another epoch), synced, then
 * renamed to its number. It begins its life when its header is written.
 *
 * Format:  format.h
 * Threads: any; two threads never work on the same file.
 * Failure: -errno, ERR_DAMAGED or ERR_VERSION. Nothing is logged.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/error.h"
#include "store/local/journal/format.h"
#include "sys/file.h"

#define FOLDER_PATH_MAX 4096

struct folder {
	struct file_system *fs;
	const char *path;
	uint32_t segment_bytes;
	unsigned char id[FORMAT_ID_LEN];
};

/* -ENAMETOOLONG when it does not fit. */
int folder_file(const struct folder *folder, const char *name,
                char ret_path[static FOLDER_PATH_MAX]) must_check;
int folder_numbered(const struct folder *folder, uint64_t number, enum file_kind kind,
                    char ret_path[static FOLDER_PATH_MAX]) must_check;
int folder_open(const struct folder *folder, const char *name, int flags, int *ret_fd) must_check;
int folder_sync(const struct folder *folder) must_check;
int folder_remove(const struct folder *folder, const char *name); /* 0 if it is not there */

/* Writes zeros over all of a new spare.seg and syncs it. Leaves nothing on failure.
 * `pause` (NULL: none) is called after each piece with the bytes so far, so that
 * commits find the disk free in between. */
struct segment_pace {
	void (*pause)(void *user, uint32_t filled);
	void *user;
};
int segment_fill(const struct folder *folder, struct segment_pace pace) must_check;
/* spare.seg gets the number's name, durably. */
int segment_name_spare(const struct folder *folder, uint64_t number) must_check;
/* The number's file becomes spare.seg. */
int segment_make_spare(const struct folder *folder, uint64_t number) must_check;
int segment_remove(const struct folder *folder, uint64_t number, enum file_kind kind) must_check;

int segment_open_write(const struct folder *folder, uint64_t number, int *ret_fd) must_check;
int segment_open_read(const struct folder *folder, uint64_t number, int *ret_fd) must_check;

/* Seals and writes the header block; durable when it returns. */
int segment_write_header(const struct folder *folder, int fd,
                         struct segment_header *header) must_check;
/* ERR_DAMAGED also when the header is another folder's or another number's. */
int segment_read_header(const struct folder *folder, int fd, uint64_t number,
                        struct segment_header *ret_header) must_check;
/* The same, and the file is opened for that. */
int segment_header_of(const struct folder *folder, uint64_t number,
                      struct segment_header *ret_header) must_check;

/*
 * segment_list: what is known of each number in the folder: its files, when it was
 * sealed, when its last claim expires. One item per number, no gaps (F6).
 *
 * Threads:   the owner's.
 * Ownership: a zeroed one is empty; segment_list_free() takes the items. A pointer
 *            to an item is good until the next add or drop.
 * Failure:   segment_list_add() -ENOMEM.
 */

struct segment_info {
	uint64_t epoch;         /* 0: not known, no ticket of it is open */
	uint64_t end;           /* valid end, once sealed */
	uint64_t sealed_ms;     /* steady */
	uint64_t max_expiry_ms; /* of its claims; 0: has none */
	uint64_t max_ticket;
	uint64_t claims_bytes;  /* of the claims file */
	uint32_t segment_bytes; /* of the segment file; 0: it is gone */
	uint32_t events;        /* that had a ticket */
	uint32_t wait_ms;       /* after a claims file that failed */
	uint64_t retry_boot_ms; /* not before */
	bool sealed;
	bool has_claims_file;
	bool dense; /* a claims file would not save enough */
	bool busy;  /* the segment thread works on it */
	bool stays; /* an open event of it is damaged */
};

struct segment_list {
	struct segment_info *items;
	size_t count;
	size_t room;
	uint64_t first; /* number of items[0] */
};

/* Adds the next number (any number to an empty list). */
int segment_list_add(struct segment_list *list, uint64_t number,
                     const struct segment_info *item) must_check;
struct segment_info *segment_list_find(const struct segment_list *list,
                                       uint64_t number); /* or NULL */
void segment_list_drop_first(struct segment_list *list);
void segment_list_free(struct segment_list *list);

static inline uint64_t segment_list_end(const struct segment_list *list)
{
	return list->first + list->count;
}

/*
 * catalog: which files a folder has, and what each number's successor says of
 * it. For recovery and for tools; writes nothing.
 *
 * Format:    format.h
 * Threads:   one owner.
 * Ownership: catalog_free() takes the lists; a zeroed catalog is empty.
 * Failure:   -errno, ERR_DAMAGED, ERR_VERSION with file and offset in the text.
 */

struct catalog_numbers {
	uint64_t *items; /* ascending */
	size_t count;
	size_t room;
};

struct catalog {
	struct catalog_numbers segments; /* without the unused, after catalog_range() */
	struct catalog_numbers claims;   /* likewise without the unsure */
	struct catalog_numbers unused;   /* prepared, never begun */
	/* Claims files of a number without a successor: its end was not fixed when
	 * they were made, so it may hold more than they do. */
	struct catalog_numbers unsure;
	uint64_t oldest;
	uint64_t scan_from;
	uint64_t last; /* the last segment; 0: none */
};

int catalog_list(struct catalog *catalog, const struct folder *folder) must_check;
void catalog_free(struct catalog *catalog);
bool catalog_has_segment(const struct catalog *catalog, uint64_t number);
bool catalog_has_claims(const struct catalog *catalog, uint64_t number);

/* Finds the last segment and what must be read (F5); sets aside what is unused
 * and unsure. */
int catalog_range(struct catalog *catalog, const struct folder *folder,
                  const struct superblock_slot *slot, struct error_text *text) must_check;

/* Is there what must be there for this number (F6)? */
int catalog_check(const struct catalog *catalog, uint64_t number,
                  struct error_text *text) must_check;

/* What the number after this one says of it. */
struct catalog_successor {
	uint64_t end; /* 0: there is none, it is the last */
	uint64_t sequence;
	uint64_t expiry_ms;
	uint64_t sealed_ms; /* 0: not known */
};
int catalog_successor(const struct catalog *catalog, const struct folder *folder, uint64_t number,
                      struct catalog_successor *ret_successor, struct error_text *text) must_check;
/* The same of a number that has one, whose segment is there or has left. */
int catalog_successor_read(const struct folder *folder, uint64_t number, bool has_segment,
                           struct catalog_successor *ret_successor,
                           struct error_text *text) must_check;
