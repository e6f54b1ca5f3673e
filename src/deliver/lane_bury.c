/*
 * lane_bury: a dead letter goes to the sink for dead letters, before its ticket is
 * settled as dead.
 *
 * It is a new event of the store's, with one leg to that sink, the same bytes, and a
 * letter that names the ticket it repeats. One claim, made of the ticket, makes it come
 * once: after a crash in between the same attempt is made again, and what was buried then
 * is a duplicate; and so it is when a ticket that was released dies again.
 *
 * The limit of open tickets does not hold for it: each ticket has one letter at most, and a
 * letter none (a sink for dead letters has no such sink itself), so no more than twice the
 * limit are ever open.
 *
 * When the store cannot take it, the burial is repeated, not the attempt: the sink has
 * said what it had to say.
 */
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "deliver/lane_private.h"
#include "gate/ticket.h"

#define WINDOW_S (UINT32_C(30) * 24 * 60 * 60)

struct burial {
	struct store_admit admit;
	struct lane_attempt *attempt;
	struct store_leg leg;
	struct buf letter;
};

static struct claim claim_of(const struct lane_attempt *attempt)
{
	static const unsigned char key[HASH_KEY_LEN] = "stile deadletter";
	struct claim claim = { .kind = CLAIM_ONCE, .window_s = WINDOW_S };
	hash_keyed128(key, &attempt->out.ticket, sizeof(attempt->out.ticket), claim.digest.word);
	claim.digest = digest_with_check(claim.digest, 0);
	return claim;
}

static void bury_later(struct lane_attempt *attempt, int error)
{
	struct lane *lane = attempt->lane;
	if (lane->stopping) {
		lane_put_back(attempt, 0);
		return;
	}
	if (!lane->bury_told)
		log_error("a dead letter could not be passed on; it is tried again",
		          log_str("sink", lane->name), log_code(error));
	lane->bury_told = true;
	attempt->out.next = lane->unburied;
	lane->unburied = &attempt->out;
	lane->bury_at_ms = lane->now_ms + LANE_RETRY_MS;
}

static void buried(struct store_op *op)
{
	struct burial *burial = op->user;
	struct lane_attempt *attempt = burial->attempt;
	int error = op->error;
	buf_free(&burial->letter);
	mem_free(burial);
	if (error != 0) {
		bury_later(attempt, error);
		return;
	}
	attempt->lane->bury_told = false;
	lane_settle(attempt, OUTCOME_DEAD);
}

static struct burial *new_burial(struct lane_attempt *attempt)
{
	struct letter letter = attempt->out.letter;
	char text[TICKET_TEXT_LEN];
	struct burial *burial = mem_zalloc(1, sizeof(*burial));
	if (!burial)
		return NULL;
	burial->attempt = attempt;
	ticket_text(attempt->out.event, text);
	letter.texts[LETTER_REPLAY_OF] = span_of(text, sizeof(text));
	letter_write(&letter, &burial->letter);
	if (!burial->letter.failed)
		return burial;
	buf_free(&burial->letter);
	return mem_free(burial);
}

void lane_bury(struct lane_attempt *attempt)
{
	struct lane *lane = attempt->lane;
	struct burial *burial = new_burial(attempt);
	attempt->stage = STAGE_RECORDING;
	if (!burial) {
		bury_later(attempt, -ENOMEM);
		return;
	}
	burial->leg.sink = lane->policy.dead_sink;
	burial->admit = (struct store_admit){
		.op = { .kind = STORE_ADMIT, .done = buried, .user = burial },
		.claims = { claim_of(attempt) },
		.claim_count = 1,
		.flags = (uint16_t)((attempt->out.json ? STORE_EVENT_JSON : 0) |
		                    (attempt->out.line ? STORE_EVENT_LINE : 0)),
		.source = attempt->out.source,
		.letter = buf_span(&burial->letter),
		.payload = attempt->out.payload,
		.legs = &burial->leg,
		.leg_count = 1,
		.beyond_limit = true, /* else nothing would close when all that is open dies */
	};
	lane_submit(lane, &burial->admit.op, true);
}

void lane_bury_again(struct lane *lane)
{
	struct outlet_attempt *out = lane->unburied;
	if (!out || (lane->now_ms < lane->bury_at_ms && !lane->stopping))
		return;
	lane->unburied = NULL;
	while (out) {
		struct lane_attempt *attempt = container_of(out, struct lane_attempt, out);
		out = out->next;
		if (lane->stopping)
			lane_put_back(attempt, 0);
		else if (lane_is_lost(attempt))
			lane_leave(attempt);
		else
			lane_bury(attempt);
	}
}
