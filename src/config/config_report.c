/* config_report: the list of all problems of a load. See config.h. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "config/config_internal.h"

#define FOUND_CHARS 48u

static void tell(struct config_reader *reader, enum config_level level, struct config_place place,
                 char *text)
{
	struct config_report *report = reader->report;
	uint32_t *count = level == CONFIG_ERROR ? &report->errors : &report->warnings;
	size_t len = strlen(text);
	/* The text may quote the file: no byte of it may control a terminal. */
	for (size_t at = 0, size; at < len; at += size ? size : 1) {
		size = utf8_sequence(text + at, len - at);
		if (size > 0 && utf8_steers(text + at, size))
			memset(text + at, '?', size);
	}
	if (!report->problems) /* room for both levels */
		report->problems = arena_alloc(&report->arena, (size_t)2 * CONFIG_PROBLEMS_MAX *
		                                                       sizeof(*report->problems));
	if (!report->problems)
		reader->failed = -ENOMEM;
	if ((*count)++ >= CONFIG_PROBLEMS_MAX || !report->problems)
		return;
	struct span option = arena_copy(&report->arena, buf_span(&reader->option));
	struct span copy = arena_copy(&report->arena, span_str(text));
	if (!option.ptr || !copy.ptr) {
		reader->failed = -ENOMEM;
		return;
	}
	report->problems[report->count++] = (struct config_problem){ level, place, option.ptr,
		                                                     copy.ptr };
}

void config_tell_at(struct config_reader *reader, enum config_level level,
                    struct config_place place, const char *format, ...)
{
	char text[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	tell(reader, level, place, text);
}

void config_tell(struct config_reader *reader, enum config_level level,
                 const struct yaml_node *node, const char *format, ...)
{
	char text[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	struct config_place place = { 0 };
	if (node)
		place = (struct config_place){ node->line, node->column };
	tell(reader, level, place, text);
}

static int compare(const void *a, const void *b)
{
	const struct config_problem *x = a;
	const struct config_problem *y = b;
	if (x->place.line != y->place.line)
		return x->place.line < y->place.line ? -1 : 1;
	if (x->place.column != y->place.column)
		return x->place.column < y->place.column ? -1 : 1;
	int order = strcmp(x->option, y->option);
	return order != 0 ? order : strcmp(x->text, y->text);
}

void config_report_sort(struct config_report *report)
{
	if (report->count > 0)
		qsort(report->problems, report->count, sizeof(*report->problems), compare);
}

struct config_found config_found(const struct yaml_node *node)
{
	struct config_found found = { "" };
	if (node->kind != YAML_TEXT || node->text.len == 0) {
		snprintf(found.text, sizeof(found.text), "%s", config_found_kind(node));
		return found;
	}
	for (size_t most = FOUND_CHARS; most > 0; most /= 2) {
		struct buf out = buf_on(found.text, sizeof(found.text) - 1);
		size_t len = utf8_cut(node->text.ptr, node->text.len, most);
		buf_append_json(&out, span_of(node->text.ptr, len));
		if (len < node->text.len)
			buf_append_span(&out, SPAN("…"));
		found.text[out.len] = '\0';
		if (!out.failed)
			break; /* escapes may need more room than there is */
	}
	return found;
}

const char *config_found_kind(const struct yaml_node *node)
{
	switch (node->kind) {
	case YAML_LIST: return "a list";
	case YAML_MAP: return "a map";
	default: return node->text.len > 0 ? "a text" : "nothing";
	}
}

size_t config_enter(struct config_reader *reader, struct span name)
{
	size_t mark = reader->option.len;
	bool plain = name.len > 0;
	for (size_t i = 0; i < name.len; i++)
		plain = plain && (unsigned char)name.ptr[i] > 0x20 && name.ptr[i] != '"' &&
		        (unsigned char)name.ptr[i] < 0x7f;
	if (mark > 0)
		buf_append_char(&reader->option, '.');
	if (plain)
		buf_append_span(&reader->option, name);
	else
		buf_append_json(&reader->option, name);
	return mark;
}

size_t config_enter_index(struct config_reader *reader, uint32_t index)
{
	size_t mark = reader->option.len;
	buf_printf(&reader->option, "[%" PRIu32 "]", index);
	return mark;
}

void config_leave(struct config_reader *reader, size_t mark)
{
	reader->option.len = mark;
	reader->option.failed = 0;
}

void config_problem_write(const struct config_report *report, const struct config_problem *problem,
                          struct buf *out)
{
	struct span option = span_str(problem->option);
	if (report->file) {
		buf_append_span(out, span_str(report->file));
		if (problem->place.line > 0)
			buf_printf(out, ":%" PRIu32 ":%" PRIu32, problem->place.line,
			           problem->place.column);
		buf_append_span(out, SPAN(": "));
	}
	if (problem->level == CONFIG_WARNING)
		buf_append_span(out, SPAN("warning: "));
	buf_append_span(out, option);
	buf_append_span(out, option.len > 0 ? SPAN(": ") : SPAN_EMPTY);
	buf_append_span(out, span_str(problem->text));
}

static void print_rest(FILE *out, uint32_t count, const char *what)
{
	if (count > CONFIG_PROBLEMS_MAX)
		fprintf(out, "and %" PRIu32 " more %s\n", count - CONFIG_PROBLEMS_MAX, what);
}

void config_report_print(const struct config_report *report, FILE *out)
{
	for (uint32_t i = 0; i < report->count; i++) {
		struct buf line = { 0 };
		config_problem_write(report, &report->problems[i], &line);
		fprintf(out, "%.*s\n", (int)line.len, line.len ? line.ptr : "");
		buf_free(&line);
	}
	print_rest(out, report->errors, "errors");
	print_rest(out, report->warnings, "warnings");
}

void config_log_report(const struct config_report *report)
{
	for (uint32_t i = 0; i < report->count; i++) {
		struct buf line = { 0 };
		config_problem_write(report, &report->problems[i], &line);
		if (report->problems[i].level == CONFIG_ERROR)
			log_error("configuration has an error", log_span("text", buf_span(&line)));
		else
			log_warn("configuration has a warning", log_span("text", buf_span(&line)));
		buf_free(&line);
	}
}

void config_report_free(struct config_report *report)
{
	arena_free(&report->arena);
	*report = (struct config_report){ 0 };
}
