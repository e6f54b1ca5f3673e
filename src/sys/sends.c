/*
 * Many sends in one system call. See sends.h.
 *
 * The two rings are memory shared with the kernel. Ours to move are the tail of
 * the submissions and the head of the completions; since there is no polling
 * thread in the kernel, the other two move only inside io_uring_enter(), and a
 * submission that it did not take can be taken back.
 *
 * Each send has MSG_DONTWAIT, so the kernel neither arms a poll nor hands it to
 * a worker: it is completed, if only with -EAGAIN, when io_uring_enter() returns.
 * The call waits for as many completions as it made submissions all the same,
 * because the bytes must not be touched before.
 */
#include "sys/sends.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

struct sends {
	int fd;
	sends_done *done;
	uint32_t queued; /* entries[0..queued) wait for sends_run() */

	void *rings; /* both, in one mapping */
	size_t rings_size;
	struct io_uring_sqe *entries;
	size_t entries_size;

	uint32_t *submit_head, *submit_tail, *complete_head, *complete_tail;
	uint32_t complete_mask;
	const struct io_uring_cqe *completions;
};

static int enter(const struct sends *sends, uint32_t submit, uint32_t complete)
{
	long n = syscall(SYS_io_uring_enter, sends->fd, submit, complete, IORING_ENTER_GETEVENTS,
	                 NULL, 0);
	return n < 0 ? -errno : (int)n;
}

static void *map(const struct sends *sends, size_t size, off_t offset)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, sends->fd,
	                offset);
	return at == MAP_FAILED ? NULL : at;
}

static uint32_t *field(const struct sends *sends, uint32_t offset)
{
	return (uint32_t *)(void *)((char *)sends->rings + offset);
}

/* The ring of submissions names entries by their number: here always the own. */
static void name_entries(const struct sends *sends, const struct io_uring_params *params)
{
	uint32_t *names = field(sends, params->sq_off.array);
	for (uint32_t i = 0; i < params->sq_entries; i++)
		names[i] = i;
}

static int map_rings(struct sends *sends, const struct io_uring_params *params)
{
	size_t submit_size = params->sq_off.array + params->sq_entries * sizeof(uint32_t);
	size_t complete_size = params->cq_off.cqes +
	                       params->cq_entries * sizeof(struct io_uring_cqe);
	sends->rings_size = submit_size > complete_size ? submit_size : complete_size;
	sends->rings = map(sends, sends->rings_size, IORING_OFF_SQ_RING);
	if (!sends->rings)
		return -errno;
	sends->entries_size = params->sq_entries * sizeof(struct io_uring_sqe);
	sends->entries = map(sends, sends->entries_size, IORING_OFF_SQES);
	if (!sends->entries)
		return -errno;
	name_entries(sends, params);
	sends->submit_head = field(sends, params->sq_off.head);
	sends->submit_tail = field(sends, params->sq_off.tail);
	sends->complete_head = field(sends, params->cq_off.head);
	sends->complete_tail = field(sends, params->cq_off.tail);
	sends->complete_mask = params->cq_entries - 1;
	sends->completions = (const void *)field(sends, params->cq_off.cqes);
	return 0;
}

static int open_ring(struct sends *sends)
{
	struct io_uring_params params = { 0 };
	long fd = syscall(SYS_io_uring_setup, SENDS_MAX, &params);
	if (fd < 0)
		return -errno;
	sends->fd = (int)fd;
	if (!(params.features & IORING_FEAT_SINGLE_MMAP))
		return -ENOSYS;
	return map_rings(sends, &params);
}

/* A kernel that has rings may not have this operation, or a policy may refuse
 * it: a send to no descriptor tells. */
static void note_probe(void *user, ssize_t result)
{
	*(ssize_t *)user = result;
}

static int probe(struct sends *sends)
{
	ssize_t result = 0;
	sends->done = note_probe;
	sends_add(sends, -1, "", 1, &result);
	sends_run(sends);
	return result == -EBADF ? 0 : -ENOSYS;
}

int sends_new(sends_done *done, struct sends **ret_sends)
{
	struct sends *sends = mem_zalloc(1, sizeof(*sends));
	if (!sends)
		return -ENOMEM;
	sends->fd = -1;
	int error = open_ring(sends);
	if (!error)
		error = probe(sends);
	if (error) {
		sends_free(sends);
		return error;
	}
	sends->done = done;
	*ret_sends = sends;
	return 0;
}

struct sends *sends_free(struct sends *sends)
{
	if (!sends)
		return NULL;
	if (sends->entries)
		munmap(sends->entries, sends->entries_size);
	if (sends->rings)
		munmap(sends->rings, sends->rings_size);
	if (sends->fd >= 0)
		close(sends->fd);
	return mem_free(sends);
}

void sends_add(struct sends *sends, int fd, const void *bytes, size_t len, void *user)
{
	if (sends->queued == SENDS_MAX)
		sends_run(sends);
	uint32_t at = (*sends->submit_tail + sends->queued++) % SENDS_MAX;
	sends->entries[at] = (struct io_uring_sqe){
		.opcode = IORING_OP_SEND,
		.fd = fd,
		.addr = (uintptr_t)bytes,
		.len = len < INT32_MAX ? (uint32_t)len : INT32_MAX,
		.msg_flags = MSG_NOSIGNAL | MSG_DONTWAIT,
		.user_data = (uintptr_t)user,
	};
}

/* How many completions there were. */
static uint32_t reap(struct sends *sends)
{
	uint32_t head = *sends->complete_head;
	uint32_t tail = __atomic_load_n(sends->complete_tail, __ATOMIC_ACQUIRE);
	uint32_t count = tail - head;
	for (; head != tail; head++) {
		const struct io_uring_cqe *one = &sends->completions[head & sends->complete_mask];
		sends->done((void *)(uintptr_t)one->user_data, one->res);
	}
	__atomic_store_n(sends->complete_head, head, __ATOMIC_RELEASE);
	return count;
}

/* Those that the kernel did not take, for want of memory. */
static void take_back(struct sends *sends, uint32_t taken, uint32_t count)
{
	uint32_t tail = *sends->submit_tail;
	__atomic_store_n(sends->submit_tail, tail - (count - taken), __ATOMIC_RELEASE);
	for (uint32_t i = tail - (count - taken); i != tail; i++)
		sends->done((void *)(uintptr_t)sends->entries[i % SENDS_MAX].user_data, -EAGAIN);
}

void sends_run(struct sends *sends)
{
	uint32_t count = sends->queued, start = *sends->submit_tail;
	if (count == 0)
		return;
	sends->queued = 0;
	__atomic_store_n(sends->submit_tail, start + count, __ATOMIC_RELEASE);
	enter(sends, count, count);
	uint32_t taken = __atomic_load_n(sends->submit_head, __ATOMIC_ACQUIRE) - start;
	CHECK(taken <= count);
	uint32_t left = taken - reap(sends);
	while (left > 0) { /* a signal cut the wait short */
		enter(sends, 0, left);
		left -= reap(sends);
	}
	if (taken < count)
		take_back(sends, taken, count);
}
