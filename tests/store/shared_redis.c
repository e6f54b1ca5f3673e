/* shared_redis: the Redis store for store_under_test.h. */
#include "shared_kinds.h"

#include "store/redis/redis_store.h"

static int redis_open(const struct shared_options *options, struct store **ret_store,
                      struct error_text *ret_text)
{
	struct redis_store_options redis = { .url = options->url,
		                             .clock = options->clock,
		                             .dead_keep_ms = options->dead_keep_ms };

	return redis_store_open(&redis, ret_store, ret_text);
}

const struct shared_kind shared_redis = {
	.schemes = { "redis://", "rediss://" },
	.wipe = redis_store_wipe,
	.open = redis_open,
};

const struct shared_kind shared_redis_cluster = {
	.schemes = { "redis-cluster://", "rediss-cluster://" },
	.wipe = redis_store_wipe,
	.open = redis_open,
	.own_numbers = true,
};
