/*
 * admin_show: one event and its legs, with every attempt. See admin.h.
 *
 * The ticket that was asked for is read, which tells its event, then the event's legs. If
 * none is open, it is looked for in the journal, a piece at a time and not without end;
 * of what is closed no attempts are known.
 */
#include "base/mem.h"
#include "codec/json_write.h"
#include "console/admin/admin.h"
#include "gate/ticket.h"

#define SHOW_BYTES_MAX (64u << 20)
#define STEPS_MAX 4096u

struct show {
	struct store_read read;
	struct store_scan scan;
	uint32_t steps;
	struct admin *admin;
	struct http_request *request;
	struct buf out;
	uint64_t asked, event;
	uint32_t leg;
	uint32_t listed;
	bool payload;
};

static void put_history(struct buf *out, struct span items, size_t at)
{
	struct store_history note;
	struct span text;
	json_array_begin(out, "history");
	while (store_history_next(items, &at, &note, &text)) {
		json_object_begin(out, NULL);
		json_add_time(out, "time", note.at_ms);
		json_add_u64(out, "attempt", note.attempt);
		json_add_string(out, "mark", admin_mark_name((enum store_mark)note.mark));
		if (note.status > 0)
			json_add_u64(out, "status", note.status);
		if (note.due_ms > 0)
			json_add_time(out, "next", note.due_ms);
		if (text.len > 0)
			json_add_text(out, "text", text);
		json_object_end(out);
	}
	json_array_end(out);
}

static void end_show(struct show *it)
{
	if (it->listed == 0) {
		http_respond_problem(
			it->request, 404,
			"no such ticket, or it was closed too long ago and its record was removed; GET /v1/why?ticket=… may have its trace",
			SPAN_EMPTY);
		buf_free(&it->out);
	} else {
		json_array_end(&it->out);
		json_object_end(&it->out);
		admin_respond(it->request, &it->out);
	}
	buf_free(&it->read.items);
	buf_free(&it->scan.items);
	mem_free(it);
}

static void fail_show(struct show *it, int error)
{
	admin_respond_error(it->request, error);
	buf_free(&it->out);
	buf_free(&it->read.items);
	buf_free(&it->scan.items);
	mem_free(it);
}

static void read_leg(struct show *it);

/* `history`: where it begins in `items`. */
static void put_leg(struct show *it, const struct store_item *item, const struct store_parts *parts,
                    struct span items, size_t history)
{
	if (it->listed++ == 0) {
		json_object_begin(&it->out, NULL);
		ticket_add(&it->out, "event", item->event);
		if (it->payload)
			admin_put_payload(&it->out, item, parts->payload);
		json_array_begin(&it->out, "legs");
	}
	admin_put_item(it->admin, &it->out, item, parts);
	put_history(&it->out, items, history);
	json_object_end(&it->out);
}

/* ---- closed ---- */

static void scanned(struct store_op *op)
{
	struct show *it = op->user;
	struct store_item item;
	struct store_parts parts;
	size_t at = 0;
	if (op->error != 0) {
		fail_show(it, op->error);
		return;
	}
	while (store_item_next(buf_span(&it->scan.items), &at, &item, &parts)) {
		if (item.event == it->asked || item.ticket == it->asked)
			put_leg(it, &item, &parts, SPAN_EMPTY, 0);
	}
	if (it->scan.end || it->listed > 0 || ++it->steps == STEPS_MAX || it->out.failed)
		end_show(it);
	else
		store_submit(it->admin->options.port, op);
}

static void scan_closed(struct show *it)
{
	it->scan = (struct store_scan){
		.op = { .kind = STORE_SCAN, .done = scanned, .user = it },
		.states = 1u << STORE_STATE_CLOSED,
		.from = it->asked,
		.to = it->asked + STORE_LEGS_MAX - 1,
		.max_items = STORE_LEGS_MAX,
		.max_bytes = SHOW_BYTES_MAX,
		.all = true,
		.with_payload = it->payload,
	};
	store_submit(it->admin->options.port, &it->scan.op);
}

/* ---- open ---- */

/* False: that ticket is of another event, so there are no more legs. */
static bool take_leg(struct show *it)
{
	struct store_item item;
	struct store_parts parts;
	size_t at = 0;
	struct span items = buf_span(&it->read.items);
	if (!store_item_next(items, &at, &item, &parts))
		return true;
	if (item.event != it->event)
		return false;
	put_leg(it, &item, &parts, items, at);
	return true;
}

static void leg_read(struct store_op *op)
{
	struct show *it = op->user;
	bool more = true;
	if (op->error != 0 && op->error != -ENOENT) {
		fail_show(it, op->error);
		return;
	}
	if (op->error == 0)
		more = take_leg(it);
	if (more && ++it->leg < STORE_LEGS_MAX && !it->out.failed)
		read_leg(it);
	else if (it->listed == 0)
		scan_closed(it);
	else
		end_show(it);
}

static void read_leg(struct show *it)
{
	it->read.op.done = leg_read;
	it->read.history = true;
	it->read.ticket = it->event + it->leg;
	store_submit(it->admin->options.port, &it->read.op);
}

static void event_known(struct store_op *op)
{
	struct show *it = op->user;
	struct store_item item;
	struct store_parts parts;
	size_t at = 0;
	if (op->error == 0 && store_item_next(buf_span(&it->read.items), &at, &item, &parts))
		it->event = item.event;
	else
		it->event = it->asked;
	read_leg(it);
}

void admin_show_ticket(struct admin *admin, struct http_request *request, struct span part)
{
	struct error_text text = { "" };
	uint64_t ticket, payload = 0;
	if (!admin_parse_ticket(request, part, &ticket))
		return;
	if (admin_param_number(request->head.query, "payload", 1, &payload, &text) < 0) {
		http_respond_problem(request, 400, text.text, SPAN_EMPTY);
		return;
	}
	struct show *it = mem_zalloc(1, sizeof(*it));
	if (!it) {
		admin_respond_busy(request, "out of memory for the answer; try again");
		return;
	}
	it->admin = admin;
	it->request = request;
	it->asked = ticket;
	it->payload = payload;
	it->out.cap = SHOW_BYTES_MAX;
	it->read = (struct store_read){
		.op = { .kind = STORE_READ, .done = event_known, .user = it },
		.ticket = ticket,
	};
	store_submit(admin->options.port, &it->read.op);
}
