/* Lines as parts: the same bytes as copied lines, wherever a write stops. */
#include "sink/line_parts.h"

#include "sink/outlet_line.h"
#include "support/test.h"

#define EVENTS 6u
#define LARGE 600u

struct events {
	struct outlet_attempt chain[EVENTS];
	char large[LARGE];
	char broken[LARGE];
};

static void fill_text(char *text, char middle)
{
	memset(text, 'x', LARGE);
	memcpy(text, "{\"a\":\"", 6);
	memcpy(text + LARGE - 3, "\" }", 3);
	text[LARGE - 2] = middle;
}

/* Small and large, with line breaks and without, and what is no JSON. */
static void make_events(struct events *events)
{
	fill_text(events->large, ' ');
	fill_text(events->broken, '\n');
	struct span large = span_of(events->large, LARGE), broken = span_of(events->broken, LARGE);
	const struct span payloads[EVENTS] = { large, SPAN("{}"), broken, large, large, large };
	for (uint32_t i = 0; i < EVENTS; i++)
		events->chain[i] = (struct outlet_attempt){
			.ticket = i + 1,
			.number = 1,
			.json = i != 4,
			.line = i == 3,
			.source = SPAN("events"),
			.payload = payloads[i],
			.next = i + 1 < EVENTS ? &events->chain[i + 1] : NULL,
		};
}

static void append_left(const struct line_parts *parts, struct buf *out)
{
	int count;
	const struct iovec *left = line_parts_left(parts, LINE_PARTS_MAX, &count);
	for (int i = 0; i < count; i++)
		buf_append(out, left[i].iov_base, left[i].iov_len);
}

static bool is_inside(const struct iovec *part, const char *text)
{
	return (const char *)part->iov_base == text && part->iov_len == LARGE;
}

static void parts_are_the_lines_whatever_was_written_of_them(void **state)
{
	(void)state;
	static struct events events;
	static struct line_parts parts;
	make_events(&events);
	for (uint32_t way = 0; way < 8; way++) {
		struct line_form form = { .envelope = way & 1,
			                  .together = (way & 2) != 0,
			                  .torn = (way & 4) != 0,
			                  .enough = SIZE_MAX };
		struct buf wanted = { 0 }, found = { 0 };
		if (form.torn)
			buf_append_char(&wanted, '\n');
		size_t ends[EVENTS];
		for (uint32_t i = 0; i < EVENTS; i++) {
			outlet_append_event(&wanted, &events.chain[i], form.envelope);
			ends[i] = wanted.len;
		}
		for (size_t first = 0; first <= wanted.len; first++) {
			assert_null(line_parts_fill(&parts, events.chain, &form));
			assert_int_equal(parts.len, wanted.len);
			line_parts_written(&parts, first / 2);
			line_parts_written(&parts, first - first / 2);
			assert_int_equal(parts.left, wanted.len - first);
			buf_clear(&found);
			append_left(&parts, &found);
			assert_int_equal(found.len, wanted.len - first);
			assert_memory_equal(found.ptr, wanted.ptr + first, found.len);
		}
		for (uint32_t i = 0; i < EVENTS; i++)
			assert_int_equal(events.chain[i].own, ends[i]);
		buf_free(&wanted);
		buf_free(&found);
	}
	line_parts_free(&parts);
}

static void a_large_line_stays_where_it_lies(void **state)
{
	(void)state;
	static struct events events;
	static struct line_parts parts;
	make_events(&events);
	int count;
	line_parts_fill(&parts, events.chain, &(struct line_form){ .enough = SIZE_MAX });
	const struct iovec *left = line_parts_left(&parts, LINE_PARTS_MAX, &count);
	/* The ends of lines, and the two events that must be made, are one part each. */
	assert_int_equal(count, 6);
	assert_true(is_inside(&left[0], events.large) && is_inside(&left[2], events.large) &&
	            is_inside(&left[4], events.large));
	line_parts_left(&parts, 2, &count);
	assert_int_equal(count, 2);
	line_parts_fill(&parts, events.chain,
	                &(struct line_form){ .together = true, .enough = SIZE_MAX });
	line_parts_left(&parts, LINE_PARTS_MAX, &count);
	assert_int_equal(count, 1);
	line_parts_free(&parts);
}

static void enough_is_enough(void **state)
{
	(void)state;
	static struct events events;
	static struct line_parts parts;
	make_events(&events);
	struct outlet_attempt *rest = line_parts_fill(&parts, events.chain,
	                                              &(struct line_form){ .enough = LARGE + 2 });
	assert_ptr_equal(rest, &events.chain[2]);
	assert_int_equal(parts.len, LARGE + 1 + 3);
	assert_int_equal(events.chain[1].own, parts.len);
	line_parts_free(&parts);
}

static void a_long_chain_goes_in_several_fillings(void **state)
{
	(void)state;
	static struct outlet_attempt chain[LINE_PARTS_MAX];
	static struct line_parts parts;
	static char text[LARGE];
	fill_text(text, ' ');
	for (uint32_t i = 0; i < LINE_PARTS_MAX; i++)
		chain[i] = (struct outlet_attempt){
			.json = true,
			.payload = span_of(text, LARGE),
			.next = i + 1 < LINE_PARTS_MAX ? &chain[i + 1] : NULL,
		};
	size_t lines = 0;
	uint32_t fillings = 0;
	for (struct outlet_attempt *first = chain; first; fillings++) {
		struct outlet_attempt *next =
			line_parts_fill(&parts, first, &(struct line_form){ .enough = SIZE_MAX });
		assert_true(next == NULL || next - first >= 1024);
		assert_int_equal(parts.len % (LARGE + 1), 0);
		lines += parts.len / (LARGE + 1);
		first = next;
	}
	assert_int_equal(lines, LINE_PARTS_MAX);
	assert_true(fillings > 1);
	line_parts_free(&parts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_are_the_lines_whatever_was_written_of_them),
		cmocka_unit_test(a_large_line_stays_where_it_lies),
		cmocka_unit_test(enough_is_enough),
		cmocka_unit_test(a_long_chain_goes_in_several_fillings),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
