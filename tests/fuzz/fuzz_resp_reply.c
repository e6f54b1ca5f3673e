/* fuzz_resp_reply: a reply is found at the same place however its bytes are cut, and its values
 * can be walked; what a cluster says of its slots is read or refused. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "codec/resp.h"
#include "link/redis_client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void range_check(void *user, const struct redis_slots_range *range)
{
	(void)user;
	CHECK(range->first <= range->last && range->last < REDIS_SLOTS);
	CHECK(memchr(range->master.name, '\0', sizeof(range->master.name)) != NULL);
}

/* As the bytes come in, some at a time. */
static int scan_in_pieces(struct span bytes, size_t piece, size_t *ret_len)
{
	struct resp_reply_scan scan = { 0 };
	int r = -EAGAIN;

	for (size_t len = 0; r == -EAGAIN; len += piece) {
		size_t there = len < bytes.len ? len : bytes.len;
		r = resp_reply_scan(&scan, span_of(bytes.ptr, there), ret_len);
		if (there == bytes.len)
			break;
	}
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct resp_reply_scan scan = { 0 };
	struct span bytes = span_of(data, size);
	struct redis_host asked = { .name = "here", .port = 1 };
	struct resp_reply value;
	size_t len = 0, len_again = 0, at = 0, count = 0;

	int r = resp_reply_scan(&scan, bytes, &len);
	for (size_t piece = 1; piece < 8; piece += 3) {
		int again = scan_in_pieces(bytes, piece, &len_again);
		CHECK((r == 0) == (again == 0));
		CHECK(r != 0 || len == len_again);
	}
	if (r != 0)
		return 0;
	CHECK(len <= size);
	struct span reply = span_of(bytes.ptr, len);
	while (resp_reply_next(reply, &at, &value)) {
		CHECK(at <= len && value.text.len <= len);
		count++;
	}
	CHECK(at == len && count > 0);
	at = 0;
	resp_reply_skip(reply, &at);
	CHECK(at == len);
	redis_slots_walk(reply, &asked, range_check, NULL);
	return 0;
}
