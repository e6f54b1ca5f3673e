/* postgres_args: see postgres_args.h. */
#include "link/postgres_args.h"

#include <endian.h>
#include <string.h>

#include "base/check.h"

/* Of pg_type; they never change. */
enum { TYPE_BYTEA = 17, TYPE_INT8 = 20, TYPE_UUID = 2950 };

void postgres_args_clear(struct postgres_args *args)
{
	buf_clear(&args->bytes);
	args->count = 0;
}

void postgres_args_free(struct postgres_args *args)
{
	buf_free(&args->bytes);
	args->count = 0;
}

static void put32(struct buf *bytes, uint32_t value)
{
	value = htobe32(value);
	buf_append(bytes, &value, sizeof(value));
}

static void put64(struct buf *bytes, uint64_t value)
{
	value = htobe64(value);
	buf_append(bytes, &value, sizeof(value));
}

static void begin(struct postgres_args *args)
{
	CHECK(args->count < POSTGRES_ARGS_MAX);
	args->starts[args->count] = args->bytes.len;
}

static void end(struct postgres_args *args)
{
	args->ends[args->count++] = args->bytes.len;
}

void postgres_args_u64(struct postgres_args *args, uint64_t value)
{
	begin(args);
	put64(&args->bytes, value);
	end(args);
}

void postgres_args_bytes(struct postgres_args *args, struct span value)
{
	begin(args);
	buf_append_span(&args->bytes, value);
	end(args);
}

void postgres_args_key(struct postgres_args *args, const unsigned char key[static POSTGRES_KEY_LEN])
{
	postgres_args_bytes(args, span_of(key, POSTGRES_KEY_LEN));
}

/* One dimension, no nulls, counted from 1. */
static void begin_array(struct postgres_args *args, uint32_t type, size_t count)
{
	begin(args);
	put32(&args->bytes, count > 0);
	put32(&args->bytes, 0);
	put32(&args->bytes, type);
	if (count == 0)
		return;
	put32(&args->bytes, (uint32_t)count);
	put32(&args->bytes, 1);
}

static const void *field(const struct postgres_column *column, size_t i)
{
	return (const char *)column->rows[i] + column->offset;
}

void postgres_args_u64s(struct postgres_args *args, struct postgres_column column)
{
	begin_array(args, TYPE_INT8, column.count);
	for (size_t i = 0; i < column.count; i++) {
		uint64_t value;
		memcpy(&value, field(&column, i), sizeof(value));
		put32(&args->bytes, sizeof(value));
		put64(&args->bytes, value);
	}
	end(args);
}

void postgres_args_keys(struct postgres_args *args, struct postgres_column column)
{
	begin_array(args, TYPE_UUID, column.count);
	for (size_t i = 0; i < column.count; i++) {
		put32(&args->bytes, POSTGRES_KEY_LEN);
		buf_append(&args->bytes, field(&column, i), POSTGRES_KEY_LEN);
	}
	end(args);
}

void postgres_args_spans(struct postgres_args *args, struct postgres_column column)
{
	begin_array(args, TYPE_BYTEA, column.count);
	for (size_t i = 0; i < column.count; i++) {
		struct span value;
		memcpy(&value, field(&column, i), sizeof(value));
		put32(&args->bytes, (uint32_t)value.len);
		buf_append_span(&args->bytes, value);
	}
	end(args);
}
