/* shared_redis: the Redis store for store_under_test.h. */
#include "shared_kinds.h"

#include "link/redis_client.h"
#include "store/redis/redis_internal.h"
#include "store/redis/redis_store.h"

#define PROBES 128u /* slots that are asked to find all masters */

/* All servers forget all that they have. */
static int wipe(const char *url, struct error_text *ret_text)
{
	static const struct span words[] = { { "FLUSHALL", 8 } };
	struct redis_asker asker = { 0 };
	struct redis_login login;
	struct buf reply = { 0 };

	int r = redis_login_read(span_str(url), &login, ret_text);
	if (r < 0)
		return r;
	uint32_t probes = login.cluster ? PROBES : 1;
	r = redis_asker_open(&asker, &login, SPAN_EMPTY);
	for (uint32_t i = 0; i < probes && r == 0; i++)
		r = redis_ask(&asker, i * (REDIS_SLOTS / probes), words, 1, &reply);
	if (r < 0)
		error_fill(ret_text, r, "%s", error_name(r));
	buf_free(&reply);
	redis_asker_close(&asker);
	return r;
}

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
	.wipe = wipe,
	.open = redis_open,
};

const struct shared_kind shared_redis_cluster = {
	.schemes = { "redis-cluster://", "rediss-cluster://" },
	.wipe = wipe,
	.open = redis_open,
	.own_numbers = true,
};
