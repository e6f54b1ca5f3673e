/*
 * claims_settle: what the holder of a token does: settle, renew, give back.
 *
 * A settle that is fenced may be the repetition of one that was accepted, whose answer was
 * lost: then the outcome that is kept says so. A token whose lease is over is refused, also
 * while nobody else has the claim: whoever may not act any more must not look as if it had.
 */
#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "codec/json_number.h"
#include "door/claims/claims_internal.h"
#include "gate/ticket.h"
#include "sys/clock.h"

static struct claims_item *begin(struct claims_request *it)
{
	struct claims_item *item = claims_add_items(it, 1);

	if (!item) {
		claims_refuse(it, -ENOMEM, "");
		return NULL;
	}
	it->left = 1;
	item->ticket = it->token.ticket;
	item->attempt = it->token.attempt;
	item->expiry_s = it->token.expiry_s;
	return item;
}

static void done(struct store_op *op)
{
	struct claims_item *item = op->user;

	item->error = op->error;
	claims_finish(item);
}

/* ---- settle ---- */

static bool is_json_type(const struct claims_request *it, struct span *ret_type)
{
	const struct span *type = http1_header_find(&it->request->head, SPAN("content-type"));

	*ret_type = type ? *type : SPAN_EMPTY;
	/* What curl says if nothing else is said. */
	return !type || http1_is_media_type(*type, SPAN("application/json")) ||
	       http1_is_media_type(*type, SPAN("application/x-www-form-urlencoded"));
}

static bool is_utf8(struct span text)
{
	for (size_t at = 0, len; at < text.len; at += len) {
		len = utf8_sequence(text.ptr + at, text.len - at);
		if (len == 0)
			return false;
	}
	return true;
}

static int read_status(const struct json_value *value, uint16_t *ret_status,
                       struct error_text *ret_problem)
{
	uint64_t number = 0;

	if (value->type == JSON_NONE)
		return 0;
	if (value->type != JSON_NUMBER || text_parse_u64(value->text, &number) < 0 ||
	    number > UINT16_MAX)
		return error_fill(ret_problem, ERR_INVALID,
		                  "expected a number from 0 to 65535 in status");
	*ret_status = (uint16_t)number;
	return 0;
}

static int read_json(struct claims_request *it, struct claims_outcome *outcome,
                     struct error_text *ret_problem)
{
	static const char *const members[] = { "outcome, status", "outcome", "status", NULL };
	const struct claims_plan *plan = it->claims->plan;
	struct json_doc doc;

	int r = claims_scan(it->claims, it->request->body, &doc, ret_problem);
	if (r == 0)
		r = claims_expect_members(it->request->body, members, ret_problem);
	if (r < 0)
		return r;
	struct json_value value = json_get(&doc, plan->outcome);
	struct json_value status = json_get(&doc, plan->status);
	if (value.type == JSON_NONE)
		return error_fill(ret_problem, ERR_INVALID,
		                  "expected {\"outcome\": …}, or a body with a type of its own");
	outcome->coding = CLAIMS_JSON;
	outcome->type = SPAN("application/json");
	outcome->body = value.text;
	if (value.type == JSON_STRING) /* with its quotes */
		outcome->body = span_of(value.text.ptr - 1, value.text.len + 2);
	return read_status(&status, &outcome->status, ret_problem);
}

static int read_outcome(struct claims_request *it, struct claims_outcome *outcome,
                        struct error_text *ret_problem)
{
	struct span body = it->request->body, type;

	if (body.len > it->rules.options.outcome_bytes)
		return error_fill(ret_problem, ERR_TOO_LARGE,
		                  "expected at most %u bytes of outcome",
		                  it->rules.options.outcome_bytes);
	bool json = is_json_type(it, &type);
	if (body.len == 0)
		return 0;
	if (json)
		return read_json(it, outcome, ret_problem);
	if (type.len > CLAIMS_TYPE_MAX)
		return error_fill(ret_problem, ERR_INVALID,
		                  "expected at most %u bytes of content type", CLAIMS_TYPE_MAX);
	outcome->coding = is_utf8(body) ? CLAIMS_TEXT : CLAIMS_BYTES;
	outcome->type = type;
	outcome->body = body;
	return 0;
}

/* What is kept says whether it was this very settle. */
static void compare_done(struct store_op *op)
{
	struct claims_item *item = op->user;
	struct claims_outcome kept;

	item->error = op->error < 0 ? op->error : ERR_FENCED;
	if (op->error == 0 && item->cell.found &&
	    claims_outcome_read(buf_span(&item->cell.value), &kept) &&
	    kept.attempt == item->attempt) {
		item->has_outcome = true;
		item->repeated = claims_outcome_same(&kept, &item->outcome);
		item->error = item->repeated ? 0 : ERR_FENCED;
	}
	claims_finish(item);
}

static void settle_done(struct store_op *op)
{
	struct claims_item *item = op->user;

	if (op->error != ERR_FENCED) {
		done(op);
		return;
	}
	item->cell.act = STORE_CELL_GET;
	item->cell.want_value = true;
	item->cell.cell.digest = item->answer.digest;
	claims_submit(item, &item->cell.op, STORE_CELL, compare_done);
}

static int fill_answer(struct claims_request *it, struct claims_item *item)
{
	struct buf value = { 0 };

	item->outcome.attempt = item->attempt;
	item->outcome.settled_ms = clock_read(clock_system()).wall_ms;
	int r = claims_outcome_write(&item->outcome, &value);
	item->answer = (struct store_cell_value){
		.digest = key_claim_answer(item->ticket, it->claims->options.key),
		.value = r < 0 ? SPAN_EMPTY : arena_copy(&it->arena, buf_span(&value)),
		.expiry_ms = (uint64_t)item->expiry_s * 1000,
	};
	buf_free(&value);
	return item->answer.value.ptr ? 0 : -ENOMEM;
}

void claims_settle(struct claims_request *it)
{
	struct error_text problem = { "" };
	struct claims_item *item = begin(it);

	if (!item)
		return;
	int r = read_outcome(it, &item->outcome, &problem);
	if (r == 0)
		r = fill_answer(it, item);
	if (r < 0) {
		claims_refuse(it, r, problem.text);
		return;
	}
	item->settle = (struct store_settle){ .ticket = item->ticket,
		                              .attempt = item->attempt,
		                              .outcome = OUTCOME_DONE,
		                              .answer = &item->answer };
	claims_submit(item, &item->settle.op, STORE_SETTLE, settle_done);
}

/* ---- renew, give back ---- */

void claims_renew(struct claims_request *it)
{
	static const char *const members[] = { "lease", "lease", NULL };
	struct error_text problem = { "" };
	uint64_t lease_ms = it->rules.options.lease_ms;
	struct json_doc doc;
	int r = 0;

	if (it->request->body.len > 0) {
		r = claims_scan(it->claims, it->request->body, &doc, &problem);
		if (r == 0)
			r = claims_expect_members(it->request->body, members, &problem);
		struct json_value lease = { .type = JSON_NONE };
		if (r == 0)
			lease = json_get(&doc, it->claims->plan->lease);
		if (r == 0)
			r = claims_read_time(&lease, "lease", CLAIMS_LEASE_MIN_MS,
			                     CLAIMS_LEASE_MAX_MS, &lease_ms, &problem);
	}
	if (r < 0) {
		claims_refuse(it, r, problem.text);
		return;
	}
	struct claims_item *item = begin(it);
	if (!item)
		return;
	item->lease_ms = (uint32_t)lease_ms;
	uint64_t begin_s = ticket_time_ms(it->token.ticket) / 1000, end_s = it->token.expiry_s;
	uint64_t until_ms = claims_window_end_ms(it->token.ticket,
	                                         end_s > begin_s ? end_s - begin_s : 0);
	item->lease_until_ms = clock_read(clock_system()).wall_ms + lease_ms;
	if (item->lease_until_ms > until_ms)
		item->lease_until_ms = until_ms;
	item->renew = (struct store_renew){ .ticket = item->ticket,
		                            .attempt = item->attempt,
		                            .lease_ms = item->lease_ms,
		                            .until_ms = until_ms };
	claims_submit(item, &item->renew.op, STORE_RENEW, done);
}

void claims_give_back(struct claims_request *it)
{
	struct claims_item *item = begin(it);

	if (!item)
		return;
	item->settle = (struct store_settle){ .ticket = item->ticket,
		                              .attempt = item->attempt,
		                              .outcome = OUTCOME_RELEASED };
	claims_submit(item, &item->settle.op, STORE_SETTLE, done);
}
