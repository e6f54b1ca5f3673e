/* config_value: one value of the file. See config_internal.h. */
#include <stdlib.h>

#include "base/mem.h"
#include "codec/ip.h"
#include "config/config_internal.h"
#include "gate/recipe/presets.h"

#define SECRET_MAX ((size_t)4096)
#define NAME_MAX_ 64u /* of a variable */

void *config_alloc(struct config_reader *reader, size_t count, size_t size)
{
	void *ptr = arena_alloc(&reader->config->arena, count * size);
	if (!ptr)
		reader->failed = -ENOMEM;
	return ptr;
}

static bool keep(struct config_reader *reader, struct span text, struct span *ret_text)
{
	struct span copy = arena_copy(&reader->config->arena, text);
	if (!copy.ptr) {
		reader->failed = -ENOMEM;
		return false;
	}
	*ret_text = copy;
	return true;
}

/* ---- where it was written ---- */

static void mark(struct config_reader *reader, const struct yaml_node *node, struct span text)
{
	struct config_mark *made = config_alloc(reader, 1, sizeof(*made));
	if (!made)
		return;
	*made = (struct config_mark){
		.next = reader->config->marks,
		.ptr = text.ptr,
		.place = { node->line, node->column + node->quoted },
		.exact = span_eq(text, node->text),
	};
	reader->config->marks = made;
}

struct config_mark config_mark_of(const struct config *config, const char *ptr)
{
	for (const struct config_mark *at = config->marks; at; at = at->next)
		if (at->ptr == ptr)
			return *at;
	return (struct config_mark){ 0 };
}

/* ---- ${NAME} ---- */

static const char *variable_of(const struct config_reader *reader, struct span name)
{
	char text[NAME_MAX_ + 1];
	if (name.len == 0 || name.len > NAME_MAX_)
		return NULL;
	memcpy(text, name.ptr, name.len);
	text[name.len] = '\0';
	return reader->input->variable ? reader->input->variable(text) : getenv(text);
}

static bool is_name(struct span name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = span_lower(name.ptr[i]);
		bool digit = c >= '0' && c <= '9';
		if (!(c >= 'a' && c <= 'z') && c != '_' && !(digit && i > 0))
			return false;
	}
	return name.len > 0 && name.len <= NAME_MAX_;
}

static bool put_value(struct config_reader *reader, struct span value, struct buf *out)
{
	struct config_values *values = reader->values;
	buf_append_span(out, value);
	if (!values || values->count++ >= CONFIG_VALUES_MAX)
		return true;
	return keep(reader, value, &values->list[values->count - 1]);
}

/* `inside` is what stands between the braces. */
static bool expand_reference(struct config_reader *reader, const struct yaml_node *node,
                             struct span inside, struct buf *out)
{
	const char *dash = inside.len ? memmem(inside.ptr, inside.len, ":-", 2) : NULL;
	struct span name = span_of(inside.ptr, dash ? (size_t)(dash - inside.ptr) : inside.len);
	if (!is_name(name)) {
		config_tell(reader, CONFIG_ERROR, node,
		            "found %s, expected ${NAME} or ${NAME:-default}; write $$ for a $",
		            config_found(node).text);
		return false;
	}
	const char *value = variable_of(reader, name);
	if (dash && (!value || !*value))
		return put_value(reader, span_skip(inside, name.len + 2), out);
	if (!value) {
		config_tell(reader, CONFIG_ERROR, node,
		            "found ${%.*s}, but the environment has no variable %.*s",
		            (int)name.len, name.ptr, (int)name.len, name.ptr);
		return false;
	}
	return put_value(reader, span_str(value), out);
}

/* Expands one piece at the front of the rest, and removes it there. */
static bool expand_piece(struct config_reader *reader, const struct yaml_node *node,
                         struct span *rest, struct buf *out)
{
	size_t plain = 0;
	while (plain < rest->len && rest->ptr[plain] != '$')
		plain++;
	buf_append(out, rest->ptr, plain);
	*rest = span_skip(*rest, plain);
	if (rest->len == 0)
		return true;
	char next = rest->len > 1 ? rest->ptr[1] : '\0';
	if (next != '{') {
		buf_append_char(out, '$');
		*rest = span_skip(*rest, next == '$' ? 2 : 1);
		return true;
	}
	const char *end = memchr(rest->ptr, '}', rest->len);
	size_t len = end ? (size_t)(end - rest->ptr) : rest->len;
	struct span inside = span_of(rest->ptr + 2, end ? len - 2 : 0);
	*rest = span_skip(*rest, len + 1);
	return expand_reference(reader, node, inside, out);
}

static bool expand(struct config_reader *reader, const struct yaml_node *node,
                   struct span *ret_text)
{
	struct buf out = { 0 };
	struct span rest = node->text;
	/* All room at once: growing would leave copies of a secret in memory. */
	out.failed = buf_reserve(&out, node->text.len + SECRET_MAX);
	bool fine = !out.failed;
	while (rest.len > 0 && fine)
		fine = expand_piece(reader, node, &rest, &out);
	if (out.failed)
		reader->failed = -ENOMEM;
	fine = fine && !out.failed && keep(reader, buf_span(&out), ret_text);
	if (out.room > 0)
		explicit_bzero(out.ptr, out.room);
	buf_free(&out);
	return fine;
}

static bool expect_text(struct config_reader *reader, const struct yaml_node *node,
                        const char *expected)
{
	if (node->kind == YAML_TEXT && node->text.len > 0)
		return true;
	config_tell(reader, CONFIG_ERROR, node, "found %s, expected %s", config_found_kind(node),
	            expected);
	return false;
}

bool config_read_text(struct config_reader *reader, const struct yaml_node *node,
                      struct span *ret_text)
{
	struct span text;
	if (!expect_text(reader, node, "a text") || !expand(reader, node, &text))
		return false;
	if (text.len == 0) {
		config_tell(reader, CONFIG_ERROR, node, "found %s, which is empty, expected a text",
		            config_found(node).text);
		return false;
	}
	mark(reader, node, text);
	*ret_text = text;
	return true;
}

/* "headr:X-Id" would be a member of the body with that name: probably a typing error. */
static void warn_prefix(struct config_reader *reader, const struct yaml_node *node,
                        struct span text)
{
	static const char prefixes[] = "header|query|form|path|const";
	const char *colon = memchr(text.ptr, ':', text.len);
	size_t len = colon ? (size_t)(colon - text.ptr) : 0;
	struct span word = span_of(text.ptr, len);
	struct suggest suggest = suggest_begin(word);
	if (len == 0 || option_choice(prefixes, word) >= 0)
		return;
	suggest_offer_choices(&suggest, prefixes);
	if (suggest.best.len > 0)
		config_tell(reader, CONFIG_WARNING, node,
		            "found %s, which is a member of the body; did you mean %.*s:?",
		            config_found(node).text, (int)suggest.best.len, suggest.best.ptr);
}

bool config_read_part(struct config_reader *reader, const struct yaml_node *node,
                      struct span *ret_text)
{
	struct span text;
	if (!config_read_text(reader, node, &text))
		return false;
	warn_prefix(reader, node, text);
	*ret_text = text;
	return true;
}

/* ---- secrets ---- */

/* Messages show the path as it was written: a variable in it may be a secret. */
static bool read_secret_file(struct config_reader *reader, const struct yaml_node *node,
                             const char *path, struct span *ret_text)
{
	const char *written = node->text.ptr + strlen("file:");
	struct file_system *files = reader->input->files;
	char *bytes = NULL;
	size_t len = 0;
	int error = file_read_regular(files ? files : file_system_real(), path, SECRET_MAX, &bytes,
	                              &len);
	if (error != 0) {
		config_tell(reader, CONFIG_ERROR, node, "the secret's file %s cannot be read: %s",
		            written,
		            error == ERR_TOO_LARGE ? "it has more than 4KiB" : error_name(error));
		return false;
	}
	size_t whole = len;
	if (len > 0 && bytes[len - 1] == '\n')
		len--;
	if (len > 0 && bytes[len - 1] == '\r')
		len--;
	bool fine = keep(reader, span_of(bytes, len), ret_text);
	explicit_bzero(bytes, whole);
	mem_free(bytes);
	if (fine && len > 0 && !files && file_is_public(path))
		config_tell(reader, CONFIG_WARNING, node,
		            "everybody on this machine can read the secret's file %s", written);
	return fine;
}

bool config_read_secret(struct config_reader *reader, const struct yaml_node *node,
                        struct span *ret_text)
{
	struct span text;
	if (!expect_text(reader, node, "a secret: ${NAME} or file:PATH") ||
	    !expand(reader, node, &text))
		return false;
	bool file = node->text.len > 5 && memcmp(node->text.ptr, "file:", 5) == 0;
	/* A public key is no secret. */
	bool public = span_starts(node->text, SPAN("whpk_"));
	if (!file && !public && !memmem(node->text.ptr, node->text.len, "${", 2))
		config_tell(
			reader, CONFIG_WARNING, node,
			"found a secret in clear text; ${NAME} or file:PATH keep it out of this file");
	if (file && !read_secret_file(reader, node, text.ptr + 5, &text))
		return false;
	if (text.len == 0)
		config_tell(reader, CONFIG_ERROR, node, "the secret is empty");
	*ret_text = text;
	return text.len > 0;
}

/* ---- certificates and keys ---- */

#define PEM_BYTES_MAX (4u << 20)

/* Messages do not show the path: a variable in it may be a secret. */
void config_check_pem(struct config_reader *reader, const char *option, const char *path)
{
	struct file_system *files = reader->input->files ? reader->input->files
	                                                 : file_system_real();
	struct config_place place = config_mark_of(reader->config, path).place;
	char *bytes = NULL;
	size_t len = 0;
	if (!path)
		return;
	size_t at = config_enter(reader, span_str(option));
	int error = file_read_regular(files, path, PEM_BYTES_MAX, &bytes, &len);
	if (error < 0)
		config_tell_at(reader, CONFIG_ERROR, place, "the file cannot be read: %s",
		               error == ERR_TOO_LARGE ? "it has more than 4MiB"
		                                      : error_name(error));
	else if (!memmem(bytes, len, "-----BEGIN ", 11))
		config_tell_at(reader, CONFIG_ERROR, place,
		               "found another kind of file, expected PEM: -----BEGIN …");
	if (error == 0)
		explicit_bzero(bytes, len);
	mem_free(bytes);
	config_leave(reader, at);
}

/* ---- kinds ---- */

static bool read_network(struct config_reader *reader, const struct yaml_node *node,
                         struct span *ret_text)
{
	struct span text;
	struct ip_network network;
	struct error_text problem;
	if (!config_read_text(reader, node, &text))
		return false;
	if (ip_network_parse(text, &network, &problem) == 0) {
		*ret_text = text;
		return true;
	}
	if (span_eq(text, node->text))
		config_tell(reader, CONFIG_ERROR, node, "%s", problem.text);
	else
		config_tell(reader, CONFIG_ERROR, node, "found %s, which is not a network",
		            config_found(node).text);
	return false;
}

static bool read_item(struct config_reader *reader, enum config_kind kind,
                      const struct yaml_node *node, struct span *ret_text)
{
	switch (kind) {
	case CONFIG_SECRETS: return config_read_secret(reader, node, ret_text);
	case CONFIG_NETWORKS: return read_network(reader, node, ret_text);
	case CONFIG_PARTS: return config_read_part(reader, node, ret_text);
	default: return config_read_text(reader, node, ret_text);
	}
}

bool config_read_texts(struct config_reader *reader, const struct config_option *option,
                       const struct yaml_node *node, struct span *ret_texts, uint32_t *ret_count)
{
	uint32_t count = 0;
	bool fine = true;
	if (node->kind == YAML_TEXT) {
		fine = read_item(reader, option->kind, node, &ret_texts[0]);
		*ret_count = fine;
		return fine;
	}
	if (node->kind == YAML_MAP || node->count == 0 || node->count > option->max) {
		char found[32] = "a map";
		if (node->kind == YAML_LIST)
			snprintf(found, sizeof(found), "a list of %u", node->count);
		config_tell(reader, CONFIG_ERROR, node,
		            "found %s, expected one or a list of 1 to %llu", found,
		            (unsigned long long)option->max);
		return false;
	}
	for (const struct yaml_node *item = node->first; item; item = item->next) {
		size_t at = config_enter_index(reader, count);
		fine = read_item(reader, option->kind, item, &ret_texts[count++]) && fine;
		config_leave(reader, at);
	}
	*ret_count = count;
	return fine;
}

static void store_number(void *field, size_t size, uint64_t value)
{
	CHECK(size == 1 || size == 4 || size == 8);
	if (size == 1)
		*(uint8_t *)field = (uint8_t)value;
	else if (size == 4)
		*(uint32_t *)field = (uint32_t)value;
	else
		*(uint64_t *)field = value;
}

static void tell_expected(struct config_reader *reader, const struct yaml_node *node,
                          const char *choices, const char *expected)
{
	struct suggest suggest = suggest_begin(node->text);
	suggest_offer_choices(&suggest, choices);
	if (suggest.best.len > 0)
		config_tell(reader, CONFIG_ERROR, node,
		            "found %s, expected %s; did you mean \"%.*s\"?",
		            config_found(node).text, expected, (int)suggest.best.len,
		            suggest.best.ptr);
	else
		config_tell(reader, CONFIG_ERROR, node, "found %s, expected %s",
		            config_found(node).text, expected);
}

/* As a flag of the command line would be read. */
static bool read_as(struct config_reader *reader, const struct option *option,
                    const struct yaml_node *node, void *values)
{
	struct span text;
	struct error_text expected;
	if (node->kind != YAML_TEXT || node->text.len == 0) {
		(void)!option_set(option, "", values, &expected); /* fills `expected` */
		config_tell(reader, CONFIG_ERROR, node, "found %s, expected %s",
		            config_found_kind(node), expected.text);
		return false;
	}
	if (!expand(reader, node, &text))
		return false;
	mark(reader, node, text);
	if (option_set(option, text.ptr, values, &expected) == 0)
		return true;
	tell_expected(reader, node, option->choices, expected.text);
	return false;
}

static struct option option_of(const struct config_option *row)
{
	static const enum option_kind kinds[] = {
		[CONFIG_CHOICE] = OPTION_CHOICE, [CONFIG_SECONDS] = OPTION_DURATION,
		[CONFIG_MS] = OPTION_DURATION,   [CONFIG_COUNT] = OPTION_COUNT,
		[CONFIG_SIZE] = OPTION_SIZE,
	};
	return (struct option){
		.kind = row->kind < ARRAY_LEN(kinds) ? kinds[row->kind] : OPTION_TEXT,
		.value = row->value,
		.min = row->min,
		.max = row->max,
		.choices = row->choices,
	};
}

static uint64_t value_as(const struct config_option *row, uint64_t value)
{
	return row->kind == CONFIG_SECONDS ? (value + 999) / 1000 : value;
}

static void read_number(struct config_reader *reader, const struct config_option *row,
                        const struct yaml_node *node, void *field)
{
	uint64_t value = 0;
	struct option option = option_of(row);
	if (read_as(reader, &option, node, &value))
		store_number(field, row->size, value_as(row, value));
}

void config_set_defaults(const char *section, void *base)
{
	const struct config_option *row;
	for (size_t i = 0; (row = config_table_row(i)); i++) {
		struct option option = option_of(row);
		struct error_text expected;
		uint64_t value = 0;
		char *field = (char *)base + row->offset;
		bool is_number = option.kind != OPTION_TEXT;
		if (!config_option_in(row, section, NULL))
			continue;
		if (row->kind == CONFIG_SECTION)
			config_set_defaults(row->path, field);
		else if (is_number && row->standard &&
		         option_set(&option, row->standard, &value, &expected) == 0)
			store_number(field, row->size, value_as(row, value));
	}
}

static void read_path(struct config_reader *reader, const struct yaml_node *node, void *field)
{
	struct span text;
	if (!config_read_text(reader, node, &text))
		return;
	/* A star at the end stands for all paths below; it is not allowed directly after "/". */
	size_t len = text.len > 2 && memcmp(text.ptr + text.len - 2, "/*", 2) == 0 ? text.len - 2
	                                                                           : text.len;
	bool fine = text.ptr[0] == '/';
	for (size_t i = 0; i < len; i++)
		fine = fine && (unsigned char)text.ptr[i] > ' ' &&
		       (unsigned char)text.ptr[i] < 0x7f && !strchr("?#%*\"<>\\^`{|}", text.ptr[i]);
	if (!fine) {
		config_tell(
			reader, CONFIG_ERROR, node,
			"found %s, expected a path, such as /in/orders or /in/orders/*: it begins "
			"with / and has no ?, #, %%, blanks or other *",
			config_found(node).text);
		return;
	}
	*(struct span *)field = text;
}

static void read_preset(struct config_reader *reader, const struct yaml_node *node, void *field)
{
	struct span text;
	if (!config_read_text(reader, node, &text))
		return;
	if (preset_find(text)) {
		*(struct span *)field = text;
		return;
	}
	char memory[512] = "one of ";
	struct buf names = buf_on(memory, sizeof(memory) - 1);
	names.len = strlen(memory);
	uint32_t count = 0;
	const struct preset *presets = preset_list(&count);
	for (uint32_t i = 0; i < count; i++)
		buf_printf(&names, "%s%s", i ? "|" : "", presets[i].name);
	memory[names.len] = '\0';
	tell_expected(reader, node, memory + strlen("one of "), memory);
}

static void read_string(struct config_reader *reader, const struct config_option *option,
                        const struct yaml_node *node, void *field)
{
	struct span text;
	if (!config_read_text(reader, node, &text))
		return;
	if (option->max > 0 && text.len > option->max) {
		config_tell(reader, CONFIG_ERROR, node, "found %zu bytes, expected at most %llu",
		            text.len, (unsigned long long)option->max);
		return;
	}
	if (option->kind == CONFIG_STRING)
		*(const char **)field = text.ptr;
	else
		*(struct span *)field = text;
}

void config_read_value(struct config_reader *reader, const struct config_option *option,
                       const struct yaml_node *node, void *base)
{
	void *field = (char *)base + option->offset;
	uint32_t *count = (uint32_t *)(void *)((char *)base + option->count_offset);
	switch (option->kind) {
	case CONFIG_FLAG:
		(void)read_as(reader, config_option_flag(option), node, &reader->config->serve);
		break;
	case CONFIG_CHOICE:
	case CONFIG_SECONDS:
	case CONFIG_MS:
	case CONFIG_COUNT:
	case CONFIG_SIZE: read_number(reader, option, node, field); break;
	case CONFIG_RATE: config_read_rate(reader, node, field); break;
	case CONFIG_HEADERS: config_read_headers(reader, node, field); break;
	case CONFIG_URL: (void)config_read_url(reader, node, field); break;
	case CONFIG_STORE_URL: config_read_store_url(reader, node, field); break;
	case CONFIG_PATH: read_path(reader, node, field); break;
	case CONFIG_PRESET: read_preset(reader, node, field); break;
	case CONFIG_PART: (void)config_read_part(reader, node, field); break;
	case CONFIG_SECRET:
		if (node->kind == YAML_LIST && node->count == 1) {
			config_tell(reader, CONFIG_WARNING, node,
			            "a list of one secret: write it without brackets");
			node = node->first;
		}
		(void)config_read_secret(reader, node, field);
		break;
	case CONFIG_PARTS:
	case CONFIG_TEXTS:
	case CONFIG_SECRETS:
	case CONFIG_NETWORKS: (void)config_read_texts(reader, option, node, field, count); break;
	case CONFIG_WHEN: config_read_when(reader, node, field, count); break;
	default: read_string(reader, option, node, field); break;
	}
}
