/*
 * check: assertions that stay on in release, and the words of the compiler.
 *
 * CHECK() is for what only a bug of ours can break. Input, bytes from disk and
 * peers never reach it: they get an error (error.h).
 *
 * Room: base. Failure: prints file, line and condition, then aborts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define must_check __attribute__((warn_unused_result))
#define printf_like(fmt, args) __attribute__((format(printf, fmt, args)))
#define no_return __attribute__((noreturn))

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* The struct that holds this member. */
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#define CHECK(condition)                                              \
	do {                                                          \
		if (unlikely(!(condition)))                           \
			check_failed(__FILE__, __LINE__, #condition); \
	} while (0)

no_return void check_failed(const char *file, int line, const char *condition);
