/*
 * auth_kit: requests for tests of authentication, from their bytes: the real
 * parser reads the head, so that a test sends what a sender would.
 */
#pragma once

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "door/auth/auth.h"
#include "support/test.h"

#define AUTH_KIT_HEAD_MAX 8192

struct auth_kit {
	char head_bytes[AUTH_KIT_HEAD_MAX];
	struct http1_head head;
	struct http_peer peer;
	struct auth_request request;
	struct error_text why; /* of the last check */
};

/* Any target, header lines (each ended by \r\n) and body, from 192.0.2.1. */
static inline void auth_kit_request(struct auth_kit *kit, const char *target, const char *lines,
                                    struct span body)
{
	static const struct http1_limits limits = { AUTH_KIT_HEAD_MAX, HTTP1_HEADERS_MAX };
	struct http1_refusal refusal;
	int len = snprintf(kit->head_bytes, sizeof(kit->head_bytes),
	                   "POST %s HTTP/1.1\r\nContent-Length: %zu\r\n%s%s\r\n", target, body.len,
	                   strncmp(lines, "Host:", 5) == 0 ? "" : "Host: stile.test\r\n", lines);
	assert_true(len > 0 && (size_t)len < sizeof(kit->head_bytes));
	if (http1_parse_head(span_of(kit->head_bytes, (size_t)len), &limits, &kit->head, &refusal))
		fail_msg("%s", refusal.reason);
	kit->peer = (struct http_peer){ .port = 4711 };
	assert_int_equal(ip_parse(SPAN("192.0.2.1"), &kit->peer.address), 0);
	kit->request = (struct auth_request){ &kit->head, body, &kit->peer, 1700000000 };
	kit->why.text[0] = '\0';
}

static inline struct auth *auth_kit_make(const struct auth_spec *spec)
{
	struct error_text text;
	struct auth *auth = NULL;
	if (auth_new(spec, &auth, &text))
		fail_msg("%s", text.text);
	return auth;
}

/* The check, with a look at what it says: a reason when and only when it refuses. */
static inline enum auth_result auth_kit_check(struct auth_kit *kit, const struct auth *auth)
{
	enum auth_result result = auth_check(auth, &kit->request, &kit->why);
	assert_int_equal(result == AUTH_OK, kit->why.text[0] == '\0');
	assert_int_equal(auth_check(auth, &kit->request, NULL), result);
	return result;
}
