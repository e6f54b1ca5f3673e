/* postgres_plan: options, judged and compiled; an event's parameters. See postgres_internal.h. */
#include <ctype.h>

#include "base/mem.h"
#include "base/secret.h"
#include "base/text.h"
#include "codec/moment.h"
#include "gate/ticket.h"
#include "sink/postgres/postgres_internal.h"

#define NAME_MAX_BYTES 63u /* of an identifier of PostgreSQL's */

/* ---- SQL ---- */

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

/* "name" or "schema.name", of letters, digits and _: what needs no thought in SQL. */
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

/* ---- options ---- */

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

static struct span trimmed(struct span text)
{
	while (text.len > 0 && isspace((unsigned char)text.ptr[0]))
		text = span_skip(text, 1);
	while (text.len > 0 &&
	       (isspace((unsigned char)text.ptr[text.len - 1]) || text.ptr[text.len - 1] == ';'))
		text.len--;
	return text;
}

static int compile_statement(struct postgres_plan *plan, struct span statement,
                             struct error_text *ret_text)
{
	struct error_text text = { "" };
	struct buf sql = { 0 };
	if (statement.len == 0)
		return 0;
	statement = trimmed(statement);
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
		return error_fill(ret_text, ERR_CONFIG, "statement: has more than %u places",
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
		return error_fill(ret_text, ERR_CONFIG,
		                  "key: is the same for every event, expected a place, such as "
		                  "{ticket}");
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

static int judge_conninfo(struct postgres_plan *plan, struct error_text *ret_text)
{
	cleanup_free char *password = NULL;
	if (postgres_conninfo_check(plan->conninfo, &password, NULL) < 0)
		return error_fill(ret_text, ERR_CONFIG,
		                  "postgres: expected postgresql://USER@HOST/DATABASE or "
		                  "\"host=… dbname=… user=…\", as libpq knows it");
	if (!password || plan->password)
		return 0;
	plan->password = arena_copy(&plan->arena, span_str(password)).ptr;
	secret_wipe(password, strlen(password));
	return plan->password ? 0 : -ENOMEM;
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
	return judge_conninfo(plan, ret_text);
}

int postgres_plan_new(const struct postgres_outlet_options *options,
                      struct postgres_plan **ret_plan, struct error_text *ret_text)
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
		postgres_plan_free(plan);
		return error;
	}
	templates_seal(plan->templates);
	*ret_plan = plan;
	return 0;
}

struct postgres_plan *postgres_plan_free(struct postgres_plan *plan)
{
	if (!plan)
		return NULL;
	templates_free(plan->templates);
	arena_free(&plan->arena);
	return mem_free(plan);
}

/* ---- parameters ---- */

static void params_begin(struct postgres_params *params)
{
	params->count = 0;
	buf_clear(&params->text);
}

/* A parameter from `start` on; a NUL ends it, for those that are text. */
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

/* What the sender wrote may be no text at all, but in a column for people it must be. */
static void add_clean(struct postgres_params *params, struct span text)
{
	size_t start = params->text.len;
	buf_append_span(&params->text, text);
	if (!params->text.failed)
		params->text.len = start +
		                   outlet_clean(params->text.ptr + start, params->text.len - start);
	params_add(params, text.len > 0 ? start : SIZE_MAX, 0);
}

static void add_time(struct postgres_params *params, struct span text)
{
	char time[TEXT_TIME_LEN];
	uint64_t ms;
	if (moment_parse(text, &ms) != 0) {
		params_add(params, SIZE_MAX, 0);
		return;
	}
	text_time(time, ms);
	add_text(params, span_of(time, sizeof(time)));
}

static void add_payload(struct postgres_params *params, struct span payload, bool json)
{
	size_t start = params->text.len;
	if (json) {
		add_text(params, payload);
		params_add(params, SIZE_MAX, 1);
		return;
	}
	params_add(params, SIZE_MAX, 0);
	buf_append_span(&params->text, payload);
	params_add(params, start, 1);
}

static void add_event(struct postgres_params *params, const struct outlet_attempt *attempt,
                      bool bytes)
{
	const struct span *texts = attempt->letter.texts;
	char ticket[TICKET_TEXT_LEN];
	ticket_text(attempt->event, ticket);
	add_text(params, span_of(ticket, sizeof(ticket)));
	add_text(params, attempt->source);
	add_clean(params, texts[LETTER_ID]);
	add_clean(params, texts[LETTER_TYPE]);
	add_clean(params, texts[LETTER_ENTITY]);
	add_clean(params, texts[LETTER_CONTENT_TYPE]);
	add_time(params, texts[LETTER_TIME]);
	add_payload(params, attempt->payload, attempt->json && !bytes);
}

static int begin_run(struct template_run *run, const struct postgres_plan *plan,
                     const struct outlet_attempt *attempt, struct template_event *event,
                     struct error_text *ret_text)
{
	*event = outlet_template_event(attempt);
	return template_begin(run, plan->templates, event, ret_text);
}

int postgres_params_insert(struct postgres_params *params, const struct postgres_plan *plan,
                           const struct outlet_attempt *attempt, bool bytes,
                           struct error_text *ret_text)
{
	struct template_event event;
	params_begin(params);
	add_text(params, span_str(plan->name));
	int error = begin_run(&params->run, plan, attempt, &event, ret_text);
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

int postgres_params_effect(struct postgres_params *params, const struct postgres_plan *plan,
                           const struct outlet_attempt *attempt, struct error_text *ret_text)
{
	struct template_event event;
	params_begin(params);
	int error = begin_run(&params->run, plan, attempt, &event, ret_text);
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
