/* The chunked transfer coding, one byte of framing at a time. See http1.h. */
#include "base/hex.h"
#include "codec/http1_private.h"

enum state {
	SIZE = 0,  /* hex digits */
	EXTENSION, /* after ';' */
	SIZE_LF,   /* after the CR of a size line */
	DATA,      /* `left` bytes to come */
	DATA_CR,   /* after the data */
	DATA_LF,
	TRAILER, /* at the start of a line behind the last chunk */
	TRAILER_NAME,
	TRAILER_VALUE,
	TRAILER_LF, /* after the CR of a trailer */
	END_LF,     /* after the CR of the empty line */
	END,
};

static enum http1_status take_size(struct http1_chunked *chunked, char c,
                                   struct http1_refusal *ret_refusal)
{
	int digit = hex_value(c);
	if (digit >= 0) {
		if (chunked->digits++ == 15) /* 60 bits: cannot overflow */
			return refuse(ret_refusal, 400, "a chunk size has too many digits");
		chunked->left = chunked->left * 16 + (uint64_t)digit;
		return HTTP1_MORE;
	}
	if (chunked->digits == 0 || (c != ';' && c != '\r'))
		return refuse(ret_refusal, 400, "a chunk size is not a hexadecimal number");
	if (chunked->left > chunked->limit - chunked->decoded)
		return refuse(ret_refusal, 413, "the body is too large");
	chunked->digits = 0;
	chunked->extension = 0;
	chunked->state = c == ';' ? EXTENSION : SIZE_LF;
	return HTTP1_MORE;
}

static enum http1_status take_extension(struct http1_chunked *chunked, char c,
                                        struct http1_refusal *ret_refusal)
{
	if (c == '\r') {
		chunked->state = SIZE_LF;
		return HTTP1_MORE;
	}
	if (!http1_is_value_char(c))
		return refuse(ret_refusal, 400, "a chunk extension has a forbidden byte");
	if (chunked->extension++ == HTTP1_CHUNK_EXTENSION_MAX ||
	    chunked->extensions++ == HTTP1_CHUNK_EXTENSIONS_MAX)
		return refuse(ret_refusal, 400, "chunk extensions are too long");
	return HTTP1_MORE;
}

static enum http1_status take_trailer(struct http1_chunked *chunked, char c,
                                      struct http1_refusal *ret_refusal)
{
	if (chunked->trailers++ == HTTP1_TRAILERS_MAX)
		return refuse(ret_refusal, 431, "the trailer section is too large");
	if (chunked->state == TRAILER && c == '\r') {
		chunked->state = END_LF;
	} else if (chunked->state == TRAILER_VALUE) {
		if (c == '\r')
			chunked->state = TRAILER_LF;
		else if (!http1_is_value_char(c))
			return refuse(ret_refusal, 400, "a trailer has a forbidden byte");
	} else if (chunked->state == TRAILER_NAME && c == ':') {
		chunked->state = TRAILER_VALUE;
	} else if (http1_is_token_char(c)) {
		chunked->state = TRAILER_NAME;
	} else {
		return refuse(ret_refusal, 400,
		              "a trailer name is not a token followed by a colon");
	}
	return HTTP1_MORE;
}

/* A byte that must be CR or LF, and what comes behind it. */
static enum http1_status take_line_end(struct http1_chunked *chunked, char c,
                                       struct http1_refusal *ret_refusal)
{
	if (c != (chunked->state == DATA_CR ? '\r' : '\n'))
		return refuse(ret_refusal, 400, "a chunk does not end with CR LF");
	switch (chunked->state) {
	case SIZE_LF: chunked->state = chunked->left > 0 ? DATA : TRAILER; break;
	case DATA_CR: chunked->state = DATA_LF; break;
	case DATA_LF: chunked->state = SIZE; break;
	case TRAILER_LF: chunked->state = TRAILER; break;
	default: chunked->state = END; return HTTP1_DONE;
	}
	return HTTP1_MORE;
}

static enum http1_status take_framing(struct http1_chunked *chunked, char c,
                                      struct http1_refusal *ret_refusal)
{
	switch (chunked->state) {
	case SIZE: return take_size(chunked, c, ret_refusal);
	case EXTENSION: return take_extension(chunked, c, ret_refusal);
	case TRAILER:
	case TRAILER_NAME:
	case TRAILER_VALUE: return take_trailer(chunked, c, ret_refusal);
	default: return take_line_end(chunked, c, ret_refusal);
	}
}

static size_t take_data(struct http1_chunked *chunked, struct span input, char *out)
{
	size_t n = input.len < chunked->left ? input.len : (size_t)chunked->left;
	if (n > 0 && out != input.ptr)
		memmove(out, input.ptr, n);
	chunked->left -= n;
	chunked->decoded += n;
	if (chunked->left == 0)
		chunked->state = DATA_CR;
	return n;
}

enum http1_status http1_chunked_decode(struct http1_chunked *chunked, struct span input, char *out,
                                       size_t *ret_taken, size_t *ret_given,
                                       struct http1_refusal *ret_refusal)
{
	enum http1_status status = HTTP1_MORE;
	size_t taken = 0, given = 0;
	CHECK(chunked->state != END);
	CHECK(chunked->decoded <= chunked->limit);
	while (taken < input.len && status == HTTP1_MORE) {
		if (chunked->state == DATA) {
			struct span rest = span_of(input.ptr + taken, input.len - taken);
			size_t n = take_data(chunked, rest, out + given);
			taken += n;
			given += n;
		} else {
			status = take_framing(chunked, input.ptr[taken++], ret_refusal);
		}
	}
	*ret_taken = taken;
	*ret_given = given;
	return status;
}
