/*
 * hash: keyed digests, checksums and random bytes.
 *
 * hash_keyed128() is SipHash-2-4 with 128 bits out: without the key, inputs that collide cannot
 * be chosen. See hash.c for the figures.
 *
 * hash_checksum64() is XXH3: finds damage, but does not stop an attacker. hash_secret64() is
 * XXH3 with a secret of 192 bytes in the place of its public one: as fast, and
 * good enough where a collision would only spoil a hint.
 *
 * Room: base, the only includer of xxhash and libsodium. Threads: pure, any.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"

#define HASH_KEY_LEN 16

/* Words are little-endian readings of the 16 output bytes. */
void hash_keyed128(const unsigned char key[static HASH_KEY_LEN], const void *ptr, size_t len,
                   uint64_t ret_words[static 2]);

uint64_t hash_checksum64(const void *ptr, size_t len, uint64_t seed);

struct hash_secret {
	unsigned char bytes[192];
};

/* Made of `key` and `purpose`, so that one key serves several. */
void hash_secret_init(struct hash_secret *ret_secret, const unsigned char key[static HASH_KEY_LEN],
                      const char *purpose);
uint64_t hash_secret64(const struct hash_secret *secret, const void *ptr, size_t len);

/* From the kernel's generator; 0 or -errno. */
int hash_random(void *ptr, size_t len) must_check;
