/* The filter as a whole: what goes in, what comes out, and what is said of the rest. */
#include "cli/filter/filter.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/filter/command.h"
#include "cli/filter/split.h"
#include "gate/recipe/presets.h"
#include "support/clock_fake.h"
#include "support/test.h"
#include "sys/stream.h"

static const unsigned char key[DIGEST_KEY_LEN] = { 1, 2, 3 };

/* A filter between files of its own. */
struct stage {
	char folder[256];
	struct recipe *recipe;
	struct filter_options options;
	struct filter *filter;
	struct filter_stats stats;
	int error;
	struct error_text text;
	char out[1 << 16];
	char rejected[1 << 16];
	char complaints[4096];
};

static int open_file(const struct stage *stage, const char *name)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", stage->folder, name);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	return fd;
}

static void complain(void *user, const char *text)
{
	struct stage *stage = user;
	size_t len = strlen(stage->complaints);
	snprintf(stage->complaints + len, sizeof(stage->complaints) - len, "%s\n", text);
}

static void begin_spec(struct stage *stage, struct recipe_spec *spec)
{
	struct recipe_problem problem;
	*stage = (struct stage){ .error = 0 };
	test_dir_make(stage->folder);
	spec->source = SPAN("test");
	spec->window_s = spec->window_s ? spec->window_s : 60;
	assert_int_equal(recipe_compile(spec, key, &stage->recipe, &problem), 0);
	stage->options = (struct filter_options){
		.recipe = stage->recipe,
		.out_fd = open_file(stage, "out"),
		.rejected_fd = open_file(stage, "rejected"),
		.complain = complain,
		.user = stage,
	};
}

static void begin(struct stage *stage)
{
	const struct preset *preset = preset_find(SPAN("auto"));
	begin_spec(stage, &(struct recipe_spec){ .cases = preset->cases,
	                                         .case_count = preset->case_count });
}

static void run(struct stage *stage, struct span text)
{
	struct filter_input input = { .fd = open_file(stage, "in"), .name = NULL };
	if (!stage->filter)
		assert_int_equal(filter_new(&stage->options, &stage->filter), 0);
	assert_int_equal(write(input.fd, text.ptr, text.len), text.len);
	lseek(input.fd, 0, SEEK_SET);
	stage->error = filter_run(stage->filter, &input, &stage->text);
	stage->stats = filter_get_stats(stage->filter);
	close(input.fd);
	ssize_t n = pread(stage->options.out_fd, stage->out, sizeof(stage->out) - 1, 0);
	stage->out[n > 0 ? n : 0] = '\0';
	n = pread(stage->options.rejected_fd, stage->rejected, sizeof(stage->rejected) - 1, 0);
	stage->rejected[n > 0 ? n : 0] = '\0';
}

static void end(struct stage *stage)
{
	filter_free(stage->filter);
	recipe_free(stage->recipe);
	close(stage->options.out_fd);
	close(stage->options.rejected_fd);
	test_dir_remove(stage->folder);
}

static struct stage stage; /* large */

static void what_passes_is_byte_for_byte_what_came(void **state)
{
	(void)state;
	begin(&stage);
	run(&stage, SPAN(" {\"id\":\"a\" , \"x\":1.0}\t\r\n\n{\"id\":\"a\" , \"x\":1.0}\n"
	                 "{\"id\":\"\\u0062\"}\n{\"id\":\"c\"}"));
	assert_int_equal(stage.error, 0);
	assert_string_equal(stage.out, " {\"id\":\"a\" , \"x\":1.0}\t\r\n{\"id\":\"\\u0062\"}\n"
	                               "{\"id\":\"c\"}\n");
	assert_int_equal(stage.stats.read, 4);
	assert_int_equal(stage.stats.verdicts[VERDICT_NEW], 3);
	assert_int_equal(stage.stats.verdicts[VERDICT_DUPLICATE], 1);
	end(&stage);
}

static void elements_of_an_array_are_lines(void **state)
{
	(void)state;
	begin(&stage);
	run(&stage, SPAN("[{\"id\":1},\n{\"id\":\r\n2},{\"id\":1}, 7]"));
	assert_int_equal(stage.error, 0);
	assert_string_equal(stage.out, "{\"id\":1}\n{\"id\":  2}\n");
	assert_int_equal(stage.stats.bad, 1);
	assert_int_equal(stage.stats.verdicts[VERDICT_DUPLICATE], 1);
	end(&stage);
}

#define DELIVERY \
	"{\"headers\":{\"X-GitHub-Delivery\":\"d1\",\"x-github-event\":\"push\"},\"body\":{\"n\":1}}"

static void an_envelope_brings_the_headers_and_passes_as_it_is(void **state)
{
	(void)state;
	begin(&stage);
	stage.options.envelope = true;
	run(&stage,
	    SPAN(" " DELIVERY " \n"
	         "{\"at\":[{\"}\":1}],\"body\":\"{\\\"n\\\":1}\",\"headers\":{\"n\":[1,\"]}\",{}],"
	         "\"X-Git\\u0048ub-Event\":\"push\", \"m\" : null , "
	         "\"x-GITHUB-delivery\":\"d\\u0031\"}}\n"
	         "{\"headers\":{},\"body\":{\"id\":\"plain\"}}\n"
	         "{\"body\":{\"id\":\"plain\"}}\n"));
	assert_int_equal(stage.error, 0);
	assert_string_equal(stage.out, " " DELIVERY " \n"
	                               "{\"headers\":{},\"body\":{\"id\":\"plain\"}}\n");
	assert_int_equal(stage.stats.verdicts[VERDICT_DUPLICATE], 2);
	assert_non_null(strstr(stage.rejected, "\"claim\":\"github\",\"parts\":"
	                                       "\"header:x-github-delivery\",\"event\":{\"at\":["));
	end(&stage);
}

static void what_is_no_envelope_of_one_event_is_bad(void **state)
{
	(void)state;
	begin(&stage);
	stage.options.envelope = true;
	run(&stage, SPAN("{\"id\":\"a\"}\n{\"headers\":[],\"body\":{\"id\":\"a\"}}\n{\"body\":\n"
	                 "{\"body\":[{\"id\":\"a\"},{\"id\":\"b\"}]}\n"
	                 "{\"headers\":{},\"body\":{\"no\":\"key\"}}\n"
	                 "{\"body\":{\"id\":\"a\"}}\n"));
	assert_int_equal(stage.stats.bad, 5);
	assert_string_equal(stage.out, "{\"body\":{\"id\":\"a\"}}\n");
	assert_non_null(strstr(stage.complaints, "-:1: expected an envelope, {\"headers\""));
	assert_non_null(strstr(stage.complaints, "-:2: expected an envelope, {\"headers\""));
	assert_non_null(strstr(stage.complaints, "-:3: an envelope is JSON: at byte 8"));
	assert_non_null(strstr(stage.complaints, "-:4: expected one event in an envelope"));
	assert_non_null(strstr(stage.complaints, "-:5: "));
	end(&stage);
}

static void events_inside_of_an_event_pass_one_by_one(void **state)
{
	static const char text[] =
		"{\"Records\":[{\"eventSource\":\"aws:sqs\",\"messageId\":\"1\",\"eventSourceARN\":\"q\","
		"\"body\":\"x\"},{\"eventSource\":\"aws:sqs\",\"messageId\":\"1\",\"eventSourceARN\":\"q\","
		"\"body\":\"x\"}]}\n";
	(void)state;
	begin(&stage);
	run(&stage, span_str(text));
	assert_int_equal(stage.stats.read, 2);
	assert_string_equal(stage.out, "{\"eventSource\":\"aws:sqs\",\"messageId\":\"1\","
	                               "\"eventSourceARN\":\"q\",\"body\":\"x\"}\n");
	end(&stage);
}

static void the_rejected_tell_why_and_of_whom(void **state)
{
	(void)state;
	begin(&stage);
	run(&stage, SPAN("{\"id\":\"a\"}\n{\"id\":\"a\"}\n{\"id\":\"a\",\"x\":1}\nxyz\n"
	                 "{\"id\":\"a\",\"x\":1}\n"));
	assert_string_equal(
		stage.rejected,
		"{\"number\":2,\"line\":2,\"verdict\":\"duplicate\",\"reason\":\"the same key as event 1, "
		"of the same time\",\"first\":1,\"claim\":\"transport\",\"parts\":\"id\","
		"\"event\":{\"id\":\"a\"}}\n"
		"{\"number\":3,\"line\":3,\"verdict\":\"conflict\",\"reason\":\"the same key with other "
		"content as event 1, of the same time\",\"first\":1,\"claim\":\"transport\","
		"\"parts\":\"id\",\"event\":{\"id\":\"a\",\"x\":1}}\n"
		"{\"number\":4,\"line\":4,\"verdict\":\"bad\",\"reason\":\"expected a JSON object; at "
		"byte 0 of the body: expected a value: object, array, string, number, true, false or "
		"null\",\"text\":\"xyz\"}\n"
		"{\"number\":5,\"line\":5,\"verdict\":\"duplicate\",\"reason\":\"the same key as event 3, "
		"of the same time\",\"first\":3,\"claim\":\"transport\",\"parts\":\"id\","
		"\"event\":{\"id\":\"a\",\"x\":1}}\n");
	assert_int_equal(stage.stats.verdicts[VERDICT_CONFLICT], 1);
	assert_string_equal(stage.complaints,
	                    "-:4: expected a JSON object; at byte 0 of the body: "
	                    "expected a value: object, array, string, number, true, "
	                    "false or null\n");
	end(&stage);
}

static void other_content_passes_where_the_source_says_so(void **state)
{
	(void)state;
	begin(&stage);
	stage.options.on_conflict = STORE_CONFLICT_PASS;
	run(&stage, SPAN("{\"id\":\"a\"}\n{\"id\":\"a\",\"x\":1}\n{\"id\":\"a\",\"x\":1}\n"));
	assert_string_equal(stage.out, "{\"id\":\"a\"}\n{\"id\":\"a\",\"x\":1}\n");
	assert_int_equal(stage.stats.verdicts[VERDICT_CONFLICT], 1);
	assert_int_equal(stage.stats.verdicts[VERDICT_DUPLICATE], 1);
	end(&stage);
}

static void windows_go_by_the_time_of_the_events(void **state)
{
	(void)state;
	begin(&stage);
	run(&stage, SPAN("{\"id\":\"a\",\"time\":1000}\n{\"id\":\"a\",\"time\":1000}\n"
	                 "{\"id\":\"b\",\"time\":1060}\n{\"id\":\"b\"}\n"));
	assert_int_equal(stage.stats.verdicts[VERDICT_NEW], 2);
	run(&stage, SPAN("{\"id\":\"a\",\"time\":1060}\n{\"id\":\"a\",\"time\":1030}\n"));
	assert_int_equal(stage.stats.verdicts[VERDICT_NEW], 3);
	assert_int_equal(stage.stats.undated, 1);
	end(&stage);
}

static void windows_go_by_the_clock_when_that_is_asked_for(void **state)
{
	struct clock_fake clock;
	(void)state;
	begin(&stage);
	clock_fake_init(&clock);
	stage.options.arrival = true;
	stage.options.clock = &clock.clock;
	run(&stage, SPAN("{\"id\":\"a\",\"time\":1000}\n{\"id\":\"a\",\"time\":9000}\n"));
	assert_int_equal(stage.stats.verdicts[VERDICT_NEW], 1);
	clock_fake_advance(&clock, 60000);
	run(&stage, SPAN("{\"id\":\"a\",\"time\":1000}\n"));
	assert_int_equal(stage.stats.verdicts[VERDICT_NEW], 2);
	end(&stage);
}

static void shadow_claims_only_count_and_stale_states_stay_out(void **state)
{
	static const struct recipe_case_spec it = {
		.name = "order",
		.claim_count = 2,
		.claims = { { .kind = CLAIM_ONCE,
		              .shadow = true,
		              .part_count = 1,
		              .parts = { { "id", 2 } } },
		            { .kind = CLAIM_NEWEST,
		              .part_count = 1,
		              .parts = { { "order", 5 } },
		              .time = { "at", 2 } } },
	};
	(void)state;
	begin_spec(&stage, &(struct recipe_spec){ .cases = &it, .case_count = 1 });
	run(&stage, SPAN("{\"id\":1,\"order\":7,\"at\":100}\n{\"id\":1,\"order\":8,\"at\":90}\n"
	                 "{\"id\":2,\"order\":7,\"at\":99}\n"));
	assert_int_equal(stage.stats.verdicts[VERDICT_NEW], 2);
	assert_int_equal(stage.stats.would, 1);
	assert_int_equal(stage.stats.verdicts[VERDICT_STALE], 1);
	assert_non_null(
		strstr(stage.rejected, "\"verdict\":\"stale\",\"reason\":\"older than event 1"));
	end(&stage);
}

static void a_line_that_is_too_long_is_bad_and_the_next_is_read(void **state)
{
	size_t len = FILTER_EVENT_MAX + 100;
	char *text = mem_alloc(len + 64);
	(void)state;
	assert_non_null(text);
	memset(text, 'x', len);
	memcpy(text + len, "\n{\"id\":\"a\"}\n", 12);
	begin(&stage);
	run(&stage, span_of(text, len + 12));
	assert_int_equal(stage.error, 0);
	assert_int_equal(stage.stats.bad, 1);
	assert_string_equal(stage.out, "{\"id\":\"a\"}\n");
	assert_non_null(
		strstr(stage.rejected, "\"reason\":\"an event of more than 4 MiB\",\"begins\":"));
	end(&stage);
	mem_free(text);
}

static void a_broken_array_on_a_line_passes_nothing(void **state)
{
	(void)state;
	begin(&stage);
	run(&stage, SPAN("{\"id\":\"0\"}\n[{\"id\":\"1\"},{\"id\":\"2\"},}\n{\"id\":\"3\"}\n"
	                 "[{\"id\":\"1\"},{\"id\":\"2\"}]\n"));
	assert_int_equal(stage.error, 0);
	assert_string_equal(stage.out, "{\"id\":\"0\"}\n{\"id\":\"3\"}\n{\"id\":\"1\"}\n"
	                               "{\"id\":\"2\"}\n");
	assert_int_equal(stage.stats.read, 5);
	assert_int_equal(stage.stats.passed, 4);
	assert_int_equal(stage.stats.bad, 1);
	assert_non_null(strstr(stage.rejected, "\"number\":2"));
	end(&stage);
}

static void a_broken_array_is_an_error_after_what_was_found(void **state)
{
	(void)state;
	begin(&stage);
	run(&stage, SPAN("[{\"id\":1},\n{\"id\":2} {\"id\":3}]"));
	assert_int_equal(stage.error, ERR_INVALID);
	assert_string_equal(stage.out, "{\"id\":1}\n{\"id\":2}\n");
	assert_string_equal(stage.text.text,
	                    "line 2: expected a comma or ]; the rest cannot be read");
	end(&stage);
}

/* Blocks of the filter end anywhere; lines of all lengths cross their bounds. */
static void blocks_do_not_show(void **state)
{
	uint64_t seed = test_seed();
	uint64_t random = seed;
	struct buf text = { 0 };
	uint32_t originals = 0;
	(void)state;
	begin(&stage);
	for (uint32_t i = 0; i < 12000; i++) {
		bool again = originals > 0 && test_random_below(&random, 3) == 0;
		uint64_t id = again ? test_random_below(&random, originals) : originals++;
		uint64_t fill = id * 7919 % 700;
		buf_printf(&text, "{\"id\":\"%llu\",\"fill\":\"", (unsigned long long)id);
		for (uint64_t j = 0; j < fill; j++)
			buf_append_char(&text, 'x');
		buf_append_span(&text, SPAN("\"}\n"));
	}
	assert_false(text.failed);
	assert_true(text.len > 3 * (1u << 20));
	run(&stage, buf_span(&text));
	assert_int_equal(stage.stats.verdicts[VERDICT_NEW], originals);
	assert_int_equal(stage.stats.verdicts[VERDICT_DUPLICATE], 12000 - originals);
	/* Each original once, in order. */
	FILE *out = fdopen(dup(stage.options.out_fd), "r");
	assert_non_null(out);
	rewind(out);
	unsigned long long id;
	uint32_t count = 0;
	while (fscanf(out, "{\"id\":\"%llu\"%*[^\n]\n", &id) == 1) {
		assert_int_equal(id, count++);
	}
	fclose(out);
	assert_int_equal(count, originals);
	buf_free(&text);
	end(&stage);
}

static void whoever_reads_may_leave(void **state)
{
	int pipe_fds[2];
	(void)state;
	begin(&stage);
	assert_int_equal(pipe(pipe_fds), 0);
	close(pipe_fds[0]);
	close(stage.options.out_fd);
	stage.options.out_fd = pipe_fds[1];
	stream_ignore_broken_pipes();
	run(&stage, SPAN("{\"id\":\"a\"}\n"));
	assert_int_equal(stage.error, -EPIPE);
	end(&stage);
}

static void without_memory_it_fails_and_says_so(void **state)
{
	(void)state;
	for (unsigned long n = 1;; n++) {
		begin(&stage);
		mem_fail_at(n, true);
		int error = filter_new(&stage.options, &stage.filter);
		mem_fail_at(0, false);
		end(&stage);
		if (error == 0)
			break;
		assert_int_equal(error, -ENOMEM);
		stage.filter = NULL;
	}
}

static void the_summary_is_text_or_json(void **state)
{
	struct buf out = { 0 };
	struct filter_summary summary = {
		.stats = { .bytes = 1234567,
		           .read = 1234,
		           .passed = 1000,
		           .verdicts = { [VERDICT_NEW] = 1000, [VERDICT_DUPLICATE] = 230 },
		           .bad = 4,
		           .claims = 2000,
		           .claims_bytes = 401504 },
		.ns = 500000000,
	};
	(void)state;
	filter_write_text(&summary, &out);
	buf_append_char(&out, '\0');
	assert_string_equal(out.ptr, "read                 1,234\n"
	                             "new                  1,000   81.0 %\n"
	                             "duplicate              230   18.6 %\n"
	                             "stale                    0\n"
	                             "conflict                 0\n"
	                             "bad                      4    0.3 %\n"
	                             "1.23 MB in 0.5 s, 2.47 MB/s; 2,000 claims in 401.50 kB of "
	                             "memory\n");
	buf_clear(&out);
	filter_write_json(&summary, &out);
	buf_append_char(&out, '\0');
	assert_string_equal(out.ptr,
	                    "{\"read\":1234,\"passed\":1000,\"new\":1000,\"duplicate\":230,"
	                    "\"stale\":0,\"conflict\":0,\"bad\":4,\"shadow\":0,"
	                    "\"undated\":0,\"bytes\":1234567,\"milliseconds\":500,"
	                    "\"claims\":2000,\"claims_forgotten\":0,"
	                    "\"claims_bytes\":401504}\n");
	buf_clear(&out);
	filter_write_progress(&summary, &out);
	buf_append_char(&out, '\0');
	assert_string_equal(out.ptr, "1.23 MB  2,468 events/s  new 1,000  duplicate 230  bad 4");
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_passes_is_byte_for_byte_what_came),
		cmocka_unit_test(elements_of_an_array_are_lines),
		cmocka_unit_test(an_envelope_brings_the_headers_and_passes_as_it_is),
		cmocka_unit_test(what_is_no_envelope_of_one_event_is_bad),
		cmocka_unit_test(events_inside_of_an_event_pass_one_by_one),
		cmocka_unit_test(the_rejected_tell_why_and_of_whom),
		cmocka_unit_test(other_content_passes_where_the_source_says_so),
		cmocka_unit_test(windows_go_by_the_time_of_the_events),
		cmocka_unit_test(windows_go_by_the_clock_when_that_is_asked_for),
		cmocka_unit_test(shadow_claims_only_count_and_stale_states_stay_out),
		cmocka_unit_test(a_line_that_is_too_long_is_bad_and_the_next_is_read),
		cmocka_unit_test(a_broken_array_on_a_line_passes_nothing),
		cmocka_unit_test(a_broken_array_is_an_error_after_what_was_found),
		cmocka_unit_test(blocks_do_not_show),
		cmocka_unit_test(whoever_reads_may_leave),
		cmocka_unit_test(without_memory_it_fails_and_says_so),
		cmocka_unit_test(the_summary_is_text_or_json),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
