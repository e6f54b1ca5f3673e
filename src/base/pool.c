/* Buffers of requests and answers. See pool.h. */
#include "base/pool.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

static inline size_t ordinary_room(const struct pool *pool)
{
	return pool->input_room ? pool->input_room : POOL_INPUT_ROOM;
}

void spares_free(struct spares *spares)
{
	while (spares->count > 0)
		mem_free(spares->items[--spares->count]);
}

void pool_free(struct pool *pool)
{
	spares_free(&pool->inputs);
	spares_free(&pool->outputs);
}

static void release_bytes(struct pool *pool, uint64_t bytes)
{
	uint64_t before = atomic_fetch_sub_explicit(pool->bytes, bytes, memory_order_relaxed);
	CHECK(before >= bytes);
}

static int new_input(struct pool *pool, size_t room, struct input **ret_input)
{
	bool large = room > ordinary_room(pool);
	if (!large)
		room = ordinary_room(pool);
	CHECK(room < UINT32_MAX);
	if (large) {
		uint64_t before = atomic_fetch_add_explicit(pool->bytes, room,
		                                            memory_order_relaxed);
		if (before > pool->bytes_max || room > pool->bytes_max - before) {
			release_bytes(pool, room);
			return ERR_FULL;
		}
	}
	struct input *input = mem_alloc(sizeof(*input) + room);
	if (!input) {
		if (large)
			release_bytes(pool, room);
		return -ENOMEM;
	}
	input->room = (uint32_t)room;
	*ret_input = input;
	return 0;
}

int pool_take_input(struct pool *pool, size_t room, struct input **ret_input)
{
	struct input *input = room <= ordinary_room(pool) ? spares_take(&pool->inputs) : NULL;
	if (unlikely(!input)) {
		int error = new_input(pool, room, &input);
		if (error)
			return error;
	}
	input->refs = 1;
	*ret_input = input;
	return 0;
}

void pool_drop_input(struct pool *pool, struct input *input)
{
	if (!input)
		return;
	CHECK(input->refs > 0);
	if (--input->refs > 0)
		return;
	bool ordinary = input->room == ordinary_room(pool);
	if (!ordinary)
		release_bytes(pool, input->room);
	if (!ordinary || !spares_put(&pool->inputs, input))
		mem_free(input);
}

static struct output *take_output(struct pool *pool, size_t room)
{
	struct output *output = room <= POOL_OUTPUT_ROOM ? spares_take(&pool->outputs) : NULL;
	if (likely(output))
		return output;
	if (room < POOL_OUTPUT_ROOM)
		room = POOL_OUTPUT_ROOM;
	output = mem_alloc(sizeof(*output) + room);
	if (output) {
		output->room = room;
		pool->output_bytes += room > POOL_OUTPUT_ROOM ? room : 0;
	}
	return output;
}

static void drop_output(struct pool *pool, struct output *output)
{
	if (output->room == POOL_OUTPUT_ROOM && spares_put(&pool->outputs, output))
		return;
	pool->output_bytes -= output->room > POOL_OUTPUT_ROOM ? output->room : 0;
	mem_free(output);
}

void outgoing_clear(struct pool *pool, struct outgoing *outgoing)
{
	if (outgoing->buffer)
		drop_output(pool, outgoing->buffer);
	*outgoing = (struct outgoing){ 0 };
}

char *outgoing_reserve(struct pool *pool, struct outgoing *outgoing, size_t room)
{
	if (likely(outgoing->buffer && outgoing->buffer->room - outgoing->len >= room))
		return outgoing->buffer->bytes + outgoing->len;
	if (!outgoing->buffer && room <= POOL_OUTPUT_ROOM) {
		outgoing->buffer = take_output(pool, room);
		return outgoing->buffer ? outgoing->buffer->bytes : NULL;
	}
	size_t pending = outgoing_pending(outgoing);
	struct output *buffer = outgoing->buffer;
	if (buffer && pending + room <= buffer->room / 2) {
		/* Reuse the room of sent bytes, if that is at least half of the buffer: then no
		 * byte is moved twice for each that is sent, and the buffer of a slow reader
		 * does not grow with all that was ever sent to it. */
		memmove(buffer->bytes, buffer->bytes + outgoing->at, pending);
		outgoing->at = 0;
		outgoing->len = pending;
		return buffer->bytes + pending;
	}
	size_t twice = buffer ? buffer->room * 2 : 0;
	struct output *larger = take_output(pool, pending + room > twice ? pending + room : twice);
	if (!larger)
		return NULL;
	if (buffer) {
		memcpy(larger->bytes, buffer->bytes + outgoing->at, pending);
		drop_output(pool, buffer);
	}
	*outgoing = (struct outgoing){ .buffer = larger, .len = pending };
	return larger->bytes + pending;
}

int outgoing_append(struct pool *pool, struct outgoing *outgoing, const void *ptr, size_t len)
{
	char *out = outgoing_reserve(pool, outgoing, len);
	if (!out)
		return -ENOMEM;
	memcpy(out, ptr, len);
	outgoing->len += len;
	return 0;
}
