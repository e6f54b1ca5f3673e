/* resp: see resp.h. From a command to a task, to the store, and back. */
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

/* Texts of peers go into errors as C texts, as far as Redis takes them. */
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
	resp_fail(run, RESP_OOM, "no memory for the command now; nothing was done");
}

static void fail_unknown(struct resp_run *run)
{
	char rest[160];
	int len = 0;
	rest[0] = 0;
	for (uint32_t i = 1; i < run->count && len < 128; i++)
		len += snprintf(rest + len, sizeof(rest) - (size_t)len, "'%.*s' ",
		                shown(run->args[i], 128 - len), run->args[i].ptr);
	resp_fail(run, RESP_ERR, "unknown command '%.*s', with args beginning with: %s",
	          shown(run->args[0], 128), run->args[0].ptr, rest);
}

/* ---- errors of the store ---- */

void resp_write_store_error(struct resp_door *door, struct buf *out, int error)
{
	enum resp_error kind = RESP_ERR;
	const char *text = "the command cannot be done";
	switch (error) {
	case ERR_FULL:
	case -ENOMEM:
		kind = RESP_OOM;
		text = "the store has no room for it now; nothing was changed";
		break;
	case ERR_POISONED:
		kind = RESP_MISCONF;
		text = "a write to disk failed; nothing was changed";
		break;
	case ERR_AWAY:
		kind = RESP_LOADING;
		text = "the store is away; the command was done wholly or not at all";
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

/* One of several keys: what came of the others is not told. */
static void write_partly(struct resp_door *door, struct buf *out)
{
	count_error(door, RESP_OOM);
	resp_write_error(out, RESP_OOM, SPAN("not all keys could be done; some may be changed"));
}

bool resp_write_failure(struct resp_job *job, struct buf *out)
{
	for (uint32_t i = 0; i < job->count; i++) {
		if (likely(job->cells[i].op.error == 0))
			continue;
		if (job->count > 1)
			write_partly(job->task->door, out);
		else
			resp_write_store_error(job->task->door, out, job->cells[i].op.error);
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
	resp_fail(run, RESP_ERR, "the key has %zu bytes; stile keeps keys of up to %u", key.len,
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

/* A port that is full completes inside submit: the last must be the last. */
static void submit_job(struct resp_job *job)
{
	struct store *store = job->task->door->store;
	for (uint32_t i = 0; i < job->count; i++)
		store_submit(store, &job->cells[i].op);
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

static void refuse(struct resp_run *run)
{
	if (run->session->in_multi)
		run->session->spoiled = true;
}

/* An EXEC that cannot be done is the end of its transaction. */
static void fail_count(struct resp_run *run)
{
	bool is_exec = run->word->run == resp_run_exec;
	if (is_exec)
		resp_discard(run->door, run->session);
	resp_fail(run, is_exec ? RESP_EXECABORT : RESP_ERR,
	          "%swrong number of arguments for '%s' command",
	          is_exec ? "Transaction discarded because of: " : "", run->word->name);
}

/* A page in a browser can send a body of its choice to a port of its machine: what follows the
 * head of a request of HTTP is nobody's command. */
static bool is_http(struct span name)
{
	return span_eq_nocase(name, SPAN("post")) || span_eq_nocase(name, SPAN("host:"));
}

static void fail_http(struct resp_run *run)
{
	resp_fail(run, RESP_ERR, "this is HTTP; here is the protocol of Redis");
	resp_call_ends(run->task->call);
}

/* False: the reply is why not. */
static bool may_run(struct resp_run *run)
{
	const struct resp_word *word = run->word;
	if (unlikely(!word)) {
		if (is_http(run->args[0]))
			fail_http(run);
		else
			fail_unknown(run);
		return false;
	}
	bool fits = word->arity >= 0 ? run->count == (uint32_t)word->arity
	                             : run->count >= (uint32_t)-word->arity;
	if (unlikely(!fits)) {
		fail_count(run);
		return false;
	}
	if (unlikely(!run->client->trusted) && !(word->flags & RESP_FOR_STRANGERS)) {
		resp_fail(run, RESP_NOAUTH, "Authentication required.");
		return false;
	}
	return true;
}

static void run_command(struct resp_run *run)
{
	if (!may_run(run))
		refuse(run);
	else if (unlikely(run->session->in_multi) && !(run->word->flags & RESP_NEVER_QUEUED))
		resp_queue(run);
	else
		run->word->run(run);
}

static const struct resp_word *find_word(struct resp_door *door, struct span name)
{
	const struct resp_word *last = door->last;
	if (likely(last && span_eq_nocase(name, span_str(last->name))))
		return last;
	const struct resp_word *word = resp_word_find(name);
	if (word)
		door->last = word;
	return word;
}

static uint32_t count_operations(const struct resp_task *task)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < task->job_count; i++)
		count += task->jobs[i].count + (task->jobs[i].scanning != NULL);
	return count;
}

/* All operations of a task, or none: a store that takes some of them only would have done
 * half of a transaction. */
static uint32_t place_all(struct resp_run *run, uint32_t operations)
{
	if (likely(operations <= store_room(run->door->store)))
		return operations;
	resp_take_back(run->task);
	resp_fail_memory(run);
	return 0;
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
		.word = find_word(door, args[0]),
		.args = args,
		.count = count,
	};
	run_command(&run);
	uint32_t operations = count_operations(task);
	if (unlikely(operations > 1))
		operations = place_all(&run, operations);
	/* One more than there are, so that the task is not done before all are submitted. */
	task->left = operations + 1;
	for (uint32_t i = 0; i < task->job_count; i++) {
		submit_job(&task->jobs[i]);
		if (unlikely(task->jobs[i].scanning))
			resp_scan_submit(&task->jobs[i]);
	}
	finish(task);
}

static void end_job(struct resp_job *job)
{
	if (unlikely(job->scanning))
		resp_scan_free(job);
	for (uint32_t i = 0; i < job->count; i++)
		if (job->cells[i].value.ptr)
			buf_free(&job->cells[i].value);
}

static void reply(struct resp_call *call, struct buf *out)
{
	struct resp_task *task = call->scratch;
	if (unlikely(task->exec))
		resp_write_array(out, task->job_count);
	for (uint32_t i = 0; i < task->job_count; i++) {
		task->jobs[i].write(&task->jobs[i], out);
		end_job(&task->jobs[i]);
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

/* ---- start and end ---- */

static int make_run_id(char ret_id[static RESP_RUN_ID_LEN])
{
	unsigned char bytes[RESP_RUN_ID_LEN / 2];
	int error = hash_random(bytes, sizeof(bytes));
	if (error)
		return error;
	hex_encode(bytes, sizeof(bytes), ret_id);
	return 0;
}

int resp_shared_new(const struct resp_options *options, struct resp_shared **ret_shared)
{
	CHECK(options->key && options->password_count <= RESP_PASSWORDS_MAX);
	CHECK(options->max_value <= STORE_VALUE_MAX);
	struct resp_shared *shared = mem_zalloc(1, sizeof(*shared));
	if (!shared)
		return -ENOMEM;
	shared->options = *options;
	resp_words_init();
	int error = digest_scope_init(&shared->scope, options->scope, SPAN("cell"));
	if (!error)
		error = make_run_id(shared->run_id);
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
