/* load_tls_keys: see load_tls_keys.h. */
#include "load_tls_keys.h"

#include <openssl/evp.h>
#include <string.h>

#include "base/check.h"

#define BLOCK_BYTES 64

void tls_suite_init(struct tls_suite *suite)
{
	suite->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	suite->gcm = EVP_CIPHER_fetch(NULL, "AES-128-GCM", NULL);
	suite->hash = EVP_MD_CTX_new();
	CHECK(suite->sha256 && suite->gcm && suite->hash);
	tls_hash(suite, NULL, 0, suite->empty);
}

void tls_hash(struct tls_suite *suite, const uint8_t *text, size_t size, uint8_t *out)
{
	CHECK(EVP_DigestInit_ex2(suite->hash, suite->sha256, NULL) == 1);
	CHECK(EVP_DigestUpdate(suite->hash, text, size) == 1);
	CHECK(EVP_DigestFinal_ex(suite->hash, out, NULL) == 1);
}

static void hash_padded(struct tls_suite *suite, const uint8_t *key, uint8_t pad,
                        const uint8_t *text, size_t size, uint8_t *out)
{
	uint8_t block[BLOCK_BYTES];
	memset(block, pad, sizeof(block));
	for (size_t i = 0; i < TLS_HASH_BYTES; i++)
		block[i] ^= key[i];
	CHECK(EVP_DigestInit_ex2(suite->hash, suite->sha256, NULL) == 1);
	CHECK(EVP_DigestUpdate(suite->hash, block, sizeof(block)) == 1);
	CHECK(EVP_DigestUpdate(suite->hash, text, size) == 1);
	CHECK(EVP_DigestFinal_ex(suite->hash, out, NULL) == 1);
}

void tls_hmac(struct tls_suite *suite, const uint8_t *key, const uint8_t *text, size_t size,
              uint8_t *mac)
{
	uint8_t inner[TLS_HASH_BYTES];
	hash_padded(suite, key, 0x36, text, size, inner);
	hash_padded(suite, key, 0x5c, inner, sizeof(inner), mac);
}

void tls_expand(struct tls_suite *suite, const uint8_t *secret, const char *label,
                const uint8_t *context, size_t context_size, uint8_t *out, size_t out_size)
{
	uint8_t info[128] = { 0, (uint8_t)out_size };
	uint8_t block[TLS_HASH_BYTES];
	size_t length = strlen(label);
	size_t at = 3;
	CHECK(length + context_size < 100 && out_size <= sizeof(block));
	info[2] = (uint8_t)(6 + length);
	memcpy(info + at, "tls13 ", 6);
	memcpy(info + at + 6, label, length);
	at += 6 + length;
	info[at++] = (uint8_t)context_size;
	if (context_size > 0)
		memcpy(info + at, context, context_size);
	at += context_size;
	info[at++] = 1; /* number of the one block of output */
	tls_hmac(suite, secret, info, at, block);
	memcpy(out, block, out_size);
}

void tls_derive(struct tls_suite *suite, const uint8_t *secret, const char *label,
                const uint8_t *hash, uint8_t *out)
{
	tls_expand(suite, secret, label, hash, TLS_HASH_BYTES, out, TLS_HASH_BYTES);
}

void tls_traffic_init(struct tls_traffic *traffic, const struct tls_suite *suite, bool seals)
{
	traffic->cipher = EVP_CIPHER_CTX_new();
	CHECK(traffic->cipher);
	CHECK(EVP_CipherInit_ex(traffic->cipher, suite->gcm, NULL, NULL, NULL, seals) == 1);
}

void tls_traffic_key(struct tls_traffic *traffic, struct tls_suite *suite, const uint8_t *secret)
{
	uint8_t key[TLS_KEY_BYTES];
	tls_expand(suite, secret, "key", NULL, 0, key, sizeof(key));
	tls_expand(suite, secret, "iv", NULL, 0, traffic->iv, TLS_IV_BYTES);
	CHECK(EVP_CipherInit_ex(traffic->cipher, NULL, NULL, key, NULL, -1) == 1);
	traffic->sequence = 0;
}

static void begin_record(struct tls_traffic *traffic, const uint8_t *head)
{
	uint8_t nonce[TLS_IV_BYTES];
	int size = 0;
	memcpy(nonce, traffic->iv, sizeof(nonce));
	for (int i = 0; i < 8; i++)
		nonce[TLS_IV_BYTES - 1 - i] ^= (uint8_t)(traffic->sequence >> (8 * i));
	traffic->sequence++;
	CHECK(EVP_CipherInit_ex(traffic->cipher, NULL, NULL, NULL, nonce, -1) == 1);
	CHECK(EVP_CipherUpdate(traffic->cipher, NULL, &size, head, TLS_RECORD_HEAD) == 1);
}

size_t tls_seal(struct tls_traffic *traffic, uint8_t *record, size_t size, uint8_t type)
{
	uint8_t *text = record + TLS_RECORD_HEAD;
	size_t sealed = size + 1 + TLS_TAG_BYTES;
	int done = 0;
	text[size] = type;
	record[0] = 23;
	record[1] = record[2] = 3;
	record[3] = (uint8_t)(sealed >> 8);
	record[4] = (uint8_t)sealed;
	begin_record(traffic, record);
	CHECK(EVP_CipherUpdate(traffic->cipher, text, &done, text, (int)size + 1) == 1);
	CHECK(EVP_CipherFinal_ex(traffic->cipher, text + done, &done) == 1);
	CHECK(EVP_CIPHER_CTX_ctrl(traffic->cipher, EVP_CTRL_AEAD_GET_TAG, TLS_TAG_BYTES,
	                          text + size + 1) == 1);
	return TLS_RECORD_HEAD + sealed;
}

long tls_open(struct tls_traffic *traffic, uint8_t *record, size_t record_size, uint8_t *ret_type)
{
	uint8_t *text = record + TLS_RECORD_HEAD;
	long size = (long)record_size - TLS_RECORD_HEAD - TLS_TAG_BYTES;
	int done = 0;
	if (size < 1)
		return -1;
	begin_record(traffic, record);
	CHECK(EVP_CipherUpdate(traffic->cipher, text, &done, text, (int)size) == 1);
	CHECK(EVP_CIPHER_CTX_ctrl(traffic->cipher, EVP_CTRL_AEAD_SET_TAG, TLS_TAG_BYTES,
	                          text + size) == 1);
	if (EVP_CipherFinal_ex(traffic->cipher, text + done, &done) != 1)
		return -1;
	while (size > 0 && text[size - 1] == 0)
		size--;
	if (size == 0)
		return -1;
	*ret_type = text[size - 1];
	return size - 1;
}
