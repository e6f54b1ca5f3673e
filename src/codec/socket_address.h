/*
 * socket_address: what the kernel says of a peer, as our own values.
 *
 * Room: codec. Threads: pure.
 */
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "codec/ip.h"

/* All zero for a family without such addresses. */
static inline struct ip_address socket_address_ip(const struct sockaddr *address)
{
	struct ip_address ip = { { 0 } };
	const void *any = address;
	if (address->sa_family == AF_INET) {
		unsigned char v4[4];
		memcpy(v4, &((const struct sockaddr_in *)any)->sin_addr, sizeof(v4));
		ip = ip_from_v4(v4);
	} else if (address->sa_family == AF_INET6) {
		memcpy(ip.bytes, &((const struct sockaddr_in6 *)any)->sin6_addr, sizeof(ip.bytes));
	}
	return ip;
}

/* A peer on this machine, by a socket in the file system. */
static inline bool socket_address_is_unix(const struct sockaddr *address)
{
	return address->sa_family == AF_UNIX;
}

/* sin_port and sin6_port stand at the same place. */
static inline uint16_t socket_address_port(const struct sockaddr *address)
{
	const void *any = address;
	bool inet = address->sa_family == AF_INET || address->sa_family == AF_INET6;
	return inet ? ntohs(((const struct sockaddr_in *)any)->sin_port) : 0;
}
