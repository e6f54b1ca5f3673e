/* Connections in all and per address, and bytes. See gauge.h. */
#include "net/gauge.h"

#include <pthread.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "codec/ip.h"

#define SHARDS 64 /* a lock each; io threads seldom meet */
#define BUCKETS 64

struct gauge_key {
	uint64_t high; /* IPv6: the /64; else 0 */
	uint64_t low;  /* IPv4 address + 1; else 0 */
};

struct gauge_slot {
	struct gauge_slot *next;
	struct gauge_key key;
	uint32_t count;
	uint32_t hash;
};

struct shard {
	pthread_mutex_t lock;
	struct gauge_slot *buckets[BUCKETS];
};

struct gauge {
	atomic_uint_fast32_t total;
	atomic_uint_fast64_t bytes;
	unsigned char hash_key[HASH_KEY_LEN];
	struct shard shards[SHARDS];
};

int gauge_new(struct gauge **ret_gauge)
{
	struct gauge *gauge = mem_zalloc(1, sizeof(*gauge));
	if (!gauge)
		return -ENOMEM;
	int error = hash_random(gauge->hash_key, sizeof(gauge->hash_key));
	if (error) {
		mem_free(gauge);
		return error;
	}
	for (size_t i = 0; i < SHARDS; i++)
		pthread_mutex_init(&gauge->shards[i].lock, NULL);
	*ret_gauge = gauge;
	return 0;
}

struct gauge *gauge_free(struct gauge *gauge)
{
	if (!gauge)
		return NULL;
	CHECK(atomic_load(&gauge->total) == 0);
	CHECK(atomic_load(&gauge->bytes) == 0);
	for (size_t i = 0; i < SHARDS; i++)
		pthread_mutex_destroy(&gauge->shards[i].lock);
	return mem_free(gauge);
}

static struct gauge_key key_of(const struct sockaddr *address)
{
	struct gauge_key key = { 0, 0 };
	struct ip_address ip = socket_address_ip(address);
	if (ip_is_v4(&ip)) {
		uint32_t v4;
		memcpy(&v4, ip.bytes + 12, sizeof(v4));
		key.low = (uint64_t)v4 + 1;
	} else {
		memcpy(&key.high, ip.bytes, sizeof(key.high));
	}
	return key;
}

static struct gauge_slot *find_or_make(struct shard *shard, struct gauge_key key, uint32_t hash)
{
	struct gauge_slot **bucket = &shard->buckets[hash / SHARDS % BUCKETS], *slot;
	for (slot = *bucket; slot; slot = slot->next)
		if (slot->key.high == key.high && slot->key.low == key.low)
			return slot;
	slot = mem_alloc(sizeof(*slot));
	if (!slot)
		return NULL;
	*slot = (struct gauge_slot){ .next = *bucket, .key = key, .hash = hash };
	*bucket = slot;
	return slot;
}

enum gauge_result gauge_take(struct gauge *gauge, const struct sockaddr *address,
                             const struct gauge_limits *limits, struct gauge_slot **ret_slot)
{
	uint64_t words[2];
	struct gauge_key key = key_of(address);
	enum gauge_result result = GAUGE_OK;
	if (atomic_fetch_add(&gauge->total, 1) >= limits->connections) {
		atomic_fetch_sub(&gauge->total, 1);
		return GAUGE_FULL;
	}
	hash_keyed128(gauge->hash_key, &key, sizeof(key), words);
	struct shard *shard = &gauge->shards[words[0] % SHARDS];

	pthread_mutex_lock(&shard->lock);
	struct gauge_slot *slot = find_or_make(shard, key, (uint32_t)words[0]);
	if (!slot)
		result = GAUGE_NO_MEMORY;
	else if (slot->count >= limits->connections_per_address && slot->count > 0)
		result = GAUGE_ADDRESS_FULL;
	else
		slot->count++;
	pthread_mutex_unlock(&shard->lock);
	if (result == GAUGE_OK)
		*ret_slot = slot;
	else
		atomic_fetch_sub(&gauge->total, 1);
	return result;
}

void gauge_release(struct gauge *gauge, struct gauge_slot *slot)
{
	struct shard *shard = &gauge->shards[slot->hash % SHARDS];
	pthread_mutex_lock(&shard->lock);
	CHECK(slot->count > 0);
	if (--slot->count == 0) {
		struct gauge_slot **at = &shard->buckets[slot->hash / SHARDS % BUCKETS];
		while (*at != slot)
			at = &(*at)->next;
		*at = slot->next;
		mem_free(slot);
	}
	pthread_mutex_unlock(&shard->lock);
	atomic_fetch_sub(&gauge->total, 1);
}

atomic_uint_fast64_t *gauge_bytes(struct gauge *gauge)
{
	return &gauge->bytes;
}
