/* The head parser, the chunked coding and heads of answers. */
#include "codec/http1.h"

#include <stdio.h>

#include "codec/http1_drive.h"
#include "codec/http_corpus.h"
#include "support/test.h"

static const struct http1_limits limits = { .head_bytes = 16384, .headers = 100 };

/* A copy of exactly its size, so that ASan sees the first byte too far. */
static char *exact_copy(const char *bytes, size_t len)
{
	char *copy = malloc(len ? len : 1);
	assert_non_null(copy);
	memcpy(copy, bytes, len);
	return copy;
}

static void check_cut(const struct http_corpus_row *row, const char *bytes, size_t first,
                      size_t step)
{
	struct drive drive;
	int status = drive_cut(&drive, bytes, row->len, first, step);
	if (status != row->status)
		fail_msg("%s: got %d, not %d, with the first %zu bytes and then %zu at a time (%s)",
		         row->what, status, row->status, first, step,
		         drive.refusal.reason ? drive.refusal.reason : "-");
	if (status == 200 && row->body) {
		if (drive.body_len != strlen(row->body) ||
		    memcmp(drive.body, row->body, drive.body_len) != 0)
			fail_msg("%s: another body", row->what);
		if (drive.used != row->len)
			fail_msg("%s: used %zu of %zu", row->what, drive.used, row->len);
	}
	drive_free(&drive);
}

static void every_row_has_its_outcome_wherever_it_is_cut(void **state)
{
	(void)state;
	assert_true(http_corpus_count >= 120);
	for (size_t i = 0; i < http_corpus_count; i++) {
		const struct http_corpus_row *row = &http_corpus[i];
		char *bytes = exact_copy(row->bytes, row->len);
		for (size_t cut = 0; cut <= row->len; cut++)
			check_cut(row, bytes, cut, row->len);
		for (size_t step = 1; step < 24; step++)
			check_cut(row, bytes, 0, step);
		free(bytes);
	}
}

/* A prefix of a good request must never be refused. */
static void no_beginning_of_a_good_request_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < http_corpus_count; i++) {
		const struct http_corpus_row *row = &http_corpus[i];
		for (size_t len = 0; row->status == 200 && row->body && len < row->len; len++) {
			struct drive drive;
			char *bytes = exact_copy(row->bytes, len);
			if (drive_cut(&drive, bytes, len, len, 1) != 0)
				fail_msg("%s: not asked for more after %zu bytes", row->what, len);
			drive_free(&drive);
			free(bytes);
		}
	}
}

static enum http1_status parse(const char *text, struct http1_head *ret_head)
{
	struct http1_scan scan = { 0 };
	struct http1_refusal refusal;
	size_t len;
	enum http1_status status = http1_scan_head(&scan, span_str(text), &limits, &len, &refusal);
	if (status != HTTP1_DONE)
		return status;
	return http1_parse_head(span_of(text + scan.start, len - scan.start), &limits, ret_head,
	                        &refusal);
}

static void assert_span(struct span span, const char *text)
{
	if (!span_eq(span, span_str(text)))
		fail_msg("\"%.*s\" is not \"%s\"", (int)span.len, span.ptr, text);
}

static void the_parts_of_a_head_are_found(void **state)
{
	(void)state;
	struct http1_head head;
	assert_int_equal(parse("POST /in/events?a=b HTTP/1.1\r\nHost: h\r\nX-Key:  v w \r\n"
	                       "Content-Length: 12\r\nExpect: 100-continue\r\n\r\n",
	                       &head),
	                 HTTP1_DONE);
	assert_int_equal(head.method, HTTP1_POST);
	assert_span(head.method_text, "POST");
	assert_span(head.target, "/in/events?a=b");
	assert_span(head.path, "/in/events");
	assert_span(head.query, "a=b");
	assert_int_equal(head.minor, 1);
	assert_true(head.keep_alive && head.has_length && head.expect_continue && !head.chunked);
	assert_int_equal(head.content_length, 12);
	assert_int_equal(head.header_count, 4);
	assert_span(head.headers[1].name, "X-Key");
	assert_span(*http1_header_find(&head, SPAN("x-KEY")), "v w");
	assert_null(http1_header_find(&head, SPAN("x-ke")));
}

static void absolute_form_is_read_as_origin_form(void **state)
{
	(void)state;
	static const struct {
		const char *sent, *target, *path, *query;
	} rows[] = {
		{ "http://h/in/events?a=b", "/in/events?a=b", "/in/events", "a=b" },
		{ "https://H/?http://x/", "/?http://x/", "/", "http://x/" },
		{ "HtTp://h//x", "//x", "//x", "" },
		{ "http://h", "/", "/", "" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[256], moved[256];
		struct http1_head head;
		snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", rows[i].sent);
		assert_int_equal(parse(text, &head), HTTP1_DONE);
		assert_span(head.target, rows[i].target);
		assert_span(head.path, rows[i].path);
		assert_span(head.query, rows[i].query);
		memcpy(moved, text, sizeof(text)); /* also when its bytes move */
		http1_head_rebase(&head, text, moved);
		memset(text, 'x', sizeof(text));
		assert_span(head.target, rows[i].target);
		assert_span(head.path, rows[i].path);
	}
}

static void every_known_method_is_known(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		enum http1_method method;
	} rows[] = {
		{ "GET", HTTP1_GET },     { "HEAD", HTTP1_HEAD },     { "POST", HTTP1_POST },
		{ "PUT", HTTP1_PUT },     { "DELETE", HTTP1_DELETE }, { "OPTIONS", HTTP1_OPTIONS },
		{ "PATCH", HTTP1_PATCH }, { "PATCHY", HTTP1_OTHER },  { "POS", HTTP1_OTHER },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[64];
		struct http1_head head;
		snprintf(text, sizeof(text), "%s / HTTP/1.1\r\nHost: a\r\n\r\n", rows[i].text);
		assert_int_equal(parse(text, &head), HTTP1_DONE);
		assert_int_equal(head.method, rows[i].method);
		assert_span(head.method_text, rows[i].text);
	}
}

static bool keeps_alive(const char *version, const char *connection)
{
	char text[256];
	struct http1_head head;
	snprintf(text, sizeof(text), "GET / HTTP/%s\r\nHost: a\r\n%s\r\n", version, connection);
	assert_int_equal(parse(text, &head), HTTP1_DONE);
	return head.keep_alive;
}

static void keep_alive_follows_version_and_connection(void **state)
{
	(void)state;
	assert_true(keeps_alive("1.1", ""));
	assert_false(keeps_alive("1.0", ""));
	assert_false(keeps_alive("1.1", "Connection: close\r\n"));
	assert_false(keeps_alive("1.1", "Connection: TE, Close\r\n"));
	assert_true(keeps_alive("1.0", "Connection: Keep-Alive\r\n"));
	assert_false(keeps_alive("1.0", "Connection: close, keep-alive\r\n"));
	assert_false(keeps_alive("1.1", "Connection: close\r\nConnection: keep-alive\r\n"));
	assert_true(keeps_alive("1.1", "Connection: closed\r\n"));
}

/* Writes a head with `count` headers, each with a value of `value_len`. */
static size_t write_large_head(char *out, size_t room, size_t target_len, size_t count,
                               size_t value_len)
{
	size_t len = (size_t)snprintf(out, room, "GET /");
	memset(out + len, 'a', target_len);
	len += target_len;
	len += (size_t)snprintf(out + len, room - len, " HTTP/1.1\r\nHost: a\r\n");
	for (size_t i = 1; i < count; i++) {
		len += (size_t)snprintf(out + len, room - len, "X: ");
		memset(out + len, 'v', value_len);
		len += value_len;
		len += (size_t)snprintf(out + len, room - len, "\r\n");
	}
	return len + (size_t)snprintf(out + len, room - len, "\r\n");
}

static int outcome(size_t target_len, size_t count, size_t value_len)
{
	static char bytes[64 * 1024];
	struct drive drive;
	size_t len = write_large_head(bytes, sizeof(bytes), target_len, count, value_len);
	int whole = drive_cut(&drive, bytes, len, len, 1);
	drive_free(&drive);
	int cut = drive_cut(&drive, bytes, len, 1, 97);
	drive_free(&drive);
	assert_int_equal(whole, cut);
	return whole;
}

static void heads_beyond_a_limit_are_refused_and_those_at_it_are_not(void **state)
{
	(void)state;
	assert_int_equal(outcome(1, 100, 1), 200);
	assert_int_equal(outcome(1, 101, 1), 431);
	assert_int_equal(outcome(HTTP1_TARGET_MAX - 1, 1, 1), 200);
	assert_int_equal(outcome(HTTP1_TARGET_MAX, 1, 1), 414);
	assert_int_equal(outcome(20000, 1, 1), 414);
	/* "GET / HTTP/1.1", "Host: a", the empty line: 16 + 9 + 2; a header is 5 more. */
	assert_int_equal(outcome(0, 2, 16384 - 27 - 5), 200);
	assert_int_equal(outcome(0, 2, 16384 - 27 - 4), 431);
	assert_int_equal(outcome(0, 2, 30000), 431);
}

static int chunked_outcome(const char *before, char filler, size_t count, const char *after)
{
	static char bytes[128 * 1024];
	struct drive drive;
	size_t len = (size_t)snprintf(
		bytes, sizeof(bytes),
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%s", before);
	memset(bytes + len, filler, count);
	len += count;
	len += (size_t)snprintf(bytes + len, sizeof(bytes) - len, "%s", after);
	int status = drive_cut(&drive, bytes, len, len, 1);
	drive_free(&drive);
	return status;
}

static void extensions_and_trailers_are_bounded(void **state)
{
	(void)state;
	const char *end = "\r\na\r\n0\r\n\r\n";
	assert_int_equal(chunked_outcome("1;", 'x', HTTP1_CHUNK_EXTENSION_MAX, end), 200);
	assert_int_equal(chunked_outcome("1;", 'x', HTTP1_CHUNK_EXTENSION_MAX + 1, end), 400);
	/* "X:" before and "\r\n\r" behind count too; the last LF ends the body. */
	assert_int_equal(chunked_outcome("0\r\nX:", 'x', HTTP1_TRAILERS_MAX - 4, "\r\n\r\n"), 200);
	assert_int_equal(chunked_outcome("0\r\nX:", 'x', HTTP1_TRAILERS_MAX - 3, "\r\n\r\n"), 431);
}

static void many_small_extensions_are_bounded_together(void **state)
{
	(void)state;
	struct http1_chunked chunked = { .limit = 1 << 20 };
	struct http1_refusal refusal = { 0 };
	static const char chunk[] = "1;0123456789abcdef\r\na\r\n";
	char out[64];
	enum http1_status status = HTTP1_MORE;
	int count = 0;
	for (; status == HTTP1_MORE; count++) {
		size_t taken, given;
		status = http1_chunked_decode(&chunked, span_of(chunk, sizeof(chunk) - 1), out,
		                              &taken, &given, &refusal);
	}
	assert_int_equal(status, HTTP1_BAD);
	assert_int_equal(refusal.status, 400);
	assert_int_equal(count, HTTP1_CHUNK_EXTENSIONS_MAX / 16 + 1);
}

static void chunks_beyond_the_limit_in_sum_are_refused(void **state)
{
	(void)state;
	struct http1_chunked chunked = { .limit = 9 };
	struct http1_refusal refusal = { 0 };
	char out[64];
	size_t taken, given;
	assert_int_equal(http1_chunked_decode(&chunked, SPAN("5\r\nhello\r\n5\r\n"), out, &taken,
	                                      &given, &refusal),
	                 HTTP1_BAD);
	assert_int_equal(refusal.status, 413);
}

static void chunks_are_decoded_in_place(void **state)
{
	(void)state;
	char bytes[] = "5\r\nhello\r\n7;x\r\n, world\r\n0\r\nT: u\r\n\r\nnext";
	struct http1_chunked chunked = { .limit = 100 };
	struct http1_refusal refusal;
	size_t taken, given;
	assert_int_equal(http1_chunked_decode(&chunked, span_str(bytes), bytes, &taken, &given,
	                                      &refusal),
	                 HTTP1_DONE);
	assert_span(span_of(bytes, given), "hello, world");
	assert_string_equal(bytes + taken, "next");
}

static void a_head_follows_its_bytes_when_they_move(void **state)
{
	(void)state;
	static const char text[] = "GET /p?q HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";
	struct http1_head head;
	assert_int_equal(parse(text, &head), HTTP1_DONE);
	char *copy = exact_copy(text, sizeof(text) - 1);
	http1_head_rebase(&head, text, copy);
	assert_ptr_equal(head.method_text.ptr, copy);
	assert_span(head.path, "/p");
	assert_span(head.query, "q");
	assert_span(head.headers[1].value, "y");
	assert_true(head.headers[1].value.ptr > copy &&
	            head.headers[1].value.ptr < copy + sizeof(text));
	free(copy);
}

static void assert_written(const struct http1_answer *answer, const char *expected)
{
	char out[1024];
	size_t len = http1_write_head(answer, out);
	assert_true(len <= http1_head_room(answer));
	assert_span(span_of(out, len), expected);
}

static void answers_are_written_in_full(void **state)
{
	(void)state;
	struct http1_answer answer = {
		.status = 200,
		.date = "Sun, 06 Nov 1994 08:49:37 GMT",
		.content_type = SPAN("application/json"),
		.headers = SPAN("A: b\r\nC: d\r\n"),
		.content_length = 1234567,
	};
	assert_written(&answer, "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
	                        "Content-Type: application/json\r\nContent-Length: 1234567\r\n"
	                        "A: b\r\nC: d\r\n\r\n");
	answer = (struct http1_answer){ .status = 204, .date = answer.date, .close = true };
	assert_written(&answer, "HTTP/1.1 204 No Content\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
	                        "Connection: close\r\n\r\n");
	answer =
		(struct http1_answer){ .status = 431, .date = answer.date, .say_keep_alive = true };
	assert_written(&answer, "HTTP/1.1 431 Request Header Fields Too Large\r\n"
	                        "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 0\r\n"
	                        "Connection: keep-alive\r\n\r\n");
	assert_string_equal(http1_reason(999), "Unknown");
}

static void assert_date(uint64_t unix_s, const char *expected)
{
	char out[HTTP1_DATE_LEN];
	http1_format_date(unix_s, out);
	assert_span(span_of(out, sizeof(out)), expected);
}

static void dates_are_those_of_the_rfc(void **state)
{
	(void)state;
	assert_date(784111777, "Sun, 06 Nov 1994 08:49:37 GMT");
	assert_date(0, "Thu, 01 Jan 1970 00:00:00 GMT");
	assert_date(951827696, "Tue, 29 Feb 2000 12:34:56 GMT");
	assert_date(253402300799, "Fri, 31 Dec 9999 23:59:59 GMT");
}

/* Random bytes and random damage: cuts must not matter. */
static void cuts_never_change_the_outcome_of_damaged_requests(void **state)
{
	(void)state;
	uint64_t seed = test_seed(), random = seed;
	for (uint64_t n = test_scale(20000); n > 0; n--) {
		const struct http_corpus_row *row =
			&http_corpus[test_random_below(&random, http_corpus_count)];
		if (row->len == 0)
			continue;
		char *bytes = exact_copy(row->bytes, row->len);
		bytes[test_random_below(&random, row->len)] = (char)test_random(&random);
		struct drive whole, cut;
		int a = drive_cut(&whole, bytes, row->len, row->len, 1);
		int b = drive_cut(&cut, bytes, row->len, test_random_below(&random, row->len),
		                  1 + test_random_below(&random, 20));
		if (a != b || (a == 200 && whole.used != cut.used))
			fail_msg("%s, damaged: %d whole and %d cut; %s", row->what, a, b,
			         test_note_seed(seed));
		drive_free(&whole);
		drive_free(&cut);
		free(bytes);
	}
}

static void media_types_are_told_apart_whatever_their_parameters(void **state)
{
	static const struct {
		const char *value;
		bool is;
	} cases[] = {
		{ "text/plain", true },
		{ "Text/PLAIN;charset=utf-8", true },
		{ "text/plain ; a=b", true },
		{ "text/plain\t", true },
		{ "text/plainfoo", false },
		{ "text/plai", false },
		{ "", false },
		{ "text/plain-x", false },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(http1_is_media_type(span_str(cases[i].value), SPAN("text/plain")),
		                 cases[i].is);
	assert_true(http1_is_token(SPAN("X-Api-Key")));
	assert_false(http1_is_token(SPAN("")));
	assert_false(http1_is_token(SPAN("X Api")));
	assert_false(http1_is_token(SPAN("X:")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_has_its_outcome_wherever_it_is_cut),
		cmocka_unit_test(no_beginning_of_a_good_request_is_refused),
		cmocka_unit_test(the_parts_of_a_head_are_found),
		cmocka_unit_test(absolute_form_is_read_as_origin_form),
		cmocka_unit_test(every_known_method_is_known),
		cmocka_unit_test(keep_alive_follows_version_and_connection),
		cmocka_unit_test(heads_beyond_a_limit_are_refused_and_those_at_it_are_not),
		cmocka_unit_test(extensions_and_trailers_are_bounded),
		cmocka_unit_test(many_small_extensions_are_bounded_together),
		cmocka_unit_test(chunks_beyond_the_limit_in_sum_are_refused),
		cmocka_unit_test(chunks_are_decoded_in_place),
		cmocka_unit_test(a_head_follows_its_bytes_when_they_move),
		cmocka_unit_test(answers_are_written_in_full),
		cmocka_unit_test(dates_are_those_of_the_rfc),
		cmocka_unit_test(cuts_never_change_the_outcome_of_damaged_requests),
		cmocka_unit_test(media_types_are_told_apart_whatever_their_parameters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
