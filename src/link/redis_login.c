/* redis_login: see redis_login.h. */
#include "link/redis_login.h"

#include "base/text.h"
#include "codec/url.h"

static const struct {
	struct span name;
	bool tls, cluster;
} schemes[] = {
	{ { "redis://", 8 }, false, false },
	{ { "rediss://", 9 }, true, false },
	{ { "redis-cluster://", 16 }, false, true },
	{ { "rediss-cluster://", 17 }, true, true },
};

/* ---- pieces ---- */

static int word_read(struct span text, char ret_word[static REDIS_WORD_MAX + 1])
{
	size_t len = 0;

	if (url_percent_decode(text, ret_word, REDIS_WORD_MAX, &len) < 0 ||
	    memchr(ret_word, '\0', len))
		return ERR_INVALID;
	ret_word[len] = '\0';
	return 0;
}

static int number_read(struct span text, uint64_t least, uint64_t most, uint32_t *ret_number)
{
	uint64_t value;

	if (text_parse_u64(text, &value) < 0 || value < least || value > most)
		return ERR_INVALID;
	*ret_number = (uint32_t)value;
	return 0;
}

static int duration_read(struct span text, uint32_t *ret_ms)
{
	uint64_t ms;

	if (text_parse_duration(text, &ms, NULL) < 0 || ms < 1 || ms > 3600000)
		return ERR_INVALID;
	*ret_ms = (uint32_t)ms;
	return 0;
}

static bool is_prefix_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == ':' || c == '.' || c == '-';
}

static int prefix_read(struct span text, char ret_prefix[static REDIS_PREFIX_MAX + 1])
{
	if (text.len == 0 || text.len > REDIS_PREFIX_MAX)
		return ERR_INVALID;
	for (size_t i = 0; i < text.len; i++)
		if (!is_prefix_char(text.ptr[i]))
			return ERR_INVALID;
	memcpy(ret_prefix, text.ptr, text.len);
	ret_prefix[text.len] = '\0';
	return 0;
}

static int shards_read(struct span text, uint32_t *ret_shards)
{
	uint32_t shards;

	if (number_read(text, 1, REDIS_SHARDS_MAX, &shards) < 0 || (shards & (shards - 1)) != 0)
		return ERR_INVALID;
	*ret_shards = shards;
	return 0;
}

/* ---- parameters ---- */

static int param_read(struct redis_login *login, struct span name, struct span value)
{
	if (span_eq(name, SPAN("replicas")))
		return number_read(value, 0, 64, &login->replicas);
	if (span_eq(name, SPAN("wait")))
		return duration_read(value, &login->wait_ms);
	if (span_eq(name, SPAN("timeout")))
		return duration_read(value, &login->timeout_ms);
	if (span_eq(name, SPAN("prefix")))
		return prefix_read(value, login->prefix);
	if (span_eq(name, SPAN("shards")))
		return shards_read(value, &login->shards);
	if (span_eq(name, SPAN("ca")))
		return word_read(value, login->ca_file);
	return ERR_INVALID;
}

static int params_read(struct redis_login *login, struct span params, struct error_text *ret_text)
{
	while (params.len > 0) {
		struct span value = span_cut_item(&params, '&');
		struct span name = span_cut_item(&value, '=');
		if (param_read(login, name, value) < 0)
			return error_fill(ret_text, ERR_INVALID,
			                  "the store's URL has a parameter \"%.*s\" that is not "
			                  "known, or not so",
			                  (int)(name.len < 40 ? name.len : 40), name.ptr);
	}
	return 0;
}

/* ---- hosts ---- */

static int host_read(struct span text, struct redis_host *ret_host)
{
	struct span name;
	uint32_t port = REDIS_PORT;

	if (span_cut_start(&text, SPAN("["))) { /* an IPv6 address */
		name = span_cut_item(&text, ']');
		if (text.len > 0 && !span_cut_start(&text, SPAN(":")))
			return ERR_INVALID;
	} else {
		name = span_cut_item(&text, ':');
	}
	if (name.len == 0 || name.len > REDIS_HOST_MAX ||
	    (text.len > 0 && number_read(text, 1, 65535, &port) < 0))
		return ERR_INVALID;
	memcpy(ret_host->name, name.ptr, name.len);
	ret_host->name[name.len] = '\0';
	ret_host->port = (uint16_t)port;
	return 0;
}

static int hosts_read(struct redis_login *login, struct span text, struct error_text *ret_text)
{
	uint32_t most = login->cluster ? REDIS_HOSTS_MAX : 1;

	do {
		if (login->host_count == most ||
		    host_read(span_cut_item(&text, ','), &login->hosts[login->host_count]) < 0)
			return error_fill(
				ret_text, ERR_INVALID,
				"the store's URL must name a host, or of a cluster up to %u "
				"with commas between: redis://HOST:PORT",
				REDIS_HOSTS_MAX);
		login->host_count++;
	} while (text.len > 0);
	return 0;
}

static int secret_read(struct redis_login *login, struct span text, struct error_text *ret_text)
{
	struct span user = span_cut_item(&text, ':');

	if (word_read(user, login->user) < 0 || word_read(text, login->password) < 0)
		return error_fill(ret_text, ERR_INVALID,
		                  "the store's URL has a user or password that is too long, or "
		                  "holds a %% without two hexadecimal digits");
	return 0;
}

/* The last @ before the path: passwords may hold one. */
static struct span secret_cut(struct span *authority)
{
	for (size_t i = authority->len; i > 0; i--) {
		if (authority->ptr[i - 1] == '@') {
			struct span secret = span_of(authority->ptr, i - 1);
			*authority = span_skip(*authority, i);
			return secret;
		}
	}
	return SPAN_EMPTY;
}

int redis_login_read(struct span url, struct redis_login *ret_login, struct error_text *ret_text)
{
	struct redis_login login = { .wait_ms = 1000, .timeout_ms = 5000, .prefix = "stile" };
	size_t i = 0;

	while (i < ARRAY_LEN(schemes) && !span_cut_start(&url, schemes[i].name))
		i++;
	if (i == ARRAY_LEN(schemes) || !url.ptr)
		return error_fill(ret_text, ERR_INVALID,
		                  "not a URL of a Redis: redis://, rediss://, redis-cluster://");
	login.tls = schemes[i].tls;
	login.cluster = schemes[i].cluster;
	login.shards = login.cluster ? 16 : 1;
	struct span before = span_cut_item(&url, '?'), params = url;
	struct span authority = span_cut_item(&before, '/'), db = before;
	struct span secret = secret_cut(&authority);
	int r = secret_read(&login, secret, ret_text);
	if (r == 0)
		r = hosts_read(&login, authority, ret_text);
	if (r == 0 && db.len > 0 && number_read(db, 0, login.cluster ? 0 : 65535, &login.db) < 0)
		r = error_fill(ret_text, ERR_INVALID,
		               "the path of the store's URL must be the number of a database");
	if (r == 0)
		r = params_read(&login, params, ret_text);
	if (r == 0)
		*ret_login = login;
	return r;
}
