/*
 * hmac: message authentication with a shared secret (RFC 2104).
 *
 * A key is prepared once: the blocks that depend on the secret alone are hashed then,
 * and the secret itself is not kept. So a code of 1 KB costs little more than the hash
 * of its bytes; hmac.c has the figures.
 *
 *   struct hmac hmac = { 0 };
 *   hmac_begin(&hmac, key);
 *   hmac_update(&hmac, body);
 *   error = hmac_end(&hmac, code);      … as often as there are keys …
 *   hmac_close(&hmac);
 *
 * Room:      net, where OpenSSL lives. Threads: a key may be used by any number;
 *            a struct hmac has one owner.
 * Ownership: hmac_key_free() wipes and takes the key; hmac_close() what
 *            hmac_begin() made.
 * Failure:   hmac_end() reports what failed before: -ENOMEM.
 */
#pragma once

#include "base/check.h"
#include "base/span.h"

#define HMAC_MAX 64 /* bytes of the longest code */

enum hmac_algorithm { HMAC_SHA256 = 0, HMAC_SHA1, HMAC_SHA512 };

struct hmac_key;

int hmac_key_new(enum hmac_algorithm algorithm, struct span secret,
                 struct hmac_key **ret_key) must_check;
struct hmac_key *hmac_key_free(struct hmac_key *key);

size_t hmac_len(enum hmac_algorithm algorithm); /* bytes of a code: 32, 20, 64 */

/* Zeroed before the first hmac_begin(). */
struct hmac {
	struct evp_md_ctx_st *context;
	const struct hmac_key *key;
	bool failed;
};

void hmac_begin(struct hmac *hmac, const struct hmac_key *key);
void hmac_update(struct hmac *hmac, struct span bytes);
int hmac_end(struct hmac *hmac, unsigned char ret_code[static HMAC_MAX]) must_check;
void hmac_close(struct hmac *hmac);

/* The plain digest, without a key; 0 or -ENOMEM. */
int hmac_digest(enum hmac_algorithm algorithm, struct span bytes,
                unsigned char ret_digest[static HMAC_MAX]) must_check;
