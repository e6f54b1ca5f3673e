/* One epoll loop. See loop.h. */
#include "sys/loop.h"

#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "sys/clock.h"

#define EVENTS_MAX 512 /* per round: more only makes the first answers wait longer */

struct loop {
	int epoll_fd;
	int wake_fd;
	uint64_t now_ns;
	uint64_t round;
	struct loop_hook *hooks, *look_hooks;

	/* What the wait gave; removed handlers are set to NULL here. */
	struct epoll_event events[EVENTS_MAX];
	int event_at, event_count;
	bool again;
	unsigned gather;

	struct loop_timer **heap; /* by at_ms, then order; heap[0] is due first */
	uint32_t timer_count, timer_room;
	uint64_t timer_order;

	atomic_bool stop;
	atomic_bool woken; /* a wake is on its way: no need for another */
};

uint64_t loop_now_ns(const struct loop *loop)
{
	return loop->now_ns;
}

uint64_t loop_now_ms(const struct loop *loop)
{
	return loop->now_ns / 1000000u;
}

uint64_t loop_round(const struct loop *loop)
{
	return loop->round;
}

void loop_again(struct loop *loop)
{
	loop->again = true;
}

int loop_new(struct loop **ret_loop)
{
	struct loop *loop = mem_zalloc(1, sizeof(*loop));
	if (!loop)
		return -ENOMEM;
	loop->now_ns = clock_monotonic_ns();
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	/* The eventfd is edge-triggered and never read: each write is a new edge, and
	 * its counter would need centuries to fill. Its event has no handler. */
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.ptr = NULL };
	if (loop->epoll_fd < 0 || loop->wake_fd < 0 ||
	    epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &event) < 0) {
		int error = -errno;
		loop_free(loop);
		return error;
	}
	*ret_loop = loop;
	return 0;
}

struct loop *loop_free(struct loop *loop)
{
	if (!loop)
		return NULL;
	if (loop->wake_fd >= 0)
		close(loop->wake_fd);
	if (loop->epoll_fd >= 0)
		close(loop->epoll_fd);
	mem_free(loop->heap);
	return mem_free(loop);
}

int loop_add(struct loop *loop, struct loop_handler *handler, uint32_t events)
{
	struct epoll_event event = { .events = EPOLLRDHUP, .data.ptr = handler };
	CHECK(handler->ready);
	if (events & LOOP_READ)
		event.events |= EPOLLIN;
	if (events & LOOP_WRITE)
		event.events |= EPOLLOUT;
	if (events & LOOP_EDGE)
		event.events |= EPOLLET;
	if (!(events & LOOP_READ))
		event.events &= ~(
			uint32_t)EPOLLRDHUP; /* level-triggered, it would never be silent */
	return epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, handler->fd, &event) ? -errno : 0;
}

void loop_forget(struct loop *loop, struct loop_handler *handler)
{
	for (int i = loop->event_at; i < loop->event_count; i++)
		if (loop->events[i].data.ptr == handler)
			loop->events[i].data.ptr = NULL;
}

void loop_remove(struct loop *loop, struct loop_handler *handler)
{
	struct epoll_event unused = { 0 };
	epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, handler->fd, &unused);
	loop_forget(loop, handler);
}

static bool is_before(const struct loop_timer *a, const struct loop_timer *b)
{
	return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

static void place_timer(struct loop *loop, uint32_t at, struct loop_timer *timer)
{
	loop->heap[at] = timer;
	timer->slot = at + 1;
}

static void sift_up(struct loop *loop, uint32_t at, struct loop_timer *timer)
{
	while (at > 0 && is_before(timer, loop->heap[(at - 1) / 2])) {
		place_timer(loop, at, loop->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	place_timer(loop, at, timer);
}

static void sift_down(struct loop *loop, uint32_t at, struct loop_timer *timer)
{
	for (;;) {
		uint32_t child = 2 * at + 1;
		if (child >= loop->timer_count)
			break;
		if (child + 1 < loop->timer_count &&
		    is_before(loop->heap[child + 1], loop->heap[child]))
			child++;
		if (!is_before(loop->heap[child], timer))
			break;
		place_timer(loop, at, loop->heap[child]);
		at = child;
	}
	place_timer(loop, at, timer);
}

void loop_timer_clear(struct loop *loop, struct loop_timer *timer)
{
	if (timer->slot == 0)
		return;
	uint32_t at = timer->slot - 1;
	CHECK(at < loop->timer_count && loop->heap[at] == timer);
	struct loop_timer *last = loop->heap[--loop->timer_count];
	timer->slot = 0;
	if (last == timer)
		return;
	sift_down(loop, at, last);
	sift_up(loop, last->slot - 1, last);
}

int loop_timer_set(struct loop *loop, struct loop_timer *timer, uint64_t after_ms)
{
	CHECK(timer->due);
	loop_timer_clear(loop, timer);
	if (loop->timer_count == loop->timer_room) {
		uint32_t room = loop->timer_room ? loop->timer_room * 2 : 16;
		struct loop_timer **heap = mem_realloc(loop->heap, room * sizeof(*heap));
		if (!heap)
			return -ENOMEM;
		loop->heap = heap;
		loop->timer_room = room;
	}
	uint64_t now_ms = loop_now_ms(loop);
	timer->at_ms = after_ms < UINT64_MAX - now_ms ? now_ms + after_ms : UINT64_MAX;
	timer->order = loop->timer_order++;
	sift_up(loop, loop->timer_count++, timer);
	return 0;
}

/* A timer that is set again here has a higher order, so it waits for the next
 * round even with 0 ms. */
static void run_timers(struct loop *loop)
{
	uint64_t now_ms = loop_now_ms(loop), order = loop->timer_order;
	while (loop->timer_count > 0) {
		struct loop_timer *timer = loop->heap[0];
		if (timer->at_ms > now_ms || timer->order >= order)
			return;
		loop_timer_clear(loop, timer);
		timer->due(timer);
	}
}

static void append_hook(struct loop_hook **at, struct loop_hook *hook)
{
	while (*at)
		at = &(*at)->next;
	hook->next = NULL;
	*at = hook;
}

static void drop_hook(struct loop_hook **at, const struct loop_hook *hook)
{
	while (*at && *at != hook)
		at = &(*at)->next;
	if (*at)
		*at = hook->next;
}

static void run_hooks(struct loop_hook *hooks)
{
	for (struct loop_hook *hook = hooks; hook; hook = hook->next)
		hook->round(hook);
}

void loop_hook_add(struct loop *loop, struct loop_hook *hook)
{
	append_hook(&loop->hooks, hook);
}

void loop_look_hook_add(struct loop *loop, struct loop_hook *hook)
{
	append_hook(&loop->look_hooks, hook);
}

void loop_hook_remove(struct loop *loop, struct loop_hook *hook)
{
	drop_hook(&loop->hooks, hook);
	drop_hook(&loop->look_hooks, hook);
}

static int wait_ms(const struct loop *loop)
{
	if (loop->again)
		return 0;
	if (loop->timer_count == 0)
		return -1;
	uint64_t at_ms = loop->heap[0]->at_ms, now_ms = loop_now_ms(loop);
	if (at_ms <= now_ms)
		return 0;
	return at_ms - now_ms > 60000 ? 60000 : (int)(at_ms - now_ms);
}

static void take_events(struct loop *loop, int timeout_ms)
{
	int n = epoll_wait(loop->epoll_fd, loop->events, EVENTS_MAX, timeout_ms);
	CHECK(n >= 0 || errno == EINTR);
	loop->event_count = n > 0 ? n : 0;
	loop->event_at = 0;
}

static uint32_t events_of(uint32_t reported)
{
	uint32_t events = 0;
	if (reported & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		events |= LOOP_READ;
	if (reported & (EPOLLOUT | EPOLLERR))
		events |= LOOP_WRITE;
	if (reported & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		events |= LOOP_HANGUP;
	return events;
}

static void run_handlers(struct loop *loop)
{
	while (loop->event_at < loop->event_count) {
		struct epoll_event *event = &loop->events[loop->event_at++];
		struct loop_handler *handler = event->data.ptr;
		if (loop->event_at < loop->event_count)
			__builtin_prefetch(loop->events[loop->event_at].data.ptr);
		if (handler)
			handler->ready(handler, events_of(event->events));
		else /* the eventfd, or a removed handler, where a second wake does no harm. An
		      * exchange and not a store: the hooks of this round must see what a
		      * waker wrote before it found the flag set. */
			atomic_exchange_explicit(&loop->woken, false, memory_order_acq_rel);
	}
	run_hooks(loop->look_hooks);
}

void loop_run(struct loop *loop)
{
	while (!atomic_load_explicit(&loop->stop, memory_order_acquire)) {
		int timeout_ms = wait_ms(loop);
		loop->again = false;
		take_events(loop, timeout_ms);
		loop->now_ns = clock_monotonic_ns();
		loop->round++;
		run_handlers(loop);
		for (unsigned i = 0; i < loop->gather && loop->event_count > 0; i++) {
			take_events(loop, 0);
			run_handlers(loop);
		}
		run_timers(loop);
		run_hooks(loop->hooks);
	}
	atomic_store_explicit(&loop->stop, false, memory_order_relaxed);
}

void loop_gather(struct loop *loop, unsigned times)
{
	loop->gather = times;
}

void loop_stop(struct loop *loop)
{
	atomic_store_explicit(&loop->stop, true, memory_order_release);
	loop_wake(loop);
}

void loop_wake(struct loop *loop)
{
	uint64_t one = 1;
	if (atomic_exchange_explicit(&loop->woken, true, memory_order_acq_rel))
		return;
	ssize_t n = write(loop->wake_fd, &one, sizeof(one));
	(void)n; /* fails only when the counter is full, and then an edge is due anyway */
}
