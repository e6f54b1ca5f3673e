/* store_under_test: see store_under_test.h. */
#include "store_under_test.h"

#include <stdlib.h>

#include "shared_kinds.h"
#include "support/test.h"

/* One a line; NULL after the last. */
static const struct shared_kind *const shared_kinds[] = {
	&shared_postgres,
	&shared_redis,
	&shared_redis_cluster,
	NULL,
};

static const char *shared_url(void)
{
	const char *url = getenv("STILE_TEST_STORE");

	return url && *url ? url : NULL;
}

bool shared_is_asked_for(void)
{
	return shared_url() != NULL;
}

void shared_choose_tests(void)
{
	if (shared_is_asked_for())
		cmocka_set_test_filter("*_shared");
	else
		cmocka_set_skip_filter("*_shared");
}

static bool is_of_kind(const struct shared_kind *kind, struct span url)
{
	for (size_t i = 0; i < ARRAY_LEN(kind->schemes) && kind->schemes[i]; i++)
		if (span_starts(url, span_str(kind->schemes[i])))
			return true;
	return false;
}

static const struct shared_kind *shared_kind(void)
{
	struct span url = span_str(shared_url());

	for (size_t i = 0; shared_kinds[i]; i++)
		if (is_of_kind(shared_kinds[i], url))
			return shared_kinds[i];
	fail_msg("STILE_TEST_STORE: no store is known by %s", shared_url());
	return NULL;
}

void shared_wipe(void)
{
	struct error_text text = { "" };

	if (shared_kind()->wipe(shared_url(), &text) < 0)
		fail_msg("wipe: %s", text.text);
}

struct store *shared_open(const struct shared_options *options)
{
	struct shared_options whole = *options;
	struct error_text text = { "" };
	struct store *store = NULL;

	whole.url = shared_url();
	if (shared_kind()->open(&whole, &store, &text) < 0)
		fail_msg("open: %s", text.text);
	return store;
}

bool shared_has_own_numbers(void)
{
	if (!shared_is_asked_for())
		return false;
	const char *shards = strstr(shared_url(), "shards=");
	return shards ? strcmp(shards, "shards=1") != 0 : shared_kind()->own_numbers;
}
