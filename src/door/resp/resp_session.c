/* The connection: who it is, what it speaks. See resp_internal.h. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/secret.h"
#include "door/resp/resp_guesses.h"
#include "door/resp/resp_internal.h"
#include "sys/clock.h"

#define REDIS_VERSION "7.0.15" /* whose replies these are */

void resp_run_ping(struct resp_run *run)
{
	if (run->count > 2)
		resp_fail_arity(run);
	else if (run->count == 2)
		resp_write_bulk(resp_text(run->job), run->args[1]);
	else
		resp_fixed(run->job, SPAN("+PONG\r\n"));
}

void resp_run_echo(struct resp_run *run)
{
	resp_write_bulk(resp_text(run->job), run->args[1]);
}

void resp_run_quit(struct resp_run *run)
{
	resp_ok(run);
	resp_call_ends(run->task->call);
}

void resp_run_select(struct resp_run *run)
{
	int64_t index;
	if (!resp_integer(run->args[1], &index))
		resp_fail_integer(run);
	else if (index != (int32_t)index)
		resp_fail(run, RESP_ERR, "value is out of range, value must between %d and %d",
		          INT32_MIN, INT32_MAX);
	else if (index != 0)
		resp_fail(run, RESP_ERR, "DB index is out of range");
	else
		resp_ok(run);
}

void resp_run_reset(struct resp_run *run)
{
	struct resp_session *session = run->session;
	resp_discard(run->door, session);
	session->version = RESP_2;
	session->name[0] = 0;
	run->client->trusted = run->door->shared->options.password_count == 0;
	resp_fixed(run->job, SPAN("+RESET\r\n"));
}

/* ---- AUTH ---- */

/* All are compared, so that the time does not tell which it was. */
static bool is_password(const struct resp_options *options, struct span text)
{
	bool match = false;
	for (uint32_t i = 0; i < options->password_count; i++)
		match |= secret_equal(options->passwords[i], text);
	return match;
}

/* Also a right answer waits, if others of its address were wrong a moment ago: else one that
 * does not come at once would tell as much. */
static void slow_down(struct resp_run *run, bool wrong)
{
	struct resp_call *call = run->task->call;
	uint32_t ms = resp_guesses_wait(run->door->shared->guesses, &run->client->address, wrong,
	                                call->arrived_ns / 1000000);
	if (ms > 0)
		resp_call_delay(call, ms);
}

/* There is one user. Without a password everybody is it. */
static bool authenticate(struct resp_run *run, struct span user, struct span password)
{
	const struct resp_options *options = &run->door->shared->options;
	bool known = span_eq(user, SPAN("default"));
	bool match = options->password_count == 0 || is_password(options, password);
	if (options->password_count > 0)
		slow_down(run, !(known && match));
	if (known && match) {
		run->client->trusted = true;
		return true;
	}
	log_warn("Redis client rejected", log_u64("client", run->client->id),
	         log_str("reason", known ? "wrong password" : "unknown user"));
	resp_fail(run, RESP_WRONGPASS, "invalid username-password pair or user is disabled.");
	return false;
}

void resp_run_auth(struct resp_run *run)
{
	if (run->count > 3) {
		resp_fail_syntax(run);
		return;
	}
	if (run->count == 2 && run->door->shared->options.password_count == 0) {
		resp_fail(run, RESP_ERR,
		          "AUTH <password> called without any password configured for the default "
		          "user. Are you sure your configuration is correct?");
		return;
	}
	struct span user = run->count == 3 ? run->args[1] : SPAN("default");
	if (authenticate(run, user, run->args[run->count - 1]))
		resp_ok(run);
}

/* ---- names ---- */

static bool is_name(struct span text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.ptr[i] < '!' || text.ptr[i] > '~')
			return false;
	return true;
}

static void keep_name(char to[static RESP_NAME_MAX], struct span name)
{
	size_t len = name.len < RESP_NAME_MAX ? name.len : RESP_NAME_MAX - 1;
	if (len > 0)
		memcpy(to, name.ptr, len);
	to[len] = 0;
}

static bool set_name(struct resp_run *run, struct span name)
{
	if (!is_name(name)) {
		resp_fail(run, RESP_ERR,
		          "Client names cannot contain spaces, newlines or special characters.");
		return false;
	}
	if (name.len >= RESP_NAME_MAX) {
		resp_fail(run, RESP_ERR, "the name is too long: at most %u bytes",
		          RESP_NAME_MAX - 1);
		return false;
	}
	keep_name(run->session->name, name);
	return true;
}

/* ---- HELLO ---- */

static void write_hello(struct resp_run *run)
{
	enum resp_version version = run->session->version == RESP_3 ? RESP_3 : RESP_2;
	struct buf *out = resp_text(run->job);
	resp_write_map(out, 7, version);
	resp_write_bulk(out, SPAN("server"));
	resp_write_bulk(out, SPAN("redis"));
	resp_write_bulk(out, SPAN("version"));
	resp_write_bulk(out, SPAN(REDIS_VERSION));
	resp_write_bulk(out, SPAN("proto"));
	resp_write_integer(out, version);
	resp_write_bulk(out, SPAN("id"));
	resp_write_integer(out, (int64_t)run->client->id);
	resp_write_bulk(out, SPAN("mode"));
	resp_write_bulk(out, SPAN("standalone"));
	resp_write_bulk(out, SPAN("role"));
	resp_write_bulk(out, SPAN("master"));
	resp_write_bulk(out, SPAN("modules"));
	resp_write_array(out, 0);
}

struct hello {
	int64_t version; /* 0: as it is */
	bool with_user, with_name;
	struct span user, password, name;
};

/* False: the reply is why not. */
static bool read_hello(struct resp_run *run, struct hello *hello)
{
	if (run->count > 1 && !resp_integer(run->args[1], &hello->version)) {
		resp_fail(run, RESP_ERR, "Protocol version is not an integer or out of range");
		return false;
	}
	if (run->count > 1 && hello->version != 2 && hello->version != 3) {
		resp_fail(run, RESP_NOPROTO, "unsupported protocol version");
		return false;
	}
	for (uint32_t i = 2; i < run->count; i++) {
		uint32_t more = run->count - 1 - i;
		if (resp_is(run->args[i], "auth") && more >= 2) {
			hello->with_user = true;
			hello->user = run->args[i + 1];
			hello->password = run->args[i + 2];
			i += 2;
		} else if (resp_is(run->args[i], "setname") && more >= 1) {
			hello->with_name = true;
			hello->name = run->args[++i];
		} else {
			resp_fail(run, RESP_ERR, "Syntax error in HELLO option '%.*s'",
			          (int)strnlen(run->args[i].ptr, run->args[i].len),
			          run->args[i].ptr);
			return false;
		}
	}
	return true;
}

void resp_run_hello(struct resp_run *run)
{
	struct hello hello = { 0 };
	if (!read_hello(run, &hello))
		return;
	if (hello.with_user && !authenticate(run, hello.user, hello.password))
		return;
	if (!run->client->trusted) {
		resp_fail(run, RESP_NOAUTH,
		          "HELLO must be called with the client already authenticated, otherwise "
		          "the HELLO <proto> AUTH <user> <pass> option can be used to authenticate "
		          "the client and select the RESP protocol version at the same time");
		return;
	}
	if (hello.with_name && !set_name(run, hello.name))
		return;
	if (hello.version)
		run->session->version = (uint8_t)hello.version;
	write_hello(run);
}

/* ---- CLIENT ---- */

static void client_id(struct resp_run *run)
{
	resp_write_integer(resp_text(run->job), (int64_t)run->client->id);
}

static void client_setname(struct resp_run *run)
{
	if (set_name(run, run->args[2]))
		resp_ok(run);
}

static void client_getname(struct resp_run *run)
{
	struct span name = span_str(run->session->name);
	if (name.len > 0)
		resp_write_bulk(resp_text(run->job), name);
	else
		resp_write_null(resp_text(run->job), (enum resp_version)run->job->version);
}

static void client_setinfo(struct resp_run *run)
{
	struct span value = run->args[3];
	bool is_library = resp_is(run->args[2], "lib-name");
	if (!is_library && !resp_is(run->args[2], "lib-ver"))
		resp_fail(run, RESP_ERR, "Unrecognized option '%.*s'",
		          (int)strnlen(run->args[2].ptr, run->args[2].len), run->args[2].ptr);
	else if (!is_name(value))
		resp_fail(run, RESP_ERR,
		          "%s cannot contain spaces, newlines or special characters.",
		          is_library ? "lib-name" : "lib-ver");
	else {
		keep_name(is_library ? run->session->library : run->session->library_version,
		          value);
		resp_ok(run);
	}
}

static void client_info(struct resp_run *run)
{
	const struct resp_client *client = run->client;
	const struct resp_session *session = run->session;
	char address[IP_TEXT_MAX], text[2048];
	ip_format(&client->address, address);
	uint64_t age_s = (clock_monotonic_ns() / 1000000 - client->since_ms) / 1000;
	int len = snprintf(
		text, sizeof(text),
		"id=%llu addr=%s:%u fd=%d name=%s age=%llu idle=0 flags=%s db=0 multi=%d cmd=client|info "
		"user=default resp=%d lib-name=%s lib-ver=%s\n",
		(unsigned long long)client->id, address, client->port, client->fd, session->name,
		(unsigned long long)age_s, session->in_multi ? "x" : "N",
		session->in_multi ? (int)session->queued : -1, session->version == RESP_3 ? 3 : 2,
		session->library, session->library_version);
	size_t shown = len > 0 && (size_t)len < sizeof(text) ? (size_t)len : 0;
	resp_write_verbatim(resp_text(run->job), span_of(text, shown),
	                    (enum resp_version)run->job->version);
}

static void client_help(struct resp_run *run)
{
	static const char *const lines[] = {
		"CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
		"GETNAME",
		"    Return the name of the current connection.",
		"ID",
		"    Return the ID of the current connection.",
		"INFO",
		"    Return information about the current client connection.",
		"SETINFO <lib-name|lib-ver> <value>",
		"    Say which library is used.",
		"SETNAME <name>",
		"    Assign the name <name> to the current connection.",
		"HELP",
		"    Print this help.",
	};
	struct buf *out = resp_text(run->job);
	resp_write_array(out, ARRAY_LEN(lines));
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		resp_write_simple(out, span_str(lines[i]));
}

void resp_run_client(struct resp_run *run)
{
	static const struct {
		const char *name;
		uint32_t count;
		void (*run)(struct resp_run *run);
	} subcommands[] = {
		{ "id", 2, client_id },           { "setname", 3, client_setname },
		{ "getname", 2, client_getname }, { "setinfo", 4, client_setinfo },
		{ "info", 2, client_info },       { "help", 2, client_help },
	};
	for (size_t i = 0; i < ARRAY_LEN(subcommands); i++) {
		if (!resp_is(run->args[1], subcommands[i].name))
			continue;
		if (run->count != subcommands[i].count)
			resp_fail_arity(run);
		else
			subcommands[i].run(run);
		return;
	}
	resp_fail_subcommand(run);
}
