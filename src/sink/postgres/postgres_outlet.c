/* postgres_outlet: see postgres_outlet.h. */
#include "sink/postgres/postgres_outlet.h"

#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "sink/postgres/postgres_internal.h"
#include "sys/clock.h"

#define BATCH_EVENTS 512u /* of one transaction */
#define BATCH_BYTES (4u << 20)

struct postgres_outlet {
	struct outlet outlet;
	struct postgres_plan *plan;
	struct postgres_link link;
	struct postgres_params params;
};

/* Some attempts of a chain, and what came of their transaction. */
struct batch {
	struct outlet_attempt *first, *last; /* last: the first that is not in it */
	uint32_t count;
	bool bytes;      /* payloads as bytes */
	bool committing; /* COMMIT was sent */
	int error;       /* of the connection, or -EPROTO: the server said no; 0: done */
	char state[6];   /* SQLSTATE of that */
	bool unfit;      /* an event cannot be made a row at all */
	struct error_text text;
};

/* An attempt's mark in `own`: its key is new, so its effect is to be made. */
enum { KEY_KNOWN = 0, KEY_NEW = 1 };

/* ---- results ---- */

/* The answer to one statement of the pipeline. True: it went well. */
static bool take_result(struct postgres_outlet *own, struct batch *batch,
                        struct postgres_answer *answer, bool commit)
{
	int error = commit ? postgres_take_commit(&own->link, answer)
	                   : postgres_take(&own->link, answer);
	bool lost = error < 0 && error != -EPROTO;
	/* The first one counts, but that the connection is lost counts more. */
	if (error < 0 && batch->error == 0) {
		snprintf(batch->state, sizeof(batch->state), "%s", answer->state);
		batch->text = answer->text;
		batch->error = error;
	} else if (lost && batch->error == -EPROTO) {
		batch->error = error;
	}
	return error == 0;
}

static bool take_plain(struct postgres_outlet *own, struct batch *batch)
{
	struct postgres_answer answer = { 0 };
	bool fine = take_result(own, batch, &answer, false);
	postgres_answer_free(&answer);
	return fine;
}

static bool take_commit(struct postgres_outlet *own, struct batch *batch)
{
	struct postgres_answer answer = { 0 };
	bool fine = take_result(own, batch, &answer, true);
	postgres_answer_free(&answer);
	if (!fine && batch->error == 0)
		batch->error = -EPROTO;
	return fine;
}

static void take_sync(struct postgres_outlet *own, struct batch *batch)
{
	int error = postgres_take_sync(&own->link);
	if (error && (batch->error == 0 || batch->error == -EPROTO))
		batch->error = -ECONNRESET;
}

static bool is_connected(const struct batch *batch)
{
	return batch->error == 0 || batch->error == -EPROTO;
}

/* ---- sending ---- */

static bool send_prepared(struct postgres_outlet *own, const char *name)
{
	const struct postgres_params *params = &own->params;
	return postgres_send_texts(&own->link, name,
	                           &(struct postgres_texts){ .values = params->values,
	                                                     .lengths = params->lengths,
	                                                     .formats = params->formats,
	                                                     .count = params->count });
}

/* True: it was sent. An event that cannot be a row stops its batch. */
static bool send_row(struct postgres_outlet *own, struct batch *batch,
                     const struct outlet_attempt *attempt, bool effect)
{
	struct postgres_params *params = &own->params;
	int error = effect ? postgres_params_effect(params, own->plan, attempt, &batch->text)
	                   : postgres_params_insert(params, own->plan, attempt, batch->bytes,
	                                            &batch->text);
	if (error) {
		batch->unfit = error == ERR_INVALID;
		batch->error = error;
		return false;
	}
	if (send_prepared(own, effect ? "stile_effect" : "stile_insert"))
		return true;
	batch->error = -ECONNRESET;
	return false;
}

static void send_end(struct postgres_outlet *own, struct batch *batch, bool commit)
{
	bool fine = !commit || postgres_send(&own->link, "COMMIT");
	batch->committing |= commit;
	fine = fine && postgres_send_sync(&own->link);
	if (!fine && batch->error == 0)
		batch->error = -ECONNRESET;
}

/* Keys, or rows: BEGIN … and, if they are all there is, COMMIT. Returns how many are new. */
static uint32_t run_inserts(struct postgres_outlet *own, struct batch *batch)
{
	bool commit = !own->plan->statement;
	uint32_t fresh = 0;
	if (!postgres_send(&own->link, "BEGIN"))
		batch->error = -ECONNRESET;
	for (struct outlet_attempt *at = batch->first; !batch->error && at != batch->last;
	     at = at->next)
		send_row(own, batch, at, false);
	if (batch->error)
		return 0;
	send_end(own, batch, commit);
	if (!batch->error)
		take_plain(own, batch);
	for (struct outlet_attempt *at = batch->first; at != batch->last && is_connected(batch);
	     at = at->next) {
		struct postgres_answer answer = { 0 };
		bool fine = take_result(own, batch, &answer, false);
		at->own = fine && postgres_affected(&answer) == 1 ? KEY_NEW : KEY_KNOWN;
		fresh += at->own == KEY_NEW;
		postgres_answer_free(&answer);
	}
	if (commit && is_connected(batch))
		take_commit(own, batch);
	if (is_connected(batch))
		take_sync(own, batch);
	return fresh;
}

/* The statements of those whose keys are new, and COMMIT. */
static void run_effects(struct postgres_outlet *own, struct batch *batch)
{
	for (struct outlet_attempt *at = batch->first; !batch->error && at != batch->last;
	     at = at->next)
		if (at->own == KEY_NEW)
			send_row(own, batch, at, true);
	if (batch->error)
		return;
	send_end(own, batch, true);
	for (struct outlet_attempt *at = batch->first; at != batch->last && is_connected(batch);
	     at = at->next)
		if (at->own == KEY_NEW)
			take_plain(own, batch);
	if (is_connected(batch))
		take_commit(own, batch);
	if (is_connected(batch))
		take_sync(own, batch);
}

static bool has_class(const char *state, const char *classes)
{
	for (; *classes; classes += 2)
		if (memcmp(state, classes, 2) == 0)
			return true;
	return false;
}

static bool is_data(const struct batch *batch)
{
	return batch->unfit || (batch->error == -EPROTO && has_class(batch->state, "2122234454P0"));
}

static bool is_collision(const struct batch *batch)
{
	return batch->error == -EPROTO &&
	       (has_class(batch->state, "40") || strcmp(batch->state, "55P03") == 0 ||
	        strcmp(batch->state, "57014") == 0);
}

/* What the transaction left behind. A connection in doubt is closed, and so is one where the
 * server says no to more than an event: what was prepared may be gone, or the server may
 * take no writes any more while another does. */
static void clean_up(struct postgres_outlet *own, struct batch *batch)
{
	if (batch->error == 0)
		return;
	bool stays = is_data(batch) || is_collision(batch);
	if (!stays || batch->unfit || postgres_rollback(&own->link) != 0)
		postgres_link_close(&own->link);
}

/* A single event that cannot be a row is found out before anything is sent. */
static void try_params(struct postgres_outlet *own, struct batch *batch)
{
	struct postgres_params *params = &own->params;
	batch->error = postgres_params_insert(params, own->plan, batch->first, batch->bytes,
	                                      &batch->text);
	if (batch->error == 0 && own->plan->statement)
		batch->error = postgres_params_effect(params, own->plan, batch->first,
		                                      &batch->text);
	batch->unfit = batch->error == ERR_INVALID;
}

static void run(struct postgres_outlet *own, struct batch *batch)
{
	if (batch->count == 1)
		try_params(own, batch);
	if (batch->error)
		return;
	postgres_link_limit(&own->link, own->plan->timeout_ms);
	run_inserts(own, batch);
	if (!batch->error && own->plan->statement)
		run_effects(own, batch);
	clean_up(own, batch);
}

/* ---- the connection between batches ---- */

static bool is_interrupted(const struct postgres_outlet *own)
{
	struct pollfd look = { .fd = own->link.interrupt_fd, .events = POLLIN };
	return poll(&look, 1, 0) > 0;
}

static int connect_if_needed(struct postgres_outlet *own, struct error_text *ret_text)
{
	if (is_interrupted(own))
		return error_fill(ret_text, ERR_CLOSING, "interrupted");
	if (postgres_link_is_alive(&own->link))
		return 0;
	postgres_link_close(&own->link);
	return postgres_plan_connect(own->plan, &own->link, ret_text);
}

/* ---- judging ---- */

static void judge_batch(const struct batch *batch, struct outlet_result *result)
{
	bool lost = !is_connected(batch) && !batch->unfit;
	result->answer = OUTLET_NOT_SENT;
	if (batch->error == 0)
		result->answer = OUTLET_DONE;
	else if (batch->unfit)
		result->permanent = true;
	else if (lost && batch->committing)
		result->answer = OUTLET_UNKNOWN;
	else if (is_data(batch) || is_collision(batch))
		result->answer = OUTLET_REFUSED;
	if (is_data(batch) && strcmp(batch->state, "23503") != 0)
		result->permanent = true;
	if (batch->error == 0)
		return;
	char text[ERROR_TEXT_MAX + 16];
	if (batch->state[0])
		snprintf(text, sizeof(text), "%s: %s", batch->state, batch->text.text);
	else
		snprintf(text, sizeof(text), "%s",
		         batch->text.text[0] ? batch->text.text : error_name(batch->error));
	outlet_result_text(result, span_str(text));
}

static void tell_batch(const struct batch *batch, uint64_t start_ns)
{
	struct outlet_result result = { 0 };
	uint64_t took_us = (clock_monotonic_ns() - start_ns) / 1000;
	judge_batch(batch, &result);
	result.latency_us = took_us < UINT32_MAX ? (uint32_t)took_us : UINT32_MAX;
	for (struct outlet_attempt *at = batch->first; at != batch->last;) {
		struct outlet_attempt *next = at->next;
		at->result = result;
		at->done(at);
		at = next;
	}
}

/* ---- the contract ---- */

static struct batch cut_batch(struct outlet_attempt *chain, uint32_t most)
{
	struct batch batch = { .first = chain };
	size_t bytes = 0;
	while (chain && batch.count < most && (batch.count == 0 || bytes < BATCH_BYTES)) {
		bytes += chain->payload.len;
		chain = chain->next;
		batch.count++;
	}
	batch.last = chain;
	return batch;
}

static void connect_and_run(struct postgres_outlet *own, struct batch *batch)
{
	batch->error = connect_if_needed(own, &batch->text);
	if (batch->error == 0)
		run(own, batch);
}

/* What jsonb does not take is kept as bytes: nothing is lost for a character. */
static void run_single(struct postgres_outlet *own, struct outlet_attempt *attempt)
{
	uint64_t start_ns = clock_monotonic_ns();
	struct batch batch = cut_batch(attempt, 1);
	connect_and_run(own, &batch);
	if (is_data(&batch) && !batch.unfit && !own->plan->statement && attempt->json) {
		batch = cut_batch(attempt, 1);
		batch.bytes = true;
		connect_and_run(own, &batch);
	}
	tell_batch(&batch, start_ns);
}

static struct outlet_attempt *run_batch(struct postgres_outlet *own, struct outlet_attempt *chain)
{
	uint64_t start_ns = clock_monotonic_ns();
	struct batch batch = cut_batch(chain, BATCH_EVENTS);
	struct outlet_attempt *last = batch.last;
	if (batch.count > 1) {
		connect_and_run(own, &batch);
		if (!is_data(&batch) && !is_collision(&batch)) {
			tell_batch(&batch, start_ns);
			return last;
		}
	}
	while (chain != last) {
		struct outlet_attempt *next = chain->next;
		run_single(own, chain);
		chain = next;
	}
	return last;
}

static void send_chain(struct outlet *base, struct outlet_attempt *chain)
{
	struct postgres_outlet *own = container_of(base, struct postgres_outlet, outlet);
	while (chain)
		chain = run_batch(own, chain);
}

static void interrupt(struct outlet *base)
{
	struct postgres_outlet *own = container_of(base, struct postgres_outlet, outlet);
	uint64_t one = 1;
	ssize_t n = write(own->link.interrupt_fd, &one, sizeof(one));
	(void)n; /* the counter is full: it is readable already */
}

static void free_outlet(struct outlet *base)
{
	struct postgres_outlet *own = container_of(base, struct postgres_outlet, outlet);
	postgres_link_close(&own->link);
	if (own->link.interrupt_fd >= 0)
		close(own->link.interrupt_fd);
	buf_free(&own->params.text);
	postgres_plan_free(own->plan);
	mem_free(own);
}

static const struct outlet_methods methods = {
	.send = send_chain,
	.interrupt = interrupt,
	.free = free_outlet,
};

int postgres_outlet_check(const struct postgres_outlet_options *options,
                          struct error_text *ret_text)
{
	struct postgres_plan *plan = NULL;
	int error = postgres_plan_new(options, &plan, ret_text);
	postgres_plan_free(plan);
	return error;
}

int postgres_outlet_new(const struct postgres_outlet_options *options, struct outlet **ret_outlet,
                        struct error_text *ret_text)
{
	struct postgres_outlet *own = mem_zalloc(1, sizeof(*own));
	if (!own)
		return -ENOMEM;
	own->outlet =
		(struct outlet){ .methods = &methods, .batch_max = UINT32_MAX, .immediate = true };
	own->link.interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int error = own->link.interrupt_fd >= 0 ? 0 : -errno;
	if (!error)
		error = postgres_plan_new(options, &own->plan, ret_text);
	if (error) {
		free_outlet(&own->outlet);
		return error;
	}
	own->link.options = (struct postgres_link_options){
		.conninfo = own->plan->conninfo,
		.password = own->plan->password,
		.own_password = own->plan->own_password,
		.connect_ms = own->plan->connect_ms,
		.statement_ms = own->plan->timeout_ms,
		.lock_ms = own->plan->timeout_ms / 2 + 1,
	};
	*ret_outlet = &own->outlet;
	return 0;
}
