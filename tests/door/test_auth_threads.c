/* auth: io threads share one; none may disturb another's check. */
#include <pthread.h>

#include "door/auth_kit.h"

#define THREADS 4

static struct auth *auth;

/* Right and wrong in turn, so that a code that got mixed up is seen. */
static void *check_many(void *user)
{
	static const char line[] =
		"X-Hub-Signature-256: "
		"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17\r\n";
	struct auth_kit *kit = user;
	uintptr_t wrong = 0;
	uint64_t count = test_scale(2000);
	auth_kit_request(kit, "/in/github", line, SPAN("Hello, World!"));
	for (uint64_t i = 0; i < count; i++) {
		kit->request.body = i % 3 ? SPAN("Hello, World!") : SPAN("Hello, World?");
		enum auth_result expected = i % 3 ? AUTH_OK : AUTH_WRONG;
		wrong += auth_check(auth, &kit->request, &kit->why) != expected;
	}
	return (void *)wrong; /* cmocka's assertions are for the first thread only */
}

static void threads_share_an_auth(void **state)
{
	(void)state;
	static struct auth_kit kits[THREADS];
	pthread_t threads[THREADS];
	struct auth_spec spec = { .kind = AUTH_GITHUB,
		                  .secret_count = 2,
		                  .secrets = { SPAN("a wrong secret, long enough"),
		                               SPAN("It's a Secret to Everybody") } };
	auth = auth_kit_make(&spec);
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, check_many, &kits[i]), 0);
	for (size_t i = 0; i < THREADS; i++) {
		void *wrong;
		assert_int_equal(pthread_join(threads[i], &wrong), 0);
		assert_null(wrong);
	}
	auth_free(auth);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_share_an_auth),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
