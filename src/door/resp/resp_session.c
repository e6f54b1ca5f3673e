/*
 * The connection (HELLO, AUTH, CLIENT …) and what clients ask of the server (INFO, CONFIG,
 * COMMAND). See resp_internal.h.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* Compares all, so that the time does not reveal which one matched. */
static bool is_password(const struct resp_options *options, struct span text)
{
	bool match = false;
	for (uint32_t i = 0; i < options->password_count; i++)
		match |= secret_equal(options->passwords[i], text);
	return match;
}

/* There is one user, `default`. Without a password every client is that user. */
static bool authenticate(struct resp_run *run, struct span user, struct span password)
{
	const struct resp_options *options = &run->door->shared->options;
	bool known = span_eq(user, SPAN("default"));
	bool match = options->password_count == 0 || is_password(options, password);
	if (options->password_count > 0) {
		/* A right password waits too if others of its address were wrong before: otherwise
		 * an answer that does not come at once would reveal that it was wrong. */
		struct resp_call *call = run->task->call;
		uint32_t ms = resp_guesses_wait(run->door->shared->guesses, &run->client->address,
		                                !(known && match), call->arrived_ns / 1000000);
		if (ms > 0)
			resp_call_delay(call, ms);
	}
	if (known && match) {
		run->client->trusted = true;
		return true;
	}
	log_warn("client of the Redis door rejected", log_u64("client", run->client->id),
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

/* False: the reply says why not. */
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

/* ---- INFO ---- */

struct info {
	const struct resp_shared *shared;
	struct store_stats store;
	uint64_t open, accepted, refused, commands, bytes_in, bytes_out, errors;
	uint64_t up_s;
	uint16_t port;
};

static uint64_t load(const atomic_uint_fast64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static void gather(struct resp_run *run, struct info *ret_info)
{
	struct resp_shared *shared = run->door->shared;
	uint64_t now_ms = clock_read(clock_system()).wall_ms;
	uint64_t started_ms = shared->options.started_ms;
	*ret_info = (struct info){
		.shared = shared,
		.up_s = now_ms > started_ms ? (now_ms - started_ms) / 1000 : 0,
		.port = resp_server_port(run->door->server),
	};
	store_stats(run->door->store, &ret_info->store);
	unsigned count = atomic_load(&shared->thread_count);
	for (unsigned i = 0; i < count; i++) {
		const struct resp_counters *counters = atomic_load(&shared->counters[i]);
		if (!counters)
			continue;
		ret_info->open += load(&counters->wires.open);
		ret_info->accepted += load(&counters->wires.accepted);
		ret_info->refused += load(&counters->wires.refused);
		ret_info->commands += load(&counters->commands);
		ret_info->bytes_in += load(&counters->wires.bytes_in);
		ret_info->bytes_out += load(&counters->wires.bytes_out);
		for (int e = 0; e < RESP_ERROR_COUNT; e++)
			ret_info->errors += load(&counters->errors[e]);
	}
}

#define LINE(name, value) buf_printf(out, name ":%llu\r\n", (unsigned long long)(value))

static void info_server(const struct info *info, struct buf *out)
{
	buf_printf(out,
	           "redis_version:7.0.15\r\nredis_mode:standalone\r\nstile_version:%s\r\n"
	           "os:Linux\r\narch_bits:64\r\nrun_id:%.*s\r\n",
	           info->shared->options.version, (int)RESP_RUN_ID_LEN, info->shared->run_id);
	LINE("process_id", getpid());
	LINE("tcp_port", info->port);
	LINE("uptime_in_seconds", info->up_s);
	LINE("uptime_in_days", info->up_s / 86400);
}

static void info_clients(const struct info *info, struct buf *out)
{
	LINE("connected_clients", info->open);
	LINE("maxclients", info->shared->options.max_clients);
	LINE("blocked_clients", 0);
}

static void info_memory(const struct info *info, struct buf *out)
{
	LINE("used_memory", info->store.index_bytes);
	LINE("maxmemory", 0);
	buf_append_span(out, SPAN("maxmemory_policy:noeviction\r\n"));
}

static void info_persistence(const struct info *info, struct buf *out)
{
	LINE("loading", 0);
	LINE("aof_enabled", 1);
	buf_printf(out, "aof_last_write_status:%s\r\n", info->store.writable ? "ok" : "err");
	LINE("aof_current_size", info->store.journal_bytes);
}

static void info_stats(const struct info *info, struct buf *out)
{
	LINE("total_connections_received", info->accepted);
	LINE("total_commands_processed", info->commands);
	LINE("total_net_input_bytes", info->bytes_in);
	LINE("total_net_output_bytes", info->bytes_out);
	LINE("rejected_connections", info->refused);
	LINE("total_error_replies", info->errors);
	LINE("evicted_keys", 0);
}

static void info_replication(const struct info *info, struct buf *out)
{
	(void)info;
	buf_append_span(out, SPAN("role:master\r\n"));
	LINE("connected_slaves", 0);
}

static void info_keyspace(const struct info *info, struct buf *out)
{
	if (info->store.live_cells > 0)
		buf_printf(out, "db0:keys=%llu,expires=0,avg_ttl=0\r\n",
		           (unsigned long long)info->store.live_cells);
}

static const struct {
	const char *name, *title;
	void (*write)(const struct info *info, struct buf *out);
} sections[] = {
	{ "server", "Server", info_server },
	{ "clients", "Clients", info_clients },
	{ "memory", "Memory", info_memory },
	{ "persistence", "Persistence", info_persistence },
	{ "stats", "Stats", info_stats },
	{ "replication", "Replication", info_replication },
	{ "keyspace", "Keyspace", info_keyspace },
};

static bool wants_section(const struct resp_run *run, const char *name)
{
	if (run->count == 1)
		return true;
	for (uint32_t i = 1; i < run->count; i++)
		if (resp_is(run->args[i], name) || resp_is(run->args[i], "all") ||
		    resp_is(run->args[i], "default") || resp_is(run->args[i], "everything"))
			return true;
	return false;
}

void resp_run_info(struct resp_run *run)
{
	struct info info;
	struct buf text = { 0 };
	gather(run, &info);
	for (size_t i = 0; i < ARRAY_LEN(sections); i++) {
		if (!wants_section(run, sections[i].name))
			continue;
		buf_printf(&text, "%s# %s\r\n", text.len > 0 ? "\r\n" : "", sections[i].title);
		sections[i].write(&info, &text);
	}
	struct buf *out = resp_text(run->job);
	resp_write_verbatim(out, buf_span(&text), (enum resp_version)run->job->version);
	buf_fail(out, text.failed);
	buf_free(&text);
}

/* ---- CONFIG ---- */

static const struct {
	const char *name, *value;
} settings[] = {
	{ "appendfsync", "always" },
	{ "appendonly", "yes" },
	{ "databases", "1" },
	{ "maxmemory", "0" },
	{ "maxmemory-policy", "noeviction" },
	{ "notify-keyspace-events", "" },
	{ "save", "" },
	{ "timeout", "0" },
};

static bool is_asked(const struct resp_run *run, const char *name)
{
	for (uint32_t i = 2; i < run->count; i++)
		if (resp_glob(run->args[i], span_str(name)))
			return true;
	return false;
}

void resp_run_config(struct resp_run *run)
{
	if (!resp_is(run->args[1], "get")) {
		resp_fail_subcommand(run);
		return;
	}
	if (run->count < 3) {
		resp_fail_arity(run);
		return;
	}
	struct buf *out = resp_text(run->job);
	uint32_t count = 0;
	for (size_t i = 0; i < ARRAY_LEN(settings); i++)
		count += is_asked(run, settings[i].name);
	resp_write_map(out, count, (enum resp_version)run->job->version);
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		if (!is_asked(run, settings[i].name))
			continue;
		resp_write_bulk(out, span_str(settings[i].name));
		resp_write_bulk(out, span_str(settings[i].value));
	}
}

/* ---- COMMAND ---- */

static void write_flags(const struct resp_word *word, struct buf *out, enum resp_version version)
{
	static const struct {
		uint8_t flag;
		const char *name;
	} names[] = {
		{ RESP_WRITES, "write" },
		{ RESP_READS, "readonly" },
		{ RESP_FAST, "fast" },
		{ RESP_FOR_STRANGERS, "no_auth" },
	};
	uint32_t count = 0;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		count += (word->flags & names[i].flag) != 0;
	resp_write_set(out, count, version);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (word->flags & names[i].flag)
			resp_write_simple(out, span_str(names[i].name));
}

static void write_word(const struct resp_word *word, struct buf *out, enum resp_version version)
{
	resp_write_array(out, 10);
	resp_write_bulk(out, span_str(word->name));
	resp_write_integer(out, word->arity);
	write_flags(word, out, version);
	resp_write_integer(out, word->first_key);
	resp_write_integer(out, word->last_key);
	resp_write_integer(out, word->first_key > 0);
	resp_write_set(out, 0, version); /* categories of ACLs */
	resp_write_set(out, 0, version); /* tips */
	resp_write_set(out, 0, version); /* key specifications */
	resp_write_array(out, 0);        /* subcommands */
}

static uint32_t count_words(void)
{
	uint32_t count = 0;
	while (resp_word_at(count))
		count++;
	return count;
}

static void command_all(struct resp_run *run)
{
	struct buf *out = resp_text(run->job);
	uint32_t count = count_words();
	resp_write_array(out, count);
	for (uint32_t i = 0; i < count; i++)
		write_word(resp_word_at(i), out, (enum resp_version)run->job->version);
}

static void command_info(struct resp_run *run)
{
	enum resp_version version = (enum resp_version)run->job->version;
	if (run->count == 2) {
		command_all(run);
		return;
	}
	struct buf *out = resp_text(run->job);
	resp_write_array(out, run->count - 2);
	for (uint32_t i = 2; i < run->count; i++) {
		const struct resp_word *word = resp_word_find(run->args[i]);
		if (word)
			write_word(word, out, version);
		else
			resp_write_null(out, version);
	}
}

static bool wants_docs(const struct resp_run *run, const struct resp_word *word)
{
	if (run->count == 2)
		return true;
	for (uint32_t i = 2; i < run->count; i++)
		if (resp_is(run->args[i], word->name))
			return true;
	return false;
}

static void command_docs(struct resp_run *run)
{
	enum resp_version version = (enum resp_version)run->job->version;
	struct buf *out = resp_text(run->job);
	const struct resp_word *word;
	uint32_t count = 0;
	for (uint32_t i = 0; (word = resp_word_at(i)); i++)
		count += wants_docs(run, word);
	resp_write_map(out, count, version);
	for (uint32_t i = 0; (word = resp_word_at(i)); i++)
		if (wants_docs(run, word)) {
			resp_write_bulk(out, span_str(word->name));
			resp_write_map(out, 2, version);
			resp_write_bulk(out, SPAN("summary"));
			resp_write_bulk(out, span_str(word->summary));
			resp_write_bulk(out, SPAN("group"));
			resp_write_bulk(out, span_str(word->group));
		}
}

void resp_run_command(struct resp_run *run)
{
	struct buf *out;
	if (run->count == 1) {
		command_all(run);
	} else if (resp_is(run->args[1], "info")) {
		command_info(run);
	} else if (resp_is(run->args[1], "docs")) {
		command_docs(run);
	} else if (!resp_is(run->args[1], "count") && !resp_is(run->args[1], "list")) {
		resp_fail_subcommand(run);
	} else if (run->count > 2) {
		resp_fail_arity(run);
	} else if (resp_is(run->args[1], "count")) {
		resp_write_integer(resp_text(run->job), count_words());
	} else {
		out = resp_text(run->job);
		resp_write_array(out, count_words());
		for (uint32_t i = 0; i < count_words(); i++)
			resp_write_bulk(out, span_str(resp_word_at(i)->name));
	}
}
