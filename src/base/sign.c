/* sign: see sign.h. */
#include "base/sign.h"

#include <sodium/crypto_sign_ed25519.h>

_Static_assert(crypto_sign_ed25519_PUBLICKEYBYTES == SIGN_PUBLIC_LEN, "key length");
_Static_assert(crypto_sign_ed25519_BYTES == SIGN_SIGNATURE_LEN, "signature length");

bool sign_verify(const unsigned char key[static SIGN_PUBLIC_LEN],
                 const unsigned char signature[static SIGN_SIGNATURE_LEN], struct span message)
{
	const unsigned char *bytes = (const unsigned char *)message.ptr;
	return crypto_sign_ed25519_verify_detached(signature, bytes, message.len, key) == 0;
}
