/* hash: see hash.h. */
#include "base/hash.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include <xxhash.h>

struct sip {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static inline uint64_t load_le64(const unsigned char *ptr)
{
	uint64_t word;
	memcpy(&word, ptr, sizeof(word));
	return le64toh(word);
}

static inline void sip_round(struct sip *s)
{
	s->v0 += s->v1;
	s->v1 = rotate(s->v1, 13) ^ s->v0;
	s->v0 = rotate(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = rotate(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = rotate(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = rotate(s->v1, 17) ^ s->v2;
	s->v2 = rotate(s->v2, 32);
}

static inline void sip_word(struct sip *s, uint64_t word)
{
	s->v3 ^= word;
	sip_round(s);
	sip_round(s);
	s->v0 ^= word;
}

static inline uint64_t sip_finish(struct sip *s)
{
	sip_round(s);
	sip_round(s);
	sip_round(s);
	sip_round(s);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

/* The last 0 … 7 bytes, with the length in the top byte. */
static inline uint64_t tail_word(const unsigned char *ptr, size_t len)
{
	uint64_t word = (uint64_t)len << 56;
	size_t left = len & 7;
	const unsigned char *tail = ptr + (len - left);
	for (size_t i = 0; i < left; i++)
		word |= (uint64_t)tail[i] << (8 * i);
	return word;
}

void hash_keyed128(const unsigned char key[static HASH_KEY_LEN], const void *ptr, size_t len,
		   uint64_t ret_words[static 2])
{
	const unsigned char *bytes = ptr;
	uint64_t k0 = load_le64(key);
	uint64_t k1 = load_le64(key + 8);
	struct sip s = {
		k0 ^ UINT64_C(0x736f6d6570736575),
		k1 ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
		k0 ^ UINT64_C(0x6c7967656e657261),
		k1 ^ UINT64_C(0x7465646279746573),
	};
	for (size_t i = 0; i + 8 <= len; i += 8)
		sip_word(&s, load_le64(bytes + i));
	sip_word(&s, tail_word(bytes, len));
	s.v2 ^= 0xee;
	ret_words[0] = sip_finish(&s);
	s.v1 ^= 0xdd;
	ret_words[1] = sip_finish(&s);
}

uint64_t hash_checksum64(const void *ptr, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(ptr, len, seed);
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
