/*
 * claims_internal: a request on its way through the claims API. For claims*.c alone.
 *
 *   claims.c         paths, authentication, bodies, the end of a request
 *   claims_decide.c  the operations at the store
 *   claims_answer.c  answers, and outcomes as bytes
 *
 * Room:      door/claims.
 * Ownership: the request is in the HTTP request's scratch space, its arena has the items and
 *            their texts.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "codec/json.h"
#include "door/claims/claims.h"
#include "gate/event.h"

enum claims_act {
	CLAIMS_CLAIM = 0,
	CLAIMS_SETTLE,
	CLAIMS_RENEW,
	CLAIMS_RELEASE,
	CLAIMS_LOOKUP,
};

/* A stored outcome. */
enum claims_coding { CLAIMS_NO_OUTCOME = 0, CLAIMS_JSON, CLAIMS_TEXT, CLAIMS_BYTES };

struct claims_outcome {
	enum claims_coding coding;
	uint16_t status; /* the caller's; 0: none */
	uint32_t attempt;
	uint64_t settled_ms;
	struct span type; /* content type, at most CLAIMS_TYPE_MAX bytes */
	struct span body;
};

#define CLAIMS_TYPE_MAX 128u

/* One claim, or an operation on one. */
struct claims_item {
	struct claims_request *it;
	struct source_meters *meters;
	uint16_t status;     /* 0: the store decides; else the claim was rejected */
	struct span problem; /* why */
	int error;           /* of the store */

	enum verdict verdict;
	uint64_t ticket;
	uint32_t attempt;  /* of the lease, or the last known one */
	uint32_t lease_ms; /* asked for */
	uint32_t window_s; /* about as long as the claim is remembered */
	uint32_t expiry_s; /* of a token: when it is forgotten, by the store's clock */
	uint64_t lease_until_ms;
	uint64_t retry_ms;      /* busy: when to ask again */
	uint64_t now_ms;        /* by the store's clock */
	bool found;             /* lookup */
	bool repeated;          /* settle: it had this outcome before */
	enum store_state state; /* lookup, duplicate: if known; 0: it is done */
	bool has_outcome;
	struct claims_outcome outcome; /* its spans are of `cell` */

	/* of the event, for its trace */
	struct span id, type, key_text;
	uint64_t content;

	struct store_leg leg;
	struct store_cell_value answer;
	struct store_admit admit;
	union {
		struct store_take take;
		struct store_read read;
		struct store_wait wait;
		struct store_settle settle;
		struct store_renew renew;
		struct store_lookup lookup;
	};
	struct store_cell cell;
};

struct claims_request {
	struct claims *claims;
	struct http_request *request;
	struct claims_request *next; /* in claims->decided */
	struct claims_request *live_next, *live_before;
	struct source_claims rules; /* of its time; do not use `auth` any more */
	struct arena arena;
	enum claims_act act;
	bool batch;
	uint32_t count;
	uint32_t left;          /* at the store */
	uint64_t outcome_bytes; /* in the answer */
	uint64_t until_boot_ms;
	struct claims_item *items;
	struct lease_token token; /* settle, renew, release */
};

/* ---- claims.c ---- */

struct claims_item *claims_add_items(struct claims_request *it, uint32_t count); /* or NULL */
/* An item is decided: with the last one claims_answer() answers the request. */
void claims_finish(struct claims_item *item);
void claims_submit(struct claims_item *item, struct store_op *op, enum store_op_kind kind,
                   void (*done)(struct store_op *op));
void claims_refuse(struct claims_request *it, int error, const char *text);
/* Ends the request with this answer. */
void claims_respond(struct claims_request *it, const struct http_response *response);
/* problem+json with a code for programs. */
void claims_respond_problem(struct claims_request *it, uint16_t status, const char *code,
                            const char *detail, struct span headers);

/* Does an object that was scanned have these members and no others? The first name is a
 * text that lists them, the last is NULL. */
int claims_expect_members(struct span object, const char *const *names,
                          struct error_text *ret_problem) must_check;
/* A duration of a body; unchanged if it is not there. */
int claims_read_time(const struct json_value *value, const char *name, uint64_t min_ms,
                     uint64_t max_ms, uint64_t *ret_ms, struct error_text *ret_problem) must_check;
int claims_scan(const struct claims *claims, struct span body, struct json_doc *doc,
                struct error_text *ret_problem) must_check;

/* When a claim may be forgotten, from the window of a leg or a token, which is rounded up:
 * another caller may get it then, so no lease is longer. */
uint64_t claims_window_end_ms(uint64_t ticket, uint64_t whole_s);

/* ---- claims_decide.c ---- */

void claims_decide(struct claims_item *item);
void claims_settle(struct claims_request *it);
void claims_renew(struct claims_request *it);
void claims_give_back(struct claims_request *it);
void claims_lookup(struct claims_request *it);

/* ---- claims_answer.c ---- */

int claims_outcome_write(const struct claims_outcome *outcome, struct buf *out) must_check;
bool claims_outcome_read(struct span bytes, struct claims_outcome *ret_outcome) must_check;
bool claims_outcome_same(const struct claims_outcome *a, const struct claims_outcome *b);
void claims_answer_claims(struct claims_request *it);
void claims_answer_settle(struct claims_request *it); /* renew and release too */
void claims_answer_lookup(struct claims_request *it);
