/*
 * span: borrowed bytes. A pointer and a length, never owned, never
 * NUL-terminated by promise.
 *
 * Room:      base. Threads: values, no state.
 * Ownership: the bytes stay their creator's; a function that takes a span documents how long
 *            they must live.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct span {
	const char *ptr;
	size_t len;
};

#define SPAN_EMPTY ((struct span){ NULL, 0 })

/* For string literals only: the length is known to the compiler. */
#define SPAN(literal) ((struct span){ "" literal, sizeof(literal) - 1 })

static inline struct span span_of(const void *ptr, size_t len)
{
	return (struct span){ ptr, len };
}

static inline struct span span_str(const char *text)
{
	return (struct span){ text, text ? strlen(text) : 0 };
}

static inline bool span_eq(struct span a, struct span b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline char span_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* ASCII case only, as header names and schemes need it. */
static inline bool span_eq_nocase(struct span a, struct span b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
		if (span_lower(a.ptr[i]) != span_lower(b.ptr[i]))
			return false;
	return true;
}

static inline struct span span_skip(struct span text, size_t n)
{
	if (n > text.len)
		n = text.len;
	return (struct span){ text.ptr ? text.ptr + n : NULL, text.len - n };
}

static inline bool span_starts(struct span text, struct span start)
{
	return text.len >= start.len && span_eq(span_of(text.ptr, start.len), start);
}

/* True when the text starts so; the start is cut off then. */
static inline bool span_cut_start(struct span *text, struct span start)
{
	bool starts = span_starts(*text, start);
	if (starts)
		*text = span_skip(*text, start.len);
	return starts;
}

/* The text before the separator (all of it without one); `text` becomes the rest after it. */
static inline struct span span_cut_item(struct span *text, char separator)
{
	const char *end = text->len ? memchr(text->ptr, separator, text->len) : NULL;
	struct span item = { text->ptr, end ? (size_t)(end - text->ptr) : text->len };
	*text = span_skip(*text, item.len + 1);
	return item;
}
