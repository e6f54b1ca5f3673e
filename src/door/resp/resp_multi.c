/* MULTI, EXEC, DISCARD. See resp_internal.h.
 *
 * Queued commands are kept with copies of their arguments. EXEC submits the operations of
 * all of them at once: no other command comes between, and they become durable together. */
#include "door/resp/resp_internal.h"

#define QUEUED_MAX 1024u
#define QUEUED_BYTES_MAX (2u << 20)

void resp_discard(struct resp_door *door, struct resp_session *session)
{
	CHECK(door->queued_bytes >= session->arena.given);
	door->queued_bytes -= session->arena.given;
	arena_free(&session->arena);
	session->first = NULL;
	session->tail = NULL;
	session->queued = 0;
	session->in_multi = session->spoiled = false;
}

void resp_run_multi(struct resp_run *run)
{
	struct resp_session *session = run->session;
	if (session->in_multi) {
		resp_fail(run, RESP_ERR, "MULTI calls can not be nested");
		return;
	}
	session->in_multi = true;
	session->arena = (struct arena){ .cap = QUEUED_BYTES_MAX };
	session->tail = &session->first;
	resp_ok(run);
}

void resp_run_discard(struct resp_run *run)
{
	if (!run->session->in_multi) {
		resp_fail(run, RESP_ERR, "DISCARD without MULTI");
		return;
	}
	resp_discard(run->door, run->session);
	resp_ok(run);
}

static struct resp_queued *copy_command(struct arena *arena, const struct resp_run *run)
{
	struct resp_queued *queued = arena_alloc(arena, sizeof(*queued));
	struct span *args = arena_alloc(arena, run->count * sizeof(*args));
	if (!queued || !args)
		return NULL;
	for (uint32_t i = 0; i < run->count; i++) {
		args[i] = arena_copy(arena, run->args[i]);
		if (!args[i].ptr)
			return NULL;
	}
	*queued = (struct resp_queued){ .word = run->word, .args = args, .count = run->count };
	return queued;
}

void resp_queue(struct resp_run *run)
{
	struct resp_session *session = run->session;
	if (run->door->queued_bytes >= run->door->queued_bytes_max) {
		session->spoiled = true;
		resp_fail_memory(run);
		return;
	}
	size_t given = session->arena.given;
	struct resp_queued *queued = session->queued < QUEUED_MAX
	                                     ? copy_command(&session->arena, run)
	                                     : NULL;
	run->door->queued_bytes += session->arena.given - given;
	if (!queued) {
		session->spoiled = true;
		resp_fail(run, RESP_ERR,
		          "the transaction is too large: at most %u commands and %u bytes",
		          QUEUED_MAX, QUEUED_BYTES_MAX);
		return;
	}
	*session->tail = queued;
	session->tail = &queued->next;
	session->queued++;
	resp_fixed(run->job, SPAN("+QUEUED\r\n"));
}

/* Each gets its reply or its operations. */
static void run_all(const struct resp_run *exec, struct resp_queued *first)
{
	struct resp_task *task = exec->task;
	struct resp_job *job = task->jobs;
	for (struct resp_queued *queued = first; queued; queued = queued->next, job++) {
		resp_begin_job(task, job, exec->session);
		struct resp_run run = *exec;
		run.job = job;
		run.word = queued->word;
		run.args = queued->args;
		run.count = queued->count;
		queued->word->run(&run);
	}
}

void resp_take_back(struct resp_task *task)
{
	for (uint32_t i = 0; i < task->job_count; i++) {
		buf_free(&task->jobs[i].text);
		if (task->jobs[i].scanning)
			resp_scan_free(&task->jobs[i]);
	}
	task->jobs = &task->one;
	task->job_count = 1;
	task->exec = false;
}

static void refuse_exec(struct resp_run *exec)
{
	resp_take_back(exec->task);
	resp_fail(exec, RESP_EXECABORT,
	          "Transaction discarded: its replies could have more than %u bytes of values",
	          RESP_VALUES_MAX);
}

void resp_run_exec(struct resp_run *run)
{
	struct resp_session *session = run->session;
	struct resp_task *task = run->task;
	if (!session->in_multi) {
		resp_fail(run, RESP_ERR, "EXEC without MULTI");
		return;
	}
	if (session->spoiled) {
		resp_discard(run->door, session);
		resp_fail(run, RESP_EXECABORT, "Transaction discarded because of previous errors.");
		return;
	}
	/* What was queued lives until the reply is written. */
	struct resp_queued *first = session->first;
	uint32_t count = session->queued;
	task->arena = session->arena;
	task->arena.cap = 0;
	run->door->queued_bytes -= session->arena.given;
	resp_call_weigh(task->call, session->arena.given);
	session->arena = (struct arena){ 0 };
	resp_discard(run->door, session);
	struct resp_job *jobs = arena_alloc(&task->arena, (count + 1) * sizeof(*jobs));
	if (!jobs) {
		resp_fail_memory(run);
		return;
	}
	task->jobs = jobs;
	task->job_count = count;
	task->exec = true;
	run_all(run, first);
	if (task->weight > RESP_VALUES_MAX)
		refuse_exec(run);
}
