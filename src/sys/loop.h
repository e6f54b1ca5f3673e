/*
 * loop: one epoll loop. Readiness in, callbacks out, then one hook per round.
 *
 * A round is: wait; run every ready handler, then the look hooks (and look for
 * more, with loop_gather()); run due timers; run the round hooks in the order they
 * were added. The hooks are where work that was gathered is done together: what a
 * look has found (one system call that receives), what the round has (one commit,
 * then the answers).
 *
 * Room:    sys. Threads: one owner; loop_wake() and loop_stop() from any thread.
 * Memory:  handlers and timers are embedded in the caller's structs; the loop
 *          never frees them. A handler may remove itself or another in the
 *          same round: a removed handler is not called any more.
 * Failure: only what allocates or makes a descriptor can fail (-errno).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"

struct loop;

enum loop_events {
	LOOP_READ = 1,
	LOOP_WRITE = 2,
	LOOP_EDGE = 4,   /* asked for: report changes only */
	LOOP_HANGUP = 8, /* reported: the peer has ended its side, or an error waits */
};

struct loop_handler {
	void (*ready)(struct loop_handler *handler,
	              uint32_t events); /* LOOP_READ is set on hang-up too */
	int fd;
};

/* One timer; set again from its own callback to repeat. 0 ms runs next round. */
struct loop_timer {
	void (*due)(struct loop_timer *timer);
	uint64_t at_ms; /* the loop's */
	uint64_t order; /* the loop's: among equals, the one set first runs first */
	uint32_t slot;  /* the loop's: 1 + place in its heap, 0 is not set */
};

struct loop_hook {
	void (*round)(struct loop_hook *hook);
	struct loop_hook *next; /* the loop's */
};

int loop_new(struct loop **ret_loop) must_check;
struct loop *loop_free(struct loop *loop);

int loop_add(struct loop *loop, struct loop_handler *handler, uint32_t events) must_check;
void loop_remove(struct loop *loop, struct loop_handler *handler);

/* As loop_remove(), without the system call: for a caller that closes the
 * descriptor next, which takes it out of the kernel's set by itself. */
void loop_forget(struct loop *loop, struct loop_handler *handler);

int loop_timer_set(struct loop *loop, struct loop_timer *timer, uint64_t after_ms) must_check;
void loop_timer_clear(struct loop *loop, struct loop_timer *timer);

void loop_hook_add(struct loop *loop, struct loop_hook *hook);
void loop_look_hook_add(struct loop *loop, struct loop_hook *hook);
void loop_hook_remove(struct loop *loop,
                      struct loop_hook *hook); /* of either kind; from inside a hook not itself */

/* clock_monotonic_ns() of the current round, read once after the wait. */
uint64_t loop_now_ns(const struct loop *loop);
uint64_t loop_now_ms(const struct loop *loop);

/* A round that found work looks for more, without waiting, up to `times` times before its
 * timers and hooks run (0 unless set): for hooks that cost the same
 * for much work as for little, such as a commit. */
void loop_gather(struct loop *loop, unsigned times);

/* How many rounds there were, with the current one. */
uint64_t loop_round(const struct loop *loop);

/* Owner: the next round does not wait, because there is work without a ready descriptor. */
void loop_again(struct loop *loop);

void loop_run(struct loop *loop);  /* until loop_stop() */
void loop_stop(struct loop *loop); /* any thread; the round is finished */
void loop_wake(struct loop *loop); /* any thread: the next round starts at once */
