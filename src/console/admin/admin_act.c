/*
 * admin_act: one ticket is released or dropped, wherever it stands. See admin.h.
 *
 * What is due is with the store or with its lane, and may go from one to the other while
 * it is asked for. So the one where it stood last is asked first, then the other, and
 * then it is as good as under way. What waits for a person is with the store; if it does
 * not any more, somebody else has decided.
 */
#include "console/admin/admin.h"

#define DUE (1u << STORE_STATE_DUE)

static void ask_store(struct admin_act *act);

static void command_done(struct admin_command *command)
{
	struct admin_act *act = container_of(command, struct admin_act, command);
	int error = command->command.error;
	act->lane_asked = true;
	if (error == -ENOENT && !act->store_asked)
		ask_store(act);
	else
		act->done(act, error == -ENOENT ? ERR_FENCED : error);
}

/* False: there is none for it. */
static bool ask_lane(struct admin_act *act)
{
	int lane = act->lane_asked ? -ENOENT : admin_find_lane(act->admin, act->sink);
	if (lane < 0)
		return false;
	act->command = (struct admin_command){
		.command = { .kind = act->drop ? DELIVER_DROP : DELIVER_RETRY_NOW,
		             .ticket = act->ticket },
		.done = command_done,
	};
	admin_command_post(act->admin, (uint32_t)lane, &act->command);
	return true;
}

static void release_done(struct store_op *op)
{
	struct admin_act *act = op->user;
	act->store_asked = true;
	if (op->error != ERR_FENCED || act->states != DUE || !ask_lane(act))
		act->done(act, op->error);
}

static void ask_store(struct admin_act *act)
{
	act->release = (struct store_release){
		.op = { .kind = STORE_RELEASE, .done = release_done, .user = act },
		.ticket = act->ticket,
		.states = act->states,
		.drop = act->drop,
		.whole_event = act->whole_event,
	};
	store_submit(act->admin->options.port, &act->release.op);
}

void admin_act_begin(struct admin_act *act, enum store_state state)
{
	bool due = state == STORE_STATE_DUE || state == STORE_STATE_LEASED;
	act->states = due ? DUE : STORE_STATES_ASIDE;
	act->store_asked = act->lane_asked = false;
	if (state != STORE_STATE_LEASED || !ask_lane(act))
		ask_store(act);
}
