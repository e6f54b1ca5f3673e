/*
 * claims_lookup: what is known of a key, for callers that can do no more than ask: a flat
 * object with the same members and types whether the key is known or not.
 *
 * Three questions to the store, one after the other: who holds the claim, how its ticket
 * stands, what its outcome is.
 */
#include "base/error.h"
#include "codec/url.h"
#include "door/claims/claims_internal.h"
#include "sys/clock.h"

static void read_done(struct store_op *op)
{
	struct claims_item *item = op->user;
	struct store_item found;
	struct store_parts parts;
	size_t at = 0;
	int error = op->error;

	if (error == 0 && store_item_next(buf_span(&item->read.items), &at, &found, &parts)) {
		item->state = (enum store_state)found.state;
		item->attempt = found.attempt;
		item->lease_until_ms = found.state == STORE_STATE_LEASED ? found.due_ms : 0;
	}
	buf_free(&item->read.items);
	if (error == 0 || error == -ENOENT) {
		claims_fetch_outcome(item);
		return;
	}
	item->error = error;
	claims_finish(item);
}

static void lookup_done(struct store_op *op)
{
	struct claims_item *item = op->user;
	const struct store_lookup found = item->lookup; /* `read` stands in its place */

	item->found = op->error == 0 && found.taken;
	item->error = op->error;
	if (!item->found) {
		claims_finish(item);
		return;
	}
	item->ticket = found.ticket;
	item->admit.first_seen_ms = found.first_seen_ms;
	item->admit.seen = found.seen;
	item->state = STORE_STATE_CLOSED;
	item->read = (struct store_read){ .ticket = item->ticket };
	claims_submit(item, &item->read.op, STORE_READ, read_done);
}

/* A parameter's value; its ptr is NULL if it is not there. */
static int param(struct claims_request *it, const char *name, struct span *ret_text,
                 struct error_text *ret_problem)
{
	struct span raw = SPAN_EMPTY;
	uint32_t count = url_param_find(it->request->head.query, span_str(name), &raw);
	size_t len;

	*ret_text = SPAN_EMPTY;
	if (count == 0)
		return 0;
	if (count > 1)
		return error_fill(ret_problem, ERR_INVALID, "expected %s only once", name);
	char *bytes = arena_alloc(&it->arena, raw.len + 1);
	if (!bytes)
		return -ENOMEM;
	if (url_form_decode(raw, bytes, raw.len, &len) < 0)
		return error_fill(ret_problem, ERR_INVALID, "expected percent-encoding in %s",
		                  name);
	*ret_text = span_of(bytes, len);
	return 0;
}

/* `key` is a string; `parts` a JSON array, for keys of several parts or other types. */
static int read_key(struct claims_request *it, struct key_claim *key,
                    struct error_text *ret_problem)
{
	struct span text = SPAN_EMPTY, parts = SPAN_EMPTY;
	struct json_doc doc;

	int r = param(it, "key", &text, ret_problem);
	if (r == 0)
		r = param(it, "parts", &parts, ret_problem);
	if (r == 0)
		r = param(it, "scope", &key->scope, ret_problem);
	if (r < 0)
		return r;
	if ((text.ptr != NULL) == (parts.ptr != NULL))
		return error_fill(ret_problem, ERR_INVALID,
		                  "expected one of key=TEXT and parts=[…] in the query");
	key->key = (struct json_value){ .type = JSON_STRING, .text = text };
	if (text.ptr)
		return 0;
	if (json_scan(parts, NULL, &doc) < 0 || doc.root != JSON_ARRAY)
		return error_fill(ret_problem, ERR_INVALID, "expected a JSON array in parts");
	key->key = (struct json_value){ .type = JSON_ARRAY, .text = json_trim(parts) };
	return 0;
}

void claims_lookup(struct claims_request *it)
{
	struct error_text problem = { "" };
	struct key_claim key = { .scope = SPAN_EMPTY };
	struct digest digest;

	int r = read_key(it, &key, &problem);
	if (r == 0)
		r = key_claim_digest(&key, it->claims->options.key, &it->claims->key_scratch,
		                     &digest, &problem);
	struct claims_item *item = r == 0 ? claims_add_items(it, 1) : NULL;
	if (!item) {
		claims_refuse(it, r < 0 ? r : -ENOMEM, problem.text);
		return;
	}
	it->left = 1;
	item->now_ms = clock_read(clock_system()).wall_ms;
	item->lookup = (struct store_lookup){ .digest = digest, .kind = CLAIM_ONCE };
	claims_submit(item, &item->lookup.op, STORE_LOOKUP, lookup_done);
}
