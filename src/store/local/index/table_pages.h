/*
 * table_pages: memory that is there before the table needs it.
 *
 * A page that is touched for the first time must be found and cleared, by the
 * kernel and, in a virtual machine, by the host too: up to milliseconds for a
 * huge page, and for small ones as much in all. A thread of its own does that
 * ahead of the table, one huge page after the other, and asks for huge pages:
 * with small ones the processor spends more time on finding where a page is
 * than on what is in it.
 *
 * Pages that it has not reached in time come when they are touched, and are small;
 * so are those of the table's beginning, and all of a bulk load. It joins them afterwards,
 * one at a time and with pauses, since who touches such a page then waits until it has
 * been copied. The kernel would do the same, in minutes.
 *
 * Nothing depends on it.
 *
 * Room:      store/local, only for table_arena.
 * Threads:   one that asks; its own runs from the first wish on.
 * Ownership: table_pages_end() stops the thread, and must have returned before the
 *            memory goes; accepts a zeroed one.
 * Failure:   none; without a thread there is no help.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "sys/thread.h"

struct table_pages {
	struct thread thread;
	bool started; /* or tried to */
	pthread_mutex_t mutex;
	pthread_cond_t work;
	bool stop;    /* guarded, as what follows */
	char *behind; /* the first that may have to be joined; they end at `start` */
	char *start;  /* what is to be touched: NULL is nothing */
	size_t size;
};

/* Before anything else: what is to be joined once there has been a wish begins here. */
void table_pages_init(struct table_pages *pages, char *first);
/* These bytes, of committed memory, soon; they begin at a huge page. A wish takes
 * the place of one that was not met yet. */
void table_pages_want(struct table_pages *pages, char *start, size_t size);
/* What is here and above goes back: nothing of it is touched or joined any more, but for a
 * page that it has in hand. */
void table_pages_cut(struct table_pages *pages, char *end);
void table_pages_end(struct table_pages *pages);
