/*
 * digest: the bytes that a claim's digest is made of.
 *
 * Stores remember digests for the length of a window, so this format stays as
 * it is: a change would let every remembered event through again.
 *
 *   bytes  what
 *   1      format: 1
 *   1      n, length of the source's name
 *   n      the source's name
 *   1      r, length of the rule's name
 *   r      the rule's name
 *   then for each part, in the order of the rule:
 *   1      its type: 's' string, 'n' number, 'l' literal, 'o' object, 'a' array, '-' missing
 *   4      l, its length, little-endian
 *   l      its value: strings decoded to UTF-8, all else as written
 *
 * Invariants
 *   D1  Two inputs have the same bytes only if source, rule and each part's type
 *       and value are the same: every length stands before what it measures.
 *   D2  Nothing of the door or of the way a string was escaped goes in.
 *
 * Room:    gate. Threads: values. No allocation.
 * Failure: ERR_TOO_LARGE; the input is then of no use.
 */
#pragma once

#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "gate/claim.h"

#define DIGEST_FORMAT 1
#define DIGEST_KEY_LEN 16
#define DIGEST_SOURCE_MAX 64 /* bytes of a source's name */
#define DIGEST_RULE_MAX 32
#define DIGEST_PART_MAX 1024 /* bytes of one part's value */
#define DIGEST_SCOPE_MAX (3 + DIGEST_SOURCE_MAX + DIGEST_RULE_MAX)
#define DIGEST_INPUT_MAX (DIGEST_SCOPE_MAX + 4 * (5 + DIGEST_PART_MAX))

enum digest_part {
	DIGEST_STRING = 's',
	DIGEST_NUMBER = 'n',
	DIGEST_LITERAL = 'l',
	DIGEST_OBJECT = 'o',
	DIGEST_ARRAY = 'a',
	DIGEST_MISSING = '-',
};

/* What stands before the parts: the same for all events of a source and rule. */
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
