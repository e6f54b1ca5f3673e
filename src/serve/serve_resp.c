/* serve_resp: see serve_resp.h. */
#include "serve/serve_resp.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/version.h"
#include "config/config.h"

struct serve_resp {
	struct serve_resp_options options;
	struct resp_shared *shared;
	struct gauge *gauge; /* of its own: the other listener may be full */
	char url[512];
};

static bool uses_tls(const struct serve_resp_options *options)
{
	return options->tls && options->config->serve.resp_tls == SERVE_RESP_TLS_AUTO;
}

static int share(struct serve_resp *resp)
{
	const struct config *config = resp->options.config;
	struct resp_options options = {
		.key = resp->options.key,
		.scope = span_str(config->serve.resp_scope),
		.passwords = config->resp_passwords,
		.password_count = config->resp_password_count,
		.max_value = (uint32_t)config->serve.resp_max_value,
		.max_clients = resp->options.connections,
		.version = STILE_VERSION,
		.started_ms = resp->options.started_ms,
	};
	return resp_shared_new(&options, &resp->shared);
}

int serve_resp_new(const struct serve_resp_options *options, struct serve_resp **ret_resp,
                   struct error_text *ret_text)
{
	*ret_resp = NULL;
	if (strcmp(options->config->serve.resp, "none") == 0)
		return 0;
	struct serve_resp *resp = mem_zalloc(1, sizeof(*resp));
	if (!resp)
		return -ENOMEM;
	resp->options = *options;
	int error = gauge_new(&resp->gauge);
	if (error == 0)
		error = share(resp);
	if (error != 0) {
		serve_resp_free(resp);
		return error_fill(ret_text, error, "the Redis door cannot be set up: %s",
		                  error_name(error));
	}
	*ret_resp = resp;
	return 0;
}

struct serve_resp *serve_resp_free(struct serve_resp *resp)
{
	if (!resp)
		return NULL;
	resp->shared = resp_shared_free(resp->shared);
	resp->gauge = gauge_free(resp->gauge);
	return mem_free(resp);
}

static void write_url(struct serve_resp *resp, const struct resp_door *door)
{
	option_url(uses_tls(&resp->options) ? "rediss" : "redis", resp->options.config->serve.resp,
	           resp_server_port(door->server), resp->url, sizeof(resp->url));
}

int serve_resp_open(struct serve_resp *resp, struct resp_door *door, const struct resp_door *joins,
                    struct loop *loop, struct store *store, struct error_text *ret_text)
{
	const struct serve_options *serve = &resp->options.config->serve;
	struct resp_server_options where = {
		.loop = loop,
		.address = serve->resp,
		.joins = joins ? joins->server : NULL,
		.limits = resp_server_limits_default,
		.gauge = resp->gauge,
		.tls = uses_tls(&resp->options) ? resp->options.tls : NULL,
	};
	where.limits.connections = resp->options.connections;
	where.limits.connections_per_address = (uint32_t)serve->connections_per_address;
	where.limits.idle_ms = (uint32_t)serve->resp_idle_ms;
	int error = resp_door_open(door, resp->shared, store, &where, ret_text);
	if (error == 0 && !joins)
		write_url(resp, door);
	return error;
}

const char *serve_resp_url(const struct serve_resp *resp)
{
	return resp ? resp->url : "none";
}
