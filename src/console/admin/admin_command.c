/* admin_command: to a lane and back. See admin.h. */
#include "console/admin/admin.h"

/* On the lane's thread. */
static void lane_done(struct deliver_command *command)
{
	struct admin_command *it = container_of(command, struct admin_command, command);
	struct admin *admin = it->admin;
	struct mailbox_chain chain = { 0 };
	mailbox_chain_add(&chain, &it->node);
	mailbox_post(&admin->mail, &chain);
	admin->options.wake(admin->options.user);
}

void admin_command_post(struct admin *admin, uint32_t lane, struct admin_command *command)
{
	command->admin = admin;
	command->command.done = lane_done;
	deliver_post(admin->options.console->deliver, lane, &command->command);
}

int admin_find_lane(const struct admin *admin, uint32_t sink)
{
	struct lane_view view;
	for (uint32_t i = 0; i < deliver_lane_count(admin->options.console->deliver); i++) {
		deliver_view(admin->options.console->deliver, i, &view);
		if (view.sink == sink)
			return (int)i;
	}
	return -ENOENT;
}

void admin_collect(struct admin *admin)
{
	struct mailbox_node *node = mailbox_take(&admin->mail);
	while (node) {
		struct admin_command *it = container_of(node, struct admin_command, node);
		node = node->next;
		it->done(it);
	}
	admin_stream_collect(admin);
}
