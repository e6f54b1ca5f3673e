/*
 * http_corpus: requests and what becomes of them. One table for the parser
 * (every cut of the input) and for the server (over a socket).
 *
 * status 200: a whole request. 0: valid so far, more must come. Else the
 * refusal that a peer must see.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct http_corpus_row {
	const char *what;
	const char *bytes;
	size_t len;
	uint16_t status;
	const char *body; /* of a whole request; NULL: not looked at */
};

extern const struct http_corpus_row http_corpus[];
extern const size_t http_corpus_count;
