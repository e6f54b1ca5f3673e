/* secret: see secret.h. */
#include "base/secret.h"

#include <sodium/crypto_auth_hmacsha256.h>
#include <sodium/crypto_sign_ed25519.h>
#include <sodium/utils.h>
#include <string.h>

#include "base/hex.h"

bool secret_equal(struct span a, struct span b)
{
	return a.len == b.len && a.len > 0 && sodium_memcmp(a.ptr, b.ptr, a.len) == 0;
}

static bool is_code(const char *digits, char byte)
{
	unsigned char value;
	return hex_decode(span_of(digits, 2), &value, 1) && value == (unsigned char)byte;
}

/* The number of bytes at the start of the text that encode this byte; 0: none. */
static size_t spelled(struct span text, char byte)
{
	CHECK(text.ptr && text.len > 0);
	bool slash = text.ptr[0] == '\\';
	if (text.ptr[0] == '%' && text.len >= 3 && is_code(text.ptr + 1, byte))
		return 3;
	if (slash && text.len >= 6 && memcmp(text.ptr + 1, "u00", 3) == 0 &&
	    is_code(text.ptr + 4, byte))
		return 6;
	if (slash && text.len >= 2 && text.ptr[1] == byte)
		return 2;
	return text.ptr[0] == byte;
}

/* How many bytes of the text, from its beginning on, are the secret; 0: none. */
static size_t match(struct span text, struct span secret, bool cut)
{
	size_t len = 0;
	if (span_starts(text, secret))
		return secret.len;
	for (size_t i = 0; i < secret.len; i++) {
		struct span rest = span_skip(text, len);
		if (rest.len == 0)
			return cut ? len : 0;
		size_t size = spelled(rest, secret.ptr[i]);
		if (size == 0) {
			/* Perhaps the start of a byte's code. */
			bool part = rest.ptr[0] == '%' && rest.len < 3;
			if (rest.ptr[0] == '\\')
				part = rest.len == 1 || (rest.len < 6 && rest.ptr[1] == 'u');
			return cut && part ? text.len : 0;
		}
		len += size;
	}
	return len;
}

size_t secret_blot(char *text, size_t len, struct span secret, bool cut)
{
	if (secret.len < SECRET_BLOT_MIN)
		return len;
	for (size_t at = 0; at < len; at++) {
		size_t size = match(span_of(text + at, len - at), secret, cut);
		size_t stars = size < 3 ? size
		                        : 3; /* less only at the end of a text that was cut */
		if (size == 0)
			continue;
		memset(text + at, '*', stars);
		memmove(text + at + stars, text + at + size, len - at - size);
		len -= size - stars;
		at += stars - 1;
	}
	return len;
}

void secret_wipe(void *ptr, size_t len)
{
	if (len > 0)
		sodium_memzero(ptr, len);
}

/* ---- signatures ---- */

_Static_assert(crypto_sign_ed25519_PUBLICKEYBYTES == SIGN_PUBLIC_LEN, "key length");
_Static_assert(crypto_sign_ed25519_BYTES == SIGN_SIGNATURE_LEN, "signature length");

bool sign_verify(const unsigned char key[static SIGN_PUBLIC_LEN],
                 const unsigned char signature[static SIGN_SIGNATURE_LEN], struct span message)
{
	const unsigned char *bytes = (const unsigned char *)message.ptr;
	return crypto_sign_ed25519_verify_detached(signature, bytes, message.len, key) == 0;
}

_Static_assert(crypto_auth_hmacsha256_BYTES == SIGN_HMAC_LEN, "code length");
_Static_assert(sizeof(crypto_auth_hmacsha256_state) == sizeof(struct sign_hmac_key), "state");
_Static_assert(_Alignof(crypto_auth_hmacsha256_state) <= 8, "state");

void sign_hmac_key_init(struct sign_hmac_key *ret_key, struct span secret)
{
	crypto_auth_hmacsha256_state state;
	const unsigned char *bytes = (const unsigned char *)(secret.ptr ? secret.ptr : "");
	crypto_auth_hmacsha256_init(&state, bytes, secret.len);
	memcpy(ret_key, &state, sizeof(state));
	sodium_memzero(&state, sizeof(state));
}

void sign_hmac(const struct sign_hmac_key *key, const struct span *parts, size_t count,
               unsigned char ret_code[static SIGN_HMAC_LEN])
{
	crypto_auth_hmacsha256_state state;
	memcpy(&state, key, sizeof(state));
	for (size_t i = 0; i < count; i++)
		crypto_auth_hmacsha256_update(&state, (const unsigned char *)parts[i].ptr,
		                              parts[i].len);
	crypto_auth_hmacsha256_final(&state, ret_code);
	sodium_memzero(&state, sizeof(state));
}
