/* oracle_tickets: what is done with the legs of an event; see oracle.h. */
#include "base/error.h"
#include "support/oracle_internal.h"

static struct oracle_event *event_of(const struct oracle_op *own)
{
	return &own->oracle->events[own->event];
}

static struct oracle_leg *leg_of(const struct oracle_op *own)
{
	return &event_of(own)->legs[own->leg];
}

bool oracle_may_be_settled(const struct oracle_leg *leg)
{
	bool aside = leg->hold == ORACLE_GOING || leg->hold == ORACLE_DROPPING ||
	             (leg->hold != ORACLE_FREE && leg->aside != STORE_STATE_HELD);

	return leg->outcome != ORACLE_OPEN || aside;
}

/* At most one operation of a leg at a time. */
static bool is_pending(const struct oracle *oracle, uint32_t event, uint32_t leg)
{
	for (uint32_t i = 0; i < ORACLE_OPS_MAX; i++)
		if (oracle->ops[i].pending && oracle->ops[i].op.kind != STORE_ADMIT &&
		    oracle->ops[i].event == event && oracle->ops[i].leg == leg)
			return true;
	return false;
}

static struct oracle_op *begin(struct oracle *oracle, uint32_t event, uint32_t leg,
                               enum store_op_kind kind)
{
	struct oracle_op *own = oracle_op_begin(oracle);

	own->event = event;
	own->leg = leg;
	own->op.kind = kind;
	return own;
}

/* A mark was acknowledged: whatever was tried before is over. */
static void marked(struct oracle_leg *leg, enum store_mark mark, uint32_t attempt)
{
	leg->last = mark;
	leg->maybe = 0;
	if (attempt > leg->noted)
		leg->noted = attempt;
}

/* ---- takes ---- */

void oracle_item_check(struct oracle *oracle, const struct oracle_event *event,
                       const struct store_item *item, const struct store_parts *parts)
{
	uint64_t leg = item->ticket - item->event;

	EXPECT_OF(oracle, event, leg < oracle_legs(event));
	EXPECT_OF(oracle, event, item->sink == event->legs[leg].leg.sink);
	EXPECT_OF(oracle, event, item->order == event->legs[leg].leg.order);
	EXPECT_OF(oracle, event, item->flags == event->flags);
	EXPECT_OF(oracle, event, span_eq(parts->source, event->source));
	EXPECT_OF(oracle, event, span_eq(parts->metadata, event->metadata));
	EXPECT_OF(oracle, event, span_eq(parts->payload, event->payload));
}

static void item_taken(struct oracle *oracle, const struct store_item *item,
                       const struct store_parts *parts)
{
	struct oracle_event *event = oracle_by_ticket(oracle, item->event);

	if (!event)
		fail_msg("%s, %s, step %llu: ticket %llx is delivered, but nobody was promised it",
		         test_note_seed(oracle->seed), oracle->about,
		         (unsigned long long)oracle->step, (unsigned long long)item->ticket);
	oracle_item_check(oracle, event, item, parts);
	struct oracle_leg *leg = &event->legs[item->ticket - item->event];
	EXPECT_OF(oracle, event, !event->no_ticket);
	EXPECT_OF(oracle, event, leg->outcome != ORACLE_SETTLED);
	EXPECT_OF(oracle, event, leg->hold != ORACLE_HELD && leg->hold != ORACLE_DROPPING);
	EXPECT_OF(oracle, event, !leg->leased);
	EXPECT_OF(oracle, event, item->attempt > leg->noted);
	leg->leased = true;
	leg->attempt = item->attempt;
}

uint32_t oracle_items(struct oracle *oracle, const struct store_take *take)
{
	struct store_item item;
	struct store_parts parts;
	uint32_t count = 0;

	for (size_t at = 0; store_item_next(buf_span(&take->items), &at, &item, &parts); count++)
		item_taken(oracle, &item, &parts);
	EXPECT(oracle, count == take->count);
	return count;
}

static void take_done(struct store_op *op)
{
	struct oracle_op *own = op->user;

	own->oracle->take_waits[own->take.sink] = false;
	if (op->error != ERR_CLOSING)
		oracle_answered(own->oracle, op->error);
	if (op->error == 0)
		oracle_items(own->oracle, &own->take);
}

void oracle_take(struct oracle *oracle, struct store *store, uint32_t sink)
{
	struct oracle_op *own = &oracle->takes[sink];

	if (oracle->take_waits[sink])
		return;
	oracle->take_waits[sink] = true;
	own->oracle = oracle;
	own->op.user = own;
	own->op.kind = STORE_TAKE;
	own->op.done = take_done;
	own->take.sink = sink;
	own->take.max_items = 1 + (uint32_t)oracle_below(oracle, 8);
	own->take.max_bytes = 4096;
	store_submit(store, &own->op);
}

void oracle_started(struct oracle *oracle, struct oracle_leg *leg, uint32_t attempt)
{
	leg->leased = true;
	leg->attempt = attempt;
	marked(leg, STORE_MARK_STARTED, attempt);
	oracle->starts++;
}

static void take_one_done(struct store_op *op)
{
	struct oracle_op *own = op->user;
	struct oracle *oracle = own->oracle;
	struct oracle_leg *leg = leg_of(own);

	own->pending = false;
	oracle_answered(oracle, op->error);
	if (op->error == 0 && own->take.count) {
		EXPECT_OF(oracle, event_of(own), oracle_items(oracle, &own->take) == 1);
		oracle_started(oracle, leg, leg->attempt);
	}
	buf_free(&own->take.items);
}

void oracle_take_one(struct oracle *oracle, struct store *store, uint32_t event, uint32_t index)
{
	const struct oracle_event *of = &oracle->events[event];
	struct oracle_leg *leg = &oracle->events[event].legs[index];

	if (event >= oracle->count || of->fate != ORACLE_KEPT || of->no_ticket ||
	    index >= oracle_legs(of) || leg->leased || leg->hold != ORACLE_FREE ||
	    leg->outcome != ORACLE_OPEN || is_pending(oracle, event, index))
		return;
	struct oracle_op *own = begin(oracle, event, index, STORE_TAKE);
	own->op.done = take_one_done;
	own->take.ticket = of->ticket + index;
	own->take.sink = leg->leg.sink;
	own->take.lease_ms = ORACLE_LEASE_MS;
	leg->maybe |= 1u << STORE_MARK_STARTED;
	store_submit(store, &own->op);
}

/* ---- outcomes ---- */

static void settle_done(struct store_op *op)
{
	struct oracle_op *own = op->user;
	struct oracle_leg *leg = leg_of(own);
	const struct store_settle *settle = &own->settle;

	own->pending = false;
	oracle_answered(own->oracle, op->error);
	EXPECT_OF(own->oracle, event_of(own), op->error != ERR_FENCED);
	if (op->error < 0)
		return;
	own->oracle->outcomes[settle->outcome]++;
	leg->leased = false;
	if (leg->hold == ORACLE_GOING) {
		leg->hold = ORACLE_HELD;
		marked(leg, leg->aside == STORE_STATE_DEAD ? STORE_MARK_DEAD : STORE_MARK_PARKED,
		       settle->attempt);
	} else if (settle->outcome == OUTCOME_RELEASED) {
		marked(leg, leg->last, settle->attempt);
	} else {
		leg->outcome = ORACLE_SETTLED;
		leg->answered |= settle->answer != NULL;
	}
}

/* One that was tried before is tried again with the same wish. */
static void outcome_choose(struct oracle *oracle, struct oracle_leg *leg,
                           struct store_settle *settle)
{
	uint64_t dice = leg->outcome == ORACLE_SETTLING ? 9 : oracle_below(oracle, 10);

	if (leg->hold == ORACLE_GOING)
		dice = leg->aside == STORE_STATE_DEAD ? 0 : 1;
	settle->outcome = OUTCOME_DONE;
	if (dice < 2) {
		leg->hold = ORACLE_GOING;
		leg->aside = dice == 0 ? STORE_STATE_DEAD : STORE_STATE_PARKED;
		leg->maybe |= 1u << (dice == 0 ? STORE_MARK_DEAD : STORE_MARK_PARKED);
		settle->outcome = dice == 0 ? OUTCOME_DEAD : OUTCOME_UNKNOWN;
		settle->text = SPAN("no more");
	} else if (dice < 4) {
		settle->outcome = OUTCOME_RELEASED;
		settle->due_ms = oracle_below(oracle, 2) * 1000;
	} else {
		leg->outcome = ORACLE_SETTLING;
		settle->outcome = dice == 4 ? OUTCOME_DEAD : OUTCOME_DONE;
		settle->forget = true;
	}
}

void oracle_settle(struct oracle *oracle, struct store *store, uint32_t event, uint32_t index)
{
	struct oracle_leg *leg = &oracle->events[event].legs[index];

	if (event >= oracle->count || !leg->leased || leg->outcome == ORACLE_SETTLED ||
	    is_pending(oracle, event, index))
		return;
	struct oracle_op *own = begin(oracle, event, index, STORE_SETTLE);
	own->op.done = settle_done;
	own->settle.ticket = oracle->events[event].ticket + index;
	own->settle.attempt = leg->attempt;
	outcome_choose(oracle, leg, &own->settle);
	oracle_answer(own, leg);
	store_submit(store, &own->op);
}

/* ---- notes ---- */

static void note_done(struct store_op *op)
{
	struct oracle_op *own = op->user;
	struct oracle_leg *leg = leg_of(own);

	own->pending = false;
	oracle_answered(own->oracle, op->error);
	EXPECT_OF(own->oracle, event_of(own), op->error != ERR_FENCED);
	if (op->error < 0)
		return;
	own->oracle->notes++;
	marked(leg, own->note.mark, own->note.attempt);
	leg->attempt += own->note.mark != STORE_MARK_STARTED;
}

void oracle_note(struct oracle *oracle, struct store *store, uint32_t event, uint32_t index)
{
	struct oracle_leg *leg = &oracle->events[event].legs[index];

	if (event >= oracle->count || !leg->leased || leg->outcome != ORACLE_OPEN ||
	    leg->hold == ORACLE_GOING || is_pending(oracle, event, index))
		return;
	struct oracle_op *own = begin(oracle, event, index, STORE_NOTE);
	own->op.done = note_done;
	own->note.ticket = oracle->events[event].ticket + index;
	own->note.attempt = leg->attempt;
	own->note.mark = (enum store_mark)(STORE_MARK_STARTED + oracle_below(oracle, 3));
	own->note.due_ms = oracle_below(oracle, 2) * 5000;
	own->note.text = span_of("what the sink said of it", oracle_below(oracle, 24));
	leg->maybe |= 1u << own->note.mark;
	store_submit(store, &own->op);
}

/* ---- releases ---- */

static void release_done(struct store_op *op)
{
	struct oracle_op *own = op->user;
	struct oracle_leg *leg = leg_of(own);

	own->pending = false;
	oracle_answered(own->oracle, op->error);
	EXPECT_OF(own->oracle, event_of(own), op->error != ERR_FENCED);
	if (op->error < 0)
		return;
	own->oracle->releases++;
	leg->hold = ORACLE_FREE;
	leg->freed_step = own->oracle->step;
	if (own->release.drop)
		leg->outcome = ORACLE_SETTLED;
	else
		marked(leg, leg->aside == STORE_STATE_HELD ? leg->last : STORE_MARK_RELEASED, 0);
}

static bool may_release(const struct oracle *oracle, uint32_t event, uint32_t leg)
{
	enum oracle_hold hold = oracle->events[event].legs[leg].hold;

	return oracle->events[event].fate == ORACLE_KEPT && hold >= ORACLE_HELD &&
	       oracle->events[event].legs[leg].outcome != ORACLE_SETTLED &&
	       !is_pending(oracle, event, leg);
}

/* One that failed is tried again with the same wish. */
bool oracle_release(struct oracle *oracle, struct store *store)
{
	uint32_t at = 0;

	while (at < oracle->count * ORACLE_LEGS_MAX &&
	       !may_release(oracle, at / ORACLE_LEGS_MAX, at % ORACLE_LEGS_MAX))
		at++;
	if (at == oracle->count * ORACLE_LEGS_MAX)
		return false;
	const struct oracle_event *event = &oracle->events[at / ORACLE_LEGS_MAX];
	struct oracle_op *own = begin(oracle, at / ORACLE_LEGS_MAX, at % ORACLE_LEGS_MAX,
	                              STORE_RELEASE);
	struct oracle_leg *leg = leg_of(own);
	own->op.done = release_done;
	own->release.ticket = event->ticket + own->leg;
	own->release.drop = leg->hold == ORACLE_HELD ? oracle_below(oracle, 3) == 0
	                                             : leg->hold == ORACLE_DROPPING;
	leg->hold = own->release.drop ? ORACLE_DROPPING : ORACLE_RELEASING;
	if (leg->aside != STORE_STATE_HELD && !own->release.drop)
		leg->maybe |= 1u << STORE_MARK_RELEASED;
	store_submit(store, &own->op);
	return true;
}
