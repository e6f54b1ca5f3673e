/* mailbox: nothing lost, nothing twice, in order. */
#include "support/test.h"

#include <sched.h>

#include "base/mem.h"
#include "sys/mailbox.h"
#include "sys/thread.h"

struct letter {
	struct mailbox_node node;
	unsigned sender;
	unsigned number;
};

static struct letter *letter_of(struct mailbox_node *node)
{
	return container_of(node, struct letter, node);
}

static void post_numbers(struct mailbox *box, struct letter *letters, unsigned from, unsigned to)
{
	struct mailbox_chain chain = { 0 };
	for (unsigned i = from; i < to; i++) {
		letters[i].number = i;
		mailbox_chain_add(&chain, &letters[i].node);
	}
	mailbox_post(box, &chain);
	assert_null(chain.newest);
	assert_null(chain.oldest);
}

static void order_is_that_of_posting(void **state)
{
	(void)state;
	struct mailbox box;
	struct letter letters[10];
	mailbox_init(&box);
	assert_null(mailbox_take(&box));
	post_numbers(&box, letters, 0, 3);
	post_numbers(&box, letters, 3, 3);
	post_numbers(&box, letters, 3, 4);
	post_numbers(&box, letters, 4, 10);
	unsigned expected = 0;
	for (struct mailbox_node *node = mailbox_take(&box); node; node = node->next)
		assert_int_equal(letter_of(node)->number, expected++);
	assert_int_equal(expected, 10);
	assert_null(mailbox_take(&box));
}

enum { SENDERS = 3 };

struct sender {
	struct mailbox *box;
	struct letter *letters;
	unsigned count;
	unsigned index;
	struct thread thread;
};

static void send_all(void *user)
{
	struct sender *sender = user;
	uint64_t seed = test_seed() + sender->index;
	unsigned next = 0;
	while (next < sender->count) {
		struct mailbox_chain chain = { 0 };
		unsigned batch = 1 + (unsigned)test_random_below(&seed, 7);
		for (; batch > 0 && next < sender->count; batch--, next++) {
			sender->letters[next].sender = sender->index;
			sender->letters[next].number = next;
			mailbox_chain_add(&chain, &sender->letters[next].node);
		}
		mailbox_post(sender->box, &chain);
	}
}

static unsigned receive_all(struct mailbox *box, unsigned all)
{
	unsigned next[SENDERS] = { 0 };
	unsigned received = 0;
	while (received < all) {
		struct mailbox_node *node = mailbox_take(box);
		if (!node) {
			sched_yield();
			continue;
		}
		for (; node; node = node->next, received++) {
			struct letter *letter = letter_of(node);
			assert_int_equal(letter->number, next[letter->sender]);
			next[letter->sender]++;
		}
	}
	return received;
}

static void racing_senders_lose_nothing_and_keep_their_order(void **state)
{
	(void)state;
	const unsigned count = (unsigned)test_scale(20000);
	struct mailbox box;
	struct sender senders[SENDERS];
	mailbox_init(&box);
	for (unsigned i = 0; i < SENDERS; i++) {
		senders[i] = (struct sender){ .box = &box, .count = count, .index = i };
		senders[i].letters = mem_zalloc(count, sizeof(struct letter));
		assert_non_null(senders[i].letters);
		struct thread_options options = { .name = "sender",
			                          .cpu = THREAD_ANY_CPU,
			                          .run = send_all,
			                          .user = &senders[i] };
		assert_int_equal(thread_start(&senders[i].thread, &options), 0);
	}
	assert_int_equal(receive_all(&box, SENDERS * count), SENDERS * count);
	for (unsigned i = 0; i < SENDERS; i++) {
		thread_join(&senders[i].thread);
		mem_free(senders[i].letters);
	}
	assert_null(mailbox_take(&box));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_is_that_of_posting),
		cmocka_unit_test(racing_senders_lose_nothing_and_keep_their_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
