/*
 * load: see load.h. Options in, lines of "key value" out.
 */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "load.h"

static const char *const usage_text =
	"usage: load --port PORT [option ...]\n"
	"  --host ADDRESS       IPv4 address of the server (127.0.0.1)\n"
	"  --path PATH          (/in/events)\n"
	"  --mode MODE          keepalive, close (a connection for each request) or open\n"
	"  --rate N             requests/s of mode open\n"
	"  --tls KIND           none, full or resume\n"
	"  --connections N      at the same time (64)\n"
	"  --seconds S          measured time (3), after --warmup S (0.5)\n"
	"  --duplicates N       send the same N ids again and again (0: all are new)\n"
	"  --prefix N           first 32 bits of every id\n"
	"  --event KIND         plain (an object with an id) or genesys (an EventBridge envelope)\n"
	"  --body-bytes N       of one event (1024)\n"
	"  --batch N            N events in each request, as a JSON array\n"
	"  --cpu N              pin to this core\n"
	"  --pids P,P,...       report the CPU of these processes\n"
	"  --show               print one request and its answer, then leave\n";

enum option_id {
	OPT_HOST = 1,
	OPT_PORT,
	OPT_PATH,
	OPT_MODE,
	OPT_RATE,
	OPT_TLS,
	OPT_CONNECTIONS,
	OPT_SECONDS,
	OPT_WARMUP,
	OPT_DUPLICATES,
	OPT_PREFIX,
	OPT_BODY_BYTES,
	OPT_EVENT,
	OPT_BATCH,
	OPT_CPU,
	OPT_PIDS,
	OPT_SHOW,
};

static const struct option option_table[] = {
	{ "host", required_argument, NULL, OPT_HOST },
	{ "port", required_argument, NULL, OPT_PORT },
	{ "path", required_argument, NULL, OPT_PATH },
	{ "mode", required_argument, NULL, OPT_MODE },
	{ "rate", required_argument, NULL, OPT_RATE },
	{ "tls", required_argument, NULL, OPT_TLS },
	{ "connections", required_argument, NULL, OPT_CONNECTIONS },
	{ "seconds", required_argument, NULL, OPT_SECONDS },
	{ "warmup", required_argument, NULL, OPT_WARMUP },
	{ "duplicates", required_argument, NULL, OPT_DUPLICATES },
	{ "prefix", required_argument, NULL, OPT_PREFIX },
	{ "body-bytes", required_argument, NULL, OPT_BODY_BYTES },
	{ "event", required_argument, NULL, OPT_EVENT },
	{ "batch", required_argument, NULL, OPT_BATCH },
	{ "cpu", required_argument, NULL, OPT_CPU },
	{ "pids", required_argument, NULL, OPT_PIDS },
	{ "show", no_argument, NULL, OPT_SHOW },
	{ NULL, 0, NULL, 0 },
};

static int choose(const char *value, const char *const *names, int count)
{
	for (int i = 0; i < count; i++) {
		if (strcmp(value, names[i]) == 0)
			return i;
	}
	return -1;
}

static int read_mode(struct load_options *options, const char *value)
{
	static const char *const names[] = { "keepalive", "close", "open" };
	int mode = choose(value, names, ARRAY_LEN(names));
	if (mode >= 0)
		options->mode = (enum load_mode)mode;
	return mode < 0 ? -1 : 0;
}

static int read_tls(struct load_options *options, const char *value)
{
	static const char *const names[] = { "none", "full", "resume" };
	int tls = choose(value, names, ARRAY_LEN(names));
	if (tls >= 0)
		options->tls = (enum load_tls_kind)tls;
	return tls < 0 ? -1 : 0;
}

static int read_event(struct load_options *options, const char *value)
{
	static const char *const names[] = { "plain", "genesys" };
	int event = choose(value, names, ARRAY_LEN(names));
	if (event >= 0)
		options->event = (enum load_event)event;
	return event < 0 ? -1 : 0;
}

static int read_pids(struct load_options *options, const char *value)
{
	char *next = NULL;
	for (; *value; value = *next == ',' ? next + 1 : next) {
		long pid = strtol(value, &next, 10);
		if (next == value || options->pid_count == LOAD_PIDS_MAX)
			return -1;
		options->pids[options->pid_count++] = (int)pid;
	}
	return 0;
}

static int read_u32(uint32_t *ret_number, const char *value)
{
	char *end = NULL;
	unsigned long number = strtoul(value, &end, 0);
	if (end == value || *end != '\0' || number > UINT32_MAX)
		return -1;
	*ret_number = (uint32_t)number;
	return 0;
}

static int read_double(double *ret_number, const char *value)
{
	char *end = NULL;
	double number = strtod(value, &end);
	if (end == value || *end != '\0' || number < 0)
		return -1;
	*ret_number = number;
	return 0;
}

static int read_small(const char *value, uint32_t most)
{
	uint32_t number = 0;
	return read_u32(&number, value) == 0 && number <= most ? (int)number : -1;
}

static int read_option(struct load_options *options, int id, const char *value)
{
	switch (id) {
	case OPT_HOST: options->host = value; return 0;
	case OPT_PORT: {
		int port = read_small(value, UINT16_MAX);
		options->port = (uint16_t)port;
		return port;
	}
	case OPT_PATH: options->path = value; return 0;
	case OPT_MODE: return read_mode(options, value);
	case OPT_RATE: return read_double(&options->rate, value);
	case OPT_TLS: return read_tls(options, value);
	case OPT_CONNECTIONS: return read_u32(&options->connections, value);
	case OPT_SECONDS: return read_double(&options->seconds, value);
	case OPT_WARMUP: return read_double(&options->warmup_seconds, value);
	case OPT_EVENT: return read_event(options, value);
	case OPT_BATCH: {
		int batch = read_small(value, LOAD_BATCH_MAX);
		options->batch = (uint32_t)batch;
		return batch;
	}
	case OPT_DUPLICATES: return read_u32(&options->duplicates, value);
	case OPT_PREFIX: return read_u32(&options->prefix, value);
	case OPT_BODY_BYTES: return read_u32(&options->body_bytes, value);
	case OPT_CPU: return options->cpu = read_small(value, 1023);
	case OPT_PIDS: return read_pids(options, value);
	case OPT_SHOW: options->show = true; return 0;
	default: return -1;
	}
}

static int read_options(struct load_options *options, int argc, char **argv)
{
	int id = 0;
	while ((id = getopt_long(argc, argv, "", option_table, NULL)) != -1) {
		if (read_option(options, id, optarg) < 0) {
			(void)fprintf(stderr, "load: bad option or value: %s\n", argv[optind - 1]);
			return -1;
		}
	}
	if (optind != argc || options->port == 0 || options->connections == 0 ||
	    options->connections > LOAD_CONNECTIONS_MAX ||
	    (options->mode == LOAD_OPEN && options->rate <= 0))
		return -1;
	return 0;
}

static double us_each(uint64_t ns, uint64_t count)
{
	return count ? (double)ns / 1e3 / (double)count : 0;
}

/* Cores' worth of work by anyone but the server and us: a run with much of it
 * was disturbed. Interrupts and kernel threads that serve this run are in it. */
static double others_busy(const struct load_result *result)
{
	double others_ns = (double)result->machine_ns - (double)result->server_ns -
	                   (double)result->own_ns;
	return others_ns > 0 ? others_ns / 1e9 / result->seconds : 0;
}

static void report(const struct load_result *result)
{
	const struct load_counts *counts = &result->counts;
	const struct load_latency *latency = &result->latency;
	printf("requests %" PRIu64 "\n", counts->requests);
	printf("seconds %.3f\n", result->seconds);
	printf("rps %.0f\n", (double)counts->requests / result->seconds);
	printf("errors %" PRIu64 "\n", counts->errors);
	printf("new %" PRIu64 "\n", counts->fresh);
	printf("duplicate %" PRIu64 "\n", counts->duplicate);
	printf("other_verdict %" PRIu64 "\n", counts->other);
	printf("handshakes %" PRIu64 "\n", counts->handshakes);
	printf("resumed %" PRIu64 "\n", counts->resumed);
	printf("p50_us %.1f\n", (double)load_latency_quantile(latency, 0.50) / 1e3);
	printf("p99_us %.1f\n", (double)load_latency_quantile(latency, 0.99) / 1e3);
	printf("p999_us %.1f\n", (double)load_latency_quantile(latency, 0.999) / 1e3);
	printf("max_us %.1f\n", (double)load_latency_quantile(latency, 1.0) / 1e3);
	printf("server_cpu_us %.3f\n", us_each(result->server_ns, counts->requests));
	printf("server_busy %.3f\n", (double)result->server_ns / 1e9 / result->seconds);
	double idle = (double)result->idle_ns / 1e9 / result->seconds;
	printf("load_cpu_us %.3f\n", us_each(result->own_ns, counts->requests) * (1 - idle));
	printf("load_idle %.3f\n", idle);
	printf("others_busy %.3f\n", others_busy(result));
}

int main(int argc, char **argv)
{
	static struct load_result result;
	struct load_options options = {
		.host = "127.0.0.1",
		.path = "/in/events",
		.connections = 64,
		.seconds = 3,
		.warmup_seconds = 0.5,
		.body_bytes = 1024,
		.cpu = -1,
	};
	if (read_options(&options, argc, argv) != 0) {
		(void)fputs(usage_text, stderr);
		return 2;
	}
	/* A TLS write to a connection that the server has closed. */
	(void)signal(SIGPIPE, SIG_IGN);
	if (load_cpu_pin(options.cpu) != 0) {
		(void)fprintf(stderr, "load: cannot pin to core %d\n", options.cpu);
		return 1;
	}
	if (options.show)
		return load_show(&options) == 0 ? 0 : 1;
	if (load_run(&options, &result) != 0)
		return 1;
	report(&result);
	return 0;
}
