/* model_make: see model_world.h. */
#include "model_world.h"

static const uint32_t windows_s[] = { 1, 5, 60, 511, 600, 1001, 3600, 86400, 345600, 3000001 };

static struct digest digest_of(uint64_t index)
{
	uint64_t random = index + 77;
	uint64_t first = test_random(&random);

	return (struct digest){ { first, test_random(&random) } };
}

/* The claims of one event are different rules, so never the same digest. */
static void claim_make(struct world *world, struct claim *claim, uint64_t index)
{
	uint64_t kind = below(world, 8);

	*claim = (struct claim){ .shadow = below(world, 8) == 0 };
	if (kind == 0) {
		claim->kind = CLAIM_NEWEST;
		claim->digest = digest_of(DIGESTS + index % ENTITIES);
		claim->order = below(world, ORDERS);
		claim->equal_drops = below(world, 2);
		return;
	}
	claim->kind = kind == 1 ? CLAIM_CONTENT : CLAIM_ONCE;
	/* Mostly the same content, or that would be all; sometimes unknown. */
	uint32_t check = below(world, 6) ? 1 : (uint32_t)below(world, CHECKS);
	claim->digest = digest_with_check(digest_of(index), check);
}

static void claims_make(struct world *world, struct store_admit *admit)
{
	uint64_t first = below(world, DIGESTS);
	uint32_t window_s = windows_s[below(world, ARRAY_LEN(windows_s))];

	for (uint32_t i = 0; i < admit->claim_count; i++) {
		if (world->mixed_windows)
			window_s = windows_s[below(world, ARRAY_LEN(windows_s))];
		claim_make(world, &admit->claims[i], (first + i * 7) % DIGESTS);
		admit->claims[i].window_s = window_s;
	}
	admit->on_conflict = (enum store_conflict)below(world, 3);
	admit->busy_if_open = below(world, 4) == 0;
}

static struct span slice(struct world *world, uint64_t len)
{
	return span_of(world->bytes + below(world, PAYLOAD_MAX - len), len);
}

static void legs_make(struct world *world, struct pair *pair)
{
	struct store_admit *admit = &pair->on[0].admit;
	uint64_t dice = below(world, 4);

	if (admit->no_ticket || dice == 0)
		return;
	if (dice == 1) {
		pair->legs[0] = (struct store_leg){ .sink = CALLER, .order = world->step };
		admit->legs = pair->legs;
		admit->leg_count = 1;
		admit->lease_ms = below(world, 4) ? 1 + (uint32_t)below(world, 100000) : 0;
		return;
	}
	admit->leg_count = 1 + (uint32_t)below(world, below(world, 10) ? 3 : STORE_LEGS_MAX);
	for (uint32_t i = 0; i < admit->leg_count; i++)
		pair->legs[i] = (struct store_leg){ .sink = sink_choose(world),
			                            .order = test_random(&world->random) };
	admit->legs = pair->legs;
	if (below(world, 2))
		admit->metadata = slice(world, below(world, 200));
}

static void admit_make(struct world *world, struct store_admit *admit)
{
	uint64_t len = below(world, 20) == 0 ? below(world, PAYLOAD_MAX) : below(world, 300);

	*admit = (struct store_admit){
		.claim_count = 1 + (uint32_t)(below(world, 3) ? 0 : below(world, CLAIMS_MAX)),
		.no_ticket = below(world, 5) == 0,
		.flags = (uint16_t)below(world, 65536),
		.source = span_of(world->bytes, below(world, STORE_SOURCE_MAX + 1)),
		.payload = slice(world, len),
	};
	claims_make(world, admit);
	if (below(world, 40) == 0) { /* a replay that its sender asked for */
		admit->claim_count = 0;
		admit->no_ticket = false;
	}
}

/* Between its decision and its commit an outcome, or a release, may be seen or not. */
static bool settled_in_batch(const struct world *world, uint64_t ticket)
{
	for (size_t i = 0; i < world->pair_count; i++) {
		const struct pair *pair = &world->pairs[i];
		if (pair->kind == STORE_SETTLE && pair->on[0].settle.ticket / 2 == ticket / 2)
			return true;
		if (pair->kind == STORE_RELEASE && pair->on[0].release.ticket == ticket)
			return true;
	}
	return false;
}

/* The same of a release. */
static bool released_in_batch(const struct world *world, uint64_t ticket)
{
	for (size_t i = 0; i < world->pair_count; i++)
		if (world->pairs[i].kind == STORE_RELEASE &&
		    world->pairs[i].on[0].release.ticket == ticket)
			return true;
	return false;
}

uint64_t ticket_choose(struct world *world)
{
	uint64_t dice = below(world, 8);

	if (dice < 3 && world->lease_count)
		return world->leases[below(world, world->lease_count)].ticket;
	if (dice < 6 && world->aside_count)
		return world->aside[below(world, world->aside_count)];
	return world->last_event - below(world, 100);
}

static void release_make(struct world *world, struct store_release *release)
{
	*release = (struct store_release){ .drop = below(world, 2), .ticket = below(world, 1000) };
	if (below(world, 8) == 0 && world->lease_count)
		release->ticket = world->leases[0].ticket;
	else if (world->aside_count)
		release->ticket = world->aside[below(world, world->aside_count)];
	if (below(world, 4) == 0) { /* also what nobody has taken */
		release->states = STORE_STATES_ASIDE | 1u << STORE_STATE_DUE;
		release->ticket = ticket_choose(world);
	}
	if (settled_in_batch(world, release->ticket))
		release->ticket = 1;
}

static void lookup_make(struct world *world, struct store_lookup *lookup)
{
	bool newest = below(world, 4) == 0;

	*lookup = (struct store_lookup){ .kind = newest ? CLAIM_NEWEST : CLAIM_ONCE };
	lookup->digest = digest_of(newest ? DIGESTS + below(world, ENTITIES)
	                                  : below(world, DIGESTS));
}

/* One that has been taken, mostly, with its attempt, mostly; or NULL. */
static struct lease *lease_choose(struct world *world, uint64_t *ret_ticket, uint32_t *ret_attempt)
{
	*ret_ticket = below(world, 1000);
	*ret_attempt = 1;
	if (world->lease_count == 0)
		return NULL;
	struct lease *lease = &world->leases[below(world, world->lease_count)];
	*ret_ticket = lease->ticket;
	*ret_attempt = lease->attempt;
	if (below(world, 12))
		return lease;
	*ret_attempt += (uint32_t)below(world, 3) - 1; /* a late or a wild one */
	return NULL;
}

static uint64_t due_make(struct world *world)
{
	return below(world, 2) ? 0 : test_random(&world->random) >> 20;
}

static void settle_make(struct world *world, struct store_settle *settle)
{
	static const enum outcome outcomes[] = { OUTCOME_DONE,    OUTCOME_DONE,    OUTCOME_DONE,
		                                 OUTCOME_DEAD,    OUTCOME_UNKNOWN, OUTCOME_RELEASED,
		                                 OUTCOME_RELEASED };

	*settle = (struct store_settle){ .outcome = outcomes[below(world, ARRAY_LEN(outcomes))],
		                         .forget = below(world, 2),
		                         .status = (uint16_t)below(world, 600),
		                         .due_ms = due_make(world),
		                         .text = slice(world, below(world, STORE_TEXT_MAX + 20)) };
	struct lease *lease = lease_choose(world, &settle->ticket, &settle->attempt);
	if (lease && below(world, 8)) /* else it is tried again later */
		*lease = world->leases[--world->lease_count];
}

static bool is_caller(const struct world *world, uint64_t ticket)
{
	for (size_t i = 0; i < world->caller_count; i++)
		if (world->callers[i] == ticket)
			return true;
	return false;
}

static void note_make(struct world *world, struct store_note *note)
{
	*note = (struct store_note){
		.mark = (enum store_mark)(STORE_MARK_STARTED + below(world, 3)),
		.status = (uint16_t)below(world, 600),
		.due_ms = due_make(world),
		.text = slice(world, below(world, STORE_TEXT_MAX + 20)),
	};
	struct lease *lease = lease_choose(world, &note->ticket, &note->attempt);
	/* The number after a failed attempt may be used up by the end of its lease, which is
	 * not known after a restart. */
	if (is_caller(world, note->ticket))
		note->mark = STORE_MARK_STARTED;
	if (lease && note->mark != STORE_MARK_STARTED)
		lease->attempt++;
}

static void renew_make(struct world *world, struct store_renew *renew)
{
	*renew = (struct store_renew){ 0 };
	struct lease *lease = lease_choose(world, &renew->ticket, &renew->attempt);
	if (lease && lease->ends)
		renew->lease_ms = (uint32_t)below(world, 100000);
}

static void take_make(struct world *world, struct store_take *take)
{
	uint64_t ticket = below(world, 4) && world->caller_count
	                          ? world->callers[below(world, world->caller_count)]
	                          : ticket_choose(world);

	if (ticket == 0 || settled_in_batch(world, ticket) || released_in_batch(world, ticket))
		ticket = 1;
	*take = (struct store_take){ .ticket = ticket,
		                     .sink = CALLER,
		                     .lease_ms = (uint32_t)below(world, 20000),
		                     .without_payload = below(world, 2) };
}

void pair_make(struct world *world, struct pair *pair)
{
	uint64_t dice = below(world, 39);

	if (world->mostly_cells && below(world, 8))
		dice = 33;

	pair->done[0] = pair->done[1] = false;
	if (dice < 12) {
		pair->kind = STORE_ADMIT;
		admit_make(world, &pair->on[0].admit);
		legs_make(world, pair);
	} else if (dice < 13) {
		pair->kind = STORE_RELEASE;
		release_make(world, &pair->on[0].release);
	} else if (dice < 18) {
		pair->kind = STORE_SETTLE;
		settle_make(world, &pair->on[0].settle);
		if (below(world, 3) == 0) {
			cell_value_make(world, &pair->answer);
			pair->on[0].settle.answer = &pair->answer;
		}
	} else if (dice < 23) {
		pair->kind = STORE_NOTE;
		note_make(world, &pair->on[0].note);
	} else if (dice < 24) {
		pair->kind = STORE_RENEW;
		renew_make(world, &pair->on[0].renew);
	} else if (dice < 34) {
		pair->kind = STORE_CELL;
		cell_make(world, &pair->on[0].cell);
	} else if (dice < 37) {
		pair->kind = STORE_TAKE;
		take_make(world, &pair->on[0].take);
	} else {
		pair->kind = STORE_LOOKUP;
		lookup_make(world, &pair->on[0].lookup);
	}
	pair->on[1] = pair->on[0];
}
