/* redis_slots: see redis_slots.h. */
#include "link/redis_slots.h"

#include "codec/resp_reply.h"

/* CRC16-XMODEM, bit by bit: keys of a shard are hashed once. */
static uint32_t crc16(struct span bytes)
{
	uint32_t crc = 0;

	for (size_t i = 0; i < bytes.len; i++) {
		crc ^= (uint32_t)(unsigned char)bytes.ptr[i] << 8;
		for (int bit = 0; bit < 8; bit++)
			crc = (crc & 0x8000u ? crc << 1 ^ 0x1021u : crc << 1) & 0xffffu;
	}
	return crc;
}

uint32_t redis_slot_of(struct span key)
{
	struct span rest = key;

	span_cut_item(&rest, '{');
	size_t before = rest.len;
	struct span tag = span_cut_item(&rest, '}');
	bool closed = tag.len > 0 && tag.len < before;
	return crc16(closed ? tag : key) % REDIS_SLOTS;
}

static bool number_next(struct span reply, size_t *at, int64_t least, int64_t most,
                        int64_t *ret_number)
{
	struct resp_reply value;

	if (!resp_reply_next(reply, at, &value) || value.kind != RESP_REPLY_NUMBER ||
	    value.number < least || value.number > most)
		return false;
	*ret_number = value.number;
	return true;
}

/* Host, port, and what else there is. */
static bool host_next(struct span reply, size_t *at, const struct redis_host *asked,
                      struct redis_host *ret_host)
{
	struct resp_reply node, name;
	int64_t port;

	if (!resp_reply_next(reply, at, &node) || node.kind != RESP_REPLY_ARRAY ||
	    node.number < 2 || !resp_reply_next(reply, at, &name) ||
	    !number_next(reply, at, 1, 65535, &port))
		return false;
	for (int64_t i = 2; i < node.number; i++)
		resp_reply_skip(reply, at);
	*ret_host = *asked;
	if (name.kind == RESP_REPLY_TEXT && name.text.len > 0) {
		if (name.text.len > REDIS_HOST_MAX)
			return false;
		memcpy(ret_host->name, name.text.ptr, name.text.len);
		ret_host->name[name.text.len] = '\0';
	}
	ret_host->port = (uint16_t)port;
	return true;
}

static bool range_next(struct span reply, size_t *at, const struct redis_host *asked,
                       struct redis_slots_range *ret_range)
{
	struct resp_reply entry;
	int64_t first, last;

	if (!resp_reply_next(reply, at, &entry) || entry.kind != RESP_REPLY_ARRAY ||
	    entry.number < 3 || !number_next(reply, at, 0, REDIS_SLOTS - 1, &first) ||
	    !number_next(reply, at, first, REDIS_SLOTS - 1, &last) ||
	    !host_next(reply, at, asked, &ret_range->master))
		return false;
	for (int64_t i = 3; i < entry.number; i++)
		resp_reply_skip(reply, at);
	ret_range->first = (uint32_t)first;
	ret_range->last = (uint32_t)last;
	ret_range->replicas = (uint32_t)(entry.number - 3);
	return true;
}

bool redis_slots_walk(struct span reply, const struct redis_host *asked,
                      void (*range)(void *user, const struct redis_slots_range *range), void *user)
{
	struct resp_reply whole;
	struct redis_slots_range found;
	size_t at = 0;

	if (!resp_reply_next(reply, &at, &whole) || whole.kind != RESP_REPLY_ARRAY)
		return false;
	for (int64_t i = 0; i < whole.number; i++) {
		if (!range_next(reply, &at, asked, &found))
			return false;
		range(user, &found);
	}
	return true;
}
