/* fuzz_resp_command: the same commands come out of bytes in one piece and in pieces of
 * any size, in memory that moves, and every argument lies inside them. The first byte
 * says how large the pieces are. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "codec/resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct resp_limits limits = {
	.args = 64, .bulk_bytes = 4096, .command_bytes = 16384, .line_bytes = 2048
};

/* What a command says, so that two can be compared. */
static void note(struct buf *out, const struct resp_parser *parser, const char *bytes)
{
	buf_printf(out, "%u\n", parser->count);
	for (uint32_t i = 0; i < parser->count; i++) {
		CHECK((uint64_t)parser->args[i].at + parser->args[i].len <= parser->used);
		buf_printf(out, "%u:", parser->args[i].len);
		buf_append(out, bytes + parser->args[i].at, parser->args[i].len);
	}
}

/* Every step is in memory of exactly its size, so that a look beyond is found. */
static void run(const uint8_t *data, size_t size, size_t piece, struct buf *out)
{
	struct resp_parser parser = { 0 };
	size_t at = 0, have = 0;
	while (at < size) {
		have = have + piece < size - at ? have + piece : size - at;
		char *bytes = malloc(have);
		CHECK(bytes);
		memcpy(bytes, data + at, have);
		enum resp_step step = resp_parse(&parser, bytes, have, &limits);
		if (step == RESP_COMMAND)
			note(out, &parser, bytes);
		free(bytes);
		if (step == RESP_MORE) {
			CHECK(parser.need > have);
			if (have == size - at)
				break;
			continue;
		}
		if (step == RESP_BROKEN) {
			char problem[RESP_PROBLEM_MAX];
			resp_parser_problem(&parser, problem);
			buf_printf(out, "broken: %s", problem);
			break;
		}
		CHECK(step == RESP_COMMAND || step == RESP_NOTHING);
		CHECK(parser.used > 0 && parser.used <= have);
		at += parser.used;
		have = 0;
	}
	resp_parser_free(&parser);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole = { 0 }, cut = { 0 };
	if (size < 1)
		return 0;
	run(data + 1, size - 1, SIZE_MAX / 2, &whole);
	run(data + 1, size - 1, 1u + data[0] % 16, &cut);
	CHECK(span_eq(buf_span(&whole), buf_span(&cut)));
	buf_free(&whole);
	buf_free(&cut);
	return 0;
}
