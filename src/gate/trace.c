/* trace: see trace.h. */
#include "gate/trace.h"

#include <stdio.h>

#include "base/utf8.h"
#include "gate/gap.h"
#include "gate/ticket.h"

const struct trace_text trace_texts[TRACE_TEXTS] = {
	{ offsetof(struct trace, source), TRACE_SOURCE_MAX },
	{ offsetof(struct trace, id), TRACE_ID_MAX },
	{ offsetof(struct trace, type), TRACE_TYPE_MAX },
	{ offsetof(struct trace, rule), TRACE_RULE_MAX },
	{ offsetof(struct trace, parts), TRACE_PARTS_MAX },
	{ offsetof(struct trace, keys[0]), TRACE_KEY_MAX },
	{ offsetof(struct trace, keys[1]), TRACE_KEY_MAX },
	{ offsetof(struct trace, peer), TRACE_PEER_MAX },
	{ offsetof(struct trace, entity), TRACE_ENTITY_MAX },
	{ offsetof(struct trace, correlation), TRACE_CORRELATION_MAX },
};

struct span trace_cut(struct span text, size_t max)
{
	if (text.len <= max)
		return text;
	size_t len = max;
	while (len > 0 && len + 4 > max && utf8_is_tail((unsigned char)text.ptr[len]))
		len--;
	/* Bytes that are not UTF-8 have no characters to keep whole. */
	if (utf8_is_tail((unsigned char)text.ptr[len]))
		len = max;
	return span_of(text.ptr, len);
}

void trace_trim(struct trace *trace)
{
	for (size_t i = 0; i < TRACE_TEXTS; i++) {
		struct span text = trace_text(trace, i);
		if (text.len > trace_texts[i].max)
			trace->flags |= TRACE_CUT;
		trace_set_text(trace, i, trace_cut(text, trace_texts[i].max));
	}
	if (trace->claim_count > CLAIMS_MAX)
		trace->claim_count = CLAIMS_MAX;
}

/* Whole parts, as many as fit; of one that is too long by itself, the start. */
struct span trace_parts(struct span parts, char room[static TRACE_PARTS_MAX])
{
	static const char more[] = "…";
	const size_t more_len = sizeof(more) - 1;
	if (parts.len <= TRACE_PARTS_MAX)
		return parts;
	struct span kept = trace_cut(parts, TRACE_PARTS_MAX - more_len);
	for (size_t len = kept.len; len > 1; len--) {
		if (memcmp(kept.ptr + len - 2, ", ", 2) != 0)
			continue;
		kept.len = len;
		break;
	}
	memcpy(room, kept.ptr, kept.len);
	memcpy(room + kept.len, more, more_len);
	return span_of(room, kept.len + more_len);
}

const char *trace_content_name(const struct trace *trace)
{
	const unsigned both = TRACE_CONTENT | TRACE_ORIGINAL_CONTENT;
	if ((trace->flags & both) != both)
		return "unknown";
	return trace->content == trace->original_content ? "same" : "other";
}

void trace_key_text(struct span key, struct buf *out)
{
	for (size_t i = 0; i < key.len; i++) {
		if (key.ptr[i] == TRACE_PART_END)
			buf_append(out, ", ", 2);
		else
			buf_append_char(out, key.ptr[i]);
	}
}

#define TICKET_WORDS_MAX 20

static void ticket_words(uint64_t ticket, char ret_words[static TICKET_WORDS_MAX])
{
	if (ticket == 0 || ticket >> TICKET_BITS != 0) {
		snprintf(ret_words, TICKET_WORDS_MAX, "an unknown ticket");
		return;
	}
	ticket_text(ticket, ret_words);
	ret_words[TICKET_TEXT_LEN] = 0;
}

static void add_claim(const struct trace *trace, struct buf *out)
{
	if (trace->rule.len > 0) {
		buf_printf(out, "claim '");
		buf_append_span(out, trace->rule);
		buf_append_char(out, '\'');
	} else {
		buf_printf(out, "claim %u", trace->matched + 1u);
	}
	if (trace->parts.len > 0) {
		buf_append(out, " (", 2);
		buf_append_span(out, trace->parts);
		buf_append_char(out, ')');
	}
}

void trace_reason(const struct trace *trace, struct buf *out)
{
	static const char *const taken[VERDICT_COUNT] = {
		[VERDICT_DUPLICATE] = "duplicate of",
		[VERDICT_CONFLICT] = "conflict with",
		[VERDICT_BUSY] = "busy with",
	};
	const unsigned both = TRACE_CONTENT | TRACE_ORIGINAL_CONTENT;
	char ticket[TICKET_WORDS_MAX], original[TICKET_WORDS_MAX], gap[GAP_DURATION_MAX];
	ticket_words(trace->ticket, ticket);
	ticket_words(trace->original, original);
	gap_duration_text(trace->gap_ms, gap);
	if (trace->flags & TRACE_SHADOW)
		buf_printf(out,
		           "passed with ticket %s, since the claim is on trial (shadow); else: ",
		           ticket);
	if (taken[trace->verdict]) {
		buf_printf(out, "%s %s: ", taken[trace->verdict], original);
		add_claim(trace, out);
		buf_printf(out, " was taken %s before", gap);
	}
	switch (trace->verdict) {
	case VERDICT_DUPLICATE:
		if ((trace->flags & both) == both)
			buf_printf(out, "; the content is %s",
			           trace->content == trace->original_content ? "the same"
			                                                     : "another");
		break;
	case VERDICT_CONFLICT:
		buf_printf(out, ", with other content");
		if (trace->ticket != 0 && !(trace->flags & TRACE_SHADOW))
			buf_printf(out,
			           trace->flags & TRACE_ASIDE ? "; kept aside as %s"
			                                      : "; passed as %s",
			           ticket);
		break;
	case VERDICT_BUSY: buf_printf(out, ", and its outcome is not known yet"); break;
	case VERDICT_STALE:
		buf_printf(out, "stale: ");
		add_claim(trace, out);
		buf_printf(out, " knows a newer state, ticket %s, since %s", original, gap);
		break;
	case VERDICT_NEW:
		if (trace->flags & TRACE_RETURNED)
			buf_printf(out,
			           "new again: passed with ticket %s, though %s was the same %s "
			           "before: the window had ended",
			           ticket, original, gap);
		else
			buf_printf(out, "new: passed with ticket %s", ticket);
		break;
	case VERDICT_SPOOLED:
		buf_printf(
			out,
			"spooled on this node as %s, since the shared store was unreachable; decided later",
			ticket);
		break;
	case VERDICT_NONE: buf_printf(out, "not decided"); break;
	}
	if (trace->flags & TRACE_REPLAY)
		buf_printf(out, "; a replay that its sender asked for");
}
