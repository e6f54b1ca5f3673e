/* bench_recipe: other parsers that read the same event. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Parses the event and fetches what the recipe `genesys` uses of it. */
struct bench_peer {
	const char *key;
	bool (*parse)(const char *text, size_t len);
};

#define BENCH_PEERS_MAX 4

/* Those that are here; how many. */
size_t bench_peers(struct bench_peer *ret_peers);

#ifdef __cplusplus
extern "C"
#endif
	bool
	bench_simdjson(const char *text, size_t len);
