/* serve_sinks: see serve_sinks.h. */
#include "app/serve_sinks.h"

#include <unistd.h>

#include "sink/http_outlet.h"
#include "sink/stdout_outlet.h"
#include "sys/loop.h"

/* What options point to while they are read. */
struct http_lists {
	struct ip_network allow[HTTP_ALLOW_MAX];
};

static void fill_http(const struct config_http *http, struct http_lists *lists,
                      struct http_outlet_options *ret_options)
{
	struct error_text text;
	uint32_t allowed = 0;
	for (uint32_t i = 0; i < http->allow_count; i++)
		if (ip_network_parse(http->allow[i], &lists->allow[allowed], &text) == 0)
			allowed++;
	*ret_options = (struct http_outlet_options){
		.request = { http->url, http->headers.list, http->headers.count },
		.probe = { http->probe, http->headers.list, http->headers.count },
		.method = http->method,
		.body = http->body,
		.body_form = http->body_is_form ? TEMPLATE_URL : TEMPLATE_JSON,
		.batch = http->batch,
		.batch_events = http->batch_events,
		.batch_bytes = http->batch_bytes,
		.connect_ms = http->connect_ms,
		.timeout_ms = http->timeout_ms,
		.idle_ms = http->idle_ms,
		.fresh = http->idle_ms < 1000,
		.http1 = http->http1,
		.correlation_header = http->correlation_header,
		.ca_file = http->ca_file,
		.cert_file = http->cert_file,
		.key_file = http->key_file,
		.server_name = http->server_name,
		.sign_secrets = http->sign,
		.sign_count = http->sign_count,
		.allow = lists->allow,
		.allow_count = allowed,
	};
}

int serve_sink_check(const struct config_sink *sink, struct error_text *ret_text)
{
	struct http_lists lists;
	struct http_outlet_options options;
	if (sink->kind != CONFIG_SINK_HTTP)
		return 0;
	fill_http(&sink->http, &lists, &options);
	return http_outlet_check(&options, ret_text);
}

static int open_http(const struct config_sink *sink, struct deliver_sink *it,
                     struct error_text *ret_text)
{
	struct http_lists lists;
	struct http_outlet_options options;
	fill_http(&sink->http, &lists, &options);
	options.loop = it->loop;
	return http_outlet_new(&options, &it->outlet, ret_text);
}

static void close_sink(struct deliver_sink *sink)
{
	if (sink->outlet)
		sink->outlet->methods->free(sink->outlet);
	sink->outlet = NULL;
	sink->loop = loop_free(sink->loop);
}

/* Loop, outlet and policy. */
static int open_sink(const struct config_sink *sink, bool prompt, struct deliver_sink *ret_sink,
                     struct error_text *ret_text)
{
	struct deliver_sink it = { .name = sink->name.ptr,
		                   .sink = sink->id,
		                   .policy = sink->policy };
	struct stdout_outlet_options printing = {
		.fd = STDOUT_FILENO,
		.envelope = sink->print == CONFIG_PRINT_ENVELOPE,
	};
	it.policy.prompt = prompt;
	int error = loop_new(&it.loop);
	if (error == 0 && sink->kind == CONFIG_SINK_HTTP)
		error = open_http(sink, &it, ret_text);
	else if (error == 0)
		error = stdout_outlet_new(&printing, &it.outlet);
	if (error != 0)
		close_sink(&it);
	else
		*ret_sink = it;
	return error;
}

/* Does any sender wait for outcomes? */
static bool is_prompt(const struct config *config)
{
	for (uint32_t i = 0; i < config->source_count; i++)
		if (config->sources[i].ack_delivered)
			return true;
	return false;
}

int serve_sinks_start(const struct config *config, struct store_host *host,
                      struct deliver **ret_deliver, struct error_text *ret_text)
{
	struct deliver_sink sinks[CONFIG_SINKS_MAX];
	struct deliver_options options = { .host = host, .sinks = sinks };
	bool prompt = is_prompt(config);
	int error = 0;
	for (; options.sink_count < config->sink_count; options.sink_count++) {
		const struct config_sink *sink = &config->sinks[options.sink_count];
		error = open_sink(sink, prompt, &sinks[options.sink_count], ret_text);
		if (error != 0)
			break;
	}
	if (error == 0)
		error = deliver_start(&options, ret_deliver);
	for (uint32_t i = 0; i < options.sink_count && error != 0; i++)
		close_sink(&sinks[i]);
	return error;
}
