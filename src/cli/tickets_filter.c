/* tickets_filter: see tickets_filter.h. */
#include "cli/tickets_filter.h"

void tickets_filter_write(const struct tickets_options *options, struct buf *target)
{
	gateway_add_parameter(target, "state", options->state);
	gateway_add_parameter(target, "source", options->source);
	gateway_add_parameter(target, "sink", options->sink);
	gateway_add_parameter(target, "type", options->type);
	gateway_add_parameter(target, "entity", options->entity);
	gateway_add_parameter(target, "id", options->id);
	gateway_add_parameter(target, "since", options->since);
	gateway_add_parameter(target, "until", options->until);
}

bool tickets_filter_given(const struct tickets_options *options)
{
	return options->state || options->source || options->sink || options->type ||
	       options->entity || options->id || options->since || options->until;
}
