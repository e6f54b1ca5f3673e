/* lease_token: see lease_token.h. */
#include "gate/lease_token.h"

#include <endian.h>
#include <string.h>

#include "base/hash.h"
#include "base/hex.h"
#include "base/secret.h"

#define FORMAT 1

struct wire {
	uint64_t ticket;
	uint32_t expiry_s;
	uint16_t attempt;
	uint8_t format;
	uint8_t zero;
	uint64_t proof[2];
};

_Static_assert(sizeof(struct wire) * 2 == LEASE_TOKEN_LEN, "two digits a byte");

void lease_token_key_init(struct lease_token_key *ret_key,
                          const unsigned char key[static DIGEST_KEY_LEN])
{
	static const char purpose[] = "stile lease token 1";
	uint64_t words[2];

	hash_keyed128(key, purpose, sizeof(purpose), words);
	memcpy(ret_key->bytes, words, sizeof(ret_key->bytes));
}

static void prove(const struct lease_token_key *key, const struct wire *wire,
                  uint64_t ret_proof[static 2])
{
	hash_keyed128(key->bytes, wire, offsetof(struct wire, proof), ret_proof);
	ret_proof[0] = htole64(ret_proof[0]);
	ret_proof[1] = htole64(ret_proof[1]);
}

void lease_token_write(const struct lease_token_key *key, const struct lease_token *token,
                       char ret_text[static LEASE_TOKEN_LEN])
{
	struct wire wire = { .ticket = htole64(token->ticket),
		             .expiry_s = htole32(token->expiry_s),
		             .attempt = htole16((uint16_t)token->attempt),
		             .format = FORMAT };
	unsigned char bytes[sizeof(wire)];

	CHECK(token->attempt <= UINT16_MAX);
	prove(key, &wire, wire.proof);
	memcpy(bytes, &wire, sizeof(wire));
	hex_encode(bytes, sizeof(bytes), ret_text);
}

int lease_token_read(const struct lease_token_key *key, struct span text,
                     struct lease_token *ret_token)
{
	unsigned char bytes[sizeof(struct wire)];
	struct wire wire;
	uint64_t proof[2];

	if (text.len != LEASE_TOKEN_LEN || !hex_decode(text, bytes, sizeof(bytes)))
		return ERR_INVALID;
	memcpy(&wire, bytes, sizeof(wire));
	prove(key, &wire, proof);
	if (!secret_equal(span_of(proof, sizeof(proof)), span_of(wire.proof, sizeof(wire.proof))) ||
	    wire.format != FORMAT)
		return ERR_INVALID;
	*ret_token = (struct lease_token){ .ticket = le64toh(wire.ticket),
		                           .attempt = le16toh(wire.attempt),
		                           .expiry_s = le32toh(wire.expiry_s) };
	return 0;
}
