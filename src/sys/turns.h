/*
 * turns: one thread at a time, in the order in which they came.
 *
 * A mutex may be had again by the thread that lets it go, before one that was woken by
 * that gets to run: where both share a core, and the first sleeps only while it holds the
 * mutex, the other would wait for long. Here whoever is next has it.
 *
 * For what is better done one after the other, and need not be: nobody waits longer than
 * it says.
 *
 * Room:      sys. Threads: any.
 * Ownership: the struct is the caller's, who makes it with TURNS_INIT.
 * Failure:   none.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"

struct turns_guest;

struct turns {
	pthread_mutex_t mutex; /* guards what follows */
	bool taken;
	struct turns_guest *first; /* of those who wait */
	uint32_t waiting;          /* how many they are */
};

/* clang-format off */
#define TURNS_INIT { .mutex = PTHREAD_MUTEX_INITIALIZER }
/* clang-format on */

/* Waits for all who came before. False: not within that time, so it is nobody's turn. */
bool turns_take(struct turns *turns, int limit_ms) must_check;
/* By whoever has it. */
void turns_give(struct turns *turns);
