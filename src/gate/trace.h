/*
 * trace: the record of one decision, for the question why.
 *
 * Every suppressed event leaves one: which claim matched, the ticket of the
 * original, the gap in time, whether the content was the same. An event that
 * passed leaves one too, so that an id that went through can be found.
 *
 * Room:      gate. Threads: values.
 * Ownership: a trace owns nothing; its texts are the creator's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"
#include "gate/claim.h"
#include "gate/verdict.h"

/* Longer texts are cut, and TRACE_CUT is set. */
#define TRACE_SOURCE_MAX 64
#define TRACE_ID_MAX 128
#define TRACE_TYPE_MAX 96
#define TRACE_RULE_MAX 64
#define TRACE_PARTS_MAX 255
#define TRACE_KEY_MAX 192
#define TRACE_KEYS_MAX 2
#define TRACE_PEER_MAX 48
#define TRACE_ENTITY_MAX 96
#define TRACE_CORRELATION_MAX 96

/* Between the parts of a key text; no part of a key is likely to hold it. */
#define TRACE_PART_END '\x1f'

enum trace_flags {
	TRACE_SHADOW = 1,           /* the verdict that would have been decided; the event passed */
	TRACE_REPLAY = 2,           /* a replay that was requested from the sender */
	TRACE_CONTENT = 4,          /* `content` is known */
	TRACE_ORIGINAL_CONTENT = 8, /* `original_content` is known */
	TRACE_RETURNED = 16,        /* new, but its claim was taken before and had expired */
	TRACE_CUT = 32,             /* a text was longer than is kept */
	TRACE_ASIDE = 64,           /* a conflict that was kept aside: `ticket` is held */
};

/* A claim of kind once or content: two events with the same word that both passed are a return
 * after the window. */
struct trace_claim {
	uint64_t word; /* the first of its digest */
	uint32_t window_s;
};

struct trace {
	uint64_t time_ms; /* unix, by the store's clock */
	enum verdict verdict;
	uint8_t flags;             /* enum trace_flags */
	uint8_t matched;           /* index of the claim that was taken already */
	uint8_t sample;            /* this trace stands for 1 << sample of its kind */
	uint64_t ticket;           /* the event's own; 0: it neither passed nor is it held */
	uint64_t original;         /* the ticket that holds the matched claim; 0: none */
	uint64_t gap_ms;           /* since that ticket */
	uint64_t content;          /* digest of this event's content */
	uint64_t original_content; /* … and of the original's */
	struct span source;
	struct span id;    /* as the sender knows it */
	struct span type;  /* what kind of event */
	struct span rule;  /* name of the matched claim */
	struct span parts; /* what that claim is made of: "topicName, sessionId" */
	/* Values, joined by TRACE_PART_END: of the matched claim, or of the first
	 * claims of an event that passed. */
	struct span keys[TRACE_KEYS_MAX];
	struct span peer;        /* who sent it */
	struct span entity;      /* what the event is about */
	struct span correlation; /* the sender's id of the whole flow */
	uint8_t claim_count;
	struct trace_claim claims[CLAIMS_MAX];
};

static inline bool trace_passed(const struct trace *trace)
{
	return trace->ticket != 0 && !(trace->flags & TRACE_ASIDE);
}

/* Every text of a trace: where it is, and how much of it is kept. */
#define TRACE_TEXTS (8 + TRACE_KEYS_MAX)
struct trace_text {
	size_t offset; /* of its span in struct trace */
	uint8_t max;
};
extern const struct trace_text trace_texts[TRACE_TEXTS];

static inline struct span trace_text(const struct trace *trace, size_t index)
{
	return *(const struct span *)((const char *)trace + trace_texts[index].offset);
}

static inline void trace_set_text(struct trace *trace, size_t index, struct span text)
{
	*(struct span *)((char *)trace + trace_texts[index].offset) = text;
}

/* At most `max` bytes, cut between characters. */
struct span trace_cut(struct span text, size_t max);

/* Cuts what is too long, and marks it. */
void trace_trim(struct trace *trace);

/* A list of parts that fits: "one, two, …" if it is longer than is kept. */
struct span trace_parts(struct span parts, char room[static TRACE_PARTS_MAX]);

/* "same", "other" or "unknown". */
const char *trace_content_name(const struct trace *trace);

/* One sentence without a full stop: why the event was decided so. It contains texts of senders
 * as received: escape the whole sentence. */
void trace_reason(const struct trace *trace, struct buf *out);

/* A key as people read it: its parts with ", " between. */
void trace_key_text(struct span key, struct buf *out);
