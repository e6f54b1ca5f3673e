/* config_outlet: see config_outlet.h. */
#include "config/config_outlet.h"

#include <unistd.h>

#include "sink/file_outlet.h"
#include "sink/http/http_outlet.h"
#include "sink/postgres/postgres_outlet.h"
#include "sink/stdout_outlet.h"

/* What options point to while they are read. */
struct http_lists {
	struct ip_network allow[HTTP_ALLOW_MAX];
};

static void fill_http(const struct config_sink *sink, struct http_lists *lists,
                      struct http_outlet_options *ret_options)
{
	const struct config_http *http = &sink->http;
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
		.verdicts = sink->kind == CONFIG_SINK_STILE,
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

static struct file_outlet_options file_options(const struct config_sink *sink)
{
	return (struct file_outlet_options){
		.path = sink->file.path,
		.envelope = sink->print == CONFIG_PRINT_ENVELOPE,
		.no_sync = sink->file.no_sync,
		.rotate_bytes = sink->file.rotate_bytes,
		.rotate_ms = sink->file.rotate_ms,
		.keep = sink->file.keep,
	};
}

static struct postgres_outlet_options postgres_options(const struct config_sink *sink)
{
	const struct config_postgres *postgres = &sink->postgres;
	return (struct postgres_outlet_options){
		.name = sink->name,
		.conninfo = postgres->conninfo,
		.password = postgres->password_count > 0 ? postgres->password[0] : SPAN_EMPTY,
		.table = postgres->table,
		.statement = postgres->statement,
		.key = postgres->key,
		.no_create = postgres->no_create,
		.connect_ms = sink->http.connect_ms,
		.timeout_ms = sink->http.timeout_ms,
	};
}

static int check_http(const struct config_sink *sink, struct error_text *ret_text)
{
	struct http_lists lists;
	struct http_outlet_options options;
	fill_http(sink, &lists, &options);
	return http_outlet_check(&options, ret_text);
}

int config_outlet_check(const struct config_sink *sink, struct error_text *ret_text)
{
	struct file_outlet_options file = file_options(sink);
	struct postgres_outlet_options postgres = postgres_options(sink);
	switch (sink->kind) {
	case CONFIG_SINK_STILE:
	case CONFIG_SINK_HTTP: return check_http(sink, ret_text);
	case CONFIG_SINK_POSTGRES: return postgres_outlet_check(&postgres, ret_text);
	case CONFIG_SINK_FILE: return file_outlet_check(&file, ret_text);
	case CONFIG_SINK_STDOUT:
	case CONFIG_SINK_KINDS: break;
	}
	return 0;
}

static int open_http(const struct config_sink *sink, struct loop *loop, struct outlet **ret_outlet,
                     struct error_text *ret_text)
{
	struct http_lists lists;
	struct http_outlet_options options;
	fill_http(sink, &lists, &options);
	options.loop = loop;
	return http_outlet_new(&options, ret_outlet, ret_text);
}

int config_outlet_open(const struct config_sink *sink, struct loop *loop,
                       struct outlet **ret_outlet, struct error_text *ret_text)
{
	struct stdout_outlet_options printing = {
		.fd = STDOUT_FILENO,
		.envelope = sink->print == CONFIG_PRINT_ENVELOPE,
	};
	struct file_outlet_options file = file_options(sink);
	struct postgres_outlet_options postgres = postgres_options(sink);
	switch (sink->kind) {
	case CONFIG_SINK_POSTGRES: return postgres_outlet_new(&postgres, ret_outlet, ret_text);
	case CONFIG_SINK_STILE:
	case CONFIG_SINK_HTTP: return open_http(sink, loop, ret_outlet, ret_text);
	case CONFIG_SINK_FILE: return file_outlet_new(&file, ret_outlet, ret_text);
	case CONFIG_SINK_STDOUT:
	case CONFIG_SINK_KINDS: break;
	}
	return stdout_outlet_new(&printing, ret_outlet);
}
