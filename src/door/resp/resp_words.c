/* The table of commands. See resp_internal.h. */
#include <string.h>

#include "door/resp/resp_internal.h"

#define W RESP_WRITES
#define R RESP_READS
#define F RESP_FAST
#define S RESP_FOR_STRANGERS
#define N RESP_NEVER_QUEUED
#define C RESP_CONTAINER

/* Arity, flags, first and last key, and the documentation's words are those of Redis. */
static const struct resp_word words[] = {
	{ "set", -3, W, 1, 1, resp_run_set, "string",
	  "Sets the string value of a key, ignoring its type. The key is created if it doesn't exist." },
	{ "setnx", 3, W | F, 1, 1, resp_run_setnx, "string",
	  "Set the string value of a key only when the key doesn't exist." },
	{ "setex", 4, W, 1, 1, resp_run_setex, "string",
	  "Sets the string value and expiration time of a key. Creates the key if it doesn't exist." },
	{ "psetex", 4, W, 1, 1, resp_run_psetex, "string",
	  "Sets both string value and expiration time in milliseconds of a key. The key is created if it doesn't exist." },
	{ "get", 2, R | F, 1, 1, resp_run_get, "string", "Returns the string value of a key." },
	{ "getdel", 2, W | F, 1, 1, resp_run_getdel, "string",
	  "Returns the string value of a key after deleting the key." },
	{ "getex", -2, W | F, 1, 1, resp_run_getex, "string",
	  "Returns the string value of a key after setting its expiration time." },
	{ "mget", -2, R | F, 1, -1, resp_run_mget, "string",
	  "Atomically returns the string values of one or more keys." },
	{ "del", -2, W, 1, -1, resp_run_del, "generic", "Deletes one or more keys." },
	{ "unlink", -2, W | F, 1, -1, resp_run_del, "generic", "Deletes one or more keys." },
	{ "exists", -2, R | F, 1, -1, resp_run_exists, "generic",
	  "Determines whether one or more keys exist." },
	{ "type", 2, R | F, 1, 1, resp_run_type, "generic",
	  "Determines the type of value stored at a key." },
	{ "ttl", 2, R | F, 1, 1, resp_run_ttl, "generic",
	  "Returns the expiration time in seconds of a key." },
	{ "pttl", 2, R | F, 1, 1, resp_run_pttl, "generic",
	  "Returns the expiration time in milliseconds of a key." },
	{ "expiretime", 2, R | F, 1, 1, resp_run_expiretime, "generic",
	  "Returns the expiration time of a key as a Unix timestamp." },
	{ "pexpiretime", 2, R | F, 1, 1, resp_run_pexpiretime, "generic",
	  "Returns the expiration time of a key as a Unix milliseconds timestamp." },
	{ "expire", -3, W | F, 1, 1, resp_run_expire, "generic",
	  "Sets the expiration time of a key in seconds." },
	{ "pexpire", -3, W | F, 1, 1, resp_run_pexpire, "generic",
	  "Sets the expiration time of a key in milliseconds." },
	{ "expireat", -3, W | F, 1, 1, resp_run_expireat, "generic",
	  "Sets the expiration time of a key to a Unix timestamp." },
	{ "pexpireat", -3, W | F, 1, 1, resp_run_pexpireat, "generic",
	  "Sets the expiration time of a key to a Unix milliseconds timestamp." },
	{ "persist", 2, W | F, 1, 1, resp_run_persist, "generic",
	  "Removes the expiration time of a key." },
	{ "scan", -2, R, 0, 0, resp_run_scan, "generic",
	  "Iterates over the key names in the database." },
	{ "dbsize", 1, R | F, 0, 0, resp_run_dbsize, "server",
	  "Returns the number of keys in the database." },
	{ "ping", -1, F, 0, 0, resp_run_ping, "connection",
	  "Returns the server's liveliness response." },
	{ "echo", 2, F, 0, 0, resp_run_echo, "connection", "Returns the given string." },
	{ "hello", -1, F | S, 0, 0, resp_run_hello, "connection", "Handshakes with the server." },
	{ "auth", -2, F | S, 0, 0, resp_run_auth, "connection", "Authenticates the connection." },
	{ "client", -2, C, 0, 0, resp_run_client, "connection",
	  "A container for client connection commands." },
	{ "select", 2, F, 0, 0, resp_run_select, "connection", "Changes the selected database." },
	{ "quit", -1, F | S | N, 0, 0, resp_run_quit, "connection", "Closes the connection." },
	{ "reset", 1, F | S | N, 0, 0, resp_run_reset, "connection", "Resets the connection." },
	{ "multi", 1, F | N, 0, 0, resp_run_multi, "transactions", "Starts a transaction." },
	{ "exec", 1, N, 0, 0, resp_run_exec, "transactions",
	  "Executes all commands in a transaction." },
	{ "discard", 1, F | N, 0, 0, resp_run_discard, "transactions", "Discards a transaction." },
	{ "info", -1, 0, 0, 0, resp_run_info, "server",
	  "Returns information and statistics about the server." },
	{ "config", -2, C, 0, 0, resp_run_config, "server",
	  "A container for server configuration commands." },
	{ "command", -1, C, 0, 0, resp_run_command, "server",
	  "Returns detailed information about all commands." },
};

/* Letters of ASCII only; others land somewhere, too. */
static uint32_t hash_name(struct span name)
{
	uint32_t hash = 2166136261u;
	for (size_t i = 0; i < name.len; i++)
		hash = (hash ^ (uint32_t)((unsigned char)name.ptr[i] | 0x20)) * 16777619u;
	return hash ^ hash >> 15;
}

#define SLOTS 128u
_Static_assert(ARRAY_LEN(words) < SLOTS / 2, "the table is sparse");

/* Places of `words` by their hash, 1 is the first. */
static uint8_t slots[SLOTS];

void resp_words_init(void)
{
	memset(slots, 0, sizeof(slots));
	for (uint32_t i = 0; i < ARRAY_LEN(words); i++) {
		uint32_t at = hash_name(span_str(words[i].name)) % SLOTS;
		while (slots[at])
			at = (at + 1) % SLOTS;
		slots[at] = (uint8_t)(i + 1);
	}
}

const struct resp_word *resp_word_find(struct span name)
{
	for (uint32_t at = hash_name(name) % SLOTS; slots[at]; at = (at + 1) % SLOTS) {
		const struct resp_word *word = &words[slots[at] - 1];
		if (span_eq_nocase(name, span_str(word->name)))
			return word;
	}
	return NULL;
}

const struct resp_word *resp_word_at(uint32_t index)
{
	return index < ARRAY_LEN(words) ? &words[index] : NULL;
}
