/* trace: see trace.h. */
#include "gate/trace.h"

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

static void add(struct buf *out, const char *text)
{
	buf_append_span(out, span_str(text));
}

static void add_ticket(struct buf *out, uint64_t ticket)
{
	char text[TICKET_TEXT_LEN];
	if (ticket == 0 || ticket >> TICKET_BITS != 0) {
		add(out, "an unknown ticket");
		return;
	}
	ticket_text(ticket, text);
	buf_append(out, text, sizeof(text));
}

static void add_gap(struct buf *out, uint64_t ms)
{
	char text[GAP_DURATION_MAX];
	gap_duration_text(ms, text);
	add(out, text);
}

static void add_claim(const struct trace *trace, struct buf *out)
{
	add(out, "claim ");
	if (trace->rule.len > 0) {
		add(out, "'");
		buf_append_span(out, trace->rule);
		add(out, "'");
	} else {
		buf_append_u64(out, trace->matched + 1u);
	}
	if (trace->parts.len > 0) {
		add(out, " (");
		buf_append_span(out, trace->parts);
		add(out, ")");
	}
}

static void say_taken(const struct trace *trace, struct buf *out)
{
	add_ticket(out, trace->original);
	add(out, ": ");
	add_claim(trace, out);
	add(out, " was taken ");
	add_gap(out, trace->gap_ms);
	add(out, " before");
}

void trace_reason(const struct trace *trace, struct buf *out)
{
	const unsigned both = TRACE_CONTENT | TRACE_ORIGINAL_CONTENT;
	if (trace->flags & TRACE_SHADOW) {
		add(out, "passed with ticket ");
		add_ticket(out, trace->ticket);
		add(out, ", since the claim is on trial (shadow); else: ");
	}
	switch (trace->verdict) {
	case VERDICT_DUPLICATE:
		add(out, "duplicate of ");
		say_taken(trace, out);
		if ((trace->flags & both) == both) {
			add(out, "; the content is ");
			add(out,
			    trace->content == trace->original_content ? "the same" : "another");
		}
		break;
	case VERDICT_CONFLICT:
		add(out, "conflict with ");
		say_taken(trace, out);
		add(out, ", with other content");
		if (trace->ticket != 0 && !(trace->flags & TRACE_SHADOW)) {
			add(out, trace->flags & TRACE_ASIDE ? "; kept aside as " : "; passed as ");
			add_ticket(out, trace->ticket);
		}
		break;
	case VERDICT_BUSY:
		add(out, "busy with ");
		say_taken(trace, out);
		add(out, ", and its outcome is not known yet");
		break;
	case VERDICT_STALE:
		add(out, "stale: ");
		add_claim(trace, out);
		add(out, " knows a newer state, ticket ");
		add_ticket(out, trace->original);
		add(out, ", since ");
		add_gap(out, trace->gap_ms);
		break;
	case VERDICT_NEW:
		add(out, trace->flags & TRACE_RETURNED ? "new again: " : "new: ");
		add(out, "passed with ticket ");
		add_ticket(out, trace->ticket);
		if (trace->flags & TRACE_RETURNED) {
			add(out, ", though ");
			add_ticket(out, trace->original);
			add(out, " was the same ");
			add_gap(out, trace->gap_ms);
			add(out, " before: the window had ended");
		}
		break;
	case VERDICT_SPOOLED:
		add(out, "kept on this node as ");
		add_ticket(out, trace->ticket);
		add(out, ", since the shared store was away; decided when it was back");
		break;
	case VERDICT_NONE: add(out, "not decided"); break;
	}
	if (trace->flags & TRACE_REPLAY)
		add(out, "; a replay that its sender asked for");
}
