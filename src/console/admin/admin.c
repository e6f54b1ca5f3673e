/* admin: see admin.h. The table of what there is, and who answers it. */
#include "console/admin/admin.h"

#include "base/mem.h"
#include "codec/json_write.h"
#include "codec/url.h"

#define HEADERS                                                                   \
	"Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n" \
	"X-Content-Type-Options: nosniff\r\n"                                     \
	"Referrer-Policy: no-referrer\r\n"                                        \
	"Cache-Control: no-store\r\n"

const struct span admin_headers = { HEADERS, sizeof(HEADERS) - 1 };

static void answer_why(struct admin *admin, struct http_request *request, struct span part)
{
	(void)part;
	console_answer_why(admin->options.console, &admin->view, request);
}

static void answer_advise(struct admin *admin, struct http_request *request, struct span part)
{
	(void)part;
	console_answer_advise(admin->options.console, &admin->view, request);
}

static admin_answer answer_index;

#define FILTER "state source sink type entity id since until"
#define REPLAY "dry_run nonce to rate"

/* A part in braces is any text without a slash. */
struct admin_route {
	enum http1_method method;
	const char *path;
	admin_answer *answer;
	const char *parameters; /* that it has, with blanks between them */
};

static const struct admin_route routes[] = {
	{ HTTP1_GET, "/v1", answer_index, "" },
	{ HTTP1_GET, "/v1/tickets", admin_list_tickets, FILTER " limit cursor" },
	{ HTTP1_GET, "/v1/tickets/{ticket}", admin_show_ticket, "payload" },
	{ HTTP1_POST, "/v1/tickets/{ticket}/release", admin_release_ticket, "" },
	{ HTTP1_POST, "/v1/tickets/{ticket}/drop", admin_drop_ticket, "" },
	{ HTTP1_POST, "/v1/tickets/{ticket}/replay", admin_replay_ticket, REPLAY },
	{ HTTP1_POST, "/v1/replay", admin_start_replay, FILTER " " REPLAY },
	{ HTTP1_POST, "/v1/release", admin_start_release, FILTER " dry_run" },
	{ HTTP1_POST, "/v1/drop", admin_start_drop, FILTER " dry_run" },
	{ HTTP1_GET, "/v1/jobs", admin_list_jobs, "" },
	{ HTTP1_GET, "/v1/jobs/{job}", admin_show_job, "" },
	{ HTTP1_POST, "/v1/jobs/{job}/cancel", admin_cancel_job, "" },
	{ HTTP1_GET, "/v1/sinks", admin_list_sinks, "" },
	{ HTTP1_GET, "/v1/sinks/{sink}", admin_show_sink, "" },
	{ HTTP1_POST, "/v1/sinks/{sink}/pause", admin_pause_sink, "" },
	{ HTTP1_POST, "/v1/sinks/{sink}/resume", admin_resume_sink, "" },
	{ HTTP1_GET, "/v1/sources", admin_list_sources, "" },
	{ HTTP1_GET, "/v1/stats", admin_show_stats, "" },
	{ HTTP1_GET, "/v1/stream", admin_open_stream, "" },
	{ HTTP1_GET, "/v1/why", answer_why, WHY_PARAMETERS },
	{ HTTP1_GET, "/v1/advise", answer_advise, ADVISE_PARAMETERS },
};

static const char *method_name(enum http1_method method)
{
	return method == HTTP1_POST ? "POST" : "GET";
}

static void answer_index(struct admin *admin, struct http_request *request, struct span part)
{
	struct buf out = { .cap = 64u << 10 };
	(void)part;
	json_object_begin(&out, NULL);
	json_add_string(&out, "version", admin->options.console->version);
	json_array_begin(&out, "routes");
	for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
		json_object_begin(&out, NULL);
		json_add_string(&out, "method", method_name(routes[i].method));
		json_add_string(&out, "path", routes[i].path);
		json_object_end(&out);
	}
	json_array_end(&out);
	json_object_end(&out);
	admin_respond(request, &out);
}

/* ---- dispatch ---- */

static bool matches(const char *pattern, struct span path, struct span *ret_part)
{
	struct span part = SPAN_EMPTY;
	size_t at = 0;
	while (*pattern) {
		if (*pattern != '{') {
			if (at == path.len || path.ptr[at++] != *pattern++)
				return false;
			continue;
		}
		size_t begin = at;
		while (at < path.len && path.ptr[at] != '/')
			at++;
		if (at == begin)
			return false;
		part = span_of(path.ptr + begin, at - begin);
		pattern += strcspn(pattern, "}") + 1;
	}
	*ret_part = part;
	return at == path.len;
}

static bool method_fits(enum http1_method wanted, enum http1_method given)
{
	return given == wanted || (wanted == HTTP1_GET && given == HTTP1_HEAD);
}

static void refuse_method(struct http_request *request, enum http1_method wanted)
{
	if (wanted == HTTP1_GET)
		http_respond_problem(request, 405, "this is read with GET",
		                     SPAN("Allow: GET, HEAD\r\n"));
	else
		http_respond_problem(request, 405, "this is done with POST",
		                     SPAN("Allow: POST\r\n"));
}

static void answer(struct admin *admin, const struct admin_route *route,
                   struct http_request *request, struct span part)
{
	struct error_text text;
	if (query_check(request->head.query, route->parameters, &text) < 0)
		http_respond_problem(request, 400, text.text, SPAN_EMPTY);
	else if (request->body.len > 0 || request->unread)
		http_respond_problem(request, 400,
		                     "parameters stand in the query; no request here has a body",
		                     SPAN_EMPTY);
	else
		route->answer(admin, request, part);
}

static void dispatch(struct admin *admin, struct http_request *request)
{
	const struct admin_route *other = NULL;
	struct span part;
	for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
		if (!matches(routes[i].path, request->head.path, &part))
			continue;
		other = &routes[i];
		if (!method_fits(other->method, request->head.method))
			continue;
		answer(admin, other, request, part);
		return;
	}
	if (other)
		refuse_method(request, other->method);
	else
		http_respond_problem(request, 404,
		                     "there is nothing here; GET /v1 lists what there is",
		                     SPAN_EMPTY);
}

void admin_handle(struct admin *admin, const struct console_view *view, uint64_t now_ms,
                  struct http_request *request)
{
	if (!admin_guard(admin, request))
		return;
	admin->view = *view;
	admin->now_ms = now_ms;
	if (!console_handle(admin->options.console, view, request))
		dispatch(admin, request);
	admin->view = (struct console_view){ .port = admin->options.port };
}

void admin_respond_status(struct http_request *request, uint16_t status, struct buf *out)
{
	buf_append_char(out, '\n');
	if (out->failed)
		admin_respond_busy(request, "no memory for the answer now");
	else
		http_respond(request,
		             &(struct http_response){ .status = status,
		                                      .content_type = SPAN("application/json"),
		                                      .body = buf_span(out) });
	buf_free(out);
}

void admin_respond(struct http_request *request, struct buf *out)
{
	admin_respond_status(request, 200, out);
}

void admin_respond_busy(struct http_request *request, const char *detail)
{
	http_respond_problem(request, 503, detail, SPAN("Retry-After: 1\r\n"));
}

void admin_respond_error(struct http_request *request, int error)
{
	if (error == ERR_FENCED || error == -ENOENT)
		http_respond_problem(request, 409,
		                     "the ticket is not open, or nothing waits for a person there",
		                     SPAN_EMPTY);
	else if (error == ERR_BUSY)
		http_respond_problem(
			request, 409,
			"its delivery is under way, or another of its entity is before it",
			SPAN_EMPTY);
	else if (error == ERR_CLOSING)
		admin_respond_busy(request, "shutting down; nothing was changed");
	else
		admin_respond_busy(request, "the store cannot write now; nothing was changed");
}

/* ---- life ---- */

void admin_init(struct admin *admin, const struct admin_options *options)
{
	*admin = (struct admin){ .options = *options, .view = { .port = options->port } };
	mailbox_init(&admin->mail);
	CHECK(options->token_count <= ADMIN_TOKENS_MAX);
}

void admin_tick(struct admin *admin, uint64_t now_ms)
{
	admin->now_ms = now_ms;
	admin_jobs_tick(admin);
	admin_stream_tick(admin);
}

void admin_release(struct admin *admin)
{
	admin_stream_close(admin);
	admin_collect(admin);
	admin_jobs_free(admin);
}
