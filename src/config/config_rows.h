/*
 * config_rows: what the files share that write the rows of the table of options.
 *
 * Each part of the configuration has its rows in a file of its own, config_rows_PART.c,
 * and config_table puts them one after the other, in the order of the manual. A row's
 * path is the whole one.
 *
 * Room: config. Threads: constant.
 */
#pragma once

#include "config/config.h"
#include "config/config_table.h"

struct config_rows {
	const struct config_option *rows;
	size_t count;
};

extern const struct config_rows config_rows_gateway; /* listeners, store, limits */
extern const struct config_rows config_rows_claims;
extern const struct config_rows config_rows_sources;
extern const struct config_rows config_rows_sinks;
extern const struct config_rows config_rows_routes;

#define DAY_MS UINT64_C(86400000)
#define HOUR_MS (DAY_MS / 24)
#define WINDOW_MIN_MS UINT64_C(1000)
#define WINDOW_MAX_MS (3650 * DAY_MS)

/* Where the value goes: with a flag of serve, into a member, or into an array with its
 * count. */
#define FLAG(row) .kind = CONFIG_FLAG, .flag = &serve_option_rows[row]
#define FIELD(type, member) \
	.offset = offsetof(struct type, member), .size = sizeof(((struct type *)NULL)->member)
#define COUNTED(type, member, counter, most)                                                     \
	.offset = offsetof(struct type, member), .count_offset = offsetof(struct type, counter), \
	.max = (most)
/* Structs with rows of their own, in an array of the struct or behind a pointer. */
#define INSIDE(type, member, counter)                                                              \
	.offset = offsetof(struct type, member), .size = sizeof(((struct type *)NULL)->member[0]), \
	.count_offset = offsetof(struct type, counter), .inside = true
#define POINTED(type, member, counter)                                                             \
	.offset = offsetof(struct type, member), .size = sizeof(((struct type *)NULL)->member[0]), \
	.count_offset = offsetof(struct type, counter)

/* The same wherever somebody must be known. The formatter would put every backslash behind
 * the longest line. */
/* clang-format off */
#define AUTH_ROWS(AT) \
	{ .path = AT ".kind", \
	  .kind = CONFIG_CHOICE, \
	  FIELD(auth_spec, kind), \
	  .choices = "none|header|basic|bearer|standard-webhooks|hmac|genesys|github|stripe|shopify|twilio|certificate", \
	  .standard = "header, if `header` is given", \
	  .also = "type|scheme|method", \
	  .help = "an API key in a header, HTTP Basic, a bearer token, or a signature as a platform makes it" }, \
	{ .path = AT ".header", \
	  .kind = CONFIG_TEXT, \
	  FIELD(auth_spec, header), \
	  .max = 64, \
	  .value = "NAME", \
	  .help = "the header that holds the key (`header`) or the signature (`hmac`)" }, \
	{ .path = AT ".user", \
	  .kind = CONFIG_TEXT, \
	  FIELD(auth_spec, user), \
	  .max = 128, \
	  .value = "NAME", \
	  .also = "username|login", \
	  .help = "the user of `basic`" }, \
	{ .path = AT ".secret", \
	  .kind = CONFIG_SECRETS, \
	  COUNTED(auth_spec, secrets, secret_count, AUTH_SECRETS_MAX), \
	  .value = "SECRET", \
	  .also = "secrets|password|token|key|api_key", \
	  .help = "the key, password, token or signing secret, or a list of up to 5 while they are rotated; `${NAME}` or `file:PATH`" }, \
	{ .path = AT ".algorithm", \
	  .kind = CONFIG_CHOICE, \
	  FIELD(auth_spec, algorithm), \
	  .choices = "sha256|sha1|sha512", \
	  .standard = "sha256", \
	  .help = "of `hmac`" }, \
	{ .path = AT ".encoding", \
	  .kind = CONFIG_CHOICE, \
	  FIELD(auth_spec, encoding), \
	  .choices = "hex|base64", \
	  .standard = "hex", \
	  .help = "of the signature of `hmac`" }, \
	{ .path = AT ".prefix", \
	  .kind = CONFIG_TEXT, \
	  FIELD(auth_spec, prefix), \
	  .max = 64, \
	  .value = "TEXT", \
	  .help = "what stands before the signature of `hmac`, such as `sha256=`" }, \
	{ .path = AT ".signed", \
	  .kind = CONFIG_TEXTS, \
	  COUNTED(auth_spec, signed_parts, signed_count, AUTH_SIGNED_MAX), \
	  .value = "[PART…]", \
	  .standard = "[body]", \
	  .help = "what `hmac` signs, joined in this order: `body`, `header:NAME`, `path`, `method`, `url`, `const:TEXT`" }, \
	{ .path = AT ".timestamp", \
	  .kind = CONFIG_TEXT, \
	  FIELD(auth_spec, timestamp), \
	  .max = 128, \
	  .value = "PART", \
	  .help = "the part that holds the time of `hmac` in unix seconds, such as `header:X-Time`" }, \
	{ .path = AT ".tolerance", \
	  .kind = CONFIG_SECONDS, \
	  FIELD(auth_spec, tolerance_s), \
	  .min = 1000, \
	  .max = DAY_MS, \
	  .value = "TIME", \
	  .standard = "5m", \
	  .help = "how far the time of a signature may be off" }, \
	{ .path = AT ".public_url", \
	  .kind = CONFIG_TEXT, \
	  FIELD(auth_spec, public_url), \
	  .max = 512, \
	  .value = "URL", \
	  .help = "how senders reach stile, `https://HOST[:PORT][/PREFIX]`, if a proxy changes it (`twilio`, and `hmac` that signs the url)" }, \
	{ .path = AT ".names", \
	  .kind = CONFIG_TEXTS, \
	  COUNTED(auth_spec, names, name_count, AUTH_NETWORKS_MAX), \
	  .value = "[NAME…]", \
	  .help = "whose client certificates are taken (`certificate`); without it, any that `tls.client_ca` signed" }, \
	{ .path = AT ".networks", \
	  .kind = CONFIG_NETWORKS, \
	  COUNTED(auth_spec, networks, network_count, AUTH_NETWORKS_MAX), \
	  .value = "[CIDR…]", \
	  .also = "allow|addresses|cidr", \
	  .help = "the addresses that may send, such as `10.0.0.0/8` or `2001:db8::/32`, with any kind" }
/* clang-format on */
