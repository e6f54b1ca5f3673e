/*
 * mem: the allocation seam. All heap memory of stile comes from here, so that
 * a test can make any allocation fail (mem_fail_at()).
 *
 * Room: base. Threads: any; the failure plan is for single-threaded tests.
 * Failure: NULL; nothing is logged.
 */
#pragma once

#include <stddef.h>

#include "base/check.h"

void *mem_alloc(size_t size) must_check;
void *mem_zalloc(size_t count, size_t size) must_check;      /* zeroed, overflow-checked */
void *mem_realloc(void *ptr, size_t size) must_check;        /* on failure ptr stays valid */
void *mem_aligned(size_t alignment, size_t size) must_check; /* free with mem_free() */
char *mem_strdup(const char *text) must_check;
void *mem_free(void *ptr); /* accepts NULL, returns NULL */

/* Whole zeroed pages, given back to the kernel by mem_unmap(); sizes are
 * multiples of MEM_PAGE. */
#define MEM_PAGE 4096u
void *mem_map(size_t size) must_check;
void *mem_unmap(void *ptr, size_t size); /* accepts NULL, returns NULL */

/* Addresses first, memory later: mem_reserve() gives addresses that cost nothing,
 * mem_commit() makes a part of them zeroed memory (false: no memory), mem_decommit()
 * gives the pages of a part back, which is zeroed memory still. mem_unmap() ends them all. */
void *mem_reserve(size_t size) must_check;
bool mem_commit(void *ptr, size_t size) must_check;
void mem_decommit(void *ptr, size_t size);

/* Tests: the n-th allocation from now fails (1 is the next); `forever` makes
 * all later ones fail too; n = 0 ends the plan. mem_fail_count() counts the allocations since
 * the plan began. */
void mem_fail_at(unsigned long n, bool forever);
unsigned long mem_fail_count(void);

static inline void mem_free_at(void *pointer_to_pointer)
{
	mem_free(*(void **)pointer_to_pointer);
}

/* cleanup_free char *x = …; is freed when the scope ends. */
#define cleanup_free __attribute__((cleanup(mem_free_at)))

/* Moves an owned pointer out of a variable. */
#define TAKE(pointer)                                   \
	__extension__({                                 \
		__typeof__(pointer) taken_ = (pointer); \
		(pointer) = NULL;                       \
		taken_;                                 \
	})
