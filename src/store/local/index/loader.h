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
#pragma once

#include <stdint.h>

#include "base/check.h"
#include "store/local/index/table.h"

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
