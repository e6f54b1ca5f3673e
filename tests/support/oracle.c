/* oracle: see oracle.h. */
#include "support/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "gate/ticket.h"
#include "support/store_calls.h"
#include "support/test.h"

#define BYTES 16384u
#define LONG_WINDOW_S 2592000u
#define SHORT_WINDOW_S 3u

/* Payloads are slices of this. */
static unsigned char bytes[BYTES];

#define EXPECT(oracle, condition)                                                          \
	do {                                                                               \
		if (!(condition))                                                          \
			fail_msg("%s, %s, step %llu: %s does not hold (%s:%d)",            \
			         test_note_seed((oracle)->seed), (oracle)->about,          \
			         (unsigned long long)(oracle)->step, #condition, __FILE__, \
			         __LINE__);                                                \
	} while (0)

/* As above, of one event. */
#define EXPECT_OF(oracle, event, condition)                                               \
	do {                                                                              \
		if (!(condition))                                                         \
			fail_msg("%s, %s, step %llu, event %u (ticket %llx, fate %d, "    \
			         "outcome %d): %s does not hold (%s:%d)",                 \
			         test_note_seed((oracle)->seed), (oracle)->about,         \
			         (unsigned long long)(oracle)->step,                      \
			         (unsigned)((event) - (oracle)->events),                  \
			         (unsigned long long)(event)->ticket, (int)(event)->fate, \
			         (int)(event)->outcome, #condition, __FILE__, __LINE__);  \
	} while (0)

static uint64_t below(struct oracle *oracle, uint64_t n)
{
	return n ? test_random_below(&oracle->random, n) : 0;
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

void oracle_free(struct oracle *oracle)
{
	buf_free(&oracle->take.take.items);
}

void oracle_copy(struct oracle *to, const struct oracle *from)
{
	memcpy(to, from, offsetof(struct oracle, events));
	memcpy(to->events, from->events, from->count * sizeof(from->events[0]));
	for (uint32_t i = 0; i < ORACLE_OPS_MAX; i++) /* the rest is written when it is used */
		to->ops[i].pending = false;
	memset(&to->take, 0, sizeof(to->take));
	to->take_waits = false;
}

bool oracle_full(const struct oracle *oracle)
{
	return oracle->count + ORACLE_BATCH_MAX > ORACLE_EVENTS_MAX;
}

void oracle_restarted(struct oracle *oracle)
{
	oracle->take_waits = false;
	for (uint32_t i = 0; i < ORACLE_OPS_MAX; i++)
		oracle->ops[i].pending = false;
	for (uint32_t i = 0; i < oracle->count; i++)
		oracle->events[i].leased = false;
}

/* ---- answers ---- */

static void answered(struct oracle *oracle, int error)
{
	if (error == 0) {
		oracle->acknowledged++;
	} else {
		oracle->errors++;
		oracle->last_error = error;
	}
}

static void kept(struct oracle *oracle, struct oracle_event *event, const struct store_admit *admit)
{
	if (event->fate == ORACLE_KEPT) {
		EXPECT_OF(oracle, event, admit->verdict == VERDICT_DUPLICATE);
		EXPECT_OF(oracle, event, admit->ticket == event->ticket);
	}
	event->fate = ORACLE_KEPT;
	event->ticket = admit->ticket;
}

static void admit_done(struct store_op *op)
{
	struct oracle_op *own = op->user;
	struct oracle *oracle = own->oracle;
	struct oracle_event *event = &oracle->events[own->event];
	struct oracle_event *holder = &oracle->events[event->holder];

	own->pending = false;
	answered(oracle, op->error);
	if (op->error < 0)
		return;
	if (holder == event) {
		kept(oracle, event, &own->admit);
		return;
	}
	/* Its second claim belongs to the holder, if that one is there. */
	if (own->admit.verdict == VERDICT_DUPLICATE) {
		EXPECT_OF(oracle, event, own->admit.matched == 1);
		kept(oracle, holder, &own->admit);
		event->fate = ORACLE_REFUSED;
	} else {
		EXPECT_OF(oracle, event, holder->fate != ORACLE_KEPT);
		kept(oracle, event, &own->admit);
	}
}

static void settle_done(struct store_op *op)
{
	struct oracle_op *own = op->user;
	struct oracle_event *event = &own->oracle->events[own->event];

	own->pending = false;
	answered(own->oracle, op->error);
	EXPECT_OF(own->oracle, event, op->error != ERR_FENCED);
	if (op->error == 0 && own->settle.outcome == OUTCOME_RELEASED)
		event->leased = false;
	else if (op->error == 0)
		event->outcome = ORACLE_SETTLED;
}

static struct oracle_event *event_by_ticket(struct oracle *oracle, uint64_t ticket)
{
	for (uint32_t i = 0; i < oracle->count; i++)
		if (oracle->events[i].ticket == ticket && oracle->events[i].fate == ORACLE_KEPT)
			return &oracle->events[i];
	return NULL;
}

static void item_check(struct oracle *oracle, const struct store_item *item, struct span source,
                       struct span payload)
{
	struct oracle_event *event = event_by_ticket(oracle, item->ticket);

	if (!event)
		fail_msg("%s, %s, step %llu: ticket %llx is delivered, but nobody was promised it",
		         test_note_seed(oracle->seed), oracle->about,
		         (unsigned long long)oracle->step, (unsigned long long)item->ticket);
	EXPECT_OF(oracle, event, !event->no_ticket);
	EXPECT_OF(oracle, event, event->outcome != ORACLE_SETTLED);
	EXPECT_OF(oracle, event, !event->leased);
	EXPECT_OF(oracle, event, item->flags == event->flags);
	EXPECT_OF(oracle, event, span_eq(source, event->source));
	EXPECT_OF(oracle, event, span_eq(payload, event->payload));
	event->leased = true;
	event->attempt = item->attempt;
}

static uint32_t items_check(struct oracle *oracle, const struct store_take *take)
{
	struct store_item item;
	struct span source, payload;
	uint32_t count = 0;

	for (size_t at = 0; store_item_next(buf_span(&take->items), &at, &item, &source, &payload);
	     count++)
		item_check(oracle, &item, source, payload);
	EXPECT(oracle, count == take->count);
	return count;
}

static void take_done(struct store_op *op)
{
	struct oracle_op *own = op->user;

	own->oracle->take_waits = false;
	if (op->error != ERR_CLOSING)
		answered(own->oracle, op->error);
	if (op->error == 0)
		items_check(own->oracle, &own->take);
}

/* ---- operations ---- */

/* The top bits choose a shard of the local store's index. Few shards are
 * enough here, and opening a store costs less. */
static struct digest digest_of(uint64_t id)
{
	uint64_t random = id * 31 + 5;
	uint64_t first = test_random(&random) & UINT64_C(0xc00fffffffffffff);

	return (struct digest){ { first, test_random(&random) } };
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
		.claim_count = 1 + (uint32_t)(below(oracle, 2) ? 0 : below(oracle, CLAIMS_MAX)),
		.flags = (uint16_t)below(oracle, 65536),
		.no_ticket = below(oracle, 6) == 0,
		.source = span_of(bytes, below(oracle, STORE_SOURCE_MAX + 1)),
		.payload = span_of(bytes + start, len),
	};
	for (uint32_t i = 0; i < event->claim_count; i++) {
		event->claims[i].digest = digest_of((uint64_t)index * CLAIMS_MAX + i);
		event->claims[i].window_s = is_short ? SHORT_WINDOW_S : LONG_WINDOW_S;
	}
	return index;
}

static struct oracle_op *op_begin(struct oracle *oracle)
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
	struct oracle_op *own = op_begin(oracle);

	own->event = index;
	own->op.kind = STORE_ADMIT;
	own->op.done = admit_done;
	memcpy(own->admit.claims, event->claims, sizeof(event->claims));
	own->admit.claim_count = event->claim_count;
	own->admit.flags = event->flags;
	own->admit.no_ticket = event->no_ticket;
	own->admit.source = event->source;
	own->admit.payload = event->payload;
	store_submit(store, &own->op);
}

static bool is_short(const struct oracle_event *event)
{
	return event->claims[0].window_s == SHORT_WINDOW_S;
}

/* An event that comes again: a duplicate, or the retry after an error. */
static void again_submit(struct oracle *oracle, struct store *store)
{
	uint32_t index = (uint32_t)below(oracle, oracle->count);

	if (oracle->count && !is_short(&oracle->events[index]) &&
	    oracle->events[index].fate != ORACLE_REFUSED)
		admit_submit(oracle, store, index);
}

/* A new event whose second claim another one has already. */
static void refused_submit(struct oracle *oracle, struct store *store)
{
	uint32_t holder = (uint32_t)below(oracle, oracle->count);

	if (!oracle->count || is_short(&oracle->events[holder]) ||
	    oracle->events[holder].fate != ORACLE_KEPT)
		return;
	uint32_t index = event_make(oracle);
	struct oracle_event *event = &oracle->events[index];
	event->claims[0].window_s = LONG_WINDOW_S;
	event->claims[1] = oracle->events[holder].claims[0];
	event->claim_count = 2;
	event->holder = holder;
	admit_submit(oracle, store, index);
}

static bool settle_pending(const struct oracle *oracle, uint32_t index)
{
	for (uint32_t i = 0; i < ORACLE_OPS_MAX; i++)
		if (oracle->ops[i].pending && oracle->ops[i].op.kind == STORE_SETTLE &&
		    oracle->ops[i].event == index)
			return true;
	return false;
}

static void settle_submit(struct oracle *oracle, struct store *store, uint32_t index)
{
	struct oracle_event *event = &oracle->events[index];

	if (index >= oracle->count || !event->leased || event->outcome == ORACLE_SETTLED ||
	    settle_pending(oracle, index))
		return;
	struct oracle_op *own = op_begin(oracle);
	own->event = index;
	own->op.kind = STORE_SETTLE;
	own->op.done = settle_done;
	own->settle.ticket = event->ticket;
	own->settle.attempt = event->attempt;
	own->settle.outcome = below(oracle, 6) == 0 && event->outcome == ORACLE_OPEN
	                              ? OUTCOME_RELEASED
	                              : OUTCOME_DONE;
	if (own->settle.outcome != OUTCOME_RELEASED)
		event->outcome = ORACLE_SETTLING;
	store_submit(store, &own->op);
}

static void take_submit(struct oracle *oracle, struct store *store)
{
	struct oracle_op *own = &oracle->take;

	if (oracle->take_waits)
		return;
	oracle->take_waits = true;
	own->oracle = oracle;
	own->op.user = own;
	own->op.kind = STORE_TAKE;
	own->op.done = take_done;
	own->take.max_items = 1 + (uint32_t)below(oracle, 8);
	own->take.max_bytes = 4096;
	store_submit(store, &own->op);
}

static void time_pass(struct oracle *oracle, struct store *store)
{
	static const uint64_t spans_ms[] = { 2, 60, 1100, 20000 };

	clock_fake_advance(oracle->clock, 1 + below(oracle, spans_ms[below(oracle, 4)]));
	store_tick(store);
}

/* Only a settle may be kept by the store until there is room. */
static void ops_check(struct oracle *oracle)
{
	for (uint32_t i = 0; i < ORACLE_OPS_MAX; i++)
		EXPECT(oracle, !oracle->ops[i].pending || oracle->ops[i].op.kind == STORE_SETTLE);
}

void oracle_step(struct oracle *oracle, struct store *store)
{
	uint64_t dice = below(oracle, 10);
	uint64_t count = 1 + below(oracle, 5);

	oracle->step++;
	if (dice == 0)
		time_pass(oracle, store);
	if (dice < 3)
		take_submit(oracle, store);
	for (uint64_t i = 0; i < count && !oracle_full(oracle); i++) {
		switch (below(oracle, 8)) {
		case 0: again_submit(oracle, store); break;
		case 1: refused_submit(oracle, store); break;
		case 2:
		case 3:
		case 4: settle_submit(oracle, store, (uint32_t)below(oracle, oracle->count)); break;
		default: {
			uint32_t index = event_make(oracle);
			admit_submit(oracle, store, index);
			if (below(oracle, 6) == 0) /* twice in one flush */
				admit_submit(oracle, store, index);
		}
		}
	}
	store_flush(store);
	ops_check(oracle);
}

void oracle_settle_most(struct oracle *oracle, struct store *store)
{
	struct store_stats stats;

	oracle->step++;
	for (store_stats(store, &stats); stats.due_tickets; store_stats(store, &stats)) {
		take_submit(oracle, store);
		store_flush(store);
		if (oracle->take_waits)
			break;
	}
	for (uint32_t first = 0; first < oracle->count; first += ORACLE_BATCH_MAX) {
		for (uint32_t i = first; i < first + ORACLE_BATCH_MAX && i < oracle->count; i++)
			if (below(oracle, 8))
				settle_submit(oracle, store, i);
		store_flush(store);
		ops_check(oracle);
	}
}

int oracle_admit_one(struct oracle *oracle, struct store *store)
{
	uint32_t index = event_make(oracle);

	oracle->last_error = 0;
	admit_submit(oracle, store, index);
	store_flush(store);
	ops_check(oracle);
	return oracle->events[index].fate == ORACLE_KEPT ? 0 : oracle->last_error;
}

/* ---- checking ---- */

static struct store_lookup lookup(struct oracle *oracle, struct store *store,
                                  const struct digest *digest)
{
	struct store_lookup result = { .digest = *digest };

	EXPECT(oracle, store_call(store, &result.op, STORE_LOOKUP) == 0);
	return result;
}

static bool expired(const struct oracle *oracle, const struct oracle_event *event)
{
	return is_short(event) &&
	       ticket_time_ms(event->ticket) + SHORT_WINDOW_S * 1000 <= oracle->clock->now.wall_ms;
}

/* Nobody was told of it: it may be there, but then all of it. */
static void unknown_resolve(struct oracle *oracle, struct store *store, struct oracle_event *event)
{
	uint32_t shared = 0; /* a refused one of unknown fate does not own its second claim */
	uint32_t taken = 0;
	uint64_t ticket = 0;

	for (uint32_t i = 0; i < event->claim_count; i++) {
		struct store_lookup found = lookup(oracle, store, &event->claims[i].digest);
		struct oracle_event *owner = found.taken ? event_by_ticket(oracle, found.ticket)
		                                         : NULL;
		if (owner) {
			shared++;
			continue;
		}
		taken += found.taken;
		if (found.taken && ticket)
			EXPECT_OF(oracle, event, found.ticket == ticket);
		if (found.taken)
			ticket = found.ticket;
	}
	if (taken) {
		EXPECT_OF(oracle, event, shared == 0 && taken == event->claim_count);
		event->fate = ORACLE_KEPT;
		event->ticket = ticket;
	}
}

static void kept_check(struct oracle *oracle, struct store *store, const struct oracle_event *event)
{
	if (expired(oracle, event))
		return;
	for (uint32_t i = 0; i < event->claim_count; i++) {
		struct store_lookup found = lookup(oracle, store, &event->claims[i].digest);
		EXPECT_OF(oracle, event, found.taken);
		EXPECT_OF(oracle, event, found.ticket == event->ticket);
	}
}

/* A short event of unknown fate may have come, gone by its window, and still be
 * open: its ticket is known by its bytes alone. */
static void unknown_by_content(struct oracle *oracle, const struct store_item *item,
                               struct span source, struct span payload)
{
	if (event_by_ticket(oracle, item->ticket))
		return;
	for (uint32_t i = 0; i < oracle->count; i++) {
		struct oracle_event *event = &oracle->events[i];
		if (event->fate != ORACLE_UNKNOWN || !is_short(event) || event->no_ticket ||
		    event->flags != item->flags || !span_eq(event->source, source) ||
		    !span_eq(event->payload, payload))
			continue;
		event->fate = ORACLE_KEPT;
		event->ticket = item->ticket;
		return;
	}
}

static void open_check(struct oracle *oracle, struct store *store)
{
	struct take_call call = { 0 };
	struct store_stats stats;
	uint64_t total = 0;

	store_stats(store, &stats);
	while (total < stats.due_tickets) {
		struct store_item item;
		struct span source, payload;
		size_t at = 0;
		take_call_begin(store, &call, 64, 1u << 20);
		store_flush(store);
		EXPECT(oracle, take_call_poll(&call));
		EXPECT(oracle, call.take.op.error == 0);
		while (store_item_next(buf_span(&call.take.items), &at, &item, &source, &payload))
			unknown_by_content(oracle, &item, source, payload);
		total += items_check(oracle, &call.take);
	}
	EXPECT(oracle, total == stats.due_tickets && total == stats.open_tickets);
	buf_free(&call.take.items);
}

/* After the walk over what is open: who should have been there is. */
static void outcome_check(struct oracle *oracle, struct oracle_event *event)
{
	if (event->fate != ORACLE_KEPT || event->no_ticket)
		return;
	if (event->outcome == ORACLE_OPEN)
		EXPECT_OF(oracle, event, event->leased);
	else if (event->outcome == ORACLE_SETTLING)
		event->outcome = event->leased ? ORACLE_OPEN : ORACLE_SETTLED;
}

void oracle_check(struct oracle *oracle, struct store *store)
{
	oracle_restarted(oracle);
	for (uint32_t i = 0; i < oracle->count; i++) {
		struct oracle_event *event = &oracle->events[i];
		if (event->fate == ORACLE_KEPT)
			kept_check(oracle, store, event);
		else if (event->fate == ORACLE_UNKNOWN)
			unknown_resolve(oracle, store, event);
		else
			EXPECT_OF(oracle, event,
			          !lookup(oracle, store, &event->claims[0].digest).taken);
	}
	open_check(oracle, store);
	for (uint32_t i = 0; i < oracle->count; i++)
		outcome_check(oracle, &oracle->events[i]);
}
