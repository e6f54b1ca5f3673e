/* stream: see stream.h. */
#include "sys/stream.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
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

int stream_write(int fd, struct iovec *parts, int count)
{
	CHECK(count >= 0 && count <= STREAM_PARTS_MAX);
	while (count > 0) {
		ssize_t n = writev(fd, parts, count);
		if (n < 0 && !wait_again(fd, POLLOUT))
			return -errno;
		size_t left = n > 0 ? (size_t)n : 0;
		while (count > 0 && left >= parts->iov_len) {
			left -= parts->iov_len;
			parts++;
			count--;
		}
		if (count > 0) {
			parts->iov_base = (char *)parts->iov_base + left;
			parts->iov_len -= left;
		}
	}
	return 0;
}

int stream_write_span(int fd, struct span bytes)
{
	struct iovec part = { (void *)(uintptr_t)bytes.ptr, bytes.len };
	return bytes.len > 0 ? stream_write(fd, &part, 1) : 0;
}

uint64_t stream_size(int fd)
{
	struct stat stat;
	if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode))
		return 0;
	off_t at = lseek(fd, 0, SEEK_CUR);
	return at >= 0 && stat.st_size > at ? (uint64_t)(stat.st_size - at) : 0;
}

bool stream_is_terminal(int fd)
{
	return isatty(fd) == 1;
}

void stream_ignore_broken_pipes(void)
{
	signal(SIGPIPE, SIG_IGN);
}
