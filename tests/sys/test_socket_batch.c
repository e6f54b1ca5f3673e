/* socket_batch: each call on its own socket, once, and nothing left under way. */
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "sys/socket_batch.h"

#define PAIRS (2 * SOCKET_BATCH_MAX + 7)

struct pair {
	struct socket_call call;
	int ours, theirs;
	char text[16];
	size_t len;
	ssize_t result;
	unsigned times;
};

static struct socket_batch *batch;

static void note(struct socket_call *call, ssize_t result)
{
	struct pair *pair = container_of(call, struct pair, call);
	pair->result = result;
	pair->times++;
}

static int setup(void **state)
{
	(void)state;
	return socket_batch_new(&batch);
}

static int teardown(void **state)
{
	(void)state;
	batch = socket_batch_free(batch);
	return 0;
}

static void open_pair(struct pair *pair, unsigned number)
{
	int fds[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	*pair = (struct pair){ .call = { note }, .ours = fds[0], .theirs = fds[1] };
	pair->len = (size_t)snprintf(pair->text, sizeof(pair->text), "to %u", number);
}

static void close_pair(struct pair *pair)
{
	close(pair->ours);
	close(pair->theirs);
}

static void queue(struct pair *pair)
{
	socket_batch_send(batch, &pair->call, pair->ours, pair->text, pair->len);
}

static void assert_arrived(const struct pair *pair)
{
	char bytes[sizeof(pair->text) + 1];
	ssize_t n = recv(pair->theirs, bytes, sizeof(bytes), MSG_DONTWAIT);
	assert_int_equal(n, pair->len);
	assert_memory_equal(bytes, pair->text, pair->len);
}

/* More than fit at a time, and more rounds than the ring has places. */
static void each_socket_gets_its_own_bytes_once(void **state)
{
	(void)state;
	struct pair *pairs = calloc(PAIRS, sizeof(*pairs));
	assert_non_null(pairs);
	for (unsigned i = 0; i < PAIRS; i++)
		open_pair(&pairs[i], i);
	for (unsigned round = 1; round <= 3; round++) {
		for (unsigned i = 0; i < PAIRS; i++)
			queue(&pairs[i]);
		socket_batch_run(batch);
		for (unsigned i = 0; i < PAIRS; i++) {
			assert_int_equal(pairs[i].times, round);
			assert_int_equal(pairs[i].result, pairs[i].len);
			assert_arrived(&pairs[i]);
		}
	}
	for (unsigned i = 0; i < PAIRS; i++)
		close_pair(&pairs[i]);
	free(pairs);
}

static void nothing_queued_is_nothing_sent(void **state)
{
	(void)state;
	struct pair pair;
	socket_batch_run(batch);
	open_pair(&pair, 1);
	queue(&pair);
	socket_batch_run(batch);
	socket_batch_run(batch);
	assert_int_equal(pair.times, 1);
	assert_arrived(&pair);
	close_pair(&pair);
}

/* Blocking sockets, so that only the call's own flag keeps it from waiting. */
static void a_full_socket_takes_a_part_and_then_says_so(void **state)
{
	(void)state;
	static char much[4u << 20];
	struct pair full, other;
	open_pair(&full, 1);
	open_pair(&other, 2);
	socket_batch_send(batch, &full.call, full.ours, much, sizeof(much));
	socket_batch_run(batch);
	assert_true(full.result > 0 && full.result < (ssize_t)sizeof(much));
	socket_batch_send(batch, &full.call, full.ours, much, sizeof(much));
	queue(&other);
	socket_batch_run(batch);
	assert_int_equal(full.times, 2);
	assert_int_equal(full.result, -EAGAIN);
	assert_int_equal(other.result, other.len);
	assert_arrived(&other);
	close_pair(&full);
	close_pair(&other);
}

/* Without the flag for it the process would end here by SIGPIPE. */
static void a_failed_send_harms_no_other(void **state)
{
	(void)state;
	struct pair gone, closed = { .call = { note }, .ours = -1, .text = "x", .len = 1 }, well;
	open_pair(&gone, 1);
	open_pair(&well, 2);
	assert_int_equal(shutdown(gone.theirs, SHUT_RDWR), 0);
	queue(&gone);
	queue(&closed);
	queue(&well);
	socket_batch_run(batch);
	assert_int_equal(gone.result, -EPIPE);
	assert_int_equal(closed.result, -EBADF);
	assert_int_equal(well.result, well.len);
	assert_arrived(&well);
	close_pair(&gone);
	close_pair(&well);
}

/* The second socket has nothing, the third has ended, the fourth is none. */
static void what_is_received_is_the_sockets_own(void **state)
{
	(void)state;
	struct pair pairs[4];
	char bytes[4][8] = { 0 };
	for (unsigned i = 0; i < 4; i++)
		open_pair(&pairs[i], i);
	assert_int_equal(send(pairs[0].theirs, "hello", 5, 0), 5);
	assert_int_equal(shutdown(pairs[2].theirs, SHUT_WR), 0);
	for (unsigned i = 0; i < 4; i++)
		socket_batch_recv(batch, &pairs[i].call, i < 3 ? pairs[i].ours : -1, bytes[i], 4);
	assert_int_equal(socket_batch_queued(batch), 4);
	socket_batch_run(batch);
	assert_int_equal(socket_batch_queued(batch), 0);
	assert_int_equal(pairs[0].result, 4);
	assert_string_equal(bytes[0], "hell");
	assert_int_equal(pairs[1].result, -EAGAIN);
	assert_int_equal(pairs[2].result, 0);
	assert_int_equal(pairs[3].result, -EBADF);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(pairs[i].times, 1);
		close_pair(&pairs[i]);
	}
}

static void a_failed_start_leaves_nothing_open(void **state)
{
	(void)state;
	struct socket_batch *none = NULL;
	int before = open("/dev/null", O_RDONLY | O_CLOEXEC);
	close(before);
	mem_fail_at(1, false);
	assert_int_equal(socket_batch_new(&none), -ENOMEM);
	mem_fail_at(0, false);
	assert_null(none);
	int after = open("/dev/null", O_RDONLY | O_CLOEXEC);
	close(after);
	assert_int_equal(after, before);
}

/* As container runtimes do. */
static void forbid(long call)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = ARRAY_LEN(filter), .filter = filter };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(2);
}

/* The exit code of a process in which the call is forbidden: 0 is as it should be. */
static int start_without(long call)
{
	int status = 0;
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct socket_batch *none = NULL;
		forbid(call);
		int error = socket_batch_new(&none);
		_exit((error == -EPERM || error == -ENOSYS) && !none ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void where_it_is_forbidden_it_is_not_had(void **state)
{
	(void)state;
	assert_int_equal(start_without(SYS_io_uring_setup), 0);
	assert_int_equal(start_without(SYS_io_uring_enter), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_socket_gets_its_own_bytes_once),
		TEST(nothing_queued_is_nothing_sent),
		TEST(a_full_socket_takes_a_part_and_then_says_so),
		TEST(a_failed_send_harms_no_other),
		TEST(what_is_received_is_the_sockets_own),
		TEST(a_failed_start_leaves_nothing_open),
		TEST(where_it_is_forbidden_it_is_not_had),
	};
	struct socket_batch *probe = NULL;
	int error = socket_batch_new(&probe);
	socket_batch_free(probe);
	if (error == -ENOSYS || error == -EPERM)
		return 77; /* skipped: not on this machine */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
