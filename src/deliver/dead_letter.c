/*
 * dead_letter: a dead event is stored for the sink for dead letters, before its ticket is
 * settled as dead.
 *
 * It is a new event of the store, with one leg to that sink, the same bytes, and metadata
 * that name the ticket. One claim, made of the ticket, makes it happen once: after a crash
 * in between the same attempt is made again, and the second dead letter is a duplicate. So
 * it is when a ticket that was released dies again.
 *
 * The limit of open tickets does not apply: each ticket has one dead letter at most, and a
 * dead letter has none (a sink for dead letters has no such sink itself), so no more than
 * twice the limit are ever open.
 *
 * When the store cannot take it, this is repeated, not the attempt: the sink has answered.
 */
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "deliver/lane_private.h"
#include "gate/ticket.h"

#define WINDOW_S (UINT32_C(30) * 24 * 60 * 60)

struct dead_letter {
	struct store_admit admit;
	struct lane_attempt *attempt;
	struct store_leg leg;
	struct buf metadata;
};

static void send_later(struct lane_attempt *attempt, int error)
{
	struct lane *lane = attempt->lane;
	if (lane->life == LANE_STOPPING) {
		lane_put_back(attempt, 0);
		return;
	}
	if (!lane->dead_letter_logged)
		log_error("dead letter not stored yet: trying again", log_str("sink", lane->name),
		          log_code(error));
	lane->dead_letter_logged = true;
	attempt->out.next = lane->dead_letters;
	lane->dead_letters = &attempt->out;
	lane->dead_letter_at_ms = lane->now_ms + LANE_RETRY_MS;
}

static void admitted(struct store_op *op)
{
	struct dead_letter *dead = op->user;
	struct lane_attempt *attempt = dead->attempt;
	int error = op->error;
	buf_free(&dead->metadata);
	mem_free(dead);
	if (error != 0) {
		send_later(attempt, error);
		return;
	}
	attempt->lane->dead_letter_logged = false;
	lane_settle(attempt, OUTCOME_DEAD);
}

void dead_letter_send(struct lane_attempt *attempt)
{
	static const unsigned char key[HASH_KEY_LEN] = "stile deadletter";
	CHECK(attempt->filled && attempt->stage != STAGE_FREE && attempt->stage != STAGE_OUT);
	struct lane *lane = attempt->lane;
	struct dead_letter *dead = mem_zalloc(1, sizeof(*dead));
	struct metadata metadata = attempt->out.metadata;
	char text[TICKET_TEXT_LEN];
	attempt->stage = STAGE_RECORDING;
	ticket_text(attempt->out.event, text);
	metadata.texts[METADATA_REPLAY_OF] = span_of(text, sizeof(text));
	if (dead)
		metadata_write(&metadata, &dead->metadata);
	if (!dead || dead->metadata.failed) {
		if (dead)
			buf_free(&dead->metadata);
		mem_free(dead);
		send_later(attempt, -ENOMEM);
		return;
	}
	dead->attempt = attempt;
	struct claim claim = { .kind = CLAIM_ONCE, .window_s = WINDOW_S };
	hash_keyed128(key, &attempt->out.ticket, sizeof(attempt->out.ticket), claim.digest.word);
	claim.digest = digest_with_check(claim.digest, 0);
	dead->leg.sink = lane->policy.dead_sink;
	dead->admit = (struct store_admit){
		.op = { .kind = STORE_ADMIT, .done = admitted, .user = dead },
		.claims = { claim },
		.claim_count = 1,
		.flags = (uint16_t)((attempt->out.json ? STORE_EVENT_JSON : 0) |
		                    (attempt->out.line ? STORE_EVENT_LINE : 0)),
		.source = attempt->out.source,
		.metadata = buf_span(&dead->metadata),
		.payload = attempt->out.payload,
		.legs = &dead->leg,
		.leg_count = 1,
		.beyond_limit = true, /* else nothing would close when all that is open dies */
	};
	lane_submit(lane, &dead->admit.op, true);
}

void dead_letter_send_again(struct lane *lane)
{
	struct outlet_attempt *out = lane->dead_letters;
	if (!out || (lane->now_ms < lane->dead_letter_at_ms && lane->life != LANE_STOPPING))
		return;
	lane->dead_letters = NULL;
	while (out) {
		struct lane_attempt *attempt = container_of(out, struct lane_attempt, out);
		out = out->next;
		if (lane->life == LANE_STOPPING)
			lane_put_back(attempt, 0);
		else if (lane_is_lost(attempt))
			lane_leave(attempt);
		else if (!lane->policy.has_dead_sink)
			lane_settle(attempt, OUTCOME_DEAD); /* a reload has removed that sink */
		else
			dead_letter_send(attempt);
	}
}
