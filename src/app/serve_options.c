/* The options of `stile serve`: see serve.h. */
#include "app/serve.h"

#define DAY_MS UINT64_C(86400000)

static const struct option options[] = {
	{ "listen", OPTION_ADDRESS, offsetof(struct serve_options, listen), "ADDR:PORT",
	  "127.0.0.1:8080", 0, 0, NULL,
	  "where to listen, IPv4 or [IPv6]; port 0 picks a free one" },
	{ "data", OPTION_TEXT, offsetof(struct serve_options, data), "DIR", "stile-data", 0, 0,
	  NULL, "the data folder; made if it is not there" },
	{ "window", OPTION_DURATION, offsetof(struct serve_options, window_ms), "TIME", "4d", 1000,
	  3650 * DAY_MS, NULL, "how long a claim is remembered" },
	{ "tls-cert", OPTION_TEXT, offsetof(struct serve_options, tls_cert), "FILE", NULL, 0, 0,
	  NULL, "certificate chain (PEM); with --tls-key, listen with TLS" },
	{ "tls-key", OPTION_TEXT, offsetof(struct serve_options, tls_key), "FILE", NULL, 0, 0, NULL,
	  "private key of the certificate (PEM)" },
	{ "threads", OPTION_COUNT, offsetof(struct serve_options, threads), "N", "1", 1, 64, NULL,
	  "io threads" },
	{ "log", OPTION_CHOICE, offsetof(struct serve_options, log_json), "FORMAT", "text", 0, 0,
	  "text|json", "log lines on standard error: text or json" },
	{ "print", OPTION_CHOICE, offsetof(struct serve_options, print_envelope), "FORM", "event",
	  0, 0, "event|envelope",
	  "a line of standard output: the event, or an envelope with its ticket" },
	{ "commit", OPTION_CHOICE, offsetof(struct serve_options, commit), "WHERE", "auto", 0, 0,
	  "auto|inline|thread",
	  "who writes the journal: the io thread, a thread of its own, or what the disk's speed says" },
	{ "retain", OPTION_DURATION, offsetof(struct serve_options, retain_ms), "TIME", "7d", 1000,
	  3650 * DAY_MS, NULL, "how long the events of settled tickets are kept" },
	{ "retain-size", OPTION_SIZE, offsetof(struct serve_options, retain_bytes), "SIZE", "16GiB",
	  64u << 20, UINT64_C(1) << 50, NULL, "at most this much journal is kept for them" },
	{ "max-body", OPTION_SIZE, offsetof(struct serve_options, body_bytes), "SIZE", "1MiB", 1024,
	  4u << 20, NULL, "largest request body; beyond it the answer is 413" },
	{ "max-connections", OPTION_COUNT, offsetof(struct serve_options, connections), "N", "8192",
	  1, 1000000, NULL, "open connections in all; beyond it the answer is 503" },
	{ "max-per-address", OPTION_COUNT, offsetof(struct serve_options, connections_per_address),
	  "N", "1024", 1, 1000000, NULL,
	  "open connections of one address; beyond it the answer is 429" },
	{ "max-open-tickets", OPTION_COUNT, offsetof(struct serve_options, open_tickets), "N",
	  "10000000", 1, 100000000, NULL,
	  "events waiting for delivery; beyond it the answer is 503" },
	{ "accept-clock", OPTION_FLAG, offsetof(struct serve_options, accept_clock), NULL, NULL, 0,
	  0, NULL, "trust the wall clock once, after stile has held it for an unexplained jump" },
};

const struct option_table serve_option_table = { options, ARRAY_LEN(options) };
