/*
 * http_kit: an HTTP outlet on a loop of the test's own thread, and attempts to send.
 *
 * http_kit_wait() runs the loop until nothing is under way; a test that waits longer
 * than HTTP_KIT_PATIENCE_MS fails.
 */
#pragma once

#include <stdio.h>
#include <string.h>

#include "sink/hostile.h"
#include "sink/http/http_outlet.h"
#include "support/clock_fake.h"
#include "support/test.h"

#define HTTP_KIT_PATIENCE_MS 20000
#define KIT_TICKET 123456789 /* "000003nr6nn" is its text */

struct http_kit {
	struct loop *loop;
	struct outlet *outlet;
	struct clock_fake clock;
	struct loop_timer guard;
	char url[256];
	uint32_t under_way;
	bool running;
};

static inline void http_kit_late(struct loop_timer *timer)
{
	(void)timer;
	fail_msg("%s", "the outlet does not come to an end");
}

static inline void http_kit_done(struct outlet_attempt *attempt)
{
	struct http_kit *kit = attempt->user;
	assert_true(kit->under_way > 0);
	if (--kit->under_way == 0 && kit->running)
		loop_stop(kit->loop);
}

/* A URL of the server; the options may be changed before http_kit_open(). */
static inline struct http_outlet_options http_kit_begin(struct http_kit *kit, const char *host,
                                                        uint16_t port, const char *path)
{
	memset(kit, 0, sizeof(*kit));
	assert_int_equal(loop_new(&kit->loop), 0);
	clock_fake_init(&kit->clock);
	snprintf(kit->url, sizeof(kit->url), "%s:%u%s", host, port, path);
	kit->guard.due = http_kit_late;
	return (struct http_outlet_options){
		.loop = kit->loop,
		.clock = &kit->clock.clock,
		.url = span_str(kit->url),
		.allow = { SPAN("127.0.0.0/8") },
		.allow_count = 1,
	};
}

static inline void http_kit_open(struct http_kit *kit, const struct http_outlet_options *options)
{
	struct error_text text = { "" };
	if (http_outlet_new(options, &kit->outlet, &text))
		fail_msg("%s", text.text);
}

static inline void http_kit_close(struct http_kit *kit)
{
	kit->outlet->methods->free(kit->outlet);
	loop_timer_clear(kit->loop, &kit->guard);
	loop_free(kit->loop);
}

static inline struct outlet_attempt http_kit_attempt(struct http_kit *kit)
{
	return (struct outlet_attempt){
		.ticket = KIT_TICKET,
		.event = KIT_TICKET,
		.number = 1,
		.json = true,
		.source = SPAN("shop"),
		.payload = SPAN("{\"id\":\"a1\",\"n\":{\"x\":7}}"),
		.done = http_kit_done,
		.user = kit,
	};
}

/* A chain of attempts to the same. */
static inline void http_kit_fill(struct http_kit *kit, struct outlet_attempt *attempts,
                                 size_t count)
{
	for (size_t i = 0; i < count; i++) {
		attempts[i] = http_kit_attempt(kit);
		attempts[i].next = i + 1 < count ? &attempts[i + 1] : NULL;
	}
}

static inline void http_kit_wait(struct http_kit *kit)
{
	assert_int_equal(loop_timer_set(kit->loop, &kit->guard, HTTP_KIT_PATIENCE_MS), 0);
	kit->running = true;
	if (kit->under_way > 0)
		loop_run(kit->loop);
	kit->running = false;
	loop_timer_clear(kit->loop, &kit->guard);
	assert_int_equal(kit->under_way, 0);
}

static inline void http_kit_start(struct http_kit *kit, struct outlet_attempt *chain)
{
	for (struct outlet_attempt *at = chain; at; at = at->next)
		kit->under_way++;
	kit->outlet->methods->send(kit->outlet, chain);
}

static inline const struct outlet_result *http_kit_send(struct http_kit *kit,
                                                        struct outlet_attempt *chain)
{
	http_kit_start(kit, chain);
	http_kit_wait(kit);
	return &chain->result;
}

static inline void http_kit_expect_text(const struct outlet_result *result, const char *part)
{
	char text[OUTLET_TEXT_MAX + 1];
	memcpy(text, result->text, result->text_len);
	text[result->text_len] = '\0';
	if (!strstr(text, part))
		fail_msg("expected \"%s\" in \"%s\"", part, text);
}

/* A plain server and an outlet to one of its paths. The options may be changed before
 * http_kit_open(). */
struct http_scene {
	struct hostile server;
	struct http_kit kit;
	struct http_outlet_options options;
};

static inline void http_scene_begin(struct http_scene *scene, const char *path)
{
	memset(scene, 0, sizeof(*scene));
	hostile_open(&scene->server);
	scene->options = http_kit_begin(&scene->kit, "http://127.0.0.1", scene->server.port, path);
}

static inline void http_scene_end(struct http_scene *scene)
{
	http_kit_close(&scene->kit);
	hostile_close(&scene->server);
}
