/*
 * fuzz_trace: a folder of traces that somebody wrote to, and questions to it.
 *
 * The first byte chooses what the rest is:
 *   0  edits of the file: offset (2), length (1), bytes
 *   1  the body of one more block of traces, sealed as a true one
 *   2  the gaps of one more block, sealed likewise
 *   3  the query of a question
 * Whatever comes, the log opens, answers, and goes on.
 */
#include <stdint.h>
#include <string.h>

#include "console/why/why.h"
#include "gate/ticket.h"
#include "support/simfs.h"
#include "trace/trace_format.h"
#include "trace/trace_log.h"

#define PATH "data/traces/0000000000000001.trc"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct simfs *folder;

static struct trace_log_options options_of(struct simfs *simfs)
{
	return (struct trace_log_options){
		.path = "data",
		.fs = simfs_fs(simfs),
		.disk_bytes = 1u << 20,
		.memory_bytes = 1u << 20,
		.no_thread = true,
	};
}

static void add(struct trace_log *log, uint64_t n)
{
	struct trace trace = {
		.time_ms = UINT64_C(1767225600000) + n,
		.verdict = n % 2 ? VERDICT_DUPLICATE : VERDICT_NEW,
		.ticket = n % 2 ? 0 : ticket_next(0, UINT64_C(1767225600000) + n),
		.original = n % 2 ? ticket_next(0, UINT64_C(1767225600000) + n - 1) : 0,
		.gap_ms = n % 2,
		.source = SPAN("s"),
		.id = n % 3 ? SPAN("a") : SPAN("b"),
		.keys = { SPAN("k\x1fl") },
		.claim_count = 1,
		.claims = { { n - n % 2, 1 } },
	};
	trace_log_add(log, &trace);
}

static void folder_make(void)
{
	struct simfs *simfs = simfs_new(1);
	struct file_system *fs = simfs_fs(simfs);
	struct trace_log_options options = options_of(simfs);
	struct trace_log *log = NULL;
	CHECK(fs->methods->make_dir(fs, "data") == 0);
	CHECK(trace_log_open(&options, &log, NULL) == 0);
	for (uint64_t n = 0; n < 6; n++) {
		add(log, n);
		if (n % 2)
			trace_log_tick(log);
	}
	trace_log_free(log);
	folder = simfs_copy(simfs);
	simfs_free(simfs);
}

static void edits_apply(struct simfs *simfs, const uint8_t *data, size_t size)
{
	while (size > 3) {
		uint64_t offset = data[0] | (uint64_t)data[1] << 8;
		size_t len = data[2];
		data += 3;
		size -= 3;
		if (len > size)
			len = size;
		if (len)
			simfs_overwrite(simfs, PATH, offset % simfs_file_size(simfs, PATH),
			                span_of(data, len));
		data += len;
		size -= len;
	}
}

static void block_append(struct simfs *simfs, uint32_t kind, const uint8_t *data, size_t size)
{
	static unsigned char block[TRACE_BLOCK_BYTES];
	struct trace_file_header file;
	if (size > TRACE_BODY_MAX)
		size = TRACE_BODY_MAX;
	for (size_t i = 0; i < sizeof(file); i++)
		((unsigned char *)&file)[i] = simfs_file_byte(simfs, PATH, i);
	struct trace_block_header header = {
		.kind = kind,
		.epoch = file.epoch,
		.sequence = 1000,
		.offset = simfs_file_size(simfs, PATH),
		.body_len = (uint32_t)size,
	};
	memset(block, 0, sizeof(block));
	if (size)
		memcpy(block + sizeof(header), data, size);
	trace_block_seal(&header, block + sizeof(header));
	memcpy(block, &header, sizeof(header));
	simfs_overwrite(simfs, PATH, header.offset,
	                span_of(block, trace_block_span(header.body_len)));
}

static void must_answer(struct trace_log *log, struct span query)
{
	struct why_question question;
	struct why_context context = { .log = log };
	struct buf out = { .cap = 4u << 20 };
	if (why_question_parse(query, &question, NULL) == 0) {
		uint16_t status = why_answer(&context, &question, &out);
		CHECK(status == 200 || status == 400 || status == 503);
		buf_clear(&out);
		status = why_advise(&context, &question, &out);
		CHECK(status == 200 || status == 400 || status == 503);
		why_metrics(&context, &out);
	}
	buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!folder)
		folder_make();
	if (size == 0)
		return 0;
	struct simfs *simfs = simfs_copy(folder);
	switch (data[0] % 4) {
	case 0: edits_apply(simfs, data + 1, size - 1); break;
	case 1: block_append(simfs, TRACE_BLOCK_TRACES, data + 1, size - 1); break;
	case 2: block_append(simfs, TRACE_BLOCK_GAPS, data + 1, size - 1); break;
	case 3: break;
	}
	struct trace_log_options options = options_of(simfs);
	struct trace_log *log = NULL;
	CHECK(trace_log_open(&options, &log, NULL) == 0);
	if (data[0] % 4 == 3)
		must_answer(log, span_of(data + 1, size - 1));
	must_answer(log, SPAN("id=a"));
	must_answer(log, SPAN("format=json"));
	must_answer(log, SPAN("key=k&format=json"));
	add(log, 1000);
	trace_log_tick(log);
	must_answer(log, SPAN("id=a&limit=1"));
	trace_log_free(log);
	simfs_free(simfs);
	return 0;
}
