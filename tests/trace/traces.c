/* traces: see traces.h. */
#include "trace/traces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "support/test.h"

/* Every fourth passed, the three behind it are its duplicates. */
void made_trace_fill(struct made_trace *made, uint64_t number)
{
	uint64_t first = number - number % 4;
	bool passed = number == first;
	uint64_t time_ms = TRACES_NOW_MS + number * 10;
	int id_len = snprintf(made->id, sizeof(made->id), "id-%llu-€", (unsigned long long)number);
	int key_len = snprintf(made->key, sizeof(made->key), "order-%llu\x1fpaid",
	                       (unsigned long long)first);
	int entity_len = snprintf(made->entity, sizeof(made->entity), "customer-%llu",
	                          (unsigned long long)(number / 8));
	int correlation_len = snprintf(made->correlation, sizeof(made->correlation), "flow-%llu",
	                               (unsigned long long)number);
	made->trace = (struct trace){
		.time_ms = time_ms,
		.verdict = passed ? VERDICT_NEW : VERDICT_DUPLICATE,
		.flags = TRACE_CONTENT | (passed ? 0 : TRACE_ORIGINAL_CONTENT),
		.matched = (uint8_t)(number % 4),
		.ticket = passed ? ticket_next(0, time_ms) : 0,
		.original = passed ? 0 : ticket_next(0, TRACES_NOW_MS + first * 10),
		.gap_ms = (number - first) * 10,
		.content = first,
		.original_content = passed ? 0 : first,
		.source = number % 8 < 4 ? SPAN("orders") : SPAN("genesys"),
		.id = span_of(made->id, (size_t)id_len),
		.type = SPAN("order.paid"),
		.rule = SPAN("business"),
		.parts = SPAN("orderId, state"),
		.keys = { span_of(made->key, (size_t)key_len) },
		.peer = SPAN("192.0.2.1"),
		.entity = span_of(made->entity, (size_t)entity_len),
		.correlation = span_of(made->correlation, (size_t)correlation_len),
		.claim_count = 1,
		.claims = { { (first + 1) * UINT64_C(0x9e3779b97f4a7c15), 3600 } },
	};
}

static void same_text(struct span a, struct span b)
{
	assert_int_equal(a.len, b.len);
	assert_memory_equal(a.ptr ? a.ptr : "", b.ptr ? b.ptr : "", a.len);
}

uint64_t made_trace_check(const struct trace *trace)
{
	struct made_trace made;
	assert_true(trace->id.len > 3);
	uint64_t number = strtoull(trace->id.ptr + 3, NULL, 10);
	made_trace_fill(&made, number);
	const struct trace *true_one = &made.trace;
	same_text(trace->id, true_one->id);
	same_text(trace->type, true_one->type);
	same_text(trace->rule, true_one->rule);
	same_text(trace->parts, true_one->parts);
	same_text(trace->source, true_one->source);
	same_text(trace->keys[0], true_one->keys[0]);
	same_text(trace->keys[1], true_one->keys[1]);
	same_text(trace->peer, true_one->peer);
	same_text(trace->entity, true_one->entity);
	same_text(trace->correlation, true_one->correlation);
	assert_int_equal(trace->time_ms, true_one->time_ms);
	assert_int_equal(trace->verdict, true_one->verdict);
	assert_int_equal(trace->flags, true_one->flags);
	assert_int_equal(trace->matched, true_one->matched);
	assert_int_equal(trace->ticket, true_one->ticket);
	assert_int_equal(trace->original, true_one->original);
	assert_int_equal(trace->gap_ms, true_one->gap_ms);
	assert_int_equal(trace->content, true_one->content);
	assert_int_equal(trace->original_content, true_one->original_content);
	assert_int_equal(trace->claim_count, 1);
	assert_int_equal(trace->claims[0].word, true_one->claims[0].word);
	assert_int_equal(trace->claims[0].window_s, 3600);
	return number;
}

struct trace_log_options traces_options(struct simfs *simfs)
{
	return (struct trace_log_options){
		.path = "data",
		.fs = simfs_fs(simfs),
		.disk_bytes = 1u << 20,
		.no_thread = true,
	};
}

struct trace_log *traces_open(struct simfs *simfs)
{
	struct trace_log_options options = traces_options(simfs);
	struct trace_log *log = NULL;
	struct error_text text = { "" };
	struct file_system *fs = simfs_fs(simfs);
	fs->methods->make_dir(fs, "data");
	if (trace_log_open(&options, &log, &text) < 0)
		fail_msg("the log does not open: %s", text.text);
	return log;
}

static int log_fd = -1;

void told_begin(void)
{
	if (log_fd < 0)
		log_fd = memfd_create("log", 0);
	assert_true(log_fd >= 0);
	assert_int_equal(ftruncate(log_fd, 0), 0);
	assert_int_equal(lseek(log_fd, 0, SEEK_SET), 0);
	log_setup(&(struct log_options){ .level = LOG_LEVEL_INFO, .fd = log_fd });
}

void told_end(struct told *ret_told)
{
	ssize_t n = pread(log_fd, ret_told->text, sizeof(ret_told->text) - 1, 0);
	assert_in_range(n, 0, sizeof(ret_told->text) - 2);
	ret_told->text[n] = 0;
	ret_told->warnings = 0;
	ret_told->notes = 0;
	for (const char *at = ret_told->text; (at = strstr(at, "level=")); at++) {
		if (strncmp(at, "level=warn ", 11) == 0)
			ret_told->warnings++;
		else
			ret_told->notes++;
	}
	log_setup(&(struct log_options){ .level = LOG_LEVEL_ERROR, .fd = STDERR_FILENO });
}

static int found(void *user, uint32_t term, const struct trace *trace)
{
	struct numbers *numbers = user;
	assert_int_equal(term, 0);
	assert_true(numbers->count < 4096);
	numbers->numbers[numbers->count++] = made_trace_check(trace);
	return 0;
}

void numbers_find(struct trace_log *log, const struct trace_query *query, struct numbers *ret)
{
	ret->count = 0;
	int n = trace_log_find(log, query, found, ret);
	assert_int_equal(n, ret->count);
}
