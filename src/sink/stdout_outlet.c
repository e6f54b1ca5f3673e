/* stdout_outlet: see stdout_outlet.h. */
#include "sink/stdout_outlet.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"

/*
 * An interrupt must never wait for a stuck reader, and the descriptor is shared with the
 * process that started us, so it must not become non-blocking. Therefore each write has a
 * flag not to block. Where the kernel cannot do that for a pipe, small pieces are written: a
 * pipe that poll() reports as writable takes PIPE_BUF bytes without blocking.
 */
enum write_way {
	WRITE_WHOLE,  /* a file: never blocks on a reader */
	WRITE_NOWAIT, /* RWF_NOWAIT */
	WRITE_PIECES,
};

#define PIECE_BYTES 4096u
#define BATCH_BYTES (1u << 20)

/* A sync costs the same for many events as for few; a write does not, and a short chain stays
 * in the CPU's cache. */
#define FILE_CHAIN 1024u
#define PIPE_CHAIN 128u

struct stdout_outlet {
	struct outlet outlet;
	int fd;
	int interrupt_fd;
	enum write_way way;
	int (*sync)(int fd); /* NULL: not a file, nothing to sync */
	bool envelope;
	bool torn;        /* the last write ended inside a line */
	struct buf lines; /* the batch being written */
};

/* 0 when the descriptor is writable, or an error. */
static int wait_writable(struct stdout_outlet *own)
{
	struct pollfd polls[2] = {
		{ .fd = own->fd, .events = POLLOUT },
		{ .fd = own->interrupt_fd, .events = POLLIN },
	};
	if (poll(polls, 2, -1) < 0)
		return errno == EINTR ? 0 : -errno;
	if (polls[1].revents != 0)
		return ERR_CLOSING;
	return 0;
}

static ssize_t write_some(struct stdout_outlet *own, size_t at)
{
	struct iovec rest = { .iov_base = own->lines.ptr + at, .iov_len = own->lines.len - at };
	if (own->way == WRITE_NOWAIT) {
		ssize_t n = pwritev2(own->fd, &rest, 1, -1, RWF_NOWAIT);
		if (n >= 0 || (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS))
			return n;
		own->way = WRITE_PIECES;
		errno = EAGAIN; /* wait first: a piece must not block */
		return -1;
	}
	if (own->way == WRITE_PIECES && rest.iov_len > PIECE_BYTES)
		rest.iov_len = PIECE_BYTES;
	return write(own->fd, rest.iov_base, rest.iov_len);
}

/* Writes as much as it can; returns how many bytes. */
static size_t write_lines(struct stdout_outlet *own, int *ret_error)
{
	size_t at = 0;
	bool wait = own->way == WRITE_PIECES;
	*ret_error = 0;
	while (at < own->lines.len) {
		int error = wait ? wait_writable(own) : 0;
		ssize_t n = error == 0 ? write_some(own, at) : 0;
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			error = -errno;
		if (error != 0) {
			*ret_error = error;
			break;
		}
		wait = n < 0 || own->way == WRITE_PIECES;
		if (n > 0)
			at += (size_t)n;
	}
	return at;
}

/* Writes the batch; returns how many of its bytes are durable, or in the pipe. A file's bytes
 * are durable after a sync: an outcome must not survive a crash that its line does not. */
static size_t write_batch(struct stdout_outlet *own, const struct outlet_attempt *first,
                          int *ret_error)
{
	size_t written = write_lines(own, ret_error);
	if (written == 0)
		return 0;
	size_t line_end = own->torn ? 1 : 0; /* the first at or after the last byte */
	for (; first && line_end < written; first = first->next)
		line_end = first->own;
	own->torn = written < own->lines.len && line_end != written;
	if (own->sync && own->sync(own->fd) < 0) {
		*ret_error = -errno;
		return 0;
	}
	return written;
}

static void send_chain(struct outlet *base, struct outlet_attempt *chain)
{
	struct stdout_outlet *own = container_of(base, struct stdout_outlet, outlet);
	int error = 0;
	while (chain && error == 0) {
		buf_clear(&own->lines);
		if (own->torn) /* a reader must not join two lines */
			buf_append_char(&own->lines, '\n');
		struct outlet_attempt *last = outlet_append_events(&own->lines, chain,
		                                                   own->envelope, BATCH_BYTES);
		if (last == chain) {
			error = -ENOMEM;
			break;
		}
		size_t written = write_batch(own, chain, &error);
		while (chain != last && chain->own <= written)
			chain = outlet_finish(chain, OUTLET_DONE, SPAN_EMPTY);
	}
	if (chain && error != ERR_CLOSING)
		log_warn("write to standard output failed", log_code(error));
	while (chain)
		chain = outlet_finish(chain, OUTLET_NOT_SENT, span_str(error_name(error)));
}

static void interrupt(struct outlet *base)
{
	struct stdout_outlet *own = container_of(base, struct stdout_outlet, outlet);
	uint64_t one = 1;
	ssize_t n = write(own->interrupt_fd, &one, sizeof(one));
	(void)n; /* the counter is full: it is readable already */
}

static void free_outlet(struct outlet *base)
{
	struct stdout_outlet *own = container_of(base, struct stdout_outlet, outlet);
	close(own->interrupt_fd);
	buf_free(&own->lines);
	mem_free(own);
}

static const struct outlet_methods methods = {
	.send = send_chain,
	.interrupt = interrupt,
	.free = free_outlet,
};

/* Does the file end inside a line? A kill may have cut the last line of an earlier process that
 * wrote to the same file. The descriptor is often write-only, so the file is opened once more;
 * if that fails, one line end too many is the lesser evil. */
static bool ends_torn(int fd, const struct stat *status)
{
	int flags = fcntl(fd, F_GETFL);
	off_t end = flags >= 0 && (flags & O_APPEND) ? status->st_size : lseek(fd, 0, SEEK_CUR);
	if (end <= 0)
		return false;
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int again = open(path, O_RDONLY | O_CLOEXEC);
	if (again < 0)
		return true;
	char byte = 0;
	bool whole = pread(again, &byte, 1, end - 1) == 1 && byte == '\n';
	close(again);
	return !whole;
}

int stdout_outlet_new(const struct stdout_outlet_options *options, struct outlet **ret_outlet)
{
	struct stdout_outlet *own = mem_zalloc(1, sizeof(*own));
	if (!own)
		return -ENOMEM;
	own->outlet =
		(struct outlet){ .methods = &methods, .batch_max = UINT32_MAX, .immediate = true };
	own->fd = options->fd;
	own->envelope = options->envelope;
	own->interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (own->interrupt_fd < 0) {
		int error = -errno;
		mem_free(own);
		return error;
	}
	struct stat status;
	bool regular = fstat(options->fd, &status) == 0 && S_ISREG(status.st_mode);
	own->way = regular ? WRITE_WHOLE : WRITE_NOWAIT;
	own->torn = regular && ends_torn(options->fd, &status);
	if (regular)
		own->sync = options->sync ? options->sync : fdatasync;
	own->outlet.batch_max = regular ? FILE_CHAIN : PIPE_CHAIN;
	*ret_outlet = &own->outlet;
	return 0;
}
