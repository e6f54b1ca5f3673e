/*
 * trust: a request is let in, or answered.
 *
 * Room: door. Threads: those of the request; the meters are the io thread's own.
 */
#pragma once

#include <stdbool.h>

#include "door/auth/auth.h"
#include "gate/meters.h"
#include "net/http/http_server.h"

struct trust {
	const struct auth *auth; /* NULL: anyone may come */
	struct span source;      /* for the log */
	struct source_meters *meters;
};

/* False: it does not come from whom the auth trusts, and has its answer. */
bool trust_request(const struct trust *trust, struct http_request *request);

/* Of a request of which there is only the head: false if that alone says so. */
bool trust_head(const struct auth *auth, const struct http_request *request);
