/*
 * postgres_outlet: see postgres_outlet.h.
 *
 * The file, from top to bottom: the plan (options, checked and compiled); the connection and
 * what is prepared on it; an event's parameters; transactions and their results; the contract
 * of outlet.h.
 */
#include "sink/postgres/postgres_outlet.h"

#include <ctype.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/text.h"
#include "codec/moment.h"
#include "gate/template.h"
#include "gate/ticket.h"
#include "link/postgres_link.h"
#include "sys/clock.h"

#define BATCH_EVENTS 512u /* of one transaction */
#define BATCH_BYTES (4u << 20)
#define POSTGRES_PARAMS_MAX 64u
#define NAME_MAX_BYTES 63u /* of an identifier of PostgreSQL's */
#define UNDEFINED_TABLE "42P01"

struct postgres_plan {
	struct arena arena;
	struct templates *templates;
	const char *name, *conninfo, *password; /* password: NULL, or what texts must not hold */
	bool own_password;                      /* it is not in conninfo */
	const char *insert;                     /* the key, or the row of the event */
	const char *create;                     /* DDL; NULL: never */
	const char *statement;                  /* with $1 …; NULL: the row is the only effect */
	uint32_t statement_number, key_number;  /* templates */
	uint32_t connect_ms, timeout_ms;
};

/* Parameters of one execution. */
struct postgres_params {
	uint32_t count;
	size_t starts[POSTGRES_PARAMS_MAX]; /* SIZE_MAX: NULL */
	int lengths[POSTGRES_PARAMS_MAX];
	int formats[POSTGRES_PARAMS_MAX]; /* 1: bytes */
	const char *values[POSTGRES_PARAMS_MAX];
	struct buf text;
	struct template_run run;
};

struct postgres_outlet {
	struct outlet outlet;
	struct postgres_plan *plan;
	struct postgres_link link;
	struct postgres_params params;
};

/* Some attempts of a chain, and the result of their transaction. */
struct batch {
	struct outlet_attempt *first, *last; /* last: the first that is not in it */
	uint32_t count;
	bool bytes;      /* payloads as bytes */
	bool committing; /* COMMIT was sent */
	int error;       /* of the connection, or -EPROTO: the server rejected it; 0: done */
	char state[6];   /* SQLSTATE of that */
	bool unfit;      /* an event can never be a row */
	struct error_text text;
};

/* An attempt's `own`: whether its key is new, so that its effect is still to be done. */
enum { KEY_KNOWN = 0, KEY_NEW = 1 };

/* ---- the plan ---- */

static void put_table(struct buf *out, struct span table)
{
	buf_append_char(out, '"');
	for (size_t i = 0; i < table.len; i++) {
		if (table.ptr[i] == '.')
			buf_append_span(out, SPAN("\".\""));
		else
			buf_append_char(out, table.ptr[i]);
	}
	buf_append_char(out, '"');
}

/* "name" or "schema.name", of letters, digits and _: needs no quoting in SQL. */
static bool is_table(struct span table)
{
	size_t part = 0;
	uint32_t dots = 0;
	for (size_t i = 0; i < table.len; i++) {
		char c = table.ptr[i];
		bool letter = isalnum((unsigned char)c) || c == '_';
		dots += c == '.';
		part = letter ? part + 1 : 0;
		if ((!letter && c != '.') || part > NAME_MAX_BYTES)
			return false;
	}
	return part > 0 && table.ptr[0] != '.' && dots < 2;
}

static const char *keep(struct postgres_plan *plan, struct buf *text)
{
	struct span copy = text->failed ? SPAN_EMPTY : arena_copy(&plan->arena, buf_span(text));
	buf_free(text);
	return copy.ptr;
}

static const char *write_insert(struct postgres_plan *plan, struct span table)
{
	struct buf out = { 0 };
	buf_append_span(&out, SPAN("INSERT INTO "));
	put_table(&out, table);
	if (plan->statement)
		buf_append_span(&out, SPAN(" (sink, key) VALUES ($1, $2)"));
	else
		buf_append_span(&out, SPAN(" (sink, key, ticket, source, id, type, entity,"
		                           " content_type, event_time, payload, body)"
		                           " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9,"
		                           " $10, $11)"));
	buf_append_span(&out, SPAN(" ON CONFLICT (sink, key) DO NOTHING"));
	return keep(plan, &out);
}

static const char *write_create(struct postgres_plan *plan, struct span table)
{
	struct buf out = { 0 };
	buf_append_span(&out, SPAN("CREATE TABLE IF NOT EXISTS "));
	put_table(&out, table);
	buf_append_span(&out, SPAN(" (sink text NOT NULL, key text NOT NULL, "));
	if (!plan->statement)
		buf_append_span(&out, SPAN("ticket text NOT NULL, source text NOT NULL, id text,"
		                           " type text, entity text, content_type text,"
		                           " event_time timestamptz, payload jsonb, body bytea, "));
	buf_append_span(&out, SPAN("at timestamptz NOT NULL DEFAULT now(),"
	                           " PRIMARY KEY (sink, key))"));
	return keep(plan, &out);
}

static bool may_begin(struct span statement)
{
	static const char *const words[] = { "insert", "update", "delete", "merge",
		                             "select", "call",   "with" };
	size_t len = 0;
	while (len < statement.len && isalpha((unsigned char)statement.ptr[len]))
		len++;
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (span_eq_nocase(span_of(statement.ptr, len), span_str(words[i])))
			return true;
	return false;
}

static int compile_statement(struct postgres_plan *plan, struct span statement,
                             struct error_text *ret_text)
{
	struct error_text text = { "" };
	struct buf sql = { 0 };
	if (statement.len == 0)
		return 0;
	while (statement.len > 0 && isspace((unsigned char)statement.ptr[0]))
		statement = span_skip(statement, 1);
	while (statement.len > 0 && (isspace((unsigned char)statement.ptr[statement.len - 1]) ||
	                             statement.ptr[statement.len - 1] == ';'))
		statement.len--;
	if (!may_begin(statement))
		return error_fill(ret_text, ERR_CONFIG,
		                  "statement: expected one that begins with INSERT, UPDATE, "
		                  "DELETE, MERGE, SELECT, CALL or WITH");
	int error = templates_add(plan->templates, statement, TEMPLATE_SQL, &plan->statement_number,
	                          &text);
	if (error)
		return error == -ENOMEM
		               ? error
		               : error_fill(ret_text, ERR_CONFIG, "statement: %s", text.text);
	if (template_place_count(plan->templates, plan->statement_number) > POSTGRES_PARAMS_MAX)
		return error_fill(ret_text, ERR_CONFIG, "statement: has more than %u placeholders",
		                  POSTGRES_PARAMS_MAX);
	template_sample(plan->templates, plan->statement_number, &sql);
	plan->statement = keep(plan, &sql);
	return plan->statement ? 0 : -ENOMEM;
}

static int compile_key(struct postgres_plan *plan, struct span key, struct error_text *ret_text)
{
	struct error_text text = { "" };
	int error = templates_add(plan->templates, key.len ? key : SPAN("{ticket}"),
	                          TEMPLATE_HEADER, &plan->key_number, &text);
	if (!error && template_is_fixed(plan->templates, plan->key_number))
		return error_fill(
			ret_text, ERR_CONFIG,
			"key: is the same for every event, expected a placeholder, such as {ticket}");
	if (!error && template_has_attempt(plan->templates, plan->key_number))
		return error_fill(ret_text, ERR_CONFIG,
		                  "key: {attempt} makes another key with each attempt, so each "
		                  "would have its effect");
	if (error && error != -ENOMEM)
		return error_fill(ret_text, ERR_CONFIG, "key: %s", text.text);
	return error;
}

static int compile_table(struct postgres_plan *plan, const struct postgres_outlet_options *options,
                         struct error_text *ret_text)
{
	struct span table = options->table;
	if (table.len == 0)
		table = plan->statement ? SPAN("stile_effects") : SPAN("stile_events");
	if (!is_table(table))
		return error_fill(ret_text, ERR_CONFIG,
		                  "table: expected a name, or schema.name, of letters, digits "
		                  "and _");
	plan->insert = write_insert(plan, table);
	plan->create = options->no_create ? NULL : write_create(plan, table);
	return plan->insert && (options->no_create || plan->create) ? 0 : -ENOMEM;
}

static int copy_options(struct postgres_plan *plan, const struct postgres_outlet_options *options,
                        struct error_text *ret_text)
{
	plan->connect_ms = options->connect_ms ? options->connect_ms : 10000;
	plan->timeout_ms = options->timeout_ms ? options->timeout_ms : 30000;
	plan->name = arena_copy(&plan->arena, options->name).ptr;
	plan->conninfo = arena_copy(&plan->arena, options->conninfo).ptr;
	plan->own_password = options->password.len > 0;
	if (plan->own_password)
		plan->password = arena_copy(&plan->arena, options->password).ptr;
	if (!plan->name || !plan->conninfo || (plan->own_password && !plan->password))
		return -ENOMEM;
	cleanup_free char *password = NULL;
	if (postgres_conninfo_check(plan->conninfo, &password, NULL) < 0)
		return error_fill(
			ret_text, ERR_CONFIG,
			"postgres: expected postgresql://USER@HOST/DATABASE or \"host=… dbname=… user=…\", a connection string of libpq");
	if (!password || plan->password)
		return 0;
	plan->password = arena_copy(&plan->arena, span_str(password)).ptr;
	secret_wipe(password, strlen(password));
	return plan->password ? 0 : -ENOMEM;
}

static struct postgres_plan *plan_free(struct postgres_plan *plan)
{
	if (!plan)
		return NULL;
	templates_free(plan->templates);
	arena_free(&plan->arena);
	return mem_free(plan);
}

static int plan_new(const struct postgres_outlet_options *options, struct postgres_plan **ret_plan,
                    struct error_text *ret_text)
{
	struct postgres_plan *plan = mem_zalloc(1, sizeof(*plan));
	if (!plan)
		return -ENOMEM;
	plan->arena.wipe = true;
	int error = templates_new(&plan->templates);
	if (!error)
		error = copy_options(plan, options, ret_text);
	if (!error)
		error = compile_statement(plan, options->statement, ret_text);
	if (!error)
		error = compile_key(plan, options->key, ret_text);
	if (!error)
		error = compile_table(plan, options, ret_text);
	if (error) {
		plan_free(plan);
		return error;
	}
	templates_seal(plan->templates);
	*ret_plan = plan;
	return 0;
}

/* ---- the connection ---- */

static int prepare(const struct postgres_plan *plan, struct postgres_link *link,
                   struct postgres_answer *answer)
{
	int error = postgres_prepare(link, "stile_insert", plan->insert, answer);
	if (error && plan->create && strcmp(answer->state, UNDEFINED_TABLE) == 0) {
		error = postgres_command(link, plan->create, answer);
		if (!error)
			error = postgres_prepare(link, "stile_insert", plan->insert, answer);
	}
	if (!error && plan->statement)
		error = postgres_prepare(link, "stile_effect", plan->statement, answer);
	return error;
}

/* Connected, prepared and in pipeline mode when it returns 0; else a text. */
static int plan_connect(const struct postgres_plan *plan, struct postgres_link *link,
                        struct error_text *ret_text)
{
	struct postgres_answer answer = { 0 };
	int error = postgres_link_open(link, ret_text);
	if (error)
		return error;
	error = prepare(plan, link, &answer);
	if (!error)
		error = postgres_link_pipeline(link);
	if (error == ERR_CLOSING)
		error_fill(ret_text, error, "interrupted");
	else if (error == -ETIMEDOUT)
		error_fill(ret_text, error, "the database is not ready: no answer within %u ms",
		           plan->connect_ms);
	else if (error)
		error_fill(ret_text, error, "the database is not ready: %.300s",
		           answer.text.text[0] ? answer.text.text : error_name(error));
	if (error)
		postgres_link_close(link);
	postgres_answer_free(&answer);
	return error;
}

/* ---- parameters ---- */

/* A parameter from `start` to the end of the text, and a NUL, for those that are text. */
static void params_add(struct postgres_params *params, size_t start, int format)
{
	CHECK(params->count < POSTGRES_PARAMS_MAX);
	uint32_t i = params->count++;
	params->starts[i] = start;
	params->formats[i] = format;
	params->lengths[i] = start == SIZE_MAX ? 0 : (int)(params->text.len - start);
	if (start != SIZE_MAX)
		buf_append_char(&params->text, '\0');
}

static int params_end(struct postgres_params *params)
{
	if (params->text.failed)
		return -ENOMEM;
	for (uint32_t i = 0; i < params->count; i++)
		params->values[i] = params->starts[i] == SIZE_MAX
		                            ? NULL
		                            : params->text.ptr + params->starts[i];
	return 0;
}

static void add_text(struct postgres_params *params, struct span text)
{
	size_t start = params->text.len;
	buf_append_span(&params->text, text);
	params_add(params, start, 0);
}

/* What the sender wrote may be invalid UTF-8; a text column takes none. */
static void add_clean(struct postgres_params *params, struct span text)
{
	size_t start = params->text.len;
	buf_append_span(&params->text, text);
	if (!params->text.failed)
		params->text.len = start +
		                   outlet_clean(params->text.ptr + start, params->text.len - start);
	params_add(params, text.len > 0 ? start : SIZE_MAX, 0);
}

static void add_event(struct postgres_params *params, const struct outlet_attempt *attempt,
                      bool bytes)
{
	const struct span *texts = attempt->metadata.texts;
	char ticket[TICKET_TEXT_LEN];
	ticket_text(attempt->event, ticket);
	add_text(params, span_of(ticket, sizeof(ticket)));
	add_text(params, attempt->source);
	add_clean(params, texts[METADATA_ID]);
	add_clean(params, texts[METADATA_TYPE]);
	add_clean(params, texts[METADATA_ENTITY]);
	add_clean(params, texts[METADATA_CONTENT_TYPE]);
	uint64_t ms;
	if (moment_parse(texts[METADATA_TIME], &ms) == 0) {
		char time[TEXT_TIME_LEN];
		text_time(time, ms);
		add_text(params, span_of(time, sizeof(time)));
	} else {
		params_add(params, SIZE_MAX, 0);
	}
	if (attempt->json && !bytes) {
		add_text(params, attempt->payload);
		params_add(params, SIZE_MAX, 1);
		return;
	}
	params_add(params, SIZE_MAX, 0);
	size_t start = params->text.len;
	buf_append_span(&params->text, attempt->payload);
	params_add(params, start, 1);
}

/* ERR_INVALID and a text: the event can never be a row. `bytes`: the payload is no jsonb. */
static int params_insert(struct postgres_params *params, const struct postgres_plan *plan,
                         const struct outlet_attempt *attempt, bool bytes,
                         struct error_text *ret_text)
{
	struct template_event event = outlet_template_event(attempt);
	params->count = 0;
	buf_clear(&params->text);
	add_text(params, span_str(plan->name));
	int error = template_begin(&params->run, plan->templates, &event, ret_text);
	size_t start = params->text.len;
	if (!error)
		error = template_put(&params->run, plan->key_number, &params->text, ret_text);
	if (error)
		return error;
	params_add(params, start, 0);
	if (!plan->statement)
		add_event(params, attempt, bytes);
	return params_end(params);
}

static int params_effect(struct postgres_params *params, const struct postgres_plan *plan,
                         const struct outlet_attempt *attempt, struct error_text *ret_text)
{
	struct template_event event = outlet_template_event(attempt);
	params->count = 0;
	buf_clear(&params->text);
	int error = template_begin(&params->run, plan->templates, &event, ret_text);
	uint32_t places = template_place_count(plan->templates, plan->statement_number);
	for (uint32_t i = 0; !error && i < places; i++) {
		size_t start = params->text.len;
		bool there = false;
		error = template_value(&params->run, plan->statement_number, i, &params->text,
		                       &there, ret_text);
		if (!error)
			params_add(params, there ? start : SIZE_MAX, 0);
	}
	return error ? error : params_end(params);
}

/* ---- results ---- */

/* The answer to one statement of the pipeline. True: success. */
static bool take_result(struct postgres_outlet *own, struct batch *batch,
                        struct postgres_answer *answer, bool commit)
{
	int error = commit ? postgres_take_commit(&own->link, answer)
	                   : postgres_take(&own->link, answer);
	bool lost = error < 0 && error != -EPROTO;
	/* The first error counts, unless the connection is lost later. */
	if (error < 0 && batch->error == 0) {
		snprintf(batch->state, sizeof(batch->state), "%s", answer->state);
		batch->text = answer->text;
		batch->error = error;
	} else if (lost && batch->error == -EPROTO) {
		batch->error = error;
	}
	return error == 0;
}

static bool take_plain(struct postgres_outlet *own, struct batch *batch)
{
	struct postgres_answer answer = { 0 };
	bool fine = take_result(own, batch, &answer, false);
	postgres_answer_free(&answer);
	return fine;
}

static bool take_commit(struct postgres_outlet *own, struct batch *batch)
{
	struct postgres_answer answer = { 0 };
	bool fine = take_result(own, batch, &answer, true);
	postgres_answer_free(&answer);
	if (!fine && batch->error == 0)
		batch->error = -EPROTO;
	return fine;
}

static void take_sync(struct postgres_outlet *own, struct batch *batch)
{
	int error = postgres_take_sync(&own->link);
	if (error && (batch->error == 0 || batch->error == -EPROTO))
		batch->error = -ECONNRESET;
}

static bool is_connected(const struct batch *batch)
{
	return batch->error == 0 || batch->error == -EPROTO;
}

/* ---- sending ---- */

/* An event that cannot be a row ends its batch. */
static void send_row(struct postgres_outlet *own, struct batch *batch,
                     const struct outlet_attempt *attempt, bool effect)
{
	struct postgres_params *params = &own->params;
	int error = effect ? params_effect(params, own->plan, attempt, &batch->text)
	                   : params_insert(params, own->plan, attempt, batch->bytes, &batch->text);
	if (error) {
		batch->unfit = error == ERR_INVALID;
		batch->error = error;
		return;
	}
	struct postgres_texts texts = { .values = params->values,
		                        .lengths = params->lengths,
		                        .formats = params->formats,
		                        .count = params->count };
	if (!postgres_send_texts(&own->link, effect ? "stile_effect" : "stile_insert", &texts))
		batch->error = -ECONNRESET;
}

static void send_end(struct postgres_outlet *own, struct batch *batch, bool commit)
{
	bool fine = !commit || postgres_send(&own->link, "COMMIT");
	batch->committing |= commit;
	fine = fine && postgres_send_sync(&own->link);
	if (!fine && batch->error == 0)
		batch->error = -ECONNRESET;
}

/* BEGIN, then keys or rows, and COMMIT if no statement follows. */
static void run_inserts(struct postgres_outlet *own, struct batch *batch)
{
	bool commit = !own->plan->statement;
	if (!postgres_send(&own->link, "BEGIN"))
		batch->error = -ECONNRESET;
	for (struct outlet_attempt *at = batch->first; !batch->error && at != batch->last;
	     at = at->next)
		send_row(own, batch, at, false);
	if (batch->error)
		return;
	send_end(own, batch, commit);
	if (!batch->error)
		take_plain(own, batch);
	for (struct outlet_attempt *at = batch->first; at != batch->last && is_connected(batch);
	     at = at->next) {
		struct postgres_answer answer = { 0 };
		bool fine = take_result(own, batch, &answer, false);
		at->own = fine && postgres_affected(&answer) == 1 ? KEY_NEW : KEY_KNOWN;
		postgres_answer_free(&answer);
	}
	if (commit && is_connected(batch))
		take_commit(own, batch);
	if (is_connected(batch))
		take_sync(own, batch);
}

/* The statements of those whose keys are new, and COMMIT. */
static void run_effects(struct postgres_outlet *own, struct batch *batch)
{
	for (struct outlet_attempt *at = batch->first; !batch->error && at != batch->last;
	     at = at->next)
		if (at->own == KEY_NEW)
			send_row(own, batch, at, true);
	if (batch->error)
		return;
	send_end(own, batch, true);
	for (struct outlet_attempt *at = batch->first; at != batch->last && is_connected(batch);
	     at = at->next)
		if (at->own == KEY_NEW)
			take_plain(own, batch);
	if (is_connected(batch))
		take_commit(own, batch);
	if (is_connected(batch))
		take_sync(own, batch);
}

static bool has_class(const char *state, const char *classes)
{
	for (; *classes; classes += 2)
		if (memcmp(state, classes, 2) == 0)
			return true;
	return false;
}

static bool is_data(const struct batch *batch)
{
	return batch->unfit || (batch->error == -EPROTO && has_class(batch->state, "2122234454P0"));
}

static bool is_collision(const struct batch *batch)
{
	return batch->error == -EPROTO &&
	       (has_class(batch->state, "40") || strcmp(batch->state, "55P03") == 0 ||
	        strcmp(batch->state, "57014") == 0);
}

static void run(struct postgres_outlet *own, struct batch *batch)
{
	/* A single event that cannot be a row is noticed before anything is sent. */
	struct postgres_params *params = &own->params;
	if (batch->count == 1)
		batch->error = params_insert(params, own->plan, batch->first, batch->bytes,
		                             &batch->text);
	if (batch->count == 1 && batch->error == 0 && own->plan->statement)
		batch->error = params_effect(params, own->plan, batch->first, &batch->text);
	if (batch->error) {
		batch->unfit = batch->error == ERR_INVALID;
		return;
	}
	postgres_link_limit(&own->link, own->plan->timeout_ms);
	run_inserts(own, batch);
	if (!batch->error && own->plan->statement)
		run_effects(own, batch);
	if (batch->error == 0)
		return;
	/* A connection in doubt is closed, and so is one where the server rejects more than an
	 * event: prepared statements may be lost, or another server may be the primary now. */
	bool stays = is_data(batch) || is_collision(batch);
	if (!stays || batch->unfit || postgres_rollback(&own->link) != 0)
		postgres_link_close(&own->link);
}

static void batch_result(const struct batch *batch, struct outlet_result *result)
{
	bool lost = !is_connected(batch) && !batch->unfit;
	result->answer = OUTLET_NOT_SENT;
	if (batch->error == 0)
		result->answer = OUTLET_DONE;
	else if (batch->unfit)
		result->permanent = true;
	else if (lost && batch->committing)
		result->answer = OUTLET_UNKNOWN;
	else if (is_data(batch) || is_collision(batch))
		result->answer = OUTLET_REFUSED;
	if (is_data(batch) && strcmp(batch->state, "23503") != 0)
		result->permanent = true;
	if (batch->error == 0)
		return;
	char text[ERROR_TEXT_MAX + 16];
	if (batch->state[0])
		snprintf(text, sizeof(text), "%s: %s", batch->state, batch->text.text);
	else
		snprintf(text, sizeof(text), "%s",
		         batch->text.text[0] ? batch->text.text : error_name(batch->error));
	outlet_result_text(result, span_str(text));
}

static void finish_batch(const struct batch *batch, uint64_t start_ns)
{
	struct outlet_result result = { 0 };
	uint64_t took_us = (clock_monotonic_ns() - start_ns) / 1000;
	batch_result(batch, &result);
	result.latency_us = took_us < UINT32_MAX ? (uint32_t)took_us : UINT32_MAX;
	for (struct outlet_attempt *at = batch->first; at != batch->last;) {
		struct outlet_attempt *next = at->next;
		at->result = result;
		at->done(at);
		at = next;
	}
}

/* ---- batches and the contract ---- */

static struct batch cut_batch(struct outlet_attempt *chain, uint32_t most)
{
	struct batch batch = { .first = chain };
	size_t bytes = 0;
	while (chain && batch.count < most && (batch.count == 0 || bytes < BATCH_BYTES)) {
		bytes += chain->payload.len;
		chain = chain->next;
		batch.count++;
	}
	batch.last = chain;
	return batch;
}

static void connect_and_run(struct postgres_outlet *own, struct batch *batch)
{
	struct pollfd look = { .fd = own->link.interrupt_fd, .events = POLLIN };
	if (poll(&look, 1, 0) > 0) {
		batch->error = error_fill(&batch->text, ERR_CLOSING, "interrupted");
	} else if (!postgres_link_is_alive(&own->link)) {
		postgres_link_close(&own->link);
		batch->error = plan_connect(own->plan, &own->link, &batch->text);
	}
	if (batch->error == 0)
		run(own, batch);
}

/* An event that jsonb rejects for a character is kept as bytes. */
static void run_single(struct postgres_outlet *own, struct outlet_attempt *attempt)
{
	uint64_t start_ns = clock_monotonic_ns();
	struct batch batch = cut_batch(attempt, 1);
	connect_and_run(own, &batch);
	if (is_data(&batch) && !batch.unfit && !own->plan->statement && attempt->json) {
		batch = cut_batch(attempt, 1);
		batch.bytes = true;
		connect_and_run(own, &batch);
	}
	finish_batch(&batch, start_ns);
}

static struct outlet_attempt *run_batch(struct postgres_outlet *own, struct outlet_attempt *chain)
{
	uint64_t start_ns = clock_monotonic_ns();
	struct batch batch = cut_batch(chain, BATCH_EVENTS);
	struct outlet_attempt *last = batch.last;
	if (batch.count > 1) {
		connect_and_run(own, &batch);
		if (!is_data(&batch) && !is_collision(&batch)) {
			finish_batch(&batch, start_ns);
			return last;
		}
	}
	while (chain != last) {
		struct outlet_attempt *next = chain->next;
		run_single(own, chain);
		chain = next;
	}
	return last;
}

static void send_chain(struct outlet *base, struct outlet_attempt *chain)
{
	struct postgres_outlet *own = container_of(base, struct postgres_outlet, outlet);
	while (chain)
		chain = run_batch(own, chain);
}

static void interrupt(struct outlet *base)
{
	struct postgres_outlet *own = container_of(base, struct postgres_outlet, outlet);
	uint64_t one = 1;
	ssize_t n = write(own->link.interrupt_fd, &one, sizeof(one));
	(void)n; /* the counter is full: it is readable already */
}

static void free_outlet(struct outlet *base)
{
	struct postgres_outlet *own = container_of(base, struct postgres_outlet, outlet);
	postgres_link_close(&own->link);
	if (own->link.interrupt_fd >= 0)
		close(own->link.interrupt_fd);
	buf_free(&own->params.text);
	plan_free(own->plan);
	mem_free(own);
}

static const struct outlet_methods methods = {
	.send = send_chain,
	.interrupt = interrupt,
	.free = free_outlet,
};

int postgres_outlet_check(const struct postgres_outlet_options *options,
                          struct error_text *ret_text)
{
	struct postgres_plan *plan = NULL;
	int error = plan_new(options, &plan, ret_text);
	plan_free(plan);
	return error;
}

int postgres_outlet_new(const struct postgres_outlet_options *options, struct outlet **ret_outlet,
                        struct error_text *ret_text)
{
	struct postgres_outlet *own = mem_zalloc(1, sizeof(*own));
	if (!own)
		return -ENOMEM;
	own->outlet =
		(struct outlet){ .methods = &methods, .batch_max = UINT32_MAX, .immediate = true };
	own->link.interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int error = own->link.interrupt_fd >= 0 ? 0 : -errno;
	if (!error)
		error = plan_new(options, &own->plan, ret_text);
	if (error) {
		free_outlet(&own->outlet);
		return error;
	}
	own->link.options = (struct postgres_link_options){
		.conninfo = own->plan->conninfo,
		.password = own->plan->password,
		.own_password = own->plan->own_password,
		.connect_ms = own->plan->connect_ms,
		.statement_ms = own->plan->timeout_ms,
		.lock_ms = own->plan->timeout_ms / 2 + 1,
	};
	*ret_outlet = &own->outlet;
	return 0;
}
