/*
 * key_claim: the claim of a key that the caller names itself, instead of a recipe that
 * finds it in an event.
 *
 * The key is one value or a list of them, typed as the parts of a recipe: the number 1
 * is not the string "1", 1.0 is 1. Only strings and numbers are keys, and no empty string. No
 * recipe's rule can have the name of its rule, so it never collides with the claim of an event.
 *
 * Room:    gate. Threads: pure, but for the scratch. No I/O.
 * Failure: ERR_INVALID or ERR_TOO_LARGE with a text for the caller; -ENOMEM.
 */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "codec/json.h"
#include "gate/claim.h"
#include "gate/digest.h"

#define KEY_CLAIM_SCOPE SPAN("claims") /* if none is named */

/* Memory that calls share; zeroed is empty. */
struct key_claim_scratch {
	struct buf canonical;
	struct buf sorting;
};

struct key_claim {
	struct span scope; /* at most DIGEST_SOURCE_MAX bytes; empty: KEY_CLAIM_SCOPE */
	struct json_value key;
	/* At most one of them is there: what the key stands for, or the caller's digest of it. */
	struct json_value payload;
	struct json_value payload_digest;
};

void key_claim_scratch_free(struct key_claim_scratch *scratch);

/* With the content's check, or 0 if that is not known. */
int key_claim_digest(const struct key_claim *claim, const unsigned char key[static DIGEST_KEY_LEN],
                     struct key_claim_scratch *scratch, struct digest *ret_digest,
                     struct error_text *ret_problem) must_check;

/* What the outcome of a ticket is kept under: at the place of the ticket, so that it is
 * settled and its outcome kept in one write, also in a cluster. */
struct digest key_claim_answer(uint64_t ticket, const unsigned char key[static DIGEST_KEY_LEN]);

/*
 * The token with which a caller settles the event that it claimed. It names ticket and
 * attempt, which fence, and proves that the gateway issued it.
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
 */
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
