/* webhook: see webhook.h. */
#include "door/webhook.h"

#include "base/histogram.h"
#include "base/mem.h"
#include "base/text.h"
#include "gate/ticket.h"

struct webhook_ticket {
	struct store_admit admit;
	struct http_request *request;
	struct webhook *webhook;
	struct webhook_ticket *next; /* in webhook->decided */
};

const size_t webhook_scratch_size = sizeof(struct webhook_ticket);

int webhook_init(struct webhook *webhook, const struct recipe *recipe, struct store *store)
{
	*webhook = (struct webhook){ .recipe = recipe, .store = store };
	webhook->decided_tail = &webhook->decided;
	webhook->meters.answer_us = mem_zalloc(1, sizeof(struct histogram));
	return webhook->meters.answer_us ? 0 : -ENOMEM;
}

void webhook_release(struct webhook *webhook)
{
	webhook->meters.answer_us = mem_free(webhook->meters.answer_us);
	recipe_scratch_free(&webhook->scratch);
}

/* Runs inside the store's flush: only notes the decision, so that all answers
 * of a round share one reading of the clock. */
static void decided(struct store_op *op)
{
	struct webhook_ticket *ticket = op->user;
	struct webhook *webhook = ticket->webhook;
	ticket->next = NULL;
	*webhook->decided_tail = ticket;
	webhook->decided_tail = &ticket->next;
}

void webhook_handle(struct webhook *webhook, struct http_request *request)
{
	struct webhook_ticket *ticket = request->scratch;
	struct store_admit *admit = &ticket->admit;
	struct recipe_input input = {
		.body = request->body,
		.headers = request->head.headers,
		.header_count = request->head.header_count,
		.path = request->head.path,
		.query = request->head.query,
	};
	struct recipe_result result;
	struct error_text problem;
	int error = recipe_run(webhook->recipe, &webhook->scratch, &input, &result, &problem);
	if (error == -ENOMEM) {
		meter_add(&webhook->meters.overload, 1);
		http_respond_problem(request, 503, problem.text, SPAN("Retry-After: 1\r\n"));
		return;
	}
	if (error != 0) {
		meter_add(&webhook->meters.refused, 1);
		http_respond_problem(request, 400, problem.text, SPAN_EMPTY);
		return;
	}
	ticket->request = request;
	ticket->webhook = webhook;
	admit->op = (struct store_op){ .kind = STORE_ADMIT, .done = decided, .user = ticket };
	admit->no_ticket = false;
	admit->flags = result.event.json ? STORE_EVENT_JSON : 0;
	admit->claim_count = result.claim_count;
	memcpy(admit->claims, result.claims, result.claim_count * sizeof(result.claims[0]));
	admit->source = result.event.source;
	admit->payload = result.payload;
	store_submit(webhook->store, &admit->op);
}

static void answer_failure(struct webhook *webhook, struct webhook_ticket *ticket, int error)
{
	struct http_request *request = ticket->request;
	if (error == ERR_TOO_LARGE) {
		meter_add(&webhook->meters.refused, 1);
		http_respond_problem(request, 413, "the event does not fit into one journal frame",
		                     SPAN_EMPTY);
		return;
	}
	meter_add(&webhook->meters.overload, 1);
	const char *detail = "the store cannot take events now; nothing was decided, send it again";
	http_respond_problem(request, 503, detail, SPAN("Retry-After: 1\r\n"));
}

#define HEADERS_NEW "Stile-Verdict: new\r\nStile-Ticket: "
#define HEADERS_DUPLICATE "Stile-Verdict: duplicate\r\nStile-Ticket: "
#define BODY_NEW "{\"verdict\":\"new\",\"ticket\":\""
#define BODY_DUPLICATE "{\"verdict\":\"duplicate\",\"ticket\":\""
#define BODY_FIRST_SEEN "\",\"first_seen\":\""
#define BODY_SEEN "\",\"seen\":"

struct answer_text {
	char bytes[256];
	size_t len;
};

static void put(struct answer_text *text, const void *ptr, size_t len)
{
	CHECK(text->len + len <= sizeof(text->bytes));
	memcpy(text->bytes + text->len, ptr, len);
	text->len += len;
}

#define PUT(text, literal) put(text, literal, sizeof(literal) - 1)

static void answer_verdict(struct webhook *webhook, struct webhook_ticket *ticket)
{
	const struct store_admit *admit = &ticket->admit;
	bool new = admit->verdict == VERDICT_NEW;
	char number[TICKET_TEXT_LEN];
	ticket_text(admit->ticket, number);

	struct answer_text headers, body;
	headers.len = body.len = 0; /* zeros for all of them would be wasted */
	if (new) {
		PUT(&headers, HEADERS_NEW);
		PUT(&body, BODY_NEW);
		put(&body, number, sizeof(number));
		PUT(&body, "\"}\n");
	} else {
		PUT(&headers, HEADERS_DUPLICATE);
		PUT(&body, BODY_DUPLICATE);
		put(&body, number, sizeof(number));
		PUT(&body, BODY_FIRST_SEEN);
		char time[TEXT_TIME_LEN];
		text_time(time, admit->first_seen_ms);
		put(&body, time, sizeof(time));
		PUT(&body, BODY_SEEN);
		char count[TEXT_U64_MAX];
		put(&body, count, text_u64(count, admit->seen));
		PUT(&body, "}\n");
	}
	put(&headers, number, sizeof(number));
	PUT(&headers, "\r\n");

	meter_add(&webhook->meters.verdicts[admit->verdict], 1);
	http_respond(ticket->request, &(struct http_response){
					      .status = 200,
					      .content_type = SPAN("application/json"),
					      .headers = span_of(headers.bytes, headers.len),
					      .body = span_of(body.bytes, body.len),
				      });
}

void webhook_answer(struct webhook *webhook, uint64_t now_ns)
{
	struct webhook_ticket *ticket = webhook->decided;
	webhook->decided = NULL;
	webhook->decided_tail = &webhook->decided;
	while (ticket) {
		struct webhook_ticket *next = ticket->next; /* an answer frees its request */
		uint64_t arrived_ns = ticket->request->arrived_ns;
		histogram_record(webhook->meters.answer_us,
		                 now_ns > arrived_ns ? (now_ns - arrived_ns) / 1000 : 0);
		if (ticket->admit.op.error != 0)
			answer_failure(webhook, ticket, ticket->admit.op.error);
		else
			answer_verdict(webhook, ticket);
		ticket = next;
	}
}
