/*
 * descriptors: how many this process may have open.
 *
 * Room: sys. Threads: start-up only.
 */
#pragma once

#include <stdint.h>

/* Raises the soft limit to the hard one, and tells what it is then. A limit that
 * cannot be raised is told as it is. */
uint64_t descriptors_raise_limit(void);
