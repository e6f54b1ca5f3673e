/* stdout_sink: see stdout_sink.h. */
#include "sink/stdout_sink.h"

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
#include "gate/ticket.h"

/*
 * An interrupt must never wait behind a stuck reader, and the descriptor is
 * shared with whoever started us: it must not become non-blocking. So each
 * write asks for itself not to block. Where the kernel cannot do that for a
 * pipe, small pieces are written: a pipe that poll() calls writable takes
 * PIPE_BUF bytes without blocking.
 */
enum write_way {
	WRITE_WHOLE,  /* a file: never blocks on a reader */
	WRITE_NOWAIT, /* RWF_NOWAIT */
	WRITE_PIECES,
};

#define PIECE_BYTES 4096u
#define BATCH_BYTES (1u << 20)

struct stdout_sink {
	struct sink sink;
	int fd;
	int interrupt_fd;
	enum write_way way;
	int (*sync)(int fd); /* NULL: nothing here outlasts a power cut anyway */
	bool envelope;
	bool torn;        /* what was written last ends inside a line */
	struct buf lines; /* the batch being written */
};

/* Copies JSON with its line breaks made blanks; they can only stand between
 * tokens. */
static void append_one_line(struct buf *lines, struct span json)
{
	buf_fail(lines, buf_reserve(lines, json.len));
	if (lines->failed)
		return;
	char *start = lines->ptr + lines->len;
	memcpy(start, json.ptr, json.len);
	lines->len += json.len;
	char *end = start + json.len;
	for (char *p = start; (p = memchr(p, '\n', (size_t)(end - p))) != NULL; p++)
		*p = ' ';
	for (char *p = start; (p = memchr(p, '\r', (size_t)(end - p))) != NULL; p++)
		*p = ' ';
}

static void append_event(struct stdout_sink *sink, const struct sink_event *event)
{
	struct buf *lines = &sink->lines;
	if (sink->envelope) {
		char ticket[TICKET_TEXT_LEN];
		ticket_text(event->ticket, ticket);
		buf_append_span(lines, SPAN("{\"ticket\":\""));
		buf_append(lines, ticket, sizeof(ticket));
		buf_append_span(lines, SPAN("\",\"source\":"));
		buf_append_json(lines, event->source);
		buf_append_span(lines, SPAN(",\"attempt\":"));
		buf_append_u64(lines, event->attempt);
		buf_append_span(lines, event->json ? SPAN(",\"event\":") : SPAN(",\"text\":"));
	}
	if (event->json)
		append_one_line(lines, event->payload);
	else
		buf_append_json(lines, event->payload);
	if (sink->envelope)
		buf_append_char(lines, '}');
	buf_append_char(lines, '\n');
}

/* 0 when the descriptor takes bytes, or why it does not. */
static int wait_writable(struct stdout_sink *sink)
{
	struct pollfd polls[2] = {
		{ .fd = sink->fd, .events = POLLOUT },
		{ .fd = sink->interrupt_fd, .events = POLLIN },
	};
	if (poll(polls, 2, -1) < 0)
		return errno == EINTR ? 0 : -errno;
	if (polls[1].revents != 0)
		return ERR_CLOSING;
	return 0;
}

static ssize_t write_some(struct stdout_sink *sink, const char *ptr, size_t len)
{
	if (sink->way == WRITE_NOWAIT) {
		struct iovec part = { .iov_base = (void *)(uintptr_t)ptr, .iov_len = len };
		ssize_t n = pwritev2(sink->fd, &part, 1, -1, RWF_NOWAIT);
		if (n >= 0 || (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS))
			return n;
		sink->way = WRITE_PIECES;
		errno = EAGAIN; /* wait first: a piece must not block */
		return -1;
	}
	if (sink->way == WRITE_PIECES && len > PIECE_BYTES)
		len = PIECE_BYTES;
	return write(sink->fd, ptr, len);
}

/* Writes as much as it can; returns how many bytes left. */
static size_t write_lines(struct stdout_sink *sink, const char *ptr, size_t len, int *ret_error)
{
	size_t at = 0;
	bool wait = sink->way == WRITE_PIECES;
	while (at < len) {
		int error = wait ? wait_writable(sink) : 0;
		ssize_t n = error == 0 ? write_some(sink, ptr + at, len - at) : 0;
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			error = -errno;
		if (error != 0) {
			*ret_error = error;
			return at;
		}
		wait = n < 0 || sink->way == WRITE_PIECES;
		if (n > 0)
			at += (size_t)n;
	}
	*ret_error = 0;
	return at;
}

/* Fills the batch from events[first] on and returns the first that is not in
 * it. One event at a time joins, so that memory that runs out costs only what
 * was not yet joined. */
static uint32_t fill_batch(struct stdout_sink *sink, struct sink_event *events, uint32_t first,
                           uint32_t count)
{
	buf_clear(&sink->lines);
	if (sink->torn)
		buf_append_char(&sink->lines, '\n'); /* a reader must not join two lines */
	uint32_t last = first;
	while (last < count && sink->lines.len < BATCH_BYTES) {
		size_t before = sink->lines.len;
		append_event(sink, &events[last]);
		if (sink->lines.failed) {
			sink->lines.len = before;
			break;
		}
		events[last].end = sink->lines.len;
		last++;
	}
	return last;
}

/* Writes the batch; returns how many bytes of it arrived where they stay. A file's
 * bytes do so when they are synced: an outcome must not outlast its line. */
static size_t write_batch(struct stdout_sink *sink, int *ret_error)
{
	size_t written = write_lines(sink, sink->lines.ptr, sink->lines.len, ret_error);
	if (written == 0)
		return 0;
	sink->torn = sink->lines.ptr[written - 1] != '\n';
	if (sink->sync && sink->sync(sink->fd) < 0) {
		*ret_error = -errno;
		return 0;
	}
	return written;
}

static void deliver(struct sink *base, struct sink_event *events, uint32_t count)
{
	struct stdout_sink *sink = container_of(base, struct stdout_sink, sink);
	uint32_t done = 0;
	while (done < count) {
		uint32_t last = fill_batch(sink, events, done, count);
		int error = last == done ? -ENOMEM : 0;
		size_t written = 0;
		if (error == 0)
			written = write_batch(sink, &error);
		while (done < last && events[done].end <= written)
			events[done++].outcome = OUTCOME_DONE;
		if (error != 0) {
			if (error != ERR_CLOSING)
				log_warn("events cannot be written to standard output",
				         log_code(error));
			break;
		}
	}
	for (; done < count; done++)
		events[done].outcome = OUTCOME_RELEASED;
}

static void interrupt(struct sink *base)
{
	struct stdout_sink *sink = container_of(base, struct stdout_sink, sink);
	uint64_t one = 1;
	ssize_t n = write(sink->interrupt_fd, &one, sizeof(one));
	(void)n; /* the counter is full: it is readable already */
}

static void free_sink(struct sink *base)
{
	struct stdout_sink *sink = container_of(base, struct stdout_sink, sink);
	close(sink->interrupt_fd);
	buf_free(&sink->lines);
	mem_free(sink);
}

static const struct sink_methods methods = {
	.deliver = deliver,
	.interrupt = interrupt,
	.free = free_sink,
};

/*
 * Does the file that we are about to write to end inside a line? A kill may
 * have cut the last line of an earlier process that wrote to the same file. The
 * descriptor is often write-only, so the file is opened once more; if that
 * cannot be, a blank line too many is the lesser evil.
 */
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

int stdout_sink_new(const struct stdout_sink_options *options, struct sink **ret_sink)
{
	struct stdout_sink *sink = mem_zalloc(1, sizeof(*sink));
	if (!sink)
		return -ENOMEM;
	sink->sink.methods = &methods;
	sink->fd = options->fd;
	sink->envelope = options->envelope;
	sink->interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (sink->interrupt_fd < 0) {
		int error = -errno;
		mem_free(sink);
		return error;
	}
	struct stat status;
	bool regular = fstat(options->fd, &status) == 0 && S_ISREG(status.st_mode);
	sink->way = regular ? WRITE_WHOLE : WRITE_NOWAIT;
	sink->torn = regular && ends_torn(options->fd, &status);
	if (regular)
		sink->sync = options->sync ? options->sync : fdatasync;
	*ret_sink = &sink->sink;
	return 0;
}
