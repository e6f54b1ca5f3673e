/*
 * redis_open: what is asked of the servers, one question at a time, before the store has a thread.
 *
 * LAYOUT. Which keys a store has, and what they hold, is a layout (redis_script.lua describes the
 * present one). The key PREFIX:layout holds its version and the number of shards ("3 16"), and
 * P m of each shard the version once more, where every call of the script checks it.
 *
 *   2   events that were leased as they were admitted are in parcels (P a, P b), P m is a string
 *   3   no parcels; P m is a hash
 *
 * A store of layout 2 without events in parcels becomes one of layout 3 when it is opened; any
 * other is refused. So is one that a gateway of layout 2 still uses: every gateway reads the
 * secret each second, so OBJECT IDLETIME shows it. If that one is missed, since it was stopped
 * for a while, its script fails at the first P m that is a hash, before it writes anything.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"
#include "codec/resp.h"
#include "link/redis_client.h"
#include "store/redis/redis_internal.h"

#define LAYOUT_BEFORE 2u
#define IDLE_MIN_S 4  /* of the secret: no gateway uses the store */
#define IDLE_LOOKS 8u /* a second apart, for that */
#define POLICY_PROBES 32u

extern const char redis_script_text[]; /* redis_script.lua */

/* ---- questions ---- */

struct question {
	struct redis_call call;
	struct loop *loop;
	struct buf *reply;
	int error;
};

static void answered(struct redis_call *call, int error, struct span reply)
{
	struct question *question = call->user;

	question->error = error;
	if (error == 0) {
		buf_append_span(question->reply, reply);
		question->error = question->reply->failed;
	}
	loop_stop(question->loop);
}

int redis_ask(struct redis_asker *asker, uint32_t slot, const struct span *words, size_t count,
              struct buf *ret_reply)
{
	struct question question = { .loop = asker->loop, .reply = ret_reply };
	struct redis_call *call = &question.call;

	buf_clear(ret_reply);
	for (size_t i = 0; i < count; i++)
		resp_request_add(&call->arguments, words[i]);
	if (call->arguments.failed) {
		redis_call_free(call);
		return -ENOMEM;
	}
	call->slot = slot;
	call->count = (uint32_t)count;
	call->writes = asker->writes;
	call->done = answered;
	call->user = &question;
	call->deadline_ms = clock_monotonic_ns() / 1000000 + asker->login->timeout_ms;
	redis_client_call(asker->client, call);
	loop_run(asker->loop);
	redis_call_free(call);
	return question.error;
}

int redis_asker_open(struct redis_asker *asker, const struct redis_login *login, struct span script)
{
	*asker = (struct redis_asker){ .login = login };
	int r = loop_new(&asker->loop);
	if (r == 0)
		r = redis_client_new(&(struct redis_client_options){ .loop = asker->loop,
		                                                     .login = login,
		                                                     .script = script },
		                     &asker->client);
	return r;
}

void redis_asker_close(struct redis_asker *asker)
{
	asker->client = redis_client_free(asker->client);
	asker->loop = loop_free(asker->loop);
}

/* CONFIG GET answers with an array of names and values, INFO with lines "name:value". */
bool redis_info_find(struct span info, struct span name, struct span *ret_value)
{
	struct resp_reply value;
	size_t at = 0;

	if (!resp_reply_next(info, &at, &value))
		return false;
	if (value.kind == RESP_REPLY_ARRAY) {
		while (resp_reply_next(info, &at, &value))
			if (span_eq(value.text, name) && resp_reply_next(info, &at, &value)) {
				*ret_value = value.text;
				return true;
			}
		return false;
	}
	for (struct span rest = value.text; rest.len > 0;) {
		struct span line = span_cut_item(&rest, '\n');
		if (line.len > 0 && line.ptr[line.len - 1] == '\r')
			line.len--;
		if (!span_cut_start(&line, name) || !span_cut_start(&line, SPAN(":")))
			continue;
		*ret_value = line;
		return true;
	}
	return false;
}

/* INFO first: hosted servers refuse CONFIG. */
int redis_ask_policy(struct redis_asker *asker, uint32_t slot, struct buf *reply,
                     struct span *policy)
{
	static const struct span info[] = { { "INFO", 4 }, { "memory", 6 } };
	static const struct span config[] = { { "CONFIG", 6 },
		                              { "GET", 3 },
		                              { "maxmemory-policy", 16 } };

	int r = redis_ask(asker, slot, info, ARRAY_LEN(info), reply);
	if (r < 0 || redis_info_find(buf_span(reply), SPAN("maxmemory_policy"), policy))
		return r;
	r = redis_ask(asker, slot, config, ARRAY_LEN(config), reply);
	if (r == 0)
		redis_info_find(buf_span(reply), SPAN("maxmemory-policy"), policy);
	return r;
}

/* ---- the layout ---- */

/* Reads the first value of the answer; an error of the server's is ERR_AWAY, with its words. */
static int ask_value(struct redis_asker *asker, uint32_t slot, const struct span *words,
                     size_t count, struct buf *reply, struct resp_reply *ret_value,
                     struct error_text *ret_text)
{
	struct resp_reply value;
	size_t at = 0;

	int r = redis_ask(asker, slot, words, count, reply);
	if (r < 0)
		return r;
	if (!resp_reply_next(buf_span(reply), &at, &value))
		return ERR_AWAY;
	if (value.kind == RESP_REPLY_ERROR)
		return error_fill(ret_text, ERR_AWAY, "the store's Redis refused %.*s: %.*s",
		                  (int)words[0].len, words[0].ptr, (int)value.text.len,
		                  value.text.ptr);
	*ret_value = value;
	return 0;
}

int redis_layout_read(struct redis_asker *asker, struct buf *reply, uint64_t *ret_version,
                      uint64_t *ret_shards, struct error_text *ret_text)
{
	char key[REDIS_KEY_MAX];
	struct resp_reply value = { 0 };

	snprintf(key, sizeof(key), "%s:layout", asker->login->prefix);
	struct span words[] = { SPAN("GET"), span_str(key) };
	int r = ask_value(asker, redis_slot_of(span_str(key)), words, ARRAY_LEN(words), reply,
	                  &value, ret_text);
	if (r < 0)
		return r;
	if (value.kind == RESP_REPLY_NULL) {
		*ret_version = 0;
		return 0;
	}
	struct span rest = value.text;
	struct span version = span_cut_item(&rest, ' ');
	if (text_parse_u64(version, ret_version) < 0 || text_parse_u64(rest, ret_shards) < 0 ||
	    *ret_version < LAYOUT_BEFORE || *ret_version > REDIS_LAYOUT || *ret_shards < 1 ||
	    *ret_shards > REDIS_SHARDS_MAX || (*ret_shards & (*ret_shards - 1)) != 0)
		return error_fill(ret_text, ERR_VERSION,
		                  "the store's keys have the layout \"%.*s\" (key %s), and this "
		                  "version of stile reads layouts %u and %u: use the version of "
		                  "stile that wrote them, or another prefix",
		                  (int)value.text.len, value.text.ptr, key, LAYOUT_BEFORE,
		                  REDIS_LAYOUT);
	return 0;
}

/* Does no gateway read the secret? A server that does not say is believed to be unused. */
static int is_unused(struct redis_asker *asker, struct buf *reply, bool *ret_unused)
{
	char secret[REDIS_KEY_MAX];
	struct resp_reply value = { 0 };

	snprintf(secret, sizeof(secret), "%s:secret", asker->login->prefix);
	struct span words[] = { SPAN("OBJECT"), SPAN("IDLETIME"), span_str(secret) };
	int r = redis_ask(asker, redis_slot_of(span_str(secret)), words, ARRAY_LEN(words), reply);
	if (r < 0)
		return r;
	size_t at = 0;
	*ret_unused = !resp_reply_next(buf_span(reply), &at, &value) ||
	              value.kind != RESP_REPLY_NUMBER || value.number >= IDLE_MIN_S;
	return 0;
}

struct pause {
	struct loop_timer timer;
	struct loop *loop;
};

static void pause_over(struct loop_timer *timer)
{
	loop_stop(container_of(timer, struct pause, timer)->loop);
}

static int pause_second(struct loop *loop)
{
	struct pause pause = { .timer.due = pause_over, .loop = loop };

	int r = loop_timer_set(loop, &pause.timer, 1000);
	if (r == 0)
		loop_run(loop);
	return r;
}

/* Each shard has keys with a tag of its own, in a slot of its part of all slots. */
static int shards_begin(struct redis_store *redis, uint32_t count)
{
	redis->shards = mem_zalloc(count, sizeof(struct redis_shard));
	if (!redis->shards)
		return -ENOMEM;
	redis->shard_count = count;
	for (uint32_t i = 0; i < count; i++) {
		struct redis_shard *shard = &redis->shards[i];
		uint32_t tag = 0;
		do {
			snprintf(shard->prefix, sizeof(shard->prefix), "%s{%x}",
			         redis->login.prefix, tag++);
			shard->call.slot = redis_slot_of(span_str(shard->prefix));
		} while (shard->call.slot / (REDIS_SLOTS / count) != i);
		shard->redis = redis;
		shard->number = i;
		part_list_init(&shard->queue);
		part_list_init(&shard->under_way);
	}
	return 0;
}

/* Adds the number of events in parcels of a shard. Without any, and if `converts`, it has layout
 * 3 from now on. */
static int shard_convert(struct redis_asker *asker, const struct redis_shard *shard, bool converts,
                         struct buf *reply, uint64_t *parcelled, struct error_text *ret_text)
{
	static const char script[] =
		"local kind = redis.call('TYPE', KEYS[1]).ok\n"
		"if kind == 'hash' then return 0 end\n"
		"local text = kind == 'string' and redis.call('GET', KEYS[1]) or '0 0'\n"
		"local last, parcelled = string.match(text, '^(%d+) (%d+)$')\n"
		"if parcelled ~= '0' or ARGV[1] == '0' then return tonumber(parcelled) end\n"
		"redis.call('DEL', KEYS[1])\n"
		"redis.call('HSET', KEYS[1], 'layout', ARGV[1], 'last', last)\n"
		"return 0";
	char key[REDIS_KEY_MAX + 1], layout[16];
	struct resp_reply value = { 0 };

	snprintf(key, sizeof(key), "%sm", shard->prefix);
	snprintf(layout, sizeof(layout), "%u", converts ? REDIS_LAYOUT : 0u);
	struct span words[] = { SPAN("EVAL"), span_str(script), SPAN("1"), span_str(key),
		                span_str(layout) };
	asker->writes = converts;
	int r = ask_value(asker, shard->call.slot, words, ARRAY_LEN(words), reply, &value,
	                  ret_text);
	asker->writes = false;
	if (r == 0 && value.kind != RESP_REPLY_NUMBER)
		return error_fill(ret_text, ERR_VERSION, "the store's key %s has no known layout",
		                  key);
	if (r == 0)
		*parcelled += (uint64_t)value.number;
	return r;
}

/* All shards or none: a shard that has layout 3 is of no use to a gateway of layout 2. */
static int shards_convert(struct redis_store *redis, struct redis_asker *asker, struct buf *reply,
                          struct error_text *ret_text)
{
	for (unsigned converts = 0; converts < 2; converts++) {
		uint64_t parcelled = 0;
		for (uint32_t i = 0; i < redis->shard_count; i++) {
			int r = shard_convert(asker, &redis->shards[i], converts != 0, reply,
			                      &parcelled, ret_text);
			if (r < 0)
				return r;
		}
		if (parcelled > 0)
			return error_fill(
				ret_text, ERR_VERSION,
				"the store's keys have layout %u, and %llu open events are in "
				"parcels, which this version of stile does not read: start "
				"gateways of the earlier version until those events are "
				"delivered or their leases have ended, stop them with SIGTERM, "
				"then start this version",
				LAYOUT_BEFORE, (unsigned long long)parcelled);
	}
	return 0;
}

/* From layout 2, or from none. Of gateways that are the first at the same time, one decides the
 * number of shards. A server without room writes after a DEL. */
static int layout_write(struct redis_asker *asker, struct span name, uint32_t shards,
                        struct buf *reply, struct error_text *ret_text)
{
	static const char script[] = "local now = redis.call('GET', KEYS[1])\n"
				     "if now and now ~= ARGV[1] then return 0 end\n"
				     "redis.call('DEL', KEYS[1])\n"
				     "redis.call('SET', KEYS[1], ARGV[2])\n"
				     "return 1";
	char before[32], text[32];
	struct resp_reply value = { 0 };

	snprintf(before, sizeof(before), "%u %u", LAYOUT_BEFORE, shards);
	snprintf(text, sizeof(text), "%u %u", REDIS_LAYOUT, shards);
	struct span words[] = { SPAN("EVAL"), span_str(script), SPAN("1"),
		                name,         span_str(before), span_str(text) };
	asker->writes = true;
	int r = ask_value(asker, redis_slot_of(name), words, ARRAY_LEN(words), reply, &value,
	                  ret_text);
	asker->writes = false;
	return r;
}

static int learn_layout(struct redis_store *redis, struct redis_asker *asker, struct buf *reply,
                        struct error_text *ret_text)
{
	char key[REDIS_KEY_MAX];
	uint64_t version = 0, shards = redis->login.shards;
	bool unused = true;

	snprintf(key, sizeof(key), "%s:layout", redis->login.prefix);
	for (uint32_t looks = 1; looks <= IDLE_LOOKS + 2; looks++) {
		int r = redis_layout_read(asker, reply, &version, &shards, ret_text);
		if (r == 0 && version == REDIS_LAYOUT)
			return shards_begin(redis, (uint32_t)shards);
		if (r == 0 && version == LAYOUT_BEFORE)
			r = is_unused(asker, reply, &unused);
		if (r == 0 && !unused && looks < IDLE_LOOKS)
			r = pause_second(asker->loop);
		else if (r == 0 && !unused)
			r = error_fill(
				ret_text, ERR_VERSION,
				"a gateway of an earlier version of stile uses this store, "
				"whose keys have layout %u; this version needs layout %u: "
				"stop all gateways of the earlier version, then start this one",
				LAYOUT_BEFORE, REDIS_LAYOUT);
		if (r < 0)
			return r;
		if (!unused)
			continue;
		r = shards_begin(redis, (uint32_t)shards);
		if (r == 0)
			r = shards_convert(redis, asker, reply, ret_text);
		if (r == 0)
			r = layout_write(asker, span_str(key), (uint32_t)shards, reply, ret_text);
		redis->shards = mem_free(redis->shards);
		redis->shard_count = 0;
		if (r < 0)
			return r;
	}
	return ERR_AWAY; /* another gateway changes the layout all the time */
}

/* ---- the secret, the policy ---- */

/* Set by the first gateway, read back by all. */
static int learn_secret(struct redis_store *redis, struct redis_asker *asker, struct buf *reply,
                        struct error_text *ret_text)
{
	unsigned char random[REDIS_STORE_KEY_LEN];
	char key[REDIS_KEY_MAX];
	struct resp_reply value = { 0 };

	snprintf(key, sizeof(key), "%s:secret", redis->login.prefix);
	struct span set_words[] = { SPAN("SET"), span_str(key), span_of(random, sizeof(random)),
		                    SPAN("NX") };
	struct span get_words[] = { SPAN("GET"), span_str(key) };
	uint32_t slot = redis_slot_of(span_str(key));
	int r = hash_random(random, sizeof(random));
	if (r == 0)
		r = hash_random(redis->node, sizeof(redis->node));
	if (r < 0)
		return r;
	/* A failover that forgets the secret would make every event new again. */
	asker->writes = true;
	int set = ask_value(asker, slot, set_words, ARRAY_LEN(set_words), reply, &value, ret_text);
	asker->writes = false;
	if (set < 0 && !*ret_text->text)
		return set;
	/* A server without room refuses the SET even if there is a secret. */
	r = ask_value(asker, slot, get_words, ARRAY_LEN(get_words), reply, &value, ret_text);
	if (r < 0 || (set < 0 && value.kind == RESP_REPLY_NULL))
		return r < 0 ? r : set;
	if (value.kind != RESP_REPLY_TEXT || value.text.len != sizeof(redis->key))
		return error_fill(ret_text, ERR_VERSION,
		                  "the store's key %s is not a secret of %u bytes", key,
		                  REDIS_STORE_KEY_LEN);
	memcpy(redis->key, value.text.ptr, sizeof(redis->key));
	return 0;
}

/* In a cluster all masters that have one of these slots. */
static int learn_policy(struct redis_asker *asker, struct buf *reply, struct error_text *ret_text)
{
	uint32_t probes = asker->login->cluster ? POLICY_PROBES : 1;
	int r = 0;

	for (uint32_t i = 0; i < probes && r == 0; i++) {
		struct span policy = SPAN("noeviction");
		r = redis_ask_policy(asker, i * (REDIS_SLOTS / probes), reply, &policy);
		if (r == 0 && !span_eq(policy, SPAN("noeviction")))
			r = error_fill(
				ret_text, ERR_CONFIG,
				"Redis would evict claims when its memory is full: maxmemory-policy "
				"is %.*s and must be noeviction",
				(int)policy.len, policy.ptr);
	}
	return r;
}

int redis_connect(struct redis_store *redis, struct error_text *ret_text)
{
	struct redis_asker asker = { 0 };
	struct buf reply = { 0 };
	struct error_text text = { "" };

	int r = redis_asker_open(&asker, &redis->login, span_str(redis_script_text));
	if (r == 0)
		r = learn_policy(&asker, &reply, &text);
	if (r == 0)
		r = learn_layout(redis, &asker, &reply, &text);
	if (r == 0)
		r = learn_secret(redis, &asker, &reply, &text);
	buf_free(&reply);
	if (r < 0) {
		const char *why = asker.client ? redis_client_trouble(asker.client) : "";
		if (*text.text)
			error_fill(ret_text, r, "%s", text.text);
		else
			error_fill(ret_text, r, "the store's Redis cannot be used: %s",
			           *why ? why : error_name(r));
		redis_asker_close(&asker);
		return r;
	}
	redis->loop = asker.loop;
	redis->client = asker.client;
	return 0;
}
