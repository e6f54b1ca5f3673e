/*
 * lane_bury: a dead letter goes to the sink for dead letters, before its ticket is
 * settled as dead.
 *
 * It is a new event of the store's, with one leg to that sink, the same bytes, and a
 * letter that names the ticket it repeats. One claim, made of ticket and attempt, makes
 * it come once: after a crash in between the same attempt is made again, and what was
 * buried then is a duplicate.
 */
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "deliver/lane_private.h"
#include "gate/ticket.h"

#define WINDOW_S (UINT32_C(7) * 24 * 60 * 60)

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
	const uint64_t parts[] = { attempt->out.ticket, attempt->out.number };
	hash_keyed128(key, parts, sizeof(parts), claim.digest.word);
	claim.digest = digest_with_check(claim.digest, 0);
	return claim;
}

static void buried(struct store_op *op)
{
	struct burial *burial = op->user;
	struct lane_attempt *attempt = burial->attempt;
	int error = op->error;
	buf_free(&burial->letter);
	mem_free(burial);
	if (error == 0) {
		lane_settle(attempt, OUTCOME_DEAD);
		return;
	}
	if (error != ERR_CLOSING)
		log_error("a dead letter could not be passed on; it is tried again",
		          log_str("sink", attempt->lane->name), log_code(error));
	lane_put_back(attempt, attempt->lane->now_ms + LANE_RETRY_MS);
}

bool lane_bury(struct lane_attempt *attempt)
{
	struct lane *lane = attempt->lane;
	struct letter letter = attempt->out.letter;
	char text[TICKET_TEXT_LEN];
	struct burial *burial = mem_zalloc(1, sizeof(*burial));
	if (!burial)
		return false;
	ticket_text(attempt->out.event, text);
	letter.texts[LETTER_REPLAY_OF] = span_of(text, sizeof(text));
	letter_write(&letter, &burial->letter);
	if (burial->letter.failed) {
		buf_free(&burial->letter);
		mem_free(burial);
		return false;
	}
	attempt->stage = STAGE_RECORDING;
	burial->attempt = attempt;
	burial->leg.sink = lane->policy.dead_sink;
	burial->admit = (struct store_admit){
		.op = { .kind = STORE_ADMIT, .done = buried, .user = burial },
		.claims = { claim_of(attempt) },
		.claim_count = 1,
		.flags = attempt->out.json ? STORE_EVENT_JSON : 0,
		.source = attempt->out.source,
		.letter = buf_span(&burial->letter),
		.payload = attempt->out.payload,
		.legs = &burial->leg,
		.leg_count = 1,
	};
	lane_submit(lane, &burial->admit.op, true);
	return true;
}
