/* meters: see meters.h. */
#include "gate/meters.h"

#include <string.h>

#include "base/mem.h"

void source_counts_free(struct source_counts *counts)
{
	struct source_count *count = atomic_exchange(&counts->first, NULL);

	while (count) {
		struct source_count *next = atomic_load(&count->next);
		mem_free(count);
		count = next;
	}
}

/* The name is kept behind the meters. */
static struct source_count *count_new(const struct source_counts *counts, struct span name)
{
	size_t size = sizeof(struct source_count) +
	              counts->thread_count * sizeof(struct source_meters);
	struct source_count *count = mem_zalloc(1, size + name.len);

	if (!count)
		return NULL;
	char *copy = (char *)count + size;
	memcpy(copy, name.ptr, name.len);
	count->name = span_of(copy, name.len);
	return count;
}

struct source_meters *source_meters_of(struct source_counts *counts, struct span name)
{
	_Atomic(struct source_count *) *at = &counts->first;
	struct source_count *count;

	while ((count = atomic_load(at)) && !span_eq(count->name, name))
		at = &count->next;
	if (!count) {
		count = count_new(counts, name);
		atomic_store(at, count);
	}
	return count ? count->meters : NULL;
}
