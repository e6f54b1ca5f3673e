/*
 * ip: addresses and networks.
 *
 * An address is 16 bytes, IPv4 as ::ffff:a.b.c.d. So an IPv4 peer of an IPv6
 * socket is the same peer, and networks know one form. A network of one family
 * holds no address of the other: ::/0 is all of IPv6 and nothing of IPv4.
 *
 * Room: codec. Threads: pure.
 * Failure: ERR_INVALID, and the text (may be NULL) says what was expected.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/span.h"

#define IP_TEXT_MAX 46 /* with the NUL */

struct ip_address {
	unsigned char bytes[16];
};

struct ip_network {
	struct ip_address address; /* bits after the prefix are 0 */
	uint8_t bits;              /* of the prefix, of 128 */
};

struct ip_address ip_from_v4(const unsigned char bytes[static 4]);
bool ip_is_v4(const struct ip_address *address);
bool ip_is_loopback(const struct ip_address *address); /* 127.0.0.0/8, ::1 */
/* Of a header Host: "localhost:8080", "127.0.0.1", "[::1]:80". */
bool ip_is_loopback_host(struct span host);

/* The kind of a special-purpose address, to which no request of a user may be sent: "a
 * loopback", "a private", "a link-local", … (add " address"); NULL for a public one. IPv6
 * addresses that embed an IPv4 address (NAT64, 6to4, Teredo) count as special: what they reach
 * depends on the network. */
const char *ip_special(const struct ip_address *address);

int ip_parse(struct span text, struct ip_address *ret_address) must_check;

/* "10.0.0.0/8", "2001:db8::/32", or one address. Bits after the prefix must be 0: 10.1.0.0/8 is
 * a mistake. */
int ip_network_parse(struct span text, struct ip_network *ret_network,
                     struct error_text *ret_text) must_check;

bool ip_network_has(const struct ip_network *network, const struct ip_address *address);

/* For people, with NUL: "192.0.2.1", "2001:db8::1". */
void ip_format(const struct ip_address *address, char ret_text[static IP_TEXT_MAX]);

/* ---- addresses of sockets ---- */

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

/* sin_port and sin6_port have the same offset. */
static inline uint16_t socket_address_port(const struct sockaddr *address)
{
	const void *any = address;
	bool inet = address->sa_family == AF_INET || address->sa_family == AF_INET6;
	return inet ? ntohs(((const struct sockaddr_in *)any)->sin_port) : 0;
}
