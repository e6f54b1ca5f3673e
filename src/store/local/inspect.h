/*
 * inspect: reads a data folder that no process has open: what is in it,
 * is it sound?
 *
 * Verify walks everything: superblock, every segment with every frame and
 * entry, every claims file. It continues after damage where it can, so that one
 * run tells of all. Dump gives each record as one line of JSON.
 *
 * Room:    store/local. Only serve/ and tests name this header.
 * Threads: any; nothing is shared.
 * Writes:  nothing but the lock on the folder.
 * Failure: ERR_BUSY (a process has the folder; verify and dump refuse), -ENOENT
 *          (no such folder, or no data in it), ERR_DAMAGED, ERR_VERSION, -errno.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/error.h"
#include "sys/clock.h"
#include "sys/file.h"

struct journal_inspect_options {
	const char *path;
	struct file_system *fs;    /* default: the machine's */
	const struct clock *clock; /* default: the machine's; by the store's rules */
};

struct journal_report {
	uint32_t version;
	char folder_id[33];               /* hex */
	bool clean;                       /* it was closed, not killed */
	uint64_t oldest, last, scan_from; /* numbers of segments */
	uint64_t segments, claims_files;
	uint64_t bytes; /* of all files */
	uint64_t frames, events, settles, notes, seen_records, newest_records;
	uint64_t cell_records; /* puts, ends and copies of cells */
	uint64_t live_cells;
	uint64_t payload_bytes;
	uint64_t claims; /* distinct records read: live and expired */
	uint64_t live_claims;
	uint64_t expired_claims;
	uint64_t open_tickets;
	uint64_t held_tickets;                  /* of those: kept aside until they are released */
	uint64_t parked_tickets;                /* of those: their outcome is unknown */
	uint64_t dead_tickets;                  /* of those: dead letters */
	uint64_t first_event_ms, last_event_ms; /* unix; 0: none */
	bool torn_tail; /* sound: a write that was cut short and never answered */
	uint64_t torn_segment, torn_offset;
	uint64_t damages;  /* found; each was told to `damage` */
	uint64_t warnings; /* likewise */
};

/*
 * Verify. `damage` (may be NULL) is called with a text that names file and
 * offset for each damage found, `warning` (likewise) for what a start would mend
 * or does not need. Returns 0 when a start would accept the folder, ERR_DAMAGED
 * when it would refuse it; the report is filled in both cases.
 */
struct journal_verify_sink {
	void (*damage)(void *user, const char *text);
	void (*warning)(void *user, const char *text);
	void *user;
};
int journal_verify(const struct journal_inspect_options *options,
                   const struct journal_verify_sink *sink, struct journal_report *ret_report,
                   struct error_text *ret_text) must_check;

/*
 * Dump. `line` gets one JSON object at a time, without line end; a non-zero
 * return ends the dump and is returned. Kinds: "segment", "event", "settle",
 * "note", "seen", "newest", "cell", "claim" (from a claims file whose segment is gone), "torn".
 * A payload or value that is valid UTF-8 is a string, else base64 with
 * "payload_encoding":"base64" ("value_encoding", "name_encoding"). ERR_DAMAGED when a record could not be read, also
 * one that a start does not need.
 */
struct journal_dump_sink {
	int (*line)(void *user, struct span json);
	void *user;
};
int journal_dump(const struct journal_inspect_options *options,
                 const struct journal_dump_sink *sink, struct error_text *ret_text) must_check;

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

/* Appends the event's payload. */
int journal_find_event(const struct journal_inspect_options *options, uint64_t ticket,
                       struct buf *ret_payload) must_check;
