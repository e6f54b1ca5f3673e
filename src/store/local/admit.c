/*
 * admit: what becomes of an event in the local store (store.h has the rules), and
 * taking that back when its frame was lost.
 *
 * A claim or an entity that another ticket had until now is written down before it
 * changes hands (undo_list), so that it can come back. Everything else that a lost
 * frame took is known by its ticket: those above durable_ticket are exactly its.
 *
 * Threads: the owner's.
 */
#include "base/error.h"
#include "base/mem.h"
#include "gate/ticket.h"
#include "store/local/local_internal.h"

/* The decision rested on a frame that was lost meanwhile: it is made again. */
#define DECIDE_AGAIN 1

/* What the event takes, and what a claim of it met. */
struct taking {
	struct frame_claims claims;
	uint32_t moved;                  /* of claims.once: another ticket has it until now */
	uint8_t flags;                   /* EVENT_HELD */
	uint32_t size;                   /* of its EVENT, once it is known that it is kept */
	struct table_probe *probes;      /* of the event's claims; NULL: there are none */
	struct claim longer[CLAIMS_MAX]; /* in place of the event's, if any moves */
};

struct met {
	struct table_hit claim;
	struct newest_record entity;
	uint64_t ticket; /* of either */
};

static uint64_t now_of(const struct local_store *local)
{
	return steady_clock_last(&local->clock);
}

/* --- taking back -------------------------------------------------------- */

int local_undo_reserve(struct undo_list *list, uint32_t count)
{
	if (list->count + count <= list->room)
		return 0;
	uint32_t room = list->room ? list->room * 2 : 64;
	struct undo *items = mem_realloc(list->items, room * sizeof(*items));
	if (!items)
		return -ENOMEM;
	list->items = items;
	list->room = room;
	return 0;
}

/* A lease that has ended since does not come back. */
static void put_back_ticket(struct local_store *local, struct open_ticket ticket)
{
	struct open_ticket now;

	bool found = open_tickets_find(local->tickets, ticket.ticket, &now);
	CHECK(found);
	if (ticket.state == OPEN_TICKET_LEASED && now.state == OPEN_TICKET_DUE)
		ticket.state = OPEN_TICKET_DUE;
	open_tickets_update(local->tickets, &ticket);
}

/* After its removal the old one fits where it was. */
static void put_back(struct local_store *local, const struct undo *undo)
{
	int r = 0;

	if (undo->kind == UNDO_CELL) {
		local_undo_cell(local, &undo->cell);
	} else if (undo->kind == UNDO_TICKET) {
		put_back_ticket(local, undo->ticket);
	} else if (undo->kind == UNDO_ENTITY) {
		newest_remove(local->newest, &undo->entity.digest);
		if (undo->entity.ticket)
			r = newest_put(local->newest, &undo->entity);
	} else {
		table_remove(local->table, &undo->claim.digest);
		r = table_put(local->table, &undo->claim, now_of(local));
	}
	CHECK(r == 0);
}

static void undo_to(struct local_store *local, uint32_t count)
{
	while (local->undo.count > count)
		put_back(local, &local->undo.items[--local->undo.count]);
}

void local_undo_replaced(struct local_store *local)
{
	undo_to(local, 0);
}

/* Removes those that this ticket, and no other, has. */
static void remove_claims(struct local_store *local, const struct claim *claims, uint32_t which,
                          uint64_t ticket)
{
	struct table_hit hit;

	for (uint32_t left = which; left; left &= left - 1) {
		const struct claim *claim = &claims[__builtin_ctz(left)];
		if (claim->kind == CLAIM_NEWEST ||
		    !table_find(local->table, &claim->digest, 0, &hit) || hit.ticket != ticket)
			continue;
		table_remove(local->table, &claim->digest);
		local->live_claims--;
	}
}

static void drop_tickets(struct local_store *local, const struct store_admit *admit)
{
	for (uint32_t i = 0; i < store_leg_count(admit); i++)
		open_tickets_drop(local->tickets, admit->own_ticket + i);
	leases_set(&local->leases, admit->own_ticket, 0);
}

static void undo_kept(struct local_store *local, struct store_admit *admit)
{
	if (admit->verdict == VERDICT_CONFLICT && admit->on_conflict == STORE_CONFLICT_ASIDE) {
		struct claim aside = store_aside_claim(&admit->claims[admit->matched]);
		remove_claims(local, &aside, 1, admit->own_ticket);
	} else {
		remove_claims(local, admit->claims, (1u << admit->claim_count) - 1,
		              admit->own_ticket);
	}
	if (!admit->no_ticket)
		drop_tickets(local, admit);
}

void local_undo_admit(struct local_store *local, struct store_admit *admit, int error)
{
	if (admit->own_ticket > local->durable_ticket)
		undo_kept(local, admit);
	else if (admit->ticket > local->durable_ticket)
		tally_remove(local->tally, admit->ticket);
	else
		return;
	admit->verdict = admit->would = VERDICT_NONE;
	admit->own_ticket = 0;
	admit->op.error = error;
}

/* --- keeping an event ---------------------------------------------------- */

/* Is it leased from the beginning? */
static bool starts(const struct store_admit *admit, const struct taking *taking)
{
	return unlikely(admit->lease_ms != 0) && !(taking->flags & EVENT_HELD);
}

static int insert_ticket(struct local_store *local, const struct store_admit *admit,
                         const struct taking *taking)
{
	struct open_ticket open = {
		.ticket = admit->own_ticket,
		.segment = (uint32_t)local->journal.durable.segment,
		.offset = journal_next_offset(&local->journal),
		.length = taking->size,
		.state = taking->flags & EVENT_HELD ? OPEN_TICKET_HELD : OPEN_TICKET_DUE,
	};

	uint32_t count = store_leg_count(admit);
	int r = unlikely(admit->beyond_limit) ? open_tickets_reserve_beyond(local->tickets, count)
	                                      : open_tickets_reserve(local->tickets, count);

	for (uint32_t i = 0; i < count && r == 0; i++) {
		if (unlikely(admit->leg_count)) {
			open.ticket = admit->own_ticket + i;
			open.order = admit->legs[i].order;
			open.sink = admit->legs[i].sink;
			open.leg = (uint8_t)i;
		}
		r = open_tickets_insert(local->tickets, &open);
	}
	if (r < 0)
		drop_tickets(local, admit);
	return r;
}

static uint32_t longest_window_s(const struct frame_claims *claims)
{
	uint32_t longest = 0;

	for (uint32_t left = claims->once; left; left &= left - 1) {
		uint32_t window_s = claims->claims[__builtin_ctz(left)].window_s;
		if (window_s > longest)
			longest = window_s;
	}
	return longest;
}

/* What changes hands is not forgotten before its time. */
static void lengthen(struct local_store *local, struct taking *taking, uint32_t count,
                     uint64_t ticket)
{
	uint64_t now_ms = ticket_time_ms(ticket);

	for (uint32_t i = 0; i < count; i++) {
		struct claim *claim = &taking->longer[i];
		struct newest_record entity;
		struct table_hit hit;
		uint64_t expiry_ms = 0;
		*claim = taking->claims.claims[i];
		if (taking->moved & 1u << i && table_find(local->table, &claim->digest, 0, &hit))
			expiry_ms = hit.expiry_ms;
		else if (taking->claims.newest & 1u << i &&
		         newest_find(local->newest, &claim->digest, 0, &entity))
			expiry_ms = newest_expiry_ms(&entity);
		claim->window_s = store_window_s(claim->window_s, expiry_ms, now_ms);
	}
	taking->claims.claims = taking->longer;
}

static void note_moved(struct local_store *local, const struct digest *digest)
{
	struct table_hit hit;

	bool found = table_find(local->table, digest, 0, &hit);
	CHECK(found && local->undo.count < local->undo.room);
	local->undo.items[local->undo.count++] = (struct undo){
		.kind = UNDO_CLAIM,
		.claim = { .digest = digest_with_check(*digest, hit.check),
		           .ticket = hit.ticket,
		           .window_s = hit.window_s,
		           .flags = hit.flags },
	};
}

static int put_claims(struct local_store *local, const struct taking *taking, uint64_t ticket)
{
	uint32_t longest_s = longest_window_s(&taking->claims);

	for (uint32_t left = taking->claims.once; left; left &= left - 1) {
		const struct claim *claim = &taking->claims.claims[__builtin_ctz(left)];
		struct table_record record = { .digest = claim->digest,
			                       .ticket = ticket,
			                       .window_s = claim->window_s,
			                       .flags = window_flags(longest_s, claim->window_s) };
		bool moves = taking->moved & left & -left;
		if (unlikely(moves))
			note_moved(local, &claim->digest);
		int r = taking->probes ? table_put_probe(local->table,
		                                         &taking->probes[__builtin_ctz(left)],
		                                         &record, now_of(local))
		                       : table_put(local->table, &record, now_of(local));
		if (r < 0)
			return r;
		local->live_claims += !moves;
	}
	return 0;
}

static int put_entities(struct local_store *local, const struct taking *taking, uint64_t ticket)
{
	for (uint32_t left = taking->claims.newest; left; left &= left - 1) {
		const struct claim *claim = &taking->claims.claims[__builtin_ctz(left)];
		struct undo undo = { .kind = UNDO_ENTITY };
		if (!newest_find(local->newest, &claim->digest, 0, &undo.entity))
			undo.entity = (struct newest_record){ .digest = claim->digest };
		CHECK(local->undo.count < local->undo.room);
		int r = newest_put(local->newest,
		                   &(struct newest_record){ .digest = claim->digest,
		                                            .order = claim->order,
		                                            .ticket = ticket,
		                                            .window_s = claim->window_s });
		if (r < 0)
			return r;
		local->undo.items[local->undo.count++] = undo;
	}
	return 0;
}

/* In memory. Nothing is left of it if it fails. */
static int put_all(struct local_store *local, const struct store_admit *admit,
                   struct taking *taking)
{
	uint32_t before = local->undo.count;
	int r = 0;

	if (starts(admit, taking))
		r = leases_reserve(&local->leases);
	if (r == 0 && unlikely(taking->moved | taking->claims.newest)) {
		r = local_undo_reserve(&local->undo, CLAIMS_MAX);
		lengthen(local, taking, admit->claim_count, admit->own_ticket);
	}
	if (r == 0 && !admit->no_ticket)
		r = insert_ticket(local, admit, taking);
	if (r < 0)
		return r;
	r = put_claims(local, taking, admit->own_ticket);
	if (r == 0 && unlikely(taking->claims.newest))
		r = put_entities(local, taking, admit->own_ticket);
	if (r < 0) {
		undo_to(local, before);
		remove_claims(local, taking->claims.claims, taking->claims.once, admit->own_ticket);
		if (!admit->no_ticket)
			drop_tickets(local, admit);
	}
	return r;
}

static void note_claims(struct local_store *local, const struct taking *taking, uint64_t ticket)
{
	uint32_t longest_s = longest_window_s(&taking->claims);

	for (uint32_t left = taking->claims.once; left; left &= left - 1) {
		const struct claim *claim = &taking->claims.claims[__builtin_ctz(left)];
		struct claims_record record = { .digest = claim->digest,
			                        .ticket = ticket,
			                        .window_s = claim->window_s,
			                        .kind = CLAIMS_RECORD_CLAIM,
			                        .flags = (uint16_t)window_flags(longest_s,
			                                                        claim->window_s) };
		journal_note_claim(&local->journal, &record,
		                   window_end_ms(ticket, claim->window_s));
	}
}

static void append_entities(struct local_store *local, const struct taking *taking, uint64_t ticket)
{
	for (uint32_t left = taking->claims.newest; left; left &= left - 1) {
		const struct claim *claim = &taking->claims.claims[__builtin_ctz(left)];
		struct entry_newest entry = { .size = sizeof(entry),
			                      .kind = ENTRY_NEWEST,
			                      .ticket = ticket,
			                      .digest = digest_with_check(claim->digest, 0),
			                      .order = claim->order,
			                      .window_s = claim->window_s };
		frame_add_newest(&local->journal.frame, &entry);
		journal_note_newest(&local->journal, &entry);
	}
}

static uint32_t entries_size(const struct store_admit *admit, const struct taking *taking)
{
	uint32_t size = taking->size;

	if (starts(admit, taking))
		size = (uint32_t)format_align(size, 8) + LOCAL_START_SIZE;
	for (uint32_t left = taking->claims.newest; left; left &= left - 1)
		size = (uint32_t)format_align(size, 8) + (uint32_t)sizeof(struct entry_newest);
	return size;
}

/* The event gets a ticket and what it takes. 0, DECIDE_AGAIN or an error. */
static int keep(struct local_store *local, struct store_admit *admit, struct taking *taking)
{
	uint64_t lost = local->frames_lost;

	taking->size = frame_event_size(admit, taking->claims.once_count);
	int r = local_reserve(local, entries_size(admit, taking), JOURNAL_NORMAL);

	local->full = r == ERR_FULL;
	local->refused |= local->full;
	if (unlikely(local->frames_lost != lost))
		return DECIDE_AGAIN;
	if (r < 0)
		return r;
	admit->own_ticket = ticket_next(local->last_ticket, now_of(local));
	if (put_all(local, admit, taking) < 0) {
		admit->own_ticket = 0;
		return ERR_FULL;
	}
	frame_add_event(&local->journal.frame, admit, &taking->claims, admit->own_ticket,
	                taking->flags);
	note_claims(local, taking, admit->own_ticket);
	if (unlikely(taking->claims.newest))
		append_entities(local, taking, admit->own_ticket);
	if (starts(admit, taking))
		local_start(local, admit->own_ticket, admit->lease_ms);
	uint32_t tickets = store_leg_count(admit);
	local->journal.item.max_ticket = local->last_ticket = admit->own_ticket + tickets - 1;
	local->journal.item.events += admit->no_ticket ? 0 : tickets;
	local->batch->events++;
	return 0;
}

/* --- deciding ------------------------------------------------------------ */

/* What this claim alone says of the event. */
static enum verdict judge_entity(const struct local_store *local, const struct claim *claim,
                                 struct met *met)
{
	if (!newest_find(local->newest, &claim->digest, now_of(local), &met->entity))
		return VERDICT_NEW;
	met->ticket = met->entity.ticket;
	if (claim->order > met->entity.order)
		return VERDICT_NEW;
	return claim->order == met->entity.order && !claim->equal_drops ? VERDICT_NEW
	                                                                : VERDICT_STALE;
}

static enum verdict judge_taken(const struct local_store *local, const struct store_admit *admit,
                                const struct claim *claim, struct met *met)
{
	met->ticket = met->claim.ticket;
	if (store_conflicts(claim, met->claim.check))
		return VERDICT_CONFLICT;
	/* An outcome that is not on disk yet is none. */
	if (admit->busy_if_open && local_legs(local, met->ticket).pending)
		return VERDICT_BUSY;
	return VERDICT_DUPLICATE;
}

static void answer(struct local_store *local, struct store_admit *admit, enum verdict verdict,
                   uint32_t matched, const struct met *met)
{
	uint32_t count = 1;

	admit->verdict = verdict;
	admit->matched = matched;
	admit->ticket = met->ticket;
	admit->first_seen_ms = ticket_time_ms(met->ticket);
	if (verdict == VERDICT_STALE)
		admit->order = met->entity.order;
	if (verdict != VERDICT_DUPLICATE && verdict != VERDICT_BUSY)
		return;
	/* A count that could not be kept changes no verdict. */
	if (tally_add(local->tally, met->ticket, now_of(local), tally_expiry_ms(&met->claim),
	              &count) < 0)
		count = 1;
	admit->seen = count;
}

/* The first time it is kept, then it is a duplicate of that. */
static int answer_conflict(struct local_store *local, struct store_admit *admit, uint32_t matched,
                           const struct met *original)
{
	struct claim aside = store_aside_claim(&admit->claims[matched]);
	struct taking taking = { .claims = { .claims = &aside, .once = 1, .once_count = 1 },
		                 .flags = EVENT_HELD };
	struct met met;

	if (admit->on_conflict == STORE_CONFLICT_ASIDE && !admit->no_ticket) {
		if (table_find(local->table, &aside.digest, now_of(local), &met.claim)) {
			enum verdict verdict = judge_taken(local, admit, &aside, &met);
			answer(local, admit, verdict, matched, &met);
			return 0;
		}
		int r = keep(local, admit, &taking);
		if (r != 0)
			return r;
	}
	answer(local, admit, VERDICT_CONFLICT, matched, original);
	return 0;
}

static void answer_clear(struct store_admit *admit)
{
	admit->verdict = admit->would = VERDICT_NONE;
	admit->matched = admit->would_matched = 0;
	admit->ticket = admit->own_ticket = admit->would_ticket = 0;
	admit->first_seen_ms = admit->seen = admit->order = 0;
}

/* Claim `matched` met somebody. True if it drops the event; its answer is then
 * given, or DECIDE_AGAIN or an error. */
static bool drops(struct local_store *local, struct store_admit *admit, uint32_t matched,
                  enum verdict verdict, const struct met *met, struct taking *taking, int *ret_r)
{
	if (admit->claims[matched].shadow) {
		if (admit->would == VERDICT_NONE) {
			admit->would = verdict;
			admit->would_matched = matched;
			admit->would_ticket = met->ticket;
		}
		return false;
	}
	if (verdict == VERDICT_CONFLICT && admit->on_conflict == STORE_CONFLICT_PASS) {
		if (admit->verdict == VERDICT_NONE)
			answer(local, admit, verdict, matched, met);
		taking->claims.once |= 1u << matched;
		taking->claims.once_count++;
		taking->moved |= 1u << matched;
		return false;
	}
	answer_clear(admit); /* of what shadows and passed conflicts said */
	*ret_r = 0;
	if (verdict == VERDICT_CONFLICT)
		*ret_r = answer_conflict(local, admit, matched, met);
	else
		answer(local, admit, verdict, matched, met);
	return true;
}

static int decide(struct local_store *local, struct store_admit *admit, struct table_probe *probes)
{
	struct taking taking;
	struct met met;
	int r = 0;

	taking.claims = (struct frame_claims){ .claims = admit->claims };
	taking.moved = 0;
	taking.flags = 0;
	taking.probes = probes;
	answer_clear(admit);
	for (uint32_t i = 0; i < admit->claim_count; i++) {
		const struct claim *claim = &admit->claims[i];
		enum verdict verdict = VERDICT_NEW;
		if (unlikely(claim->kind == CLAIM_NEWEST))
			verdict = judge_entity(local, claim, &met);
		else if (table_find_probe(local->table, &probes[i], now_of(local), &met.claim))
			verdict = judge_taken(local, admit, claim, &met);
		if (verdict != VERDICT_NEW) {
			if (drops(local, admit, i, verdict, &met, &taking, &r))
				return r;
		} else if (unlikely(claim->kind == CLAIM_NEWEST)) {
			taking.claims.newest |= 1u << i;
		} else {
			taking.claims.once |= 1u << i;
			taking.claims.once_count++;
		}
	}
	r = keep(local, admit, &taking);
	if (r == 0 && admit->verdict == VERDICT_NONE) {
		admit->verdict = VERDICT_NEW;
		admit->ticket = admit->own_ticket;
		admit->first_seen_ms = ticket_time_ms(admit->ticket);
	}
	return r;
}

void local_decide_admit(struct local_store *local, struct store_admit *admit,
                        struct table_probe *probes)
{
	int r = store_admit_check(admit);

	if (r == 0)
		r = decide(local, admit, probes);
	else
		answer_clear(admit);
	/* There is no second frame to lose: the room for this one is found anew. */
	if (unlikely(r == DECIDE_AGAIN))
		r = decide(local, admit, probes);
	CHECK(r <= 0);
	admit->decided_ms = now_of(local);
	admit->op.error = r;
}
