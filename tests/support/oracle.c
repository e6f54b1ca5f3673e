/* oracle: see oracle.h. */
#include "support/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "gate/ticket.h"
#include "support/oracle_internal.h"
#include "support/store_calls.h"

#define BYTES 16384u

/* Payloads are slices of this. */
static unsigned char bytes[BYTES];

static uint64_t below(struct oracle *oracle, uint64_t n)
{
	return oracle_below(oracle, n);
}

void oracle_init(struct oracle *oracle, uint64_t seed, struct clock_fake *clock)
{
	uint64_t random = 4711;

	memset(oracle, 0, sizeof(*oracle));
	oracle->seed = oracle->random = seed;
	oracle->clock = clock;
	oracle->about = "running";
	oracle->payload_max = 6000;
	for (size_t i = 0; i < BYTES && bytes[BYTES - 1] == 0; i++)
		bytes[i] = (unsigned char)(test_random(&random) | 1);
}

struct span oracle_bytes(uint32_t start, uint32_t len)
{
	CHECK(start + len <= BYTES);
	return span_of(bytes + start, len);
}

void oracle_free(struct oracle *oracle)
{
	for (uint32_t i = 0; i < ORACLE_SINKS; i++)
		buf_free(&oracle->takes[i].take.items);
}

void oracle_copy(struct oracle *to, const struct oracle *from)
{
	memcpy(to, from, offsetof(struct oracle, events));
	memcpy(to->events, from->events, from->count * sizeof(from->events[0]));
	for (uint32_t i = 0; i < ORACLE_OPS_MAX; i++) /* the rest is written when it is used */
		to->ops[i].pending = false;
	memset(to->takes, 0, sizeof(to->takes));
	memset(to->take_waits, 0, sizeof(to->take_waits));
}

bool oracle_full(const struct oracle *oracle)
{
	return oracle->count + ORACLE_BATCH_MAX > ORACLE_EVENTS_MAX;
}

void oracle_restarted(struct oracle *oracle)
{
	memset(oracle->take_waits, 0, sizeof(oracle->take_waits));
	for (uint32_t i = 0; i < ORACLE_OPS_MAX; i++)
		oracle->ops[i].pending = false;
	for (uint32_t i = 0; i < ORACLE_CELLS; i++)
		oracle->cells[i].pending = 0;
	for (uint32_t i = 0; i < oracle->count; i++)
		for (uint32_t leg = 0; leg < ORACLE_LEGS_MAX; leg++)
			oracle->events[i].legs[leg].leased = false;
}

/* ---- answers ---- */

void oracle_answered(struct oracle *oracle, int error)
{
	if (error == 0) {
		oracle->acknowledged++;
	} else {
		oracle->errors++;
		oracle->last_error = error;
	}
}

static void kept(struct oracle *oracle, struct oracle_event *event, uint64_t ticket)
{
	EXPECT_OF(oracle, event, event->fate != ORACLE_KEPT || event->ticket == ticket);
	event->fate = ORACLE_KEPT;
	event->ticket = ticket;
	if (event->kind == ORACLE_PASS)
		oracle->events[event->holder].contested = true;
}

/* Tickets only go up, so the last is the highest. */
struct oracle_event *oracle_last_of(struct oracle *oracle, uint32_t entity)
{
	struct oracle_event *last = NULL;

	for (uint32_t i = 0; i < oracle->count; i++) {
		struct oracle_event *event = &oracle->events[i];
		if (event->entity == entity && event->fate == ORACLE_KEPT &&
		    (!last || event->ticket > last->ticket))
			last = event;
	}
	return last;
}

static bool passes(const struct oracle_event *event, const struct oracle_event *last)
{
	bool equal_drops = event->asked[event->asked_count - 1].equal_drops;

	return !last || event->order > last->order || (event->order == last->order && !equal_drops);
}

/* It was kept for the first time. */
static void new_done(struct oracle *oracle, struct oracle_event *event,
                     const struct store_admit *admit)
{
	const struct oracle_event *holder = &oracle->events[event->holder];
	bool conflict = event->kind == ORACLE_ASIDE || event->kind == ORACLE_PASS;

	EXPECT_OF(oracle, event, event->fate != ORACLE_KEPT);
	EXPECT_OF(oracle, event, (admit->verdict == VERDICT_CONFLICT) == conflict);
	EXPECT_OF(oracle, event, admit->ticket == (conflict ? holder->ticket : admit->own_ticket));
	EXPECT_OF(oracle, event, (admit->would != VERDICT_NONE) == (event->kind == ORACLE_SHADOW));
	if (event->kind == ORACLE_SHADOW)
		EXPECT_OF(oracle, event, admit->would_ticket == holder->ticket);
	if (event->entity != ORACLE_NOBODY)
		EXPECT_OF(oracle, event, passes(event, oracle_last_of(oracle, event->entity)));
	kept(oracle, event, admit->own_ticket);
	if (event->starts && event->kind != ORACLE_ASIDE)
		oracle_started(oracle, &event->legs[0], 1);
}

static void stale_done(struct oracle *oracle, struct oracle_event *event,
                       const struct store_admit *admit)
{
	const struct oracle_event *newer = oracle_by_ticket(oracle, admit->ticket);

	EXPECT_OF(oracle, event, event->entity != ORACLE_NOBODY && event->fate != ORACLE_KEPT);
	EXPECT_OF(oracle, event, newer && newer->entity == event->entity);
	EXPECT_OF(oracle, event, !passes(event, newer) && admit->order == newer->order);
	event->fate = ORACLE_REFUSED;
}

static void duplicate_done(struct oracle *oracle, struct oracle_event *event,
                           const struct store_admit *admit)
{
	/* Its second claim belongs to the holder. */
	if (event->kind == ORACLE_SECOND) {
		EXPECT_OF(oracle, event, admit->matched == 1 && event->fate != ORACLE_KEPT);
		event->fate = ORACLE_REFUSED;
		event = &oracle->events[event->holder];
	}
	EXPECT_OF(oracle, event, admit->matched <= 1);
	kept(oracle, event, admit->ticket);
	if (admit->verdict == VERDICT_BUSY)
		EXPECT_OF(oracle, event, !event->no_ticket && admit->busy_if_open);
	else if (admit->busy_if_open && !event->no_ticket)
		for (uint32_t i = 0; i < oracle_legs(event); i++)
			EXPECT_OF(oracle, event,
			          oracle_may_be_settled(&event->legs[i]) ||
			                  event->legs[i].freed_step == oracle->step);
}

static void admit_done(struct store_op *op)
{
	struct oracle_op *own = op->user;
	struct oracle *oracle = own->oracle;
	struct oracle_event *event = &oracle->events[own->event];
	const struct store_admit *admit = &own->admit;

	own->pending = false;
	oracle_answered(oracle, op->error);
	if (op->error < 0)
		return;
	oracle->verdicts[admit->verdict]++;
	switch (admit->verdict) {
	case VERDICT_NEW: new_done(oracle, event, admit); break;
	case VERDICT_STALE: stale_done(oracle, event, admit); break;
	case VERDICT_DUPLICATE:
	case VERDICT_BUSY: duplicate_done(oracle, event, admit); break;
	case VERDICT_CONFLICT:
		if (event->kind != ORACLE_REJECT) {
			new_done(oracle, event, admit);
			break;
		}
		EXPECT_OF(oracle, event, admit->own_ticket == 0);
		EXPECT_OF(oracle, event, admit->ticket == oracle->events[event->holder].ticket);
		event->fate = ORACLE_REFUSED;
		break;
	case VERDICT_SPOOLED: /* of no store here */
	case VERDICT_NONE: EXPECT(oracle, false); break;
	}
}

struct oracle_event *oracle_by_ticket(struct oracle *oracle, uint64_t ticket)
{
	for (uint32_t i = 0; i < oracle->count; i++)
		if (oracle->events[i].ticket == ticket && oracle->events[i].fate == ORACLE_KEPT)
			return &oracle->events[i];
	return NULL;
}

/* ---- operations ---- */

/* The top bits choose a shard of the local store's index. Few shards are
 * enough here, and opening a store costs less. */
struct digest oracle_digest(uint64_t id)
{
	uint64_t random = id * 31 + 5;
	uint64_t first = test_random(&random) & UINT64_C(0xc00fffffffffffff);

	/* One in eight does not know its content. */
	uint32_t check = (uint32_t)(id % 8 ? 1 + id % 5 : 0);
	return digest_with_check((struct digest){ { first, test_random(&random) } }, check);
}

struct digest oracle_entity(uint32_t entity)
{
	return oracle_digest(UINT64_C(1) << 40 | entity);
}

static void legs_make(struct oracle *oracle, struct oracle_event *event)
{
	event->leg_count = event->no_ticket ? 0 : (uint32_t)below(oracle, ORACLE_LEGS_MAX + 1);
	for (uint32_t i = 0; i < event->leg_count; i++)
		event->legs[i].leg = (struct store_leg){
			.sink = (uint32_t)below(oracle, ORACLE_SINKS), .order = below(oracle, 1000)
		};
	if (event->leg_count)
		event->metadata = span_of(bytes, below(oracle, 100));
	event->starts = !event->no_ticket && oracle_legs(event) == 1 && below(oracle, 2);
}

static uint32_t event_make(struct oracle *oracle)
{
	uint32_t index = oracle->count++;
	struct oracle_event *event = &oracle->events[index];
	uint64_t most = below(oracle, 6) == 0 ? oracle->payload_max : 200;
	uint64_t len = below(oracle, most), start = below(oracle, BYTES - len);
	bool is_short = below(oracle, 8) == 0;

	*event = (struct oracle_event){
		.holder = index,
		.entity = ORACLE_NOBODY,
		.claim_count = 1 + (uint32_t)(below(oracle, 2) ? 0 : below(oracle, CLAIMS_MAX)),
		.flags = (uint16_t)below(oracle, 65536),
		.no_ticket = below(oracle, 6) == 0,
		.source = span_of(bytes, below(oracle, STORE_SOURCE_MAX + 1)),
		.payload = span_of(bytes + start, len),
	};
	legs_make(oracle, event);
	for (uint32_t i = 0; i < event->claim_count; i++) {
		event->claims[i].digest = oracle_digest((uint64_t)index * CLAIMS_MAX + i);
		event->claims[i].window_s = is_short ? ORACLE_SHORT_S : ORACLE_LONG_S;
	}
	memcpy(event->asked, event->claims, sizeof(event->claims));
	event->asked_count = event->claim_count;
	return index;
}

/* The last claim becomes, or is followed by, that of an entity. */
static void entity_add(struct oracle *oracle, struct oracle_event *event)
{
	if (oracle_is_short(event))
		return;
	if (event->asked_count == CLAIMS_MAX)
		event->claim_count = --event->asked_count;
	event->entity = (uint32_t)below(oracle, ORACLE_ENTITIES);
	event->order = oracle->count + below(oracle, 60);
	event->asked[event->asked_count++] = (struct claim){
		.digest = oracle_entity(event->entity),
		.window_s = ORACLE_LONG_S,
		.kind = CLAIM_NEWEST,
		.equal_drops = below(oracle, 2),
		.order = event->order,
	};
}

struct oracle_op *oracle_op_begin(struct oracle *oracle)
{
	struct oracle_op *own = oracle->ops;

	while (own->pending)
		EXPECT(oracle, ++own < oracle->ops + ORACLE_OPS_MAX);
	memset(own, 0, sizeof(*own));
	own->oracle = oracle;
	own->pending = true;
	own->op.user = own;
	return own;
}

static void admit_submit(struct oracle *oracle, struct store *store, uint32_t index)
{
	struct oracle_event *event = &oracle->events[index];
	struct oracle_op *own = oracle_op_begin(oracle);

	own->event = index;
	own->op.kind = STORE_ADMIT;
	own->op.done = admit_done;
	memcpy(own->admit.claims, event->asked, sizeof(event->asked));
	own->admit.claim_count = event->asked_count;
	own->admit.busy_if_open = below(oracle, 3) == 0;
	own->admit.on_conflict = event->kind == ORACLE_PASS     ? STORE_CONFLICT_PASS
	                         : event->kind == ORACLE_REJECT ? STORE_CONFLICT_REJECT
	                                                        : STORE_CONFLICT_ASIDE;
	own->admit.flags = event->flags;
	own->admit.no_ticket = event->no_ticket;
	own->admit.source = event->source;
	own->admit.payload = event->payload;
	own->admit.metadata = event->metadata;
	own->admit.legs = own->legs;
	own->admit.leg_count = event->leg_count;
	own->admit.lease_ms = event->starts ? ORACLE_LEASE_MS : 0;
	if (event->starts && event->fate != ORACLE_KEPT && event->kind != ORACLE_ASIDE)
		event->legs[0].maybe |= 1u << STORE_MARK_STARTED;
	for (uint32_t i = 0; i < event->leg_count; i++)
		own->legs[i] = event->legs[i].leg;
	store_submit(store, &own->op);
}

/* An event that comes again: a duplicate, or the retry after an error. */
static void again_submit(struct oracle *oracle, struct store *store)
{
	uint32_t index = (uint32_t)below(oracle, oracle->count);
	const struct oracle_event *event = &oracle->events[index];

	if (oracle->count && !oracle_is_short(event) && !event->contested &&
	    event->kind != ORACLE_BARE && event->fate != ORACLE_REFUSED)
		admit_submit(oracle, store, index);
}

/* Somebody whose first claim can be met, or ORACLE_NOBODY. */
static uint32_t holder_choose(struct oracle *oracle)
{
	uint32_t index = (uint32_t)below(oracle, oracle->count);
	const struct oracle_event *holder = &oracle->events[index];
	bool fit = oracle->count && holder->fate == ORACLE_KEPT && holder->claim_count &&
	           !oracle_is_short(holder) && !holder->contested && holder->kind != ORACLE_ASIDE;

	return fit ? index : ORACLE_NOBODY;
}

/* A new event whose second claim another one has already. */
static void second_submit(struct oracle *oracle, struct store *store)
{
	uint32_t holder = holder_choose(oracle);

	if (holder == ORACLE_NOBODY)
		return;
	uint32_t index = event_make(oracle);
	struct oracle_event *event = &oracle->events[index];
	event->kind = below(oracle, 2) ? ORACLE_SECOND : ORACLE_SHADOW;
	event->asked[0].window_s = event->claims[0].window_s = ORACLE_LONG_S;
	event->asked[1] = oracle->events[holder].claims[0];
	event->asked[1].shadow = event->kind == ORACLE_SHADOW;
	event->asked_count = 2;
	event->claim_count = 1;
	event->holder = holder;
	admit_submit(oracle, store, index);
}

/* Other content under the first claim of another one. */
static void conflict_submit(struct oracle *oracle, struct store *store, enum oracle_kind kind)
{
	uint32_t holder = holder_choose(oracle);

	if (holder == ORACLE_NOBODY || !digest_check(&oracle->events[holder].claims[0].digest))
		return;
	uint32_t index = event_make(oracle);
	struct oracle_event *event = &oracle->events[index];
	event->kind = kind;
	event->holder = holder;
	event->claim_count = event->asked_count = 1;
	event->asked[0] = oracle->events[holder].claims[0];
	event->asked[0].digest = digest_with_check(event->asked[0].digest, 1000 + index);
	event->claims[0] = event->kind == ORACLE_PASS ? event->asked[0]
	                                              : store_aside_claim(&event->asked[0]);
	if (event->kind == ORACLE_ASIDE) {
		event->no_ticket = false;
		for (uint32_t i = 0; i < oracle_legs(event); i++) {
			event->legs[i].hold = ORACLE_HELD;
			event->legs[i].aside = STORE_STATE_HELD;
		}
	}
	oracle->events[holder].contested |= event->kind == ORACLE_PASS;
	admit_submit(oracle, store, index);
}

static void bare_submit(struct oracle *oracle, struct store *store)
{
	uint32_t index = event_make(oracle);
	struct oracle_event *event = &oracle->events[index];

	event->kind = ORACLE_BARE;
	event->no_ticket = false;
	event->claim_count = event->asked_count = 0;
	admit_submit(oracle, store, index);
}

static void plain_submit(struct oracle *oracle, struct store *store)
{
	uint32_t index = event_make(oracle);

	if (below(oracle, 3) == 0)
		entity_add(oracle, &oracle->events[index]);
	admit_submit(oracle, store, index);
	if (below(oracle, 6) == 0) /* twice in one flush */
		admit_submit(oracle, store, index);
}

/* Only a settle may be kept by the store until there is room; and a note with it until
 * somebody writes. */
void oracle_ops_check(struct oracle *oracle)
{
	for (uint32_t i = 0; i < ORACLE_OPS_MAX; i++)
		EXPECT(oracle, !oracle->ops[i].pending || oracle->ops[i].op.kind == STORE_SETTLE ||
		                       oracle->ops[i].op.kind == STORE_NOTE);
}

void oracle_release_one(struct oracle *oracle, struct store *store)
{
	while (!oracle_release(oracle, store) && !oracle_full(oracle)) {
		conflict_submit(oracle, store, ORACLE_ASIDE);
		store_calls_flush(store);
	}
	store_calls_flush(store);
	oracle_ops_check(oracle);
}

static void time_pass(struct oracle *oracle, struct store *store)
{
	static const uint64_t spans_ms[] = { 2, 60, 1100, 20000 };

	clock_fake_advance(oracle->clock, 1 + below(oracle, spans_ms[below(oracle, 4)]));
	store_tick(store);
}

void oracle_step(struct oracle *oracle, struct store *store)
{
	static const enum oracle_kind kinds[] = { ORACLE_ASIDE, ORACLE_ASIDE, ORACLE_PASS,
		                                  ORACLE_REJECT };
	uint64_t dice = below(oracle, 10);
	uint64_t count = 1 + below(oracle, 5);

	oracle->step++;
	if (dice == 0)
		time_pass(oracle, store);
	if (dice < 3)
		oracle_take(oracle, store, (uint32_t)below(oracle, ORACLE_SINKS));
	for (uint64_t i = 0; i < count && !oracle_full(oracle); i++) {
		uint32_t event = (uint32_t)below(oracle, oracle->count);
		uint32_t leg = (uint32_t)below(oracle, ORACLE_LEGS_MAX);
		switch (below(oracle, 32)) {
		case 0:
		case 1: again_submit(oracle, store); break;
		case 2:
		case 3: second_submit(oracle, store); break;
		case 4:
		case 5: conflict_submit(oracle, store, kinds[below(oracle, 4)]); break;
		case 6: bare_submit(oracle, store); break;
		case 7: oracle_release(oracle, store); break;
		case 8:
		case 9:
		case 10:
		case 11:
		case 12:
		case 13: oracle_settle(oracle, store, event, leg); break;
		case 14:
		case 15:
		case 16:
		case 17: oracle_note(oracle, store, event, leg); break;
		case 18:
		case 19: oracle_take_one(oracle, store, event, leg); break;
		case 20:
		case 21:
		case 22:
		case 23: oracle_cell(oracle, store); break;
		default: plain_submit(oracle, store); break;
		}
	}
	store_calls_flush(store);
	oracle_ops_check(oracle);
}

void oracle_settle_most(struct oracle *oracle, struct store *store)
{
	struct store_stats stats;

	oracle->step++;
	for (uint32_t sink = 0; sink < ORACLE_SINKS; sink++) {
		for (store_stats(store, &stats); stats.due_tickets; store_stats(store, &stats)) {
			oracle_take(oracle, store, sink);
			store_calls_flush(store);
			if (oracle->take_waits[sink])
				break;
		}
	}
	for (uint32_t first = 0; first < oracle->count; first += ORACLE_BATCH_MAX) {
		for (uint32_t i = first; i < first + ORACLE_BATCH_MAX && i < oracle->count; i++)
			for (uint32_t leg = 0; leg < ORACLE_LEGS_MAX; leg++)
				if (below(oracle, 8))
					oracle_settle(oracle, store, i, leg);
		store_calls_flush(store);
		oracle_ops_check(oracle);
	}
}

int oracle_admit_one(struct oracle *oracle, struct store *store)
{
	uint32_t index = event_make(oracle);

	oracle->last_error = 0;
	admit_submit(oracle, store, index);
	store_calls_flush(store);
	oracle_ops_check(oracle);
	return oracle->events[index].fate == ORACLE_KEPT ? 0 : oracle->last_error;
}
