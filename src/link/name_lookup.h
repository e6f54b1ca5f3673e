/*
 * name_lookup: resolves one name to its addresses, off the loop's thread.
 *
 * The system's resolver blocks, for many seconds when a DNS server does not answer. So each
 * question has a short-lived thread of its own, and nobody waits for a thread whose answer
 * is no longer wanted.
 *
 * Room:      link. Threads: the loop's; the question's own thread wakes it.
 * Ownership: name_lookup_free() at any time, answered or not, but before the loop is freed.
 * Failure:   -errno: no thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "codec/ip.h"

#define NAME_ADDRESSES_MAX 64u

struct loop;
struct name_lookup;

struct name_addresses {
	uint32_t count;
	struct ip_address list[NAME_ADDRESSES_MAX];
};

/* Fills the addresses of a name, on any thread; 0, or an EAI_… of <netdb.h>. */
typedef int name_lookup_fn(const char *host, struct name_addresses *ret_addresses);

struct name_lookup_question {
	const char *host; /* copied */
	struct loop *loop;
	name_lookup_fn *ask; /* NULL: the system's resolver */
};

int name_lookup_start(const struct name_lookup_question *question,
                      struct name_lookup **ret_lookup) must_check;
struct name_lookup *name_lookup_free(struct name_lookup *lookup);

/* True when there is an answer: 0 and one address at least, or an EAI_… of <netdb.h>. */
bool name_lookup_ready(struct name_lookup *lookup, int *ret_error,
                       struct name_addresses *ret_addresses);
