/*
 * model_store_claims: which claims are taken, and by which events; for the model store.
 *
 * Claims hang in a chained hash, entities (claims of kind newest) among them; each
 * points to the event that took it, or moved it on last. An event lives while a claim
 * of it does. What has expired is gone when its chain is looked at, or swept.
 *
 * Room:      tests. Threads: one owner.
 * Ownership: model_claims_new() gives it, model_claims_free() takes it; claims and
 *            events belong to it and may be gone after the next find, put or sweep.
 * Failure:   only model_claims_new() and model_claims_prepare(), with -ENOMEM.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "gate/claim.h"

struct model_claims;

struct taken_event {
	uint64_t ticket;
	uint64_t seen; /* how many copies of it have come */
	uint32_t refs; /* claims that it has */
};

struct taken_claim {
	struct taken_claim *next;
	struct taken_event *event;
	struct digest digest;
	uint64_t expires_ms;
	bool newest;    /* an entity, */
	uint64_t order; /* and how far it is */
};

/* What a new event needs, allocated before anything is changed. */
struct taken_parts {
	struct taken_event *event;
	struct taken_claim *claims[CLAIMS_MAX];
};

int model_claims_new(struct model_claims **ret_claims) must_check;
struct model_claims *model_claims_free(struct model_claims *claims); /* accepts NULL */

/* The claim, or the entity, if somebody has it; or NULL. */
struct taken_claim *model_claims_find(struct model_claims *claims, const struct digest *digest,
                                      bool newest, uint64_t now_ms);

/* For an event with up to `count` claims; model_claims_unprepare() frees what
 * model_claims_put() did not use. */
int model_claims_prepare(uint32_t count, struct taken_parts *ret_parts) must_check;
void model_claims_unprepare(struct taken_parts *parts);

/* The event of this ticket has the claims of the list from now on, whoever had them. */
void model_claims_put(struct model_claims *claims, struct taken_parts *parts, uint64_t ticket,
                      const struct claim *list, uint32_t count, uint64_t now_ms);

/* Lets some of what has expired go; all after enough calls. */
void model_claims_sweep(struct model_claims *claims, uint64_t now_ms);

uint64_t model_claims_count(const struct model_claims *claims); /* without entities */
uint64_t model_claims_entities(const struct model_claims *claims);
uint64_t model_claims_expired(const struct model_claims *claims); /* ever */
uint64_t model_claims_bytes(const struct model_claims *claims);
