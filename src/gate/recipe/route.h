/*
 * route: to which sinks an event goes, and in which order with which others.
 *
 * Every route that is for the event's source, whose type pattern matches and whose
 * conditions all hold sends the event to its sinks; a sink that several of them name
 * gets it once, by the first of them. Without any route everything goes to every sink.
 * A route may also lead nowhere: its events are decided, but not delivered.
 *
 * A condition is written as those of recipes (recipe_spec.h): a part of the request or
 * of the payload, and a pattern. The words type, id, entity and source stand for what
 * the source's recipe read from the event; a member of that name is written ["type"].
 * `order_by` is one of those words or a part; events with the same value of it go to a
 * sink one after the other. An event that has no such value has no order.
 *
 * Room:      gate. Threads: a set is read only; any thread may match, with a scratch
 *            of its own.
 * Ownership: route_set_new() copies what it keeps; route_set_free() takes it.
 * Failure:   ERR_CONFIG with what is wrong where, ERR_INVALID and a text for the sender
 *            (a name that comes twice), -ENOMEM.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/error.h"
#include "base/span.h"
#include "gate/event.h"
#include "gate/recipe/recipe.h"
#include "gate/recipe/recipe_spec.h"

#define ROUTES_MAX 64u
#define ROUTE_SINKS_MAX 64u /* of all routes */
#define ROUTE_LEGS_MAX 16u  /* of one event: as many as a store keeps (STORE_LEGS_MAX) */

struct route_spec {
	const struct span *from; /* names of sources … */
	uint32_t from_count;     /* … 0: all */
	uint32_t to_count;       /* at least 1 … */
	const struct span *to;   /* names of sinks */
	bool nowhere;            /* … or this, and none */
	struct span type;        /* a pattern; empty: any type, or none */
	struct span order_by;    /* empty: none */
	uint32_t condition_count;
	struct recipe_condition conditions[RECIPE_SPEC_CONDITIONS_MAX];
};

struct route_leg {
	uint32_t sink;
	uint64_t order; /* 0: none */
};

/* Which text of which route; indexes are -1 where they do not apply. */
struct route_problem {
	int route;
	const char *field; /* "type", "when", "order_by", "to" */
	int index;         /* of several conditions */
	uint32_t column;   /* within that text, from 0 */
	struct error_text text;
};

/* The number of a sink in the journal, made of its name; never 0. Two names may have
 * one number, which a configuration has to refuse. */
uint32_t sink_id(struct span name);

struct route_set;

struct route_sink {
	struct span name;
	uint32_t id; /* in the legs */
};

/* `sinks` are all sinks, in the order of the legs; `key` is the secret of the
 * data folder. */
struct route_set_options {
	const struct route_spec *routes;
	uint32_t route_count; /* 0: everything goes to every sink */
	const struct route_sink *sinks;
	uint32_t sink_count;
	const unsigned char *key; /* DIGEST_KEY_LEN bytes */
};

int route_set_new(const struct route_set_options *options, struct route_set **ret_set,
                  struct route_problem *ret_problem) must_check;
struct route_set *route_set_free(struct route_set *set); /* accepts NULL, returns NULL */

/* The routes that are for a source, as bits; found once, not for every event. */
uint64_t route_set_from(const struct route_set *set, struct span source);

/* How many sinks these routes name together. */
uint32_t route_set_reach(const struct route_set *set, uint64_t routes);

struct route_question {
	uint64_t routes; /* route_set_from() of its source */
	const struct event *event;
	const struct recipe_input *input; /* of its request; its body is the event's payload */
};

/* Where an event goes; its legs are in the order of the sinks. */
struct route_match {
	bool found; /* a route is for it, which may lead nowhere */
	uint32_t count;
	struct route_leg legs[ROUTE_LEGS_MAX];
};

/* Of routes that reach no more than ROUTE_LEGS_MAX sinks. `scratch` is used for routes only. */
int route_set_match(const struct route_set *set, struct recipe_scratch *scratch,
                    const struct route_question *question, struct route_match *ret_match,
                    struct error_text *ret_problem) must_check;
