/* flat_claims with so few bits for a place that slots are found by groups, as with many
 * millions of claims, and without vector instructions: the same tests. */
#undef __SSE2__
#define FLAT_CLAIMS_PLACE_BITS 12
#define flat_claims_new flat_claims_new_grouped
#define flat_claims_free flat_claims_free_grouped
#define flat_claims_expect flat_claims_expect_grouped
#define flat_claims_prefetch flat_claims_prefetch_grouped
#define flat_claims_prefetch_known flat_claims_prefetch_known_grouped
#define flat_claims_decide flat_claims_decide_grouped
#define flat_claims_get_stats flat_claims_get_stats_grouped
#include "../../src/cli/filter/flat_claims.c"

#include "test_flat_claims.c"
