/* A listening socket. See listener.h. */
#include "net/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"

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

/* Binds without SO_REUSEPORT, which fails when anybody listens there. */
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

/* Accepted sockets inherit TCP_NODELAY, which saves a call for each. */
static int set_options(int fd)
{
	int on = 1, defer = DEFER_ACCEPT_S;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer, sizeof(defer)))
		return -errno;
	return 0;
}

/* ---- TCP ---- */

static int bind_and_listen(int fd, union address *address, uint16_t *ret_port)
{
	socklen_t len = address_len(address);
	int error = set_options(fd);
	if (error)
		return error;
	if (bind(fd, &address->any, len) || listen(fd, BACKLOG) ||
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

bool listener_is_unix(const char *address)
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

/* ---- either ---- */

int listener_open(const char *text, uint16_t joined, int *ret_fd, uint16_t *ret_port,
                  struct error_text *ret_text)
{
	union address address;
	bool local = listener_is_unix(text);
	CHECK(!local || joined == 0);
	if (local ? !parse_path(text, &address) : !parse_address(text, &address))
		return error_fill(ret_text, ERR_CONFIG,
		                  "cannot read the address \"%s\": expected IPV4:PORT, [IPV6]:PORT "
		                  "or unix:/PATH",
		                  text);
	int error = local ? open_unix(&address, ret_fd)
	                  : open_inet(&address, joined, ret_fd, ret_port);
	if (error)
		return error_fill(ret_text, error, "cannot listen on %s: %s", text,
		                  error_name(error));
	if (local)
		*ret_port = 0;
	return 0;
}

void listener_close(int fd)
{
	union address address = { 0 };
	socklen_t len = sizeof(address);
	struct stat status;
	if (getsockname(fd, &address.any, &len) == 0 && address.any.sa_family == AF_UNIX &&
	    lstat(address.local.sun_path, &status) == 0 && S_ISSOCK(status.st_mode))
		unlink(address.local.sun_path);
	close(fd);
}
