/*
 * json_write: writes JSON into a struct buf, member by member.
 *
 * A `name` of NULL is an element of an array, or the whole text. Commas are automatic: one is
 * written unless the bytes so far end with {, [, :, a blank or a line
 * end, or there are none. So an object can be put together in parts, and the parts of a list too.
 *
 *   json_object_begin(out, NULL);
 *   json_add_text(out, "source", source);
 *   json_array_begin(out, "counts");
 *   json_add_u64(out, NULL, 7);
 *   json_array_end(out);
 *   json_object_end(out);                   {"source":"orders","counts":[7]}
 *
 * Room:      codec. Threads: pure. Ownership: the caller's buf.
 * Failure:   that of struct buf: `failed` sticks, and one check at the end is enough.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

void json_object_begin(struct buf *out, const char *name);
void json_object_end(struct buf *out);
void json_array_begin(struct buf *out, const char *name);
void json_array_end(struct buf *out);

/* Quoted and escaped, safe on a terminal: see buf_append_json(). */
void json_add_text(struct buf *out, const char *name, struct span text);
/* The same of a text that ends with NUL, and null for NULL. */
void json_add_string(struct buf *out, const char *name, const char *text);
/* Nothing at all for an empty text. */
void json_add_text_if(struct buf *out, const char *name, struct span text);
void json_add_u64(struct buf *out, const char *name, uint64_t value);
void json_add_bool(struct buf *out, const char *name, bool value);
void json_add_null(struct buf *out, const char *name);
void json_add_time(struct buf *out, const char *name, uint64_t unix_ms); /* RFC 3339, UTC */
/* In base64, which is a text. */
void json_add_base64(struct buf *out, const char *name, struct span bytes);
/* JSON as it is, less the blanks around it: a value, or without a name also members that
 * were written apart. Nothing for an empty text. */
void json_add_raw(struct buf *out, const char *name, struct span json);
