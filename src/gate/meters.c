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

struct source_meters *source_meters_of(struct source_counts *counts, struct span name)
{
	_Atomic(struct source_count *) *at = &counts->first;
	struct source_count *count;

	while ((count = atomic_load(at)) && !span_eq(count->name, name))
		at = &count->next;
	if (count)
		return count->meters;
	/* The name is kept behind the meters. */
	size_t size = sizeof(*count) + counts->thread_count * sizeof(struct source_meters);
	count = mem_zalloc(1, size + name.len);
	if (!count)
		return NULL;
	count->name = span_of((char *)count + size, name.len);
	memcpy((char *)count + size, name.ptr, name.len);
	atomic_store(at, count);
	return count->meters;
}
