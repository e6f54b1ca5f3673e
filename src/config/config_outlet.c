/* config_outlet: see config_outlet.h. */
#include "config/config_outlet.h"

#include <unistd.h>

#include "sink/stdout_outlet.h"

int config_outlet_check(const struct config_sink *sink, struct error_text *ret_text)
{
	switch (sink->kind) {
	case CONFIG_SINK_HTTP:
	case CONFIG_SINK_STILE: return http_outlet_check(&sink->http, ret_text);
	case CONFIG_SINK_FILE: return file_outlet_check(&sink->file, ret_text);
	case CONFIG_SINK_POSTGRES: return postgres_outlet_check(&sink->postgres, ret_text);
	case CONFIG_SINK_STDOUT:
	case CONFIG_SINK_KINDS: break;
	}
	return 0;
}

int config_outlet_open(const struct config_sink *sink, struct loop *loop,
                       struct outlet **ret_outlet, struct error_text *ret_text)
{
	struct http_outlet_options http = sink->http;
	struct stdout_outlet_options printing = { .fd = STDOUT_FILENO,
		                                  .envelope = sink->file.envelope };
	http.loop = loop;
	switch (sink->kind) {
	case CONFIG_SINK_HTTP:
	case CONFIG_SINK_STILE: return http_outlet_new(&http, ret_outlet, ret_text);
	case CONFIG_SINK_FILE: return file_outlet_new(&sink->file, ret_outlet, ret_text);
	case CONFIG_SINK_POSTGRES:
		return postgres_outlet_new(&sink->postgres, ret_outlet, ret_text);
	case CONFIG_SINK_STDOUT:
	case CONFIG_SINK_KINDS: break;
	}
	return stdout_outlet_new(&printing, ret_outlet);
}
