/*
 * console_why: questions about events and windows, see why.h.
 *
 * What is still kept aside is known to the store alone: it is asked before a
 * question about events is answered. The rest is read from disk, so it is done by
 * the worker, and nobody's event waits for it.
 */
#include "base/mem.h"
#include "console/console.h"
#include "console/why/why.h"

#define WHY_BYTES_MAX (4u << 20)
#define HELD_MAX 1024u

static void respond(struct http_request *request, uint16_t status, struct buf *out)
{
	buf_append_char(out, '\0');
	if (out->failed)
		http_respond_problem(request, 503, "out of memory for the answer; try again",
		                     SPAN("Retry-After: 1\r\n"));
	else if (status != 200)
		http_respond_problem(request, status, out->ptr, SPAN_EMPTY);
	else
		http_respond(request, &(struct http_response){
					      .status = status,
					      .content_type = SPAN("application/json"),
					      .body = span_of(out->ptr, out->len - 1),
				      });
}

/* False: it is answered already. */
static bool parse(const struct console *console, struct http_request *request,
                  struct why_question *ret_question)
{
	struct error_text text;
	if (!console->traces)
		http_respond_problem(request, 503, "traces are disabled; the log has the reason",
		                     SPAN_EMPTY);
	else if (why_question_parse(request->head.query, ret_question, &text) < 0)
		http_respond_problem(request, 400, text.text, SPAN_EMPTY);
	else
		return true;
	return false;
}

struct why_context console_why_context(const struct console *console,
                                       const struct console_view *view)
{
	return (struct why_context){ .log = console->traces,
		                     .sources = view->windows,
		                     .source_count = view->window_count };
}

void console_answer_advise(struct console *console, const struct console_view *view,
                           struct http_request *request)
{
	struct why_context context = console_why_context(console, view);
	struct buf out = { .cap = WHY_BYTES_MAX };
	struct why_question question;
	if (!parse(console, request, &question))
		return;
	uint16_t status = why_advise(&context, &question, &out);
	respond(request, status, &out);
	buf_free(&out);
}

/* ---- events ---- */

struct why_request {
	struct store_held held;
	struct worker_task task;
	struct console *console;
	struct worker_desk *desk;
	struct http_request *request;
	struct why_question question;
	struct buf out;
	uint16_t status;
	uint64_t tickets[HELD_MAX];
};

/* On the worker's thread: reads from disk. */
static void look_up(struct worker_task *task)
{
	struct why_request *it = container_of(task, struct why_request, task);
	struct why_context context = {
		.log = it->console->traces,
		.held = { .known = it->held.op.error == 0,
		          .all = it->held.count < it->held.max,
		          .count = it->held.op.error == 0 ? it->held.count : 0,
		          .tickets = it->tickets },
		.read = it->console->read,
		.read_user = it->console->read_user,
	};
	it->status = why_answer(&context, &it->question, &it->out);
}

static void busy(struct http_request *request)
{
	http_respond_problem(request, 503, "too many questions at once; try again",
	                     SPAN("Retry-After: 1\r\n"));
}

static void looked_up(struct worker_task *task)
{
	struct why_request *it = container_of(task, struct why_request, task);
	if (task->skipped)
		busy(it->request);
	else
		respond(it->request, it->status, &it->out);
	buf_free(&it->out);
	mem_free(it);
}

static void held_known(struct store_op *op)
{
	struct why_request *it = op->user;
	struct worker *worker = it->console->worker;
	it->task = (struct worker_task){ .run = look_up, .done = looked_up };
	if (worker && worker_give(worker, it->desk, &it->task) == 0)
		return;
	busy(it->request);
	mem_free(it);
}

void console_answer_why(struct console *console, const struct console_view *view,
                        struct http_request *request)
{
	struct why_request *it = mem_alloc(sizeof(*it));
	if (!it) {
		http_respond_problem(request, 503, "out of memory for the answer; try again",
		                     SPAN("Retry-After: 1\r\n"));
		return;
	}
	if (!parse(console, request, &it->question)) {
		mem_free(it);
		return;
	}
	it->console = console;
	it->desk = view->desk;
	it->request = request;
	it->out = (struct buf){ .cap = WHY_BYTES_MAX };
	it->held = (struct store_held){
		.op = { .kind = STORE_HELD, .done = held_known, .user = it },
		.before = it->question.before,
		.tickets = it->tickets,
		.max = HELD_MAX,
	};
	store_submit(view->port, &it->held.op);
}
