/* admin_job: see admin_job.h. */
#include "console/admin/admin_job.h"

#include <inttypes.h>

#include "base/mem.h"
#include "gate/digest.h"
#include "gate/ticket.h"

#define JOBS_KEPT 64u /* ended ones that can still be asked about */
#define ACTS_MAX 64u
#define PIECE_BYTES (1u << 20)
#define KNOWN_MS 2000u /* so long a request may wait for its job */
#define NONCE_WINDOW_S (30u * 24 * 60 * 60)

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

/* ---- begin and end ---- */

struct admin_job *admin_job_new(struct admin *admin, enum job_kind kind)
{
	struct admin_job *job = mem_zalloc(1, sizeof(*job));
	if (!job)
		return NULL;
	job->admin = admin;
	job->kind = kind;
	job->acts = mem_zalloc(ACTS_MAX, sizeof(*job->acts));
	for (uint32_t i = 0; job->acts && i < ACTS_MAX; i++) {
		job->acts[i] = (struct act){ .job = job, .next = job->spare };
		job->spare = &job->acts[i];
	}
	return job->acts ? job : admin_job_free(job);
}

static void free_acts(struct admin_job *job)
{
	for (uint32_t i = 0; job->acts && i < ACTS_MAX; i++)
		buf_free(&job->acts[i].bytes);
	job->acts = mem_free(job->acts);
	buf_free(&job->scan.items);
}

struct admin_job *admin_job_free(struct admin_job *job)
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

static void tell(struct admin_job *job)
{
	void (*known)(struct admin_job *) = job->known;
	job->known = NULL;
	if (known)
		known(job);
}

void admin_jobs_free(struct admin *admin)
{
	while (admin->jobs) {
		struct admin_job *job = admin->jobs;
		admin->jobs = job->next;
		admin_job_free(job);
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

static void end_act(struct act *act)
{
	struct admin_job *job = act->job;
	act->next = job->spare;
	job->spare = act;
	job->in_flight--;
	admin_job_step(job);
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

static bool is_meant(struct admin_job *job, const struct store_item *item,
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
	if (item->sink == STORE_SINK_CALLER && !job->elsewhere) {
		job->met_claim = true;
		return false;
	}
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
		job->met_open |= item.state != STORE_STATE_CLOSED &&
		                 (item.ticket == job->filter.event ||
		                  item.event == job->filter.event);
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
	admin_job_step(job);
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

void admin_job_step(struct admin_job *job)
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
		end_job(job);
	if (job->matched > 0 || job->state != JOB_RUNNING)
		tell(job);
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
		admin_job_step(job);
		if (admin->now_ms - job->began_ms > KNOWN_MS)
			tell(job);
	}
}

void admin_job_begin(struct admin_job *job)
{
	struct admin *admin = job->admin;
	job->began_ms = job->allowed_at_ms = admin->now_ms;
	job->allowance = 1;
	admin_filter_scan(&job->filter, &job->scan);
	if (job->first_open)
		job->scan.states = FILTER_OPEN_STATES; /* also to say that it is there */
	job->scan.with_payload = job->kind == JOB_REPLAY && !job->dry_run;
	job->id = ++admin->job_count;
	job->next = admin->jobs;
	admin->jobs = job;
	forget_jobs(admin);
	scan_on(job);
}
