/*
 * banned: functions that no line of stile may call. The build includes this
 * file before every source.
 *
 * They write without a bound, keep hidden state or cannot report an error. Use
 * snprintf(), memcpy() with a known length, buf.h and text.h.
 *
 * Room: base.
 */
#pragma once

/* Their own declarations must have been seen before the names are poisoned. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* clang's fortified headers define these as macros. */
#undef sprintf
#undef vsprintf

#pragma GCC poison strcpy stpcpy strcat strncpy strncat sprintf vsprintf gets
#pragma GCC poison strtok atoi atol atoll atof
#pragma GCC poison asctime ctime gmtime localtime
