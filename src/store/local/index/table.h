/*
 * table: the index of claims. Digest in; ticket, window, flags and content check
 * out. A claim is known by the key of its digest; the check is only kept.
 *
 * 1024 shards by the top bits of the digest, each a list of buckets in the order
 * of hashes (table_shard.h), all buckets in one array (table_arena.h): a new
 * claim touches two or three cache lines, a duplicate two, and the directory. A
 * change of size touches four buckets at most, so there are no pauses, and a
 * claim costs less than 29 bytes at any size from a million up.
 *
 * A claim is live until its ticket's time plus its window. Windows up to 511 s
 * are kept exactly; longer ones are rounded up by less than 1/256: late expiry
 * costs memory, early expiry would double an effect. The expired are not found
 * any more, and are removed by table_sweep() or when their shard is full.
 *
 * A table may be one of cells instead: digest in; expiry, a place and a code, whatever
 * they are to the caller, out. The same memory, the same steps, the same sweep. The
 * later put holds, and expiry is exact.
 *
 * Room:      store/local. Threads: one owner.
 * Ownership: table_new() gives it, table_free() takes it.
 * Failure:   -ENOMEM leaves the table as it was. Nothing but putting (and
 *            reserving) can fail.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "gate/claim.h"

#define TABLE_SHARDS 1024u
#define TABLE_FLAGS_ALL 31u /* five bits in all; the lowest is not used (format.h) */

struct table;

/* What the table knows of a claim. */
struct table_hit {
	uint64_t ticket;
	uint64_t expiry_ms; /* unix; live while now is less */
	uint32_t window_s;  /* as kept: rounded up */
	uint32_t flags;
	uint32_t check; /* of the content that took it */
};

struct table_record {
	struct digest digest;
	uint64_t ticket;
	uint32_t window_s;
	uint32_t flags;
};

#define TABLE_PLACE_BITS 52
#define TABLE_CODE_BITS 10
#define TABLE_EXPIRY_BITS 43

struct table_cell {
	uint64_t expiry_ms; /* 0: never */
	uint64_t place;
	uint32_t code;
};

struct table_stats {
	uint64_t claims;  /* with the expired that still wait for the sweep */
	uint64_t expired; /* ever removed for age */
	uint64_t slots;
	uint64_t bytes;    /* mapped, all slack and the directory included */
	uint64_t rebuilds; /* of a few buckets each */
};

int table_new(struct table **ret_table) must_check;
/* A table of cells. `gone` is called for each that expires. */
struct table_watch {
	void (*gone)(void *user, uint64_t place, uint32_t code);
	void *user;
};
int table_new_of_cells(const struct table_watch *watch, struct table **ret_table) must_check;
struct table *table_free(struct table *table); /* accepts NULL, returns NULL */

/*
 * A digest on its way through the table. Three steps, TABLE_STEPS, start to
 * fetch what a find and a put of it will touch, each from what the one before
 * has fetched: so some other work, about that of five digests, should be between
 * them. All digests of a group are taken through a step in one call, since what
 * the processor waits for in one (the address of a page that it has not met
 * lately) it then fetches for several. But a core has only some two dozen lines
 * under way at a time, and stands still when it asks for more: so groups are small,
 * and what one is decided in is time for the lines of the others. Worth it when
 * eight or more digests are known before the first is needed.
 */
#define TABLE_STEPS 3u
#define TABLE_GROUP 8u /* digests in a group, about */

struct table_bucket;

struct table_probe {
	struct digest digest;        /* the caller's; the rest is the table's */
	struct table_bucket *bucket; /* where it is, if it is anywhere; NULL: not known */
	uint64_t absent;             /* it is not there as long as the table's puts are so many */
	int32_t hash;
	uint32_t version; /* of its shard: another one, another bucket */
};

static inline struct table_probe table_probe(const struct digest *digest)
{
	return (struct table_probe){ .digest = *digest };
}

/* Steps 0, 1, 2. Leaving steps out, or doing them too early, only costs time. */
void table_fetch(const struct table *table, uint32_t step, struct table_probe *probes,
                 size_t count);

/* True if the claim is taken and live. */
bool table_find(const struct table *table, const struct digest *digest, uint64_t now_ms,
                struct table_hit *ret_hit) must_check;
bool table_find_probe(const struct table *table, struct table_probe *probe, uint64_t now_ms,
                      struct table_hit *ret_hit) must_check;

/*
 * Takes the claim for a ticket. If the digest is there already, the higher
 * ticket stays, with its check, window and flags (the normal caller has asked
 * before, so what is replaced has expired, or a conflict passed; recovery reads
 * claims in any order).
 */
int table_put(struct table *table, const struct table_record *record, uint64_t now_ms) must_check;
/* The same for a record whose digest the probe has. */
int table_put_probe(struct table *table, struct table_probe *probe,
                    const struct table_record *record, uint64_t now_ms) must_check;

/* The same of cells, whatever the check of the digest. What is over is found, too. */
bool table_find_cell(const struct table *table, struct table_probe *probe,
                     struct table_cell *ret_cell) must_check;
int table_put_cell(struct table *table, struct table_probe *probe, const struct table_cell *cell,
                   uint64_t now_ms) must_check;

/* Puts these records; prefetches ahead. On -ENOMEM some are put; putting all again is
 * harmless. Records that have expired at now_ms are skipped. */
int table_put_batch(struct table *table, const struct table_record *records, size_t count,
                    uint64_t now_ms) must_check;
uint32_t table_shard_of(const struct digest *digest);

/* Forgets the claim, live or expired; false if it was not there. Never fails,
 * so it can undo the puts of a batch that was not written. */
bool table_remove(struct table *table, const struct digest *digest);

/*
 * Looks at about `budget` slots from where the last call ended, removes the
 * expired and gives memory back. Returns how many were removed. Reading a slot
 * costs about a nanosecond; to go once around within T, spend slots/T.
 */
uint64_t table_sweep(struct table *table, uint64_t now_ms, uint64_t budget);

/* A bulk load: buckets for `expected` claims in all, in those shards that are empty, so
 * that it seldom rebuilds. Of few claims it is nothing. */
int table_load_begin(struct table *table, uint64_t expected) must_check;

/* Adds up the shards: about a microsecond. */
void table_get_stats(const struct table *table, struct table_stats *ret_stats);

/*
 * For tests. Walks the live claims: start with a zeroed cursor. Puts and removes between
 * two calls may hide or repeat claims of the shard being walked, no others.
 */
struct table_cursor {
	uint32_t shard;
	uint32_t slot;
};
bool table_next(const struct table *table, struct table_cursor *cursor, uint64_t now_ms,
                struct table_record *ret_record) must_check;

/*
 * Walks cells in an order that no put changes: one that is there all the time is met.
 * Gives those of one bucket, and steps on; false at the end. Start with a zeroed place.
 */
#define TABLE_CELLS_MAX 64u
struct table_scan {
	uint32_t shard;
	int32_t hash;
	uint32_t count;
	struct table_cell cells[TABLE_CELLS_MAX]; /* out */
};
bool table_scan_next(const struct table *table, struct table_scan *scan) must_check;

/* Checks every invariant of every shard (slow; for tests). */
void table_check(const struct table *table);

/*
 * loader: puts the claims that recovery reads into the index.
 *
 * Claims come in the order of the journal, which is random to the index: put one by one,
 * each costs a walk of cold page tables and a cache miss. So when there are many they are
 * first gathered by shard, and the table gets a chunk of neighbouring shards at a time.
 *
 * Threads:   the owner's.
 * Ownership: loader_new() gives it, loader_free() takes it; the table is the caller's.
 * Failure:   -ENOMEM, at the latest from loader_finish().
 */

struct loader;

struct loader_options {
	struct table *table;
	uint64_t now_ms;   /* what has expired by then is left out */
	uint64_t expected; /* claims, about */
};
int loader_new(const struct loader_options *options, struct loader **ret_loader) must_check;
struct loader *loader_free(struct loader *loader); /* accepts NULL */
/* By value, in registers: a struct filled by the caller and copied here cost as
 * much as all the rest (the copy's wide loads wait for the narrow stores). */
int loader_add(struct loader *loader, struct digest digest, uint64_t ticket, uint32_t window_s,
               uint32_t flags) must_check;
int loader_finish(struct loader *loader) must_check;
