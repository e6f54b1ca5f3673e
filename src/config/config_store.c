/*
 * config_store: which store, and what goes with it: read and checked, and shared ones opened by
 * their kind. See config.h and config_internal.h.
 *
 * A store's URL may hold a password, so nothing of it gets into a report but its scheme,
 * and people see it without user, password and parameters (config_store_label()).
 */
#include "base/hex.h"
#include "codec/url.h"
#include "config/config_internal.h"
#include "store/postgres/postgres_store.h"
#include "store/redis/redis_store.h"

static const struct {
	const char *scheme;
	enum config_store_kind kind;
} schemes[] = {
	{ "redis", CONFIG_STORE_REDIS },         { "rediss", CONFIG_STORE_REDIS },
	{ "redis-cluster", CONFIG_STORE_REDIS }, { "rediss-cluster", CONFIG_STORE_REDIS },
	{ "postgres", CONFIG_STORE_POSTGRES },   { "postgresql", CONFIG_STORE_POSTGRES },
};

/* ---- URLs ---- */

/* scheme://[user[:password]@]hosts[/…][?…] */
struct parts {
	struct span scheme, user, password, hosts, rest;
	bool has_login, has_password;
};

static bool split(struct span url, struct parts *ret_parts)
{
	struct parts parts = { .has_login = false };
	const char *colon = url.len > 0 ? memmem(url.ptr, url.len, "://", 3) : NULL;
	if (!colon || colon == url.ptr)
		return false;
	parts.scheme = span_of(url.ptr, (size_t)(colon - url.ptr));
	struct span rest = span_skip(url, parts.scheme.len + 3);
	size_t end = 0;
	while (end < rest.len && rest.ptr[end] != '/' && rest.ptr[end] != '?')
		end++;
	struct span authority = span_of(rest.ptr, end);
	const char *at = end > 0 ? memrchr(authority.ptr, '@', end) : NULL;
	parts.rest = span_skip(rest, end);
	parts.hosts = at ? span_skip(authority, (size_t)(at - authority.ptr) + 1) : authority;
	parts.has_login = at != NULL;
	parts.user = span_of(authority.ptr, at ? (size_t)(at - authority.ptr) : 0);
	const char *mark = parts.user.len > 0 ? memchr(parts.user.ptr, ':', parts.user.len) : NULL;
	if (mark) {
		size_t len = (size_t)(mark - parts.user.ptr);
		parts.password = span_skip(parts.user, len + 1);
		parts.user.len = len;
		parts.has_password = true;
	}
	*ret_parts = parts;
	return true;
}

enum config_store_kind config_store_kind_of(struct span url)
{
	struct parts parts;
	for (size_t i = 0; split(url, &parts) && i < ARRAY_LEN(schemes); i++)
		if (span_eq(parts.scheme, span_str(schemes[i].scheme)))
			return schemes[i].kind;
	return CONFIG_STORE_LOCAL;
}

bool config_store_in_parts(struct span url)
{
	struct parts parts;
	return split(url, &parts) && (span_eq(parts.scheme, SPAN("redis-cluster")) ||
	                              span_eq(parts.scheme, SPAN("rediss-cluster")));
}

void config_store_label(struct span url, struct buf *out)
{
	struct parts parts;
	if (!split(url, &parts))
		return;
	const char *query = parts.rest.len > 0 ? memchr(parts.rest.ptr, '?', parts.rest.len) : NULL;
	buf_append_span(out, parts.scheme);
	buf_append_span(out, SPAN("://"));
	buf_append_span(out, parts.hosts);
	buf_append(out, parts.rest.ptr, query ? (size_t)(query - parts.rest.ptr) : parts.rest.len);
}

/* ---- reading ---- */

/* The error shows only the scheme: all else may be a secret. */
static bool check_url(struct config_reader *reader, struct config_place place, struct span url)
{
	struct parts parts;
	bool whole = split(url, &parts);
	enum config_store_kind kind = config_store_kind_of(url);
	/* libpq has places of its own for the host. */
	if (whole &&
	    (kind == CONFIG_STORE_POSTGRES || (kind == CONFIG_STORE_REDIS && parts.hosts.len > 0)))
		return true;
	if (whole && kind == CONFIG_STORE_LOCAL && parts.scheme.len < 32)
		config_tell_at(reader, CONFIG_ERROR, place,
		               "found a URL of the kind %.*s, expected redis, rediss, "
		               "redis-cluster, rediss-cluster or postgres",
		               (int)parts.scheme.len, parts.scheme.ptr);
	else
		config_tell_at(reader, CONFIG_ERROR, place,
		               "expected the URL of a store, such as redis://HOST:6379, "
		               "redis-cluster://HOST:6379 or postgres://USER@HOST/DATABASE");
	return false;
}

/* Of a password that may be encoded already: what would end it, and a % that begins no code. */
static bool breaks_url(struct span password)
{
	unsigned char byte[1];
	if (password.ptr[0] == '%')
		return password.len < 3 || !hex_decode(span_of(password.ptr + 1, 2), byte, 1);
	return memchr("/?#@:", password.ptr[0], 5);
}

/* The URL with this password. One that stood in the URL may be encoded already. */
static struct span join(struct config_reader *reader, const struct parts *parts,
                        struct span password, bool encoded)
{
	struct buf url = { 0 };
	/* Room at once: growing would leave copies of a secret behind. */
	url.failed = buf_reserve(&url, parts->scheme.len + parts->user.len + parts->hosts.len +
	                                       parts->rest.len + 3 * password.len + 8);
	buf_append_span(&url, parts->scheme);
	buf_append_span(&url, SPAN("://"));
	buf_append_span(&url, parts->user);
	buf_append_char(&url, ':');
	for (size_t i = 0; encoded && i < password.len; i++)
		if (breaks_url(span_skip(password, i)))
			url_percent_byte(password.ptr[i], &url);
		else
			buf_append_char(&url, password.ptr[i]);
	if (!encoded)
		url_percent_encode(password, &url);
	buf_append_char(&url, '@');
	buf_append_span(&url, parts->hosts);
	buf_append_span(&url, parts->rest);
	struct span whole = arena_copy(&reader->config->arena, buf_span(&url));
	if (url.failed || !whole.ptr)
		reader->failed = -ENOMEM;
	if (url.room > 0)
		explicit_bzero(url.ptr, url.room);
	buf_free(&url);
	return whole;
}

/* Parameters of libpq that are passwords. */
static bool is_clear(const struct parts *parts)
{
	struct span rest = parts->rest;
	const char *query = rest.len > 0 ? memmem(rest.ptr, rest.len, "password=", 9) : NULL;
	if (query)
		return rest.len < (size_t)(query - rest.ptr) + 11 ||
		       memcmp(query + 9, "${", 2) != 0;
	return parts->has_password && !memmem(parts->password.ptr, parts->password.len, "${", 2);
}

/* A password from a variable is put in after the URL is taken apart: none of its characters
 * may make it a host, which messages show. */
bool config_read_url(struct config_reader *reader, const struct yaml_node *node,
                     struct span *ret_url)
{
	struct yaml_node bare = *node, secret = *node;
	struct parts written, parts;
	struct span password;
	if (node->kind != YAML_TEXT || !split(node->text, &written) || !written.has_password ||
	    is_clear(&written))
		return config_read_text(reader, node, ret_url);
	size_t head = (size_t)(written.password.ptr - node->text.ptr) - 1;
	size_t tail = (size_t)(written.hosts.ptr - node->text.ptr) - 1;
	char *text = arena_alloc(&reader->config->arena, node->text.len);
	if (!text) {
		reader->failed = -ENOMEM;
		return false;
	}
	memcpy(text, node->text.ptr, head);
	memcpy(text + head, node->text.ptr + tail, node->text.len - tail);
	bare.text = span_of(text, head + node->text.len - tail);
	secret.text = written.password;
	if (!config_read_text(reader, &bare, ret_url) ||
	    !config_read_text(reader, &secret, &password) || !split(*ret_url, &parts))
		return false;
	*ret_url = join(reader, &parts, password, true);
	return true;
}

void config_read_store_url(struct config_reader *reader, const struct yaml_node *node,
                           struct span *ret_url)
{
	struct config_place place = { node->line, node->column };
	struct span url;
	bool file = node->kind == YAML_TEXT && span_starts(node->text, SPAN("file:"));
	if (!(file ? config_read_secret(reader, node, &url) : config_read_url(reader, node, &url)))
		return;
	if (!check_url(reader, place, url))
		return;
	struct parts written;
	if (!file && split(node->text, &written) && is_clear(&written))
		config_tell(reader, CONFIG_WARNING, node,
		            "found a password in clear text; ${NAME}, file:PATH or store.password "
		            "keep it out of this file");
	*ret_url = url;
}

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
		                               .dead_keep_ms = config->serve.local.dead_keep_ms };
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
	struct postgres_store_options options = {
		.url = config->store.url.ptr, .dead_keep_ms = config->serve.local.dead_keep_ms
	};
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

/* ---- shared stores by their kind ---- */

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

/* ---- checks ---- */

/* Everybody on a machine can read the command line of its processes. */
static void read_flag(struct config_reader *reader)
{
	const char *flag = reader->config->serve.store;
	struct parts parts;
	if (!flag)
		return;
	struct yaml_node node = { .kind = YAML_TEXT, .text = span_str(flag) };
	if (split(node.text, &parts) && is_clear(&parts)) {
		config_tell(reader, CONFIG_ERROR, NULL,
		            "found a password on the command line, where everybody can read it, "
		            "expected ${NAME} for it, in single quotes, or the configuration file");
		return;
	}
	config_read_store_url(reader, &node, &reader->config->store.url);
}

/* The password of its own option, as the URL would have it. */
static void add_password(struct config_reader *reader)
{
	struct config_store *store = &reader->config->store;
	struct parts parts;
	if (store->password.len == 0 || !split(store->url, &parts))
		return;
	if (parts.has_password) {
		config_tell(reader, CONFIG_ERROR, NULL,
		            "store.url has a password too, expected one of the two");
		return;
	}
	store->url = join(reader, &parts, store->password, false);
}

/* The store that will use it reports what is wrong, without its secrets. */
static void check_whole(struct config_reader *reader)
{
	const struct config_store *store = &reader->config->store;
	struct error_text text = { "" };
	int error = store->url.ptr ? kinds[store->kind].url_check(store->url.ptr, &text) : 0;
	if (error == -ENOMEM)
		reader->failed = error;
	else if (error < 0)
		config_tell(reader, CONFIG_ERROR, NULL, "%s", text.text);
}

static void check_spool(struct config_reader *reader, const struct config_source *source)
{
	size_t mark = config_enter(reader, SPAN("sources"));
	config_enter(reader, source->name);
	config_enter(reader, SPAN("store_away"));
	if (reader->config->store.kind == CONFIG_STORE_LOCAL)
		config_tell_at(reader, CONFIG_WARNING, source->place,
		               "has no effect: the store is local");
	if (source->ack_delivered)
		config_tell_at(
			reader, CONFIG_ERROR, source->place,
			"found spool and ack: delivered, expected one of the two: a spooled event has no outcome to wait for");
	config_leave(reader, mark);
}

void config_check_store(struct config_reader *reader)
{
	struct config *config = reader->config;
	struct config_store *store = &config->store;
	size_t mark = config_enter(reader, SPAN("store"));
	read_flag(reader);
	store->kind = config_store_kind_of(store->url);
	if (store->kind != CONFIG_STORE_LOCAL) {
		add_password(reader);
		check_whole(reader);
	} else if (store->password.len > 0) {
		config_tell(reader, CONFIG_ERROR, NULL,
		            "password has no effect without url: the store is local");
	}
	config_leave(reader, mark);
	for (uint32_t i = 0; i < config->source_count; i++)
		if (config->sources[i].door.spool)
			check_spool(reader, &config->sources[i]);
}

bool config_spools(const struct config *config)
{
	for (uint32_t i = 0; i < config->source_count; i++)
		if (config->sources[i].door.spool)
			return true;
	return false;
}
