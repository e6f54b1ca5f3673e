/*
 * webhook_request: a request on its way through the webhook. For webhook*.c alone.
 *
 * Room:      door.
 * Ownership: stands in the HTTP request's scratch space. Its arena has the items of
 *            a batch, and what must outlive the recipe's scratch.
 */
#pragma once

#include "door/webhook.h"

struct webhook_item {
	struct store_admit admit;
	struct event event;  /* its texts live as long as the request */
	uint16_t status;     /* 0: it was for the store to decide */
	struct span problem; /* else: why it was refused */
};

struct webhook_request {
	struct webhook *webhook;
	struct webhook_use *use;
	const struct source *source;
	struct http_request *request;
	struct webhook_request *next; /* in webhook->decided */
	struct arena arena;
	bool batch;
	uint32_t count;
	uint32_t left; /* at the store */
	struct webhook_item *items;
	struct webhook_item one; /* what `items` is, if it is no batch */
};

/* Whether the event went on to delivery. */
static inline bool webhook_passed(const struct store_admit *admit)
{
	return admit->verdict == VERDICT_NEW ||
	       (admit->verdict == VERDICT_CONFLICT && admit->on_conflict == STORE_CONFLICT_PASS);
}

/* webhook_answer.c: one answer for all items, which are decided. */
void webhook_respond(struct webhook_request *it);

/* webhook_trace.c: leaves the traces of all items. */
void webhook_trace(struct webhook_request *it);
