/* base64: see base64.h. */
#include "base/base64.h"

#include <string.h>

#include <sodium/utils.h>

#include "base/error.h"

void base64_append(struct buf *out, struct span bytes)
{
	size_t len = BASE64_LEN(bytes.len);
	buf_fail(out, buf_reserve(out, len + 1)); /* libsodium ends the text with a NUL */
	if (out->failed)
		return;
	sodium_bin2base64(out->ptr + out->len, len + 1, (const unsigned char *)bytes.ptr, bytes.len,
	                  sodium_base64_VARIANT_ORIGINAL);
	out->len += len;
}

int base64_decode(struct span text, unsigned char *bytes, size_t room, size_t *ret_len)
{
	size_t len = text.len / 4 * 3;
	if (text.len % 4 != 0)
		return ERR_INVALID;
	for (size_t i = 1; i <= 2 && i <= text.len && text.ptr[text.len - i] == '='; i++)
		len--;
	if (len > room)
		return ERR_TOO_LARGE;
	/* libsodium 1.0.18 reads the byte 0xFF as a slash. */
	if (text.len > 0 && memchr(text.ptr, 0xFF, text.len))
		return ERR_INVALID;
	if (sodium_base642bin(bytes, room, text.ptr, text.len, NULL, &len, NULL,
	                      sodium_base64_VARIANT_ORIGINAL) != 0)
		return ERR_INVALID;
	*ret_len = len;
	return 0;
}
