/* shared_kinds: all that store_under_test.c knows. Room: tests. */
#pragma once

#include "store_under_test.h"

extern const struct shared_kind shared_postgres, shared_redis, shared_redis_cluster;
