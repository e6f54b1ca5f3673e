/*
 * loader: puts the claims that recovery reads into the index, on a second
 * thread, so that reading and checking go on meanwhile.
 *
 * Threads:   the owner calls everything here; the thread, if there is one,
 *            alone touches the table between new and finish.
 * Ownership: loader_new() gives it, loader_free() takes it; the table is the
 *            caller's.
 * Failure:   -ENOMEM, at the latest from loader_finish().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "store/local/table.h"

struct loader;

int loader_new(struct table *table, uint64_t now_ms, bool threaded,
               struct loader **ret_loader) must_check;
struct loader *loader_free(struct loader *loader); /* accepts NULL; waits for the thread */
int loader_reserve(struct loader *loader, uint64_t expected) must_check;
int loader_finish(struct loader *loader) must_check;

int loader_add(struct loader *loader, const struct table_record *record) must_check;
