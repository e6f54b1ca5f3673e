/* pattern: see pattern.h. */
#include "gate/pattern.h"

#include <string.h>

#include "base/error.h"

int pattern_split(struct span text, struct pattern *ret_pattern)
{
	struct pattern pattern = { .stars = false };
	for (;;) {
		const char *star = text.len ? memchr(text.ptr, '*', text.len) : NULL;
		size_t len = star ? (size_t)(star - text.ptr) : text.len;
		if (pattern.piece_count == PATTERN_PIECES_MAX)
			return ERR_TOO_LARGE;
		pattern.pieces[pattern.piece_count++] = span_of(text.ptr, len);
		if (!star)
			break;
		pattern.stars = true;
		text = span_skip(text, len + 1);
	}
	*ret_pattern = pattern;
	return 0;
}

static bool ends_with(struct span text, struct span end)
{
	return text.len >= end.len &&
	       (end.len == 0 || memcmp(text.ptr + text.len - end.len, end.ptr, end.len) == 0);
}

/* Pieces in their order, each as early as it can be: no way back is needed. */
bool pattern_matches_pieces(const struct pattern *pattern, struct span text)
{
	struct span first = pattern->pieces[0];
	CHECK(pattern->piece_count > 1);
	if (text.len < first.len || (first.len && memcmp(text.ptr, first.ptr, first.len) != 0))
		return false;
	text = span_skip(text, first.len);
	for (uint32_t i = 1; i + 1 < pattern->piece_count; i++) {
		struct span piece = pattern->pieces[i];
		const char *at = piece.len ? memmem(text.ptr, text.len, piece.ptr, piece.len)
		                           : text.ptr;
		if (!at)
			return false;
		text = span_skip(text, (size_t)(at - text.ptr) + piece.len);
	}
	return ends_with(text, pattern->pieces[pattern->piece_count - 1]);
}
