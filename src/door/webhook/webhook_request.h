/*
 * webhook_request: a request on its way through the webhook. For webhook*.c alone.
 *
 * Room:      door.
 * Ownership: stands in the HTTP request's scratch space. Its arena has the items of
 *            a batch, and what must outlive the recipe's scratch.
 */
#pragma once

#include "door/webhook/webhook.h"

struct webhook_item {
	struct store_admit admit;
	struct event event;   /* its texts live as long as the request */
	uint16_t status;      /* 0: it was for the store to decide */
	struct span problem;  /* else: why it was refused */
	bool unrouted;        /* no route is for it */
	bool awaited;         /* the answer says what came of it */
	bool unheard;         /* the store could not say */
	bool released;        /* it was dead, and is made due again by this copy */
	enum outcome outcome; /* NONE: the time was over, or nobody knows */
	struct store_wait wait;
	struct store_release release;
};

#define WEBHOOK_LETTER_ROOM 512u /* of a single event; longer ones go into the arena */

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
	bool waited;            /* for outcomes, or there was none to wait for */
	uint64_t until_boot_ms; /* how long */
	struct webhook_item *items;
	struct webhook_item one; /* what `items` is, if it is no batch, and its … */
	struct store_leg legs[STORE_LEGS_MAX];
	char letter[WEBHOOK_LETTER_ROOM];
};

/* Whether the event went on to delivery. */
static inline bool webhook_passed(const struct store_admit *admit)
{
	return admit->verdict == VERDICT_NEW ||
	       (admit->verdict == VERDICT_CONFLICT && admit->on_conflict == STORE_CONFLICT_PASS);
}

/* webhook.c: everything that the store was asked is answered. */
void webhook_decided(struct webhook_request *it);

/* webhook_answer.c: asks for the outcomes of a request that is decided; webhook_decided()
 * follows. False: there is none to wait for. */
bool webhook_await(struct webhook_request *it, uint64_t boot_ms);
/* One answer for all items, which are decided. */
void webhook_respond(struct webhook_request *it);
