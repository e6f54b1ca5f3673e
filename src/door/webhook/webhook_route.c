/*
 * webhook_route: where an event goes, and what goes with it.
 *
 * Only for sets with routes: the single standard output gets everything, and nothing
 * but the event's bytes.
 */
#include <string.h>

#include "door/webhook/webhook_request.h"
#include "gate/letter.h"

_Static_assert(ROUTE_LEGS_MAX == STORE_LEGS_MAX, "a store keeps as many legs as routes give");

#define DECODED_MAX 2048u /* longer texts are left out */

/* A text's value; empty: it has none that can be read. */
static struct span value_of(struct event_text text, char bytes[static DECODED_MAX])
{
	struct span value = SPAN_EMPTY;
	if (text.coding == EVENT_TEXT_NONE || text.raw.len == 0)
		return value;
	if (text.coding == EVENT_TEXT_PLAIN)
		return text.raw;
	return event_text_value(text, bytes, DECODED_MAX, &value) == 0 ? value : SPAN_EMPTY;
}

static void read_headers(const struct recipe_input *input, struct letter *letter)
{
	static const struct {
		struct span name;
		enum letter_field field;
	} wanted[] = {
		{ { "content-type", 12 }, LETTER_CONTENT_TYPE },
		{ { "traceparent", 11 }, LETTER_TRACEPARENT },
		{ { "tracestate", 10 }, LETTER_TRACESTATE },
	};
	for (uint32_t i = 0; i < input->header_count; i++)
		for (size_t j = 0; j < ARRAY_LEN(wanted); j++)
			if (span_eq_nocase(input->headers[i].name, wanted[j].name))
				letter->texts[wanted[j].field] = input->headers[i].value;
}

static bool says_json(struct span type)
{
	return type.len >= 4 && memmem(type.ptr, type.len, "json", 4) != NULL;
}

/* What is JSON is called so, also if its sender said something else, or the whole
 * batch was of another kind. */
static struct letter make_letter(const struct webhook_request *it, const struct event *event,
                                 const struct recipe_input *input, char (*bytes)[DECODED_MAX])
{
	struct letter letter = { .texts = {
					 [LETTER_ID] = value_of(event->id, bytes[0]),
					 [LETTER_TYPE] = value_of(event->type, bytes[1]),
					 [LETTER_ENTITY] = value_of(event->entity, bytes[2]),
					 [LETTER_TIME] = value_of(event->time, bytes[3]),
					 [LETTER_CORRELATION] = value_of(event->correlation,
		                                                         bytes[4]),
				 } };
	read_headers(input, &letter);
	if (it->batch || (event->json && !says_json(letter.texts[LETTER_CONTENT_TYPE])))
		letter.texts[LETTER_CONTENT_TYPE] = SPAN_EMPTY;
	return letter;
}

static bool keep_letter(struct webhook_request *it, struct store_admit *admit,
                        const struct letter *letter)
{
	char bytes[LETTER_BYTES_MAX];
	bool own = !it->batch; /* the request has room for one that is not too long */
	struct buf out = own ? buf_on(it->letter, sizeof(it->letter))
	                     : buf_on(bytes, sizeof(bytes));
	letter_write(letter, &out);
	if (own && out.failed) {
		own = false;
		out = buf_on(bytes, sizeof(bytes));
		letter_write(letter, &out);
	}
	CHECK(!out.failed);
	admit->letter = own ? buf_span(&out) : arena_copy(&it->arena, buf_span(&out));
	return admit->letter.ptr != NULL || admit->letter.len == 0;
}

static bool keep_legs(struct webhook_request *it, struct store_admit *admit,
                      const struct route_match *match)
{
	struct store_leg *own = it->legs;
	if (it->batch)
		own = arena_alloc(&it->arena, match->count * sizeof(*own));
	if (!own)
		return false;
	for (uint32_t i = 0; i < match->count; i++)
		own[i] = (struct store_leg){ .sink = match->legs[i].sink,
			                     .order = match->legs[i].order };
	admit->legs = own;
	admit->leg_count = match->count;
	return true;
}

int webhook_route(struct webhook_request *it, struct webhook_item *item,
                  const struct recipe_input *input, struct error_text *ret_problem)
{
	const struct source_set *set = it->use->set;
	struct route_match match;
	char bytes[5][DECODED_MAX];
	struct recipe_input own = *input;
	own.body = item->admit.payload;
	struct route_question question = { it->source->routes, &item->event, &own };
	int error = route_set_match(set->routes, &it->webhook->route_scratch, &question, &match,
	                            ret_problem);
	if (error != 0)
		return error;
	if (match.count == 0 && item->admit.claim_count == 0)
		return error_fill(ret_problem, ERR_INVALID,
		                  "%s, and it takes no claim: there is nothing to decide",
		                  match.found ? "this event goes nowhere"
		                              : "no route is for this event");
	/* Decided and remembered, but there is nobody to deliver it to. */
	item->admit.no_ticket = match.count == 0;
	item->unrouted = !match.found;
	if (match.count == 0)
		return 0;
	struct letter letter = make_letter(it, &item->event, input, bytes);
	bool kept = keep_letter(it, &item->admit, &letter) && keep_legs(it, &item->admit, &match);
	return kept ? 0 : -ENOMEM;
}
