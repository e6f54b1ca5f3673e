/* What is read as a spooled event can be written again, and is the same then. */
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/check.h"
#include "store/spool/spool_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spool_record record, again;
	struct buf first = { 0 }, second = { 0 };
	if (spool_record_read(span_of((const char *)data, size), &record) != 0)
		return 0;
	CHECK(store_admit_check(&record.admit) == 0);
	if (spool_record_write(&record.admit, &record.mark, &first) == 0) {
		CHECK(first.len == size);
		CHECK(spool_record_read(buf_span(&first), &again) == 0);
		CHECK(spool_record_write(&again.admit, &again.mark, &second) == 0);
		CHECK(span_eq(buf_span(&first), buf_span(&second)));
	}
	buf_free(&first);
	buf_free(&second);
	return 0;
}
