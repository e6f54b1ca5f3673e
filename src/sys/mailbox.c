/*
 * mailbox: see mailbox.h.
 *
 * Memory order: a post releases what the sender wrote into its nodes, a take
 * acquires it.
 */
#include "sys/mailbox.h"

void mailbox_init(struct mailbox *mailbox)
{
	atomic_init(&mailbox->newest, NULL);
}

void mailbox_post(struct mailbox *mailbox, struct mailbox_chain *chain)
{
	struct mailbox_node *newest = chain->newest, *oldest = chain->oldest;
	if (!newest)
		return;
	*chain = (struct mailbox_chain){ NULL, NULL };
	struct mailbox_node *head = atomic_load_explicit(&mailbox->newest, memory_order_relaxed);
	do
		oldest->next = head;
	while (!atomic_compare_exchange_weak_explicit(&mailbox->newest, &head, newest,
	                                              memory_order_release, memory_order_relaxed));
}

struct mailbox_node *mailbox_take(struct mailbox *mailbox)
{
	/* Most rounds find nothing: a load is cheaper than an exchange. */
	if (!atomic_load_explicit(&mailbox->newest, memory_order_relaxed))
		return NULL;
	struct mailbox_node *node = atomic_exchange_explicit(&mailbox->newest, NULL,
	                                                     memory_order_acquire);
	struct mailbox_node *oldest_first = NULL;
	while (node) {
		struct mailbox_node *next = node->next;
		node->next = oldest_first;
		oldest_first = node;
		node = next;
	}
	return oldest_first;
}
