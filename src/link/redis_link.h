/*
 * redis_link: one connection to one Redis server, and the URL that says how to reach it.
 *
 * It connects, logs in, loads the script that calls will name, sends requests and delivers
 * their replies in order. When the connection breaks it reconnects by itself, with pauses
 * that grow up to REDIS_LINK_PAUSE_MAX_MS.
 *
 * The URL, read by redis_login_read():
 *
 *   redis://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/DB][?NAME=VALUE[&…]]
 *
 *   scheme           what
 *   redis            one server
 *   rediss           the same over TLS
 *   redis-cluster    a cluster; the hosts are those that are asked first
 *   rediss-cluster   the same over TLS
 *
 *   parameter        default  what
 *   replicas=N       0        replicas that must confirm a write (WAIT)
 *   wait=DURATION    1s       how long one WAIT may take
 *   timeout=DURATION 5s       when an operation without an answer fails
 *   prefix=TEXT      stile    prefix of all keys: a-z, A-Z, 0-9, and _ : . -
 *   shards=N         16, 1    over how many slots keys are spread (16 of a cluster); a power
 *                             of two up to 256. The first gateway decides for all
 *   ca=FILE                   PEM: trusted certificates; default: those of the system
 *
 * USER, PASSWORD and values may hold %XX.
 *
 * Room:      link. Threads: the owner of its loop; redis_login is a value. Nothing blocks: a
 *            thread of its own looks up a name, and the TLS handshake is non-blocking.
 * Ownership: redis_link_new() creates, redis_link_free() frees; the login and the texts of
 *            the options stay the caller's and must live as long as the link.
 * Failure:   down() reports it: all requests without a reply are lost, executed or not.
 *            redis_login_read(): ERR_INVALID with a text that does not hold the password.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/error.h"
#include "base/span.h"
#include "link/name_lookup.h"
#include "sys/loop.h"

#define REDIS_HOSTS_MAX 16u
#define REDIS_HOST_MAX 253u
#define REDIS_WORD_MAX 255u /* bytes of a user's name, a password, a file's name */
#define REDIS_PREFIX_MAX 32u
#define REDIS_SHARDS_MAX 256u
#define REDIS_PORT 6379u

#define REDIS_LINK_PAUSE_MAX_MS 1000u
#define REDIS_LINK_CONNECT_MS 2000u /* for each: name, connection, login with TLS */
#define REDIS_LINK_SHA_LEN 40u

struct redis_host {
	char name[REDIS_HOST_MAX + 1];
	uint16_t port;
};

struct redis_login {
	bool tls;
	bool cluster;
	struct redis_host hosts[REDIS_HOSTS_MAX];
	uint32_t host_count; /* at least 1; 1 unless a cluster */
	char user[REDIS_WORD_MAX + 1];
	char password[REDIS_WORD_MAX + 1]; /* "": none */
	char ca_file[REDIS_WORD_MAX + 1];  /* "": the system's certificates */
	char prefix[REDIS_PREFIX_MAX + 1];
	uint32_t db;
	uint32_t replicas;
	uint32_t wait_ms;
	uint32_t timeout_ms;
	uint32_t shards;
};

int redis_login_read(struct span url, struct redis_login *ret_login,
                     struct error_text *ret_text) must_check;

struct redis_link;

struct redis_link_options {
	struct loop *loop;
	const struct redis_login *login;
	struct redis_host host;
	struct span script;      /* empty: none */
	name_lookup_fn *look_up; /* for tests; NULL: the system's resolver */
	/* Each on the loop's thread. reply() and down() must not free the link; they may
	 * reset it. */
	void (*up)(void *user);
	void (*reply)(void *user, struct span reply);
	void (*down)(void *user, const char *why);
	void *user;
};

int redis_link_new(const struct redis_link_options *options,
                   struct redis_link **ret_link) must_check;
struct redis_link *redis_link_free(struct redis_link *link); /* accepts NULL, returns NULL */

void redis_link_start(struct redis_link *link); /* does nothing if it was started */
bool redis_link_is_up(const struct redis_link *link);
const struct redis_host *redis_link_host(const struct redis_link *link);

/* The name of the script, REDIS_LINK_SHA_LEN characters; valid once the link was up. */
const char *redis_link_sha(const struct redis_link *link);

/* Whole requests. Sent by redis_link_flush(), or at the end of the loop's current handler. */
struct buf *redis_link_out(struct redis_link *link);
void redis_link_flush(struct redis_link *link);

/* The server's message for a log: on one line, without the login's password. Servers repeat
 * the arguments of an unknown command, and truncate them: those are left out. */
#define REDIS_LINK_WORDS_MAX 160u
void redis_link_words(const struct redis_link *link, struct span said,
                      char ret_words[static REDIS_LINK_WORDS_MAX]);

/* Closes the connection as if the peer had; calls down() if it was up or connecting. */
void redis_link_reset(struct redis_link *link, const char *why);
