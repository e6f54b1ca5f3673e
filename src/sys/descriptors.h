/*
 * descriptors: the limit of open files of this process.
 *
 * Room: sys. Threads: start-up only.
 */
#pragma once

#include <stdint.h>

/* Raises the soft limit to the hard one and returns the limit that is then in force. */
uint64_t descriptors_raise_limit(void);
