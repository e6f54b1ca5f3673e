/* stream: see stream.h. */
#include "sys/stream.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

/* True: the call is worth repeating. */
static bool wait_again(int fd, short events)
{
	struct pollfd poll_fd = { .fd = fd, .events = events };
	if (errno == EINTR)
		return true;
	if (errno != EAGAIN)
		return false;
	return poll(&poll_fd, 1, -1) >= 0 || errno == EINTR;
}

int64_t stream_read(int fd, void *ptr, size_t len)
{
	for (;;) {
		ssize_t n = read(fd, ptr, len);
		if (n >= 0)
			return n;
		if (!wait_again(fd, POLLIN))
			return -errno;
	}
}

int stream_write(int fd, struct span bytes)
{
	while (bytes.len > 0) {
		ssize_t n = write(fd, bytes.ptr, bytes.len);
		if (n < 0 && !wait_again(fd, POLLOUT))
			return -errno;
		bytes = span_skip(bytes, n > 0 ? (size_t)n : 0);
	}
	return 0;
}

bool stream_is_terminal(int fd)
{
	return isatty(fd) == 1;
}

void stream_ignore_broken_pipes(void)
{
	signal(SIGPIPE, SIG_IGN);
}
