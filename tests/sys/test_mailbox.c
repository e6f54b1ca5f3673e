/* mailbox: nothing lost, nothing twice, in order, and no wake missed. */
#include "support/test.h"

#include <semaphore.h>

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

static unsigned wakes;

static void count_wake(void *user)
{
	(void)user;
	wakes++;
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
	mailbox_init(&box, NULL, NULL);
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

static void only_a_sleeper_is_woken_and_once(void **state)
{
	(void)state;
	struct mailbox box;
	struct letter letters[8];
	wakes = 0;
	mailbox_init(&box, count_wake, NULL);
	post_numbers(&box, letters, 0, 1);
	assert_int_equal(wakes, 0);
	assert_false(mailbox_sleep(&box)); /* there is mail */
	assert_non_null(mailbox_take(&box));
	assert_true(mailbox_sleep(&box));
	assert_true(mailbox_sleep(&box)); /* still asleep after a time-out */
	post_numbers(&box, letters, 1, 2);
	post_numbers(&box, letters, 2, 3);
	assert_int_equal(wakes, 1);
	assert_false(mailbox_sleep(&box));
	assert_int_equal(letter_of(mailbox_take(&box))->number, 1);
	post_numbers(&box, letters, 3, 4);
	assert_int_equal(wakes, 1);
}

static void taking_from_an_empty_box_ends_the_sleep(void **state)
{
	(void)state;
	struct mailbox box;
	struct letter letters[1];
	wakes = 0;
	mailbox_init(&box, count_wake, NULL);
	assert_true(mailbox_sleep(&box));
	assert_null(mailbox_take(&box));
	post_numbers(&box, letters, 0, 1);
	assert_int_equal(wakes, 0);
}

static void quiet_mail_does_not_use_up_the_wake(void **state)
{
	(void)state;
	struct mailbox box;
	struct letter letters[3];
	struct mailbox_chain chain = { 0 };
	wakes = 0;
	mailbox_init(&box, count_wake, NULL);
	mailbox_post_quietly(&box, &chain);
	assert_true(mailbox_sleep(&box));
	letters[0].number = 0;
	mailbox_chain_add(&chain, &letters[0].node);
	mailbox_post_quietly(&box, &chain);
	assert_int_equal(wakes, 0);
	assert_false(mailbox_sleep(&box));
	post_numbers(&box, letters, 1, 3);
	assert_int_equal(wakes, 1);
	unsigned expected = 0;
	for (struct mailbox_node *node = mailbox_take(&box); node; node = node->next)
		assert_int_equal(letter_of(node)->number, expected++);
	assert_int_equal(expected, 3);
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

static void post_semaphore(void *user)
{
	sem_post(user);
}

/* The receiver sleeps whenever it may: a lost wake would hang the test. */
static unsigned receive_all(struct mailbox *box, sem_t *woken, unsigned all)
{
	unsigned next[SENDERS] = { 0 };
	unsigned received = 0;
	while (received < all) {
		struct mailbox_node *node = mailbox_take(box);
		if (!node) {
			if (mailbox_sleep(box))
				while (sem_wait(woken) != 0)
					continue;
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
	sem_t woken;
	assert_int_equal(sem_init(&woken, 0, 0), 0);
	mailbox_init(&box, post_semaphore, &woken);
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
	assert_int_equal(receive_all(&box, &woken, SENDERS * count), SENDERS * count);
	for (unsigned i = 0; i < SENDERS; i++) {
		thread_join(&senders[i].thread);
		mem_free(senders[i].letters);
	}
	assert_null(mailbox_take(&box));
	sem_destroy(&woken);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_is_that_of_posting),
		cmocka_unit_test(only_a_sleeper_is_woken_and_once),
		cmocka_unit_test(taking_from_an_empty_box_ends_the_sleep),
		cmocka_unit_test(quiet_mail_does_not_use_up_the_wake),
		cmocka_unit_test(racing_senders_lose_nothing_and_keep_their_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
