/*
 * mailbox: from many threads to one, in batches.
 *
 * A sender gathers nodes in a chain of its own and posts the chain with one
 * compare-and-swap; the receiver takes everything with one exchange. Order is
 * the order of posting, and within a chain that of adding. Posting does not wake the receiver:
 * the caller does that.
 *
 * Room:      sys. Threads: mailbox_post() any; mailbox_take() the receiver; a
 *            chain has one owner.
 * Ownership: nodes are embedded in the caller's structs; a node is the box's
 *            from post to take.
 * Bounds:    none here: the sender limits what it has in flight.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>

#include "base/check.h"

struct mailbox_node {
	struct mailbox_node *next;
};

struct mailbox {
	_Atomic(struct mailbox_node *) newest;
};

/* Newest first, so that posting only has to tie its oldest to the box's newest. */
struct mailbox_chain {
	struct mailbox_node *newest;
	struct mailbox_node *oldest;
};

void mailbox_init(struct mailbox *mailbox);

static inline void mailbox_chain_add(struct mailbox_chain *chain, struct mailbox_node *node)
{
	node->next = chain->newest;
	chain->newest = node;
	if (!chain->oldest)
		chain->oldest = node;
}

/* Posts all of the chain and leaves it empty. An empty chain posts nothing. */
void mailbox_post(struct mailbox *mailbox, struct mailbox_chain *chain);

/* All that was posted, oldest first, ended by NULL. */
struct mailbox_node *mailbox_take(struct mailbox *mailbox);
