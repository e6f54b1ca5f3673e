/*
 * http_plan: an HTTP sink's options, judged and compiled.
 *
 * Room:      sink, http_*.c alone. Threads: read only when made.
 * Ownership: http_plan_free() takes it; secrets are wiped.
 * Failure:   see http_outlet.h.
 */
#pragma once

#include "base/arena.h"
#include "base/secret.h"
#include "link/http.h"
#include "sink/http/http_outlet.h"

/* Headers that are there without being asked for. An own header of the same name
 * takes the place of one. */
enum http_builtin {
	HTTP_KEY = 0,
	HTTP_ATTEMPT,
	HTTP_SOURCE,
	HTTP_TICKETS,
	HTTP_CONTENT_TYPE,
	HTTP_TRACEPARENT,
	HTTP_TRACESTATE,
	HTTP_CORRELATION,
	HTTP_WEBHOOK_ID,
	HTTP_WEBHOOK_TIMESTAMP,
	HTTP_WEBHOOK_SIGNATURE,
	HTTP_USER_AGENT,
	HTTP_BUILTIN_COUNT,
};

struct http_own_header {
	struct span name;
	uint32_t number; /* of its template */
};

/* Where requests of one kind go, and what is the same in all of them. */
struct http_target {
	bool https;
	bool literal; /* the host is an address */
	uint16_t port;
	const char *host;   /* to resolve, or the literal without brackets */
	const char *name;   /* the host as it stands in libcurl's URL */
	struct span prefix; /* of that URL: "https://crm.example.com:8443" */
	uint32_t path;      /* template: what comes behind it */
	bool places_in_path;
	const char *url;         /* all of it, if it is the same each time; else NULL */
	struct http_line *fixed; /* headers that are the same each time */
	uint32_t replaced;       /* bits: builtins that an own header replaces */
	uint32_t own_count;      /* headers with places */
	struct http_own_header own[HTTP_HEADERS_MAX];
};

#define HTTP_BLOTS_MAX (16u * HTTP_HEADERS_MAX)

struct http_plan {
	struct arena arena;
	struct templates *templates;
	struct http_target request;
	struct http_target probe; /* without a host: none */
	/* With defaults filled in, and copies of its files and correlation_header. Other texts
	 * and the clock are not kept. */
	struct http_outlet_options options;
	bool has_body; /* a template makes it */
	uint32_t body;
	struct span content_type; /* empty: the metadata's */
	uint32_t sign_count;
	struct sign_hmac_key sign_keys[HTTP_SECRETS_MAX];
	uint32_t allow_count;
	struct ip_network allow[HTTP_ALLOW_MAX];
	uint32_t blot_count; /* secrets, for answers that repeat them */
	struct span blots[HTTP_BLOTS_MAX];
};

int http_plan_new(const struct http_outlet_options *options, struct http_plan **ret_plan,
                  struct error_text *ret_text) must_check;
struct http_plan *http_plan_free(struct http_plan *plan);

/* Adds a fixed header, a line of three parts. */

/* As ip_special(), but NULL also for what the plan allows. */
const char *http_plan_refusal(const struct http_plan *plan, const struct ip_address *address);

/* "Name: " of a builtin; that of the correlation id is for the plan to say. */
struct span http_builtin_name(enum http_builtin builtin);

/* Appends the URL of the run's event, with a NUL behind it. */
int http_url_put(const struct http_target *target, const struct template_run *run, struct buf *out,
                 struct error_text *ret_text) must_check;
