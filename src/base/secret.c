/* secret: see secret.h. */
#include "base/secret.h"

#include <sodium/utils.h>
#include <string.h>

bool secret_equal(struct span a, struct span b)
{
	return a.len == b.len && a.len > 0 && sodium_memcmp(a.ptr, b.ptr, a.len) == 0;
}

size_t secret_blot(char *text, size_t len, struct span secret)
{
	char *at = text;
	while (len > 0 && secret.len >= SECRET_BLOT_MIN &&
	       (at = memmem(at, len - (size_t)(at - text), secret.ptr, secret.len)) != NULL) {
		size_t behind = len - (size_t)(at - text) - secret.len;
		memset(at, '*', 3);
		memmove(at + 3, at + secret.len, behind);
		len -= secret.len - 3;
		at += 3;
	}
	return len;
}

void secret_wipe(void *ptr, size_t len)
{
	if (len > 0)
		sodium_memzero(ptr, len);
}
