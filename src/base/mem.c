/* mem: see mem.h. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1; libraries know it later */
#endif

/* fail_at is 0 in production: one relaxed load and a predicted branch. */
static atomic_ulong fail_at;
static atomic_ulong fail_seen;
static atomic_bool fail_forever;

static bool must_fail(void)
{
	unsigned long at = atomic_load_explicit(&fail_at, memory_order_relaxed);
	if (likely(at == 0))
		return false;
	unsigned long seen = atomic_fetch_add(&fail_seen, 1) + 1;
	return seen == at || (seen > at && atomic_load(&fail_forever));
}

void mem_fail_at(unsigned long n, bool forever)
{
	atomic_store(&fail_seen, 0);
	atomic_store(&fail_forever, forever);
	atomic_store(&fail_at, n);
}

unsigned long mem_fail_count(void)
{
	return atomic_load(&fail_seen);
}

void *mem_alloc(size_t size)
{
	return must_fail() ? NULL : malloc(size ? size : 1);
}

void *mem_zalloc(size_t count, size_t size)
{
	return must_fail() ? NULL : calloc(count ? count : 1, size ? size : 1);
}

void *mem_realloc(void *ptr, size_t size)
{
	return must_fail() ? NULL : realloc(ptr, size ? size : 1);
}

void *mem_aligned(size_t alignment, size_t size)
{
	void *ptr = NULL;
	if (must_fail() || posix_memalign(&ptr, alignment, size ? size : 1) != 0)
		return NULL;
	return ptr;
}

char *mem_strdup(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = mem_alloc(size);
	if (copy)
		memcpy(copy, text, size);
	return copy;
}

void *mem_free(void *ptr)
{
	free(ptr);
	return NULL;
}

void *mem_map(size_t size)
{
	CHECK(size > 0 && size % MEM_PAGE == 0);
	if (must_fail())
		return NULL;
	void *ptr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return ptr == MAP_FAILED ? NULL : ptr;
}

void *mem_unmap(void *ptr, size_t size)
{
	/* Cutting a hole can fail only for want of kernel memory; then the pages
	 * at least are given back. */
	if (ptr && munmap(ptr, size) != 0)
		(void)madvise(ptr, size, MADV_DONTNEED);
	return NULL;
}

void *mem_reserve(size_t size)
{
	CHECK(size > 0 && size % MEM_PAGE == 0);
	if (must_fail())
		return NULL;
	void *ptr = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return ptr == MAP_FAILED ? NULL : ptr;
}

bool mem_commit(void *ptr, size_t size)
{
	CHECK(size > 0 && size % MEM_PAGE == 0);
	return !must_fail() && mprotect(ptr, size, PROT_READ | PROT_WRITE) == 0;
}

void mem_decommit(void *ptr, size_t size)
{
	if (size > 0)
		(void)madvise(ptr, size, MADV_DONTNEED);
}
