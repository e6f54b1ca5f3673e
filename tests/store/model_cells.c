/* model_cells: cells of the model suite; see model_world.h. */
#include <stdio.h>

#include "model_world.h"

static const char *const short_texts[] = { "1", "OK", "PROCESSED", "", "true" };

static const char *name_of(uint64_t index, char text[static 16])
{
	snprintf(text, 16, "cell %u", (unsigned)index);
	return text;
}

static struct span bytes_make(struct world *world)
{
	uint64_t len = below(world, 30) == 0 ? below(world, 4000) : below(world, 100);

	if (below(world, 2))
		return span_str(short_texts[below(world, ARRAY_LEN(short_texts))]);
	/* Some come again. */
	uint64_t at = below(world, 2) ? below(world, 4) : below(world, PAYLOAD_MAX - len);
	return span_of(world->bytes + at, len);
}

static uint64_t span_make_ms(struct world *world)
{
	static const uint64_t spans_ms[] = { 1, 50, 2000, 60000, 3600000, 90000000, 8000000000 };

	return 1 + below(world, spans_ms[below(world, ARRAY_LEN(spans_ms))]);
}

/* Those of the hour, mostly: so the others are left behind in the journal. */
static uint64_t index_choose(struct world *world)
{
	if (below(world, 16) == 0)
		return below(world, CELLS);
	return (world->step / 10 * 11 + below(world, 16)) % CELLS;
}

void cell_value_make(struct world *world, struct store_cell_value *value)
{
	static char names[CELLS][16];
	uint64_t index = index_choose(world);
	uint64_t random = index + 177;
	uint64_t now_ms = world->true_clock.now.wall_ms;

	*value = (struct store_cell_value){ .name = span_str(name_of(index, names[index])),
		                            .value = bytes_make(world) };
	value->digest.word[0] = test_random(&random);
	value->digest.word[1] = test_random(&random) >> 32 << 32 | below(world, 3);
	switch (below(world, 6)) {
	case 0:
	case 1: value->ttl_ms = span_make_ms(world); break;
	case 2: value->expiry_ms = now_ms + span_make_ms(world); break;
	case 3: value->keep_expiry = true; break;
	case 4: value->expiry_ms = now_ms - below(world, 3); break;
	default: break; /* never */
	}
}

void cell_make(struct world *world, struct store_cell *cell)
{
	static const enum store_cell_act acts[] = { STORE_CELL_GET,    STORE_CELL_PUT,
		                                    STORE_CELL_PUT,    STORE_CELL_PUT,
		                                    STORE_CELL_EXPIRE, STORE_CELL_REMOVE };

	*cell = (struct store_cell){ .act = acts[below(world, ARRAY_LEN(acts))],
		                     .want_value = below(world, 2) };
	uint64_t conditions = cell->act == STORE_CELL_EXPIRE ? STORE_IF_TIMED_EARLIER
	                                                     : STORE_IF_PRESENT;
	cell->when = (enum store_when)below(world, conditions + 1);
	cell_value_make(world, &cell->cell);
}

void cell_compare(struct world *world, struct store_cell on[2])
{
	const struct store_cell *model = &on[0], *local = &on[1];

	EXPECT(world, model->found == local->found);
	EXPECT(world, model->changed == local->changed);
	EXPECT(world, model->now_ms == local->now_ms);
	EXPECT(world, model->expiry_ms == local->expiry_ms);
	EXPECT(world, span_eq(buf_span(&model->value), buf_span(&local->value)));
	model_tally.cells[model->act][model->found][model->changed]++;
	buf_free(&on[0].value);
	buf_free(&on[1].value);
}

/* Which are there; how many. */
static uint32_t names_of(struct world *world, struct store *store, bool told[static CELLS])
{
	struct store_cell_scan scan = { .max_names = (uint32_t)below(world, 40) };
	uint32_t count = 0;

	do {
		struct span name;
		size_t offset = 0;
		EXPECT(world, store_call(store, &scan.op, STORE_CELL_SCAN) == 0);
		while (store_name_next(buf_span(&scan.names), &offset, &name)) {
			unsigned index = CELLS;
			char text[16] = "";
			EXPECT(world, name.len < sizeof(text));
			memcpy(text, name.ptr, name.len);
			EXPECT(world, sscanf(text, "cell %u", &index) == 1 && index < CELLS);
			count += !told[index];
			told[index] = true;
		}
	} while (!scan.end);
	buf_free(&scan.names);
	return count;
}

void cells_compare(struct world *world)
{
	bool model[CELLS] = { false }, local[CELLS] = { false };
	struct store_stats stats;
	uint32_t count = names_of(world, world->model, model);

	EXPECT(world, names_of(world, world->local, local) == count);
	EXPECT(world, memcmp(model, local, sizeof(local)) == 0);
	store_stats(world->local, &stats);
	EXPECT(world, stats.live_cells >= count);
	model_tally.cells_told += count;
}
