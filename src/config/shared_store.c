/* shared_store: see shared_store.h. */
#include "config/shared_store.h"

#include <string.h>

#include "store/postgres/postgres_store.h"
#include "store/redis/redis_store.h"

/* ---- Redis ---- */

/* The server answers, and says no: its words come with the text. What it says while it
 * loads, or its cluster is down, is not such a no. */
static bool is_refusal(const char *text)
{
	static const char *const words[] = { ": WRONGPASS", ": NOAUTH", ": NOPERM", ": ERR ",
		                             "it is a replica" };
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strstr(text, words[i]))
			return true;
	return false;
}

static int redis_open(const struct config *config, struct store **ret_store,
                      const unsigned char **ret_key, struct error_text *ret_text)
{
	struct redis_store_options options = { .url = config->store.url.ptr,
		                               .dead_keep_ms = config->serve.dead_keep_ms };
	int error = redis_store_open(&options, ret_store, ret_text);
	if (error == 0)
		*ret_key = redis_store_key(*ret_store);
	return error == ERR_AWAY && is_refusal(ret_text->text) ? ERR_CONFIG : error;
}

static void redis_tell(void *user, enum redis_finding finding, const char *text)
{
	static const enum shared_level levels[] = {
		[REDIS_FINDING_OK] = SHARED_FINE,
		[REDIS_FINDING_WARN] = SHARED_WARNING,
		[REDIS_FINDING_ERROR] = SHARED_ERROR,
	};
	const struct shared_listener *listener = user;
	listener->tell(listener->user, levels[finding], "redis", text);
}

/* What is wrong was told, also that it cannot be asked. */
static int redis_check(const char *url, const struct shared_listener *listener,
                       struct error_text *ret_text)
{
	struct shared_listener copy = *listener;
	(void)ret_text;
	(void)redis_store_check(url, redis_tell, &copy);
	return 0;
}

/* ---- PostgreSQL ---- */

static int postgres_open(const struct config *config, struct store **ret_store,
                         const unsigned char **ret_key, struct error_text *ret_text)
{
	struct postgres_store_options options = { .url = config->store.url.ptr,
		                                  .dead_keep_ms = config->serve.dead_keep_ms };
	int error = postgres_store_open(&options, ret_store, ret_text);
	if (error == 0)
		*ret_key = postgres_store_key(*ret_store);
	return error;
}

static void postgres_tell(void *user, const struct postgres_finding *finding)
{
	static const enum shared_level levels[] = {
		[POSTGRES_FINE] = SHARED_FINE,
		[POSTGRES_WARNING] = SHARED_WARNING,
		[POSTGRES_ERROR] = SHARED_ERROR,
	};
	const struct shared_listener *listener = user;
	listener->tell(listener->user, levels[finding->level], finding->name, finding->text.text);
}

static int postgres_check(const char *url, const struct shared_listener *listener,
                          struct error_text *ret_text)
{
	struct shared_listener copy = *listener;
	return postgres_store_check(url, postgres_tell, &copy, ret_text);
}

/* Redis keeps no tables: its keys are made when they are needed. */
static int redis_prepare(const char *url, struct error_text *ret_text)
{
	(void)url;
	error_fill(ret_text, 0, "nothing to do: Redis needs no preparation");
	return 0;
}

/* ---- by kind ---- */

static const struct {
	int (*open)(const struct config *config, struct store **ret_store,
	            const unsigned char **ret_key, struct error_text *ret_text);
	int (*check)(const char *url, const struct shared_listener *listener,
	             struct error_text *ret_text);
	int (*url_check)(const char *url, struct error_text *ret_text);
	int (*init)(const char *url, struct error_text *ret_text);
	int (*migrate)(const char *url, struct error_text *ret_text);
} kinds[] = {
	[CONFIG_STORE_REDIS] = { redis_open, redis_check, redis_store_url_check, redis_prepare,
	                         redis_prepare },
	[CONFIG_STORE_POSTGRES] = { postgres_open, postgres_check, postgres_store_url_check,
	                            postgres_store_init, postgres_store_migrate },
};

int shared_store_open(const struct config *config, struct store **ret_store,
                      const unsigned char **ret_key, struct error_text *ret_text)
{
	CHECK(config->store.kind != CONFIG_STORE_LOCAL);
	return kinds[config->store.kind].open(config, ret_store, ret_key, ret_text);
}

int shared_store_url_check(const struct config_store *store, struct error_text *ret_text)
{
	CHECK(store->kind != CONFIG_STORE_LOCAL);
	return kinds[store->kind].url_check(store->url.ptr, ret_text);
}

int shared_store_check(const struct config_store *store, const struct shared_listener *listener,
                       struct error_text *ret_text)
{
	CHECK(store->kind != CONFIG_STORE_LOCAL);
	return kinds[store->kind].check(store->url.ptr, listener, ret_text);
}

int shared_store_init(const struct config_store *store, struct error_text *ret_text)
{
	CHECK(store->kind != CONFIG_STORE_LOCAL);
	return kinds[store->kind].init(store->url.ptr, ret_text);
}

int shared_store_migrate(const struct config_store *store, struct error_text *ret_text)
{
	CHECK(store->kind != CONFIG_STORE_LOCAL);
	return kinds[store->kind].migrate(store->url.ptr, ret_text);
}
