/* sign: see sign.h. */
#include "base/sign.h"

#include <sodium/crypto_auth_hmacsha256.h>
#include <sodium/crypto_sign_ed25519.h>
#include <sodium/utils.h>

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
