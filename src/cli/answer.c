/* answer: see answer.h. */
#include "cli/answer.h"

#include "base/error.h"
#include "base/exit_code.h"
#include "codec/json.h"

static int add_path(struct json_plan *plan, const char *text, uint8_t *ret_node)
{
	struct json_path path;
	struct json_problem problem;
	int r = json_path_parse(span_str(text), &path, &problem);
	return r < 0 ? r : json_plan_add(plan, &path, ret_node);
}

static struct span value_of(const struct json_doc *doc, uint8_t node)
{
	struct json_value value = json_get(doc, node);
	return value.type == JSON_NONE || value.type == JSON_NULL ? SPAN_EMPTY : value.text;
}

int answer_value(struct span answer, const char *path, struct span *ret_value)
{
	struct json_plan plan;
	struct json_doc doc;
	uint8_t node;
	json_plan_init(&plan);
	int r = add_path(&plan, path, &node);
	if (r < 0)
		return r;
	json_plan_seal(&plan);
	r = json_scan(answer, &plan, &doc);
	if (r == 0)
		*ret_value = value_of(&doc, node);
	return r;
}

int answer_read(struct span object, const char *const *names, size_t count,
                struct answer_members *ret_members)
{
	struct json_plan plan;
	struct json_doc doc;
	uint8_t nodes[ANSWER_MEMBERS_MAX];
	CHECK(count <= ANSWER_MEMBERS_MAX);
	json_plan_init(&plan);
	for (size_t i = 0; i < count; i++)
		CHECK(add_path(&plan, names[i], &nodes[i]) == 0); /* names of ours */
	json_plan_seal(&plan);
	int r = json_scan(object, &plan, &doc);
	for (size_t i = 0; i < count && r == 0; i++)
		ret_members->texts[i] = value_of(&doc, nodes[i]);
	return r;
}

int answer_each(struct span array, void *user,
                int (*each)(void *user, struct span element, uint32_t index))
{
	struct json_elements elements;
	struct json_doc doc;
	struct span element;
	uint32_t index = 0;
	if (array.len == 0)
		return 0;
	int more = json_elements_begin(&elements, array);
	while (more == 0 && (more = json_elements_next(&elements, NULL, &doc, &element)) == 1)
		more = each(user, element, index++);
	return more;
}

void answer_put(struct buf *out, struct span text)
{
	for (size_t i = 0; i < text.len; i++) {
		bool escapes = text.ptr[i] == '\\' && i + 1 < text.len;
		if (escapes && (text.ptr[i + 1] == '"' || text.ptr[i + 1] == '\\'))
			i++;
		buf_append_char(out, text.ptr[i]);
	}
}

/* ---- rows ---- */

struct table {
	struct answer_columns columns;
	struct json_plan plan;
	uint8_t nodes[ANSWER_COLUMNS_MAX];
	size_t widths[ANSWER_COLUMNS_MAX];
	struct buf *out;
	bool printing; /* else the widths are measured */
};

static void put_cell(struct table *table, uint32_t i, struct span text)
{
	bool last = i + 1 == table->columns.count;
	if (text.len == 0)
		text = SPAN("-");
	if (!table->printing) {
		if (text.len > table->widths[i])
			table->widths[i] = text.len;
		return;
	}
	buf_append_span(table->out, text);
	for (size_t at = text.len; at < table->widths[i] + 2 && !last; at++)
		buf_append_char(table->out, ' ');
	if (last)
		buf_append_char(table->out, '\n');
}

static void put_titles(struct table *table)
{
	for (uint32_t i = 0; i < table->columns.count; i++)
		put_cell(table, i, span_str(table->columns.list[i].title));
}

static int put_rows(struct table *table, struct span array)
{
	struct json_elements elements;
	struct json_doc doc;
	struct span element;
	int count = 0;
	int r = json_elements_begin(&elements, array);
	while (r == 0) {
		int more = json_elements_next(&elements, &table->plan, &doc, &element);
		if (more <= 0)
			return more < 0 ? more : count;
		for (uint32_t i = 0; i < table->columns.count; i++)
			put_cell(table, i, value_of(&doc, table->nodes[i]));
		count++;
	}
	return r;
}

int answer_put_table(struct buf *out, struct span array, struct answer_columns columns, bool titles)
{
	struct table table = { .columns = columns, .out = out };
	CHECK(columns.count <= ANSWER_COLUMNS_MAX);
	json_plan_init(&table.plan);
	for (uint32_t i = 0; i < columns.count; i++) {
		int r = add_path(&table.plan, columns.list[i].path, &table.nodes[i]);
		if (r < 0)
			return r;
	}
	json_plan_seal(&table.plan);
	put_titles(&table);
	int r = put_rows(&table, array);
	if (r < 0)
		return r;
	table.printing = true;
	if (titles)
		put_titles(&table);
	return put_rows(&table, array);
}

int answer_put_lines(struct buf *out, struct span array)
{
	struct json_elements elements;
	struct json_doc doc;
	struct span element;
	int count = 0;
	int more = json_elements_begin(&elements, array);
	while (more == 0 && (more = json_elements_next(&elements, NULL, &doc, &element)) == 1) {
		buf_append_span(out, element);
		buf_append_char(out, '\n');
		count++;
		more = 0;
	}
	return more < 0 ? more : count;
}

int answer_print(const char *command, struct span answer, bool json, answer_write_fn *write)
{
	struct buf text = { 0 };
	int r = 0;
	if (json)
		buf_append_span(&text, answer);
	else
		r = write(answer, &text);
	const char *problem = NULL;
	if (r < 0)
		problem = "the gateway's answer cannot be read";
	else if (text.failed)
		problem = "no memory to print the answer";
	else if ((text.len > 0 && fwrite(text.ptr, text.len, 1, stdout) != 1) ||
	         fflush(stdout) != 0)
		problem = "the answer cannot be printed";
	if (problem)
		fprintf(stderr, "stile %s: %s\n", command, problem);
	buf_free(&text);
	return problem ? EXIT_CODE_FAILED : EXIT_CODE_OK;
}
