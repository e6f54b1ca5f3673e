/* template: how texts become pieces, and how values are put into their places. See
 * template.h. */
#include "gate/template.h"

#include <string.h>

#include "base/mem.h"
#include "base/secret.h"
#include "base/text.h"
#include "codec/url.h"
#include "gate/ticket.h"

enum template_kind {
	TEMPLATE_FIXED = 0,
	TEMPLATE_TICKET,
	TEMPLATE_SOURCE,
	TEMPLATE_ATTEMPT,
	TEMPLATE_METADATA, /* `which` is its field */
	TEMPLATE_PATH,     /* `which` is its node */
	TEMPLATE_PAYLOAD,
};

struct template_piece {
	enum template_kind kind;
	uint8_t which;
	bool quoted;      /* JSON: it is between quotes */
	struct span text; /* FIXED: the text; else as written, for messages */
};

struct template
{
	char *copy; /* of the text; pieces point into it */
	size_t len;
	enum template_form form;
	uint32_t first, count; /* pieces */
};

/* What a byte of SQL is part of. */
enum template_sql { SQL_CODE = 0, SQL_TEXT, SQL_NAME, SQL_LINE, SQL_BLOCK };

struct templates {
	uint32_t count;
	uint32_t piece_count;
	bool wants_paths;
	bool sealed;
	struct template list[TEMPLATES_MAX];
	struct template_piece pieces[TEMPLATE_PIECES_MAX];
	struct json_plan plan;
};

/* A text on its way to pieces. */
struct compiler {
	struct templates *templates;
	struct span text;
	size_t at;
	enum template_form form;
	bool quoted;           /* JSON: between quotes, at `at` */
	enum template_sql sql; /* SQL: what `at` is part of */
	struct error_text *ret_text;
};

int templates_new(struct templates **ret_templates)
{
	struct templates *templates = mem_zalloc(1, sizeof(*templates));
	if (!templates)
		return -ENOMEM;
	json_plan_init(&templates->plan);
	*ret_templates = templates;
	return 0;
}

/* A header may be a secret. */
static void free_copy(struct template *it)
{
	secret_wipe(it->copy, it->len);
	mem_free(it->copy);
}

struct templates *templates_free(struct templates *templates)
{
	if (!templates)
		return NULL;
	for (uint32_t i = 0; i < templates->count; i++)
		free_copy(&templates->list[i]);
	return mem_free(templates);
}

static int refuse(const struct compiler *compiler, size_t at, const char *expected)
{
	return error_fill(compiler->ret_text, ERR_INVALID, "at byte %zu: expected %s", at + 1,
	                  expected);
}

static int add_piece(struct compiler *compiler, const struct template_piece *piece)
{
	struct templates *templates = compiler->templates;
	if (templates->piece_count == TEMPLATE_PIECES_MAX)
		return error_fill(compiler->ret_text, ERR_TOO_LARGE,
		                  "more than %u pieces in all templates", TEMPLATE_PIECES_MAX);
	templates->pieces[templates->piece_count++] = *piece;
	return 0;
}

/* The } that ends a place which begins at `at`; names in quotes may hold one. */
static size_t find_end(struct span text, size_t at)
{
	bool quoted = false;
	for (; at < text.len; at++) {
		if (quoted && text.ptr[at] == '\\')
			at++;
		else if (text.ptr[at] == '"')
			quoted = !quoted;
		else if (text.ptr[at] == '}' && !quoted)
			return at;
	}
	return text.len;
}

static int compile_path(struct compiler *compiler, struct span place, struct template_piece *piece)
{
	struct json_path path;
	struct json_problem problem = { 0 };
	struct span text = span_skip(place, 1);
	span_cut_start(&text, SPAN("."));
	size_t before = (size_t)(text.ptr - compiler->text.ptr);
	if (json_path_parse(text, &path, &problem))
		return refuse(compiler, before + problem.offset, problem.expected);
	for (uint32_t i = 0; i < path.count; i++)
		if (path.steps[i].kind == JSON_STEP_EACH)
			return refuse(compiler, before, "a path to one place, without [*]");
	uint8_t node;
	if (json_plan_add(&compiler->templates->plan, &path, &node))
		return refuse(compiler, before, "fewer paths in all templates");
	piece->kind = TEMPLATE_PATH;
	piece->which = node;
	compiler->templates->wants_paths = true;
	return 0;
}

static bool read_word(struct span word, struct template_piece *piece)
{
	int field = metadata_field_parse(word);
	if (span_eq(word, SPAN("ticket")))
		piece->kind = TEMPLATE_TICKET;
	else if (span_eq(word, SPAN("source")))
		piece->kind = TEMPLATE_SOURCE;
	else if (span_eq(word, SPAN("attempt")))
		piece->kind = TEMPLATE_ATTEMPT;
	else if (field >= 0)
		piece->kind = TEMPLATE_METADATA;
	else
		return false;
	piece->which = (uint8_t)(field >= 0 ? field : 0);
	return true;
}

/* The text from { on. */
static int compile_place(struct compiler *compiler)
{
	size_t begin = compiler->at + 1;
	size_t end = find_end(compiler->text, begin);
	struct span place = span_of(compiler->text.ptr + begin, end - begin);
	struct template_piece piece = { .quoted = compiler->quoted, .text = place };
	int error = 0;
	if (end == compiler->text.len)
		return refuse(compiler, begin - 1, "a } for this {");
	if (span_eq(place, SPAN("$"))) {
		piece.kind = TEMPLATE_PAYLOAD;
		bool fits = compiler->form == TEMPLATE_SQL ||
		            (compiler->form == TEMPLATE_JSON && !compiler->quoted);
		error = fits ? 0
		             : refuse(compiler, begin,
		                      "{$} only in SQL or a body of JSON, outside of quotes");
	} else if (place.ptr[0] == '$') {
		error = compile_path(compiler, place, &piece);
	} else if (!read_word(place, &piece)) {
		return refuse(compiler, begin,
		              "{ticket}, {source}, {attempt}, {id}, {type}, {entity}, {time}, "
		              "{correlation} or {$.path}");
	}
	compiler->at = end + 1;
	return error ? error : add_piece(compiler, &piece);
}

static bool begins_place(const struct compiler *compiler, size_t at)
{
	if (compiler->text.ptr[at] != '{' || at + 1 == compiler->text.len)
		return false;
	char next = compiler->text.ptr[at + 1];
	return next == '$' || (span_lower(next) >= 'a' && span_lower(next) <= 'z');
}

/* A place inside a string or a comment of SQL, which would not become a parameter. */
static bool hides_place(const struct compiler *compiler, size_t at)
{
	struct template_piece piece;
	size_t end = find_end(compiler->text, at + 1);
	struct span place = span_of(compiler->text.ptr + at + 1, end - at - 1);
	return begins_place(compiler, at) && end < compiler->text.len &&
	       (place.ptr[0] == '$' || read_word(place, &piece));
}

/* The state after the byte at `at`. */
static enum template_sql step_sql(struct span text, size_t at, enum template_sql state)
{
	char c = text.ptr[at];
	char next = at + 1 < text.len ? text.ptr[at + 1] : '\0';
	switch (state) {
	case SQL_TEXT: return c == '\'' ? SQL_CODE : state;
	case SQL_NAME: return c == '"' ? SQL_CODE : state;
	case SQL_LINE: return c == '\n' ? SQL_CODE : state;
	case SQL_BLOCK: return c == '/' && text.ptr[at - 1] == '*' ? SQL_CODE : state;
	case SQL_CODE: break;
	}
	if (c == '\'')
		return SQL_TEXT;
	if (c == '"')
		return SQL_NAME;
	if (c == '-' && next == '-')
		return SQL_LINE;
	return c == '/' && next == '*' ? SQL_BLOCK : SQL_CODE;
}

/* Why a literal byte is not allowed there; NULL if it is. */
static const char *find_fault(const struct compiler *compiler, size_t at)
{
	enum template_form form = compiler->form;
	unsigned char c = (unsigned char)compiler->text.ptr[at];
	if (form == TEMPLATE_SQL) {
		if (c == '\0')
			return "SQL, without NUL";
		if (compiler->sql == SQL_CODE && (c == '$' || c == ';'))
			return "one statement, with {id} for a value (not $1) and '…' for a text";
		if (compiler->sql != SQL_CODE && hides_place(compiler, at))
			return "a placeholder without quotes: it becomes a parameter";
		return NULL;
	}
	if (form == TEMPLATE_URL && (c <= ' ' || c >= 0x7f || c == '{' || c == '}'))
		return "a URL: no blanks, control characters, braces, or bytes beyond ASCII";
	if (form == TEMPLATE_HEADER && ((c < ' ' && c != '\t') || c == 0x7f))
		return "a header's value, without line ends and control characters";
	return NULL;
}

static bool is_place(const struct compiler *compiler, size_t at)
{
	return compiler->sql == SQL_CODE && begins_place(compiler, at);
}

/* The text up to the next place or the end. */
static int compile_fixed(struct compiler *compiler)
{
	size_t begin = compiler->at;
	size_t at = begin;
	for (; at < compiler->text.len && !is_place(compiler, at); at++) {
		char c = compiler->text.ptr[at];
		const char *fault = find_fault(compiler, at);
		if (fault)
			return refuse(compiler, at, fault);
		if (compiler->form == TEMPLATE_SQL)
			compiler->sql = step_sql(compiler->text, at, compiler->sql);
		if (compiler->form == TEMPLATE_JSON && c == '\\' && at + 1 < compiler->text.len)
			at++;
		else if (compiler->form == TEMPLATE_JSON && c == '"')
			compiler->quoted = !compiler->quoted;
	}
	struct template_piece piece = {
		.kind = TEMPLATE_FIXED,
		.text = span_of(compiler->text.ptr + begin, at - begin),
	};
	compiler->at = at;
	return add_piece(compiler, &piece);
}

/* Is the template JSON, whatever its values are? */
static int judge_json(struct compiler *compiler, uint32_t number)
{
	struct buf sample = { .cap = 0 };
	struct json_doc *doc = mem_alloc(sizeof(*doc));
	template_sample(compiler->templates, number, &sample);
	int error = !doc || sample.failed ? -ENOMEM : json_scan(buf_span(&sample), NULL, doc);
	if (error == ERR_INVALID)
		error_fill(compiler->ret_text, error,
		           "no JSON with its places filled: expected %s at byte %zu of %.200s",
		           doc->problem.expected, doc->problem.offset + 1,
		           sample.len < 200 ? (buf_append_char(&sample, '\0'), sample.ptr) : "it");
	mem_free(doc);
	buf_free(&sample);
	return error;
}

int templates_add(struct templates *templates, struct span text, enum template_form form,
                  uint32_t *ret_number, struct error_text *ret_text)
{
	CHECK(!templates->sealed);
	if (templates->count == TEMPLATES_MAX)
		return error_fill(ret_text, ERR_TOO_LARGE, "more than %u templates", TEMPLATES_MAX);
	if (text.len > TEMPLATE_TEXT_MAX)
		return error_fill(ret_text, ERR_TOO_LARGE, "longer than %u bytes",
		                  TEMPLATE_TEXT_MAX);
	struct template *it = &templates->list[templates->count];
	char *copy = mem_alloc(text.len + 1);
	if (!copy)
		return -ENOMEM;
	if (text.len > 0)
		memcpy(copy, text.ptr, text.len);
	struct compiler compiler = { .templates = templates,
		                     .text = span_of(copy, text.len),
		                     .form = form,
		                     .ret_text = ret_text };
	*it = (struct template){
		.copy = copy, .len = text.len, .form = form, .first = templates->piece_count
	};
	int error = 0;
	while (!error && compiler.at < compiler.text.len)
		error = is_place(&compiler, compiler.at) ? compile_place(&compiler)
		                                         : compile_fixed(&compiler);
	it->count = templates->piece_count - it->first;
	templates->count++;
	if (!error && form == TEMPLATE_JSON)
		error = judge_json(&compiler, templates->count - 1);
	if (error) {
		templates->count--;
		templates->piece_count = it->first;
		free_copy(it);
		return error;
	}
	*ret_number = templates->count - 1;
	return 0;
}

void templates_seal(struct templates *templates)
{
	CHECK(!templates->sealed);
	templates->sealed = true;
	json_plan_seal(&templates->plan);
}

static uint32_t count_kind(const struct templates *templates, uint32_t number,
                           enum template_kind kind)
{
	CHECK(number < templates->count);
	const struct template *it = &templates->list[number];
	uint32_t count = 0;
	for (uint32_t i = 0; i < it->count; i++)
		count += templates->pieces[it->first + i].kind == kind;
	return count;
}

uint32_t template_place_count(const struct templates *templates, uint32_t number)
{
	uint32_t fixed = count_kind(templates, number, TEMPLATE_FIXED);
	return templates->list[number].count - fixed;
}

bool template_is_fixed(const struct templates *templates, uint32_t number)
{
	return template_place_count(templates, number) == 0;
}

bool template_has_attempt(const struct templates *templates, uint32_t number)
{
	return count_kind(templates, number, TEMPLATE_ATTEMPT) > 0;
}

void template_sample(const struct templates *templates, uint32_t number, struct buf *out)
{
	CHECK(number < templates->count);
	const struct template *it = &templates->list[number];
	uint32_t places = 0;
	for (uint32_t i = 0; i < it->count; i++) {
		const struct template_piece *piece = &templates->pieces[it->first + i];
		if (piece->kind == TEMPLATE_FIXED)
			buf_append_span(out, piece->text);
		else if (it->form == TEMPLATE_SQL)
			buf_printf(out, "$%u", ++places);
		else if (it->form == TEMPLATE_JSON && !piece->quoted)
			buf_append_span(out, SPAN("null")); /* no token can continue after it */
		else
			buf_append_char(out, 'x');
	}
}

/* ---- values ---- */

/* A value, before its template's form is applied. */
struct value {
	struct span text; /* strings: decoded, or as JSON has it if `escaped` */
	bool string;
	bool escaped;
	bool nested; /* an object or an array */
};

static int refuse_value(const struct template_piece *piece, struct error_text *ret_text,
                        const char *what)
{
	int len = (int)(piece->text.len < 100 ? piece->text.len : 100);
	return error_fill(ret_text, ERR_INVALID, "{%.*s} %s", len, piece->text.ptr, what);
}

int template_begin(struct template_run *ret_run, const struct templates *templates,
                   const struct template_event *event, struct error_text *ret_text)
{
	CHECK(templates->sealed);
	ret_run->templates = templates;
	ret_run->event = event;
	if (!templates->wants_paths)
		return 0;
	if (!event->json)
		return error_fill(ret_text, ERR_INVALID,
		                  "a template wants a value of the payload, which is no JSON");
	if (json_scan(event->payload, &templates->plan, &ret_run->doc) == 0)
		return 0;
	const struct json_problem *problem = &ret_run->doc.problem;
	return error_fill(ret_text, ERR_INVALID, "payload at byte %zu: expected %s",
	                  problem->offset + 1, problem->expected);
}

/* Short texts that are made here are written to `memory`. */
static struct value value_of(const struct template_run *run, const struct template_piece *piece,
                             char memory[static TEXT_U64_MAX])
{
	const struct template_event *event = run->event;
	switch (piece->kind) {
	case TEMPLATE_TICKET:
		ticket_text(event->ticket, memory);
		return (struct value){ .text = span_of(memory, TICKET_TEXT_LEN), .string = true };
	case TEMPLATE_ATTEMPT:
		return (struct value){ .text = span_of(memory, text_u64(memory, event->attempt)) };
	case TEMPLATE_SOURCE: return (struct value){ .text = event->source, .string = true };
	case TEMPLATE_METADATA:
		return (struct value){ .text = event->metadata->texts[piece->which],
			               .string = true };
	case TEMPLATE_PAYLOAD:
		return (struct value){ .text = event->payload, .string = !event->json };
	case TEMPLATE_PATH: {
		struct json_value json = json_get(&run->doc, piece->which);
		if (json.type == JSON_NONE)
			return (struct value){ .string = true };
		return (struct value){
			.text = json.text,
			.string = json.type == JSON_STRING,
			.escaped = json.escaped,
			.nested = json.type == JSON_OBJECT || json.type == JSON_ARRAY,
		};
	}
	case TEMPLATE_FIXED: break;
	}
	return (struct value){ .text = piece->text, .string = true };
}

static void put_json_text(struct span text, bool quoted, struct buf *out)
{
	size_t start = out->len;
	buf_append_json(out, text);
	if (!quoted || out->failed)
		return;
	/* Between quotes already: without its own. */
	memmove(out->ptr + start, out->ptr + start + 1, out->len - start - 2);
	out->len -= 2;
}

/* Where JSON stands by itself, null and an empty string are values too. */
static bool is_missing(const struct template_piece *piece, const struct value *value, bool bare)
{
	if (!value->string)
		return !bare && span_eq(value->text, SPAN("null"));
	bool there = piece->kind == TEMPLATE_PAYLOAD ||
	             (piece->kind == TEMPLATE_PATH && value->text.ptr);
	return value->text.len == 0 && !(bare && there);
}

static int put_value(const struct template_run *run, const struct template *it,
                     const struct template_piece *piece, struct buf *out,
                     struct error_text *ret_text)
{
	char memory[TEXT_U64_MAX];
	struct value value = value_of(run, piece, memory);
	bool bare = it->form == TEMPLATE_JSON && !piece->quoted;
	if (is_missing(piece, &value, bare))
		return refuse_value(piece, ret_text, "is missing");
	if (value.nested && !bare)
		return refuse_value(piece, ret_text, "is an object or an array");
	if (it->form != TEMPLATE_JSON) {
		char decoded[TEMPLATE_VALUE_MAX];
		struct span text = value.text;
		if (value.escaped) {
			if (json_decode(text, decoded, sizeof(decoded), &text.len))
				return refuse_value(piece, ret_text, "is too long");
			text.ptr = decoded;
		}
		if (text.len > TEMPLATE_VALUE_MAX)
			return refuse_value(piece, ret_text, "is too long");
		if (it->form == TEMPLATE_URL)
			url_percent_encode(text, out);
		for (size_t i = 0; it->form == TEMPLATE_HEADER && i < text.len; i++) {
			unsigned char c = (unsigned char)text.ptr[i];
			if (c < ' ' || c >= 0x7f || c == '%')
				url_percent_byte(text.ptr[i], out);
			else
				buf_append_char(out, text.ptr[i]);
		}
		return 0;
	}
	bool raw = piece->kind == TEMPLATE_PATH; /* as the payload has it: JSON already */
	if (!value.string || (raw && piece->quoted)) {
		buf_append_span(out, value.text);
	} else if (raw) {
		buf_append_char(out, '"');
		buf_append_span(out, value.text);
		buf_append_char(out, '"');
	} else {
		put_json_text(value.text, piece->quoted, out);
	}
	return 0;
}

int template_value(const struct template_run *run, uint32_t number, uint32_t place, struct buf *out,
                   bool *ret_there, struct error_text *ret_text)
{
	char memory[TEXT_U64_MAX];
	CHECK(number < run->templates->count);
	const struct template *it = &run->templates->list[number];
	const struct template_piece *piece = &run->templates->pieces[it->first];
	const struct template_piece *end = piece + it->count;
	for (; piece < end; piece++)
		if (piece->kind != TEMPLATE_FIXED && place-- == 0)
			break;
	CHECK(piece < end);
	struct value value = value_of(run, piece, memory);
	size_t start = out->len;
	bool there = !is_missing(piece, &value, true) &&
	             (value.string || !span_eq(value.text, SPAN("null")));
	int error = 0;
	if (there && value.string && value.escaped) {
		size_t len = 0;
		error = buf_reserve(out, value.text.len);
		if (error == 0)
			error = json_decode(value.text, out->ptr + out->len, value.text.len, &len);
		out->len += len;
	} else if (there) {
		buf_append_span(out, value.text);
	}
	if (error || out->failed)
		return error ? error : out->failed;
	if (out->len > start && memchr(out->ptr + start, '\0', out->len - start))
		return refuse_value(piece, ret_text,
		                    "has a NUL, which no text of a database can have");
	*ret_there = there;
	return 0;
}

int template_put(const struct template_run *run, uint32_t number, struct buf *out,
                 struct error_text *ret_text)
{
	CHECK(number < run->templates->count);
	const struct template *it = &run->templates->list[number];
	for (uint32_t i = 0; i < it->count; i++) {
		const struct template_piece *piece = &run->templates->pieces[it->first + i];
		int error = 0;
		if (piece->kind == TEMPLATE_FIXED)
			buf_append_span(out, piece->text);
		else
			error = put_value(run, it, piece, out, ret_text);
		if (error)
			return error;
	}
	return out->failed ? -ENOMEM : 0;
}
