/* shared_store: see shared_store.h. */
#include "app/shared_store.h"

#include "base/check.h"

#if __has_include("store/postgres/postgres_store.h")
#define HAS_POSTGRES 1
#include "store/postgres/postgres_store.h"
#else
#define HAS_POSTGRES 0
#endif
#if __has_include("store/redis/redis_store.h")
#define HAS_REDIS 1
#include "store/redis/redis_store.h"
#else
#define HAS_REDIS 0
#endif

int shared_store_open(const struct config *config, struct store **ret_store,
                      const unsigned char **ret_key, struct error_text *ret_text)
{
	(void)ret_store;
	(void)ret_key;
	return error_fill(ret_text, ERR_CONFIG, "no store of the kind %d", (int)config->store.kind);
}

int shared_store_check(const struct config_store *store, const struct shared_listener *listener,
                       struct error_text *ret_text)
{
	(void)listener;
	return error_fill(ret_text, ERR_CONFIG, "no store of the kind %d", (int)store->kind);
}

int shared_store_init(const struct config_store *store, struct error_text *ret_text)
{
	return error_fill(ret_text, ERR_CONFIG, "no store of the kind %d", (int)store->kind);
}

int shared_store_migrate(const struct config_store *store, struct error_text *ret_text)
{
	return error_fill(ret_text, ERR_CONFIG, "no store of the kind %d", (int)store->kind);
}
