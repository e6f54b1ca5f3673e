/*
 * spool_drain: what was spooled is decided.
 *
 * A take brings the oldest events of the local store. They are admitted to the shared
 * store together, in their order, and closed in the local one. What fails is tried again
 * before anything newer is taken.
 *
 * Unless a part of the store can be away while others are there (a cluster): what then
 * fails is put aside for a while, read again then, and overtaken by others. To hear that
 * a part is away takes as long as the store waits for it; meanwhile the next group is
 * taken, up to SPOOL_DRAINS_MAX of them.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "gate/ticket.h"
#include "store/spool/spool_internal.h"

#define DRAIN_BYTES (4u << 20)
#define DRAIN_RETRY_MS 250u
#define DRAIN_ASIDE_MS 5000u
#define DRAIN_STUCK_MS 500u  /* no answer for so long: others go on */
#define DRAIN_WINDOW_S 3600u /* of a claim whose window is over: for copies behind it */

static int init_one(struct spool *spool, struct drain *drain)
{
	drain->spool = spool;
	drain->entries = mem_zalloc(SPOOL_DRAIN_MAX, sizeof(*drain->entries));
	if (!drain->entries)
		return -ENOMEM;
	for (uint32_t i = 0; i < SPOOL_DRAIN_MAX; i++)
		drain->entries[i].drain = drain;
	return 0;
}

int drain_init(struct spool *spool)
{
	int error = 0;
	spool->drain_count = spool->in_parts ? SPOOL_DRAINS_MAX : 1;
	for (uint32_t d = 0; d < spool->drain_count && error == 0; d++)
		error = init_one(spool, &spool->drains[d]);
	if (error == 0 && spool->in_parts)
		error = init_one(spool, &spool->again);
	return error;
}

static void free_one(struct drain *drain)
{
	for (uint32_t i = 0; drain->entries && i < SPOOL_DRAIN_MAX; i++)
		buf_free(&drain->entries[i].read.items);
	drain->entries = mem_free(drain->entries);
	buf_free(&drain->take.items);
}

void drain_free(struct spool *spool)
{
	for (uint32_t d = 0; d < spool->drain_count; d++)
		free_one(&spool->drains[d]);
	free_one(&spool->again);
	spool->aside = mem_free(spool->aside);
}

/* ---- closing ---- */

static void leave(struct drain_entry *entry)
{
	CHECK(entry->state != DRAIN_IDLE);
	entry->state = DRAIN_IDLE;
	entry->drain->count--;
}

static void say_empty(struct spool *spool)
{
	uint64_t *decided = spool->decided, all = 0;
	for (int i = 0; i < VERDICT_COUNT; i++)
		all += decided[i];
	spool_say(spool, SPOOL_INFO,
	          "the spool is empty: of %" PRIu64 " events %" PRIu64 " were new, %" PRIu64
	          " duplicates, %" PRIu64 " stale, %" PRIu64 " conflicts",
	          all, decided[VERDICT_NEW], decided[VERDICT_DUPLICATE], decided[VERDICT_STALE],
	          decided[VERDICT_CONFLICT]);
	memset(decided, 0, sizeof(spool->decided));
}

static void closed(struct store_op *op)
{
	struct drain_entry *entry = op->user;
	struct spool *spool = entry->drain->spool;
	if (op->error != 0 && op->error != ERR_CLOSING) { /* it is decided; say so again */
		entry->state = DRAIN_DECIDED;
		entry->drain->after_ms = spool->now_ms + DRAIN_RETRY_MS;
		return;
	}
	leave(entry);
	if (op->error == 0 && atomic_fetch_sub(&spool->waiting, 1) == 1)
		say_empty(spool);
}

static void close_entry(struct drain_entry *entry)
{
	entry->state = DRAIN_CLOSING;
	entry->settle.op = (struct store_op){ .kind = STORE_SETTLE, .done = closed, .user = entry };
	entry->settle.ticket = entry->ticket;
	entry->settle.attempt = entry->attempt;
	spool_submit_to(entry->drain->spool, entry->drain->spool->local, &entry->settle.op);
}

/* It can never be decided: kept in the local store for a person. */
static void give_up(struct drain_entry *entry, int error)
{
	char number[TICKET_TEXT_LEN];
	const char *why = error_name(error);
	ticket_text(entry->ticket, number);
	spool_say(entry->drain->spool, SPOOL_ERROR,
	          "the spooled event %.*s cannot be decided and is kept in the spool as dead: %s",
	          TICKET_TEXT_LEN, number, why);
	entry->settle.outcome = OUTCOME_DEAD;
	entry->settle.text = span_str(why);
	close_entry(entry);
}

/* ---- aside ---- */

/* The part of the store that decides it is away: others do not wait for it. False: there
 * is no room for it. */
static bool put_aside(struct drain_entry *entry)
{
	struct drain *drain = entry->drain;
	struct spool *spool = drain->spool;
	if (!spool->aside)
		spool->aside = mem_zalloc(SPOOL_ASIDE_MAX, sizeof(*spool->aside));
	if (!spool->aside || spool->aside_count == SPOOL_ASIDE_MAX)
		return false;
	spool->aside[(spool->aside_first + spool->aside_count++) % SPOOL_ASIDE_MAX] =
		(struct drain_aside){ .ticket = entry->ticket,
		                      .attempt = entry->attempt,
		                      .until_ms = spool->now_ms + DRAIN_ASIDE_MS };
	spool->again.take.now_ms = drain->take.now_ms;
	spool->again.taken_ms = drain->taken_ms;
	leave(entry);
	return true;
}

/* Ready to be asked for, or given up. */
static void receive(struct drain_entry *entry, const struct store_parts *parts)
{
	entry->state = DRAIN_READY;
	entry->settle = (struct store_settle){ .ticket = entry->ticket };
	entry->parts = *parts;
	int error = spool_record_read(parts->payload, &entry->record);
	if (error != 0)
		give_up(entry, error);
}

static void read_again(struct store_op *op)
{
	struct drain_entry *entry = op->user;
	struct store_item item;
	struct store_parts parts;
	size_t offset = 0;
	entry->drain->spool->dirty = true;
	if (op->error != 0 ||
	    !store_item_next(buf_span(&entry->read.items), &offset, &item, &parts)) {
		bool aside = op->error != ERR_CLOSING && put_aside(entry);
		if (!aside) /* nothing is under way but this end: the next start has it */
			leave(entry);
		return;
	}
	receive(entry, &parts);
}

static void take_from_aside(struct drain *drain)
{
	struct spool *spool = drain->spool;
	for (uint32_t i = 0; i < SPOOL_DRAIN_MAX && spool->aside_count > 0; i++) {
		const struct drain_aside *aside = &spool->aside[spool->aside_first];
		struct drain_entry *entry = &drain->entries[i];
		if (aside->until_ms > spool->now_ms)
			return;
		spool->aside_first = (spool->aside_first + 1) % SPOOL_ASIDE_MAX;
		spool->aside_count--;
		drain->count++;
		entry->state = DRAIN_READING;
		entry->ticket = entry->read.ticket = aside->ticket;
		entry->attempt = aside->attempt;
		entry->read.op =
			(struct store_op){ .kind = STORE_READ, .done = read_again, .user = entry };
		spool_submit_to(spool, spool->local, &entry->read.op);
	}
}

/* ---- deciding ---- */

/* That a part is away, which is asked again and again, does not make the store away. */
static bool is_of_a_part(const struct spool *spool, int error)
{
	return spool->in_parts && error == ERR_AWAY && !spool->ending;
}

static void admitted(struct store_op *op)
{
	struct drain_entry *entry = op->user;
	struct spool *spool = entry->drain->spool;
	entry->drain->asked--;
	bool part = is_of_a_part(spool, op->error);
	spool_judge(spool, entry->turn, part ? ERR_CLOSING : op->error);
	if (part && put_aside(entry))
		return;
	switch (op->error) {
	case 0:
		spool->decided[entry->record.admit.verdict]++;
		entry->settle.outcome = OUTCOME_DONE;
		close_entry(entry);
		break;
	case ERR_CLOSING: leave(entry); break;
	case ERR_INVALID:
	case ERR_TOO_LARGE: give_up(entry, op->error); break;
	default:
		entry->state = DRAIN_READY;
		entry->drain->after_ms = spool->now_ms + DRAIN_RETRY_MS;
		break;
	}
}

/* Windows count from when the event came. What has no room for the mark is known by its
 * own claims, which must last. */
static void age(struct store_admit *admit, uint64_t age_ms)
{
	uint64_t age_s = age_ms / 1000;
	uint32_t floor_s = admit->claim_count == CLAIMS_MAX ? SPOOL_SURE_S : DRAIN_WINDOW_S;
	for (uint32_t i = 0; i < admit->claim_count; i++) {
		struct claim *claim = &admit->claims[i];
		uint32_t least = claim->window_s < floor_s ? claim->window_s : floor_s;
		uint64_t left = claim->window_s > age_s ? claim->window_s - age_s : 0;
		claim->window_s = left > least ? (uint32_t)left : least;
	}
}

static void mark(struct spool_record *record)
{
	struct store_admit *admit = &record->admit;
	if (admit->claim_count == CLAIMS_MAX)
		return; /* one of them holds long enough: see age() and is_sure() */
	admit->claims[admit->claim_count++] = (struct claim){ .digest = record->mark,
		                                              .window_s = SPOOL_MARK_S };
}

/* It may have waited here for long: it is read again, with what is left of its windows. */
static void prepare(struct drain_entry *entry)
{
	struct spool *spool = entry->drain->spool;
	uint64_t now_ms = entry->drain->take.now_ms + (spool->now_ms - entry->drain->taken_ms);
	uint64_t came_ms = ticket_time_ms(entry->ticket);
	CHECK(spool_record_read(entry->parts.payload, &entry->record) == 0);
	entry->record.admit.source = entry->parts.source;
	age(&entry->record.admit, now_ms > came_ms ? now_ms - came_ms : 0);
	mark(&entry->record);
}

static void ask(struct drain_entry *entry)
{
	struct spool *spool = entry->drain->spool;
	prepare(entry);
	entry->state = DRAIN_ASKED;
	entry->turn = breaker_begin(&spool->breaker);
	entry->drain->asked++;
	entry->drain->asked_ms = spool->now_ms;
	entry->record.admit.op =
		(struct store_op){ .kind = STORE_ADMIT, .done = admitted, .user = entry };
	spool_submit_to(spool, spool->shared, &entry->record.admit.op);
}

/* ---- taking ---- */

static void taken(struct store_op *op)
{
	struct drain *drain = op->user;
	struct spool *spool = drain->spool;
	struct store_item item;
	struct store_parts parts;
	size_t offset = 0;
	drain->taking = false;
	drain->taken_ms = spool->now_ms;
	spool->dirty = true;
	if (op->error != 0) {
		drain->after_ms = spool->now_ms + DRAIN_RETRY_MS;
		return;
	}
	CHECK(drain->count == 0 && drain->take.count <= SPOOL_DRAIN_MAX);
	for (uint32_t i = 0; store_item_next(buf_span(&drain->take.items), &offset, &item, &parts);
	     i++) {
		struct drain_entry *entry = &drain->entries[i];
		entry->ticket = item.ticket;
		entry->attempt = item.attempt;
		drain->count++;
		receive(entry, &parts);
	}
}

static void begin_take(struct drain *drain)
{
	struct buf items = drain->take.items;
	drain->taking = true;
	drain->take = (struct store_take){
		.op = { .kind = STORE_TAKE, .done = taken, .user = drain },
		.sink = SPOOL_SINK,
		.max_items = SPOOL_DRAIN_MAX,
		.max_bytes = DRAIN_BYTES,
		.items = items,
	};
	spool_submit_to(drain->spool, drain->spool->local, &drain->take.op);
}

static bool is_stuck(const struct drain *drain)
{
	return drain->asked > 0 && drain->spool->now_ms - drain->asked_ms >= DRAIN_STUCK_MS;
}

static void step(struct drain *drain)
{
	bool asks = drain->asked == 0 && spool_is_back(drain->spool);
	for (uint32_t i = 0; i < SPOOL_DRAIN_MAX; i++) {
		struct drain_entry *entry = &drain->entries[i];
		if (entry->state == DRAIN_DECIDED)
			close_entry(entry);
		else if (entry->state == DRAIN_READY && asks)
			ask(entry);
	}
}

/* What came first is asked for first: only one takes, unless it is stuck. */
void drain_step(struct spool *spool)
{
	bool may_take = true;
	if (!spool->local || spool->ending)
		return;
	for (uint32_t d = 0; d < spool->drain_count; d++) {
		struct drain *drain = &spool->drains[d];
		bool any = atomic_load(&spool->waiting) > spool->aside_count;
		if (spool->now_ms < drain->after_ms)
			may_take = false;
		else if (drain->count > 0)
			step(drain);
		else if (may_take && any && !drain->taking)
			begin_take(drain);
		may_take = may_take && is_stuck(drain);
	}
	struct drain *again = &spool->again;
	if (again->count > 0 && spool->now_ms >= again->after_ms)
		step(again);
	else if (again->count == 0 && spool->aside_count > 0 && spool_is_back(spool))
		take_from_aside(again);
}
