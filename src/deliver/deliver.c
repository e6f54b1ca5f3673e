/* deliver: see deliver.h. */
#include "deliver/deliver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "deliver/lane.h"
#include "store/port.h"
#include "sys/loop.h"
#include "sys/thread.h"

#define SETTLE_LIMIT_MS 5000

struct runner {
	struct lane *lane;
	struct loop *loop;
	struct outlet *outlet;
	struct port *port;
	struct thread thread;
	const atomic_bool *begun; /* of all */
	struct loop_hook round;
	struct loop_timer timer;
	bool stopped;
	atomic_bool in_round; /* the view is not of now */
	struct mailbox commands;
	struct mailbox_node *telling;   /* commands that wait until they are written down */
	struct deliver_command *change; /* waits until nothing is under way */
	atomic_bool stopping;
	atomic_bool ended;
	pthread_mutex_t seeing; /* of view */
	struct lane_view view;
};

struct deliver {
	struct deliver_options options; /* without the sinks */
	atomic_uint count;
	atomic_bool begun; /* every thread is there: until then no lane takes anything */
	struct runner runners[DELIVER_LANES_MAX];
};

/* ---- on the lane's thread ---- */

static void publish(struct runner *runner)
{
	pthread_mutex_lock(&runner->seeing);
	lane_view(runner->lane, &runner->view);
	pthread_mutex_unlock(&runner->seeing);
}

static int obey(struct lane *lane, const struct deliver_command *command)
{
	switch (command->kind) {
	case DELIVER_PAUSE: lane_pause(lane); return 0;
	case DELIVER_RESUME: lane_resume(lane); return 0;
	case DELIVER_REMOVE: lane_remove(lane); return 0;
	case DELIVER_RETRY_NOW: return lane_retry_now(lane, command->ticket);
	case DELIVER_DROP:
	case DELIVER_CHANGE: break; /* not at once */
	}
	return ERR_INVALID;
}

static void finish_command(struct deliver_command *command, int error)
{
	command->error = error;
	if (command->done)
		command->done(command);
}

static void dropped(struct lane_drop *drop, int error)
{
	finish_command(container_of(drop, struct deliver_command, drop), error);
}

static void drop(struct lane *lane, struct deliver_command *command)
{
	command->drop.done = dropped;
	int error = lane_drop(lane, command->ticket, &command->drop);
	if (error != 0)
		finish_command(command, error);
}

static int change(struct runner *runner, struct deliver_command *command)
{
	struct outlet *outlet = NULL;
	int error = command->make(command, runner->loop, &outlet);
	if (error != 0) {
		lane_cancel_change(runner->lane);
		return error;
	}
	struct outlet *old = runner->outlet;
	pthread_mutex_lock(&runner->seeing); /* deliver_end() interrupts it */
	runner->outlet = outlet;
	if (atomic_load(&runner->stopping))
		outlet->methods->interrupt(outlet);
	pthread_mutex_unlock(&runner->seeing);
	if (command->name)
		lane_rename(runner->lane, command->name);
	lane_change(runner->lane, outlet, &command->policy);
	old->methods->free(old);
	return 0;
}

static void run_commands(struct runner *runner, bool closing)
{
	struct mailbox_node *node = mailbox_take(&runner->commands);
	bool written = lane_is_state_saved(runner->lane);
	while (runner->telling && (written || closing)) {
		struct mailbox_node *told = runner->telling;
		runner->telling = told->next;
		finish_command(container_of(told, struct deliver_command, node),
		               written ? 0 : ERR_CLOSING);
	}
	while (node) {
		struct mailbox_node *next = node->next;
		struct deliver_command *command = container_of(node, struct deliver_command, node);
		if (closing) {
			finish_command(command, ERR_CLOSING);
		} else if (command->kind == DELIVER_PAUSE || command->kind == DELIVER_RESUME) {
			(void)obey(runner->lane, command); /* done() when the state is saved */
			command->node.next = runner->telling;
			runner->telling = &command->node;
		} else if (command->kind == DELIVER_DROP) {
			drop(runner->lane, command);
		} else if (command->kind != DELIVER_CHANGE) {
			finish_command(command, obey(runner->lane, command));
		} else if (runner->change) {
			finish_command(command, ERR_BUSY);
		} else {
			runner->change = command;
			lane_prepare_change(runner->lane);
		}
		node = next;
	}
}

static void round_run(struct loop_hook *hook)
{
	struct runner *runner = container_of(hook, struct runner, round);
	if (!atomic_load(runner->begun) && !atomic_load(&runner->stopping))
		return;
	atomic_store(&runner->in_round, true);
	port_collect(runner->port);
	if (atomic_load(&runner->stopping) && !runner->stopped) {
		runner->stopped = true;
		lane_stop(runner->lane);
	}
	run_commands(runner, runner->stopped);
	struct deliver_command *command = runner->change;
	if (command && (runner->stopped || lane_is_idle(runner->lane))) {
		runner->change = NULL;
		finish_command(command, runner->stopped ? ERR_CLOSING : change(runner, command));
	}
	uint64_t after_ms = lane_run(runner->lane);
	if (after_ms == UINT64_MAX)
		loop_timer_clear(runner->loop, &runner->timer);
	else if (after_ms == 0 || loop_timer_set(runner->loop, &runner->timer, after_ms) != 0)
		loop_again(runner->loop); /* also without memory for a timer: then it polls */
	publish(runner);
	atomic_store(&runner->in_round, false);
	lane_flush(runner->lane);
	if (runner->stopped && lane_is_still(runner->lane))
		loop_stop(runner->loop);
}

/* The round that follows is all that is wanted. */
static void timer_due(struct loop_timer *timer)
{
	(void)timer;
}

static void run(void *user)
{
	struct runner *runner = user;
	loop_again(runner->loop);
	loop_run(runner->loop);
	size_t left = port_drain(runner->port, SETTLE_LIMIT_MS);
	if (left > 0)
		log_warn("outcomes are not recorded yet; the store is closed now",
		         log_str("sink", runner->view.name), log_u64("outcomes", left));
	publish(runner);
	atomic_store(&runner->ended, true);
}

/* ---- beginning and end ---- */

static void wake(void *user)
{
	loop_wake(user);
}

static int runner_open(struct runner *runner, const struct deliver_options *options,
                       const struct deliver_sink *sink)
{
	struct lane_options lane = {
		.name = sink->name,
		.sink = sink->sink,
		.policy = sink->policy,
		.outlet = sink->outlet,
		.clock = options->clock,
		.lease_ms = options->lease_ms,
		.feed = options->feed,
	};
	struct port_options port = { .wake = wake, .user = sink->loop };
	runner->timer.due = timer_due;
	runner->round.round = round_run;
	mailbox_init(&runner->commands);
	int error = hash_random(&lane.seed, sizeof(lane.seed));
	if (error == 0)
		error = port_new(options->host, &port, &runner->port);
	if (error != 0)
		return error;
	lane.port = runner->port;
	lane.store = port_store(runner->port);
	error = lane_new(&lane, &runner->lane);
	if (error != 0)
		return error;
	publish(runner);
	loop_hook_add(sink->loop, &runner->round);
	return 0;
}

static int runner_start(struct deliver *deliver, struct runner *runner,
                        const struct deliver_sink *sink)
{
	char name[16];
	runner->begun = &deliver->begun;
	snprintf(name, sizeof(name), "to-%s", sink->name);
	runner->loop = sink->loop;
	runner->outlet = sink->outlet;
	return thread_start(&runner->thread, &(struct thread_options){ .name = name,
	                                                               .cpu = THREAD_ANY_CPU,
	                                                               .run = run,
	                                                               .user = runner });
}

static void runner_free(struct runner *runner)
{
	if (runner->port)
		port_collect(runner->port); /* what only the store's close has answered */
	if (runner->lane)
		run_commands(runner, true);
	if (runner->change)
		finish_command(runner->change, ERR_CLOSING);
	lane_free(runner->lane);
	if (runner->port)
		store_free(port_store(runner->port));
	if (runner->outlet)
		runner->outlet->methods->free(runner->outlet);
	loop_free(runner->loop);
	pthread_mutex_destroy(&runner->seeing);
}

/* Loop and outlet stay with the caller. */
static void runner_give_up(struct runner *runner, const struct deliver_sink *sink)
{
	if (runner->lane)
		loop_hook_remove(sink->loop, &runner->round);
	if (runner->loop)
		loop_timer_clear(runner->loop, &runner->timer);
	runner->loop = NULL;
	runner->outlet = NULL;
}

int deliver_start(const struct deliver_options *options, struct deliver **ret_deliver)
{
	struct deliver *deliver = mem_zalloc(1, sizeof(*deliver));
	int error = 0;
	CHECK(options->sink_count <= DELIVER_LANES_MAX);
	if (!deliver)
		return -ENOMEM;
	deliver->options = *options;
	deliver->options.sinks = NULL;
	deliver->count = options->sink_count;
	for (uint32_t i = 0; i < DELIVER_LANES_MAX; i++)
		pthread_mutex_init(&deliver->runners[i].seeing, NULL);
	for (uint32_t i = 0; i < deliver->count && error == 0; i++)
		error = runner_open(&deliver->runners[i], options, &options->sinks[i]);
	for (uint32_t i = 0; i < deliver->count && error == 0; i++)
		error = runner_start(deliver, &deliver->runners[i], &options->sinks[i]);
	if (error != 0) {
		deliver_join(deliver);
		for (uint32_t i = 0; i < deliver->count; i++)
			runner_give_up(&deliver->runners[i], &options->sinks[i]);
		deliver_free(deliver);
		return error;
	}
	atomic_store(&deliver->begun, true);
	for (uint32_t i = 0; i < deliver->count; i++)
		loop_wake(deliver->runners[i].loop);
	*ret_deliver = deliver;
	return 0;
}

int deliver_add(struct deliver *deliver, const struct deliver_sink *sink)
{
	CHECK(atomic_load(&deliver->begun));
	CHECK(deliver->count <= DELIVER_LANES_MAX);
	uint32_t number = deliver->count;
	if (number == DELIVER_LANES_MAX)
		return ERR_FULL;
	struct runner *runner = &deliver->runners[number];
	int error = runner_open(runner, &deliver->options, sink);
	if (error == 0)
		error = runner_start(deliver, runner, sink);
	if (error != 0) {
		runner_give_up(runner, sink);
		runner_free(runner);
		*runner = (struct runner){ 0 };
		pthread_mutex_init(&runner->seeing, NULL);
		return error;
	}
	deliver->count = number + 1; /* others may look from here on */
	return 0;
}

void deliver_end(struct deliver *deliver)
{
	for (uint32_t i = 0; i < deliver->count; i++) {
		struct runner *runner = &deliver->runners[i];
		if (!runner->thread.running || atomic_exchange(&runner->stopping, true))
			continue;
		pthread_mutex_lock(&runner->seeing);
		runner->outlet->methods->interrupt(runner->outlet);
		pthread_mutex_unlock(&runner->seeing);
		loop_wake(runner->loop);
	}
}

bool deliver_ended(const struct deliver *deliver)
{
	for (uint32_t i = 0; i < deliver->count; i++)
		if (deliver->runners[i].thread.running && !atomic_load(&deliver->runners[i].ended))
			return false;
	return true;
}

void deliver_join(struct deliver *deliver)
{
	deliver_end(deliver);
	for (uint32_t i = 0; i < deliver->count; i++)
		thread_join(&deliver->runners[i].thread);
}

struct deliver *deliver_free(struct deliver *deliver)
{
	CHECK(!deliver || deliver->count <= DELIVER_LANES_MAX);
	if (!deliver)
		return NULL;
	deliver_join(deliver);
	for (uint32_t i = 0; i < DELIVER_LANES_MAX; i++)
		runner_free(&deliver->runners[i]);
	return mem_free(deliver);
}

/* ---- any thread ---- */

uint32_t deliver_lane_count(const struct deliver *deliver)
{
	return deliver->count;
}

void deliver_view(struct deliver *deliver, uint32_t lane, struct lane_view *ret_view)
{
	CHECK(lane < deliver->count);
	struct runner *runner = &deliver->runners[lane];
	pthread_mutex_lock(&runner->seeing);
	*ret_view = runner->view;
	pthread_mutex_unlock(&runner->seeing);
}

bool deliver_is_resting(struct deliver *deliver)
{
	bool resting = true;
	for (uint32_t i = 0; i < deliver->count; i++) {
		struct runner *runner = &deliver->runners[i];
		pthread_mutex_lock(&runner->seeing);
		resting &= runner->view.resting && !atomic_load(&runner->in_round);
		pthread_mutex_unlock(&runner->seeing);
		loop_wake(runner->loop);
	}
	return resting;
}

int deliver_find(struct deliver *deliver, struct span name)
{
	int there = -ENOENT, removed = -ENOENT;
	for (uint32_t i = 0; i < deliver->count; i++) {
		struct runner *runner = &deliver->runners[i];
		pthread_mutex_lock(&runner->seeing);
		if (span_eq(span_str(runner->view.name), name))
			*(runner->view.state == LANE_REMOVED ? &removed : &there) = (int)i;
		pthread_mutex_unlock(&runner->seeing);
	}
	return there >= 0 ? there : removed;
}

void deliver_post(struct deliver *deliver, uint32_t lane, struct deliver_command *command)
{
	CHECK(lane < deliver->count);
	struct runner *runner = &deliver->runners[lane];
	struct mailbox_chain chain = { 0 };
	mailbox_chain_add(&chain, &command->node);
	mailbox_post(&runner->commands, &chain);
	loop_wake(runner->loop);
}
