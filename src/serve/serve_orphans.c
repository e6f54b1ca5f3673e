/* serve_orphans: see serve_orphans.h. */
#include "serve/serve_orphans.h"

#include "base/log.h"

#define ITEMS 4096u
#define BYTES (1u << 20)

static bool is_known(const struct orphans *orphans, uint32_t sink)
{
	if (sink == STORE_SINK_CALLER)
		return true;
	for (uint32_t i = 0; i < orphans->known_count; i++)
		if (orphans->known[i] == sink)
			return true;
	return false;
}

static void scanned(struct store_op *op)
{
	struct orphans *orphans = container_of(op, struct orphans, scan.op);
	struct store_item item;
	struct store_parts parts;
	size_t offset = 0;
	if (op->error != 0)
		return; /* the store is closed, or has worse to tell of */
	while (store_item_next(buf_span(&orphans->scan.items), &offset, &item, &parts)) {
		if (is_known(orphans, item.sink))
			continue;
		orphans->found++;
		orphans->example = item.sink;
	}
	if (!orphans->scan.end)
		store_submit(orphans->store, op);
	else if (orphans->found > 0)
		log_warn("events wait for a sink that is not in the configuration",
		         log_u64("events", orphans->found), log_u64("sink", orphans->example));
}

void serve_orphans_begin(struct orphans *orphans, const struct config *config, struct store *store)
{
	*orphans = (struct orphans){
		.store = store,
		.scan = { .op = { .kind = STORE_SCAN, .done = scanned },
		          .states = 1u << STORE_STATE_DUE,
		          .max_items = ITEMS,
		          .max_bytes = BYTES,
		          .items_only = true },
	};
	for (uint32_t i = 0; i < config->sink_count; i++)
		orphans->known[orphans->known_count++] = config->sinks[i].id;
	store_submit(store, &orphans->scan.op);
}

void serve_orphans_end(struct orphans *orphans)
{
	buf_free(&orphans->scan.items);
}
