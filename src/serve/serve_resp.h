/*
 * serve_resp: the Redis door of `stile serve`: what the doors of all io threads share,
 * and where they listen.
 *
 * Room:      serve. Threads: made and freed by the main thread; each io thread opens its own
 *            door (door/resp.h).
 * Ownership: borrows config, tls and key; outlives the doors.
 */
#pragma once

#include "base/error.h"
#include "door/resp/resp.h"

struct config;
struct serve_resp;

struct serve_resp_options {
	const struct config *config;
	struct tls *tls;          /* of the HTTP listener; NULL: none */
	const unsigned char *key; /* the store's */
	uint32_t connections;     /* at most */
	uint64_t started_ms;      /* unix */
};

/* *ret_resp is NULL when there is to be none. */
int serve_resp_new(const struct serve_resp_options *options, struct serve_resp **ret_resp,
                   struct error_text *ret_text) must_check;
struct serve_resp *serve_resp_free(struct serve_resp *resp); /* accepts NULL, returns NULL */

/* `joins`: the door of another loop, whose port is shared; NULL: this is the first. */
int serve_resp_open(struct serve_resp *resp, struct resp_door *door, const struct resp_door *joins,
                    struct loop *loop, struct store *store, struct error_text *ret_text) must_check;

/* "redis://127.0.0.1:6379", as it is told at the start; "none" without a door. */
const char *serve_resp_url(const struct serve_resp *resp);
