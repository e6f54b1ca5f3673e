/* decide: see decide.h. */
#include "store/decide.h"

#include "gate/ticket.h"

static void clear_answer(struct store_admit *admit)
{
	admit->verdict = admit->would = VERDICT_NONE;
	admit->matched = admit->would_matched = 0;
	admit->ticket = admit->own_ticket = admit->would_ticket = 0;
	admit->first_seen_ms = admit->seen = admit->order = 0;
}

/* What this claim alone says of the event. VERDICT_NEW: it is free. */
static enum verdict judge(const struct store_admit *admit, const struct claim *claim,
                          const struct decide_hit *hit, const struct decide_hooks *hooks,
                          void *user)
{
	if (claim->kind == CLAIM_NEWEST) {
		bool stale = claim->order < hit->order ||
		             (claim->order == hit->order && claim->equal_drops);
		return stale ? VERDICT_STALE : VERDICT_NEW;
	}
	if (store_conflicts(claim, hit->check))
		return VERDICT_CONFLICT;
	if (admit->busy_if_open && hooks->is_open(user, hit->ticket))
		return VERDICT_BUSY;
	return VERDICT_DUPLICATE;
}

static void answer(struct store_admit *admit, enum verdict verdict, uint32_t matched,
                   const struct decide_hit *hit, const struct decide_hooks *hooks, void *user)
{
	admit->verdict = verdict;
	admit->matched = matched;
	admit->ticket = hit->ticket;
	admit->first_seen_ms = ticket_time_ms(hit->ticket);
	if (verdict == VERDICT_STALE)
		admit->order = hit->order;
	if (verdict == VERDICT_DUPLICATE || verdict == VERDICT_BUSY)
		admit->seen = hooks->count(user, hit);
}

/* The event is dropped by a conflict. The first time it may be kept aside; when it comes
 * again it is a duplicate of that. */
static int decide_conflict(struct store_admit *admit, uint32_t matched,
                           const struct decide_hit *original, const struct decide_hooks *hooks,
                           void *user)
{
	if (admit->on_conflict == STORE_CONFLICT_ASIDE && !admit->no_ticket) {
		struct claim aside = store_aside_claim(&admit->claims[matched]);
		struct decide_hit hit;
		if (hooks->find(user, &aside, matched, true, &hit)) {
			enum verdict verdict = judge(admit, &aside, &hit, hooks, user);
			answer(admit, verdict, matched, &hit, hooks, user);
			return 0;
		}
		int r = hooks->keep(user, &(struct decide_kept){ .claims = &aside,
		                                                 .once = 1,
		                                                 .once_count = 1,
		                                                 .held = true });
		if (r != 0)
			return r;
	}
	answer(admit, VERDICT_CONFLICT, matched, original, hooks, user);
	return 0;
}

int decide_admit(struct store_admit *admit, uint64_t now_ms, const struct decide_hooks *hooks,
                 void *user)
{
	struct decide_kept kept = { .claims = admit->claims };
	struct decide_hit hit;

	CHECK(admit->op.kind == STORE_ADMIT);
	clear_answer(admit);
	admit->decided_ms = now_ms;
	int r = store_admit_check(admit);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < admit->claim_count; i++) {
		const struct claim *claim = &admit->claims[i];
		enum verdict verdict = VERDICT_NEW;
		if (hooks->find(user, claim, i, false, &hit))
			verdict = judge(admit, claim, &hit, hooks, user);
		if (verdict != VERDICT_NEW && claim->shadow) {
			if (admit->would == VERDICT_NONE) {
				admit->would = verdict;
				admit->would_matched = i;
				admit->would_ticket = hit.ticket;
			}
			continue;
		}
		if (verdict == VERDICT_CONFLICT && admit->on_conflict == STORE_CONFLICT_PASS) {
			if (admit->verdict == VERDICT_NONE)
				answer(admit, verdict, i, &hit, hooks, user);
			kept.moved |= 1u << i;
		} else if (verdict != VERDICT_NEW) {
			clear_answer(admit); /* of what shadows and passed conflicts said */
			if (verdict == VERDICT_CONFLICT)
				return decide_conflict(admit, i, &hit, hooks, user);
			answer(admit, verdict, i, &hit, hooks, user);
			return 0;
		}
		if (claim->kind == CLAIM_NEWEST) {
			kept.newest |= 1u << i;
		} else {
			kept.once |= 1u << i;
			kept.once_count++;
		}
	}
	CHECK((kept.moved & ~kept.once) == 0);
	r = hooks->keep(user, &kept);
	if (r != 0)
		return r;
	if (admit->verdict == VERDICT_NONE) {
		admit->verdict = VERDICT_NEW;
		admit->ticket = admit->own_ticket;
		admit->first_seen_ms = ticket_time_ms(admit->ticket);
	}
	return 0;
}

void decide_new(struct store_admit *admit, uint64_t now_ms, uint64_t ticket)
{
	CHECK(admit->op.kind == STORE_ADMIT);
	clear_answer(admit);
	admit->decided_ms = now_ms;
	admit->verdict = VERDICT_NEW;
	admit->ticket = admit->own_ticket = ticket;
	admit->first_seen_ms = ticket_time_ms(ticket);
}
