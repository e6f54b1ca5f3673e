/* Requests: the outcome must not depend on where the input is cut. */
#include "codec/http1_drive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2 || size > 64 * 1024)
		return 0;
	const char *bytes = (const char *)data + 2;
	size_t len = size - 2, first = data[0] < len ? data[0] : len;
	struct drive whole, cut;
	int a = drive_cut(&whole, bytes, len, len, 1);
	int b = drive_cut(&cut, bytes, len, first, 1 + data[1] % 64u);
	CHECK(a == b);
	CHECK(a != 200 || (whole.used == cut.used && whole.used <= len));
	CHECK(a != 200 || (whole.body_len == cut.body_len &&
	                   memcmp(whole.body, cut.body, whole.body_len) == 0));
	drive_free(&whole);
	drive_free(&cut);
	return 0;
}
