/* place: see place.h. */
#include "place.h"

#include "store/local/local_store.h"
#include "support/model_store.h"

struct place place;

static void local_open(void)
{
	struct local_store_options options = { .path = "data",
		                               .clock = &place.clock.clock,
		                               .fs = simfs_fs(place.simfs),
		                               .segment_bytes = LOCAL_STORE_SEGMENT_MIN,
		                               .retain_ms = place.retain_ms,
		                               .dead_keep_ms = PLACE_DEAD_KEEP_MS,
		                               .keeper_inline = true };
	struct error_text text = { "" };

	if (local_store_open(&options, &place.store, &text) < 0)
		fail_msg("open: %s", text.text);
}

static void shared_start(void)
{
	place.store = shared_open(&(struct shared_options){ .clock = &place.clock.clock,
	                                                    .dead_keep_ms = PLACE_DEAD_KEEP_MS });
}

int place_in_memory(void **state)
{
	struct model_store_options options = { .clock = &place.clock.clock,
		                               .dead_keep_ms = PLACE_DEAD_KEEP_MS };

	(void)state;
	place = (struct place){ .simfs = NULL };
	clock_fake_init(&place.clock);
	return model_store_open(&options, &place.store);
}

int place_on_disk(void **state)
{
	(void)state;
	place = (struct place){ .simfs = simfs_new(1) };
	clock_fake_init(&place.clock);
	local_open();
	return 0;
}

int place_shared(void **state)
{
	(void)state;
	place = (struct place){ .shared = true };
	clock_fake_init(&place.clock);
	shared_wipe();
	shared_start();
	return 0;
}

int place_end(void **state)
{
	(void)state;
	place.store = store_free(place.store);
	buf_free(&place.call.take.items);
	place.simfs = simfs_free(place.simfs);
	return 0;
}

static void kill_and_open(void)
{
	struct simfs *left = simfs_copy(place.simfs);

	store_free(place.store);
	simfs_free(place.simfs);
	place.simfs = left;
	local_open();
}

void place_restart(void)
{
	if (place.simfs) {
		kill_and_open();
	} else if (place.shared) {
		store_free(place.store);
		shared_start();
	} else {
		model_store_restart(place.store);
	}
}
