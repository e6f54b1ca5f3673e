/*
 * spool_drain: what was spooled is decided.
 *
 * A take brings the oldest events of the local store. They are admitted to the shared
 * store together, in their order, and closed in the local one. What fails is tried again
 * before anything newer is taken.
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
#define DRAIN_WINDOW_S 3600u /* of a claim whose window is over: for copies behind it */

int drain_init(struct spool *spool)
{
	struct drain *drain = &spool->drain;
	drain->entries = mem_zalloc(SPOOL_DRAIN_MAX, sizeof(*drain->entries));
	if (!drain->entries)
		return -ENOMEM;
	for (uint32_t i = 0; i < SPOOL_DRAIN_MAX; i++)
		drain->entries[i].spool = spool;
	return 0;
}

void drain_free(struct spool *spool)
{
	struct drain *drain = &spool->drain;
	drain->entries = mem_free(drain->entries);
	buf_free(&drain->take.items);
}

/* ---- closing ---- */

static void leave(struct drain_entry *entry)
{
	CHECK(entry->state != DRAIN_IDLE);
	entry->state = DRAIN_IDLE;
	entry->spool->drain.count--;
}

static void say_empty(struct spool *spool)
{
	uint64_t *decided = spool->drain.decided, all = 0;
	for (int i = 0; i < VERDICT_COUNT; i++)
		all += decided[i];
	spool_say(spool, SPOOL_INFO,
	          "the spool is empty: of %" PRIu64 " events %" PRIu64 " were new, %" PRIu64
	          " duplicates, %" PRIu64 " stale, %" PRIu64 " conflicts",
	          all, decided[VERDICT_NEW], decided[VERDICT_DUPLICATE], decided[VERDICT_STALE],
	          decided[VERDICT_CONFLICT]);
	memset(decided, 0, sizeof(spool->drain.decided));
}

static void closed(struct store_op *op)
{
	struct drain_entry *entry = op->user;
	struct spool *spool = entry->spool;
	if (op->error != 0 && op->error != ERR_CLOSING) { /* it is decided; say so again */
		entry->state = DRAIN_DECIDED;
		spool->drain.after_ms = spool->now_ms + DRAIN_RETRY_MS;
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
	spool_submit_to(entry->spool, entry->spool->local, &entry->settle.op);
}

/* It can never be decided: kept in the local store for a person. */
static void give_up(struct drain_entry *entry, int error)
{
	char number[TICKET_TEXT_LEN];
	const char *why = error_name(error);
	ticket_text(entry->ticket, number);
	spool_say(entry->spool, SPOOL_ERROR,
	          "the spooled event %.*s cannot be decided and is kept in the spool as dead: %s",
	          TICKET_TEXT_LEN, number, why);
	entry->settle.outcome = OUTCOME_DEAD;
	entry->settle.text = span_str(why);
	close_entry(entry);
}

/* ---- deciding ---- */

static void admitted(struct store_op *op)
{
	struct drain_entry *entry = op->user;
	struct spool *spool = entry->spool;
	spool->drain.asked--;
	spool_judge(spool, entry->turn, op->error);
	switch (op->error) {
	case 0:
		spool->drain.decided[entry->record.admit.verdict]++;
		entry->settle.outcome = OUTCOME_DONE;
		close_entry(entry);
		break;
	case ERR_CLOSING: leave(entry); break;
	case ERR_INVALID:
	case ERR_TOO_LARGE: give_up(entry, op->error); break;
	default:
		entry->state = DRAIN_READY;
		spool->drain.after_ms = spool->now_ms + DRAIN_RETRY_MS;
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
	struct spool *spool = entry->spool;
	uint64_t now_ms = spool->drain.take.now_ms + (spool->now_ms - spool->drain.taken_ms);
	uint64_t came_ms = ticket_time_ms(entry->ticket);
	CHECK(spool_record_read(entry->parts.payload, &entry->record) == 0);
	entry->record.admit.source = entry->parts.source;
	age(&entry->record.admit, now_ms > came_ms ? now_ms - came_ms : 0);
	mark(&entry->record);
}

static void ask(struct drain_entry *entry)
{
	struct spool *spool = entry->spool;
	prepare(entry);
	entry->state = DRAIN_ASKED;
	entry->turn = breaker_begin(&spool->breaker);
	spool->drain.asked++;
	entry->record.admit.op =
		(struct store_op){ .kind = STORE_ADMIT, .done = admitted, .user = entry };
	spool_submit_to(spool, spool->shared, &entry->record.admit.op);
}

/* ---- taking ---- */

static void receive(struct drain_entry *entry, const struct store_item *item,
                    const struct store_parts *parts)
{
	entry->state = DRAIN_READY;
	entry->ticket = item->ticket;
	entry->attempt = item->attempt;
	entry->settle = (struct store_settle){ .ticket = item->ticket };
	entry->parts = *parts;
	entry->spool->drain.count++;
	int error = spool_record_read(parts->payload, &entry->record);
	if (error != 0)
		give_up(entry, error);
}

static void taken(struct store_op *op)
{
	struct spool *spool = op->user;
	struct drain *drain = &spool->drain;
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
	     i++)
		receive(&drain->entries[i], &item, &parts);
}

static void begin_take(struct spool *spool)
{
	struct drain *drain = &spool->drain;
	struct buf items = drain->take.items;
	drain->taking = true;
	drain->take = (struct store_take){
		.op = { .kind = STORE_TAKE, .done = taken, .user = spool },
		.sink = SPOOL_SINK,
		.max_items = SPOOL_DRAIN_MAX,
		.max_bytes = DRAIN_BYTES,
		.items = items,
	};
	spool_submit_to(spool, spool->local, &drain->take.op);
}

void drain_step(struct spool *spool)
{
	struct drain *drain = &spool->drain;
	if (!spool->local || spool->ending || spool->now_ms < drain->after_ms)
		return;
	if (drain->count == 0) {
		if (!drain->taking && atomic_load(&spool->waiting) > 0)
			begin_take(spool);
		return;
	}
	bool asks = drain->asked == 0 && spool_is_back(spool);
	for (uint32_t i = 0; i < SPOOL_DRAIN_MAX; i++) {
		struct drain_entry *entry = &drain->entries[i];
		if (entry->state == DRAIN_DECIDED)
			close_entry(entry);
		else if (entry->state == DRAIN_READY && asks)
			ask(entry);
	}
}
