/*
 * http1_private: what the files of http1 share, and nobody else.
 *
 * Room: codec.
 */
#pragma once

#include "codec/http1.h"

static inline enum http1_status refuse(struct http1_refusal *ret_refusal, uint16_t status,
                                       const char *reason)
{
	*ret_refusal = (struct http1_refusal){ status, reason };
	return HTTP1_BAD;
}
