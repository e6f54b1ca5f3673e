/*
 * fuzz_template: any text is a template or refused at a place inside of it; and what a
 * template makes of any event is fit for its form: a URL without a byte that could be
 * more than a value, a header of one line, JSON.
 *
 * The input is the template, a NUL, and the payload, which is also the metadata's texts.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "gate/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct template_run run;
static struct json_doc doc;

static void check_url(struct span text)
{
	for (size_t i = 0; i < text.len; i++)
		CHECK(text.ptr[i] > ' ' && text.ptr[i] < 0x7f);
}

static void check_header(struct span text)
{
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.ptr[i];
		CHECK((c >= ' ' || c == '\t') && c != 0x7f);
	}
}

static void check_text(enum template_form form, struct span text)
{
	if (form == TEMPLATE_URL)
		check_url(text);
	else if (form == TEMPLATE_HEADER)
		check_header(text);
	else
		CHECK(json_scan(text, NULL, &doc) == 0);
}

/* How many bytes of a fixed text's kind there are: values may add none. */
static size_t count(struct span text, char c)
{
	size_t n = 0;
	for (size_t i = 0; i < text.len; i++)
		n += text.ptr[i] == c;
	return n;
}

static void fill(const struct templates *templates, const struct template_event *event,
                 enum template_form form)
{
	struct error_text text = { "" };
	struct buf out = { .cap = 64u << 20 };
	struct buf sample = { .cap = 64u << 20 };
	template_sample(templates, 0, &sample);
	int error = template_begin(&run, templates, event, &text);
	if (!error)
		error = template_put(&run, 0, &out, &text);
	CHECK(error == 0 || error == ERR_INVALID || error == -ENOMEM);
	CHECK(error != ERR_INVALID || text.text[0]);
	if (!error) {
		check_text(form, buf_span(&out));
		bool url = form == TEMPLATE_URL;
		CHECK(!url || count(buf_span(&out), '/') == count(buf_span(&sample), '/'));
		CHECK(!url || count(buf_span(&out), '?') == count(buf_span(&sample), '?'));
		CHECK(!url || count(buf_span(&out), '&') == count(buf_span(&sample), '&'));
	}
	buf_free(&out);
	buf_free(&sample);
}

static void run_form(struct span text, const struct template_event *event, enum template_form form)
{
	struct templates *templates = NULL;
	struct error_text problem = { "" };
	uint32_t number = 99;
	CHECK(templates_new(&templates) == 0);
	int error = templates_add(templates, text, form, &number, &problem);
	CHECK(error == 0 || problem.text[0]);
	if (error == 0) {
		CHECK(number == 0);
		templates_seal(templates);
		fill(templates, event, form);
	}
	templates_free(templates);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size ? memchr(data, 0, size) : NULL;
	size_t len = end ? (size_t)(end - data) : size;
	struct span payload = end ? span_of(end + 1, size - len - 1) : SPAN("{}");
	struct metadata metadata = { .texts = {
					     [METADATA_ID] = payload, [METADATA_TYPE] = payload } };
	struct template_event event = { .ticket = 1,
		                        .attempt = 1,
		                        .source = SPAN("s"),
		                        .payload = payload,
		                        .metadata = &metadata };
	event.json = json_scan(payload, NULL, &doc) == 0;
	for (int form = TEMPLATE_JSON; form <= TEMPLATE_HEADER; form++)
		run_form(span_of(data, len), &event, (enum template_form)form);
	return 0;
}
