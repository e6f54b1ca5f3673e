/*
 * redis_link: one connection to one Redis server: it connects, logs in, loads the script
 * that calls will name, carries requests and brings their replies in order. When it
 * breaks it comes back by itself, with pauses that grow up to REDIS_LINK_PAUSE_MAX_MS.
 *
 * Room:      link. Threads: the owner of its loop. Nothing blocks: a name is looked up by a
 *            thread of its own, and the handshake of TLS goes on when the socket is ready.
 * Ownership: redis_link_new() gives it, redis_link_free() takes it; the login and the
 *            texts of the options stay the caller's and must live as long.
 * Failure:   told by down(): all requests without a reply are lost, done or not.
 */
#pragma once

#include "base/buf.h"
#include "base/check.h"
#include "base/span.h"
#include "link/name_lookup.h"
#include "link/redis_login.h"
#include "sys/loop.h"

#define REDIS_LINK_PAUSE_MAX_MS 1000u
#define REDIS_LINK_CONNECT_MS 2000u /* for each: the name, the connection, the greeting with TLS */
#define REDIS_LINK_SHA_LEN 40u

struct redis_link;

struct redis_link_options {
	struct loop *loop;
	const struct redis_login *login;
	struct redis_host host;
	struct span script;      /* empty: none */
	name_lookup_fn *look_up; /* for tests; NULL: the system's resolver */
	/* Each on the loop's thread. From reply() and down() the link must not be freed;
	 * it may be reset. */
	void (*up)(void *user);
	void (*reply)(void *user, struct span reply);
	void (*down)(void *user, const char *why);
	void *user;
};

int redis_link_new(const struct redis_link_options *options,
                   struct redis_link **ret_link) must_check;
struct redis_link *redis_link_free(struct redis_link *link); /* accepts NULL, returns NULL */

void redis_link_start(struct redis_link *link); /* connects, unless it does or is */
bool redis_link_is_up(const struct redis_link *link);
const struct redis_host *redis_link_host(const struct redis_link *link);

/* The name of the script, REDIS_LINK_SHA_LEN characters; once it was up. */
const char *redis_link_sha(const struct redis_link *link);

/* Whole requests. Sent when the loop's present handler ends, or redis_link_flush(). */
struct buf *redis_link_out(struct redis_link *link);
void redis_link_flush(struct redis_link *link);

/* What the server said, for people: on one line, without the login's password. Servers repeat
 * words of a command that they do not know, and cut them: those are left out. */
#define REDIS_LINK_WORDS_MAX 160u
void redis_link_words(const struct redis_link *link, struct span said,
                      char ret_words[static REDIS_LINK_WORDS_MAX]);

/* Breaks it off, as if the peer had; down() is called if it was up. */
void redis_link_reset(struct redis_link *link, const char *why);
