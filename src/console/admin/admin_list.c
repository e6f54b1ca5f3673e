/*
 * admin_list: GET /v1/tickets. See admin.h.
 *
 * The store looks at a bounded piece at a time. An answer ends when it has as many
 * tickets as were asked for, at the end, or when enough was looked at for one request:
 * then it may have few tickets, or none, and a cursor to go on with.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/hex.h"
#include "base/mem.h"
#include "codec/json_write.h"
#include "console/admin/admin.h"

#define LIMIT_STANDARD 100u
#define LIMIT_MAX 1000u
#define STEPS_MAX 512u
#define PIECE_BYTES (256u << 10)
#define ANSWER_BYTES_MAX (16u << 20)
#define SEAL_PURPOSE UINT64_C(0x726f73727563) /* the store's key serves for more */

struct listing {
	struct store_scan scan;
	struct admin *admin;
	struct http_request *request;
	struct admin_filter filter;
	struct buf out;
	uint64_t limit;
	uint32_t listed;
	uint32_t steps;
};

/* What goes out as 48 hexadecimal digits. The store believes its cursors, so they come
 * with a seal, which is of the kind of scan too. */
struct sealed_cursor {
	uint64_t word[2];
	uint64_t seal;
};

static struct sealed_cursor seal_cursor(const struct listing *it)
{
	const uint64_t parts[] = { SEAL_PURPOSE, it->scan.cursor.word[0], it->scan.cursor.word[1],
		                   it->scan.all };
	uint64_t digest[2];
	hash_keyed128(it->admin->options.key, parts, sizeof(parts), digest);
	return (struct sealed_cursor){ { parts[1], parts[2] }, digest[0] };
}

static bool parse_cursor(struct listing *it, const struct filter_text *text)
{
	uint64_t words[3] = { 0 };
	if (text->len != 48)
		return false;
	for (uint32_t i = 0; i < 48; i++) {
		int digit = hex_value(text->bytes[i]);
		if (digit < 0)
			return false;
		words[i / 16] = words[i / 16] << 4 | (uint64_t)digit;
	}
	it->scan.cursor = (struct store_cursor){ { words[0], words[1] } };
	return seal_cursor(it).seal == words[2];
}

static void finish(struct listing *it)
{
	char next[3 * 16 + 1];
	struct sealed_cursor cursor = seal_cursor(it);
	snprintf(next, sizeof(next), "%016" PRIx64 "%016" PRIx64 "%016" PRIx64, cursor.word[0],
	         cursor.word[1], cursor.seal);
	json_array_end(&it->out);
	json_add_string(&it->out, "next", it->scan.end ? NULL : next);
	json_object_end(&it->out);
	admin_respond(it->request, &it->out);
	buf_free(&it->scan.items);
	mem_free(it);
}

static void take_items(struct listing *it)
{
	struct store_item item;
	struct store_parts parts;
	size_t at = 0;
	while (store_item_next(buf_span(&it->scan.items), &at, &item, &parts)) {
		if (!admin_filter_matches(&it->filter, &item, &parts))
			continue;
		it->listed++;
		admin_put_item(it->admin, &it->out, &item, &parts);
		json_object_end(&it->out);
	}
}

static void scanned(struct store_op *op)
{
	struct listing *it = op->user;
	if (op->error != 0) {
		admin_respond_error(it->request, op->error);
		buf_free(&it->out);
		buf_free(&it->scan.items);
		mem_free(it);
		return;
	}
	take_items(it);
	if (it->scan.end || it->listed >= it->limit || ++it->steps >= STEPS_MAX || it->out.failed) {
		finish(it);
		return;
	}
	it->scan.max_items = (uint32_t)it->limit - it->listed;
	store_submit(it->admin->options.port, op);
}

static int parse(struct listing *it, struct span query, struct error_text *ret_text)
{
	struct filter_text cursor;
	int r = admin_filter_parse(it->admin->options.console, query, it->admin->now_ms,
	                           &it->filter, ret_text);
	if (r == 0)
		r = admin_param_number(query, "limit", LIMIT_MAX, &it->limit, ret_text);
	if (r == 0 && it->limit == 0)
		r = error_fill(ret_text, ERR_INVALID, "limit: expected 1 to %u", LIMIT_MAX);
	if (r != 0)
		return r;
	if (it->filter.states == 0)
		it->filter.states = FILTER_OPEN_STATES;
	admin_filter_scan(&it->filter, &it->scan);
	admin_param(query, "cursor", &cursor, ret_text);
	if (cursor.given && !parse_cursor(it, &cursor))
		return error_fill(ret_text, ERR_INVALID,
		                  "cursor: expected the `next` of an answer to the same query");
	return 0;
}

void admin_list_tickets(struct admin *admin, struct http_request *request, struct span part)
{
	struct error_text text = { "" };
	(void)part;
	struct listing *it = mem_zalloc(1, sizeof(*it));
	if (!it) {
		admin_respond_busy(request, "out of memory for the answer; try again");
		return;
	}
	it->admin = admin;
	it->request = request;
	it->limit = LIMIT_STANDARD;
	it->out.cap = ANSWER_BYTES_MAX;
	if (parse(it, request->head.query, &text) < 0) {
		http_respond_problem(request, 400, text.text, SPAN_EMPTY);
		mem_free(it);
		return;
	}
	it->scan.op = (struct store_op){ .kind = STORE_SCAN, .done = scanned, .user = it };
	it->scan.max_items = (uint32_t)it->limit;
	it->scan.max_bytes = PIECE_BYTES;
	json_object_begin(&it->out, NULL);
	json_array_begin(&it->out, "tickets");
	store_submit(admin->options.port, &it->scan.op);
}
