/*
 * admin_tickets: one event and its legs: release, drop. See admin.h.
 *
 * A ticket is first read, since what is to be done depends on where it stands:
 *
 *   held          all legs of the event wait for one decision: all of them
 *   parked, dead  this leg alone
 *   due, leased   this leg alone: tried now, or dropped (admin_act.c)
 *   not open      it may be the event's ticket, and other legs wait: all of them
 */
#include "base/mem.h"
#include "codec/json_write.h"
#include "console/admin/admin.h"
#include "gate/ticket.h"

bool admin_parse_ticket(struct http_request *request, struct span part, uint64_t *ret_ticket)
{
	if (ticket_parse(part, ret_ticket))
		return true;
	http_respond_problem(request, 400, "a ticket has 11 letters and digits", SPAN_EMPTY);
	return false;
}

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
		json_object_begin(&out, NULL);
		ticket_add(&out, "ticket", act->ticket);
		json_add_text(&out, "state", act->drop ? SPAN("dropped") : SPAN("released"));
		json_object_end(&out);
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
	if (!admin_parse_ticket(request, part, &ticket))
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
