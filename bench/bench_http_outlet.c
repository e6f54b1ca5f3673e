/*
 * bench_http_outlet: requests of the HTTP outlet to a sink (bench/sink), without the
 * rest of stile. Lines of "key value": requests/s and CPU of this process per request.
 *
 *   bench_http_outlet PORT|URL [REQUESTS [AT_ONCE [BODY_BYTES [CA_FILE]]]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "sink/http/http_outlet.h"

struct bench {
	struct loop *loop;
	struct outlet *outlet;
	uint64_t left;    /* to start */
	uint64_t running; /* under way */
	uint64_t failed;
};

static void ended(struct outlet_attempt *attempt)
{
	struct bench *bench = attempt->user;
	if (attempt->result.answer != OUTLET_DONE && bench->failed++ == 0)
		printf("first_failure %.*s\n", attempt->result.text_len, attempt->result.text);
	bench->running--;
	if (bench->left > 0) {
		bench->left--;
		bench->running++;
		attempt->event++;
		attempt->next = NULL;
		bench->outlet->methods->send(bench->outlet, attempt);
	} else if (bench->running == 0) {
		loop_stop(bench->loop);
	}
}

static double cpu_us(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static struct span make_body(size_t len)
{
	char *body = mem_alloc(len + 16);
	CHECK(body);
	size_t head = (size_t)snprintf(body, 16, "{\"pad\":\"");
	memset(body + head, 'x', len > head + 2 ? len - head - 2 : 0);
	memcpy(body + (len > head + 2 ? len - 2 : head), "\"}", 2);
	return span_of(body, len > head + 2 ? len : head + 2);
}

int main(int argc, char **argv)
{
	char url[256];
	struct bench bench = { 0 };
	struct error_text text;
	uint64_t values[] = { 0, 200000, 32, 1024 };
	for (int i = 1; i < argc && i <= (int)ARRAY_LEN(values); i++)
		values[i - 1] = strtoull(argv[i], NULL, 10);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/events", (unsigned)values[0]);
	if (argc > 1 && strstr(argv[1], "://"))
		snprintf(url, sizeof(url), "%s", argv[1]);
	CHECK(loop_new(&bench.loop) == 0);
	struct http_outlet_options options = { .loop = bench.loop,
		                               .url = span_str(url),
		                               .ca_file = argc > 5 ? argv[5] : NULL,
		                               .allow = { SPAN("127.0.0.1") },
		                               .allow_count = 1 };
	if (http_outlet_new(&options, &bench.outlet, &text)) {
		fprintf(stderr, "%s\n", text.text);
		return 1;
	}
	struct outlet_attempt *attempts = mem_zalloc(values[2], sizeof(*attempts));
	CHECK(attempts);
	struct span body = make_body(values[3]);
	for (uint64_t i = 0; i < values[2]; i++) {
		attempts[i] = (struct outlet_attempt){ .event = (i + 1) << 32,
			                               .number = 1,
			                               .json = true,
			                               .source = SPAN("bench"),
			                               .payload = body,
			                               .done = ended,
			                               .user = &bench };
		attempts[i].next = i + 1 < values[2] ? &attempts[i + 1] : NULL;
	}
	bench.left = values[1] > values[2] ? values[1] - values[2] : 0;
	bench.running = values[2];
	double cpu = cpu_us();
	uint64_t begin_ns = clock_monotonic_ns();
	bench.outlet->methods->send(bench.outlet, attempts);
	loop_run(bench.loop);
	double seconds = (double)(clock_monotonic_ns() - begin_ns) / 1e9;
	double requests = (double)(values[1] > values[2] ? values[1] : values[2]);
	printf("requests_per_s %.0f\ncpu_us_per_request %.2f\nfailed %llu\n", requests / seconds,
	       (cpu_us() - cpu) / requests, (unsigned long long)bench.failed);
	bench.outlet->methods->free(bench.outlet);
	loop_free(bench.loop);
	mem_free(attempts);
	mem_free((char *)(uintptr_t)body.ptr);
	return bench.failed > 0;
}
