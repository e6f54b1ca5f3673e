/*
 * key_claim: the claim of a key that the caller names itself, instead of a recipe that
 * finds it in an event.
 *
 * The key is one value or a list of them, typed as the parts of a recipe: the number 1
 * is not the string "1", 1.0 is 1. Only strings and numbers are keys; an empty string is
 * none. Its rule is named as no recipe's can be, so that it never
 * meets the claim of an event.
 *
 * Room:    gate. Threads: pure, but for the scratch. No I/O.
 * Failure: ERR_INVALID or ERR_TOO_LARGE with a text for the caller; -ENOMEM.
 */
#pragma once

#include "base/buf.h"
#include "base/error.h"
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
