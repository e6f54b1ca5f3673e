/*
 * resp: see resp.h. From a command to a task, to the store, and back; the table of commands;
 * transactions.
 */
#include "door/resp/resp.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/hex.h"
#include "base/histogram.h"
#include "base/mem.h"
#include "door/resp/resp_guesses.h"
#include "door/resp/resp_internal.h"

#define QUEUED_MAX 1024u
#define QUEUED_BYTES_MAX (2u << 20)

static void words_init(void);
static void queue_command(struct resp_run *run);
static void take_back(struct resp_task *task);

/* ---- replies that are known at once ---- */

static void write_fixed(struct resp_job *job, struct buf *out)
{
	buf_append_span(out, job->fixed);
}

static void write_text(struct resp_job *job, struct buf *out)
{
	if (likely(!job->text.failed))
		buf_append_span(out, buf_span(&job->text));
	else
		resp_write_store_error(job->task->door, out, -ENOMEM);
	buf_free(&job->text);
}

void resp_fixed(struct resp_job *job, struct span reply)
{
	job->write = write_fixed;
	job->fixed = reply;
	job->count = 0;
}

struct buf *resp_text(struct resp_job *job)
{
	job->write = write_text;
	job->count = 0;
	buf_clear(&job->text);
	return &job->text;
}

static void count_error(struct resp_door *door, enum resp_error error)
{
	atomic_uint_fast64_t *counter = &door->counters->errors[error];
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
	                      memory_order_relaxed);
}

void resp_fail(struct resp_run *run, enum resp_error error, const char *format, ...)
{
	char text[1024];
	va_list args;
	va_start(args, format);
	int len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (len < 0)
		len = 0;
	if ((size_t)len >= sizeof(text))
		len = (int)sizeof(text) - 1;
	count_error(run->door, error);
	resp_write_error(resp_text(run->job), error, span_of(text, (size_t)len));
}

void resp_fail_syntax(struct resp_run *run)
{
	resp_fail(run, RESP_ERR, "syntax error");
}

void resp_fail_integer(struct resp_run *run)
{
	resp_fail(run, RESP_ERR, "value is not an integer or out of range");
}

/* Texts of peers are C strings in errors, with the lengths of Redis. */
static int shown(struct span text, int most)
{
	size_t len = strnlen(text.ptr, text.len);
	return len < (size_t)most ? (int)len : most;
}

static struct span lower(struct span text, char out[static 64])
{
	size_t len = text.len < 63 ? text.len : 63;
	for (size_t i = 0; i < len; i++)
		out[i] = span_lower(text.ptr[i]);
	out[len] = 0;
	return span_of(out, len);
}

void resp_fail_arity(struct resp_run *run)
{
	char sub[64];
	const char *name = run->word->name;
	if ((run->word->flags & RESP_CONTAINER) && run->count > 1)
		resp_fail(run, RESP_ERR, "wrong number of arguments for '%s|%s' command", name,
		          lower(run->args[1], sub).ptr);
	else
		resp_fail(run, RESP_ERR, "wrong number of arguments for '%s' command", name);
}

void resp_fail_subcommand(struct resp_run *run)
{
	char name[64];
	snprintf(name, sizeof(name), "%s", run->word->name);
	for (char *at = name; *at; at++)
		*at = *at >= 'a' && *at <= 'z' ? (char)(*at - 32) : *at;
	resp_fail(run, RESP_ERR, "unknown subcommand '%.*s'. Try %s HELP.",
	          shown(run->args[1], 128), run->args[1].ptr, name);
}

void resp_fail_memory(struct resp_run *run)
{
	resp_fail(run, RESP_OOM, "out of memory; the command was not executed");
}

/* ---- errors of the store ---- */

void resp_write_store_error(struct resp_door *door, struct buf *out, int error)
{
	enum resp_error kind = RESP_ERR;
	const char *text = "the command failed";
	switch (error) {
	case ERR_FULL:
	case -ENOMEM:
		kind = RESP_OOM;
		text = "the store is full; nothing was changed";
		break;
	case ERR_POISONED:
		kind = RESP_MISCONF;
		text = "a write to disk failed; nothing was changed";
		break;
	case ERR_AWAY:
		kind = RESP_LOADING;
		text = "the store is unreachable; the command was executed completely or not at all";
		break;
	case ERR_CLOSING:
		kind = RESP_LOADING;
		text = "stile is stopping";
		break;
	default: text = error_name(error);
	}
	count_error(door, kind);
	resp_write_error(out, kind, span_str(text));
}

bool resp_write_failure(struct resp_job *job, struct buf *out)
{
	for (uint32_t i = 0; i < job->count; i++) {
		if (likely(job->cells[i].op.error == 0))
			continue;
		if (job->count > 1) { /* the results of the others are not reported */
			count_error(job->task->door, RESP_OOM);
			resp_write_error(
				out, RESP_OOM,
				SPAN("not all keys could be processed; some may have changed"));
		} else {
			resp_write_store_error(job->task->door, out, job->cells[i].op.error);
		}
		return true;
	}
	return false;
}

/* ---- operations ---- */

static struct digest digest_key(const struct resp_shared *shared, struct span key)
{
	struct digest_input input;
	struct digest_value value;
	const unsigned char *secret = shared->options.key;
	int error;
	digest_begin(&input, &shared->scope);
	if (likely(key.len <= DIGEST_PART_MAX)) {
		error = digest_add(&input, DIGEST_STRING, key);
	} else {
		value = digest_of_bytes(secret, key);
		error = digest_add(&input, DIGEST_BODY, span_of(value.bytes, sizeof(value.bytes)));
	}
	CHECK(error == 0);
	return digest_end(&input, secret);
}

static void init_cell(struct resp_run *run, struct store_cell *cell, enum store_cell_act act,
                      struct span key)
{
	cell->op = (struct store_op){ .kind = STORE_CELL, .done = resp_decided, .user = run->job };
	cell->act = act;
	cell->when = STORE_ALWAYS;
	cell->want_value = false;
	cell->cell = (struct store_cell_value){ .digest = digest_key(run->door->shared, key),
		                                .name = key };
	cell->value = (struct buf){ 0 };
}

static bool check_key(struct resp_run *run, struct span key)
{
	if (likely(key.len <= RESP_KEY_MAX))
		return true;
	resp_fail(run, RESP_ERR, "the key is too long: %zu bytes, at most %u are allowed", key.len,
	          RESP_KEY_MAX);
	return false;
}

struct store_cell *resp_cell(struct resp_run *run, enum store_cell_act act, struct span key)
{
	struct resp_job *job = run->job;
	if (!check_key(run, key))
		return NULL;
	init_cell(run, &job->one, act, key);
	job->cells = &job->one;
	job->count = 1;
	return job->cells;
}

struct store_cell *resp_cells(struct resp_run *run, enum store_cell_act act,
                              const struct span *keys, uint32_t count)
{
	struct resp_job *job = run->job;
	if (count == 1)
		return resp_cell(run, act, keys[0]);
	for (uint32_t i = 0; i < count; i++)
		if (!check_key(run, keys[i]))
			return NULL;
	struct store_cell *cells = arena_alloc(&run->task->arena, count * sizeof(*cells));
	if (!cells) {
		resp_fail_memory(run);
		return NULL;
	}
	resp_call_weigh(run->task->call, count * sizeof(*cells));
	for (uint32_t i = 0; i < count; i++)
		init_cell(run, &cells[i], act, keys[i]);
	job->cells = cells;
	job->count = count;
	return cells;
}

static void finish(struct resp_task *task)
{
	CHECK(task->left > 0);
	if (--task->left == 0)
		resp_call_done(task->call);
}

/* Runs inside the store's flush: replies are written later, all of a round together. */
void resp_decided(struct store_op *op)
{
	struct resp_job *job = op->user;
	finish(job->task);
}

/* ---- commands ---- */

void resp_weigh(struct resp_run *run, uint64_t bytes)
{
	run->task->weight += bytes;
	resp_call_weigh(run->task->call, bytes);
}

void resp_begin_job(struct resp_task *task, struct resp_job *job,
                    const struct resp_session *session)
{
	job->task = task;
	job->write = write_fixed;
	job->text = (struct buf){ 0 };
	job->version = session->version == RESP_3 ? RESP_3 : RESP_2;
	job->count = 0;
	job->scanning = NULL;
}

/* False: the reply says why not. */
static bool may_run(struct resp_run *run)
{
	const struct resp_word *word = run->word;
	struct span name = run->args[0];
	if (unlikely(!word)) {
		/* A web page can send a body of its choice to a port of its machine: what
		 * follows the head of an HTTP request is no command. */
		if (span_eq_nocase(name, SPAN("post")) || span_eq_nocase(name, SPAN("host:"))) {
			resp_fail(
				run, RESP_ERR,
				"this is an HTTP request; this listener speaks the Redis protocol");
			resp_call_ends(run->task->call);
			return false;
		}
		char rest[160] = "";
		int len = 0;
		for (uint32_t i = 1; i < run->count && len < 128; i++)
			len += snprintf(rest + len, sizeof(rest) - (size_t)len, "'%.*s' ",
			                shown(run->args[i], 128 - len), run->args[i].ptr);
		resp_fail(run, RESP_ERR, "unknown command '%.*s', with args beginning with: %s",
		          shown(name, 128), name.ptr, rest);
		return false;
	}
	bool fits = word->arity >= 0 ? run->count == (uint32_t)word->arity
	                             : run->count >= (uint32_t)-word->arity;
	if (unlikely(!fits)) {
		/* An EXEC that cannot be done ends its transaction. */
		bool is_exec = word->run == resp_run_exec;
		if (is_exec)
			resp_discard(run->door, run->session);
		resp_fail(run, is_exec ? RESP_EXECABORT : RESP_ERR,
		          "%swrong number of arguments for '%s' command",
		          is_exec ? "Transaction discarded because of: " : "", word->name);
		return false;
	}
	if (unlikely(!run->client->trusted) && !(word->flags & RESP_FOR_STRANGERS)) {
		resp_fail(run, RESP_NOAUTH, "Authentication required.");
		return false;
	}
	return true;
}

static void handle(struct resp_call *call, const struct span *args, uint32_t count)
{
	struct resp_door *door = call->client->user;
	struct resp_session *session = call->client->state;
	struct resp_task *task = call->scratch;
	task->door = door;
	task->call = call;
	task->exec = false;
	task->weight = 0;
	task->arena = (struct arena){ 0 };
	task->jobs = &task->one;
	task->job_count = 1;
	resp_begin_job(task, &task->one, session);
	struct resp_run run = {
		.door = door,
		.session = session,
		.client = call->client,
		.task = task,
		.job = &task->one,
		.word = door->last,
		.args = args,
		.count = count,
	};
	if (unlikely(!run.word || !span_eq_nocase(args[0], span_str(run.word->name)))) {
		run.word = resp_word_find(args[0]);
		if (run.word)
			door->last = run.word;
	}
	if (!may_run(&run)) {
		if (session->in_multi)
			session->multi_failed = true;
	} else if (unlikely(session->in_multi) && !(run.word->flags & RESP_NEVER_QUEUED)) {
		queue_command(&run);
	} else {
		run.word->run(&run);
	}
	uint32_t operations = 0;
	for (uint32_t i = 0; i < task->job_count; i++)
		operations += task->jobs[i].count + (task->jobs[i].scanning != NULL);
	/* All operations of a task or none: to do some would be half of a transaction. */
	if (unlikely(operations > 1 && operations > store_room(door->store))) {
		take_back(task);
		resp_fail_memory(&run);
		operations = 0;
	}
	/* One more than there are, so that the task is not done before all are submitted: a
	 * port that is full completes inside submit. */
	task->left = operations + 1;
	for (uint32_t i = 0; i < task->job_count; i++) {
		struct resp_job *job = &task->jobs[i];
		for (uint32_t c = 0; c < job->count; c++)
			store_submit(door->store, &job->cells[c].op);
		if (unlikely(job->scanning))
			resp_scan_submit(job);
	}
	finish(task);
}

static void reply(struct resp_call *call, struct buf *out)
{
	struct resp_task *task = call->scratch;
	if (unlikely(task->exec))
		resp_write_array(out, task->job_count);
	for (uint32_t i = 0; i < task->job_count; i++) {
		struct resp_job *job = &task->jobs[i];
		job->write(job, out);
		if (unlikely(job->scanning))
			resp_scan_free(job);
		for (uint32_t c = 0; c < job->count; c++)
			if (job->cells[c].value.ptr)
				buf_free(&job->cells[c].value);
	}
	if (unlikely(task->arena.blocks))
		arena_free(&task->arena);
}

static void gone(struct resp_client *client)
{
	resp_discard(client->user, client->state);
}

bool resp_integer(struct span text, int64_t *ret_value)
{
	bool minus = text.len > 0 && text.ptr[0] == '-';
	struct span digits = span_skip(text, minus);
	uint64_t value = 0;
	if (digits.len == 0 || digits.len > 19 || (digits.ptr[0] == '0' && text.len > 1))
		return false;
	for (size_t i = 0; i < digits.len; i++) {
		if (digits.ptr[i] < '0' || digits.ptr[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(digits.ptr[i] - '0');
	}
	if (value > (uint64_t)INT64_MAX + minus)
		return false;
	*ret_value = minus ? (int64_t)(0 - value) : (int64_t)value;
	return true;
}

/* ---- MULTI, EXEC, DISCARD ----
 *
 * Queued commands are kept with copies of their arguments. EXEC submits the operations of all
 * of them at once: no other command is between them, and they become durable together. */

void resp_discard(struct resp_door *door, struct resp_session *session)
{
	CHECK(door->queued_bytes >= session->arena.given);
	door->queued_bytes -= session->arena.given;
	arena_free(&session->arena);
	session->first = NULL;
	session->tail = NULL;
	session->queued = 0;
	session->in_multi = session->multi_failed = false;
}

void resp_run_multi(struct resp_run *run)
{
	struct resp_session *session = run->session;
	if (session->in_multi) {
		resp_fail(run, RESP_ERR, "MULTI calls can not be nested");
		return;
	}
	session->in_multi = true;
	session->arena = (struct arena){ .cap = QUEUED_BYTES_MAX };
	session->tail = &session->first;
	resp_ok(run);
}

void resp_run_discard(struct resp_run *run)
{
	if (!run->session->in_multi) {
		resp_fail(run, RESP_ERR, "DISCARD without MULTI");
		return;
	}
	resp_discard(run->door, run->session);
	resp_ok(run);
}

static struct resp_queued *copy_command(struct arena *arena, const struct resp_run *run)
{
	struct resp_queued *queued = arena_alloc(arena, sizeof(*queued));
	struct span *args = arena_alloc(arena, run->count * sizeof(*args));
	if (!queued || !args)
		return NULL;
	for (uint32_t i = 0; i < run->count; i++) {
		args[i] = arena_copy(arena, run->args[i]);
		if (!args[i].ptr)
			return NULL;
	}
	*queued = (struct resp_queued){ .word = run->word, .args = args, .count = run->count };
	return queued;
}

static void queue_command(struct resp_run *run)
{
	struct resp_session *session = run->session;
	if (run->door->queued_bytes >= run->door->queued_bytes_max) {
		session->multi_failed = true;
		resp_fail_memory(run);
		return;
	}
	size_t given = session->arena.given;
	struct resp_queued *queued = session->queued < QUEUED_MAX
	                                     ? copy_command(&session->arena, run)
	                                     : NULL;
	run->door->queued_bytes += session->arena.given - given;
	if (!queued) {
		session->multi_failed = true;
		resp_fail(run, RESP_ERR,
		          "the transaction is too large: at most %u commands and %u bytes",
		          QUEUED_MAX, QUEUED_BYTES_MAX);
		return;
	}
	*session->tail = queued;
	session->tail = &queued->next;
	session->queued++;
	resp_fixed(run->job, SPAN("+QUEUED\r\n"));
}

/* Nothing is submitted yet: takes back what the task would have done. It is one job again,
 * without a reply. */
static void take_back(struct resp_task *task)
{
	for (uint32_t i = 0; i < task->job_count; i++) {
		buf_free(&task->jobs[i].text);
		if (task->jobs[i].scanning)
			resp_scan_free(&task->jobs[i]);
	}
	task->jobs = &task->one;
	task->job_count = 1;
	task->exec = false;
}

void resp_run_exec(struct resp_run *run)
{
	struct resp_session *session = run->session;
	struct resp_task *task = run->task;
	if (!session->in_multi) {
		resp_fail(run, RESP_ERR, "EXEC without MULTI");
		return;
	}
	if (session->multi_failed) {
		resp_discard(run->door, session);
		resp_fail(run, RESP_EXECABORT, "Transaction discarded because of previous errors.");
		return;
	}
	/* The queued commands live until the reply is written. */
	struct resp_queued *first = session->first;
	uint32_t count = session->queued;
	task->arena = session->arena;
	task->arena.cap = 0;
	run->door->queued_bytes -= session->arena.given;
	resp_call_weigh(task->call, session->arena.given);
	session->arena = (struct arena){ 0 };
	resp_discard(run->door, session);
	struct resp_job *jobs = arena_alloc(&task->arena, (count + 1) * sizeof(*jobs));
	if (!jobs) {
		resp_fail_memory(run);
		return;
	}
	task->jobs = jobs;
	task->job_count = count;
	task->exec = true;
	for (struct resp_queued *queued = first; queued; queued = queued->next, jobs++) {
		resp_begin_job(task, jobs, session);
		struct resp_run one = *run;
		one.job = jobs;
		one.word = queued->word;
		one.args = queued->args;
		one.count = queued->count;
		queued->word->run(&one);
	}
	if (task->weight <= RESP_VALUES_MAX)
		return;
	take_back(task);
	resp_fail(run, RESP_EXECABORT,
	          "Transaction discarded: its replies could have more than %u bytes of values",
	          RESP_VALUES_MAX);
}

/* ---- the table of commands ---- */

#define W RESP_WRITES
#define R RESP_READS
#define F RESP_FAST
#define S RESP_FOR_STRANGERS
#define N RESP_NEVER_QUEUED
#define C RESP_CONTAINER

/* Arity, flags, first and last key, group and summary are those of Redis. */
static const struct resp_word words[] = {
	{ "set", -3, W, 1, 1, resp_run_set, "string",
	  "Sets the string value of a key, ignoring its type. The key is created if it doesn't exist." },
	{ "setnx", 3, W | F, 1, 1, resp_run_setnx, "string",
	  "Set the string value of a key only when the key doesn't exist." },
	{ "setex", 4, W, 1, 1, resp_run_setex, "string",
	  "Sets the string value and expiration time of a key. Creates the key if it doesn't exist." },
	{ "psetex", 4, W, 1, 1, resp_run_psetex, "string",
	  "Sets both string value and expiration time in milliseconds of a key. The key is created if it doesn't exist." },
	{ "get", 2, R | F, 1, 1, resp_run_get, "string", "Returns the string value of a key." },
	{ "getdel", 2, W | F, 1, 1, resp_run_getdel, "string",
	  "Returns the string value of a key after deleting the key." },
	{ "getex", -2, W | F, 1, 1, resp_run_getex, "string",
	  "Returns the string value of a key after setting its expiration time." },
	{ "mget", -2, R | F, 1, -1, resp_run_mget, "string",
	  "Atomically returns the string values of one or more keys." },
	{ "del", -2, W, 1, -1, resp_run_del, "generic", "Deletes one or more keys." },
	{ "unlink", -2, W | F, 1, -1, resp_run_del, "generic", "Deletes one or more keys." },
	{ "exists", -2, R | F, 1, -1, resp_run_exists, "generic",
	  "Determines whether one or more keys exist." },
	{ "type", 2, R | F, 1, 1, resp_run_type, "generic",
	  "Determines the type of value stored at a key." },
	{ "ttl", 2, R | F, 1, 1, resp_run_ttl, "generic",
	  "Returns the expiration time in seconds of a key." },
	{ "pttl", 2, R | F, 1, 1, resp_run_pttl, "generic",
	  "Returns the expiration time in milliseconds of a key." },
	{ "expiretime", 2, R | F, 1, 1, resp_run_expiretime, "generic",
	  "Returns the expiration time of a key as a Unix timestamp." },
	{ "pexpiretime", 2, R | F, 1, 1, resp_run_pexpiretime, "generic",
	  "Returns the expiration time of a key as a Unix milliseconds timestamp." },
	{ "expire", -3, W | F, 1, 1, resp_run_expire, "generic",
	  "Sets the expiration time of a key in seconds." },
	{ "pexpire", -3, W | F, 1, 1, resp_run_pexpire, "generic",
	  "Sets the expiration time of a key in milliseconds." },
	{ "expireat", -3, W | F, 1, 1, resp_run_expireat, "generic",
	  "Sets the expiration time of a key to a Unix timestamp." },
	{ "pexpireat", -3, W | F, 1, 1, resp_run_pexpireat, "generic",
	  "Sets the expiration time of a key to a Unix milliseconds timestamp." },
	{ "persist", 2, W | F, 1, 1, resp_run_persist, "generic",
	  "Removes the expiration time of a key." },
	{ "scan", -2, R, 0, 0, resp_run_scan, "generic",
	  "Iterates over the key names in the database." },
	{ "dbsize", 1, R | F, 0, 0, resp_run_dbsize, "server",
	  "Returns the number of keys in the database." },
	{ "ping", -1, F, 0, 0, resp_run_ping, "connection",
	  "Returns the server's liveliness response." },
	{ "echo", 2, F, 0, 0, resp_run_echo, "connection", "Returns the given string." },
	{ "hello", -1, F | S, 0, 0, resp_run_hello, "connection", "Handshakes with the server." },
	{ "auth", -2, F | S, 0, 0, resp_run_auth, "connection", "Authenticates the connection." },
	{ "client", -2, C, 0, 0, resp_run_client, "connection",
	  "A container for client connection commands." },
	{ "select", 2, F, 0, 0, resp_run_select, "connection", "Changes the selected database." },
	{ "quit", -1, F | S | N, 0, 0, resp_run_quit, "connection", "Closes the connection." },
	{ "reset", 1, F | S | N, 0, 0, resp_run_reset, "connection", "Resets the connection." },
	{ "multi", 1, F | N, 0, 0, resp_run_multi, "transactions", "Starts a transaction." },
	{ "exec", 1, N, 0, 0, resp_run_exec, "transactions",
	  "Executes all commands in a transaction." },
	{ "discard", 1, F | N, 0, 0, resp_run_discard, "transactions", "Discards a transaction." },
	{ "info", -1, 0, 0, 0, resp_run_info, "server",
	  "Returns information and statistics about the server." },
	{ "config", -2, C, 0, 0, resp_run_config, "server",
	  "A container for server configuration commands." },
	{ "command", -1, C, 0, 0, resp_run_command, "server",
	  "Returns detailed information about all commands." },
};

/* Ignores the case of ASCII letters; for other bytes any hash will do. */
static uint32_t hash_name(struct span name)
{
	uint32_t hash = 2166136261u;
	for (size_t i = 0; i < name.len; i++)
		hash = (hash ^ (uint32_t)((unsigned char)name.ptr[i] | 0x20)) * 16777619u;
	return hash ^ hash >> 15;
}

#define SLOTS 128u
_Static_assert(ARRAY_LEN(words) < SLOTS / 2, "the table is sparse");

/* Places of `words` by their hash, 1 is the first. */
static uint8_t slots[SLOTS];

static void words_init(void)
{
	memset(slots, 0, sizeof(slots));
	for (uint32_t i = 0; i < ARRAY_LEN(words); i++) {
		uint32_t at = hash_name(span_str(words[i].name)) % SLOTS;
		while (slots[at])
			at = (at + 1) % SLOTS;
		slots[at] = (uint8_t)(i + 1);
	}
}

const struct resp_word *resp_word_find(struct span name)
{
	for (uint32_t at = hash_name(name) % SLOTS; slots[at]; at = (at + 1) % SLOTS) {
		const struct resp_word *word = &words[slots[at] - 1];
		if (span_eq_nocase(name, span_str(word->name)))
			return word;
	}
	return NULL;
}

const struct resp_word *resp_word_at(uint32_t index)
{
	return index < ARRAY_LEN(words) ? &words[index] : NULL;
}

/* ---- start and end ---- */

int resp_shared_new(const struct resp_options *options, struct resp_shared **ret_shared)
{
	CHECK(options->key && options->password_count <= RESP_PASSWORDS_MAX);
	CHECK(options->max_value <= STORE_VALUE_MAX);
	struct resp_shared *shared = mem_zalloc(1, sizeof(*shared));
	if (!shared)
		return -ENOMEM;
	shared->options = *options;
	words_init();
	int error = digest_scope_init(&shared->scope, options->scope, SPAN("cell"));
	unsigned char run_id[RESP_RUN_ID_LEN / 2];
	if (!error)
		error = hash_random(run_id, sizeof(run_id));
	if (!error)
		hex_encode(run_id, sizeof(run_id), shared->run_id);
	if (!error)
		error = resp_guesses_new(&shared->guesses);
	if (!error)
		error = -pthread_mutex_init(&shared->cursors.lock, NULL);
	if (error) {
		resp_guesses_free(shared->guesses);
		mem_free(shared);
		return error;
	}
	*ret_shared = shared;
	return 0;
}

struct resp_shared *resp_shared_free(struct resp_shared *shared)
{
	if (shared) {
		pthread_mutex_destroy(&shared->cursors.lock);
		resp_guesses_free(shared->guesses);
	}
	return mem_free(shared);
}

int resp_door_open(struct resp_door *door, struct resp_shared *shared, struct store *store,
                   const struct resp_server_options *where, struct error_text *ret_text)
{
	struct resp_server_options options = *where;
	*door = (struct resp_door){ .store = store,
		                    .shared = shared,
		                    .queued_bytes_max = RESP_QUEUED_BYTES_ALL };
	options.call_size = sizeof(struct resp_task);
	options.client_size = sizeof(struct resp_session);
	options.trusts = shared->options.password_count == 0;
	options.handle = handle;
	options.reply = reply;
	options.gone = gone;
	options.user = door;
	int error = resp_server_new(&options, &door->server, ret_text);
	if (error)
		return error;
	door->counters = resp_server_counters(door->server);
	unsigned index = atomic_fetch_add(&shared->thread_count, 1);
	CHECK(index < RESP_THREADS_MAX);
	atomic_store(&shared->counters[index], door->counters);
	return 0;
}

void resp_door_close(struct resp_door *door)
{
	door->server = resp_server_free(door->server);
}
