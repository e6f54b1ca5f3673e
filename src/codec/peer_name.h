/*
 * peer_name: a name in the certificate that a peer showed.
 *
 * Room: codec. TLS reads it, the HTTP server passes it on, auth compares it.
 */
#pragma once

#include <stdbool.h>

#include "base/span.h"

struct peer_name {
	struct span text; /* UTF-8, never empty */
	bool dns;         /* a DNS name (compare without case); else the subject's CN */
};
