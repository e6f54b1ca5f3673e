/* ip: see ip.h. */
#include "codec/ip.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/text.h"

static const unsigned char v4_prefix[12] = { [10] = 0xff, [11] = 0xff };

struct ip_address ip_from_v4(const unsigned char bytes[static 4])
{
	struct ip_address address;
	memcpy(address.bytes, v4_prefix, 12);
	memcpy(address.bytes + 12, bytes, 4);
	return address;
}

bool ip_is_v4(const struct ip_address *address)
{
	return memcmp(address->bytes, v4_prefix, 12) == 0;
}

bool ip_is_loopback(const struct ip_address *address)
{
	static const unsigned char v6[16] = { [15] = 1 };

	if (ip_is_v4(address))
		return address->bytes[12] == 127;
	return memcmp(address->bytes, v6, sizeof(v6)) == 0;
}

bool ip_is_loopback_host(struct span host)
{
	struct ip_address address;
	/* Without the port: "localhost", "127.0.0.1", "::1". */
	bool bracket = span_cut_start(&host, SPAN("["));
	struct span name = span_cut_item(&host, bracket ? ']' : ':');
	if (span_eq_nocase(name, SPAN("localhost")))
		return true;
	return ip_parse(name, &address) == 0 && ip_is_loopback(&address);
}

/* From IANA's registries of special-purpose addresses, IPv4 as ::ffff:a.b.c.d. */
struct special {
	unsigned char bytes[16];
	uint8_t bits;
	const char *name;
};

#define V4(a, b, c, d)                                                           \
	{                                                                        \
		[10] = 0xff, [11] = 0xff, [12] = a, [13] = b, [14] = c, [15] = d \
	}

static const struct special specials[] = {
	{ V4(0, 0, 0, 0), 96 + 8, "an unspecified" },
	{ V4(10, 0, 0, 0), 96 + 8, "a private" },
	{ V4(100, 64, 0, 0), 96 + 10, "a carrier's private" },
	{ V4(127, 0, 0, 0), 96 + 8, "a loopback" },
	{ V4(169, 254, 0, 0), 96 + 16, "a link-local" },
	{ V4(172, 16, 0, 0), 96 + 12, "a private" },
	{ V4(192, 0, 0, 0), 96 + 24, "a reserved" },
	{ V4(192, 0, 2, 0), 96 + 24, "a documentation" },
	{ V4(192, 88, 99, 0), 96 + 24, "a 6to4 relay" },
	{ V4(192, 168, 0, 0), 96 + 16, "a private" },
	{ V4(198, 18, 0, 0), 96 + 15, "a benchmarking" },
	{ V4(198, 51, 100, 0), 96 + 24, "a documentation" },
	{ V4(203, 0, 113, 0), 96 + 24, "a documentation" },
	{ V4(224, 0, 0, 0), 96 + 4, "a multicast" },
	{ V4(240, 0, 0, 0), 96 + 4, "a reserved" },
	{ { 0 }, 128, "an unspecified" },
	{ { [15] = 1 }, 128, "a loopback" },
	{ { 0 }, 96, "an IPv4-compatible" },
	{ { [8] = 0xff, [9] = 0xff }, 96, "an IPv4-translated" },
	{ { 0x00, 0x64, 0xff, 0x9b }, 96, "a NAT64" },
	{ { 0x00, 0x64, 0xff, 0x9b, 0x00, 0x01 }, 48, "a NAT64" },
	{ { 0x01, 0x00 }, 64, "a discard" },
	{ { 0x20, 0x01, 0x00, 0x00 }, 32, "a Teredo" },
	{ { 0x20, 0x01, 0x00, 0x00 }, 23, "a reserved" },
	{ { 0x20, 0x01, 0x0d, 0xb8 }, 32, "a documentation" },
	{ { 0x20, 0x02 }, 16, "a 6to4" },
	{ { 0x3f, 0xff }, 20, "a documentation" },
	{ { 0x5f, 0x00 }, 16, "a segment routing" },
	{ { 0xfc, 0x00 }, 7, "a private" },
	{ { 0xfe, 0x80 }, 10, "a link-local" },
	{ { 0xfe, 0xc0 }, 10, "a site-local" },
	{ { 0xff, 0x00 }, 8, "a multicast" }
};

const char *ip_special(const struct ip_address *address)
{
	for (size_t i = 0; i < ARRAY_LEN(specials); i++) {
		const struct special *it = &specials[i];
		size_t whole = it->bits / 8;
		unsigned rest = it->bits % 8;
		unsigned differs = rest ? address->bytes[whole] ^ it->bytes[whole] : 0;
		if (memcmp(address->bytes, it->bytes, whole) == 0 && differs >> (8 - rest) == 0)
			return it->name;
	}
	return NULL;
}

int ip_parse(struct span text, struct ip_address *ret_address)
{
	char copy[IP_TEXT_MAX];
	unsigned char v4[4];
	struct ip_address address;
	if (text.len >= sizeof(copy) || text.len == 0 || memchr(text.ptr, '\0', text.len))
		return ERR_INVALID;
	memcpy(copy, text.ptr, text.len);
	copy[text.len] = '\0';
	if (inet_pton(AF_INET, copy, v4) == 1)
		address = ip_from_v4(v4);
	else if (inet_pton(AF_INET6, copy, address.bytes) != 1)
		return ERR_INVALID;
	*ret_address = address;
	return 0;
}

/* Clears the bits after the prefix; true if they were 0 already. */
static bool cut_to_prefix(struct ip_network *network)
{
	bool clean = true;
	for (unsigned i = 0; i < 16; i++) {
		unsigned before = i * 8, kept = network->bits > before ? network->bits - before : 0;
		unsigned char keep = (unsigned char)(0xff00u >> (kept < 8 ? kept : 8));
		clean &= (network->address.bytes[i] & ~keep) == 0;
		network->address.bytes[i] &= keep;
	}
	return clean;
}

static int refuse_network(struct span text, struct error_text *ret_text)
{
	return error_fill(ret_text, ERR_INVALID,
	                  "\"%.*s\" is no network: expected one as 10.0.0.0/8, 2001:db8::/32 or "
	                  "192.0.2.1",
	                  (int)(text.len < 64 ? text.len : 64), text.ptr);
}

int ip_network_parse(struct span text, struct ip_network *ret_network, struct error_text *ret_text)
{
	struct ip_network network = { .bits = 128 };
	const char *slash = text.len ? memchr(text.ptr, '/', text.len) : NULL;
	size_t len = slash ? (size_t)(slash - text.ptr) : text.len;
	struct span head = span_of(text.ptr, len);
	if (ip_parse(head, &network.address))
		return refuse_network(text, ret_text);
	/* ::ffff:10.0.0.0/104 is the other way to write 10.0.0.0/8. */
	bool v4 = head.len > 0 && !memchr(head.ptr, ':', head.len);
	if (slash) {
		struct span digits = span_skip(text, len + 1);
		uint64_t bits;
		if (digits.len > 3 || text_parse_u64(digits, &bits) || bits > (v4 ? 32 : 128) ||
		    (digits.len > 1 && digits.ptr[0] == '0'))
			return refuse_network(text, ret_text);
		network.bits = (uint8_t)(v4 ? bits + 96 : bits);
	}
	if (!cut_to_prefix(&network)) {
		char right[IP_TEXT_MAX];
		ip_format(&network.address, right);
		return error_fill(ret_text, ERR_INVALID,
		                  "\"%.*s\" has bits behind its prefix: %s/%u is the network",
		                  (int)(text.len < 64 ? text.len : 64), text.ptr, right,
		                  v4 ? network.bits - 96u : network.bits);
	}
	*ret_network = network;
	return 0;
}

bool ip_network_has(const struct ip_network *network, const struct ip_address *address)
{
	struct ip_network cut = { .address = *address, .bits = network->bits };
	if (ip_is_v4(address) != (ip_is_v4(&network->address) && network->bits >= 96))
		return false;
	cut_to_prefix(&cut);
	return memcmp(cut.address.bytes, network->address.bytes, sizeof(cut.address.bytes)) == 0;
}

void ip_format(const struct ip_address *address, char ret_text[static IP_TEXT_MAX])
{
	bool v4 = ip_is_v4(address);
	const char *text = inet_ntop(v4 ? AF_INET : AF_INET6, address->bytes + (v4 ? 12 : 0),
	                             ret_text, IP_TEXT_MAX);
	CHECK(text);
}
