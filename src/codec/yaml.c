/* yaml: see yaml.h. */
#include "codec/yaml.h"

#include <yaml.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"

/* ${NAME} has braces, and between braces YAML would see a map begin. So they
 * travel through libyaml as two characters that no text may hold (Unicode's
 * noncharacters U+FDD0, U+FDD1): one character for one, so columns stay. */
#define GUARD_OPEN SPAN("\xef\xb7\x90")
#define GUARD_CLOSE SPAN("\xef\xb7\x91")

#define ARENA_MAX ((size_t)16 << 20)

struct yaml_doc {
	struct arena arena;
	struct yaml_node *root;
};

struct parse {
	struct yaml_doc *doc;
	struct span text; /* guarded */
	struct yaml_problem *problem;
	struct yaml_node *stack[YAML_DEPTH_MAX]; /* open lists and maps */
	uint32_t depth;
	uint32_t nodes;
	struct yaml_node *name; /* of the member whose value comes next */
	bool ended;             /* the document is over */
};

/* ---- braces ---- */

static bool is_name_char(char c)
{
	char lower = span_lower(c);
	return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* Bytes of "${NAME}" or "${NAME:-text}" at the front, 0 if it is none. */
static size_t reference_len(struct span text)
{
	size_t i = 2;
	if (text.len < 4 || text.ptr[0] != '$' || text.ptr[1] != '{')
		return 0;
	while (i < text.len && is_name_char(text.ptr[i]))
		i++;
	if (i + 1 < text.len && text.ptr[i] == ':' && text.ptr[i + 1] == '-')
		while (i < text.len && !memchr("{}\r\n", text.ptr[i], 4))
			i++;
	return i > 2 && i < text.len && text.ptr[i] == '}' ? i + 1 : 0;
}

static void guard(struct span text, struct buf *out)
{
	for (size_t i = 0; i < text.len;) {
		size_t len = reference_len(span_of(text.ptr + i, text.len - i));
		if (len > 0) {
			buf_append_char(out, '$');
			buf_append_span(out, GUARD_OPEN);
			buf_append(out, text.ptr + i + 2, len - 3);
			buf_append_span(out, GUARD_CLOSE);
			i += len;
		} else {
			buf_append_char(out, text.ptr[i++]);
		}
	}
}

/* In place; a text only becomes shorter. */
static struct span unguard(char *text, size_t len)
{
	size_t out = 0;
	for (size_t i = 0; i < len; out++) {
		struct span rest = span_of(text + i, len - i);
		bool open = span_starts(rest, GUARD_OPEN);
		if (open || span_starts(rest, GUARD_CLOSE)) {
			text[out] = open ? '{' : '}';
			i += GUARD_OPEN.len;
		} else {
			text[out] = text[i++];
		}
	}
	text[out] = '\0';
	return span_of(text, out);
}

/* ---- problems ---- */

static int refuse_at(struct parse *parse, yaml_mark_t mark, const char *text)
{
	parse->problem->line = (uint32_t)mark.line + 1;
	parse->problem->column = (uint32_t)mark.column + 1;
	return error_fill(&parse->problem->text, ERR_INVALID, "%s", text);
}

/* Steps over one character; `mark` follows. */
static struct span skip_char(struct span text, yaml_mark_t *mark)
{
	bool line = *text.ptr == '\n';
	mark->line += line;
	mark->column = line ? 0 : mark->column + 1;
	size_t len = 1;
	while (len < text.len && ((unsigned char)text.ptr[len] & 0xc0) == 0x80)
		len++;
	return span_skip(text, len);
}

/* The rest of the text from the mark on. */
static struct span text_at(struct span text, yaml_mark_t wanted)
{
	yaml_mark_t mark = { 0 };
	while (text.len > 0 && (mark.line < wanted.line ||
	                        (mark.line == wanted.line && mark.column < wanted.column)))
		text = skip_char(text, &mark);
	return text;
}

static yaml_mark_t mark_of_offset(struct span text, size_t offset)
{
	yaml_mark_t mark = { 0 };
	size_t end = text.len > offset ? text.len - offset : 0;
	while (text.len > end)
		text = skip_char(text, &mark);
	return mark;
}

/* What people meant when libyaml stumbles over this character. */
static const char *hint_of(const yaml_parser_t *parser, struct span rest)
{
	if (parser->context && strstr(parser->context, "alias"))
		return "; a text with * or brackets needs quotes, as in \"items[*].id\"";
	if (parser->problem && strstr(parser->problem, "mapping values"))
		return "; a text with \": \" in it needs quotes";
	switch (rest.len ? *rest.ptr : '\0') {
	case '\t': return "; indent with blanks, not with tabs";
	case '[':
	case '{': return "; a text with brackets or braces needs quotes, as in \"items[*].id\"";
	case '@':
	case '`':
	case '%': return "; a text that begins so needs quotes";
	default: return "";
	}
}

static int refuse_syntax(struct parse *parse, const yaml_parser_t *parser)
{
	if (parser->error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	bool reader = parser->error == YAML_READER_ERROR;
	yaml_mark_t mark = reader ? mark_of_offset(parse->text, parser->problem_offset)
	                          : parser->problem_mark;
	char text[ERROR_TEXT_MAX / 2];
	snprintf(text, sizeof(text), "not YAML: %s%s%s%s", parser->context ? parser->context : "",
	         parser->context ? ", " : "",
	         parser->problem ? parser->problem : "it cannot be read",
	         reader ? "" : hint_of(parser, text_at(parse->text, mark)));
	return refuse_at(parse, mark, text);
}

/* ---- the tree ---- */

static struct yaml_node *new_node(struct parse *parse, enum yaml_kind kind, yaml_mark_t mark)
{
	struct yaml_node *node = arena_alloc(&parse->doc->arena, sizeof(*node));
	if (!node)
		return NULL;
	node->kind = kind;
	node->line = (uint32_t)mark.line + 1;
	node->column = (uint32_t)mark.column + 1;
	return node;
}

/* Puts a finished or opened node in its place; a text may be a member's name. */
static int place(struct parse *parse, struct yaml_node *node, yaml_mark_t mark)
{
	if (++parse->nodes > YAML_NODES_MAX)
		return refuse_at(parse, mark, "too many values for one file");
	if (parse->depth == 0) {
		parse->doc->root = node;
		return 0;
	}
	struct yaml_node *parent = parse->stack[parse->depth - 1];
	if (parent->kind == YAML_MAP && !parse->name) {
		if (node->kind != YAML_TEXT)
			return refuse_at(parse, mark, "found a list or map, expected a name");
		if (parent->count == YAML_MEMBERS_MAX)
			return refuse_at(parse, mark, "too many members in one map");
		parse->name = node;
		return 0;
	}
	node->name = TAKE(parse->name);
	if (parent->last)
		parent->last->next = node;
	else
		parent->first = node;
	parent->last = node;
	parent->count++;
	return 0;
}

static int add_text(struct parse *parse, const yaml_event_t *event)
{
	struct span value = span_of(event->data.scalar.value, event->data.scalar.length);
	if (value.len > 0 && memchr(value.ptr, '\0', value.len))
		return refuse_at(parse, event->start_mark, "a text must not hold a NUL");
	struct yaml_node *node = new_node(parse, YAML_TEXT, event->start_mark);
	struct span copy = node ? arena_copy(&parse->doc->arena, value) : SPAN_EMPTY;
	if (!copy.ptr)
		return -ENOMEM;
	node->text = unguard((char *)(uintptr_t)copy.ptr, copy.len);
	node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	return place(parse, node, event->start_mark);
}

static int open_node(struct parse *parse, enum yaml_kind kind, yaml_mark_t mark)
{
	struct yaml_node *node = new_node(parse, kind, mark);
	if (!node)
		return -ENOMEM;
	if (parse->depth == YAML_DEPTH_MAX)
		return refuse_at(parse, mark, "lists and maps are nested too deeply");
	int error = place(parse, node, mark);
	if (error == 0)
		parse->stack[parse->depth++] = node;
	return error;
}

#define TAG_TEXT "found a tag; a text that begins with ! needs quotes, as in \"!test\""
#define ANCHOR_TEXT \
	"found an anchor, which stile does not use; a text that begins with & needs quotes"
#define ALIAS_TEXT \
	"found an alias, which stile does not use; a text that begins with * needs quotes, as in \"*.paid\""

static int refuse_extras(struct parse *parse, const yaml_event_t *event, const void *tag,
                         const void *anchor)
{
	if (tag)
		return refuse_at(parse, event->start_mark, TAG_TEXT);
	return anchor ? refuse_at(parse, event->start_mark, ANCHOR_TEXT) : 0;
}

static int take_event(struct parse *parse, const yaml_event_t *event)
{
	int error = 0;
	switch (event->type) {
	case YAML_DOCUMENT_START_EVENT:
		return parse->ended ? refuse_at(parse, event->start_mark,
		                                "found a second document, expected one")
		                    : 0;
	case YAML_DOCUMENT_END_EVENT: parse->ended = true; return 0;
	case YAML_ALIAS_EVENT: return refuse_at(parse, event->start_mark, ALIAS_TEXT);
	case YAML_SCALAR_EVENT:
		error = refuse_extras(parse, event, event->data.scalar.tag,
		                      event->data.scalar.anchor);
		return error != 0 ? error : add_text(parse, event);
	case YAML_SEQUENCE_START_EVENT:
		error = refuse_extras(parse, event, event->data.sequence_start.tag,
		                      event->data.sequence_start.anchor);
		return error != 0 ? error : open_node(parse, YAML_LIST, event->start_mark);
	case YAML_MAPPING_START_EVENT:
		error = refuse_extras(parse, event, event->data.mapping_start.tag,
		                      event->data.mapping_start.anchor);
		return error != 0 ? error : open_node(parse, YAML_MAP, event->start_mark);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		CHECK(parse->depth > 0); /* libyaml pairs them */
		parse->depth--;
		return 0;
	default: return 0;
	}
}

static int parse_guarded(struct parse *parse)
{
	yaml_parser_t parser;
	bool more = true;
	int error = 0;
	if (!yaml_parser_initialize(&parser))
		return -ENOMEM;
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&parser, (const unsigned char *)parse->text.ptr,
	                             parse->text.len);
	while (more && error == 0) {
		yaml_event_t event;
		if (!yaml_parser_parse(&parser, &event)) {
			error = refuse_syntax(parse, &parser);
			break;
		}
		error = take_event(parse, &event);
		more = event.type != YAML_STREAM_END_EVENT;
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&parser);
	return error;
}

int yaml_doc_parse(struct span text, struct yaml_doc **ret_doc, struct yaml_problem *ret_problem)
{
	struct buf guarded = { 0 };
	struct parse parse = { .problem = ret_problem };
	const char *found = NULL;
	int error = 0;
	if (text.len > YAML_SIZE_MAX)
		return refuse_at(&parse, (yaml_mark_t){ 0 }, "the file is larger than 1MiB");
	if (text.len > 0)
		found = memmem(text.ptr, text.len, GUARD_OPEN.ptr, GUARD_OPEN.len);
	if (text.len > 0 && !found)
		found = memmem(text.ptr, text.len, GUARD_CLOSE.ptr, GUARD_CLOSE.len);
	if (found)
		return refuse_at(&parse, mark_of_offset(text, (size_t)(found - text.ptr)),
		                 "found a character that is none (U+FDD0 or U+FDD1)");
	/* At once, so that growing leaves no copies behind: four bytes become eight. */
	if (buf_reserve(&guarded, 2 * text.len + 1) != 0)
		return -ENOMEM;
	guard(text, &guarded);
	parse.doc = mem_zalloc(1, sizeof(*parse.doc));
	if (!parse.doc || guarded.failed) {
		error = -ENOMEM;
	} else {
		parse.doc->arena = (struct arena){ .cap = ARENA_MAX, .wipe = true };
		parse.text = span_of(guarded.len ? guarded.ptr : "", guarded.len);
		error = parse_guarded(&parse);
	}
	if (guarded.len > 0)
		explicit_bzero(guarded.ptr, guarded.len);
	buf_free(&guarded);
	if (error != 0) {
		yaml_doc_free(parse.doc);
		return error;
	}
	*ret_doc = parse.doc;
	return 0;
}

struct yaml_doc *yaml_doc_free(struct yaml_doc *doc)
{
	if (doc)
		arena_free(&doc->arena);
	return mem_free(doc);
}

const struct yaml_node *yaml_doc_root(const struct yaml_doc *doc)
{
	return doc->root;
}

const struct yaml_node *yaml_map_find(const struct yaml_node *map, struct span name)
{
	if (!map || map->kind != YAML_MAP)
		return NULL;
	for (const struct yaml_node *node = map->first; node; node = node->next)
		if (span_eq(node->name->text, name))
			return node;
	return NULL;
}
