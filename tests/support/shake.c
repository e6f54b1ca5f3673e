/*
 * shake: a library that a gateway under test is started with (LD_PRELOAD). Its calls
 * into the system sometimes take longer, before and after, so that threads, peers and
 * the test come by in orders that a quiet machine hardly ever shows.
 *
 * Nothing is lost or changed by it, and no limit of a test is as short as what it adds:
 * what fails under it alone takes some order for granted, be it the gateway or the test.
 *
 * Room: tests. Threads: any. Used by `tools/run-tests shaken`.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* In thousandths of all calls, and for how long at most. */
#define SHORT_PERMILLE 150u
#define SHORT_NS 3000000u
#define LONG_PERMILLE 25u
#define LONG_NS 45000000u

static _Thread_local uint64_t state; /* of a thread's draws; never 0 once there is one */

static uint64_t draw(void)
{
	struct timespec now;

	if (state == 0) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		state = 1 | ((uint64_t)now.tv_nsec << 32) | ((uint64_t)gettid() << 1);
	}
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void shake(void)
{
	uint64_t drawn = draw();
	uint64_t permille = (drawn >> 8) % 1000;
	uint64_t most = permille < LONG_PERMILLE                    ? LONG_NS
	                : permille < LONG_PERMILLE + SHORT_PERMILLE ? SHORT_NS
	                                                            : 0;
	int error = errno;

	if (most > 0)
		nanosleep(&(struct timespec){ .tv_nsec = (long)((drawn >> 32) % most) }, NULL);
	errno = error;
}

static void find_next(const char *name, void *ret_call)
{
	void *found = dlsym(RTLD_NEXT, name); /* which ISO C makes no function of */

	memcpy(ret_call, &found, sizeof(found));
}

/* The call of that name, shaken. */
#define SHAKEN(type, name, parameters, arguments)                   \
	__attribute__((visibility("default"))) type name parameters \
	{                                                           \
		static _Atomic(type(*) parameters) next;            \
		type(*call) parameters = next;                      \
                                                                    \
		if (!call) {                                        \
			find_next(#name, &call);                    \
			next = call;                                \
		}                                                   \
		shake();                                            \
		type result = call arguments;                       \
		shake();                                            \
		return result;                                      \
	}

SHAKEN(int, epoll_wait, (int fd, struct epoll_event *events, int count, int ms),
       (fd, events, count, ms))
SHAKEN(int, poll, (struct pollfd * fds, nfds_t count, int ms), (fds, count, ms))
SHAKEN(ssize_t, recv, (int fd, void *bytes, size_t size, int flags), (fd, bytes, size, flags))
SHAKEN(ssize_t, send, (int fd, const void *bytes, size_t size, int flags), (fd, bytes, size, flags))
SHAKEN(ssize_t, write, (int fd, const void *bytes, size_t size), (fd, bytes, size))
SHAKEN(ssize_t, writev, (int fd, const struct iovec *pieces, int count), (fd, pieces, count))
SHAKEN(ssize_t, pwrite64, (int fd, const void *bytes, size_t size, off64_t offset),
       (fd, bytes, size, offset))
SHAKEN(ssize_t, pwritev64v2,
       (int fd, const struct iovec *pieces, int count, off64_t offset, int flags),
       (fd, pieces, count, offset, flags))
SHAKEN(int, fdatasync, (int fd), (fd))
SHAKEN(int, fsync, (int fd), (fd))
