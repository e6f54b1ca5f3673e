/*
 * walk_trace: the half of tools/walk that runs inside the gateway, by LD_PRELOAD.
 *
 * A program built with -finstrument-functions calls __cyg_profile_func_enter() at the
 * start of every function. Here each call becomes a record in a file that tools/walk has
 * made and mapped too, but only for threads that have an event loop or a connection to
 * somebody: what others do is housekeeping. A few calls of libc are wrapped, because they tell which thread
 * does what, whatever the functions are called: accept4() and connect() name the threads
 * of both ends, a wait ends a round, and a write below the data folder makes things durable.
 *
 * The file: a struct header, then `room` records. Only while `enabled` is set is anything
 * recorded. Environment: WALK_FILE is the file, WALK_DATA the data folder.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind {
	ENTER = 1, /* value: address of the function, from the start of the program */
	WAIT,      /* the thread is about to wait */
	ACCEPT,    /* a connection was accepted */
	CONNECT,   /* value: the port */
	WRITE,     /* below the data folder, before the call; value: the descriptor */
};

struct record {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t value;
	uint32_t thread;
	uint16_t kind;
	uint16_t depth; /* of calls: that of the caller and one more */
};

struct header {
	uint64_t room;
	_Atomic uint64_t count; /* more than `room`: some were lost */
	_Atomic uint64_t enabled;
	/* Of the thread that accepts: where its first write after an accept went, its last
	 * write there, and its last wait. */
	_Atomic uint64_t journal, wrote_ns, waited_ns;
};

static struct header *header;
static uint64_t base;
static const char *data;
static __thread uint32_t thread;
static __thread uint16_t depth;
static __thread bool accepts;
static __thread bool counts; /* this thread has an event loop, or talks to peers */

static void add(enum kind kind, uint64_t value)
{
	struct timespec now;

	if (!counts || !header || !atomic_load_explicit(&header->enabled, memory_order_relaxed))
		return;
	uint64_t at = atomic_fetch_add(&header->count, 1);
	if (at >= header->room)
		return;
	if (thread == 0)
		thread = (uint32_t)syscall(SYS_gettid);
	clock_gettime(CLOCK_MONOTONIC, &now);
	uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	if (kind == ACCEPT)
		atomic_store(&header->journal, 0);
	if (accepts && kind == WRITE && atomic_load(&header->journal) == 0)
		atomic_store(&header->journal, value);
	if (accepts && kind == WRITE && atomic_load(&header->journal) == value)
		atomic_store(&header->wrote_ns, now_ns);
	if (accepts && kind == WAIT)
		atomic_store(&header->waited_ns, now_ns);
	((struct record *)(header + 1))[at] = (struct record){
		.time_ns = now_ns,
		.value = value,
		.thread = thread,
		.kind = (uint16_t)kind,
		.depth = depth,
	};
}

static int take_first(struct dl_phdr_info *info, size_t size, void *user)
{
	(void)size;
	*(uint64_t *)user = info->dlpi_addr; /* the program comes first */
	return 1;
}

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("WALK_FILE");
	struct stat status;
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

	data = getenv("WALK_DATA");
	dl_iterate_phdr(take_first, &base);
	if (fd < 0 || !data || fstat(fd, &status) != 0)
		return;
	void *map = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map != MAP_FAILED)
		header = map;
	close(fd);
}

void __cyg_profile_func_enter(void *function, void *from);
void __cyg_profile_func_exit(void *function, void *from);

void __cyg_profile_func_enter(void *function, void *from)
{
	(void)from;
	depth++;
	add(ENTER, (uint64_t)(uintptr_t)function - base);
}

void __cyg_profile_func_exit(void *function, void *from)
{
	(void)function;
	(void)from;
	depth--;
}

/* ---- calls of libc ---- */

#define REAL(name)                     \
	static __typeof__(&name) real; \
	if (!real)                     \
	real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	REAL(accept4);
	int made = real(fd, address, length, flags);
	counts = accepts = true;
	if (made >= 0)
		add(ACCEPT, 0);
	return made;
}

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
	REAL(connect);
	struct sockaddr_in place;
	counts = true;
	if (address->sa_family == AF_INET && length >= sizeof(place)) {
		memcpy(&place, address, sizeof(place));
		add(CONNECT, ntohs(place.sin_port));
	}
	return real(fd, address, length);
}

int epoll_wait(int fd, struct epoll_event *events, int count, int timeout_ms)
{
	REAL(epoll_wait);
	counts = true;
	add(WAIT, 0);
	return real(fd, events, count, timeout_ms);
}

int poll(struct pollfd *polls, nfds_t count, int timeout_ms)
{
	REAL(poll);
	if (timeout_ms != 0)
		add(WAIT, 0);
	return real(polls, count, timeout_ms);
}

static void note_write(int fd)
{
	char link[40], path[4096];

	if (!counts || !header || !atomic_load_explicit(&header->enabled, memory_order_relaxed))
		return;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t length = readlink(link, path, sizeof(path) - 1);
	if (length > 0 && (size_t)length >= strlen(data) && memcmp(path, data, strlen(data)) == 0)
		add(WRITE, (uint64_t)fd);
}

ssize_t write(int fd, const void *bytes, size_t size)
{
	REAL(write);
	note_write(fd);
	return real(fd, bytes, size);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
	REAL(pwrite);
	note_write(fd);
	return real(fd, bytes, size, offset);
}

ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
	REAL(pwritev2);
	note_write(fd);
	return real(fd, parts, count, offset, flags);
}

/* Programs built with _FILE_OFFSET_BITS=64 call them by these names; here it is the same. */
ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t offset)
	__attribute__((alias("pwrite")));
ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
	__attribute__((alias("pwritev2")));
