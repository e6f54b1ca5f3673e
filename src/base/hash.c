/*
 * hash: see hash.h.
 *
 * SipHash is libsodium's: an own, inlined version was as fast (40 bytes: 26.6 and
 * 26.7 ns with gcc, 29.4 and 26.9 with clang).
 *
 * XXH3: a distribution's binary is built for the oldest x86-64. The dispatcher
 * of libxxhash picks AVX2 or AVX-512 at run time: 64 KiB in 1.2 µs against 3.4
 * with SSE2. But its AVX-512 code returns with the upper halves of the registers
 * dirty, and every SSE instruction after that runs up to four times slower (12 µs
 * for the same 64 KiB with SSE2): clean_upper_halves() prevents that.
 */
#include "base/hash.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <sodium/crypto_shorthash_siphash24.h>
#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#endif

_Static_assert(crypto_shorthash_siphashx24_KEYBYTES == HASH_KEY_LEN, "key length");
_Static_assert(crypto_shorthash_siphashx24_BYTES == 16, "digest length");

/* Up to this length XXH3 uses no vectors (XXH3_MIDSIZE_MAX). */
#define SCALAR_LEN_MAX 240

void hash_keyed128(const unsigned char key[static HASH_KEY_LEN], const void *ptr, size_t len,
                   uint64_t ret_words[static 2])
{
	/* Straight into place: a copy would load 16 bytes that were just stored as
	 * twice 8, which the processor cannot forward (8 ns). */
	crypto_shorthash_siphashx24((unsigned char *)ret_words, ptr, len, key);
	ret_words[0] = le64toh(ret_words[0]);
	ret_words[1] = le64toh(ret_words[1]);
}

static inline void clean_upper_halves(size_t len)
{
#if defined(__x86_64__)
	if (len > SCALAR_LEN_MAX && __builtin_cpu_supports("avx"))
		__asm__ volatile("vzeroupper" ::: "memory");
#else
	(void)len;
#endif
}

uint64_t hash_checksum64(const void *ptr, size_t len, uint64_t seed)
{
	uint64_t checksum = XXH3_64bits_withSeed(ptr, len, seed);
	clean_upper_halves(len);
	return checksum;
}

void hash_secret_init(struct hash_secret *ret_secret, const unsigned char key[static HASH_KEY_LEN],
                      const char *purpose)
{
	char text[64];
	for (size_t i = 0; i < sizeof(ret_secret->bytes); i += 16) {
		uint64_t words[2];
		int len = snprintf(text, sizeof(text), "%s %zu", purpose, i);
		CHECK(len > 0 && (size_t)len < sizeof(text));
		hash_keyed128(key, text, (size_t)len, words);
		words[0] = htole64(words[0]);
		words[1] = htole64(words[1]);
		memcpy(ret_secret->bytes + i, words, sizeof(words));
	}
}

uint64_t hash_secret64(const struct hash_secret *secret, const void *ptr, size_t len)
{
	uint64_t hash = XXH3_64bits_withSecret(ptr, len, secret->bytes, sizeof(secret->bytes));
	clean_upper_halves(len);
	return hash;
}

int hash_random(void *ptr, size_t len)
{
	unsigned char *at = ptr;
	while (len > 0) {
		ssize_t n = getrandom(at, len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}
