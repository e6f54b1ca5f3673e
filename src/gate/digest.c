/* digest: see digest.h. */
#include "gate/digest.h"

#include <endian.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"

_Static_assert(DIGEST_KEY_LEN == HASH_KEY_LEN, "the key of a digest is the hash's");
_Static_assert(DIGEST_SCOPE_MAX <= UINT8_MAX, "digest_scope.len holds every length");

static uint8_t put_name(unsigned char *bytes, struct span name)
{
	bytes[0] = (unsigned char)name.len;
	memcpy(bytes + 1, name.ptr, name.len);
	return (uint8_t)(1 + name.len);
}

int digest_scope_init(struct digest_scope *ret_scope, struct span source, struct span rule)
{
	if (source.len > DIGEST_SOURCE_MAX || rule.len > DIGEST_RULE_MAX)
		return ERR_TOO_LARGE;
	if (source.len == 0 || rule.len == 0)
		return ERR_INVALID;
	uint8_t len = 0;
	ret_scope->bytes[len++] = DIGEST_FORMAT;
	len = (uint8_t)(len + put_name(ret_scope->bytes + len, source));
	len = (uint8_t)(len + put_name(ret_scope->bytes + len, rule));
	CHECK(len <= DIGEST_SCOPE_MAX);
	ret_scope->len = len;
	return 0;
}

void digest_begin(struct digest_input *input, const struct digest_scope *scope)
{
	CHECK(scope->len > 0);
	memcpy(input->bytes, scope->bytes, scope->len);
	input->len = scope->len;
}

int digest_add(struct digest_input *input, enum digest_part type, struct span value)
{
	CHECK(input->len <= DIGEST_INPUT_MAX);
	if (value.len > DIGEST_PART_MAX || DIGEST_INPUT_MAX - input->len < 5 + value.len)
		return ERR_TOO_LARGE;
	unsigned char *at = input->bytes + input->len;
	uint32_t len = htole32((uint32_t)value.len);
	at[0] = (unsigned char)type;
	memcpy(at + 1, &len, sizeof(len));
	if (value.len > 0 && value.ptr != digest_room(input))
		memcpy(at + 5, value.ptr, value.len);
	input->len += 5 + (uint32_t)value.len;
	return 0;
}

struct digest digest_end(const struct digest_input *input,
                         const unsigned char key[static DIGEST_KEY_LEN])
{
	struct digest digest;
	CHECK(input->len <= DIGEST_INPUT_MAX);
	hash_keyed128(key, input->bytes, input->len, digest.word);
	return digest;
}

struct digest_value digest_of_bytes(const unsigned char key[static DIGEST_KEY_LEN],
                                    struct span bytes)
{
	struct digest_value value;
	uint64_t words[2];
	hash_keyed128(key, bytes.ptr, bytes.len, words);
	words[0] = htole64(words[0]);
	words[1] = htole64(words[1]);
	memcpy(value.bytes, words, sizeof(value.bytes));
	return value;
}
