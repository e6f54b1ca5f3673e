/*
 * webhook_trace: what is remembered of a decision, so that people can ask why.
 *
 * An event that was dropped (or would have been) is described in full: the claim,
 * its parts and their values, which are read again from the request. One that
 * passed leaves its id, claims and keys, and only if the log wants it: of many a
 * second, a few.
 */
#include <string.h>

#include "codec/ip.h"
#include "door/webhook/webhook_request.h"
#include "gate/ticket.h"

/* As long as it is; the log cuts what it cannot keep. */
static struct span text_of(struct event_text text, char *bytes, size_t room)
{
	struct span value;

	if (text.coding == EVENT_TEXT_PLAIN)
		return text.raw;
	if (text.coding == EVENT_TEXT_NONE || event_text_value(text, bytes, room, &value) < 0)
		return SPAN_EMPTY;
	return value;
}

static uint8_t claims_of(const struct store_admit *admit, struct trace_claim *ret_claims)
{
	uint8_t count = 0;

	for (uint32_t i = 0; i < admit->claim_count; i++) {
		const struct claim *claim = &admit->claims[i];
		if (claim->kind != CLAIM_NEWEST)
			ret_claims[count++] = (struct trace_claim){ claim->digest.word[0],
				                                    claim->window_s };
	}
	return count;
}

static bool read_words(struct webhook_request *it, const struct webhook_item *item, uint32_t claim,
                       struct recipe_words *ret_words)
{
	struct http_request *request = it->request;
	struct recipe_input input = {
		.body = item->admit.payload,
		.headers = request->head.headers,
		.header_count = request->head.header_count,
		.path = request->head.path,
		.query = request->head.query,
	};

	return recipe_words(it->source->recipe, &it->webhook->scratch, &input, claim,
	                    &it->webhook->words, ret_words);
}

/* Which claim, of which parts with which values. */
static void add_words(struct webhook_request *it, const struct webhook_item *item,
                      struct trace *trace, char room[static TRACE_PARTS_MAX])
{
	struct recipe_words words;

	buf_clear(&it->webhook->words);
	if (!read_words(it, item, trace->matched, &words))
		return;
	trace->rule = words.rule;
	trace->parts = trace_parts(words.parts, room);
	trace->keys[0] = words.key;
}

/* The values of the first claims. Each stands at the end of what was read by then;
 * the memory may move until all are. */
static void add_keys(struct webhook_request *it, const struct webhook_item *item,
                     struct trace *trace)
{
	struct buf *memory = &it->webhook->words;
	size_t ends[TRACE_KEYS_MAX], lens[TRACE_KEYS_MAX];
	struct recipe_words words;
	uint32_t count = 0;

	buf_clear(memory);
	while (count < TRACE_KEYS_MAX && count < item->admit.claim_count &&
	       read_words(it, item, count, &words)) {
		lens[count] = words.key.len;
		ends[count++] = memory->len;
	}
	for (uint32_t i = 0; i < count; i++)
		trace->keys[i] = span_of(memory->ptr + ends[i] - lens[i], lens[i]);
}

/* Only claims of kind once compare what is called an event's content. */
static void add_content(struct trace *trace, const struct claim *matched)
{
	bool same = trace->verdict == VERDICT_DUPLICATE;

	if (trace->content == 0 || matched->kind != CLAIM_ONCE ||
	    (!same && trace->verdict != VERDICT_CONFLICT))
		return;
	/* Of the original only a part of its digest is kept: enough to tell. */
	trace->original_content = same ? trace->content : ~trace->content;
	trace->flags |= TRACE_CONTENT | TRACE_ORIGINAL_CONTENT;
}

static void trace_drop(struct webhook_request *it, const struct webhook_item *item,
                       struct trace *trace)
{
	const struct store_admit *admit = &item->admit;
	/* A conflict that passes is told as what it is, whatever is on trial beside. */
	bool shadow = admit->would != VERDICT_NONE && admit->verdict == VERDICT_NEW;
	char address[IP_TEXT_MAX], parts[TRACE_PARTS_MAX];

	trace->verdict = shadow ? admit->would : admit->verdict;
	trace->matched = (uint8_t)(shadow ? admit->would_matched : admit->matched);
	trace->original = shadow ? admit->would_ticket : admit->ticket;
	trace->flags |= shadow ? TRACE_SHADOW : 0;
	uint64_t since_ms = ticket_time_ms(trace->original);
	trace->gap_ms = trace->time_ms > since_ms ? trace->time_ms - since_ms : 0;
	if (shadow)
		trace->ticket = admit->ticket;
	else if (admit->verdict == VERDICT_CONFLICT)
		trace->ticket = admit->own_ticket;
	if (trace->ticket != 0 && !shadow && admit->on_conflict == STORE_CONFLICT_ASIDE)
		trace->flags |= TRACE_ASIDE;
	ip_format(&it->request->peer->address, address);
	trace->peer = span_str(address);
	add_content(trace, &admit->claims[trace->matched]);
	add_words(it, item, trace, parts);
	trace_log_add(it->webhook->options.traces, trace);
	trace->peer = trace->parts = SPAN_EMPTY;
}

static void trace_item(struct webhook_request *it, const struct webhook_item *item)
{
	const struct store_admit *admit = &item->admit;
	struct trace_log *log = it->webhook->options.traces;
	struct trace_claim claims[CLAIMS_MAX];
	char id[DIGEST_PART_MAX], type[DIGEST_PART_MAX];

	uint8_t claim_count = claims_of(admit, claims);
	bool plain = admit->verdict == VERDICT_SPOOLED ||
	             (admit->verdict == VERDICT_NEW && admit->would == VERDICT_NONE);
	if (plain ? !trace_log_wants_new(log, claims, claim_count)
	          : !trace_log_wants_suppressed(log))
		return;
	struct trace trace = {
		.time_ms = admit->decided_ms,
		.verdict = admit->verdict,
		.flags = item->event.replay ? TRACE_REPLAY : 0,
		.content = item->event.content,
		.source = it->source->name,
		.id = text_of(item->event.id, id, sizeof(id)),
		.type = text_of(item->event.type, type, sizeof(type)),
		.claim_count = claim_count,
	};
	memcpy(trace.claims, claims, sizeof(claims[0]) * claim_count);
	if (plain) {
		trace.ticket = admit->ticket;
		add_keys(it, item, &trace);
		trace_log_add(log, &trace);
	} else {
		trace_drop(it, item, &trace);
	}
}

void webhook_trace(struct webhook_request *it)
{
	for (uint32_t i = 0; i < it->count; i++)
		if (it->items[i].status == 0 && it->items[i].admit.op.error == 0)
			trace_item(it, &it->items[i]);
}
