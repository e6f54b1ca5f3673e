/*
 * hash: keyed digests, checksums and random bytes.
 *
 * hash_keyed128() is SipHash-2-4 with 128 bits out: with a secret key nobody can
 * choose inputs that collide. See hash.c for the figures.
 *
 * hash_checksum64() is XXH3: finds damage, keeps no enemy out. hash_secret64() is
 * XXH3 with a secret of 192 bytes in the place of its public one: as fast, and
 * good enough where a collision would only spoil a hint.
 *
 * Room: base, the only includer of xxhash and libsodium. Threads: pure, any.
 */
#pragma once

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"

#define HASH_KEY_LEN 16

/* Words are little-endian readings of the 16 output bytes. */
void hash_keyed128(const unsigned char key[static HASH_KEY_LEN], const void *ptr, size_t len,
                   uint64_t ret_words[static 2]);

/*
 * The same hash in steps: begin, feed whole words of 8 bytes, finish with the rest.
 * A state is a value: what many inputs have in common is fed once.
 */
struct hash_state {
	uint64_t v0, v1, v2, v3;
};

struct hash_state hash_state_begin(const unsigned char key[static HASH_KEY_LEN]);
struct hash_state hash_state_feed(struct hash_state state, const void *ptr, size_t len);

struct hash_rest {
	struct hash_state state;
	const unsigned char *ptr; /* the whole input … */
	size_t done;              /* … of which so many bytes are in the state */
	size_t len;
};

static inline uint64_t hash_load64(const unsigned char *p)
{
	uint64_t word;
	memcpy(&word, p, sizeof(word));
	return le64toh(word);
}

/* What is fed last: the bytes that are no whole word, and the length. */
static inline uint64_t hash_last_word(const unsigned char *ptr, size_t len)
{
	unsigned char rest[8] = { 0 };
	uint64_t length = (uint64_t)len << 56;
	size_t left = len % 8;
	if (left == 0)
		return length;
	if (likely(len >= 8)) /* the last eight bytes, without those of the word before */
		return hash_load64(ptr + len - 8) >> (64 - 8 * left) | length;
	memcpy(rest, ptr, left);
	return hash_load64(rest) | length;
}

void hash_finish(const struct hash_rest *rest, uint64_t ret_words[static 2]);

/* Two inputs in less time than one after the other. */
void hash_finish_pair(const struct hash_rest rests[static 2], uint64_t ret_first[static 2],
                      uint64_t ret_second[static 2]);

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
