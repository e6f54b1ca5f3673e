/* key_claim: see key_claim.h. */
#include "gate/key_claim.h"

#include <endian.h>

#include "base/hash.h"
#include "base/hex.h"
#include "base/secret.h"
#include "base/text.h"
#include "codec/jcs.h"
#include "codec/json_number.h"
#include "gate/ticket.h"

/* No rule of a recipe is named so: theirs have no slash. */
#define RULE SPAN("/v1/claims")
#define ANSWER_RULE SPAN("/v1/claims/answer")
#define CANONICAL_MAX (32u << 20)

void key_claim_scratch_free(struct key_claim_scratch *scratch)
{
	buf_free(&scratch->canonical);
	buf_free(&scratch->sorting);
}

static int add_part(struct digest_input *input, const struct json_value *value,
                    struct error_text *ret_problem)
{
	struct span text = value->text;
	int r = 0;

	switch (value->type) {
	case JSON_STRING:
		if (text.len == 0)
			return error_fill(ret_problem, ERR_INVALID,
			                  "expected a key, found an empty string");
		if (value->escaped) {
			text.ptr = digest_room(input);
			r = json_decode(value->text, digest_room(input), DIGEST_PART_MAX,
			                &text.len);
		}
		r = r < 0 ? r : digest_add(input, DIGEST_STRING, text);
		break;
	case JSON_NUMBER:
		r = json_number_exact(value->text, digest_room(input), DIGEST_PART_MAX, &text);
		r = r < 0 ? r : digest_add(input, DIGEST_NUMBER, text);
		break;
	case JSON_NONE: return error_fill(ret_problem, ERR_INVALID, "expected a key, found none");
	default:
		return error_fill(ret_problem, ERR_INVALID,
		                  "expected a text or a number in key, found %s",
		                  json_type_name(value->type));
	}
	if (r == ERR_TOO_LARGE)
		error_fill(ret_problem, r, "expected at most %d bytes in a part of the key",
		           DIGEST_PART_MAX);
	return r;
}

static int add_list(struct digest_input *input, struct span list, struct error_text *ret_problem)
{
	struct json_elements elements;
	struct json_doc doc;
	struct span element;
	uint32_t count = 0;

	int more = json_elements_begin(&elements, list);
	while (more == 0 && (more = json_elements_next(&elements, NULL, &doc, &element)) == 1) {
		struct json_value value = { .type = doc.root, .text = element };

		if (doc.root == JSON_STRING) {
			value.text = span_of(element.ptr + 1, element.len - 2);
			value.escaped = memchr(element.ptr, '\\', element.len) != NULL;
		}
		if (++count > DIGEST_PARTS_MAX)
			return error_fill(ret_problem, ERR_TOO_LARGE,
			                  "expected at most %d parts of a key", DIGEST_PARTS_MAX);
		more = add_part(input, &value, ret_problem);
	}
	if (more == 0 && count == 0)
		return error_fill(ret_problem, ERR_INVALID, "expected a key, found an empty list");
	return more;
}

static int content_check(const struct key_claim *claim, const unsigned char *key,
                         struct key_claim_scratch *scratch, uint32_t *ret_check,
                         struct error_text *ret_problem)
{
	const struct json_value *digest = &claim->payload_digest;
	struct span bytes = digest->text;

	*ret_check = 0;
	if (digest->type != JSON_NONE && claim->payload.type != JSON_NONE)
		return error_fill(ret_problem, ERR_INVALID,
		                  "found payload and payload_digest, expected one of them");
	if (digest->type != JSON_NONE && digest->type != JSON_STRING)
		return error_fill(ret_problem, ERR_INVALID, "expected a string in payload_digest");
	if (claim->payload.type != JSON_NONE) {
		struct span text = claim->payload.text;
		if (claim->payload.type == JSON_STRING) /* with its quotes */
			text = span_of(text.ptr - 1, text.len + 2);
		const struct jcs_options options = { .exact = true };
		struct json_problem problem;
		buf_clear(&scratch->canonical);
		scratch->canonical.cap = scratch->sorting.cap = CANONICAL_MAX;
		int r = jcs_write(text, &options, &scratch->canonical, &scratch->sorting, &problem);
		if (r == ERR_INVALID)
			error_fill(ret_problem, r, "at byte %zu of the payload: expected %s",
			           problem.offset, problem.expected);
		if (r == ERR_TOO_LARGE)
			error_fill(ret_problem, r, "the payload is too large to be compared");
		if (r < 0)
			return r;
		bytes = buf_span(&scratch->canonical);
	} else if (digest->type == JSON_NONE || bytes.len == 0) {
		return 0;
	}
	struct digest_value hash = digest_of_bytes(key, bytes);
	memcpy(ret_check, hash.bytes, sizeof(*ret_check));
	*ret_check = le32toh(*ret_check);
	if (*ret_check == 0)
		*ret_check = 1;
	return 0;
}

int key_claim_digest(const struct key_claim *claim, const unsigned char key[static DIGEST_KEY_LEN],
                     struct key_claim_scratch *scratch, struct digest *ret_digest,
                     struct error_text *ret_problem)
{
	struct digest_input input;
	struct digest_scope scope;
	uint32_t check = 0;

	int r = digest_scope_init(&scope, claim->scope.len ? claim->scope : KEY_CLAIM_SCOPE, RULE);
	if (r < 0)
		return error_fill(ret_problem, r, "expected at most %d bytes in scope",
		                  DIGEST_SOURCE_MAX);
	digest_begin(&input, &scope);
	r = claim->key.type == JSON_ARRAY ? add_list(&input, claim->key.text, ret_problem)
	                                  : add_part(&input, &claim->key, ret_problem);
	if (r == 0)
		r = content_check(claim, key, scratch, &check, ret_problem);
	if (r < 0)
		return r;
	*ret_digest = digest_with_check(digest_end(&input, key), check);
	return 0;
}

struct digest key_claim_answer(uint64_t ticket, const unsigned char key[static DIGEST_KEY_LEN])
{
	struct digest_input input;
	struct digest_scope scope;
	char digits[TEXT_U64_MAX];

	int r = digest_scope_init(&scope, KEY_CLAIM_SCOPE, ANSWER_RULE);
	CHECK(r == 0);
	digest_begin(&input, &scope);
	r = digest_add(&input, DIGEST_NUMBER, span_of(digits, text_u64(digits, ticket)));
	CHECK(r == 0);
	return digest_with_place(digest_with_check(digest_end(&input, key), 0),
	                         ticket_place(ticket));
}

/* ---- lease tokens ---- */

#define TOKEN_FORMAT 1

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
		             .format = TOKEN_FORMAT };
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
	    wire.format != TOKEN_FORMAT)
		return ERR_INVALID;
	*ret_token = (struct lease_token){ .ticket = le64toh(wire.ticket),
		                           .attempt = le16toh(wire.attempt),
		                           .expiry_s = le32toh(wire.expiry_s) };
	return 0;
}
