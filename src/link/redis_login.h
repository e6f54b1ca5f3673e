/*
 * redis_login: how a Redis server, or a cluster of them, is reached, read from a URL.
 *
 *   redis://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/DB][?NAME=VALUE[&…]]
 *
 *   scheme           what
 *   redis            one server
 *   rediss           the same over TLS
 *   redis-cluster    a cluster; the hosts are where to ask first
 *   rediss-cluster   the same over TLS
 *
 *   parameter        default  what
 *   replicas=N       0        an answer counts when so many replicas have it (WAIT)
 *   wait=DURATION    1s       how long one WAIT may take
 *   timeout=DURATION 5s       after that an operation is given up
 *   prefix=TEXT      stile    what all keys begin with: a-z, A-Z, 0-9, and _ : . -
 *   shards=N         16, 1    keys are spread over so many slots (16 of a cluster); a power
 *                             of two up to 256. The first gateway decides for all
 *   ca=FILE                   PEM: whom to believe; default: whom the machine believes
 *
 * USER, PASSWORD and values may hold %XX.
 *
 * Room:      link. Threads: a value, no state.
 * Failure:   ERR_INVALID with a text that does not hold the password.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/error.h"
#include "base/span.h"

#define REDIS_HOSTS_MAX 16u
#define REDIS_HOST_MAX 253u
#define REDIS_WORD_MAX 255u /* bytes of a user's name, a password, a file's name */
#define REDIS_PREFIX_MAX 32u
#define REDIS_SHARDS_MAX 256u
#define REDIS_PORT 6379u

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
	char ca_file[REDIS_WORD_MAX + 1];  /* "": whom the machine believes */
	char prefix[REDIS_PREFIX_MAX + 1];
	uint32_t db;
	uint32_t replicas;
	uint32_t wait_ms;
	uint32_t timeout_ms;
	uint32_t shards;
};

int redis_login_read(struct span url, struct redis_login *ret_login,
                     struct error_text *ret_text) must_check;
