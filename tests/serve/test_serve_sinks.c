/* Sinks that change while deliveries run: what could not be made is made later. */
#include "serve/serve_private.h"

#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/port.h"
#include "support/model_store.h"
#include "support/test.h"

static struct config *load(const char *text)
{
	struct span bytes = span_str(text);
	struct config_input input = { .path = "test.yaml", .text = &bytes };
	struct config *config = NULL;
	struct config_report report;
	assert_int_equal(config_load(&input, &config, &report), 0);
	config_report_free(&report);
	return config;
}

/* To its end; how many sinks could not be changed. */
static struct sinks_failed change(struct deliver *deliver, const struct sinks_step *step)
{
	struct sinks_change *change = NULL;
	struct sinks_failed failed;
	struct error_text text = { "" };
	assert_int_equal(serve_sinks_change(deliver, step, &change, &text), 0);
	while (serve_sinks_changing(change))
		usleep(1000);
	serve_sinks_failed(change, &failed);
	serve_sinks_change_free(change);
	return failed;
}

static void a_sink_that_could_not_be_changed_is_tried_again(void **state)
{
	(void)state;
	struct store *store = NULL;
	struct store_host *host = NULL;
	struct deliver *deliver = NULL;
	struct error_text text = { "" };
	struct config *last = load("sinks: { one: { file: /nowhere/b } }");
	struct config *next = load("sinks: { one: { file: /nowhere/c } }");
	assert_int_equal(model_store_open(&(struct model_store_options){ 0 }, &store), 0);
	assert_int_equal(store_host_new(&(struct store_host_options){ .store = store,
	                                                              .mode = STORE_HOST_THREAD },
	                                &host),
	                 0);
	struct serve_sinks_options options = { .host = host };
	assert_int_equal(serve_sinks_start(last, &options, &deliver, &text), 0);
	struct sinks_failed none = { 0 };
	/* The first allocation is the change itself, the others are of the new outlet. */
	mem_fail_at(2, true);
	struct sinks_failed failed = change(deliver, &(struct sinks_step){ last, next, &none });
	mem_fail_at(0, false);
	assert_int_equal(failed.count, 1);
	assert_int_equal(failed.ids[0], next->sinks[0].id);
	mem_fail_at(2, true);
	failed = change(deliver, &(struct sinks_step){ next, next, &failed });
	mem_fail_at(0, false);
	assert_int_equal(failed.count, 1);
	failed = change(deliver, &(struct sinks_step){ next, next, &failed });
	assert_int_equal(failed.count, 0);
	store_host_end_takes(host);
	deliver_join(deliver);
	store_host_close(host);
	deliver_free(deliver);
	store_host_free(host);
	config_free(last);
	config_free(next);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sink_that_could_not_be_changed_is_tried_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
