/*
 * digest: the bytes that a claim's digest is made of.
 *
 * Stores remember digests for the length of a window, so this format stays as
 * it is: a change would let every remembered event through again.
 *
 *   bytes  what
 *   1      format: 1
 *   1      n, length of the scope (the source's name, or what several share)
 *   n      the scope
 *   1      r, length of the rule's name
 *   r      the rule's name
 *   then for each part, in the order of the rule:
 *   1      its type
 *   4      l, its length, little-endian
 *   l      its value
 *
 *   type  value
 *   's'   string: decoded to UTF-8
 *   'n'   number: its exact form (codec/json_number.h)
 *   'l'   literal: true, false, null
 *   'o'   object, 'a' array: keyed digest of its canonical form, 16 bytes
 *   '*'   list: keyed digest of its elements, each as a part of its own, 16 bytes
 *   'b'   body that is not JSON: keyed digest of its bytes, 16 bytes
 *   'i'   place within a batch: decimal digits
 *   '>'   a rule that goes forwards (newest): comes first, empty
 *   '-'   missing: empty
 *
 * Invariants
 *   D1  Two inputs have the same bytes only if scope, rule and each part's type
 *       and value are the same: every length precedes what it measures. (Of
 *       containers, lists and bodies: unless 128 keyed bits collide.)
 *   D2  Nothing of the door or of the way a value was written goes in.
 *
 * Room:    gate. Threads: values. No allocation.
 * Failure: ERR_TOO_LARGE; the input is then of no use.
 */
#pragma once

#include <stdint.h>

#include "base/check.h"
#include "base/error.h"
#include "base/span.h"
#include "gate/claim.h"

#define DIGEST_FORMAT 1
#define DIGEST_KEY_LEN 16
#define DIGEST_SOURCE_MAX 64 /* bytes of a scope */
#define DIGEST_RULE_MAX 32
#define DIGEST_PART_MAX 1024 /* bytes of one part's value */
#define DIGEST_PARTS_MAX 10  /* of the longest kind */
#define DIGEST_SCOPE_MAX (3 + DIGEST_SOURCE_MAX + DIGEST_RULE_MAX)
#define DIGEST_INPUT_MAX (DIGEST_SCOPE_MAX + DIGEST_PARTS_MAX * (5 + DIGEST_PART_MAX))

enum digest_part {
	DIGEST_STRING = 's',
	DIGEST_NUMBER = 'n',
	DIGEST_LITERAL = 'l',
	DIGEST_OBJECT = 'o',
	DIGEST_ARRAY = 'a',
	DIGEST_LIST = '*',
	DIGEST_BODY = 'b',
	DIGEST_PLACE = 'i',
	DIGEST_FORWARDS = '>',
	DIGEST_MISSING = '-'
};

/* What precedes the parts: the same for all events of a source and rule. */
struct digest_scope {
	uint8_t len;
	unsigned char bytes[DIGEST_SCOPE_MAX];
};

struct digest_input {
	uint32_t len;
	unsigned char bytes[DIGEST_INPUT_MAX];
};

int digest_scope_init(struct digest_scope *ret_scope, struct span source,
                      struct span rule) must_check;
void digest_begin(struct digest_input *input, const struct digest_scope *scope);
int digest_add(struct digest_input *input, enum digest_part type, struct span value) must_check;
struct digest digest_end(const struct digest_input *input,
                         const unsigned char key[static DIGEST_KEY_LEN]);

/* For values that go in as a digest of their own; the same to all machines. */
struct digest_value {
	unsigned char bytes[16];
};

struct digest_value digest_of_bytes(const unsigned char key[static DIGEST_KEY_LEN],
                                    struct span bytes);

/* Where the next part's value will be: one may write it there and give that very
 * place to digest_add(), which then copies nothing; a place inside of it would be
 * overwritten while it is copied. Of DIGEST_PART_MAX bytes at least, while fewer than DIGEST_PARTS_MAX parts are in. */
static inline char *digest_room(struct digest_input *input)
{
	return (char *)input->bytes + input->len + 5;
}
