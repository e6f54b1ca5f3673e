/*
 * template: texts with places that an event fills: a URL, a header, a body.
 *
 *   https://crm.example.com/orders/{$.orderId}?type={type}
 *   {"key": "{ticket}", "text": "order {$.orderId}", "lines": {$.lines}, "event": {$}}
 *
 *   {ticket} {source} {attempt}      of the event and its delivery
 *   {id} {type} {entity} {time} …    of its metadata, by their names there
 *   {$.path} {$["a"][0].b}           a place of the payload, as recipes write paths
 *   {$}                              the payload itself (bodies of JSON only)
 *
 * A { followed by a letter or $ begins a place; any other is literal, but in a URL it is an
 * error. In JSON a { inside a string is written \u007b.
 *
 * What a value becomes depends on the template's form, so that no value can be more
 * than a value:
 *   TEMPLATE_URL    percent-encoded: one piece of a path, query or form
 *   TEMPLATE_HEADER as it is, but for %, what is not printable and what is not ASCII:
 *                   those are percent-encoded
 *   TEMPLATE_JSON   between quotes: escaped as JSON wants it; elsewhere: a JSON value of
 *                   its own, as the payload has it
 *   TEMPLATE_SQL    not put into the text at all: a place becomes $1, $2 …, for the
 *                   database to fill. Places within quotes or comments are refused.
 * Values that are objects or arrays go into JSON, and there not between quotes, and
 * into SQL, as the text of their JSON.
 *
 * Templates that are run for the same event are compiled together: the payload is
 * scanned once, and only if one of them uses a path.
 *
 * Room:      gate. Threads: read only once sealed; a run has one owner.
 * Ownership: templates copy their texts; a run points into its event.
 * Failure:   ERR_INVALID and a text: at compile time where and what was expected, at
 *            run time which value is missing (not there, null or empty) or unfit.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"
#include "codec/json.h"
#include "gate/metadata.h"

#define TEMPLATES_MAX 64u         /* of one set */
#define TEMPLATE_TEXT_MAX 65536u  /* bytes of one template */
#define TEMPLATE_PIECES_MAX 1024u /* of all templates of a set */
#define TEMPLATE_VALUE_MAX 2048u  /* bytes of a value in a URL or a header */

enum template_form { TEMPLATE_JSON = 0, TEMPLATE_URL, TEMPLATE_HEADER, TEMPLATE_SQL };

struct templates;

int templates_new(struct templates **ret_templates) must_check;
struct templates *templates_free(struct templates *templates);

/* Numbers count from 0. A JSON template must be JSON whatever its values are. */
int templates_add(struct templates *templates, struct span text, enum template_form form,
                  uint32_t *ret_number, struct error_text *ret_text) must_check;

/* Once, after the last. */
void templates_seal(struct templates *templates);

/* Has it no places? Then it is its own value, for every event. */
bool template_is_fixed(const struct templates *templates, uint32_t number);

/* Has it {attempt}? Then it is not the same each time. */
bool template_has_attempt(const struct templates *templates, uint32_t number);

/* An example, with an x for each value (null for those of JSON): for those who want to
 * know whether the text around the places makes sense. Of SQL it is the statement, with
 * its $1, $2 … */
void template_sample(const struct templates *templates, uint32_t number, struct buf *out);

struct template_event {
	uint64_t ticket;
	uint32_t attempt;
	bool json; /* the payload is valid JSON */
	struct span source;
	struct span payload;
	const struct metadata *metadata;
};

struct template_run {
	const struct templates *templates;
	const struct template_event *event;
	struct json_doc doc;
};

/* The event must stay until the last template_put() of the run. */
int template_begin(struct template_run *ret_run, const struct templates *templates,
                   const struct template_event *event, struct error_text *ret_text) must_check;

/* How many there are: the parameters of SQL. */
uint32_t template_place_count(const struct templates *templates, uint32_t number);

/* Appends the text (not of SQL). -ENOMEM and ERR_TOO_LARGE (of the buffer) are no fault of the event's. */
int template_put(const struct template_run *run, uint32_t number, struct buf *out,
                 struct error_text *ret_text) must_check;

/* Appends the value of one place of SQL, from 0: a string's characters, all else as the
 * payload has it. Without `ret_there` there is none, or null. */
int template_value(const struct template_run *run, uint32_t number, uint32_t place, struct buf *out,
                   bool *ret_there, struct error_text *ret_text) must_check;
