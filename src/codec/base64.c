/* base64: see base64.h. */
#include "codec/base64.h"

#include <stdint.h>

#include "base/error.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(struct span bytes, char *ret_text)
{
	const unsigned char *in = (const unsigned char *)bytes.ptr;
	for (size_t at = 0; at < bytes.len; at += 3) {
		size_t left = bytes.len - at;
		uint32_t word = (uint32_t)in[at] << 16;
		if (left > 1)
			word |= (uint32_t)in[at + 1] << 8;
		if (left > 2)
			word |= in[at + 2];
		*ret_text++ = digits[word >> 18];
		*ret_text++ = digits[word >> 12 & 63];
		*ret_text++ = left > 1 ? digits[word >> 6 & 63] : '=';
		*ret_text++ = left > 2 ? digits[word & 63] : '=';
	}
}

/* The value of a digit, or -1. */
static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

/* Four characters, of which `count` stand for something, as 24 bits; -1 when
 * one is no digit. */
static int32_t read_four(const char *text, size_t count)
{
	int32_t word = 0;
	for (size_t i = 0; i < 4; i++) {
		int value = i < count ? value_of(text[i]) : 0;
		if (value < 0)
			return -1;
		word = word << 6 | value;
	}
	return word;
}

static size_t padding_of(struct span text)
{
	if (text.len == 0 || text.ptr[text.len - 1] != '=')
		return 0;
	return text.ptr[text.len - 2] == '=' ? 2 : 1;
}

int base64_decode(struct span text, unsigned char *bytes, size_t room, size_t *ret_len)
{
	if (text.len % 4 != 0)
		return ERR_INVALID;
	size_t padding = padding_of(text);
	size_t len = text.len / 4 * 3 - padding;
	if (len > room)
		return ERR_TOO_LARGE;
	for (size_t in = 0, out = 0; in < text.len; in += 4, out += 3) {
		size_t pad = text.len - in == 4 ? padding : 0;
		int32_t word = read_four(text.ptr + in, 4 - pad);
		if (word < 0 || (pad > 0 && (word & (pad == 1 ? 0xff : 0xffff)) != 0))
			return ERR_INVALID;
		bytes[out] = (unsigned char)(word >> 16);
		if (pad < 2)
			bytes[out + 1] = (unsigned char)(word >> 8);
		if (pad < 1)
			bytes[out + 2] = (unsigned char)word;
	}
	*ret_len = len;
	return 0;
}
