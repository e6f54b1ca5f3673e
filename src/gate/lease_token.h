/*
 * lease_token: what whoever claimed an event shows to settle it. It names ticket and
 * attempt, which fence, and proves that the gateway gave it out.
 *
 *   bytes  what
 *   8      ticket, little-endian
 *   4      when the claim is forgotten: unix seconds
 *   2      attempt
 *   1      format: 1
 *   1      zero
 *   16     keyed digest of the above (SipHash-2-4-128, with a key of its own)
 *
 * all as hexadecimal digits.
 *
 * Room:    gate. Threads: values.
 * Failure: ERR_INVALID: not one of ours.
 */
#pragma once

#include <stdint.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/span.h"
#include "gate/digest.h"

#define LEASE_TOKEN_LEN 64

struct lease_token {
	uint64_t ticket;
	uint32_t attempt;
	uint32_t expiry_s;
};

struct lease_token_key {
	unsigned char bytes[HASH_KEY_LEN];
};

/* Of the store's secret. */
void lease_token_key_init(struct lease_token_key *ret_key,
                          const unsigned char key[static DIGEST_KEY_LEN]);

void lease_token_write(const struct lease_token_key *key, const struct lease_token *token,
                       char ret_text[static LEASE_TOKEN_LEN]); /* no NUL */
int lease_token_read(const struct lease_token_key *key, struct span text,
                     struct lease_token *ret_token) must_check;
