/* descriptors: see descriptors.h. */
#include "sys/descriptors.h"

#include <sys/resource.h>

uint64_t descriptors_raise_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 1024; /* what every system gives */
	struct rlimit raised = { .rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max };
	if (limit.rlim_cur < limit.rlim_max && setrlimit(RLIMIT_NOFILE, &raised) == 0)
		limit = raised;
	return limit.rlim_cur;
}
