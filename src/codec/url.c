/* url: see url.h. */
#include "codec/url.h"

#include "base/error.h"
#include "base/hex.h"

int url_percent_decode(struct span text, char *bytes, size_t room, size_t *ret_len)
{
	size_t len = 0;
	for (size_t at = 0; at < text.len; at++) {
		char c = text.ptr[at];
		if (c == '%') {
			int high = text.len - at > 2 ? hex_value(text.ptr[at + 1]) : -1;
			int low = high >= 0 ? hex_value(text.ptr[at + 2]) : -1;
			if (low < 0)
				return ERR_INVALID;
			c = (char)(high * 16 + low);
			at += 2;
		}
		if (len == room)
			return ERR_TOO_LARGE;
		bytes[len++] = c;
	}
	*ret_len = len;
	return 0;
}
