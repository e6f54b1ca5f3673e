/* template: how texts become pieces. See template.h; template_run.c puts values in. */
#include "gate/template.h"

#include <string.h>

#include "base/mem.h"
#include "base/secret.h"
#include "gate/template_internal.h"

/* A text on its way to pieces. */
struct compiler {
	struct templates *templates;
	struct span text;
	size_t at;
	enum template_form form;
	bool quoted;           /* JSON: between quotes, at `at` */
	enum template_sql sql; /* SQL: what `at` stands in */
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
	int field = letter_field_parse(word);
	if (span_eq(word, SPAN("ticket")))
		piece->kind = TEMPLATE_TICKET;
	else if (span_eq(word, SPAN("source")))
		piece->kind = TEMPLATE_SOURCE;
	else if (span_eq(word, SPAN("attempt")))
		piece->kind = TEMPLATE_ATTEMPT;
	else if (field >= 0)
		piece->kind = TEMPLATE_LETTER;
	else
		return false;
	piece->which = (uint8_t)(field >= 0 ? field : 0);
	return true;
}

static int compile_word(struct compiler *compiler, struct span word, struct template_piece *piece)
{
	if (read_word(word, piece))
		return 0;
	return refuse(compiler, (size_t)(word.ptr - compiler->text.ptr),
	              "{ticket}, {source}, {attempt}, {id}, {type}, {entity}, {time}, "
	              "{correlation} or {$.path}");
}

/* The text from { on. */
static int compile_place(struct compiler *compiler)
{
	size_t begin = compiler->at + 1;
	size_t end = find_end(compiler->text, begin);
	struct span place = span_of(compiler->text.ptr + begin, end - begin);
	struct template_piece piece = { .quoted = compiler->quoted, .text = place };
	int error;
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
	} else {
		error = compile_word(compiler, place, &piece);
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

/* A place that the database would take for text, or not see at all. */
static bool hides_place(const struct compiler *compiler, size_t at)
{
	struct template_piece piece;
	size_t end = find_end(compiler->text, at + 1);
	struct span place = span_of(compiler->text.ptr + at + 1, end - at - 1);
	return begins_place(compiler, at) && end < compiler->text.len &&
	       (place.ptr[0] == '$' || read_word(place, &piece));
}

static const char *find_sql_fault(const struct compiler *compiler, size_t at)
{
	char c = compiler->text.ptr[at];
	if (c == '\0')
		return "SQL, without NUL";
	if (compiler->sql == SQL_CODE && (c == '$' || c == ';'))
		return "one statement, with {id} for a value (not $1) and '…' for a text";
	if (compiler->sql != SQL_CODE && hides_place(compiler, at))
		return "a place that stands by itself, without quotes: it becomes a parameter";
	return NULL;
}

/* What comes behind the byte at `at`. */
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

/* Why a byte of the text itself cannot stand there; NULL if it can. */
static const char *find_fault(const struct compiler *compiler, size_t at)
{
	enum template_form form = compiler->form;
	unsigned char c = (unsigned char)compiler->text.ptr[at];
	if (form == TEMPLATE_SQL)
		return find_sql_fault(compiler, at);
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

static int compile_all(struct compiler *compiler)
{
	int error = 0;
	while (!error && compiler->at < compiler->text.len)
		error = is_place(compiler, compiler->at) ? compile_place(compiler)
		                                         : compile_fixed(compiler);
	return error;
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
	int error = compile_all(&compiler);
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
			buf_append_span(out, SPAN("null")); /* no token goes on behind it */
		else
			buf_append_char(out, 'x');
	}
}
