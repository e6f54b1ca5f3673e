/* console_tickets: what people do with single tickets. See console.h. */
#include "console/console.h"
#include "gate/ticket.h"

struct ticket_request {
	struct store_release release;
	struct http_request *request;
};

const size_t console_scratch_size = sizeof(struct ticket_request);

static void released(struct store_op *op)
{
	struct ticket_request *it = op->user;
	struct http_request *request = it->request;
	if (op->error == ERR_FENCED) {
		http_respond_problem(request, 409, "no event is kept aside under this ticket",
		                     SPAN_EMPTY);
		return;
	}
	if (op->error != 0) {
		http_respond_problem(request, 503,
		                     "the store cannot write now; nothing was changed",
		                     SPAN("Retry-After: 1\r\n"));
		return;
	}
	char number[TICKET_TEXT_LEN], bytes[128];
	struct buf body = buf_on(bytes, sizeof(bytes));
	ticket_text(it->release.ticket, number);
	buf_append_span(&body, SPAN("{\"ticket\":\""));
	buf_append(&body, number, sizeof(number));
	buf_append_span(&body, it->release.drop ? SPAN("\",\"state\":\"dropped\"}\n")
	                                        : SPAN("\",\"state\":\"released\"}\n"));
	http_respond(request, &(struct http_response){ .status = 200,
	                                               .content_type = SPAN("application/json"),
	                                               .body = buf_span(&body) });
}

bool console_handle_ticket(const struct console_view *view, struct http_request *request)
{
	struct span rest = request->head.path;
	uint64_t ticket;
	bool mine = span_cut_start(&rest, SPAN("/v1/tickets/"));
	CHECK(mine);
	struct span number = span_cut_item(&rest, '/');
	bool drop = span_eq(rest, SPAN("drop"));
	if (!drop && !span_eq(rest, SPAN("release")))
		return false;
	if (request->head.method != HTTP1_POST) {
		http_respond_problem(request, 405, "this is done with POST",
		                     SPAN("Allow: POST\r\n"));
		return true;
	}
	if (!ticket_parse(number, &ticket)) {
		http_respond_problem(request, 400, "a ticket has 11 letters and digits",
		                     SPAN_EMPTY);
		return true;
	}
	struct ticket_request *it = request->scratch;
	it->request = request;
	it->release = (struct store_release){
		.op = { .kind = STORE_RELEASE, .done = released, .user = it },
		.ticket = ticket,
		.drop = drop,
		.whole_event = true,
	};
	store_submit(view->port, &it->release.op);
	return true;
}
