/* admin: see admin.h. Answers, access control, commands to lanes, the table of routes. */
#include "base/mem.h"
#include "base/secret.h"
#include "codec/ip.h"
#include "codec/json_write.h"
#include "codec/url.h"
#include "console/admin/admin_private.h"

#define HEADERS                                                                   \
	"Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n" \
	"X-Content-Type-Options: nosniff\r\n"                                     \
	"Referrer-Policy: no-referrer\r\n"                                        \
	"Cache-Control: no-store\r\n"

const struct span admin_headers = { HEADERS, sizeof(HEADERS) - 1 };

/* ---- answers ---- */

void admin_respond_status(struct http_request *request, uint16_t status, struct buf *out)
{
	buf_append_char(out, '\n');
	if (out->failed)
		admin_respond_busy(request, "out of memory for the answer; try again");
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

void admin_respond_problem(struct http_request *request, uint16_t status, const char *detail)
{
	http_respond_problem(request, status, detail, SPAN_EMPTY);
}

void admin_respond_busy(struct http_request *request, const char *detail)
{
	http_respond_problem(request, 503, detail, SPAN("Retry-After: 1\r\n"));
}

void admin_respond_error(struct http_request *request, int error)
{
	if (error == ERR_FENCED || error == -ENOENT)
		admin_respond_problem(
			request, 409,
			"the ticket is not open, or does not wait for a person's decision");
	else if (error == ERR_BUSY)
		admin_respond_problem(
			request, 409,
			"its delivery is in progress, or another event of its entity is before it");
	else if (error == ERR_CLOSING)
		admin_respond_busy(request, "shutting down; nothing was changed");
	else
		admin_respond_busy(request,
		                   "the store cannot write now; nothing was changed, try again");
}

void *admin_alloc(struct http_request *request, size_t size)
{
	void *memory = mem_zalloc(1, size);
	if (!memory)
		admin_respond_busy(request, "out of memory for the answer; try again");
	return memory;
}

/* ---- access control ----
 *
 * A browser on this machine reaches the loopback for every page that it shows. So
 * without a token: the name in the URL must be one of the loopback (a page may point a
 * name of its own here), and a page may only send requests to its own origin. No
 * browser reaches a unix socket, and the file system controls who may open it.
 */

static struct span header(const struct http_request *request, struct span name)
{
	const struct span *found = http1_header_find(&request->head, name);
	return found ? *found : SPAN_EMPTY;
}

/* A page sends Origin with each request that could change something; it must be our own. */
static bool is_own_origin(const struct admin *admin, const struct http_request *request)
{
	const struct span *found = http1_header_find(&request->head, SPAN("Origin"));
	struct span site = header(request, SPAN("Sec-Fetch-Site"));
	if (site.len > 0 && !span_eq(site, SPAN("same-origin")) && !span_eq(site, SPAN("none")))
		return false;
	if (!found)
		return true;
	struct span scheme = admin->options.tls ? SPAN("https://") : SPAN("http://");
	struct span host = header(request, SPAN("Host"));
	return host.len > 0 && span_starts(*found, scheme) &&
	       span_eq_nocase(host, span_skip(*found, scheme.len));
}

static bool has_token(const struct admin *admin, const struct http_request *request)
{
	struct span given = header(request, SPAN("Authorization"));
	struct span scheme = span_cut_item(&given, ' ');
	bool found = false;
	if (!span_eq_nocase(scheme, SPAN("Bearer")))
		return false;
	for (uint32_t i = 0; i < admin->options.token_count; i++)
		found |= secret_equal(given, admin->options.tokens[i]);
	return found;
}

static bool is_this_machine(const struct http_request *request)
{
	/* The headers by which proxies name themselves and their clients. */
	static const struct span signs[] = {
		{ "Forwarded", 9 }, { "X-Forwarded-For", 15 }, { "X-Real-IP", 9 }, { "Via", 3 }
	};
	for (size_t i = 0; i < ARRAY_LEN(signs); i++)
		if (http1_header_find(&request->head, signs[i]))
			return false;
	return request->peer->local || (ip_is_loopback(&request->peer->address) &&
	                                ip_is_loopback_host(header(request, SPAN("Host"))));
}

/* False: rejected, and answered. */
static bool may_ask(const struct admin *admin, struct http_request *request)
{
	if (!is_own_origin(admin, request))
		admin_respond_problem(request, 403,
		                      "requests of web pages from another origin are rejected");
	else if (admin->options.token_count > 0 && !has_token(admin, request))
		http_respond_problem(request, 401, "a token is required: Authorization: Bearer …",
		                     SPAN("WWW-Authenticate: Bearer realm=\"stile\"\r\n"));
	else if (admin->options.token_count == 0 && !is_this_machine(request))
		admin_respond_problem(
			request, 403,
			"a token is required: without one, only requests from this machine to a loopback name and without a proxy are accepted");
	else
		return true;
	return false;
}

/* ---- commands to lanes ---- */

/* On the lane's thread. */
static void lane_done(struct deliver_command *command)
{
	struct admin_command *it = container_of(command, struct admin_command, command);
	struct admin *admin = it->admin;
	struct mailbox_chain chain = { 0 };
	mailbox_chain_add(&chain, &it->node);
	mailbox_post(&admin->mail, &chain);
	admin->options.wake(admin->options.user);
}

void admin_command_post(struct admin *admin, uint32_t lane, struct admin_command *command)
{
	command->admin = admin;
	command->command.done = lane_done;
	deliver_post(admin->options.console->deliver, lane, &command->command);
}

void admin_collect(struct admin *admin)
{
	struct mailbox_node *node = mailbox_take(&admin->mail);
	while (node) {
		struct admin_command *it = container_of(node, struct admin_command, node);
		node = node->next;
		it->done(it);
	}
	admin_stream_collect(admin);
}

/* ---- routes ---- */

static void answer_why(struct admin *admin, const struct admin_call *call)
{
	console_answer_why(admin->options.console, &admin->view, call->request);
}

static void answer_advise(struct admin *admin, const struct admin_call *call)
{
	console_answer_advise(admin->options.console, &admin->view, call->request);
}

static admin_answer answer_index;

#define FILTER "state source sink type entity id since until"
#define REPLAY "dry_run nonce to rate"

/* A part in braces is any text without a slash. */
struct admin_route {
	enum http1_method method;
	const char *path;
	admin_answer *answer;
	int what;               /* for `answer` */
	const char *parameters; /* allowed in the query, with blanks between them */
};

static const struct admin_route routes[] = {
	{ HTTP1_GET, "/v1", answer_index, 0, "" },
	{ HTTP1_GET, "/v1/tickets", admin_list_tickets, 0, FILTER " limit cursor" },
	{ HTTP1_GET, "/v1/tickets/{ticket}", admin_show_ticket, 0, "payload" },
	{ HTTP1_POST, "/v1/tickets/{ticket}/release", admin_act_on_ticket, 0, "" },
	{ HTTP1_POST, "/v1/tickets/{ticket}/drop", admin_act_on_ticket, 1, "" },
	{ HTTP1_POST, "/v1/tickets/{ticket}/replay", admin_replay_ticket, 0, REPLAY },
	{ HTTP1_POST, "/v1/replay", admin_start_job, JOB_REPLAY, FILTER " " REPLAY },
	{ HTTP1_POST, "/v1/release", admin_start_job, JOB_RELEASE, FILTER " dry_run" },
	{ HTTP1_POST, "/v1/drop", admin_start_job, JOB_DROP, FILTER " dry_run" },
	{ HTTP1_GET, "/v1/jobs", admin_list_jobs, 0, "" },
	{ HTTP1_GET, "/v1/jobs/{job}", admin_show_job, 0, "" },
	{ HTTP1_POST, "/v1/jobs/{job}/cancel", admin_cancel_job, 0, "" },
	{ HTTP1_GET, "/v1/sinks", admin_list_sinks, 0, "" },
	{ HTTP1_GET, "/v1/sinks/{sink}", admin_show_sink, 0, "" },
	{ HTTP1_POST, "/v1/sinks/{sink}/pause", admin_command_sink, DELIVER_PAUSE, "" },
	{ HTTP1_POST, "/v1/sinks/{sink}/resume", admin_command_sink, DELIVER_RESUME, "" },
	{ HTTP1_GET, "/v1/sources", admin_list_sources, 0, "" },
	{ HTTP1_GET, "/v1/stats", admin_show_stats, 0, "" },
	{ HTTP1_GET, "/v1/stream", admin_open_stream, 0, "" },
	{ HTTP1_GET, "/v1/why", answer_why, 0, WHY_PARAMETERS },
	{ HTTP1_GET, "/v1/advise", answer_advise, 0, ADVISE_PARAMETERS },
};

static void answer_index(struct admin *admin, const struct admin_call *call)
{
	struct buf out = { .cap = 64u << 10 };
	json_object_begin(&out, NULL);
	json_add_string(&out, "version", admin->options.console->version);
	json_array_begin(&out, "routes");
	for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
		json_object_begin(&out, NULL);
		json_add_string(&out, "method", routes[i].method == HTTP1_POST ? "POST" : "GET");
		json_add_string(&out, "path", routes[i].path);
		json_object_end(&out);
	}
	json_array_end(&out);
	json_object_end(&out);
	admin_respond(call->request, &out);
}

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

static void dispatch(struct admin *admin, struct http_request *request)
{
	enum http1_method method = request->head.method;
	const struct admin_route *other = NULL;
	struct error_text text;
	struct span part;
	for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
		if (!matches(routes[i].path, request->head.path, &part))
			continue;
		other = &routes[i];
		if (other->method == method ||
		    (other->method == HTTP1_GET && method == HTTP1_HEAD)) {
			if (query_check(request->head.query, other->parameters, &text) < 0)
				admin_respond_problem(request, 400, text.text);
			else if (request->body.len > 0 || request->unread)
				admin_respond_problem(
					request, 400,
					"a body is not allowed; put the parameters into the query");
			else
				other->answer(admin,
				              &(struct admin_call){ request, part, other->what });
			return;
		}
	}
	if (!other)
		admin_respond_problem(request, 404, "no such path; GET /v1 lists all paths");
	else if (other->method == HTTP1_GET)
		http_respond_problem(request, 405, "method not allowed: use GET",
		                     SPAN("Allow: GET, HEAD\r\n"));
	else
		http_respond_problem(request, 405, "method not allowed: use POST",
		                     SPAN("Allow: POST\r\n"));
}

void admin_handle(struct admin *admin, const struct console_view *view, uint64_t now_ms,
                  struct http_request *request)
{
	if (!may_ask(admin, request))
		return;
	admin->view = *view;
	admin->now_ms = now_ms;
	if (!console_handle(admin->options.console, view, request))
		dispatch(admin, request);
	admin->view = (struct console_view){ .port = admin->options.port };
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
