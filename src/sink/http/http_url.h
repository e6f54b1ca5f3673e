/*
 * http_url: where an HTTP sink's URL leads to, and how it is written for an event.
 *
 * Room: sink, http_*.c alone. Threads: pure. Failure: see http_outlet.h.
 */
#pragma once

#include "sink/http/http_plan.h"

/* Fills all of the target but its headers. A name for TLS stands in the URL in the
 * place of the host, which then has a header of its own. */
int http_url_compile(struct http_plan *plan, struct http_target *target, struct span url,
                     struct span tls_name, struct error_text *ret_text) must_check;

/* Appends the URL of the run's event, with a NUL behind it. */
int http_url_put(const struct http_target *target, const struct template_run *run, struct buf *out,
                 struct error_text *ret_text) must_check;
