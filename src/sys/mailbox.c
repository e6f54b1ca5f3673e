/*
 * mailbox: see mailbox.h.
 *
 * Memory order: a post releases what the sender wrote into its nodes, a take
 * acquires it. The mark shares the word with the list, so "it was empty" and
 * "I go to sleep" are one step, and no wake can fall between them.
 */
#include "sys/mailbox.h"

#define SLEEPS ((uintptr_t)1)

static struct mailbox_node *node_of(uintptr_t head)
{
	return (struct mailbox_node *)(head & ~SLEEPS);
}

void mailbox_init(struct mailbox *mailbox, void (*wake)(void *user), void *user)
{
	atomic_init(&mailbox->head, 0);
	mailbox->wake = wake;
	mailbox->user = user;
}

/* Puts the chain before what is there. `keep` are the bits of the old head that
 * stay; returns the old head. */
static uintptr_t push(struct mailbox *mailbox, struct mailbox_chain *chain, uintptr_t keep)
{
	uintptr_t newest = (uintptr_t)chain->newest;
	struct mailbox_node *oldest = chain->oldest;
	CHECK((newest & SLEEPS) == 0);
	*chain = (struct mailbox_chain){ NULL, NULL };

	uintptr_t head = atomic_load_explicit(&mailbox->head, memory_order_relaxed);
	do
		oldest->next = node_of(head);
	while (!atomic_compare_exchange_weak_explicit(&mailbox->head, &head, newest | (head & keep),
	                                              memory_order_release, memory_order_relaxed));
	return head;
}

bool mailbox_post(struct mailbox *mailbox, struct mailbox_chain *chain)
{
	if (!chain->newest)
		return false;
	uintptr_t before = push(mailbox, chain, 0);
	if (!(before & SLEEPS) || !mailbox->wake)
		return false;
	mailbox->wake(mailbox->user);
	return true;
}

void mailbox_post_quietly(struct mailbox *mailbox, struct mailbox_chain *chain)
{
	if (chain->newest)
		push(mailbox, chain, SLEEPS);
}

struct mailbox_node *mailbox_take(struct mailbox *mailbox)
{
	/* Most rounds find nothing: a load is cheaper than an exchange. */
	if (atomic_load_explicit(&mailbox->head, memory_order_relaxed) == 0)
		return NULL;
	struct mailbox_node *node = node_of(
		atomic_exchange_explicit(&mailbox->head, 0, memory_order_acquire));
	struct mailbox_node *oldest_first = NULL;
	while (node) {
		struct mailbox_node *next = node->next;
		node->next = oldest_first;
		oldest_first = node;
		node = next;
	}
	return oldest_first;
}

bool mailbox_sleep(struct mailbox *mailbox)
{
	uintptr_t head = 0;
	if (atomic_compare_exchange_strong_explicit(&mailbox->head, &head, SLEEPS,
	                                            memory_order_relaxed, memory_order_relaxed))
		return true;
	return head == SLEEPS;
}
