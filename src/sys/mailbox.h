/*
 * mailbox: from many threads to one, in batches.
 *
 * A sender gathers nodes in a chain of its own and posts the chain with one
 * compare-and-swap; the receiver takes everything with one exchange. Order is
 * the order of posting, and within a chain that of adding.
 *
 * The receiver is woken only when it may sleep: before it waits it calls
 * mailbox_sleep(), which marks the empty box. The first post after that finds
 * the mark and calls wake(); the others cost no system call. A receiver that
 * gets false from mailbox_sleep() has mail and must take it before it waits.
 *
 *   for (;;) {
 *           struct mailbox_node *node = mailbox_take(&box);
 *           …
 *           if (mailbox_sleep(&box))
 *                   wait until woken (or until time-out)
 *   }
 *
 * Room:      sys. Threads: mailbox_post() any; take and sleep the receiver; a
 *            chain has one owner.
 * Ownership: nodes are embedded in the caller's structs; a node is the box's
 *            from post to take.
 * Bounds:    none here: whoever posts counts what it has in flight.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"

struct mailbox_node {
	struct mailbox_node *next;
};

struct mailbox {
	/* The newest node; the lowest bit is the mark of a sleeper. */
	atomic_uintptr_t head;
	void (*wake)(void *user); /* from the poster's thread; may be NULL */
	void *user;
};

/* Newest first, so that posting only has to tie its oldest to the box's head. */
struct mailbox_chain {
	struct mailbox_node *newest;
	struct mailbox_node *oldest;
};

void mailbox_init(struct mailbox *mailbox, void (*wake)(void *user), void *user);

static inline void mailbox_chain_add(struct mailbox_chain *chain, struct mailbox_node *node)
{
	node->next = chain->newest;
	chain->newest = node;
	if (!chain->oldest)
		chain->oldest = node;
}

/* Posts all of the chain and leaves it empty. An empty chain posts nothing.
 * True when the receiver was woken. */
bool mailbox_post(struct mailbox *mailbox, struct mailbox_chain *chain);

/* As mailbox_post(), but a sleeper sleeps on and finds it when it wakes. */
void mailbox_post_quietly(struct mailbox *mailbox, struct mailbox_chain *chain);

/* All that was posted, oldest first, ended by NULL. */
struct mailbox_node *mailbox_take(struct mailbox *mailbox);

/* True: the box is empty and the next post wakes. False: there is mail. */
bool mailbox_sleep(struct mailbox *mailbox);
