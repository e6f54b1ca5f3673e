/*
 * redis_guard: is the store still the one whose secret we use? A Redis that was emptied, or
 * came back without its data, has lost that too, and the next gateway to start would make
 * another: the same key would then have two digests, and be new twice for ever. So a lost
 * secret is put back, and whoever has another one than the store decides nothing more.
 */
#include "base/log.h"
#include "codec/resp_reply.h"
#include "link/redis_slots.h"
#include "store/redis/redis_internal.h"

#define LOOK_MS 1000u

static void answered(struct redis_call *call, int error, struct span reply);

static void ask(struct redis_store *redis, bool puts)
{
	struct redis_call *call = &redis->guard_call;
	char name[REDIS_PLACE_MAX];

	snprintf(name, sizeof(name), "%s:secret", redis->login.prefix);
	buf_clear(&call->arguments);
	resp_request_add(&call->arguments, puts ? SPAN("SETNX") : SPAN("GET"));
	resp_request_add(&call->arguments, span_str(name));
	if (puts)
		resp_request_add(&call->arguments, span_of(redis->key, sizeof(redis->key)));
	if (call->arguments.failed)
		return;
	call->slot = redis_slot_of(span_str(name));
	call->count = puts ? 3 : 2;
	call->writes = puts;
	call->done = answered;
	call->user = redis;
	call->deadline_ms = loop_now_ms(redis->loop) + redis->login.timeout_ms;
	redis->guard_asks = true;
	redis_client_call(redis->client, call);
}

static void judge(struct redis_store *redis, struct span secret)
{
	bool foreign = !span_eq(secret, span_of(redis->key, sizeof(redis->key)));

	if (foreign && !redis->foreign)
		log_error("the store has another secret than at the start: it was emptied or "
		          "exchanged, and nothing more is decided; start stile again");
	redis->foreign = foreign;
}

static void answered(struct redis_call *call, int error, struct span reply)
{
	struct redis_store *redis = call->user;
	struct resp_reply value;
	size_t at = 0;

	redis->guard_asks = false;
	if (error || call->writes || !resp_reply_next(reply, &at, &value))
		return;
	if (value.kind == RESP_REPLY_TEXT) {
		judge(redis, value.text);
	} else if (value.kind == RESP_REPLY_NULL) {
		log_error("the store has lost its data: what it knew before is new again");
		ask(redis, true);
	}
}

static void look_due(struct loop_timer *timer)
{
	struct redis_store *redis = container_of(timer, struct redis_store, guard_timer);

	if (!redis->guard_asks && !redis->closing)
		ask(redis, false);
	(void)!loop_timer_set(redis->loop, timer, LOOK_MS);
}

int redis_guard_begin(struct redis_store *redis)
{
	redis->guard_timer.due = look_due;
	return loop_timer_set(redis->loop, &redis->guard_timer, LOOK_MS);
}

bool redis_guard_refuses(const struct redis_store *redis, unsigned kind)
{
	return redis->foreign &&
	       (kind == STORE_ADMIT || kind == STORE_CELL || kind == STORE_LOOKUP);
}
