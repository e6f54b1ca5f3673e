/*
 * http_sockets: libcurl's sockets and time on our loop. See http_internal.h.
 *
 * libcurl stops to wait for a connection that goes back to its pool and waits anew
 * when the next request takes it. The loop is not told of that: it goes on waiting for
 * something to read, and only when something comes that nobody wants (the peer closes
 * an idle connection) is the socket taken out. That saves two system calls a request.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "sink/http/http_internal.h"

static void tell_results(struct http_outlet *outlet)
{
	CURLMsg *message;
	int left;
	outlet->busy = true;
	while ((message = curl_multi_info_read(outlet->multi, &left))) {
		struct http_transfer *transfer = NULL;
		if (message->msg != CURLMSG_DONE)
			continue;
		CURLcode code = message->data.result;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
		http_outlet_finish(transfer, code);
	}
	outlet->busy = false;
}

/* Twice at most: results may have led to new requests, and so on for ever. What is
 * left begins with libcurl's timer. */
void http_sockets_run(struct http_outlet *outlet)
{
	for (int i = 0; i < 2 && outlet->added && !outlet->busy; i++) {
		int running;
		outlet->added = false;
		curl_multi_socket_action(outlet->multi, CURL_SOCKET_TIMEOUT, 0, &running);
		tell_results(outlet);
	}
}

static void ready(struct loop_handler *handler, uint32_t events)
{
	struct http_watch *watch = container_of(handler, struct http_watch, handler);
	struct http_outlet *outlet = watch->outlet;
	int action = 0;
	int running;
	if (watch->wanted == 0) {
		loop_remove(outlet->loop, handler);
		watch->added = 0;
		return;
	}
	if (events & LOOP_READ)
		action |= CURL_CSELECT_IN;
	if (events & LOOP_WRITE)
		action |= CURL_CSELECT_OUT;
	curl_multi_socket_action(outlet->multi, handler->fd, action, &running);
	tell_results(outlet);
	http_sockets_run(outlet);
}

/* The watch of a descriptor; NULL: no memory. */
static struct http_watch *find_watch(struct http_outlet *outlet, int fd)
{
	size_t at = (size_t)fd;
	if (at >= outlet->watch_room) {
		size_t room = at + 64;
		struct http_watch **watches = mem_realloc(outlet->watches,
		                                          room * sizeof(struct http_watch *));
		if (!watches)
			return NULL;
		for (size_t i = outlet->watch_room; i < room; i++)
			watches[i] = NULL;
		outlet->watches = watches;
		outlet->watch_room = room;
	}
	if (!outlet->watches[at]) {
		struct http_watch *watch = mem_zalloc(1, sizeof(*watch));
		if (!watch)
			return NULL;
		watch->outlet = outlet;
		watch->handler = (struct loop_handler){ .ready = ready, .fd = fd };
		outlet->watches[at] = watch;
	}
	return outlet->watches[at];
}

static int wait_for(struct http_watch *watch, uint32_t wanted)
{
	struct loop *loop = watch->outlet->loop;
	watch->wanted = wanted;
	bool idle = wanted == 0 && watch->ours && watch->added == LOOP_READ;
	if (idle || wanted == watch->added)
		return 0;
	if (watch->added)
		loop_remove(loop, &watch->handler);
	watch->added = wanted;
	int error = wanted ? loop_add(loop, &watch->handler, wanted) : 0;
	if (error)
		watch->added = 0;
	return error;
}

/* Returning -1 ends all transfers of the multi handle: what has been asked for cannot
 * be waited for. */
static int socket_changed(CURL *easy, curl_socket_t fd, int what, void *user, void *unused)
{
	(void)easy;
	(void)unused;
	uint32_t wanted = 0;
	if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
		wanted |= LOOP_READ;
	if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
		wanted |= LOOP_WRITE;
	struct http_watch *watch = find_watch(user, fd);
	return watch && wait_for(watch, wanted) == 0 ? 0 : -1;
}

static void set_timer(struct http_outlet *outlet, uint64_t after_ms)
{
	/* Never early: libcurl would find nothing due, and not ask again. */
	uint64_t behind_ns = clock_monotonic_ns() - loop_now_ns(outlet->loop);
	uint64_t more_ms = after_ms ? behind_ns / 1000000 + 1 : 0;
	outlet->timer_owed = loop_timer_set(outlet->loop, &outlet->timer, after_ms + more_ms) != 0;
	if (outlet->timer_owed)
		loop_again(outlet->loop);
}

static int timer_changed(CURLM *multi, long after_ms, void *user)
{
	struct http_outlet *outlet = user;
	(void)multi;
	if (after_ms < 0)
		loop_timer_clear(outlet->loop, &outlet->timer);
	else
		set_timer(outlet, (uint64_t)after_ms);
	return 0;
}

static void timer_due(struct loop_timer *timer)
{
	struct http_outlet *outlet = container_of(timer, struct http_outlet, timer);
	long after_ms = -1;
	outlet->added = true;
	http_sockets_run(outlet);
	if (timer->slot == 0 && curl_multi_timeout(outlet->multi, &after_ms) == CURLM_OK &&
	    after_ms >= 0)
		set_timer(outlet, (uint64_t)after_ms);
}

int http_sockets_open(struct http_outlet *outlet)
{
	outlet->timer.due = timer_due;
	outlet->multi = curl_multi_init();
	if (!outlet->multi)
		return -ENOMEM;
	curl_multi_setopt(outlet->multi, CURLMOPT_SOCKETFUNCTION, socket_changed);
	curl_multi_setopt(outlet->multi, CURLMOPT_SOCKETDATA, outlet);
	curl_multi_setopt(outlet->multi, CURLMOPT_TIMERFUNCTION, timer_changed);
	curl_multi_setopt(outlet->multi, CURLMOPT_TIMERDATA, outlet);
	curl_multi_setopt(outlet->multi, CURLMOPT_MAXCONNECTS, 1024L);
	return 0;
}

void http_sockets_close(struct http_outlet *outlet)
{
	if (outlet->multi)
		curl_multi_cleanup(outlet->multi);
	outlet->multi = NULL;
	loop_timer_clear(outlet->loop, &outlet->timer);
	for (size_t i = 0; i < outlet->watch_room; i++) {
		struct http_watch *watch = outlet->watches[i];
		if (watch && watch->added)
			loop_remove(outlet->loop, &watch->handler);
		mem_free(watch);
	}
	outlet->watches = mem_free(outlet->watches);
	outlet->watch_room = 0;
}

curl_socket_t http_socket_new(struct http_outlet *outlet, const struct curl_sockaddr *address)
{
	int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
	if (fd < 0)
		return CURL_SOCKET_BAD;
	struct http_watch *watch = find_watch(outlet, fd);
	if (!watch) {
		close(fd);
		return CURL_SOCKET_BAD;
	}
	watch->wanted = watch->added = 0;
	watch->ours = true;
	return fd;
}

int http_socket_end(void *user, curl_socket_t fd)
{
	struct http_outlet *outlet = user;
	struct http_watch *watch = (size_t)fd < outlet->watch_room ? outlet->watches[fd] : NULL;
	if (watch) {
		loop_forget(outlet->loop, &watch->handler);
		watch->wanted = watch->added = 0;
		watch->ours = false;
	}
	return close(fd);
}
