/*
 * claim: a digest that may be taken once within its window.
 *
 * Room: gate (pure values; `now` is always a parameter).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CLAIMS_MAX 4

/*
 * What a claim is known by: word[0] and the upper half of word[1] are the key, 96
 * bits of a keyed digest (SipHash-2-4-128) over scope, rule and typed parts. The
 * lower half of word[1] is the content check: 32 bits of a keyed digest of what the
 * event says, by which a `once` claim that comes again with other content is distinguished from
 * a duplicate; 0 is unknown. It is no part of the key.
 *
 * The chance that among 100 million claims any two different keys agree in 96 bits
 * is 6e-14; that of two contents to agree in the check is 2e-10, each time.
 */
struct digest {
	uint64_t word[2];
};

static inline uint32_t digest_check(const struct digest *digest)
{
	return (uint32_t)digest->word[1];
}

static inline struct digest digest_with_check(struct digest digest, uint32_t check)
{
	digest.word[1] = digest.word[1] >> 32 << 32 | check;
	return digest;
}

/*
 * A store that is spread over several servers puts what belongs to a digest, and to a
 * ticket (gate/ticket.h), at the server of its place: a number below DIGEST_PLACES. What
 * has the same place can be one write.
 */
#define DIGEST_PLACES 1024u
#define DIGEST_PLACE_SHIFT 40

static inline uint32_t digest_place(const struct digest *digest)
{
	return (uint32_t)(digest->word[0] >> DIGEST_PLACE_SHIFT) & (DIGEST_PLACES - 1);
}

static inline struct digest digest_with_place(struct digest digest, uint32_t place)
{
	digest.word[0] ^= (uint64_t)(digest_place(&digest) ^ (place & (DIGEST_PLACES - 1)))
	                  << DIGEST_PLACE_SHIFT;
	return digest;
}

static inline bool digest_same_key(const struct digest *a, const struct digest *b)
{
	return a->word[0] == b->word[0] && (a->word[1] ^ b->word[1]) >> 32 == 0;
}

enum claim_kind {
	CLAIM_ONCE = 0,    /* this very thing: a key of parts */
	CLAIM_CONTENT = 1, /* the same content under whatever id; decided as `once` */
	CLAIM_NEWEST = 2,  /* this entity, only forwards in time */
};

struct claim {
	struct digest digest;
	uint32_t window_s; /* at least 1 */
	uint8_t kind;      /* enum claim_kind */
	bool shadow;       /* never drops the event; what it would have decided is recorded */
	bool equal_drops;  /* newest: an equal order is stale; else it passes */
	/* newest: what goes forwards: milliseconds << 8 | rank of a tie. */
	uint64_t order;
};
