/* redis_ask: questions to a Redis, one at a time, before the store has a thread. */
#include "base/error.h"
#include "codec/resp_reply.h"
#include "store/redis/redis_internal.h"

/* One that waits for its answer. */
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

/* CONFIG GET answers with names and values by turns, INFO with lines "name:value". */
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
