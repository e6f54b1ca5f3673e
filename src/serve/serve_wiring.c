/*
 * The sources and sinks of a configuration, ready for the doors and for delivery.
 * See serve_private.h.
 */
#include <stdatomic.h>

#include "base/log.h"
#include "base/mem.h"
#include "config/config.h"
#include "gate/advice.h"
#include "serve/serve_private.h"
#include "sys/loop.h"

/* ---- sources ---- */

static void warn(struct span source, const char *text)
{
	log_warn("authentication of a source is weak", log_span("source", source),
	         log_str("text", text));
}

/* NULL if standard output is the only sink: then there is nothing to route. */
static int new_routes(const struct config *config, const unsigned char *key,
                      struct route_set **ret_set, struct error_text *ret_text)
{
	struct route_problem problem;
	*ret_set = NULL;
	if (config->route_count == 0 && config->sink_count == 1 && config->sinks[0].id == 0)
		return 0;
	int error = config_routes_new(config, key, ret_set, &problem);
	if (error != 0)
		error_fill(ret_text, error, "routes: %s",
		           error == ERR_CONFIG ? problem.text.text : error_name(error));
	return error;
}

static struct source_claims_options claims_options(const struct config *config, const char *listen)
{
	const struct config_claims *claims = &config->claims;
	struct source_claims_options options = claims->door;
	options.mode = config_claims_guarded(claims, listen) ? SOURCE_CLAIMS_ON
	                                                     : SOURCE_CLAIMS_UNGUARDED;
	if (claims->enabled == CONFIG_CLAIMS_OFF)
		options.mode = SOURCE_CLAIMS_OFF;
	return options;
}

int serve_sources_new(const struct config *config, const char *listen, const unsigned char *key,
                      struct source_counts *counts, struct source_set **ret_set,
                      struct error_text *ret_text)
{
	struct source_options *sources = mem_zalloc(config->source_count, sizeof(*sources));

	if (!sources)
		return error_fill(ret_text, -ENOMEM, "%s", error_name(-ENOMEM));
	for (uint32_t i = 0; i < config->source_count; i++)
		sources[i] = config->sources[i].door;
	struct route_set *routes = NULL;
	int error = new_routes(config, key, &routes, ret_text);
	if (error == 0)
		error = source_set_new(
			&(struct source_set_options){ .sources = sources,
		                                      .count = config->source_count,
		                                      .claims = claims_options(config, listen),
		                                      .key = key,
		                                      .counts = counts,
		                                      .routes = routes,
		                                      .warn = warn },
			ret_set, ret_text);
	if (error != 0)
		route_set_free(routes);
	mem_free(sources);
	return error;
}

/* ---- sinks ---- */

static void close_sink(struct deliver_sink *sink)
{
	if (sink->outlet)
		sink->outlet->methods->free(sink->outlet);
	sink->outlet = NULL;
	sink->loop = loop_free(sink->loop);
}

/* Loop, outlet and policy. */
static int open_sink(const struct config_sink *sink, bool prompt, struct deliver_sink *ret_sink,
                     struct error_text *ret_text)
{
	struct deliver_sink opened = { .name = sink->name.ptr,
		                       .sink = sink->id,
		                       .policy = sink->policy };
	opened.policy.prompt = prompt;
	int error = loop_new(&opened.loop);
	if (error == 0)
		error = config_outlet_open(sink, opened.loop, &opened.outlet, ret_text);
	if (error != 0)
		close_sink(&opened);
	else
		*ret_sink = opened;
	return error;
}

/* Does any sender wait for outcomes? */
static bool is_prompt(const struct config *config)
{
	for (uint32_t i = 0; i < config->source_count; i++)
		if (config->sources[i].ack_delivered)
			return true;
	return false;
}

int serve_sinks_start(const struct config *config, const struct serve_sinks_options *given,
                      struct deliver **ret_deliver, struct error_text *ret_text)
{
	struct deliver_sink sinks[CONFIG_SINKS_MAX];
	struct deliver_options options = { .host = given->host,
		                           .sinks = sinks,
		                           .lease_ms = given->lease_ms,
		                           .feed = given->feed };
	bool prompt = is_prompt(config);
	int error = 0;
	for (; options.sink_count < config->sink_count; options.sink_count++) {
		const struct config_sink *sink = &config->sinks[options.sink_count];
		error = open_sink(sink, prompt, &sinks[options.sink_count], ret_text);
		if (error != 0)
			break;
	}
	if (error == 0)
		error = deliver_start(&options, ret_deliver);
	for (uint32_t i = 0; i < options.sink_count && error != 0; i++)
		close_sink(&sinks[i]);
	return error;
}

/* ---- changes ---- */

struct one_change {
	struct deliver_command command;
	struct sinks_change *all;
	const struct config_sink *sink; /* of the next configuration; NULL: it is removed */
	uint32_t id;
};

struct sinks_change {
	atomic_uint left;
	uint32_t count;
	struct one_change list[2 * CONFIG_SINKS_MAX];
};

static int make_outlet(struct deliver_command *command, struct loop *loop,
                       struct outlet **ret_outlet)
{
	struct one_change *one = container_of(command, struct one_change, command);
	struct error_text text = { "" };
	int error = config_outlet_open(one->sink, loop, ret_outlet, &text);
	if (error != 0)
		log_error("sink not changed; keeping its current settings",
		          log_span("sink", one->sink->name),
		          log_str("error", text.text[0] ? text.text : error_name(error)));
	return error;
}

static void change_done(struct deliver_command *command)
{
	struct one_change *one = container_of(command, struct one_change, command);
	if (command->kind == DELIVER_CHANGE && command->error == 0)
		log_info("sink changed", log_span("sink", one->sink->name));
	atomic_fetch_sub(&one->all->left, 1);
}

static void post(struct sinks_change *all, struct deliver *deliver, uint32_t lane,
                 const struct config_sink *sink, struct deliver_command command)
{
	struct one_change *one = &all->list[all->count++];
	CHECK(all->count <= ARRAY_LEN(all->list));
	*one = (struct one_change){ command, all, sink, sink ? sink->id : 0 };
	one->command.done = change_done;
	atomic_fetch_add(&all->left, 1);
	deliver_post(deliver, lane, &one->command);
}

static int find_lane(struct deliver *deliver, uint32_t sink, struct lane_view *ret_view)
{
	for (uint32_t i = 0; i < deliver_lane_count(deliver); i++) {
		deliver_view(deliver, i, ret_view);
		if (ret_view->sink == sink)
			return (int)i;
	}
	return -ENOENT;
}

static const struct config_sink *find_id(const struct config *config, uint32_t id)
{
	for (uint32_t i = 0; i < config->sink_count; i++)
		if (config->sinks[i].id == id)
			return &config->sinks[i];
	return NULL;
}

static int add_lane(struct deliver *deliver, const struct config_sink *sink, bool prompt,
                    struct error_text *ret_text)
{
	struct deliver_sink opened;
	int error = open_sink(sink, prompt, &opened, ret_text);
	if (error != 0)
		return error;
	error = deliver_add(deliver, &opened);
	if (error != 0) {
		close_sink(&opened);
		error_fill(ret_text, error, "sink %s: %s", sink->name.ptr,
		           error == ERR_FULL
		                   ? "there are too many; removed ones stay until a restart"
		                   : error_name(error));
	}
	return error;
}

/* The sink may also have been removed before and be back. */
static void change_lane(struct sinks_change *all, struct deliver *deliver, uint32_t lane,
                        const struct sinks_step *step, const struct config_sink *sink)
{
	const struct config_sink *was = find_id(step->last, sink->id);
	bool prompt = is_prompt(step->next);
	bool changed = !was || config_sink_changed(was, sink) || is_prompt(step->last) != prompt;
	for (uint32_t i = 0; i < step->failed->count; i++)
		changed = changed || step->failed->ids[i] == sink->id;
	if (!changed)
		return;
	struct deliver_command change = { .kind = DELIVER_CHANGE,
		                          .policy = sink->policy,
		                          .name = sink->name.ptr,
		                          .make = make_outlet };
	change.policy.prompt = prompt;
	post(all, deliver, lane, sink, change);
}

static void pause_lane(struct sinks_change *all, struct deliver *deliver,
                       const struct config_sink *sink)
{
	struct lane_view view;
	int lane = find_lane(deliver, sink->id, &view);
	if (lane < 0)
		return;
	log_warn("sink removed; its events wait until it is configured again",
	         log_span("sink", sink->name), log_u64("waiting", view.waiting + view.in_flight));
	post(all, deliver, (uint32_t)lane, NULL,
	     (struct deliver_command){ .kind = DELIVER_REMOVE });
}

int serve_sinks_change(struct deliver *deliver, const struct sinks_step *step,
                       struct sinks_change **ret_change, struct error_text *ret_text)
{
	const struct config *last = step->last, *next = step->next;
	struct sinks_change *all = mem_zalloc(1, sizeof(*all));
	struct lane_view view;
	uint32_t lanes = deliver_lane_count(deliver);
	int error = all ? 0 : -ENOMEM;
	for (uint32_t i = 0; i < next->sink_count && error == 0; i++)
		if (find_lane(deliver, next->sinks[i].id, &view) < 0)
			error = add_lane(deliver, &next->sinks[i], is_prompt(next), ret_text);
	if (error != 0) {
		mem_free(all);
		return error;
	}
	for (uint32_t i = 0; i < next->sink_count; i++) {
		int lane = find_lane(deliver, next->sinks[i].id, &view);
		if (lane >= 0 && (uint32_t)lane < lanes) /* the others were added now */
			change_lane(all, deliver, (uint32_t)lane, step, &next->sinks[i]);
	}
	for (uint32_t i = 0; i < last->sink_count; i++)
		if (!find_id(next, last->sinks[i].id))
			pause_lane(all, deliver, &last->sinks[i]);
	*ret_change = all;
	return 0;
}

bool serve_sinks_changing(const struct sinks_change *change)
{
	return change && atomic_load(&change->left) > 0;
}

void serve_sinks_failed(const struct sinks_change *change, struct sinks_failed *ret_failed)
{
	struct sinks_failed failed = { 0 };
	for (uint32_t i = 0; change && i < change->count; i++) {
		const struct one_change *one = &change->list[i];
		if (one->command.kind == DELIVER_CHANGE && one->command.error != 0)
			failed.ids[failed.count++] = one->id;
	}
	*ret_failed = failed;
}

struct sinks_change *serve_sinks_change_free(struct sinks_change *change)
{
	return mem_free(change);
}
