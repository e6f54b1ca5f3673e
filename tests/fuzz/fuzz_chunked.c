/* Chunked bodies: decoding in place, in pieces, must give what one call gives. */
#include <stdlib.h>

#include "codec/http1.h"

#define BODY_MAX 65536u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
	enum http1_status status;
	uint16_t refusal;
	size_t taken, given;
	char *body;
};

static struct outcome decode(const uint8_t *data, size_t size, size_t step)
{
	struct http1_chunked chunked = { .limit = BODY_MAX };
	struct http1_refusal refusal = { 0 };
	struct outcome outcome = { .status = HTTP1_MORE, .body = malloc(size ? size : 1) };
	CHECK(outcome.body);
	memcpy(outcome.body, data, size);
	while (outcome.status == HTTP1_MORE && outcome.taken < size) {
		size_t taken, given, left = size - outcome.taken;
		struct span piece = span_of(outcome.body + outcome.taken,
		                            left < step ? left : step);
		outcome.status = http1_chunked_decode(&chunked, piece, outcome.body + outcome.given,
		                                      &taken, &given, &refusal);
		CHECK(taken <= piece.len && given <= taken);
		CHECK(outcome.status != HTTP1_MORE || taken == piece.len);
		outcome.taken += taken;
		outcome.given += given;
	}
	CHECK(chunked.decoded == outcome.given && outcome.given <= BODY_MAX);
	outcome.refusal = refusal.status;
	return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	struct outcome whole = decode(data + 1, size - 1, size);
	struct outcome cut = decode(data + 1, size - 1, 1 + data[0] % 32u);
	CHECK(whole.status == cut.status && whole.refusal == cut.refusal);
	CHECK(whole.taken == cut.taken && whole.given == cut.given);
	CHECK(memcmp(whole.body, cut.body, whole.given) == 0);
	free(whole.body);
	free(cut.body);
	return 0;
}
