/*
 * sign: signatures, with a public key (ed25519) and with a shared secret (HMAC of
 * SHA-256).
 *
 * Room: base (libsodium). Threads: pure.
 */
#pragma once

#include "base/check.h"
#include "base/span.h"

#define SIGN_PUBLIC_LEN 32
#define SIGN_SIGNATURE_LEN 64

/* Was `message` signed by the owner of the key? Keys of small order and
 * signatures in another than the one canonical form are refused. */
bool sign_verify(const unsigned char key[static SIGN_PUBLIC_LEN],
                 const unsigned char signature[static SIGN_SIGNATURE_LEN],
                 struct span message) must_check;

#define SIGN_HMAC_LEN 32

/* A secret made ready: what depends on it alone is hashed already. For
 * secret_wipe() when it is no longer needed. */
struct sign_hmac_key {
	_Alignas(8) unsigned char state[208];
};

void sign_hmac_key_init(struct sign_hmac_key *ret_key, struct span secret);

/* The code of the parts, one after the other. */
void sign_hmac(const struct sign_hmac_key *key, const struct span *parts, size_t count,
               unsigned char ret_code[static SIGN_HMAC_LEN]);
