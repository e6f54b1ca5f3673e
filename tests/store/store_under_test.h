/*
 * store_under_test: lets the suites of stores run against one that several nodes share.
 *
 * STILE_TEST_STORE in the environment is its URL. Without it the suites run on memory
 * and disk as ever, and their tests "…_shared" are left out; with it only those run.
 * Servers are started by whoever runs the program (tests/integration).
 *
 * A kind of store adds itself as a struct shared_kind in a file of its own, listed in
 * shared_kinds[] (store_under_test.c).
 *
 * Room: tests.
 */
#pragma once

#include "base/error.h"
#include "store/store.h"
#include "sys/clock.h"

struct shared_options {
	const char *url;
	const struct clock *clock; /* stands for the clock of the server */
	uint64_t dead_keep_ms;     /* 0: the default */
};

struct shared_kind {
	const char *schemes[4]; /* "redis://", …; NULL after the last */
	/* Forgets all that is there; then a store can be opened for the first time. */
	int (*wipe)(const char *url, struct error_text *ret_text);
	int (*open)(const struct shared_options *options, struct store **ret_store,
	            struct error_text *ret_text);
	/* Tickets have other numbers than the model gives. */
	bool own_numbers;
};

bool shared_is_asked_for(void);

/* Chooses which tests of cmocka_run_group_tests() run. */
void shared_choose_tests(void);

/* Each fails the test if it cannot be done. */
void shared_wipe(void);
struct store *shared_open(const struct shared_options *options); /* its url is filled in */
bool shared_has_own_numbers(void);
