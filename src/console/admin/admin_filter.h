/*
 * admin_filter: which tickets are meant, as the query of a request says it.
 *
 *   state=dead,parked  source=crm  sink=crm  type=order.*  entity=…  id=…
 *   since=2h  until=2026-01-02T03:04:05Z   when the event was first seen: a time, or how
 *                                          long ago
 *
 * Room:      console. Threads: values.
 * Ownership: a filter has its texts in itself.
 * Failure:   ERR_INVALID or ERR_TOO_LARGE, with a text for whoever asked.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/span.h"
#include "console/console.h"
#include "gate/letter.h"
#include "store/store.h"

#define FILTER_TEXT_MAX 256u
#define FILTER_OPEN_STATES                                                           \
	(1u << STORE_STATE_DUE | 1u << STORE_STATE_LEASED | 1u << STORE_STATE_HELD | \
	 1u << STORE_STATE_PARKED | 1u << STORE_STATE_DEAD)
#define FILTER_ALL_STATES (FILTER_OPEN_STATES | 1u << STORE_STATE_CLOSED)

struct filter_text {
	bool given;
	uint32_t len;
	char bytes[FILTER_TEXT_MAX];
};

struct admin_filter {
	uint32_t states; /* bits 1 << enum store_state; 0: none was given */
	struct filter_text source, sink, type, entity, id;
	uint32_t sink_number;
	uint64_t from, to; /* ticket numbers, inclusive; 0: no bound */
	uint64_t event;    /* not 0: this ticket, or all legs of this event */
};

/* A parameter's value, decoded. False with an empty text: it is not there. Of one that
 * is too long, comes twice or is no text: false and told. */
bool admin_param(struct span query, const char *name, struct filter_text *ret_text,
                 struct error_text *ret_problem);
/* A whole number of a range; `value` is left as it is when the parameter is not there. */
int admin_param_number(struct span query, const char *name, uint64_t max, uint64_t *value,
                       struct error_text *ret_problem) must_check;

int admin_filter_parse(const struct console *console, struct span query, uint64_t now_ms,
                       struct admin_filter *ret_filter, struct error_text *ret_problem) must_check;

/* What the store can look at by itself. */
void admin_filter_scan(const struct admin_filter *filter, struct store_scan *scan);
bool admin_filter_matches(const struct admin_filter *filter, const struct store_item *item,
                          const struct store_parts *parts);

static inline struct span filter_span(const struct filter_text *text)
{
	return span_of(text->bytes, text->len);
}

const char *admin_state_name(enum store_state state); /* "due", "leased", … */
