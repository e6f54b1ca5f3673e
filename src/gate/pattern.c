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

/* Finds the pieces in their order, each as early as possible: so it never goes back. */
bool pattern_matches_pieces(const struct pattern *pattern, struct span text)
{
	struct span last = pattern->pieces[pattern->piece_count - 1];
	CHECK(pattern->piece_count > 1);
	if (!span_starts(text, pattern->pieces[0]))
		return false;
	text = span_skip(text, pattern->pieces[0].len);
	for (uint32_t i = 1; i + 1 < pattern->piece_count; i++) {
		struct span piece = pattern->pieces[i];
		if (piece.len == 0)
			continue;
		const char *at = text.len > 0 && text.ptr
		                         ? memmem(text.ptr, text.len, piece.ptr, piece.len)
		                         : NULL;
		if (!at)
			return false;
		text = span_skip(text, (size_t)(at - text.ptr) + piece.len);
	}
	if (last.len == 0)
		return true;
	return text.ptr && text.len >= last.len &&
	       memcmp(text.ptr + text.len - last.len, last.ptr, last.len) == 0;
}
