/*
 * admin_jobs: what is asked of jobs: begin one, list, show, cancel. See admin.h; how they
 * work: admin_job.h.
 */

#include "base/hash.h"
#include "base/hex.h"
#include "base/text.h"
#include "codec/json_write.h"
#include "console/admin/admin_job.h"
#include "gate/ticket.h"

#define JOBS_RUNNING_MAX 16u
#define REPLAY_RATE 50u /* a second */
#define RATE_MAX 100000u

static const char *const kind_names[] = { "replay", "release", "drop" };
static const char *const state_names[] = { "running", "done", "cancelled", "failed" };

/* ---- what is asked ---- */

static void put_counts(struct buf *out, const struct admin_job *job)
{
	static const char *const acted[] = { "replayed", "released", "dropped" };
	json_add_u64(out, "matched", job->matched);
	json_add_u64(out, acted[job->kind], job->acted);
	json_add_u64(out, "skipped", job->skipped);
	json_add_u64(out, "failed", job->failed);
}

static void put_job(struct buf *out, const struct admin_job *job)
{
	json_object_begin(out, NULL);
	json_add_u64(out, "job", job->id);
	json_add_string(out, "kind", kind_names[job->kind]);
	json_add_string(out, "state", state_names[job->state]);
	json_add_bool(out, "dry_run", job->dry_run);
	if (job->kind == JOB_REPLAY)
		json_add_text(out, "nonce", span_of(job->nonce, job->nonce_len));
	if (job->rate > 0)
		json_add_u64(out, "rate", job->rate);
	put_counts(out, job);
	json_add_time(out, "began", job->began_ms);
	if (job->state != JOB_RUNNING)
		json_add_time(out, "ended", job->ended_ms);
	if (job->error != 0 || job->problem)
		json_add_string(out, "error", job->problem ? job->problem : error_name(job->error));
	json_object_end(out);
}

static void respond_job(struct http_request *request, uint16_t status, const struct admin_job *job)
{
	struct buf out = { .cap = 4096 };
	put_job(&out, job);
	admin_respond_status(request, status, &out);
}

void admin_list_jobs(struct admin *admin, struct http_request *request, struct span part)
{
	struct buf out = { .cap = 1u << 20 };
	(void)part;
	json_object_begin(&out, NULL);
	json_array_begin(&out, "jobs");
	for (const struct admin_job *job = admin->jobs; job; job = job->next)
		put_job(&out, job);
	json_array_end(&out);
	json_object_end(&out);
	admin_respond(request, &out);
}

static struct admin_job *find_job(struct admin *admin, struct http_request *request,
                                  struct span part)
{
	uint64_t id = 0;
	struct admin_job *job = admin->jobs;
	if (text_parse_u64(part, &id) < 0)
		id = 0;
	while (job && job->id != id)
		job = job->next;
	if (!job)
		http_respond_problem(request, 404, "there is no such job; GET /v1/jobs lists them",
		                     SPAN_EMPTY);
	return job;
}

void admin_show_job(struct admin *admin, struct http_request *request, struct span part)
{
	const struct admin_job *job = find_job(admin, request, part);
	if (job)
		respond_job(request, 200, job);
}

void admin_cancel_job(struct admin *admin, struct http_request *request, struct span part)
{
	struct admin_job *job = find_job(admin, request, part);
	if (!job)
		return;
	if (job->state == JOB_RUNNING) {
		job->cancelled = true;
		admin_job_step(job);
	}
	respond_job(request, 200, job);
}

/* ---- begin ---- */

static int make_nonce(struct admin_job *job)
{
	unsigned char bytes[8];
	int r = hash_random(bytes, sizeof(bytes));
	if (r < 0)
		return r;
	hex_encode(bytes, sizeof(bytes), job->nonce);
	job->nonce_len = 2 * sizeof(bytes);
	return 0;
}

static int parse_to(struct admin_job *job, struct span query, struct error_text *ret_text)
{
	struct filter_text to;
	struct lane_view view;
	struct deliver *deliver = job->admin->options.console->deliver;
	if (!admin_param(query, "to", &to, ret_text))
		return to.given ? ERR_INVALID : 0;
	int lane = deliver_find(deliver, filter_span(&to));
	if (lane < 0)
		return error_fill(ret_text, ERR_INVALID, "to: there is no sink of this name");
	deliver_view(deliver, (uint32_t)lane, &view);
	job->elsewhere = true;
	job->to = view.sink;
	return 0;
}

static int parse_replay(struct admin_job *job, struct span query, struct error_text *ret_text)
{
	struct filter_text nonce;
	job->rate = REPLAY_RATE;
	int r = admin_param_number(query, "rate", RATE_MAX, &job->rate, ret_text);
	if (r == 0 && job->rate == 0)
		r = error_fill(ret_text, ERR_INVALID, "rate: expected 1 to %u a second", RATE_MAX);
	if (r == 0)
		r = parse_to(job, query, ret_text);
	if (r < 0)
		return r;
	if (!admin_param(query, "nonce", &nonce, ret_text) && !nonce.given)
		return make_nonce(job);
	if (nonce.len == 0 || nonce.len > ADMIN_NONCE_MAX)
		return error_fill(ret_text, ERR_INVALID, "nonce: expected a text of 1 to %u bytes",
		                  ADMIN_NONCE_MAX);
	memcpy(job->nonce, nonce.bytes, nonce.len);
	job->nonce_len = nonce.len;
	return 0;
}

/* Which states such a job may meet, */
static uint32_t job_states(enum job_kind kind)
{
	return kind == JOB_REPLAY ? 1u << STORE_STATE_PARKED | 1u << STORE_STATE_DEAD |
	                                    1u << STORE_STATE_CLOSED
	                          : FILTER_OPEN_STATES;
}

/* and meets when none is said: what needs nobody is left alone. */
static uint32_t standard_states(enum job_kind kind)
{
	return kind == JOB_REPLAY ? job_states(kind) : STORE_STATES_ASIDE;
}

static bool is_narrow(const struct admin_filter *filter)
{
	return filter->states != 0 || filter->from != 0 || filter->to != 0 ||
	       filter->source.given || filter->sink.given || filter->type.given ||
	       filter->entity.given || filter->id.given;
}

static int parse(struct admin_job *job, struct span query, struct error_text *ret_text)
{
	uint64_t dry_run = 0;
	int r = admin_filter_parse(job->admin->options.console, query, job->admin->now_ms,
	                           &job->filter, ret_text);
	if (r == 0)
		r = admin_param_number(query, "dry_run", 1, &dry_run, ret_text);
	if (r == 0 && job->kind == JOB_REPLAY)
		r = parse_replay(job, query, ret_text);
	if (r < 0)
		return r;
	job->dry_run = dry_run;
	if (job->filter.states & ~job_states(job->kind) && job->filter.states != FILTER_ALL_STATES)
		return error_fill(ret_text, ERR_INVALID, "state: %s is for tickets that are %s",
		                  kind_names[job->kind],
		                  job->kind == JOB_REPLAY ? "closed, parked or dead" : "open");
	return 0;
}

static uint32_t count_running(const struct admin *admin)
{
	uint32_t count = 0;
	for (const struct admin_job *job = admin->jobs; job; job = job->next)
		count += job->state == JOB_RUNNING;
	return count;
}

static void begin(struct admin_job *job, struct http_request *request)
{
	job->filter.states &= job_states(job->kind);
	admin_job_begin(job);
	respond_job(request, 202, job);
}

/* Of one ticket: the answer waits until it is known whether there is such a one. */
static void ticket_known(struct admin_job *job)
{
	if (job->problem)
		http_respond_problem(job->request, job->met_open || job->met_claim ? 409 : 404,
		                     job->problem, SPAN_EMPTY);
	else if (job->state == JOB_FAILED && job->matched == 0)
		admin_respond_error(job->request, job->error);
	else
		respond_job(job->request, 202, job);
}

static struct admin_job *new_job(struct admin *admin, struct http_request *request,
                                 enum job_kind kind)
{
	struct error_text text = { "" };
	if (count_running(admin) >= JOBS_RUNNING_MAX) {
		admin_respond_busy(request, "too many jobs run; wait for one, or cancel it");
		return NULL;
	}
	struct admin_job *job = admin_job_new(admin, kind);
	if (!job) {
		admin_respond_busy(request, "no memory for this now");
		return NULL;
	}
	if (parse(job, request->head.query, &text) == 0)
		return job;
	http_respond_problem(request, 400, text.text, SPAN_EMPTY);
	return admin_job_free(job);
}

static void start(struct admin *admin, struct http_request *request, enum job_kind kind)
{
	struct admin_job *job = new_job(admin, request, kind);
	if (!job)
		return;
	if (!is_narrow(&job->filter)) {
		http_respond_problem(
			request, 400,
			"say what is meant: state, source, sink, type, entity, id, since "
			"or until",
			SPAN_EMPTY);
		admin_job_free(job);
		return;
	}
	if (job->filter.states == 0)
		job->filter.states = standard_states(kind);
	begin(job, request);
}

void admin_start_replay(struct admin *admin, struct http_request *request, struct span part)
{
	(void)part;
	start(admin, request, JOB_REPLAY);
}

void admin_start_release(struct admin *admin, struct http_request *request, struct span part)
{
	(void)part;
	start(admin, request, JOB_RELEASE);
}

void admin_start_drop(struct admin *admin, struct http_request *request, struct span part)
{
	(void)part;
	start(admin, request, JOB_DROP);
}

void admin_replay_ticket(struct admin *admin, struct http_request *request, struct span part)
{
	uint64_t ticket;
	if (!ticket_parse(part, &ticket)) {
		http_respond_problem(request, 400, "a ticket has 11 letters and digits",
		                     SPAN_EMPTY);
		return;
	}
	struct admin_job *job = new_job(admin, request, JOB_REPLAY);
	if (!job)
		return;
	job->filter.event = job->filter.from = ticket;
	job->filter.to = ticket + STORE_LEGS_MAX - 1;
	job->filter.states = 1u << STORE_STATE_PARKED | 1u << STORE_STATE_DEAD;
	job->first_open = true;
	job->request = request;
	job->known = ticket_known;
	admin_job_begin(job);
}
