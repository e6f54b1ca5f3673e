/*
 * admin_jobs: what is done to many tickets: replay, release, drop. See admin.h.
 *
 * A job scans the store a piece at a time and acts on what its filter matches, a few
 * operations at once. It lives in memory and ends with the process. Nothing is lost by
 * that: a release or drop goes on by being asked for again, and a replay too, under the
 * same nonce, which skips what it has sent already.
 *
 * Replay: the same bytes are admitted again, with a single claim of (nonce, original
 * ticket). So it gets a ticket and an Idempotency-Key of its own, and the same replay
 * run twice is a duplicate. A dead or parked original is closed when that is durable.
 * A replay to another sink leaves its original as it is.
 * What a job has sent itself, and what is a replay and was delivered, it leaves out; and
 * claims of callers, which go nowhere but to another sink.
 */
#include <inttypes.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"
#include "console/admin.h"
#include "gate/digest.h"
#include "gate/ticket.h"

#define JOBS_KEPT 64u /* ended ones that can still be asked about */
#define JOBS_RUNNING_MAX 16u
#define ACTS_MAX 64u
#define PIECE_BYTES (1u << 20)
#define REPLAY_RATE 50u /* a second */
#define RATE_MAX 100000u
#define NONCE_MAX 64u
#define NONCE_WINDOW_S (30u * 24 * 60 * 60)

enum job_kind { JOB_REPLAY, JOB_RELEASE, JOB_DROP };
enum job_state { JOB_RUNNING, JOB_DONE, JOB_CANCELLED, JOB_FAILED };

struct act {
	struct admin_job *job;
	struct act *next; /* while free */
	struct store_admit admit;
	struct admin_act deed;
	struct store_leg leg;
	enum store_state original;
	bool closes; /* the original, when the replay is durable */
	char letter[LETTER_BYTES_MAX];
	struct buf bytes; /* source and payload */
};

struct admin_job {
	struct admin_job *next;
	struct admin *admin;
	uint32_t id;
	enum job_kind kind;
	enum job_state state;
	bool dry_run;
	bool cancelled;
	bool first_open; /* of one ticket: look among the open ones before the whole journal */
	struct admin_filter filter;
	char nonce[NONCE_MAX];
	uint32_t nonce_len;
	uint64_t rate;  /* a second; 0: no limit */
	bool elsewhere; /* a replay to another sink: `to` */
	uint32_t to;
	uint64_t allowed_at_ms;
	uint64_t allowance; /* acts that may begin now */
	uint64_t began_ms, ended_ms;
	uint64_t matched, acted, skipped, failed;
	uint64_t first_own; /* the lowest ticket that it made; 0: none */
	int error;          /* why it failed */
	struct store_scan scan;
	bool scanning;
	bool stepping; /* an operation may end inside of its submit */
	size_t at;     /* in scan.items */
	uint32_t in_flight;
	struct act *spare;
	struct act *acts; /* ACTS_MAX of them; NULL when it has ended */
};

static const char *const kind_names[] = { "replay", "release", "drop" };
static const char *const state_names[] = { "running", "done", "cancelled", "failed" };

/* ---- the end ---- */

static void free_acts(struct admin_job *job)
{
	for (uint32_t i = 0; job->acts && i < ACTS_MAX; i++)
		buf_free(&job->acts[i].bytes);
	job->acts = mem_free(job->acts);
	buf_free(&job->scan.items);
}

static void end_job(struct admin_job *job, enum job_state state)
{
	job->state = state;
	job->ended_ms = job->admin->now_ms;
	free_acts(job);
}

void admin_jobs_free(struct admin *admin)
{
	while (admin->jobs) {
		struct admin_job *job = admin->jobs;
		admin->jobs = job->next;
		free_acts(job);
		mem_free(job);
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

static void step(struct admin_job *job);

static void end_act(struct act *act)
{
	struct admin_job *job = act->job;
	act->next = job->spare;
	job->spare = act;
	job->in_flight--;
	step(job);
}

static void released(struct admin_act *deed, int error)
{
	struct act *act = container_of(deed, struct act, deed);
	struct admin_job *job = act->job;
	if (error == ERR_FENCED || error == ERR_BUSY)
		job->skipped++; /* somebody was quicker */
	else if (error != 0)
		job->failed++;
	else
		job->acted++;
	end_act(act);
}

/* The replay counts already; its original may be gone meanwhile. */
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

/* That of the original, and whose replay it is. What does not fit is the trace's state. */
static struct span replay_letter(struct act *act, struct span original, uint64_t ticket)
{
	struct letter letter = { 0 };
	char text[TICKET_TEXT_LEN];
	struct buf out = buf_on(act->letter, sizeof(act->letter));
	if (letter_read(original, &letter) < 0)
		letter = (struct letter){ 0 };
	ticket_text(ticket, text);
	letter.texts[LETTER_REPLAY_OF] = span_of(text, sizeof(text));
	letter_write(&letter, &out);
	if (out.failed) {
		letter.texts[LETTER_TRACESTATE] = SPAN_EMPTY;
		buf_clear(&out);
		letter_write(&letter, &out);
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
		.letter = replay_letter(act, parts->letter, item->ticket),
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

static bool is_meant(const struct admin_job *job, const struct store_item *item,
                     const struct store_parts *parts)
{
	struct letter letter;
	if (!admin_filter_matches(&job->filter, item, parts))
		return false;
	if (job->kind != JOB_REPLAY)
		return true;
	if (job->first_own != 0 && item->ticket >= job->first_own)
		return false;
	/* Whoever made the claim has acted: nobody would ask for it, or settle it, again. */
	if (item->sink == STORE_SINK_CALLER && !job->elsewhere)
		return false;
	/* Its original is there too, and is what a replay of all repeats. */
	return item->state != STORE_STATE_CLOSED || job->filter.event != 0 ||
	       letter_read(parts->letter, &letter) < 0 || letter.texts[LETTER_REPLAY_OF].len == 0;
}

/* True: all items of the piece are done with. */
static bool work_off(struct admin_job *job)
{
	struct store_item item;
	struct store_parts parts;
	while (job->spare && (job->dry_run || job->rate == 0 || job->allowance > 0)) {
		if (!store_item_next(buf_span(&job->scan.items), &job->at, &item, &parts))
			return true;
		if (!is_meant(job, &item, &parts))
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
	step(job);
}

static void scan_on(struct admin_job *job)
{
	job->scanning = true;
	job->scan.max_items = ACTS_MAX;
	job->scan.max_bytes = PIECE_BYTES;
	job->scan.op = (struct store_op){ .kind = STORE_SCAN, .done = scanned, .user = job };
	store_submit(job->admin->options.port, &job->scan.op);
}

/* Of one ticket: not among the open ones, so it is looked for in the journal. */
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

static void step(struct admin_job *job)
{
	if (job->state != JOB_RUNNING || job->scanning || job->stepping)
		return;
	job->stepping = true;
	bool empty = job->cancelled || work_off(job);
	bool more = empty && !job->cancelled && (!job->scan.end || look_further(job));
	if (more)
		scan_on(job);
	job->stepping = false;
	if (empty && !more && job->in_flight == 0)
		end_job(job, job->cancelled    ? JOB_CANCELLED
		             : job->error != 0 ? JOB_FAILED
		                               : JOB_DONE);
}

/* What a tenth of a second allows may be used at once. */
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
		step(job);
	}
}

/* ---- what is asked ---- */

static void put_counts(struct buf *out, const struct admin_job *job)
{
	static const char *const acted[] = { "replayed", "released", "dropped" };
	buf_printf(out, "\"matched\":%" PRIu64 ",\"%s\":%" PRIu64 ",", job->matched,
	           acted[job->kind], job->acted);
	buf_printf(out, "\"skipped\":%" PRIu64 ",\"failed\":%" PRIu64 ",", job->skipped,
	           job->failed);
}

static void put_job(struct buf *out, const struct admin_job *job)
{
	buf_printf(out, "{\"job\":%" PRIu32 ",\"kind\":\"%s\",\"state\":\"%s\",", job->id,
	           kind_names[job->kind], state_names[job->state]);
	buf_printf(out, "\"dry_run\":%s,", job->dry_run ? "true" : "false");
	if (job->kind == JOB_REPLAY)
		admin_put_text(out, "nonce", span_of(job->nonce, job->nonce_len));
	if (job->rate > 0)
		buf_printf(out, "\"rate\":%" PRIu64 ",", job->rate);
	put_counts(out, job);
	admin_put_time(out, "began", job->began_ms);
	if (job->state != JOB_RUNNING)
		admin_put_time(out, "ended", job->ended_ms);
	if (job->error != 0)
		admin_put_text(out, "error", span_str(error_name(job->error)));
	admin_close_object(out);
}

static void respond_job(struct http_request *request, uint16_t status, const struct admin_job *job)
{
	struct buf out = { .cap = 4096 };
	put_job(&out, job);
	buf_append_char(&out, '\n');
	admin_respond_status(request, status, &out);
}

void admin_list_jobs(struct admin *admin, struct http_request *request, struct span part)
{
	struct buf out = { .cap = 1u << 20 };
	(void)part;
	buf_append_span(&out, SPAN("{\"jobs\":["));
	for (const struct admin_job *job = admin->jobs; job; job = job->next) {
		put_job(&out, job);
		buf_append_span(&out, job->next ? SPAN(",") : SPAN_EMPTY);
	}
	buf_append_span(&out, SPAN("]}\n"));
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
		step(job);
	}
	respond_job(request, 200, job);
}

/* ---- begin ---- */

static int make_nonce(struct admin_job *job)
{
	unsigned char bytes[8];
	static const char digits[] = "0123456789abcdef";
	int r = hash_random(bytes, sizeof(bytes));
	for (uint32_t i = 0; i < sizeof(bytes) && r == 0; i++) {
		job->nonce[2 * i] = digits[bytes[i] >> 4];
		job->nonce[2 * i + 1] = digits[bytes[i] & 15];
	}
	job->nonce_len = 2 * sizeof(bytes);
	return r;
}

static int parse_to(struct admin_job *job, struct span query, struct error_text *ret_text)
{
	struct filter_text to;
	struct lane_view view;
	struct deliver *deliver = job->admin->options.console->deliver;
	if (!admin_param(query, "to", &to, ret_text))
		return to.given ? ERR_INVALID : 0;
	for (uint32_t i = 0; i < deliver_lane_count(deliver); i++) {
		deliver_view(deliver, i, &view);
		if (!span_eq(span_str(view.name), filter_span(&to)))
			continue;
		job->elsewhere = true;
		job->to = view.sink;
		return 0;
	}
	return error_fill(ret_text, ERR_INVALID, "to: there is no sink of this name");
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
	if (nonce.len == 0 || nonce.len > NONCE_MAX)
		return error_fill(ret_text, ERR_INVALID, "nonce: expected a text of 1 to %u bytes",
		                  NONCE_MAX);
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

static void begin(struct admin_job *job)
{
	struct admin *admin = job->admin;
	job->filter.states &= job_states(job->kind);
	job->began_ms = job->allowed_at_ms = admin->now_ms;
	job->allowance = 1;
	for (uint32_t i = 0; i < ACTS_MAX; i++) {
		job->acts[i] = (struct act){ .job = job, .next = job->spare };
		job->spare = &job->acts[i];
	}
	admin_filter_scan(&job->filter, &job->scan);
	job->scan.with_payload = job->kind == JOB_REPLAY && !job->dry_run;
	job->id = ++admin->job_count;
	job->next = admin->jobs;
	admin->jobs = job;
	forget_jobs(admin);
	scan_on(job);
}

static struct admin_job *new_job(struct admin *admin, struct http_request *request,
                                 enum job_kind kind)
{
	struct error_text text = { "" };
	if (count_running(admin) >= JOBS_RUNNING_MAX) {
		admin_respond_busy(request, "too many jobs run; wait for one, or cancel it");
		return NULL;
	}
	struct admin_job *job = mem_zalloc(1, sizeof(*job));
	struct act *acts = mem_zalloc(ACTS_MAX, sizeof(*acts));
	if (!job || !acts) {
		mem_free(job);
		mem_free(acts);
		admin_respond_busy(request, "no memory for this now");
		return NULL;
	}
	job->admin = admin;
	job->kind = kind;
	job->acts = acts;
	if (parse(job, request->head.query, &text) == 0)
		return job;
	http_respond_problem(request, 400, text.text, SPAN_EMPTY);
	mem_free(acts);
	mem_free(job);
	return NULL;
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
		mem_free(job->acts);
		mem_free(job);
		return;
	}
	if (job->filter.states == 0)
		job->filter.states = standard_states(kind);
	begin(job);
	respond_job(request, 202, job);
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
	begin(job);
	respond_job(request, 202, job);
}
