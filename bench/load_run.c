/*
 * load_run: the loop of the generator.
 *
 * The loop never sleeps: the core is the generator's own, and a server that had
 * to wake it for every answer would pay for the generator's rest. Rounds that
 * found nothing are counted as idle time; a run with little of it was limited
 * by the generator, not by the server.
 *
 * A connection has at most one request under way. Epoll is edge-triggered: an
 * answer is smaller than the buffer, so one recv empties the socket and no
 * second one is needed to find that out. On the loopback a connect is done
 * when the call returns, so a new connection sends at once; only when the
 * accept queue was full does it wait for EPOLLOUT.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "load.h"

#define EVENTS_MAX 512
#define FAILURES_IN_A_ROW_MAX 1000
#define STALL_NS 10000000000u
#define SHOW_WAIT_MS 5000

enum conn_state {
	CONN_IDLE,
	CONN_CONNECTING,
	CONN_HANDSHAKE,
	CONN_WAITING, /* for the answer */
	CONN_DRAINING /* answered; the server closes */
};

struct conn {
	int fd;
	enum conn_state state;
	uint64_t began_ns; /* LOAD_OPEN: when it should have been sent */
	struct load_tls *tls;
	uint32_t have; /* bytes of a half answer in `part` */
	char *part;
};

struct run {
	const struct load_options *options;
	struct load_request request;
	struct load_shape shape;
	struct load_counts counts;
	struct load_latency *latency; /* NULL while warming up */
	struct load_tls_context *tls;
	struct sockaddr_in address;
	int epoll;
	uint64_t sent;     /* requests so far, hence the next id */
	uint64_t now_ns;   /* at the end of the last round */
	uint64_t idle_ns;  /* in rounds that had nothing to do */
	uint64_t quiet_ns; /* since the last answer, up to STALL_NS */
	double due_ns;     /* LOAD_OPEN: when the next request is to leave */
	uint32_t failures_in_a_row;
	uint32_t idle_count;
	struct conn **idle;
	struct conn *conns;
	char scratch[LOAD_ANSWER_MAX];
};

uint64_t load_now_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int watch(struct run *run, struct conn *conn, int operation, uint32_t events)
{
	struct epoll_event event = { .events = events | EPOLLRDHUP | EPOLLET, .data.ptr = conn };
	return epoll_ctl(run->epoll, operation, conn->fd, &event);
}

static void number_request(struct run *run)
{
	uint64_t number = run->sent++;
	if (run->options->duplicates)
		number %= run->options->duplicates;
	load_request_number(&run->request, number);
}

/* 0, or -1 with errno. A part of a request is never left: it fits the socket. */
static int send_request(struct run *run, struct conn *conn)
{
	number_request(run);
	if (conn->tls)
		return load_tls_send(conn->tls, run->request.bytes, run->request.size);
	ssize_t sent = send(conn->fd, run->request.bytes, run->request.size,
	                    MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent == (ssize_t)run->request.size) {
		conn->state = CONN_WAITING;
		return 0;
	}
	if (sent >= 0)
		errno = EIO;
	return -1;
}

static void close_conn(struct conn *conn)
{
	if (conn->tls)
		load_tls_end(conn->tls);
	conn->tls = NULL;
	if (conn->fd >= 0)
		(void)close(conn->fd);
	conn->fd = -1;
	conn->have = 0;
	conn->state = CONN_IDLE;
}

static int continue_handshake(struct run *run, struct conn *conn)
{
	bool resumed = false;
	switch (load_tls_handshake(conn->tls, &resumed)) {
	case LOAD_TLS_AGAIN: conn->state = CONN_HANDSHAKE; return 0;
	case LOAD_TLS_READY:
		run->counts.handshakes++;
		run->counts.resumed += resumed;
		if (run->options->mode == LOAD_OPEN) {
			conn->state = CONN_IDLE;
			run->idle[run->idle_count++] = conn;
			return 0;
		}
		conn->began_ns = run->options->mode == LOAD_CLOSE ? conn->began_ns : load_now_ns();
		conn->state = CONN_WAITING;
		return send_request(run, conn);
	case LOAD_TLS_FAILED:
	default: return -1;
	}
}

static int begin_exchange(struct run *run, struct conn *conn)
{
	if (run->tls) {
		conn->tls = load_tls_begin(run->tls, conn->fd);
		conn->state = CONN_HANDSHAKE;
		return conn->tls ? 0 : -1;
	}
	if (run->options->mode == LOAD_OPEN) {
		run->idle[run->idle_count++] = conn;
		return 0;
	}
	return send_request(run, conn);
}

static int open_socket(struct run *run, struct conn *conn)
{
	conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (conn->fd < 0)
		return -1;
	/* The cheapest kind; a machine's default may pace by timers. The server keeps its own. */
	if (run->options->mode != LOAD_CLOSE)
		(void)setsockopt(conn->fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
	/* A request leaves in one send. */
	int room = 2 * (int)LOAD_REQUEST_MAX;
	if (run->options->batch)
		(void)setsockopt(conn->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	if (connect(conn->fd, (const struct sockaddr *)&run->address, sizeof(run->address)) == 0)
		return 0;
	return errno == EINPROGRESS ? 0 : -1;
}

/* Connects and, unless requests come at a fixed rate, sends the first one. */
static int open_conn(struct run *run, struct conn *conn)
{
	conn->began_ns = load_now_ns();
	if (open_socket(run, conn) != 0)
		return -1;
	if (begin_exchange(run, conn) != 0) {
		if (errno != EAGAIN || conn->tls)
			return -1;
		conn->state = CONN_CONNECTING;
		return watch(run, conn, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT);
	}
	return watch(run, conn, EPOLL_CTL_ADD, EPOLLIN);
}

static int reopen_conn(struct run *run, struct conn *conn)
{
	close_conn(conn);
	while (open_conn(run, conn) != 0) {
		run->counts.errors++;
		if (++run->failures_in_a_row > FAILURES_IN_A_ROW_MAX)
			return -1;
		close_conn(conn);
		(void)poll(NULL, 0, 1);
	}
	return 0;
}

static int fail_conn(struct run *run, struct conn *conn)
{
	run->counts.errors++;
	if (++run->failures_in_a_row > FAILURES_IN_A_ROW_MAX)
		return -1;
	return reopen_conn(run, conn);
}

static void count_answer(struct run *run, const struct load_answer *answer)
{
	if (!answer->ok) {
		run->counts.errors++;
		return;
	}
	run->failures_in_a_row = 0;
	run->counts.requests++;
	run->counts.fresh += answer->verdict == LOAD_NEW ? 1 : answer->fresh;
	run->counts.duplicate += answer->verdict == LOAD_DUPLICATE;
	run->counts.other += answer->verdict == LOAD_OTHER;
}

static int after_answer(struct run *run, struct conn *conn, const struct load_answer *answer)
{
	uint64_t now_ns = load_now_ns();
	count_answer(run, answer);
	if (run->latency)
		load_latency_add(run->latency, now_ns - conn->began_ns);
	conn->have = 0;
	switch (run->options->mode) {
	case LOAD_CLOSE: conn->state = CONN_DRAINING; return 0;
	case LOAD_OPEN:
		conn->state = CONN_IDLE;
		run->idle[run->idle_count++] = conn;
		return 0;
	case LOAD_KEEPALIVE:
	default: conn->began_ns = now_ns; return send_request(run, conn);
	}
}

static long receive(struct run *run, struct conn *conn, char *into, size_t room)
{
	(void)run;
	if (conn->tls)
		return load_tls_recv(conn->tls, into, room);
	ssize_t got = recv(conn->fd, into, room, MSG_DONTWAIT);
	if (got < 0)
		return errno == EAGAIN ? -1 : -2;
	return got;
}

/* 1 when an answer was whole and dealt with, 0 when more must come, -1 on failure. */
static int take_bytes(struct run *run, struct conn *conn, char *bytes, size_t size)
{
	struct load_answer answer;
	long whole = load_answer_read(&run->shape, bytes, size, &answer);
	if (whole == 0) {
		if (bytes != conn->part)
			memcpy(conn->part, bytes, size);
		conn->have = (uint32_t)size;
		return 0;
	}
	if (whole < 0 || (size_t)whole != size)
		return -1;
	return after_answer(run, conn, &answer) == 0 ? 1 : -1;
}

static int read_answer(struct run *run, struct conn *conn)
{
	for (;;) {
		char *into = conn->have ? conn->part : run->scratch;
		long got = receive(run, conn, into + conn->have, LOAD_ANSWER_MAX - conn->have);
		if (got == -1)
			return 0;
		if (got <= 0)
			return -1;
		int taken = take_bytes(run, conn, into, conn->have + (size_t)got);
		if (taken < 0)
			return -1;
		/* TLS keeps bytes to itself, which epoll does not see. */
		if (taken > 0 || !conn->tls)
			return 0;
	}
}

static bool drained(struct conn *conn, uint32_t events)
{
	if (conn->state != CONN_DRAINING)
		return false;
	char rest[64];
	return (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0 ||
	       (conn->tls && load_tls_recv(conn->tls, rest, sizeof(rest)) != -1);
}

static int handle_state(struct run *run, struct conn *conn, uint32_t events)
{
	switch (conn->state) {
	case CONN_CONNECTING:
		if (events & (EPOLLERR | EPOLLHUP))
			return -1;
		return begin_exchange(run, conn) == 0 ? watch(run, conn, EPOLL_CTL_MOD, EPOLLIN)
		                                      : -1;
	case CONN_HANDSHAKE: return continue_handshake(run, conn);
	case CONN_WAITING: return read_answer(run, conn);
	case CONN_IDLE: return (events & EPOLLRDHUP) ? -1 : 0;
	case CONN_DRAINING:
	default: return 0;
	}
}

static void forget_idle(struct run *run, const struct conn *conn)
{
	for (uint32_t i = 0; i < run->idle_count; i++) {
		if (run->idle[i] == conn) {
			run->idle[i] = run->idle[--run->idle_count];
			return;
		}
	}
}

static int handle(struct run *run, struct conn *conn, uint32_t events)
{
	if (handle_state(run, conn, events) != 0) {
		forget_idle(run, conn);
		return fail_conn(run, conn);
	}
	return drained(conn, events) ? reopen_conn(run, conn) : 0;
}

/* LOAD_OPEN: what is due leaves as long as a connection is free. What finds
 * none leaves later, but its clock runs from the moment it was due. */
static int send_due(struct run *run, uint64_t now_ns)
{
	double step_ns = 1e9 / run->options->rate;
	while (run->due_ns <= (double)now_ns && run->idle_count > 0) {
		struct conn *conn = run->idle[--run->idle_count];
		conn->began_ns = (uint64_t)run->due_ns;
		conn->state = CONN_WAITING;
		if (send_request(run, conn) != 0 && fail_conn(run, conn) != 0)
			return -1;
		run->due_ns += step_ns;
	}
	return 0;
}

static int judge_round(struct run *run, uint64_t round_ns, bool useful)
{
	if (useful) {
		run->quiet_ns = 0;
		return 0;
	}
	run->idle_ns += round_ns;
	run->quiet_ns += round_ns;
	if (run->quiet_ns < STALL_NS || run->options->mode == LOAD_OPEN)
		return 0;
	(void)fputs("load: the server gives no answer any more\n", stderr);
	return -1;
}

static int run_round(struct run *run)
{
	static struct epoll_event events[EVENTS_MAX];
	int count = epoll_wait(run->epoll, events, EVENTS_MAX, 0);
	if (count < 0 && errno != EINTR)
		return -1;
	for (int i = 0; i < count; i++) {
		if (handle(run, events[i].data.ptr, events[i].events) != 0)
			return -1;
	}
	uint64_t now_ns = load_now_ns();
	uint64_t round_ns = now_ns - run->now_ns;
	run->now_ns = now_ns;
	uint64_t sent = run->sent;
	if (run->options->mode == LOAD_OPEN && send_due(run, now_ns) != 0)
		return -1;
	return judge_round(run, round_ns, count > 0 || run->sent != sent);
}

/* Runs for the time given and, when ids repeat, until each has been sent once. */
static int run_phase(struct run *run, double seconds, uint64_t sent_least)
{
	run->now_ns = load_now_ns();
	uint64_t end_ns = run->now_ns + (uint64_t)(seconds * 1e9);
	while (run->now_ns < end_ns || run->sent < sent_least) {
		if (run_round(run) != 0) {
			(void)fprintf(stderr, "load: gave up, %u failures in a row: %s\n",
			              run->failures_in_a_row, strerror(errno));
			return -1;
		}
	}
	return 0;
}

static struct load_counts counts_between(const struct load_counts *from,
                                         const struct load_counts *to)
{
	return (struct load_counts){
		.requests = to->requests - from->requests,
		.errors = to->errors - from->errors,
		.fresh = to->fresh - from->fresh,
		.duplicate = to->duplicate - from->duplicate,
		.other = to->other - from->other,
		.resumed = to->resumed - from->resumed,
		.handshakes = to->handshakes - from->handshakes,
	};
}

static int measure(struct run *run, struct load_result *result)
{
	const struct load_options *options = run->options;
	struct load_counts before = run->counts;
	uint64_t server_ns = load_cpu_ns(options->pids, options->pid_count);
	uint64_t machine_ns = load_cpu_machine_ns();
	uint64_t own_ns = load_cpu_own_ns();
	uint64_t from_ns = load_now_ns();
	run->idle_ns = 0;
	run->latency = &result->latency;
	if (run_phase(run, options->seconds, 0) != 0)
		return -1;
	result->seconds = (double)(load_now_ns() - from_ns) / 1e9;
	result->own_ns = load_cpu_own_ns() - own_ns;
	result->idle_ns = run->idle_ns;
	result->machine_ns = load_cpu_machine_ns() - machine_ns;
	result->server_ns = load_cpu_ns(options->pids, options->pid_count) - server_ns;
	result->counts = counts_between(&before, &run->counts);
	return 0;
}

static int make_conns(struct run *run)
{
	uint32_t count = run->options->connections;
	run->conns = mem_zalloc(count, sizeof(*run->conns));
	run->idle = mem_zalloc(count, sizeof(struct conn *));
	if (!run->conns || !run->idle)
		return -1;
	for (uint32_t i = 0; i < count; i++) {
		run->conns[i].fd = -1;
		run->conns[i].part = mem_alloc(LOAD_ANSWER_MAX);
		if (!run->conns[i].part)
			return -1;
	}
	return 0;
}

static int open_conns(struct run *run)
{
	for (uint32_t i = 0; i < run->options->connections; i++) {
		if (reopen_conn(run, &run->conns[i]) != 0)
			return -1;
	}
	return 0;
}

static struct run *run_free(struct run *run)
{
	if (!run)
		return NULL;
	for (uint32_t i = 0; run->conns && i < run->options->connections; i++) {
		close_conn(&run->conns[i]);
		mem_free(run->conns[i].part);
	}
	mem_free(run->conns);
	mem_free(run->idle);
	if (run->epoll >= 0)
		(void)close(run->epoll);
	return mem_free(run);
}

static struct run *run_new(const struct load_options *options)
{
	struct run *run = mem_zalloc(1, sizeof(*run));
	if (!run)
		return NULL;
	run->options = options;
	run->address.sin_family = AF_INET;
	run->address.sin_port = htons(options->port);
	run->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (options->tls != LOAD_PLAIN)
		run->tls = load_tls_new(options->tls == LOAD_TLS_RESUME);
	if (inet_pton(AF_INET, options->host, &run->address.sin_addr) != 1 || run->epoll < 0 ||
	    (options->tls != LOAD_PLAIN && !run->tls) ||
	    load_request_build(&run->request, options) != 0 || make_conns(run) != 0)
		return run_free(run);
	return run;
}

int load_run(const struct load_options *options, struct load_result *result)
{
	struct run *run = run_new(options);
	if (!run)
		return -1;
	uint64_t primed = options->duplicates ? options->duplicates + options->connections : 0;
	int done = open_conns(run);
	if (done != 0)
		(void)fprintf(stderr, "load: cannot connect to %s:%u\n", options->host,
		              options->port);
	run->due_ns = (double)load_now_ns();
	if (done == 0)
		done = run_phase(run, options->warmup_seconds, primed);
	if (done == 0)
		done = measure(run, result);
	run_free(run);
	return done;
}

int load_show(const struct load_options *options)
{
	struct run *run = run_new(options);
	if (!run)
		return -1;
	struct conn *conn = &run->conns[0];
	struct pollfd wait = { .events = POLLIN };
	int done = open_socket(run, conn);
	if (done == 0)
		done = send_request(run, conn);
	wait.fd = conn->fd;
	if (done == 0 && poll(&wait, 1, SHOW_WAIT_MS) == 1) {
		long got = receive(run, conn, run->scratch, sizeof(run->scratch));
		(void)fwrite(run->request.bytes, 1, run->request.size, stdout);
		(void)puts("\n--");
		if (got > 0)
			(void)fwrite(run->scratch, 1, (size_t)got, stdout);
		(void)putchar('\n');
	}
	run_free(run);
	return done;
}
