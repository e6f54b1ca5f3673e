/* secret: see secret.h. */
#include "base/secret.h"

#include <sodium/utils.h>

bool secret_equal(struct span a, struct span b)
{
	return a.len == b.len && a.len > 0 && sodium_memcmp(a.ptr, b.ptr, a.len) == 0;
}

void secret_wipe(void *ptr, size_t len)
{
	if (len > 0)
		sodium_memzero(ptr, len);
}
