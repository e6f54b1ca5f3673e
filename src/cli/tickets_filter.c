/* tickets_filter: see tickets_filter.h. */
#include "cli/tickets_filter.h"

void tickets_add_parameter(struct buf *target, const char *name, const char *value)
{
	if (!value)
		return;
	buf_printf(target, "&%s=", name);
	ask_encode(target, span_str(value));
}

void tickets_filter_write(const struct tickets_options *options, struct buf *target)
{
	tickets_add_parameter(target, "state", options->state);
	tickets_add_parameter(target, "source", options->source);
	tickets_add_parameter(target, "sink", options->sink);
	tickets_add_parameter(target, "type", options->type);
	tickets_add_parameter(target, "entity", options->entity);
	tickets_add_parameter(target, "id", options->id);
	tickets_add_parameter(target, "since", options->since);
	tickets_add_parameter(target, "until", options->until);
}

bool tickets_filter_given(const struct tickets_options *options)
{
	return options->state || options->source || options->sink || options->type ||
	       options->entity || options->id || options->since || options->until;
}
