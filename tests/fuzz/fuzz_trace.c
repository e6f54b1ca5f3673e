/*
 * fuzz_trace: a folder of traces that somebody wrote to, and questions to it.
 *
 * The first byte chooses what the rest is:
 *   0  edits of the file: offset (2), length (1), bytes
 *   1  one more record, with a correct checksum
 *   2  the sources of the file of gaps, with a correct checksum
 *   3  the query of a question
 *   4  a filter and a trailer behind the records, with a correct checksum
 * Whatever comes, the log opens, answers, and works on.
 */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "console/why/why.h"
#include "gate/ticket.h"
#include "support/simfs.h"
#include "trace/records.h"
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
		.entity = SPAN("e"),
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
	log_setup(&(struct log_options){ .level = LOG_LEVEL_ERROR, .fd = STDERR_FILENO });
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

static uint64_t file_epoch(struct simfs *simfs)
{
	uint64_t epoch = 0;
	for (size_t i = 0; i < sizeof(epoch); i++)
		((unsigned char *)&epoch)[i] =
			simfs_file_byte(simfs, PATH, offsetof(struct trace_file_header, epoch) + i);
	return epoch;
}

/* The size in the record may say anything: the checksum is that of all bytes. */
static void record_append(struct simfs *simfs, const uint8_t *data, size_t size)
{
	unsigned char record[TRACE_RECORD_MAX + 8] = { 0 };
	uint64_t offset = simfs_file_size(simfs, PATH);
	size = size > TRACE_RECORD_MAX ? TRACE_RECORD_MAX : size;
	if (size)
		memcpy(record, data, size);
	size = (size + 7) & ~(size_t)7;
	if (size < sizeof(struct trace_record))
		return;
	uint32_t check = (uint32_t)hash_checksum64(record + 4, size - 4,
	                                           file_epoch(simfs) + offset);
	memcpy(record, &check, sizeof(check));
	simfs_overwrite(simfs, PATH, offset, span_of(record, size));
}

static void gaps_write(struct simfs *simfs, const uint8_t *data, size_t size)
{
	static unsigned char bytes[1u << 20];
	struct file_system *fs = simfs_fs(simfs);
	int fd = -1;
	uint64_t head[3] = { 0, 0, 1 };
	size = size > sizeof(bytes) - sizeof(head) ? sizeof(bytes) - sizeof(head) : size;
	memcpy(head, "stilegap", 8);
	memcpy(bytes, head, sizeof(head));
	if (size)
		memcpy(bytes + sizeof(head), data, size);
	head[1] = hash_checksum64(bytes + 16, sizeof(head) - 16 + size, 0);
	memcpy(bytes, head, sizeof(head));
	CHECK(fs->methods->open(fs, "data/traces/gaps", FILE_WRITE | FILE_CREATE, &fd) == 0);
	CHECK(fs->methods->truncate(fs, fd, 0) == 0);
	CHECK(fs->methods->write(fs, fd, bytes, sizeof(head) + size, 0) == 0);
	fs->methods->close(fs, fd);
}

/* A trailer that says what the data says, as far as it can be valid. */
static void trailer_append(struct simfs *simfs, const uint8_t *data, size_t size)
{
	struct trace_trailer trailer = { .epoch = 0 };
	uint64_t end = simfs_file_size(simfs, PATH);
	memcpy(&trailer, data, size < sizeof(trailer) ? size : sizeof(trailer));
	trailer.epoch = file_epoch(simfs);
	trailer.offset = end;
	trace_trailer_seal(&trailer);
	simfs_overwrite(simfs, PATH, end, span_of(&trailer, sizeof(trailer)));
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
	switch (data[0] % 5) {
	case 0: edits_apply(simfs, data + 1, size - 1); break;
	case 1: record_append(simfs, data + 1, size - 1); break;
	case 2: gaps_write(simfs, data + 1, size - 1); break;
	case 3: break;
	case 4: trailer_append(simfs, data + 1, size - 1); break;
	}
	struct trace_log_options options = options_of(simfs);
	struct trace_log *log = NULL;
	CHECK(trace_log_open(&options, &log, NULL) == 0);
	if (data[0] % 5 == 3)
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
