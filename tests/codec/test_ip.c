/* ip: who is inside a network and who is not. */
#include "support/test.h"

#include <string.h>

#include "codec/ip.h"

static struct ip_address address(const char *text)
{
	struct ip_address ip;
	if (ip_parse(span_str(text), &ip))
		fail_msg("%s is an address", text);
	return ip;
}

static bool has(const char *network_text, const char *address_text)
{
	struct ip_network network;
	struct error_text text;
	struct ip_address ip = address(address_text);
	if (ip_network_parse(span_str(network_text), &network, &text))
		fail_msg("%s: %s", network_text, text.text);
	return ip_network_has(&network, &ip);
}

static void networks_hold_what_they_say(void **state)
{
	(void)state;
	assert_true(has("10.0.0.0/8", "10.255.0.1"));
	assert_false(has("10.0.0.0/8", "11.0.0.1"));
	assert_true(has("192.0.2.128/25", "192.0.2.200"));
	assert_false(has("192.0.2.128/25", "192.0.2.127"));
	assert_true(has("192.0.2.7", "192.0.2.7"));
	assert_false(has("192.0.2.7", "192.0.2.6"));
	assert_true(has("192.0.2.7/32", "192.0.2.7"));
	assert_true(has("2001:db8::/33", "2001:db8:7fff::1"));
	assert_false(has("2001:db8::/33", "2001:db8:8000::1"));
	assert_true(has("::1", "::1"));
	assert_false(has("::1", "::2"));
}

static void a_mapped_address_is_the_ipv4_one(void **state)
{
	(void)state;
	assert_true(has("10.0.0.0/8", "::ffff:10.1.2.3"));
	assert_true(has("::ffff:10.0.0.0/104", "10.1.2.3"));
	assert_false(has("::ffff:10.0.0.0/104", "11.1.2.3"));
	struct ip_address mapped = address("::ffff:10.1.2.3");
	char text[IP_TEXT_MAX];
	assert_true(ip_is_v4(&mapped));
	ip_format(&mapped, text);
	assert_string_equal(text, "10.1.2.3");
}

static void all_of_one_family_is_nothing_of_the_other(void **state)
{
	(void)state;
	assert_true(has("0.0.0.0/0", "203.0.113.9"));
	assert_false(has("0.0.0.0/0", "2001:db8::1"));
	assert_true(has("::/0", "2001:db8::1"));
	assert_false(has("::/0", "203.0.113.9"));
	assert_false(has("::/90", "203.0.113.9"));
	assert_false(has("::/95", "::ffff:1.2.3.4"));
}

/* Bit by bit against the prefix. */
static void every_bit_of_a_prefix_counts_and_none_behind_it(void **state)
{
	(void)state;
	for (unsigned bits = 0; bits <= 128; bits++) {
		struct ip_network network = { .bits = (uint8_t)bits };
		struct ip_address base = { { 0x20, 0x01, 0x0d, 0xb8 } };
		for (unsigned i = 0; i < bits; i++)
			network.address.bytes[i / 8] |= (unsigned char)(base.bytes[i / 8] &
			                                                0x80 >> i % 8);
		for (unsigned bit = 0; bit < 128; bit++) {
			struct ip_address other = base;
			other.bytes[bit / 8] ^= (unsigned char)(0x80 >> bit % 8);
			assert_int_equal(ip_network_has(&network, &other), bit >= bits);
		}
	}
}

static void slips_are_refused_with_the_reason(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "", "expected" },
		{ "10.0.0.0/33", "expected" },
		{ "10.0.0.0/", "expected" },
		{ "10.0.0.0/08", "expected" },
		{ "10.0.0.0/-1", "expected" },
		{ "10.0.0/8", "expected" },
		{ "10.0.0.256", "expected" },
		{ "::/129", "expected" },
		{ "localhost", "expected" },
		{ "10.0.0.0/8/8", "expected" },
		{ " 10.0.0.0/8", "expected" },
		{ "[::1]", "expected" },
		{ "fe80::1%eth0", "expected" },
		{ "/8", "expected" },
		{ "10.0.0.1/8", "10.0.0.0/8 is the network" },
		{ "2001:db8::1/32", "2001:db8::/32 is the network" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct ip_network network;
		struct error_text text;
		if (ip_network_parse(span_str(cases[i].text), &network, &text) != ERR_INVALID)
			fail_msg("%s was accepted", cases[i].text);
		if (!strstr(text.text, cases[i].says))
			fail_msg("%s: %s", cases[i].text, text.text);
	}
}

static void expect_special(const char *text, const char *special)
{
	struct ip_address ip = address(text);
	const char *found = ip_special(&ip);
	if (!special != !found || (found && strcmp(found, special) != 0))
		fail_msg("%s is %s address", text, found ? found : "a public");
}

static void what_is_not_public_is_known(void **state)
{
	static const char *const special[][2] = {
		{ "0.0.0.0", "an unspecified" },
		{ "0.255.255.255", "an unspecified" },
		{ "10.255.255.255", "a private" },
		{ "100.64.0.0", "a carrier's private" },
		{ "100.127.255.255", "a carrier's private" },
		{ "127.0.0.1", "a loopback" },
		{ "127.255.255.255", "a loopback" },
		{ "169.254.169.254", "a link-local" },
		{ "172.16.0.0", "a private" },
		{ "172.31.255.255", "a private" },
		{ "192.0.0.8", "a reserved" },
		{ "192.168.0.1", "a private" },
		{ "198.19.255.255", "a benchmarking" },
		{ "224.0.0.1", "a multicast" },
		{ "239.255.255.255", "a multicast" },
		{ "255.255.255.255", "a reserved" },
		{ "::", "an unspecified" },
		{ "::1", "a loopback" },
		{ "::127.0.0.1", "an IPv4-compatible" },
		{ "::ffff:127.0.0.1", "a loopback" },
		{ "::ffff:192.168.1.1", "a private" },
		{ "::ffff:0:10.0.0.1", "an IPv4-translated" },
		{ "64:ff9b::10.0.0.1", "a NAT64" },
		{ "64:ff9b::8.8.8.8", "a NAT64" },
		{ "64:ff9b:1::1", "a NAT64" },
		{ "100::1", "a discard" },
		{ "2001::1", "a Teredo" },
		{ "2001:10::1", "a reserved" },
		{ "2001:db8::1", "a documentation" },
		{ "2002:a00:1::", "a 6to4" },
		{ "fc00::1", "a private" },
		{ "fdff:ffff::1", "a private" },
		{ "fe80::1", "a link-local" },
		{ "febf::1", "a link-local" },
		{ "fec0::1", "a site-local" },
		{ "ff02::1", "a multicast" },
	};
	static const char *const public[] = {
		"1.0.0.0",         "9.255.255.255", "11.0.0.0",        "100.63.255.255",
		"100.128.0.0",     "126.0.0.1",     "128.0.0.1",       "169.253.255.255",
		"172.15.255.255",  "172.32.0.0",    "192.0.1.1",       "192.167.255.255",
		"192.169.0.0",     "198.20.0.0",    "223.255.255.255", "8.8.8.8",
		"::ffff:8.8.8.8",  "2001:4860::1",  "2001:200::1",     "2003::1",
		"2606:4700::1111", "64:ff9c::1",    "fbff::1",
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(special); i++)
		expect_special(special[i][0], special[i][1]);
	for (size_t i = 0; i < ARRAY_LEN(public); i++)
		expect_special(public[i], NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(networks_hold_what_they_say),
		cmocka_unit_test(what_is_not_public_is_known),
		cmocka_unit_test(a_mapped_address_is_the_ipv4_one),
		cmocka_unit_test(all_of_one_family_is_nothing_of_the_other),
		cmocka_unit_test(every_bit_of_a_prefix_counts_and_none_behind_it),
		cmocka_unit_test(slips_are_refused_with_the_reason),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
