/* late_store: see late_store.h. */
#include "store/spool/late_store.h"

#include <errno.h>
#include <stdatomic.h>

#include "base/histogram.h"
#include "base/mem.h"
#include "sys/thread.h"
#include "sys/wake_event.h"

#define EVERY_MS 1000u

struct late_store {
	struct store store;
	struct late_store_options options;
	struct histogram commit_us, commit_batch;
	struct thread thread;
	struct wake_event wake;
	atomic_bool ending;
	_Atomic(struct store *) opened; /* by the thread; NULL: not yet */

	/* The owner's. */
	struct store *inner;     /* what was opened, from when the owner saw it */
	struct store_op *failed; /* whose done() is called by the next flush */
	struct store_op **failed_end;
};

static struct late_store *late_of(struct store *store)
{
	return container_of(store, struct late_store, store);
}

/* ---- opening ---- */

static void open_late(void *user)
{
	struct late_store *late = user;
	struct error_text text = { "" };
	struct store *opened = NULL;
	int error = ERR_AWAY;

	while (error == ERR_AWAY && !atomic_load(&late->ending)) {
		wake_event_wait(&late->wake, (int)late->options.every_ms);
		if (!atomic_load(&late->ending))
			error = late->options.open(late->options.user, &opened, &text);
	}
	if (error == 0) {
		/* Metrics have these since the start; nothing was recorded yet. */
		opened->commit_us = &late->commit_us;
		opened->commit_batch = &late->commit_batch;
		atomic_store(&late->opened, opened);
	} else if (error != ERR_AWAY) {
		late->options.refused(late->options.user, error, text.text);
	}
}

/* Who is told that a write has ended is told by what was opened. */
static struct store *inner_of(struct late_store *late)
{
	if (!late->inner)
		late->inner = atomic_load(&late->opened);
	if (late->inner && late->inner->written != late->store.written) {
		late->inner->written_user = late->store.written_user;
		late->inner->written = late->store.written;
	}
	return late->inner;
}

/* ---- the store's methods ---- */

static void late_submit(struct store *store, struct store_op *op)
{
	struct late_store *late = late_of(store);
	struct store *inner = inner_of(late);

	CHECK(op->done);
	if (inner) {
		store_submit(inner, op);
		return;
	}
	op->error = ERR_AWAY;
	op->next = NULL;
	*late->failed_end = op;
	late->failed_end = &op->next;
}

/* done() may submit again. */
static void tell_failed(struct late_store *late)
{
	struct store_op *op = late->failed;

	late->failed = NULL;
	late->failed_end = &late->failed;
	while (op) {
		struct store_op *next = op->next;
		op->done(op);
		op = next;
	}
}

static void late_flush(struct store *store)
{
	struct late_store *late = late_of(store);

	tell_failed(late);
	if (inner_of(late))
		store_flush(late->inner);
}

static bool late_under_way(struct store *store)
{
	struct late_store *late = late_of(store);

	return late->failed || (late->inner && store_under_way(late->inner));
}

static void late_tick(struct store *store)
{
	struct late_store *late = late_of(store);

	if (inner_of(late))
		store_tick(late->inner);
}

static void late_stats(struct store *store, struct store_stats *ret_stats)
{
	struct store *opened = atomic_load(&late_of(store)->opened);

	if (opened)
		store_stats(opened, ret_stats);
	else
		*ret_stats = (struct store_stats){ .writable = false };
}

static void late_end_waits(struct store *store)
{
	struct late_store *late = late_of(store);

	if (inner_of(late))
		store_end_waits(late->inner);
}

static void late_hurry(struct store *store)
{
	struct late_store *late = late_of(store);

	if (inner_of(late))
		store_hurry(late->inner);
}

static void late_free(struct store *store)
{
	struct late_store *late = late_of(store);

	atomic_store(&late->ending, true);
	wake_event_set(&late->wake);
	thread_join(&late->thread);
	tell_failed(late);
	late->inner = store_free(inner_of(late));
	wake_event_destroy(&late->wake);
	mem_free(late);
}

static const struct store_methods late_methods = {
	.submit = late_submit,
	.flush = late_flush,
	.under_way = late_under_way,
	.tick = late_tick,
	.stats = late_stats,
	.end_waits = late_end_waits,
	.hurry = late_hurry,
	.free = late_free,
};

int late_store_new(const struct late_store_options *options, struct store **ret_store)
{
	struct late_store *late = mem_zalloc(1, sizeof(*late));
	if (!late)
		return -ENOMEM;
	CHECK(options->open && options->refused);
	late->options = *options;
	if (late->options.every_ms == 0)
		late->options.every_ms = EVERY_MS;
	late->store = (struct store){ .methods = &late_methods,
		                      .commit_us = &late->commit_us,
		                      .commit_batch = &late->commit_batch };
	late->failed_end = &late->failed;
	wake_event_init(&late->wake);
	int error = thread_start(&late->thread, &(struct thread_options){ .name = "late store",
	                                                                  .cpu = THREAD_ANY_CPU,
	                                                                  .run = open_late,
	                                                                  .user = late });
	if (error != 0) {
		wake_event_destroy(&late->wake);
		mem_free(late);
		return error;
	}
	*ret_store = &late->store;
	return 0;
}
