/*
 * admin_tickets: one event and its legs: show, release, drop. See admin.h.
 *
 * A ticket is first read, since what is to be done depends on where it stands:
 *
 *   held          all legs of the event wait for one decision: all of them
 *   parked, dead  this leg alone
 *   due, leased   this leg alone: tried now, or dropped (admin_act.c)
 *   not open      it may be the event's ticket, and other legs wait: all of them
 */
#include <inttypes.h>

#include "base/mem.h"
#include "console/admin.h"
#include "gate/ticket.h"

#define SHOW_BYTES_MAX (64u << 20)

static bool parse_ticket(struct http_request *request, struct span part, uint64_t *ret_ticket)
{
	if (ticket_parse(part, ret_ticket))
		return true;
	http_respond_problem(request, 400, "a ticket has 11 letters and digits", SPAN_EMPTY);
	return false;
}

/* ---- release and drop ---- */

struct deed {
	struct admin_act act;
	struct store_read read;
	struct http_request *request;
};

static void end_deed(struct admin_act *act, int error)
{
	struct deed *deed = container_of(act, struct deed, act);
	struct buf out = { .cap = 256 };
	if (error != 0) {
		admin_respond_error(deed->request, error);
	} else {
		buf_append_char(&out, '{');
		admin_put_ticket(&out, "ticket", act->ticket);
		admin_put_text(&out, "state", act->drop ? SPAN("dropped") : SPAN("released"));
		admin_close_object(&out);
		buf_append_char(&out, '\n');
		admin_respond(deed->request, &out);
	}
	buf_free(&deed->read.items);
	mem_free(deed);
}

static void act_on(struct store_op *op)
{
	struct deed *deed = op->user;
	struct store_item item = { .state = STORE_STATE_CLOSED };
	struct store_parts parts;
	size_t at = 0;
	if (op->error != 0 && op->error != -ENOENT) {
		end_deed(&deed->act, op->error);
		return;
	}
	bool open = op->error == 0 &&
	            store_item_next(buf_span(&deed->read.items), &at, &item, &parts);
	deed->act.whole_event = !open || item.state == STORE_STATE_HELD;
	deed->act.sink = item.sink;
	admin_act_begin(&deed->act, (enum store_state)item.state);
}

static void begin_deed(struct admin *admin, struct http_request *request, struct span part,
                       bool drop)
{
	uint64_t ticket;
	if (!parse_ticket(request, part, &ticket))
		return;
	struct deed *deed = mem_zalloc(1, sizeof(*deed));
	if (!deed) {
		admin_respond_busy(request, "no memory for this now");
		return;
	}
	deed->act = (struct admin_act){
		.admin = admin, .ticket = ticket, .drop = drop, .done = end_deed
	};
	deed->request = request;
	deed->read = (struct store_read){
		.op = { .kind = STORE_READ, .done = act_on, .user = deed },
		.ticket = ticket,
	};
	store_submit(admin->options.port, &deed->read.op);
}

void admin_release_ticket(struct admin *admin, struct http_request *request, struct span part)
{
	begin_deed(admin, request, part, false);
}

void admin_drop_ticket(struct admin *admin, struct http_request *request, struct span part)
{
	begin_deed(admin, request, part, true);
}

/* ---- show ---- */

/* Reads the ticket that was asked for, which tells its event, then the event's legs. */
struct show {
	struct store_read read;
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
	uint32_t count = 0;
	buf_append_span(out, SPAN("\"history\":["));
	while (store_history_next(items, &at, &note, &text)) {
		buf_append_span(out, count++ > 0 ? SPAN(",{") : SPAN("{"));
		admin_put_time(out, "time", note.at_ms);
		buf_printf(out, "\"attempt\":%" PRIu32 ",", note.attempt);
		admin_put_text(out, "mark", span_str(admin_mark_name((enum store_mark)note.mark)));
		if (note.status > 0)
			buf_printf(out, "\"status\":%u,", note.status);
		if (note.due_ms > 0)
			admin_put_time(out, "next", note.due_ms);
		if (text.len > 0)
			admin_put_text(out, "text", text);
		admin_close_object(out);
	}
	buf_append_span(out, SPAN("],"));
}

static void end_show(struct show *it)
{
	if (it->listed == 0) {
		http_respond_problem(
			it->request, 404,
			"no leg of this ticket is open: it was delivered or dropped, or "
			"never was; GET /v1/why?ticket=… may know more",
			SPAN_EMPTY);
		buf_free(&it->out);
	} else {
		buf_append_span(&it->out, SPAN("]}\n"));
		admin_respond(it->request, &it->out);
	}
	buf_free(&it->read.items);
	mem_free(it);
}

static void read_leg(struct show *it);

/* False: that ticket is of another event, so there are no more legs. */
static bool put_leg(struct show *it)
{
	struct store_item item;
	struct store_parts parts;
	size_t at = 0;
	struct span items = buf_span(&it->read.items);
	if (!store_item_next(items, &at, &item, &parts))
		return true;
	if (item.event != it->event)
		return false;
	if (it->listed++ == 0) {
		buf_append_char(&it->out, '{');
		admin_put_ticket(&it->out, "event", it->event);
		if (it->payload)
			admin_put_payload(&it->out, &item, parts.payload);
		buf_append_span(&it->out, SPAN("\"legs\":["));
	} else {
		buf_append_char(&it->out, ',');
	}
	admin_put_item(it->admin, &it->out, &item, &parts);
	put_history(&it->out, items, at);
	admin_close_object(&it->out);
	return true;
}

static void leg_read(struct store_op *op)
{
	struct show *it = op->user;
	bool more = true;
	if (op->error != 0 && op->error != -ENOENT) {
		admin_respond_error(it->request, op->error);
		buf_free(&it->out);
		buf_free(&it->read.items);
		mem_free(it);
		return;
	}
	if (op->error == 0)
		more = put_leg(it);
	if (more && ++it->leg < STORE_LEGS_MAX && !it->out.failed)
		read_leg(it);
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
	if (!parse_ticket(request, part, &ticket))
		return;
	if (admin_param_number(request->head.query, "payload", 1, &payload, &text) < 0) {
		http_respond_problem(request, 400, text.text, SPAN_EMPTY);
		return;
	}
	struct show *it = mem_zalloc(1, sizeof(*it));
	if (!it) {
		admin_respond_busy(request, "no memory for the answer now");
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
