/*
 * place: where a test of stores happens: one of the stores, and a clock that the test
 * turns. ON_ALL(test) is the test on each of them.
 *
 * Room: tests.
 */
#pragma once

#include "store_under_test.h"
#include "support/clock_fake.h"
#include "support/simfs.h"
#include "support/store_calls.h"
#include "support/test.h"

#define PLACE_DEAD_KEEP_MS 100000u

struct place {
	struct clock_fake clock;
	struct simfs *simfs; /* NULL: not the local store */
	bool shared;         /* nor the model */
	struct store *store;
	uint64_t retain_ms; /* of the local store, from the next restart on; 0: long */
	struct take_call call;
	uint64_t keys; /* how many the test has made */
};

extern struct place place;

int place_in_memory(void **state);
int place_on_disk(void **state);
int place_shared(void **state);
int place_end(void **state);

/* The process is killed, and the next knows what this one did: what it says comes from
 * the disk. Leases and waits are gone. A shared store is closed and opened again. */
void place_restart(void);

#define PLACE_TEST(test, where)                                        \
	{                                                              \
#test "_" #where, test, place_##where, place_end, NULL \
	}
#define IN_MEMORY(test) PLACE_TEST(test, in_memory)
#define ON_DISK(test) PLACE_TEST(test, on_disk)
#define SHARED(test) PLACE_TEST(test, shared)
#define ON_ALL(test) IN_MEMORY(test), ON_DISK(test), SHARED(test)
