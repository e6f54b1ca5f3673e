/* redis_check: is a server fit? And, for tests, forget everything. */
#include "base/error.h"
#include "codec/resp_reply.h"
#include "store/redis/redis_internal.h"

bool redis_store_check(const char *url,
                       void (*tell)(void *user, enum redis_finding finding, const char *text),
                       void *user)
{
	(void)url;
	(void)tell;
	(void)user;
	return false;
}

int redis_store_wipe(const char *url, struct error_text *ret_text)
{
	static const struct span words[] = { { "FLUSHALL", 8 } };
	struct redis_asker asker = { 0 };
	struct redis_login login;
	struct buf reply = { 0 };

	int r = redis_login_read(span_str(url), &login, ret_text);
	if (r < 0)
		return r;
	r = redis_asker_open(&asker, &login, SPAN_EMPTY);
	if (r == 0)
		r = redis_ask(&asker, REDIS_ANY_SLOT, words, 1, &reply);
	if (r < 0)
		error_fill(ret_text, r, "%s", error_name(r));
	buf_free(&reply);
	redis_asker_close(&asker);
	return r;
}
