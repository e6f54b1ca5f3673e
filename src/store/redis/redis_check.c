/* redis_check: is a server fit? */
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "base/secret.h"
#include "base/text.h"
#include "codec/resp.h"
#include "link/redis_client.h"
#include "store/redis/redis_internal.h"
#include "sys/clock.h"

#define VERSION_MIN 6u /* SET with KEEPTTL */
#define SKEW_MAX_MS 1000
#define PROBES 128u /* slots that are tried to find all masters */

struct check {
	struct redis_asker asker;
	struct redis_login login;
	void (*tell)(void *user, enum redis_finding finding, const char *text);
	void *user;
	struct buf reply;
	uint32_t slot;    /* of the server that is checked */
	char server[300]; /* its name, in front of each text */
	bool fit;
};

static void printf_like(3, 4)
	say(struct check *check, enum redis_finding finding, const char *format, ...)
{
	char text[700];
	va_list arguments;

	int len = snprintf(text, sizeof(text), "%s", check->server);
	va_start(arguments, format);
	vsnprintf(text + len, sizeof(text) - (size_t)len, format, arguments);
	va_end(arguments);
	check->fit &= finding != REDIS_FINDING_ERROR;
	check->tell(check->user, finding, text);
}

/* Asks the server that is checked. False: no answer, or an error, which is reported for `what`. */
static bool ask(struct check *check, const char *what, const struct span *words, size_t count)
{
	struct resp_reply value;
	size_t at = 0;

	int r = redis_ask(&check->asker, check->slot, words, count, &check->reply);
	if (r < 0) {
		say(check, REDIS_FINDING_ERROR, "%s: no answer: %s", what,
		    redis_client_trouble(check->asker.client));
		return false;
	}
	if (resp_reply_next(buf_span(&check->reply), &at, &value) &&
	    value.kind == RESP_REPLY_ERROR) {
		say(check, REDIS_FINDING_WARN, "%s: cannot be checked: %.*s", what,
		    (int)(value.text.len < 200 ? value.text.len : 200), value.text.ptr);
		return false;
	}
	return true;
}

static uint64_t info_number(const struct check *check, struct span name)
{
	struct span text;
	uint64_t number = 0;

	if (!redis_info_find(buf_span(&check->reply), name, &text) ||
	    text_parse_u64(span_cut_item(&text, '.'), &number) < 0)
		return 0;
	return number;
}

static void check_version(struct check *check)
{
	struct span words[] = { SPAN("INFO"), SPAN("server") }, version = SPAN("?");

	if (!ask(check, "version", words, ARRAY_LEN(words)))
		return;
	redis_info_find(buf_span(&check->reply), SPAN("redis_version"), &version);
	bool enough = info_number(check, SPAN("redis_version")) >= VERSION_MIN;
	say(check, enough ? REDIS_FINDING_OK : REDIS_FINDING_ERROR,
	    enough ? "version %.*s" : "version %.*s is too old: 6.0 or later is needed",
	    (int)version.len, version.ptr);
}

static void check_policy(struct check *check)
{
	struct span policy = SPAN("");

	if (redis_ask_policy(&check->asker, check->slot, &check->reply, &policy) < 0)
		say(check, REDIS_FINDING_ERROR, "maxmemory-policy: no answer: %s",
		    redis_client_trouble(check->asker.client));
	else if (policy.len == 0)
		say(check, REDIS_FINDING_WARN,
		    "maxmemory-policy: cannot be checked; it must be noeviction");
	else if (span_eq(policy, SPAN("noeviction")))
		say(check, REDIS_FINDING_OK, "maxmemory-policy noeviction");
	else
		say(check, REDIS_FINDING_ERROR,
		    "maxmemory-policy %.*s evicts claims when memory is full: set noeviction",
		    (int)policy.len, policy.ptr);
}

static void check_disk(struct check *check)
{
	struct span words[] = { SPAN("CONFIG"), SPAN("GET"), SPAN("append*") };
	struct span appendonly = SPAN("no"), fsync = SPAN("?");

	if (!ask(check, "appendonly", words, ARRAY_LEN(words)))
		return;
	redis_info_find(buf_span(&check->reply), SPAN("appendonly"), &appendonly);
	redis_info_find(buf_span(&check->reply), SPAN("appendfsync"), &fsync);
	if (!span_eq(appendonly, SPAN("yes")))
		say(check, REDIS_FINDING_WARN,
		    "appendonly no: acknowledged events are lost when the server restarts; set "
		    "yes, or rely on replicas alone");
	else if (span_eq(fsync, SPAN("always")))
		say(check, REDIS_FINDING_OK, "appendonly yes, appendfsync always");
	else
		say(check, REDIS_FINDING_WARN,
		    "appendfsync %.*s: a power failure may lose events acknowledged in the last "
		    "second or more; set always, or rely on replicas alone",
		    (int)fsync.len, fsync.ptr);
}

static void check_replicas(struct check *check)
{
	struct span words[] = { SPAN("INFO"), SPAN("replication") }, role = SPAN("?");
	uint32_t asked = check->login.replicas;

	if (!ask(check, "replicas", words, ARRAY_LEN(words)))
		return;
	redis_info_find(buf_span(&check->reply), SPAN("role"), &role);
	uint64_t there = info_number(check, SPAN("connected_slaves"));
	if (!span_eq(role, SPAN("master")))
		say(check, REDIS_FINDING_ERROR, "is a replica: name the master");
	else if (there < asked)
		say(check, REDIS_FINDING_ERROR,
		    "%llu replicas are connected, fewer than replicas=%u of the URL: every event "
		    "would be rejected",
		    (unsigned long long)there, asked);
	else if (there > 0 && asked == 0)
		say(check, REDIS_FINDING_WARN,
		    "%llu replicas are connected, but stile does not wait for them: a failover may "
		    "lose acknowledged events; add ?replicas=1 to the URL",
		    (unsigned long long)there);
	else
		say(check, REDIS_FINDING_OK, "%llu replicas connected, replicas=%u",
		    (unsigned long long)there, asked);
}

static void check_time(struct check *check)
{
	struct span words[] = { SPAN("TIME") };
	struct resp_reply value;
	uint64_t seconds = 0;
	size_t at = 0;

	if (!ask(check, "time", words, ARRAY_LEN(words)))
		return;
	if (!resp_reply_next(buf_span(&check->reply), &at, &value))
		return;
	/* Two numbers, of which the first is seconds. */
	if (!resp_reply_next(buf_span(&check->reply), &at, &value) ||
	    text_parse_u64(value.text, &seconds) < 0)
		return;
	int64_t ahead_ms = (int64_t)(seconds * 1000 - clock_read(clock_system()).wall_ms);
	bool near = ahead_ms > -2 * SKEW_MAX_MS && ahead_ms < SKEW_MAX_MS;
	say(check, near ? REDIS_FINDING_OK : REDIS_FINDING_WARN,
	    near ? "clock agrees with this machine's (%lld s)"
	         : "clock differs from this machine's by %lld s",
	    (long long)(ahead_ms / 1000));
}

/* May a script write? */
static void check_script(struct check *check)
{
	char key[REDIS_KEY_MAX];
	struct resp_reply value;
	size_t at = 0;

	/* A key of the slot, so that it is this server's. */
	uint32_t tag = 0;
	do
		snprintf(key, sizeof(key), "%s{%x}check", check->login.prefix, tag++);
	while (check->slot != REDIS_ANY_SLOT &&
	       redis_slot_of(span_str(key)) / 128 != check->slot / 128 && tag < 100000);
	uint32_t slot = check->login.cluster ? redis_slot_of(span_str(key)) : check->slot;
	struct span words[] = {
		SPAN("EVAL"),
		SPAN("return redis.call('SET', KEYS[1], redis.call('TIME')[1], 'PX', 1)"),
		SPAN("1"), span_str(key)
	};
	int r = redis_ask(&check->asker, slot, words, ARRAY_LEN(words), &check->reply);
	if (r < 0 || !resp_reply_next(buf_span(&check->reply), &at, &value))
		say(check, REDIS_FINDING_ERROR, "scripts: no answer: %s",
		    redis_client_trouble(check->asker.client));
	else if (value.kind == RESP_REPLY_ERROR)
		say(check, REDIS_FINDING_ERROR, "scripts may not write: %.*s",
		    (int)(value.text.len < 200 ? value.text.len : 200), value.text.ptr);
	else
		say(check, REDIS_FINDING_OK, "scripts may write");
}

static void check_server(struct check *check)
{
	check_version(check);
	check_policy(check);
	check_disk(check);
	check_replicas(check);
	check_time(check);
	check_script(check);
}

static void check_layout(struct check *check)
{
	uint64_t version, shards;
	struct error_text text = { "no answer" };

	if (redis_layout_read(&check->asker, &check->reply, &version, &shards, &text) < 0)
		say(check, REDIS_FINDING_ERROR, "layout: %s", text.text);
	else if (version == 0)
		say(check, REDIS_FINDING_OK, "layout: no keys yet");
	else if (version == REDIS_LAYOUT)
		say(check, REDIS_FINDING_OK, "layout %u, shards=%llu", REDIS_LAYOUT,
		    (unsigned long long)shards);
	else
		say(check, REDIS_FINDING_WARN,
		    "layout %llu is of an earlier version of stile: the first gateway of this "
		    "version converts it to layout %u; stop all gateways of the earlier version "
		    "before",
		    (unsigned long long)version, REDIS_LAYOUT);
}

/* ---- clusters ---- */

struct masters {
	struct redis_slots_range ranges[REDIS_NODES_MAX]; /* the first of each */
	uint32_t count;
	uint32_t covered;
};

static void master_note(void *user, const struct redis_slots_range *range)
{
	struct masters *masters = user;
	const struct redis_host *host = &range->master;
	uint32_t i = 0;

	masters->covered += range->last - range->first + 1;
	while (i < masters->count &&
	       (masters->ranges[i].master.port != host->port ||
	        !span_eq(span_str(masters->ranges[i].master.name), span_str(host->name))))
		i++;
	if (i == masters->count && masters->count < REDIS_NODES_MAX)
		masters->ranges[masters->count++] = *range;
}

static void check_cluster(struct check *check)
{
	static struct masters masters;
	struct span info[] = { SPAN("CLUSTER"), SPAN("INFO") }, state = SPAN("?");
	struct span slots[] = { SPAN("CLUSTER"), SPAN("SLOTS") };

	if (!ask(check, "cluster", info, ARRAY_LEN(info)))
		return;
	redis_info_find(buf_span(&check->reply), SPAN("cluster_state"), &state);
	bool well = span_eq(state, SPAN("ok"));
	say(check, well ? REDIS_FINDING_OK : REDIS_FINDING_ERROR, "cluster state %.*s",
	    (int)state.len, state.ptr);
	masters = (struct masters){ 0 };
	if (!ask(check, "slots", slots, ARRAY_LEN(slots)))
		return;
	if (!redis_slots_walk(buf_span(&check->reply), &check->login.hosts[0], master_note,
	                      &masters) ||
	    masters.covered < REDIS_SLOTS)
		say(check, REDIS_FINDING_ERROR, "%u of %u slots have a master", masters.covered,
		    REDIS_SLOTS);
	for (uint32_t i = 0; i < masters.count; i++) {
		const struct redis_slots_range *range = &masters.ranges[i];
		check->slot = range->first;
		snprintf(check->server, sizeof(check->server), "%s:%u: ", range->master.name,
		         range->master.port);
		check_server(check);
	}
}

/* A node of a cluster cannot be used as a single server. */
static bool check_mode(struct check *check)
{
	struct span words[] = { SPAN("INFO"), SPAN("cluster") }, enabled = SPAN("0");

	if (!ask(check, "server", words, ARRAY_LEN(words)))
		return false;
	redis_info_find(buf_span(&check->reply), SPAN("cluster_enabled"), &enabled);
	bool cluster = span_eq(enabled, SPAN("1"));
	if (cluster == check->login.cluster)
		return true;
	say(check, REDIS_FINDING_ERROR,
	    cluster ? "is a node of a cluster: use redis-cluster://"
	            : "is not a cluster: use redis://");
	return false;
}

int redis_store_url_check(const char *url, struct error_text *ret_text)
{
	struct redis_login login;

	int r = redis_login_read(span_str(url), &login, ret_text);
	if (r == 0)
		secret_wipe(&login, sizeof(login));
	return r;
}

bool redis_store_check(const char *url,
                       void (*tell)(void *user, enum redis_finding finding, const char *text),
                       void *user)
{
	struct check check = { .tell = tell, .user = user, .slot = REDIS_ANY_SLOT, .fit = true };
	struct error_text text = { "" };

	if (redis_login_read(span_str(url), &check.login, &text) < 0) {
		say(&check, REDIS_FINDING_ERROR, "%s", text.text);
		return false;
	}
	bool known = false; /* whether it is a cluster */
	if (redis_asker_open(&check.asker, &check.login, SPAN_EMPTY) < 0)
		say(&check, REDIS_FINDING_ERROR, "no memory");
	else
		known = check_mode(&check);
	if (check.fit)
		check_layout(&check);
	if (known && check.login.cluster)
		check_cluster(&check);
	else if (check.fit)
		check_server(&check);
	buf_free(&check.reply);
	redis_asker_close(&check.asker);
	return check.fit;
}
