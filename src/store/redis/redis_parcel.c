/*
 * redis_parcel: events that are leased as they are admitted.
 *
 * Where a take waits, the admits of a batch that are for its sink are offered to it: the
 * script admits them straight into its hands, if nothing older is due. Their bytes go to the
 * server once, together (a parcel), and do not come back: the take gets them from the admits.
 * Tickets of a parcel that are done are told together, too. What else happens to one makes it
 * as any other at the server, which this side need not know.
 *
 * In a batch stand first the offers, then the parts in their order; those of one kind that
 * follow each other, of one offer or of one parcel, are one operation of the script: the
 * first of them leads. So are events that are only decided, whether anybody takes or not.
 */
#include "base/error.h"
#include "codec/resp_reply.h"
#include "gate/ticket.h"
#include "store/redis/redis_internal.h"

#define GROUP_LEN 16u /* of the answer to admits, before the bits */
#define OFFER_LEN 9u  /* of the answer to an offer */

enum place_bits { PLACE_TICKET = 1, PLACE_LEASED = 2, PLACE_TOLD = 4 };

/* ---- choosing ---- */

static uint32_t sink_of(const struct store_admit *admit)
{
	return admit->leg_count ? admit->legs[0].sink : 0;
}

/* NULL: it is none, or goes through several shards. */
static const struct store_admit *admit_of(const struct redis_part *part)
{
	if (part->letter || part->span || !part->op || part->op->kind != STORE_ADMIT)
		return NULL;
	return container_of(part->op, struct store_admit, op);
}

static bool is_offerable(const struct redis_part *part)
{
	const struct store_admit *admit = admit_of(part);

	return admit && admit->claim_count > 0 && admit->leg_count <= 1 && !admit->no_ticket &&
	       admit->lease_ms == 0 && sink_of(admit) != STORE_SINK_CALLER;
}

void redis_decisions_find(struct redis_shard *shard)
{
	for (struct redis_part *part = shard->under_way.head; part; part = part->next) {
		const struct store_admit *admit = admit_of(part);
		part->decides = admit && admit->no_ticket;
	}
}

/* The take that waits longest, of those that want the bytes. */
static struct redis_part *taker_of_sink(const struct redis_shard *shard, uint32_t sink)
{
	for (struct redis_part *part = shard->takers; part; part = part->next)
		if (part->taker && part->taker->take->sink == sink)
			return part->taker->take->without_payload ? NULL : part;
	return NULL;
}

/* NULL: nobody waits. */
static struct redis_offer *offer_for(struct redis_shard *shard, uint32_t sink)
{
	for (uint32_t i = 0; i < shard->offer_count; i++)
		if (shard->offers[i].taker->take->sink == sink)
			return &shard->offers[i];
	struct redis_part *taker = taker_of_sink(shard, sink);
	if (!taker || shard->offer_count == REDIS_OFFERS_MAX)
		return NULL;
	struct redis_offer *offer = &shard->offers[shard->offer_count++];
	*offer = (struct redis_offer){ .taker = taker->taker, .parcel = ++shard->redis->parcels };
	taker->offer = (uint8_t)shard->offer_count;
	return offer;
}

/* What is stored of an event. */
static size_t stored_len(const struct store_admit *admit)
{
	return REDIS_BODY_HEAD_LEN + admit->source.len + admit->letter.len + admit->payload.len;
}

/* What does not fit ends the offer: so nothing overtakes it. */
static bool offer_has_room(const struct redis_offer *offer, size_t more)
{
	const struct store_take *take = offer->taker->take;

	return !offer->full && offer->places < take->max_items &&
	       (offer->places == 0 || offer->take_bytes + more <= take->max_bytes);
}

static void offer_choose(struct redis_shard *shard, struct redis_part *part)
{
	const struct store_admit *admit = container_of(part->op, struct store_admit, op);
	struct redis_offer *offer = offer_for(shard, sink_of(admit));
	size_t len = stored_len(admit);

	if (!offer)
		return;
	if (!offer_has_room(offer, sizeof(struct store_item) + len)) {
		offer->full = true;
		return;
	}
	offer->take_bytes += sizeof(struct store_item) + len;
	offer->bytes += len;
	part->place = (uint16_t)offer->places++;
	part->offer = (uint8_t)(offer - shard->offers + 1);
}

/* A success of a ticket that came in a parcel, and of which nothing else was noted. */
static void parcel_choose(struct redis_store *redis, struct redis_part *part)
{
	const struct store_settle *settle = container_of(part->op, struct store_settle, op);
	const struct redis_lease *lease = redis_leases_find(&redis->leases, settle->ticket);

	if (!lease || settle->answer || settle->outcome != OUTCOME_DONE || settle->attempt != 1 ||
	    lease->attempt != 1)
		return;
	part->parcel = lease->parcel;
	part->place = lease->place;
}

/* Makes a ticket due that is older than all that is admitted. */
static bool part_releases(const struct redis_part *part)
{
	if (part->letter || !part->op)
		return part->letter == 'B';
	return part->op->kind == STORE_RELEASE ||
	       (part->op->kind == STORE_SETTLE &&
	        container_of(part->op, struct store_settle, op)->outcome == OUTCOME_RELEASED);
}

static bool may_offer(const struct redis_shard *shard)
{
	const struct redis_part *part = shard->under_way.head;

	while (part && !part_releases(part))
		part = part->next;
	return shard->takers && !part;
}

/* Both are of one operation of the script. */
static bool goes_with(const struct redis_part *part, const struct redis_part *before)
{
	if (part->taker || before->taker)
		return false;
	if (part->offer || before->offer)
		return part->offer == before->offer;
	return part->decides ? before->decides : part->parcel && before->parcel == part->parcel;
}

void redis_parcels_choose(struct redis_shard *shard)
{
	const struct redis_part *before = NULL;
	bool offers = may_offer(shard);

	shard->offer_count = 0;
	for (struct redis_part *part = shard->under_way.head; part; part = part->next) {
		if (offers && is_offerable(part))
			offer_choose(shard, part);
		else if (!part->letter && part->op && part->op->kind == STORE_SETTLE)
			parcel_choose(shard->redis, part);
		part->follows = before && goes_with(part, before);
		before = part;
	}
}

/* ---- encoding ---- */

static void put_name(char *at, const struct redis_store *redis, uint64_t parcel)
{
	uint64_t big = __builtin_bswap64(parcel);

	memcpy(at, redis->node, 8);
	memcpy(at + 8, &big, 8);
}

static void put_place(char *at, uint64_t order, size_t from, size_t len)
{
	uint64_t big = __builtin_bswap64(order);
	uint32_t where[2] = { __builtin_bswap32((uint32_t)from), __builtin_bswap32((uint32_t)len) };

	memcpy(at, &big, 8);
	memcpy(at + 8, where, 8);
}

static const struct store_admit *offered(const struct redis_part *part,
                                         const struct redis_offer *offer,
                                         const struct redis_shard *shard)
{
	if (part->taker || !part->offer || &shard->offers[part->offer - 1] != offer)
		return NULL;
	return container_of(part->op, const struct store_admit, op);
}

/* The table, then the events. */
static void encode_events(const struct redis_shard *shard, const struct redis_offer *offer,
                          struct buf *out)
{
	size_t from = (size_t)offer->places * REDIS_PLACE_LEN;
	const struct store_admit *admit;

	resp_request_open(out, from + offer->bytes);
	for (struct redis_part *part = shard->under_way.head; part; part = part->next) {
		if ((admit = offered(part, offer, shard)) == NULL)
			continue;
		char place[REDIS_PLACE_LEN];
		put_place(place, admit->leg_count ? admit->legs[0].order : 0, from,
		          stored_len(admit));
		buf_append(out, place, sizeof(place));
		from += stored_len(admit);
	}
	for (struct redis_part *part = shard->under_way.head; part; part = part->next)
		if ((admit = offered(part, offer, shard)) != NULL)
			redis_encode_body(admit, out);
	resp_request_close(out);
}

static void encode_offer(const struct redis_shard *shard, const struct redis_offer *offer,
                         struct buf *out)
{
	const struct store_take *take = offer->taker->take;
	uint32_t sink = __builtin_bswap32(take->sink);
	uint64_t lease = __builtin_bswap64(redis_lease_ms(shard->redis, take->lease_ms));
	char head[1 + 4 + 8 + REDIS_NAME_LEN] = "O";

	memcpy(head + 1, &sink, sizeof(sink));
	memcpy(head + 5, &lease, sizeof(lease));
	put_name(head + 13, shard->redis, offer->parcel);
	resp_request_add(out, span_of(head, sizeof(head)));
	encode_events(shard, offer, out);
}

static uint32_t group_count(const struct redis_part *leader)
{
	uint32_t count = 1;

	for (const struct redis_part *part = leader->next; part && part->follows; part = part->next)
		count++;
	return count;
}

/* The heads of all, then the keys of all. */
static uint32_t encode_admits(const struct redis_shard *shard, const struct redis_part *leader,
                              struct buf *out)
{
	uint32_t count = group_count(leader), claims = 0;
	char head[6] = { 'M', (char)leader->offer, (char)(count >> 8), (char)count };
	const struct redis_part *part = leader;
	size_t len = sizeof(head);

	for (uint32_t i = 0; i < count; i++, part = part->next) {
		claims += admit_of(part)->claim_count;
		len += redis_admit_head_len(admit_of(part));
	}
	uint32_t keys = claims * (shard->redis->shard_count > 1 ? 2 : 1), added = 0;
	head[4] = (char)(keys >> 8);
	head[5] = (char)keys;
	resp_request_open(out, len);
	buf_append(out, head, sizeof(head));
	part = leader;
	for (uint32_t i = 0; i < count; i++, part = part->next)
		redis_encode_admit_head(admit_of(part), out);
	resp_request_close(out);
	part = leader;
	for (uint32_t i = 0; i < count; i++, part = part->next)
		added += redis_encode_keys(shard, admit_of(part), out);
	CHECK(added == keys);
	return 1 + keys;
}

static void encode_done(const struct redis_store *redis, const struct redis_part *leader,
                        struct buf *out)
{
	uint32_t count = group_count(leader);
	char head[1 + REDIS_NAME_LEN] = "Z";
	const struct redis_part *part = leader;

	put_name(head + 1, redis, leader->parcel);
	resp_request_open(out, sizeof(head) + count * 10u);
	buf_append(out, head, sizeof(head));
	for (; count > 0; count--, part = part->next) {
		uint64_t ticket = __builtin_bswap64(
			container_of(part->op, struct store_settle, op)->ticket);
		char place[10] = { (char)(part->place >> 8), (char)part->place };
		memcpy(place + 2, &ticket, sizeof(ticket));
		buf_append(out, place, sizeof(place));
	}
	resp_request_close(out);
}

uint32_t redis_encode_offers(const struct redis_shard *shard, struct buf *out)
{
	for (uint32_t i = 0; i < shard->offer_count; i++)
		encode_offer(shard, &shard->offers[i], out);
	return 2 * shard->offer_count;
}

uint32_t redis_encode_group(const struct redis_shard *shard, const struct redis_part *part,
                            struct buf *out)
{
	if (part->follows)
		return 0;
	if (!part->parcel)
		return encode_admits(shard, part, out);
	encode_done(shard->redis, part, out);
	return 1;
}

/* ---- decoding ---- */

int redis_offers_answered(struct redis_shard *shard, struct span reply, size_t *at)
{
	struct resp_reply value;

	for (uint32_t i = 0; i < shard->offer_count; i++) {
		struct store_take *take = shard->offers[i].taker->take;
		if (!resp_reply_next(reply, at, &value) || value.text.len != OFFER_LEN)
			return ERR_INVALID;
		take->now_ms = big_u64(value.text.ptr + 1);
		take->count = 0;
		buf_clear(&take->items);
	}
	return 0;
}

/* A group's answer is about to be read. */
static int group_begin(struct redis_group *group, const struct redis_part *leader,
                       struct span reply)
{
	struct resp_reply value;
	size_t at = 0;
	size_t head = leader->parcel ? 0 : GROUP_LEN;

	*group = (struct redis_group){ .reply = reply };
	if (!resp_reply_next(reply, &at, &value))
		return ERR_INVALID;
	if (value.kind == RESP_REPLY_NUMBER)
		return value.number < 0 ? (int)value.number : ERR_INVALID;
	if (value.kind == RESP_REPLY_ARRAY && !resp_reply_next(reply, &at, &value))
		return ERR_INVALID;
	if (value.kind != RESP_REPLY_TEXT || value.text.len != head + group_count(leader))
		return ERR_INVALID;
	group->at = at;
	group->bits = value.text.ptr + head;
	if (!leader->parcel) {
		group->now_ms = big_u64(value.text.ptr);
		group->ticket = big_u64(value.text.ptr + 8);
	}
	return 0;
}

static void admit_is_new(struct store_admit *admit, uint64_t ticket, uint64_t now_ms)
{
	admit->verdict = VERDICT_NEW;
	admit->would = VERDICT_NONE;
	admit->matched = admit->would_matched = 0;
	admit->ticket = admit->own_ticket = ticket;
	admit->would_ticket = admit->seen = admit->order = 0;
	admit->decided_ms = now_ms;
	admit->first_seen_ms = ticket_time_ms(ticket);
}

/* The take has it; if there is no memory for that, its lease ends by itself. */
static void take_gets(struct redis_shard *shard, const struct redis_part *part, uint64_t ticket)
{
	struct redis_store *redis = shard->redis;
	const struct store_admit *admit = container_of(part->op, struct store_admit, op);
	struct redis_offer *offer = &shard->offers[part->offer - 1];
	struct store_take *take = offer->taker->take;
	struct store_item item = {
		.ticket = ticket,
		.event = ticket,
		.order = admit->leg_count ? admit->legs[0].order : 0,
		.sink = sink_of(admit),
		.attempt = 1,
		.flags = admit->flags,
		.state = STORE_STATE_LEASED,
	};
	struct store_parts parts = { admit->source, admit->letter, admit->payload };

	offer->taken = true;
	if (store_item_append(&take->items, &item, &parts) < 0)
		return;
	take->count++;
	redis_leases_put(&redis->leases,
	                 (struct redis_lease){ .ticket = ticket,
	                                       .attempt = 1,
	                                       .place = part->place,
	                                       .parcel = offer->parcel,
	                                       .ends_ms = take->lease_ms
	                                                          ? loop_now_ms(redis->loop) +
	                                                                    take->lease_ms
	                                                          : 0 });
}

static int admit_decode(struct redis_shard *shard, struct redis_part *part, unsigned bits)
{
	struct redis_group *group = &shard->group;
	int r = 0;

	if (bits & PLACE_TOLD) {
		size_t from = group->at;
		resp_reply_skip(group->reply, &group->at);
		r = redis_decode(shard->redis, part,
		                 span_of(group->reply.ptr + from, group->at - from));
	} else {
		admit_is_new(container_of(part->op, struct store_admit, op), group->ticket,
		             group->now_ms);
	}
	if (bits & PLACE_LEASED)
		take_gets(shard, part, group->ticket);
	if (bits & PLACE_TICKET)
		group->ticket += redis_ticket_step(shard->redis);
	return r;
}

int redis_group_decode(struct redis_shard *shard, struct redis_part *part, struct span reply)
{
	struct redis_group *group = &shard->group;

	if (!part->follows)
		group->error = group_begin(group, part, reply);
	if (group->error < 0)
		return group->error;
	unsigned bits = (unsigned char)*group->bits++;
	if (!part->parcel)
		return admit_decode(shard, part, bits);
	return bits == 0 ? 0 : ERR_FENCED;
}
