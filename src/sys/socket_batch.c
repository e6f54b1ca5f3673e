/*
 * Many calls on sockets in one system call. See socket_batch.h.
 *
 * The two rings are memory shared with the kernel. Ours to move are the tail of
 * the submissions and the head of the completions; since there is no polling
 * thread in the kernel, the other two move only inside io_uring_enter(), and a
 * submission that it did not take can be taken back.
 *
 * Each call has MSG_DONTWAIT, so the kernel neither arms a poll nor hands it to
 * a worker: it is completed, if only with -EAGAIN, when io_uring_enter() returns.
 * The call waits for as many completions as it made submissions all the same,
 * because the bytes must not be touched before.
 */
#include "sys/socket_batch.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

struct socket_batch {
	int fd;
	uint32_t queued; /* entries[0..queued) wait for socket_batch_run() */

	void *rings; /* both, in one mapping */
	size_t rings_size;
	struct io_uring_sqe *entries;
	size_t entries_size;

	uint32_t *submit_head, *submit_tail, *complete_head, *complete_tail;
	uint32_t complete_mask;
	const struct io_uring_cqe *completions;
};

static int enter(const struct socket_batch *batch, uint32_t submit, uint32_t complete)
{
	long n = syscall(SYS_io_uring_enter, batch->fd, submit, complete, IORING_ENTER_GETEVENTS,
	                 NULL, 0);
	return n < 0 ? -errno : (int)n;
}

static void *map(const struct socket_batch *batch, size_t size, off_t offset)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, batch->fd,
	                offset);
	return at == MAP_FAILED ? NULL : at;
}

static uint32_t *field(const struct socket_batch *batch, uint32_t offset)
{
	return (uint32_t *)(void *)((char *)batch->rings + offset);
}

static int open_ring(struct socket_batch *batch)
{
	struct io_uring_params params = { 0 };
	long fd = syscall(SYS_io_uring_setup, SOCKET_BATCH_MAX, &params);
	if (fd < 0)
		return -errno;
	batch->fd = (int)fd;
	if (!(params.features & IORING_FEAT_SINGLE_MMAP))
		return -ENOSYS;
	size_t submit_size = params.sq_off.array + params.sq_entries * sizeof(uint32_t);
	size_t complete_size = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	batch->rings_size = submit_size > complete_size ? submit_size : complete_size;
	batch->rings = map(batch, batch->rings_size, IORING_OFF_SQ_RING);
	if (!batch->rings)
		return -errno;
	batch->entries_size = params.sq_entries * sizeof(struct io_uring_sqe);
	batch->entries = map(batch, batch->entries_size, IORING_OFF_SQES);
	if (!batch->entries)
		return -errno;
	/* The ring of submissions names entries by their number: here always the own. */
	uint32_t *names = field(batch, params.sq_off.array);
	for (uint32_t i = 0; i < params.sq_entries; i++)
		names[i] = i;
	batch->submit_head = field(batch, params.sq_off.head);
	batch->submit_tail = field(batch, params.sq_off.tail);
	batch->complete_head = field(batch, params.cq_off.head);
	batch->complete_tail = field(batch, params.cq_off.tail);
	batch->complete_mask = params.cq_entries - 1;
	batch->completions = (const void *)field(batch, params.cq_off.cqes);
	return 0;
}

/* A kernel that has rings may not have these operations, or a policy may refuse
 * them: calls on no descriptor tell. */
struct probe {
	struct socket_call call;
	ssize_t result;
};

static void note_probe(struct socket_call *call, ssize_t result)
{
	container_of(call, struct probe, call)->result = result;
}

static int probe(struct socket_batch *batch)
{
	char byte = 0;
	struct probe sending = { .call = { note_probe } }, receiving = sending;
	socket_batch_send(batch, &sending.call, -1, &byte, sizeof(byte));
	socket_batch_recv(batch, &receiving.call, -1, &byte, sizeof(byte));
	socket_batch_run(batch);
	return sending.result == -EBADF && receiving.result == -EBADF ? 0 : -ENOSYS;
}

int socket_batch_new(struct socket_batch **ret_batch)
{
	struct socket_batch *batch = mem_zalloc(1, sizeof(*batch));
	if (!batch)
		return -ENOMEM;
	batch->fd = -1;
	int error = open_ring(batch);
	if (!error)
		error = probe(batch);
	if (error) {
		socket_batch_free(batch);
		return error;
	}
	*ret_batch = batch;
	return 0;
}

struct socket_batch *socket_batch_free(struct socket_batch *batch)
{
	if (!batch)
		return NULL;
	if (batch->entries)
		munmap(batch->entries, batch->entries_size);
	if (batch->rings)
		munmap(batch->rings, batch->rings_size);
	if (batch->fd >= 0)
		close(batch->fd);
	return mem_free(batch);
}

static void queue(struct socket_batch *batch, const struct io_uring_sqe *entry)
{
	if (batch->queued == SOCKET_BATCH_MAX)
		socket_batch_run(batch);
	batch->entries[(*batch->submit_tail + batch->queued++) % SOCKET_BATCH_MAX] = *entry;
}

void socket_batch_send(struct socket_batch *batch, struct socket_call *call, int fd,
                       const void *bytes, size_t len)
{
	queue(batch, &(struct io_uring_sqe){
			     .opcode = IORING_OP_SEND,
			     .fd = fd,
			     .addr = (uintptr_t)bytes,
			     .len = len < INT32_MAX ? (uint32_t)len : INT32_MAX,
			     .msg_flags = MSG_NOSIGNAL | MSG_DONTWAIT,
			     .user_data = (uintptr_t)call,
		     });
}

void socket_batch_recv(struct socket_batch *batch, struct socket_call *call, int fd, void *out,
                       size_t room)
{
	queue(batch, &(struct io_uring_sqe){
			     .opcode = IORING_OP_RECV,
			     .fd = fd,
			     .addr = (uintptr_t)out,
			     .len = room < INT32_MAX ? (uint32_t)room : INT32_MAX,
			     .msg_flags = MSG_DONTWAIT,
			     .user_data = (uintptr_t)call,
		     });
}

uint32_t socket_batch_queued(const struct socket_batch *batch)
{
	return batch->queued;
}

static void end_call(uint64_t user_data, ssize_t result)
{
	struct socket_call *call = (struct socket_call *)(uintptr_t)user_data;
	call->done(call, result);
}

/* How many completions there were. */
static uint32_t reap(struct socket_batch *batch)
{
	uint32_t head = *batch->complete_head;
	uint32_t tail = __atomic_load_n(batch->complete_tail, __ATOMIC_ACQUIRE);
	uint32_t count = tail - head;
	for (; head != tail; head++) {
		const struct io_uring_cqe *one = &batch->completions[head & batch->complete_mask];
		end_call(one->user_data, one->res);
	}
	__atomic_store_n(batch->complete_head, head, __ATOMIC_RELEASE);
	return count;
}

void socket_batch_run(struct socket_batch *batch)
{
	uint32_t count = batch->queued, start = *batch->submit_tail;
	if (count == 0)
		return;
	batch->queued = 0;
	__atomic_store_n(batch->submit_tail, start + count, __ATOMIC_RELEASE);
	enter(batch, count, count);
	uint32_t taken = __atomic_load_n(batch->submit_head, __ATOMIC_ACQUIRE) - start;
	CHECK(taken <= count);
	uint32_t left = taken - reap(batch);
	while (left > 0) { /* a signal cut the wait short */
		enter(batch, 0, left);
		left -= reap(batch);
	}
	if (taken < count) {
		/* Those that the kernel did not take, for want of memory. */
		uint32_t tail = *batch->submit_tail;
		__atomic_store_n(batch->submit_tail, tail - (count - taken), __ATOMIC_RELEASE);
		for (uint32_t i = tail - (count - taken); i != tail; i++)
			end_call(batch->entries[i % SOCKET_BATCH_MAX].user_data, -EAGAIN);
	}
}
