/*
 * sign: signatures with a public key (ed25519).
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
