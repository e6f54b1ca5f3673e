/* filter_output: see filter_output.h. */
#include "cli/filter/filter_output.h"

#include "base/error.h"

#define REJECTED_BLOCK (256u << 10) /* bytes that wait for company */
#define CUT_SHOWN_MAX 256           /* of an event that is only here in part */

static int flush_parts(struct filter_output *output)
{
	int error = stream_write(output->out_fd, output->parts, output->count);
	output->count = 0;
	return error;
}

static int flush_rejected(struct filter_output *output)
{
	int error = output->rejected.failed ? -ENOMEM : 0;
	if (error == 0 && output->rejected.len > 0)
		error = stream_write_span(output->rejected_fd, buf_span(&output->rejected));
	buf_clear(&output->rejected);
	/* Nobody has to read the rejected: it is no quiet end. */
	output->rejected_failed = error != 0;
	return error == -EPIPE ? -EIO : error;
}

static int add(struct filter_output *output, struct span bytes)
{
	struct iovec *last = &output->parts[output->count > 0 ? output->count - 1 : 0];
	if (output->count > 0 && (const char *)last->iov_base + last->iov_len == bytes.ptr) {
		last->iov_len += bytes.len;
		return 0;
	}
	if (output->count == STREAM_PARTS_MAX) {
		int error = flush_parts(output);
		if (error != 0)
			return error;
	}
	output->parts[output->count++] = (struct iovec){ (void *)(uintptr_t)bytes.ptr, bytes.len };
	return 0;
}

int filter_output_pass(struct filter_output *output, struct span bytes)
{
	CHECK(bytes.len > 0);
	int error = add(output, bytes);
	if (error == 0 && bytes.ptr[bytes.len - 1] != '\n')
		error = add(output, SPAN("\n"));
	return error;
}

static void append_number(struct buf *out, struct span name, uint64_t value)
{
	buf_append_span(out, name);
	buf_append_u64(out, value);
}

static void append_text(struct buf *out, struct span name, struct span text)
{
	buf_append_span(out, name);
	buf_append_json(out, text);
}

static void append_event(struct buf *out, const struct filter_rejection *rejection)
{
	struct span event = rejection->event;
	if (rejection->json) {
		buf_append_span(out, SPAN(",\"event\":"));
		buf_append_span(out, event);
	} else if (rejection->cut) {
		event.len = event.len < CUT_SHOWN_MAX ? event.len : CUT_SHOWN_MAX;
		append_text(out, SPAN(",\"begins\":"), event);
	} else {
		append_text(out, SPAN(",\"text\":"), event);
	}
}

int filter_output_reject(struct filter_output *output, const struct filter_rejection *rejection)
{
	struct buf *out = &output->rejected;
	if (output->rejected_fd < 0)
		return 0;
	append_number(out, SPAN("{\"number\":"), rejection->number);
	append_number(out, SPAN(",\"line\":"), rejection->line);
	if (rejection->file)
		append_text(out, SPAN(",\"file\":"), span_str(rejection->file));
	append_text(out, SPAN(",\"verdict\":"), span_str(rejection->verdict));
	append_text(out, SPAN(",\"reason\":"), rejection->reason);
	if (rejection->first > 0)
		append_number(out, SPAN(",\"first\":"), rejection->first);
	if (rejection->rule.len > 0) {
		append_text(out, SPAN(",\"claim\":"), rejection->rule);
		append_text(out, SPAN(",\"parts\":"), rejection->parts);
	}
	append_event(out, rejection);
	buf_append_span(out, SPAN("}\n"));
	return out->failed || out->len >= REJECTED_BLOCK ? flush_rejected(output) : 0;
}

int filter_output_flush(struct filter_output *output)
{
	int error = flush_parts(output);
	int rejected = flush_rejected(output);
	return error != 0 ? error : rejected;
}

void filter_output_free(struct filter_output *output)
{
	buf_free(&output->rejected);
}
