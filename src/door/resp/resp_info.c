/* What clients and people ask of the server: INFO, CONFIG, COMMAND. See resp_internal.h. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "door/resp/resp_internal.h"
#include "sys/clock.h"

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

static void add_counters(struct info *info, const struct resp_counters *counters)
{
	info->open += load(&counters->wires.open);
	info->accepted += load(&counters->wires.accepted);
	info->refused += load(&counters->wires.refused);
	info->commands += load(&counters->commands);
	info->bytes_in += load(&counters->wires.bytes_in);
	info->bytes_out += load(&counters->wires.bytes_out);
	for (int i = 0; i < RESP_ERROR_COUNT; i++)
		info->errors += load(&counters->errors[i]);
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
		if (counters)
			add_counters(ret_info, counters);
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

static void config_get(struct resp_run *run)
{
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

void resp_run_config(struct resp_run *run)
{
	if (!resp_is(run->args[1], "get"))
		resp_fail_subcommand(run);
	else if (run->count < 3)
		resp_fail_arity(run);
	else
		config_get(run);
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

static void command_count(struct resp_run *run)
{
	resp_write_integer(resp_text(run->job), count_words());
}

static void command_list(struct resp_run *run)
{
	struct buf *out = resp_text(run->job);
	uint32_t count = count_words();
	resp_write_array(out, count);
	for (uint32_t i = 0; i < count; i++)
		resp_write_bulk(out, span_str(resp_word_at(i)->name));
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

static void write_docs(const struct resp_word *word, struct buf *out, enum resp_version version)
{
	resp_write_bulk(out, span_str(word->name));
	resp_write_map(out, 2, version);
	resp_write_bulk(out, SPAN("summary"));
	resp_write_bulk(out, span_str(word->summary));
	resp_write_bulk(out, SPAN("group"));
	resp_write_bulk(out, span_str(word->group));
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
		if (wants_docs(run, word))
			write_docs(word, out, version);
}

void resp_run_command(struct resp_run *run)
{
	if (run->count == 1)
		command_all(run);
	else if (resp_is(run->args[1], "info"))
		command_info(run);
	else if (resp_is(run->args[1], "docs"))
		command_docs(run);
	else if (!resp_is(run->args[1], "count") && !resp_is(run->args[1], "list"))
		resp_fail_subcommand(run);
	else if (run->count > 2)
		resp_fail_arity(run);
	else if (resp_is(run->args[1], "count"))
		command_count(run);
	else
		command_list(run);
}
