/* address: see address.h. */
#include "store/postgres/address.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/secret.h"
#include "codec/url.h"

#define CONNECT_MS 10000u
#define COMMAND_MS 60000u

/* A name that needs neither quotes in SQL nor escapes in a URL. */
static bool may_be_new(struct span name)
{
	if (name.len == 0 || name.len > SCHEMA_NAME_MAX ||
	    (name.ptr[0] >= '0' && name.ptr[0] <= '9'))
		return false;
	for (size_t i = 0; i < name.len; i++) {
		char c = name.ptr[i];
		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_')
			return false;
	}
	return !span_starts(name, SPAN("pg_"));
}

static int read_schema(struct span params, struct address *address, struct error_text *ret_text)
{
	struct span name = SPAN("stile");
	uint32_t count = url_param_find(params, SPAN("schema"), &name);
	if (count > 1 || !may_be_new(name))
		return error_fill(ret_text, ERR_CONFIG,
		                  "schema: expected one name of a-z, 0-9 and _, at most %d long",
		                  SCHEMA_NAME_MAX);
	memcpy(address->schema, name.ptr, name.len);
	address->schema[name.len] = '\0';
	return 0;
}

/* The URL without our own parameters. */
static char *write_conninfo(struct span url, struct span params)
{
	struct buf text = { 0 };
	char separator = '?';
	buf_append_span(&text, url);
	while (params.len > 0) {
		struct span param = span_cut_item(&params, '&');
		if (param.len == 0 || span_starts(param, SPAN("schema=")))
			continue;
		buf_append_char(&text, separator);
		buf_append_span(&text, param);
		separator = '&';
	}
	buf_append_char(&text, '\0');
	if (text.failed)
		buf_free(&text);
	return text.ptr;
}

int address_read(const char *url, struct address *ret_address, struct error_text *ret_text)
{
	struct span params = span_str(url);
	struct address address = { 0 };
	if (!span_starts(params, SPAN("postgres://")) &&
	    !span_starts(params, SPAN("postgresql://")))
		return error_fill(ret_text, ERR_CONFIG,
		                  "expected postgres://USER@HOST/DATABASE?schema=stile");
	struct span base = span_cut_item(&params, '?');
	int error = read_schema(params, &address, ret_text);
	if (error)
		return error;
	address.conninfo = write_conninfo(base, params);
	error = address.conninfo
	                ? postgres_conninfo_check(address.conninfo, &address.password, ret_text)
	                : -ENOMEM;
	if (error)
		address_free(&address);
	else
		*ret_address = address;
	return error;
}

void address_free(struct address *address)
{
	if (address->conninfo)
		secret_wipe(address->conninfo, strlen(address->conninfo));
	if (address->password)
		secret_wipe(address->password, strlen(address->password));
	address->conninfo = mem_free(address->conninfo);
	address->password = mem_free(address->password);
}

int address_connect(const struct address *address, struct postgres_link *ret_link,
                    struct error_text *ret_text)
{
	*ret_link = (struct postgres_link){ .options = { .conninfo = address->conninfo,
		                                         .password = address->password,
		                                         .connect_ms = CONNECT_MS,
		                                         .statement_ms = COMMAND_MS,
		                                         .lock_ms = COMMAND_MS },
		                            .interrupt_fd = -1 };
	int error = postgres_link_open(ret_link, ret_text);
	if (error < 0)
		return error == -EACCES ? ERR_CONFIG : ERR_AWAY;
	postgres_link_limit(ret_link, COMMAND_MS);
	error = schema_choose(ret_link, address->schema, ret_text);
	if (error)
		postgres_link_close(ret_link);
	return error;
}
