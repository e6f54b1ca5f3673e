/*
 * load_tls_keys: the key schedule and record protection of TLS 1.3 (RFC 8446,
 * sections 5.2 and 7), for TLS_AES_128_GCM_SHA256 only.
 *
 * Threads: one. Failure: these primitives fail only when memory is short, and
 * then CHECK() ends the generator.
 */
#pragma once

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TLS_HASH_BYTES 32
#define TLS_KEY_BYTES 16
#define TLS_IV_BYTES 12
#define TLS_TAG_BYTES 16
#define TLS_RECORD_HEAD 5

/* Everything that is fetched once, since OpenSSL 3 fetches slowly. */
struct tls_suite {
	EVP_MD *sha256;
	EVP_CIPHER *gcm;
	EVP_MD_CTX *hash;
	uint8_t empty[TLS_HASH_BYTES]; /* hash of nothing */
};

/* One direction of a connection. */
struct tls_traffic {
	EVP_CIPHER_CTX *cipher;
	uint8_t iv[TLS_IV_BYTES];
	uint64_t sequence;
};

void tls_suite_init(struct tls_suite *suite);
void tls_traffic_init(struct tls_traffic *traffic, const struct tls_suite *suite, bool seals);
void tls_traffic_key(struct tls_traffic *traffic, struct tls_suite *suite, const uint8_t *secret);

/* Seals `size` bytes at `body` + TLS_RECORD_HEAD of `record` in place; returns
 * the size of the whole record. The byte after the text and the tag need room. */
size_t tls_seal(struct tls_traffic *traffic, uint8_t *record, size_t size, uint8_t type);
/* Opens a whole record in place. Size of the text behind the head, or -1. */
long tls_open(struct tls_traffic *traffic, uint8_t *record, size_t record_size, uint8_t *ret_type);

void tls_hmac(struct tls_suite *suite, const uint8_t *key, const uint8_t *text, size_t size,
              uint8_t *mac);
/* HKDF-Expand-Label; `context` has context_size bytes, the result at most 32. */
void tls_expand(struct tls_suite *suite, const uint8_t *secret, const char *label,
                const uint8_t *context, size_t context_size, uint8_t *out, size_t out_size);
/* Derive-Secret with a hash that is there already. */
void tls_derive(struct tls_suite *suite, const uint8_t *secret, const char *label,
                const uint8_t *hash, uint8_t *out);
void tls_hash(struct tls_suite *suite, const uint8_t *text, size_t size, uint8_t *out);
