/* listener: see listener.h. Sockets, then accepting. */
#include "net/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"

#define ACCEPTS_PER_ROUND 128
#define PAUSE_MS 100 /* when there are no descriptors left */
#define BACKLOG 4096 /* the kernel cuts it to net.core.somaxconn */
#define DEFER_ACCEPT_S 1

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_un local;
};

static bool parse_port(const char *text, in_port_t *ret_port)
{
	uint64_t port = 0;
	if (text_parse_u64(span_str(text), &port) < 0 || port > 65535)
		return false;
	*ret_port = htons((uint16_t)port);
	return true;
}

/* The part before the last colon, without the brackets of IPv6. */
static bool parse_address(const char *text, union address *ret_address)
{
	char host[INET6_ADDRSTRLEN + 1];
	const char *colon = strrchr(text, ':');
	if (!colon)
		return false;
	bool v6 = text[0] == '[' && colon > text + 1 && colon[-1] == ']';
	const char *start = v6 ? text + 1 : text;
	size_t len = (size_t)(colon - start) - (v6 ? 1 : 0);
	if (len >= sizeof(host))
		return false;
	memcpy(host, start, len);
	host[len] = '\0';
	*ret_address = (union address){ 0 };
	if (v6) {
		ret_address->v6.sin6_family = AF_INET6;
		return inet_pton(AF_INET6, host, &ret_address->v6.sin6_addr) == 1 &&
		       parse_port(colon + 1, &ret_address->v6.sin6_port);
	}
	ret_address->v4.sin_family = AF_INET;
	return inet_pton(AF_INET, host, &ret_address->v4.sin_addr) == 1 &&
	       parse_port(colon + 1, &ret_address->v4.sin_port);
}

static socklen_t address_len(const union address *address)
{
	return address->any.sa_family == AF_INET6 ? sizeof(address->v6) : sizeof(address->v4);
}

static in_port_t *address_port(union address *address)
{
	return address->any.sa_family == AF_INET6 ? &address->v6.sin6_port : &address->v4.sin_port;
}

static int open_socket(const union address *address)
{
	int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

/* Binds without SO_REUSEPORT, which fails when somebody else listens there. */
static int check_free(const union address *address)
{
	int on = 1, error = 0;
	int fd = open_socket(address);
	if (fd < 0)
		return fd;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(fd, &address->any, address_len(address)))
		error = -errno;
	close(fd);
	return error;
}

static int bind_and_listen(int fd, union address *address, uint16_t *ret_port)
{
	socklen_t len = address_len(address);
	int on = 1, defer = DEFER_ACCEPT_S;
	/* Accepted sockets inherit TCP_NODELAY, which saves a call for each. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer, sizeof(defer)) ||
	    bind(fd, &address->any, len) || listen(fd, BACKLOG) ||
	    getsockname(fd, &address->any, &len))
		return -errno;
	*ret_port = ntohs(*address_port(address));
	return 0;
}

static int open_inet(union address *address, uint16_t joined, int *ret_fd, uint16_t *ret_port)
{
	if (joined)
		*address_port(address) = htons(joined);
	int error = joined ? 0 : check_free(address);
	int fd = error ? error : open_socket(address);
	if (fd < 0)
		return fd;
	error = bind_and_listen(fd, address, ret_port);
	if (error) {
		close(fd);
		return error;
	}
	*ret_fd = fd;
	return 0;
}

/* ---- in the file system ---- */

#define UNIX_PREFIX "unix:"

static bool is_unix(const char *address)
{
	return strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0;
}

static bool parse_path(const char *text, union address *ret_address)
{
	const char *path = text + strlen(UNIX_PREFIX);
	*ret_address = (union address){ .local = { .sun_family = AF_UNIX } };
	if (path[0] != '/' || strlen(path) >= sizeof(ret_address->local.sun_path))
		return false;
	memcpy(ret_address->local.sun_path, path, strlen(path) + 1);
	return true;
}

/* Removes a socket at which nobody answers. */
static int clear_path(const union address *address)
{
	struct stat status;
	const char *path = address->local.sun_path;
	if (lstat(path, &status) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(status.st_mode))
		return -EEXIST;
	int fd = open_socket(address);
	if (fd < 0)
		return fd;
	int error = connect(fd, &address->any, sizeof(address->local)) == 0 ? -EADDRINUSE : -errno;
	close(fd);
	if (error != -ECONNREFUSED)
		return error == -EAGAIN ? -EADDRINUSE : error; /* its backlog is full */
	return unlink(path) == 0 || errno == ENOENT ? 0 : -errno;
}

/* The mode of the socket is that of its file from the first moment on. */
static int open_unix(const union address *address, int *ret_fd)
{
	int error = clear_path(address);
	int fd = error ? error : open_socket(address);
	if (fd < 0)
		return fd;
	if (fchmod(fd, S_IRUSR | S_IWUSR) || bind(fd, &address->any, sizeof(address->local)) ||
	    listen(fd, BACKLOG)) {
		error = -errno;
		close(fd);
		return error;
	}
	*ret_fd = fd;
	return 0;
}

/* ---- accepting ---- */

/* False when there is nothing more to accept now. */
static bool accept_one(struct acceptor *acceptor)
{
	struct sockaddr_in6 address = { 0 };
	socklen_t len = sizeof(address);
	struct sockaddr *any = (struct sockaddr *)(void *)&address;
	struct gauge_slot *slot;
	int fd = accept4(acceptor->listener.fd, any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno == EINTR || errno == ECONNABORTED)
			return true;
		/* No descriptors or memory: do not spin. */
		if (errno != EAGAIN && !loop_timer_set(acceptor->loop, &acceptor->pause, PAUSE_MS))
			loop_remove(acceptor->loop, &acceptor->listener);
		return false;
	}
	enum gauge_result result = gauge_take(acceptor->gauge, any, &acceptor->limits, &slot);
	if (result == GAUGE_OK)
		acceptor->taken(acceptor, fd, any, slot);
	else
		acceptor->refused(acceptor, fd, result);
	return true;
}

static void accept_ready(struct loop_handler *handler, uint32_t events)
{
	struct acceptor *acceptor = container_of(handler, struct acceptor, listener);
	(void)events;
	for (int i = 0; i < ACCEPTS_PER_ROUND && accept_one(acceptor); i++)
		;
}

static void resume(struct loop_timer *timer)
{
	struct acceptor *acceptor = container_of(timer, struct acceptor, pause);
	if (acceptor->listener.fd < 0 ||
	    loop_add(acceptor->loop, &acceptor->listener, LOOP_READ) == 0)
		return;
	/* A timer that has just run has left a place in the loop's heap: cannot fail. */
	int error = loop_timer_set(acceptor->loop, timer, PAUSE_MS);
	CHECK(!error);
}

void acceptor_init(struct acceptor *acceptor)
{
	acceptor->listener.ready = accept_ready;
	acceptor->listener.fd = -1;
	acceptor->pause.due = resume;
}

int acceptor_open(struct acceptor *acceptor, const char *address, uint16_t joined,
                  struct error_text *ret_text)
{
	union address parsed;
	bool local = is_unix(address);
	CHECK(!local || joined == 0);
	if (local ? !parse_path(address, &parsed) : !parse_address(address, &parsed))
		return error_fill(ret_text, ERR_CONFIG,
		                  "cannot read the address \"%s\": expected IPV4:PORT, [IPV6]:PORT "
		                  "or unix:/PATH",
		                  address);
	acceptor->port = 0;
	int error = local ? open_unix(&parsed, &acceptor->listener.fd)
	                  : open_inet(&parsed, joined, &acceptor->listener.fd, &acceptor->port);
	if (error == 0)
		error = loop_add(acceptor->loop, &acceptor->listener, LOOP_READ);
	if (error)
		return error_fill(ret_text, error, "cannot listen on %s: %s", address,
		                  error_name(error));
	return 0;
}

void acceptor_take_rest(struct acceptor *acceptor)
{
	while (acceptor->listener.fd >= 0 && accept_one(acceptor))
		;
}

void acceptor_close(struct acceptor *acceptor)
{
	union address address = { 0 };
	socklen_t len = sizeof(address);
	struct stat status;
	loop_timer_clear(acceptor->loop, &acceptor->pause);
	if (acceptor->listener.fd < 0)
		return;
	loop_remove(acceptor->loop, &acceptor->listener);
	if (getsockname(acceptor->listener.fd, &address.any, &len) == 0 &&
	    address.any.sa_family == AF_UNIX && lstat(address.local.sun_path, &status) == 0 &&
	    S_ISSOCK(status.st_mode))
		unlink(address.local.sun_path);
	close(acceptor->listener.fd);
	acceptor->listener.fd = -1;
}
