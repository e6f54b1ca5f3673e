/*
 * webhook_request: a request on its way through the webhook. For webhook*.c alone.
 *
 * Room:      door.
 * Ownership: is the HTTP request's scratch space. Its arena holds the items of a batch
 *            and copies of texts from the recipe's scratch.
 */
#pragma once

#include "door/webhook/webhook.h"

struct webhook_item {
	struct store_admit admit;
	struct event event;   /* its texts live as long as the request */
	uint16_t status;      /* 0: the store decides; else it was refused with this status */
	struct span problem;  /* why it was refused */
	bool unrouted;        /* no route takes it */
	bool awaited;         /* the answer gives its outcome */
	bool unheard;         /* the store failed to tell the outcome */
	bool released;        /* it was dead, and this copy made it due again */
	enum outcome outcome; /* NONE: not known in time */
	struct store_wait wait;
	struct store_release release;
};

#define WEBHOOK_METADATA_ROOM 512u /* of a single event; longer ones go into the arena */

struct webhook_request {
	struct webhook *webhook;
	struct webhook_use *use;
	const struct source *source;
	struct http_request *request;
	struct webhook_request *next; /* in webhook->decided */
	struct arena arena;
	bool batch;
	uint32_t count;
	uint32_t left;          /* at the store */
	bool waited;            /* webhook_await() was called */
	uint64_t until_boot_ms; /* limit of that wait */
	struct webhook_item *items;
	/* Of a single event: its item, legs and metadata. */
	struct webhook_item one;
	struct store_leg legs[STORE_LEGS_MAX];
	char metadata[WEBHOOK_METADATA_ROOM];
};

/* Whether the event went on to delivery. */
static inline bool webhook_passed(const struct store_admit *admit)
{
	return admit->verdict == VERDICT_NEW ||
	       (admit->verdict == VERDICT_CONFLICT && admit->on_conflict == STORE_CONFLICT_PASS);
}

/* webhook.c: the store answered for one item; after the last, webhook_answer() continues. */
void webhook_item_done(struct webhook_request *post);

/* webhook_answer.c: asks the store for the outcomes of a decided request; calls
 * webhook_item_done() for each. False: there is none to wait for. */
bool webhook_await(struct webhook_request *post, uint64_t boot_ms);
/* Answers the request: all its items are decided. */
void webhook_respond(struct webhook_request *post);
