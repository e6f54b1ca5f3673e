/*
 * admit: admissions in the local store.
 *
 * store/decide.h decides; this file looks claims up in the index and keeps events.
 *
 * Threads: the owner's.
 */
#include "base/error.h"
#include "gate/ticket.h"
#include "store/decide.h"
#include "store/local/local_internal.h"

/* A frame was lost while room for this event was made: decide again. */
#define DECIDE_AGAIN 1

/* What the event takes. */
struct taking {
	struct frame_claims claims;
	uint32_t moved;                  /* of claims.once: taken away from another ticket */
	uint8_t flags;                   /* EVENT_HELD */
	uint32_t size;                   /* of its EVENT entry */
	struct table_probe *probes;      /* of the event's claims; NULL: there are none */
	struct claim longer[CLAIMS_MAX]; /* used instead of the event's, if any moves */
};

/* Removes the claims that this ticket has; others stay. */
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

void local_drop_event(struct local_store *local, const struct store_admit *admit)
{
	CHECK(admit->own_ticket > local->durable_ticket);
	if (admit->verdict == VERDICT_CONFLICT && admit->on_conflict == STORE_CONFLICT_ASIDE) {
		struct claim aside = store_aside_claim(&admit->claims[admit->matched]);
		remove_claims(local, &aside, 1, admit->own_ticket);
	} else {
		remove_claims(local, admit->claims, (1u << admit->claim_count) - 1,
		              admit->own_ticket);
	}
	if (!admit->no_ticket)
		drop_tickets(local, admit);
	tally_remove(local->tally, admit->own_ticket);
}

/* --- keeping an event ---------------------------------------------------- */

/* Is the event leased to its sender at once? */
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

/* A claim that moves is remembered at least as long as before. */
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
		if (unlikely(moves)) {
			struct table_hit hit;
			bool found = table_find(local->table, &claim->digest, 0, &hit);
			CHECK(found);
			local_undo_push(local, UNDO_CLAIM)->claim = (struct table_record){
				.digest = digest_with_check(claim->digest, hit.check),
				.ticket = hit.ticket,
				.window_s = hit.window_s,
				.flags = hit.flags
			};
		}
		int r = taking->probes ? table_put_probe(local->table,
		                                         &taking->probes[__builtin_ctz(left)],
		                                         &record, local_now_ms(local))
		                       : table_put(local->table, &record, local_now_ms(local));
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
		struct newest_record before;
		if (!newest_find(local->newest, &claim->digest, 0, &before))
			before = (struct newest_record){ .digest = claim->digest };
		int r = newest_put(local->newest,
		                   &(struct newest_record){ .digest = claim->digest,
		                                            .order = claim->order,
		                                            .ticket = ticket,
		                                            .window_s = claim->window_s });
		if (r < 0)
			return r;
		local_undo_push(local, UNDO_ENTITY)->entity = before;
	}
	return 0;
}

/* Puts the event into the index. On failure nothing of it is left. */
static int put_all(struct local_store *local, const struct store_admit *admit,
                   struct taking *taking)
{
	uint32_t before = local->undo.count;
	int r = local_undo_reserve(local, 1 + CLAIMS_MAX);

	if (r == 0 && starts(admit, taking))
		r = leases_reserve(&local->leases, admit->own_ticket);
	if (r == 0 && unlikely(taking->moved | taking->claims.newest))
		lengthen(local, taking, admit->claim_count, admit->own_ticket);
	if (r == 0 && !admit->no_ticket)
		r = insert_ticket(local, admit, taking);
	if (r < 0)
		return r;
	local_undo_push(local, UNDO_EVENT)->event = admit;
	r = put_claims(local, taking, admit->own_ticket);
	if (r == 0 && unlikely(taking->claims.newest))
		r = put_entities(local, taking, admit->own_ticket);
	if (r < 0) {
		local_undo_to(local, before);
		/* Also the claim of an event that is kept aside: its verdict is not set yet. */
		remove_claims(local, taking->claims.claims, taking->claims.once, admit->own_ticket);
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

/* Gives the event a ticket and what it takes: 0, DECIDE_AGAIN or an error. */
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
	admit->own_ticket = ticket_next(local->last_ticket, local_now_ms(local));
	CHECK(admit->own_ticket > local->last_ticket);
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
	local->batch.events++;
	return 0;
}

/* --- deciding ------------------------------------------------------------ */

/* An admission on its way through store/decide.h. */
struct admission {
	struct local_store *local;
	struct store_admit *admit;
	struct table_probe *probes; /* of its claims */
};

static bool find(void *user, const struct claim *claim, uint32_t index, bool aside,
                 struct decide_hit *ret_hit)
{
	const struct admission *admission = user;
	struct local_store *local = admission->local;
	struct newest_record entity;
	struct table_hit hit;

	if (unlikely(claim->kind == CLAIM_NEWEST)) {
		if (!newest_find(local->newest, &claim->digest, local_now_ms(local), &entity))
			return false;
		*ret_hit = (struct decide_hit){ .ticket = entity.ticket, .order = entity.order };
		return true;
	}
	bool found = unlikely(aside)
	                     ? table_find(local->table, &claim->digest, local_now_ms(local), &hit)
	                     : table_find_probe(local->table, &admission->probes[index],
	                                        local_now_ms(local), &hit);
	if (!found)
		return false;
	*ret_hit = (struct decide_hit){ .ticket = hit.ticket,
		                        .expiry_ms = tally_expiry_ms(&hit),
		                        .check = hit.check };
	return true;
}

/* A settled ticket counts as open until its outcome is durable. */
static bool is_open(void *user, uint64_t ticket)
{
	const struct admission *admission = user;

	return local_legs(admission->local, ticket).pending;
}

/* A count that could not be kept changes no verdict. */
static uint64_t count_repeat(void *user, const struct decide_hit *hit)
{
	const struct admission *admission = user;
	struct local_store *local = admission->local;
	uint32_t count = 1;

	if (tally_add(local->tally, hit->ticket, local_now_ms(local), hit->expiry_ms, &count) < 0)
		count = 1;
	return count;
}

static int keep_decided(void *user, const struct decide_kept *kept)
{
	const struct admission *admission = user;
	struct taking taking;

	taking.claims = (struct frame_claims){ .claims = kept->claims,
		                               .once = kept->once,
		                               .once_count = kept->once_count,
		                               .newest = kept->newest };
	taking.moved = kept->moved;
	taking.flags = kept->held ? EVENT_HELD : 0;
	taking.probes = kept->held ? NULL : admission->probes;
	return keep(admission->local, admission->admit, &taking);
}

void local_decide_admit(struct local_store *local, struct store_admit *admit,
                        struct table_probe *probes)
{
	static const struct decide_hooks hooks = { find, is_open, count_repeat, keep_decided };
	struct admission admission = { local, admit, probes };

	CHECK(local->flushing && local->durable_ticket <= local->last_ticket);
	int r = decide_admit(admit, local_now_ms(local), &hooks, &admission);
	/* There is no second frame to lose: the room for this one is found anew. */
	if (unlikely(r == DECIDE_AGAIN))
		r = decide_admit(admit, local_now_ms(local), &hooks, &admission);
	CHECK(r <= 0);
	admit->op.error = r;
}
