/* claims_trace: what is remembered of the decisions of the claims API, as of those of the
 * webhooks (webhook_trace.c), so that people can ask why. */
#include <string.h>

#include "codec/ip.h"
#include "door/claims/claims_internal.h"

static uint8_t claims_of(const struct store_admit *admit, struct trace_claim *ret_claims)
{
	uint8_t count = 0;

	for (uint32_t i = 0; i < admit->claim_count; i++)
		if (admit->claims[i].kind != CLAIM_NEWEST)
			ret_claims[count++] = (struct trace_claim){ admit->claims[i].digest.word[0],
				                                    admit->claims[i].window_s };
	return count;
}

static void add_original(const struct store_admit *admit, struct trace *trace)
{
	trace->matched = (uint8_t)admit->matched;
	trace->original = admit->ticket;
	trace->gap_ms = admit->decided_ms > admit->first_seen_ms
	                        ? admit->decided_ms - admit->first_seen_ms
	                        : 0;
	trace->rule = SPAN("key");
}

void claims_trace(const struct claims_item *item)
{
	const struct store_admit *admit = &item->admit;
	struct trace_log *log = item->it->claims->options.traces;
	struct trace_claim claims[CLAIMS_MAX];
	char address[IP_TEXT_MAX];

	uint8_t count = claims_of(admit, claims);
	bool is_new = admit->verdict == VERDICT_NEW;
	if (is_new ? !trace_log_wants_new(log, claims, count) : !trace_log_wants_suppressed(log))
		return;
	ip_format(&item->it->request->peer->address, address);
	struct trace trace = {
		.time_ms = admit->decided_ms,
		.verdict = admit->verdict,
		.content = item->content,
		.source = admit->source,
		.id = item->id,
		.type = item->type,
		.keys = { item->key_text },
		.peer = span_str(address),
		.ticket = is_new ? admit->ticket : 0,
		.claim_count = count,
	};
	if (!is_new)
		add_original(admit, &trace);
	memcpy(trace.claims, claims, sizeof(claims[0]) * count);
	trace_log_add(log, &trace);
}
