/* explain_command: see explain_command.h. */
#include "cli/explain_command.h"

#include <string.h>
#include <unistd.h>

#include "base/exit_code.h"
#include "base/mem.h"
#include "cli/filter/split.h"
#include "config/options.h"
#include "config/source_choice.h"
#include "sys/file.h"
#include "sys/stream.h"

#define INPUT_MAX (64u << 20)

struct explain_options {
	struct source_choice_options choice;
	struct option_texts headers;
	const char *path;
	const char *query;
	bool json;
};

#define AT(member) offsetof(struct explain_options, member)

static const struct option options[] = {
	{ "preset", OPTION_TEXT, AT(choice.preset), "NAME", NULL, 0, 0, NULL,
	  "whose event it is; stile help init lists them (default: auto)" },
	{ "config", OPTION_TEXT, AT(choice.config), "FILE", NULL, 0, 0, NULL,
	  "see it as a source of this configuration does" },
	{ "source", OPTION_TEXT, AT(choice.source), "NAME", NULL, 0, 0, NULL,
	  "with --config: which source, if it has several" },
	{ "header", OPTION_TEXTS, AT(headers), "'NAME: VALUE'", NULL, 0, 0, NULL,
	  "a header that the event comes with; may be given several times" },
	{ "path", OPTION_TEXT, AT(path), "PATH", NULL, 0, 0, NULL, "the path of its request" },
	{ "query", OPTION_TEXT, AT(query), "QUERY", NULL, 0, 0, NULL,
	  "the query of its request, without the ?" },
	{ "json", OPTION_FLAG, AT(json), NULL, NULL, 0, 0, NULL,
	  "one JSON object a line for each event" },
};

const struct option_table explain_option_table = { options, ARRAY_LEN(options) };

struct explainer {
	const struct explain_options *options;
	const struct recipe *recipe;
	struct recipe_scratch scratch;
	struct recipe_input input; /* but for the body */
	struct http1_header headers[OPTION_TEXTS_MAX];
	struct buf json;
	struct buf out;
	uint64_t count;
};

static int fail(const char *name, int error)
{
	fprintf(stderr, "stile explain: %s: %s\n", name, error_name(error));
	return EXIT_CODE_FAILED;
}

static struct span trim(struct span text)
{
	while (text.len > 0 && (text.ptr[0] == ' ' || text.ptr[0] == '\t'))
		text = span_skip(text, 1);
	while (text.len > 0 && (text.ptr[text.len - 1] == ' ' || text.ptr[text.len - 1] == '\t'))
		text.len--;
	return text;
}

/* False: one of them has no colon. */
static bool read_headers(struct explainer *explainer)
{
	const struct option_texts *texts = &explainer->options->headers;
	for (uint32_t i = 0; i < texts->count; i++) {
		struct span value = span_str(texts->texts[i]);
		struct span name = trim(span_cut_item(&value, ':'));
		if (name.len == 0 || name.len == strlen(texts->texts[i]))
			return false;
		explainer->headers[i] = (struct http1_header){ name, trim(value) };
	}
	explainer->input.headers = explainer->headers;
	explainer->input.header_count = texts->count;
	return true;
}

static void explain_event(struct explainer *explainer, struct span event)
{
	struct buf *out = &explainer->out;
	explainer->input.body = event;
	buf_clear(&explainer->json);
	recipe_explain(explainer->recipe, &explainer->scratch, &explainer->input, &explainer->json);
	if (explainer->options->json) {
		buf_append_span(out, buf_span(&explainer->json));
		buf_append_char(out, '\n');
	} else {
		if (explainer->count > 0)
			buf_append_char(out, '\n');
		buf_fail(out, explain_write_text(buf_span(&explainer->json), out));
	}
	explainer->count++;
}

/* The events of a file: lines, elements of arrays, or the one that it is. */
static void explain_bytes(struct explainer *explainer, struct span bytes)
{
	struct filter_split split = { .event_max = INPUT_MAX };
	struct filter_piece piece;
	struct span rest = bytes;
	uint64_t before = explainer->count;
	enum filter_step step = filter_split_next(&split, &rest, true, &piece);
	for (; step == FILTER_EVENT; step = filter_split_next(&split, &rest, true, &piece))
		explain_event(explainer, piece.event);
	/* What cannot be told apart is one event, and the recipe says what is wrong. */
	if (step == FILTER_BROKEN || explainer->count == before)
		explain_event(explainer, explainer->count == before ? bytes : rest);
}

static int read_stdin(char **ret_bytes, size_t *ret_len)
{
	struct buf bytes = { .cap = INPUT_MAX };
	int64_t n = 0;
	do {
		bytes.len += (size_t)n;
		int error = buf_reserve(&bytes, 64u << 10);
		n = error != 0 ? error
		               : stream_read(STDIN_FILENO, bytes.ptr + bytes.len, 64u << 10);
	} while (n > 0);
	if (n < 0) {
		buf_free(&bytes);
		return (int)n;
	}
	*ret_bytes = bytes.ptr;
	*ret_len = bytes.len;
	return 0;
}

static int explain_file(struct explainer *explainer, const char *name)
{
	char *bytes = NULL;
	size_t len = 0;
	bool standard = strcmp(name, "-") == 0;
	int error = standard ? read_stdin(&bytes, &len)
	                     : file_read_whole(file_system_real(), name, INPUT_MAX, &bytes, &len);
	if (error != 0)
		return fail(standard ? "standard input" : name, error);
	explain_bytes(explainer, span_of(bytes, len));
	mem_free(bytes);
	return EXIT_CODE_OK;
}

static int explain_all(struct explainer *explainer, int count, char **names)
{
	int code = count == 0 ? explain_file(explainer, "-") : EXIT_CODE_OK;
	for (int i = 0; i < count && code == EXIT_CODE_OK; i++)
		code = explain_file(explainer, names[i]);
	int error = explainer->out.failed ? -ENOMEM : 0;
	if (error == 0)
		error = stream_write(STDOUT_FILENO, buf_span(&explainer->out));
	return error != 0 ? fail("standard output", error) : code;
}

static void explainer_free(struct explainer *explainer)
{
	recipe_scratch_free(&explainer->scratch);
	buf_free(&explainer->json);
	buf_free(&explainer->out);
}

int explain_command(int argc, char **argv)
{
	/* Digests are shown so that two events can be compared, and that by anyone:
	 * the key of a data folder is a secret. */
	static const unsigned char key[DIGEST_KEY_LEN] = { 0 };
	struct explain_options values = { 0 };
	struct source_choice choice;
	struct error_text text;
	int rest = 0;
	if (options_parse(explain_option_table, argc, argv, &values, &rest, &text) != 0)
		return command_usage_error("explain", text.text);
	struct explainer explainer = {
		.options = &values,
		.input = { .path = span_str(values.path), .query = span_str(values.query) },
	};
	if (!read_headers(&explainer))
		return command_usage_error("explain", "--header: expected 'Name: value'");
	int code = source_choice_make("explain", &values.choice, key, &choice);
	if (code != EXIT_CODE_OK)
		return code;
	explainer.recipe = choice.recipe;
	code = explain_all(&explainer, rest, argv);
	explainer_free(&explainer);
	source_choice_free(&choice);
	return code;
}
