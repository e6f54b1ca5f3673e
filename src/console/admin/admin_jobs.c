/*
 * admin_jobs: what is done to many tickets in the background: replay, release, drop. See
 * admin_private.h.
 *
 * A job scans the store a piece at a time and acts on the tickets that its filter selects,
 * a few operations at once. It lives in memory and ends with the process. Nothing is lost
 * by that: the same request again continues a release or drop, and a replay too, which
 * skips what it has already sent under the same nonce.
 *
 * Replay: the same bytes are admitted again, with a single claim of (nonce, original
 * ticket). So the replay gets a ticket and an Idempotency-Key of its own, and the same
 * replay run twice is a duplicate. A dead or parked original is closed when its replay is
 * durable. A replay to another sink leaves its original as it is.
 * A replay of one ticket (`event` of the filter) fails when nothing is sent again, with a
 * text in `problem`: there is no such ticket, its delivery is not finished, or it is a
 * caller's claim.
 * A replay leaves out what it has sent itself, replays that were delivered, and claims of
 * callers, unless it sends to another sink.
 *
 * Failure: of one ticket it is counted; of a scan it ends the job (`error`).
 */
#include <inttypes.h>

#include "base/hash.h"
#include "base/hex.h"
#include "base/mem.h"
#include "base/text.h"
#include "codec/json_write.h"
#include "console/admin/admin_private.h"
#include "gate/digest.h"
#include "gate/metadata.h"
#include "gate/ticket.h"

#define NONCE_MAX 64u
#define NONCE_WINDOW_S (30u * 24 * 60 * 60)
#define JOBS_KEPT 64u /* ended ones that can still be shown */
#define JOBS_RUNNING_MAX 16u
#define ACTS_MAX 64u
#define PIECE_BYTES (1u << 20)
#define KNOWN_MS 2000u  /* the longest time that a request waits for its job */
#define REPLAY_RATE 50u /* a second */
#define RATE_MAX 100000u

enum job_state { JOB_RUNNING, JOB_DONE, JOB_CANCELLED, JOB_FAILED };

struct admin_job {
	struct admin_job *next;
	struct admin *admin;
	uint32_t id;
	enum job_kind kind;
	enum job_state state;

	/* Set before it begins. */
	struct admin_filter filter;
	bool dry_run;
	bool first_open; /* of one ticket: look among the open ones before the whole journal */
	/* Of one ticket: answered once something matched, the job has ended, or
	 * KNOWN_MS have passed. NULL: answered already. */
	struct http_request *request;
	char nonce[NONCE_MAX];
	uint32_t nonce_len;
	uint64_t rate;  /* a second; 0: no limit */
	bool elsewhere; /* a replay to another sink: `to` */
	uint32_t to;

	/* Results. */
	uint64_t began_ms, ended_ms;
	uint64_t matched, acted, skipped, failed;
	int error;           /* why it failed */
	const char *problem; /* of one ticket: why nothing was done; else NULL */

	/* Progress. */
	bool cancelled;
	bool met_open, met_claim; /* of one ticket: it exists, but must not be sent again */
	uint64_t allowed_at_ms;
	uint64_t allowance; /* acts that may begin now */
	uint64_t first_own; /* the lowest ticket that it made; 0: none */
	struct store_scan scan;
	bool scanning;
	bool stepping; /* inside step_job(): an operation may end within its submit */
	size_t at;     /* in scan.items */
	uint32_t in_flight;
	struct act *spare;
	struct act *acts; /* NULL when it has ended */
};

struct act {
	struct admin_job *job;
	struct act *next; /* while free */
	struct store_admit admit;
	struct admin_act deed;
	struct store_leg leg;
	enum store_state original;
	bool closes; /* the original, when the replay is durable */
	char metadata[METADATA_BYTES_MAX];
	struct buf bytes; /* source and payload */
};

/* ---- what a client sees of jobs ---- */

static const char *const kind_names[] = { "replay", "release", "drop" };

static void put_job(struct buf *out, const struct admin_job *job)
{
	static const char *const states[] = { "running", "done", "cancelled", "failed" };
	static const char *const acted[] = { "replayed", "released", "dropped" };
	json_object_begin(out, NULL);
	json_add_u64(out, "job", job->id);
	json_add_string(out, "kind", kind_names[job->kind]);
	json_add_string(out, "state", states[job->state]);
	json_add_bool(out, "dry_run", job->dry_run);
	if (job->kind == JOB_REPLAY)
		json_add_text(out, "nonce", span_of(job->nonce, job->nonce_len));
	if (job->rate > 0)
		json_add_u64(out, "rate", job->rate);
	json_add_u64(out, "matched", job->matched);
	json_add_u64(out, acted[job->kind], job->acted);
	json_add_u64(out, "skipped", job->skipped);
	json_add_u64(out, "failed", job->failed);
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

void admin_list_jobs(struct admin *admin, const struct admin_call *call)
{
	struct buf out = { .cap = 1u << 20 };
	json_object_begin(&out, NULL);
	json_array_begin(&out, "jobs");
	for (const struct admin_job *job = admin->jobs; job; job = job->next)
		put_job(&out, job);
	json_array_end(&out);
	json_object_end(&out);
	admin_respond(call->request, &out);
}

/* ---- end ---- */

static void free_acts(struct admin_job *job)
{
	for (uint32_t i = 0; job->acts && i < ACTS_MAX; i++)
		buf_free(&job->acts[i].bytes);
	job->acts = mem_free(job->acts);
	buf_free(&job->scan.items);
}

static struct admin_job *free_job(struct admin_job *job)
{
	free_acts(job);
	return mem_free(job);
}

/* Why nothing of the one ticket that was asked for is sent again. */
static const char *find_problem(const struct admin_job *job)
{
	if (job->met_claim)
		return "it is a claim of the claims API, which stile does not deliver: a replay needs another sink (to=)";
	if (job->met_open)
		return "it is held or still being delivered: only closed, parked or dead tickets can be replayed";
	return "no such ticket, or it was closed too long ago and its record was removed";
}

static void end_job(struct admin_job *job)
{
	if (job->filter.event != 0 && job->matched == 0 && !job->cancelled && job->error == 0)
		job->problem = find_problem(job);
	job->state = job->cancelled                    ? JOB_CANCELLED
	             : job->error != 0 || job->problem ? JOB_FAILED
	                                               : JOB_DONE;
	job->ended_ms = job->admin->now_ms;
	free_acts(job);
}

/* Answers the request that waits to know whether there is such a ticket. */
static void answer_waiting(struct admin_job *job)
{
	struct http_request *request = job->request;
	job->request = NULL;
	if (!request)
		return;
	if (job->problem)
		admin_respond_problem(request, job->met_open || job->met_claim ? 409 : 404,
		                      job->problem);
	else if (job->state == JOB_FAILED && job->matched == 0)
		admin_respond_error(request, job->error);
	else
		respond_job(request, 202, job);
}

void admin_jobs_free(struct admin *admin)
{
	while (admin->jobs) {
		struct admin_job *job = admin->jobs;
		admin->jobs = job->next;
		free_job(job);
	}
}

/* The oldest that have ended make room. */
static void forget_jobs(struct admin *admin)
{
	uint32_t kept = 0;
	struct admin_job **at = &admin->jobs;
	while (*at) {
		struct admin_job *job = *at;
		if (job->state == JOB_RUNNING || ++kept <= JOBS_KEPT) {
			at = &job->next;
			continue;
		}
		*at = job->next;
		mem_free(job);
	}
}

/* ---- acts ---- */

static void step_job(struct admin_job *job);

static void end_act(struct act *act)
{
	struct admin_job *job = act->job;
	act->next = job->spare;
	job->spare = act;
	job->in_flight--;
	step_job(job);
}

static void released(struct admin_act *deed, int error)
{
	struct act *act = container_of(deed, struct act, deed);
	struct admin_job *job = act->job;
	if (error == ERR_FENCED || error == ERR_BUSY)
		job->skipped++; /* somebody else was first */
	else if (error != 0)
		job->failed++;
	else
		job->acted++;
	end_act(act);
}

/* The replay is counted already; its original may be gone meanwhile. */
static void original_closed(struct admin_act *deed, int error)
{
	(void)error;
	end_act(container_of(deed, struct act, deed));
}

static void replayed(struct store_op *op)
{
	struct act *act = op->user;
	struct admin_job *job = act->job;
	uint64_t own = act->admit.own_ticket;
	bool sent = op->error == 0 && act->admit.verdict == VERDICT_NEW;
	if (op->error != 0)
		job->failed++;
	else if (sent)
		job->acted++;
	else
		job->skipped++;
	if (sent && (job->first_own == 0 || own < job->first_own))
		job->first_own = own;
	if (op->error == 0 && act->closes)
		admin_act_begin(&act->deed, act->original);
	else
		end_act(act);
}

/* A digest that no recipe makes: its scope is no source's name. */
static int replay_claim(const struct admin_job *job, uint64_t ticket, struct claim *ret_claim)
{
	struct digest_scope scope;
	struct digest_input input;
	char text[TICKET_TEXT_LEN], to[16];
	ticket_text(ticket, text);
	int len = snprintf(to, sizeof(to), "%08" PRIx32, job->to);
	int r = digest_scope_init(&scope, SPAN("/replay"), SPAN("replay"));
	if (r < 0)
		return r;
	digest_begin(&input, &scope);
	r = digest_add(&input, DIGEST_STRING, span_of(job->nonce, job->nonce_len));
	if (r == 0)
		r = digest_add(&input, DIGEST_STRING, span_of(text, sizeof(text)));
	if (r == 0 && job->elsewhere)
		r = digest_add(&input, DIGEST_STRING, span_of(to, (size_t)len));
	if (r < 0)
		return r;
	*ret_claim = (struct claim){
		.digest = digest_with_check(digest_end(&input, job->admin->options.key), 0),
		.window_s = NONCE_WINDOW_S,
		.kind = CLAIM_ONCE,
	};
	return 0;
}

/* That of the original, and whose replay it is. If it is too long, without the tracestate. */
static struct span replay_metadata(struct act *act, struct span original, uint64_t ticket)
{
	struct metadata metadata = { 0 };
	char text[TICKET_TEXT_LEN];
	struct buf out = buf_on(act->metadata, sizeof(act->metadata));
	if (metadata_read(original, &metadata) < 0)
		metadata = (struct metadata){ 0 };
	ticket_text(ticket, text);
	metadata.texts[METADATA_REPLAY_OF] = span_of(text, sizeof(text));
	metadata_write(&metadata, &out);
	if (out.failed) {
		metadata.texts[METADATA_TRACESTATE] = SPAN_EMPTY;
		buf_clear(&out);
		metadata_write(&metadata, &out);
	}
	return out.failed ? SPAN_EMPTY : buf_span(&out);
}

static int begin_replay(struct act *act, const struct store_item *item,
                        const struct store_parts *parts)
{
	buf_clear(&act->bytes);
	buf_append_span(&act->bytes, parts->source);
	buf_append_span(&act->bytes, parts->payload);
	if (act->bytes.failed)
		return -ENOMEM;
	/* Of an event with several legs the other sink gets one. */
	bool elsewhere = act->job->elsewhere;
	act->leg = (struct store_leg){ .sink = elsewhere ? act->job->to : item->sink,
		                       .order = item->order };
	bool plain = act->leg.sink == 0 && item->order == 0;
	act->admit = (struct store_admit){
		.op = { .kind = STORE_ADMIT, .done = replayed, .user = act },
		.claim_count = 1,
		.flags = (uint16_t)item->flags,
		.source = span_of(act->bytes.ptr, parts->source.len),
		.metadata = replay_metadata(act, parts->metadata, item->ticket),
		.payload = span_of(act->bytes.ptr + parts->source.len, parts->payload.len),
		.legs = plain ? NULL : &act->leg,
		.leg_count = plain ? 0 : 1,
	};
	int r = replay_claim(act->job, elsewhere ? item->event : item->ticket,
	                     &act->admit.claims[0]);
	if (r < 0)
		return r;
	act->original = (enum store_state)item->state;
	act->deed.drop = true;
	act->deed.done = original_closed;
	act->closes = !elsewhere &&
	              (item->state == STORE_STATE_DEAD || item->state == STORE_STATE_PARKED);
	store_submit(act->job->admin->options.port, &act->admit.op);
	return 0;
}

static void begin_act(struct admin_job *job, const struct store_item *item,
                      const struct store_parts *parts)
{
	struct act *act = job->spare;
	CHECK(act);
	job->spare = act->next;
	job->in_flight++;
	act->deed = (struct admin_act){ .admin = job->admin,
		                        .ticket = item->ticket,
		                        .sink = item->sink,
		                        .drop = job->kind == JOB_DROP,
		                        .done = released };
	if (job->kind != JOB_REPLAY) {
		admin_act_begin(&act->deed, (enum store_state)item->state);
	} else if (begin_replay(act, item, parts) < 0) {
		job->failed++;
		act->next = job->spare;
		job->spare = act;
		job->in_flight--;
	}
}

/* ---- steps ---- */

static bool is_selected(struct admin_job *job, const struct store_item *item,
                        const struct store_parts *parts)
{
	struct metadata metadata;
	if (!admin_filter_matches(&job->filter, item, parts))
		return false;
	if (job->kind != JOB_REPLAY)
		return true;
	if (job->first_own != 0 && item->ticket >= job->first_own)
		return false;
	/* The caller has acted on its claim: nobody would ask for it, or settle it, again. */
	if (item->sink == STORE_SINK_CALLER && !job->elsewhere) {
		job->met_claim = true;
		return false;
	}
	/* Of a replay that was delivered, the original is sent again instead. */
	return item->state != STORE_STATE_CLOSED || job->filter.event != 0 ||
	       metadata_read(parts->metadata, &metadata) < 0 ||
	       metadata.texts[METADATA_REPLAY_OF].len == 0;
}

/* True: all items of the piece are handled. */
static bool work_off(struct admin_job *job)
{
	struct store_item item;
	struct store_parts parts;
	while (job->spare && (job->dry_run || job->rate == 0 || job->allowance > 0)) {
		if (!store_item_next(buf_span(&job->scan.items), &job->at, &item, &parts))
			return true;
		job->met_open |= item.state != STORE_STATE_CLOSED &&
		                 (item.ticket == job->filter.event ||
		                  item.event == job->filter.event);
		if (!is_selected(job, &item, &parts))
			continue;
		job->matched++;
		if (job->dry_run)
			continue;
		job->allowance -= job->rate > 0;
		begin_act(job, &item, &parts);
	}
	return job->at >= job->scan.items.len;
}

static void scanned(struct store_op *op)
{
	struct admin_job *job = op->user;
	job->scanning = false;
	job->at = 0;
	if (op->error != 0) {
		job->error = op->error;
		buf_clear(&job->scan.items);
		job->scan.end = true;
	}
	step_job(job);
}

static void scan_more(struct admin_job *job)
{
	job->scanning = true;
	job->scan.max_items = ACTS_MAX;
	job->scan.max_bytes = PIECE_BYTES;
	job->scan.op = (struct store_op){ .kind = STORE_SCAN, .done = scanned, .user = job };
	store_submit(job->admin->options.port, &job->scan.op);
}

/* Of one ticket that is not among the open ones: look for it in the journal. */
static bool look_further(struct admin_job *job)
{
	if (!job->first_open || job->matched > 0 || job->error != 0)
		return false;
	job->first_open = false;
	job->filter.states = 1u << STORE_STATE_CLOSED;
	admin_filter_scan(&job->filter, &job->scan);
	job->scan.cursor = (struct store_cursor){ { 0, 0 } };
	job->scan.end = false;
	return true;
}

static void step_job(struct admin_job *job)
{
	if (job->state != JOB_RUNNING || job->scanning || job->stepping)
		return;
	job->stepping = true;
	bool empty = job->cancelled || work_off(job);
	bool more = empty && !job->cancelled && (!job->scan.end || look_further(job));
	if (more)
		scan_more(job);
	job->stepping = false;
	if (empty && !more && job->in_flight == 0)
		end_job(job);
	if (job->matched > 0 || job->state != JOB_RUNNING)
		answer_waiting(job);
}

/* At most the acts of a tenth of a second begin at once. */
static void allow(struct admin_job *job)
{
	uint64_t now_ms = job->admin->now_ms;
	if (job->rate == 0)
		return;
	if (now_ms < job->allowed_at_ms)
		job->allowed_at_ms = now_ms; /* the clock was set */
	uint64_t more = (now_ms - job->allowed_at_ms) * job->rate / 1000;
	uint64_t most = job->rate / 10 + 1;
	job->allowance = job->allowance + more < most ? job->allowance + more : most;
	job->allowed_at_ms += more * 1000 / job->rate;
}

void admin_jobs_tick(struct admin *admin)
{
	bool draining = atomic_load(&admin->options.console->draining);
	for (struct admin_job *job = admin->jobs; job; job = job->next) {
		job->cancelled |= draining;
		allow(job);
		step_job(job);
		if (admin->now_ms - job->began_ms > KNOWN_MS)
			answer_waiting(job);
	}
}

static void begin_job(struct admin_job *job)
{
	struct admin *admin = job->admin;
	job->began_ms = job->allowed_at_ms = admin->now_ms;
	job->allowance = 1;
	admin_filter_scan(&job->filter, &job->scan);
	if (job->first_open)
		job->scan.states = FILTER_OPEN_STATES; /* of any state, to report that it exists */
	job->scan.with_payload = job->kind == JOB_REPLAY && !job->dry_run;
	job->id = ++admin->job_count;
	job->next = admin->jobs;
	admin->jobs = job;
	forget_jobs(admin);
	scan_more(job);
}

/* ---- show, cancel ---- */

static struct admin_job *find_job(struct admin *admin, const struct admin_call *call)
{
	uint64_t id = 0;
	struct admin_job *job = admin->jobs;
	if (text_parse_u64(call->part, &id) < 0)
		id = 0;
	while (job && job->id != id)
		job = job->next;
	if (!job)
		admin_respond_problem(call->request, 404, "no such job; GET /v1/jobs lists them");
	return job;
}

void admin_show_job(struct admin *admin, const struct admin_call *call)
{
	const struct admin_job *job = find_job(admin, call);
	if (job)
		respond_job(call->request, 200, job);
}

void admin_cancel_job(struct admin *admin, const struct admin_call *call)
{
	struct admin_job *job = find_job(admin, call);
	if (!job)
		return;
	if (job->state == JOB_RUNNING) {
		job->cancelled = true;
		step_job(job);
	}
	respond_job(call->request, 200, job);
}

/* ---- requests that start a job ---- */

static int parse_to(struct admin_job *job, struct span query, struct error_text *ret_text)
{
	struct filter_text to;
	struct lane_view view;
	struct deliver *deliver = job->admin->options.console->deliver;
	if (!admin_param(query, "to", &to, ret_text))
		return to.given ? ERR_INVALID : 0;
	int lane = deliver_find(deliver, filter_span(&to));
	if (lane < 0)
		return error_fill(ret_text, ERR_INVALID, "to: no such sink");
	deliver_view(deliver, (uint32_t)lane, &view);
	job->elsewhere = true;
	job->to = view.sink;
	return 0;
}

static int parse_replay(struct admin_job *job, struct span query, struct error_text *ret_text)
{
	struct filter_text nonce;
	unsigned char made[8];
	job->rate = REPLAY_RATE;
	int r = admin_param_number(query, "rate", RATE_MAX, &job->rate, ret_text);
	if (r == 0 && job->rate == 0)
		r = error_fill(ret_text, ERR_INVALID, "rate: expected 1 to %u a second", RATE_MAX);
	if (r == 0)
		r = parse_to(job, query, ret_text);
	if (r < 0)
		return r;
	if (!admin_param(query, "nonce", &nonce, ret_text) && !nonce.given) {
		r = hash_random(made, sizeof(made));
		if (r < 0)
			return r;
		hex_encode(made, sizeof(made), job->nonce);
		job->nonce_len = 2 * sizeof(made);
		return 0;
	}
	if (nonce.len == 0 || nonce.len > NONCE_MAX)
		return error_fill(ret_text, ERR_INVALID, "nonce: expected a text of 1 to %u bytes",
		                  NONCE_MAX);
	memcpy(job->nonce, nonce.bytes, nonce.len);
	job->nonce_len = nonce.len;
	return 0;
}

/* The states of tickets that such a job acts on. */
static uint32_t job_states(enum job_kind kind)
{
	return kind == JOB_REPLAY ? 1u << STORE_STATE_PARKED | 1u << STORE_STATE_DEAD |
	                                    1u << STORE_STATE_CLOSED
	                          : FILTER_OPEN_STATES;
}

static bool is_narrow(const struct admin_filter *filter)
{
	return filter->states != 0 || filter->from != 0 || filter->to != 0 ||
	       filter->source.given || filter->sink.given || filter->type.given ||
	       filter->entity.given || filter->id.given;
}

static int parse_job(struct admin_job *job, struct span query, struct error_text *ret_text)
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

static struct admin_job *new_job(struct admin *admin, const struct admin_call *call,
                                 enum job_kind kind)
{
	struct error_text text = { "" };
	uint32_t running = 0;
	for (const struct admin_job *job = admin->jobs; job; job = job->next)
		running += job->state == JOB_RUNNING;
	if (running >= JOBS_RUNNING_MAX) {
		admin_respond_busy(call->request,
		                   "too many jobs are running; wait for one to end, or cancel one");
		return NULL;
	}
	struct admin_job *job = admin_alloc(call->request, sizeof(*job));
	if (!job)
		return NULL;
	job->admin = admin;
	job->kind = kind;
	job->acts = admin_alloc(call->request, ACTS_MAX * sizeof(*job->acts));
	if (!job->acts)
		return free_job(job);
	for (uint32_t i = 0; i < ACTS_MAX; i++) {
		job->acts[i] = (struct act){ .job = job, .next = job->spare };
		job->spare = &job->acts[i];
	}
	if (parse_job(job, call->request->head.query, &text) == 0)
		return job;
	admin_respond_problem(call->request, 400, text.text);
	return free_job(job);
}

void admin_start_job(struct admin *admin, const struct admin_call *call)
{
	struct admin_job *job = new_job(admin, call, (enum job_kind)call->what);
	if (!job)
		return;
	if (!is_narrow(&job->filter)) {
		admin_respond_problem(
			call->request, 400,
			"a filter is required: state, source, sink, type, entity, id, since or until");
		free_job(job);
		return;
	}
	/* Without a state a release or drop leaves alone what continues by itself. */
	if (job->filter.states == 0)
		job->filter.states = job->kind == JOB_REPLAY ? job_states(job->kind)
		                                             : STORE_STATES_ASIDE;
	job->filter.states &= job_states(job->kind);
	begin_job(job);
	respond_job(call->request, 202, job);
}

void admin_replay_ticket(struct admin *admin, const struct admin_call *call)
{
	uint64_t ticket;
	if (!admin_parse_ticket(call, &ticket))
		return;
	struct admin_job *job = new_job(admin, call, JOB_REPLAY);
	if (!job)
		return;
	job->filter.event = job->filter.from = ticket;
	job->filter.to = ticket + STORE_LEGS_MAX - 1;
	job->filter.states = 1u << STORE_STATE_PARKED | 1u << STORE_STATE_DEAD;
	job->first_open = true;
	job->request = call->request;
	begin_job(job);
}
