/*
 * secret: bytes that must not leak through timing, messages or memory, and signatures:
 * ed25519 with a public key, HMAC-SHA-256 with a shared secret.
 *
 * Room: base (libsodium). Threads: pure.
 */
#pragma once

#include "base/check.h"
#include "base/span.h"

/* Are they equal? Lengths are compared first and are no secret; the time for equal lengths does
 * not depend on the bytes. Two empty spans are not equal. */
bool secret_equal(struct span a, struct span b) must_check;

/* Shorter secrets occur in any text and are not replaced. */
#define SECRET_BLOT_MIN 4u

/* Where a text repeats the secret, as it is or with some of its bytes written as \/, \u002f or
 * %2F, it becomes ***. `cut`: the text ends where somebody cut it, so the beginning of the
 * secret at its end goes too. Returns the new length. */
size_t secret_blot(char *text, size_t len, struct span secret, bool cut);

/* Overwrites; the compiler cannot remove it. */
void secret_wipe(void *ptr, size_t len);

/* ---- signatures ---- */

#define SIGN_PUBLIC_LEN 32
#define SIGN_SIGNATURE_LEN 64

/* Was `message` signed by the owner of the key? Keys of small order and
 * signatures in another than the one canonical form are refused. */
bool sign_verify(const unsigned char key[static SIGN_PUBLIC_LEN],
                 const unsigned char signature[static SIGN_SIGNATURE_LEN],
                 struct span message) must_check;

#define SIGN_HMAC_LEN 32

/* A prepared secret: the part that depends on it alone is hashed already. For
 * secret_wipe() when it is no longer needed. */
struct sign_hmac_key {
	_Alignas(8) unsigned char state[208];
};

void sign_hmac_key_init(struct sign_hmac_key *ret_key, struct span secret);

/* The code of the parts, one after the other. */
void sign_hmac(const struct sign_hmac_key *key, const struct span *parts, size_t count,
               unsigned char ret_code[static SIGN_HMAC_LEN]);
