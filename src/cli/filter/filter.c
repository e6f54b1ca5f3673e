/* filter: see filter.h. */
#include "cli/filter/filter.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/filter/filter_envelope.h"
#include "cli/filter/filter_output.h"
#include "cli/filter/filter_split.h"
#include "cli/filter/flat_claims.h"
#include "sys/stream.h"

/*
 * A block is small enough to stay in the caches from read to write, and large enough
 * that a system call costs nothing: of 1 KB, 95 ns are for the read with blocks of
 * 256 KiB and 80 with these, and the scan takes as long.
 * Mapping the file instead gains nothing (counting the lines of 1 GB takes 0.16 s
 * either way), and a file that is cut meanwhile would end the process.
 */
#define BLOCK_BYTES (1u << 20)
#define SAMPLE_BYTES (4u << 20) /* by which the size of the index is chosen */
#define ROOM_BYTES (FILTER_EVENT_MAX + 2 * BLOCK_BYTES)
#define BATCH 8
#define REASON_MAX 320

/* An event whose claims are known and not decided yet. */
struct pending {
	struct recipe_result result;
	struct flat_event event;
	struct span whole; /* what goes out … */
	struct span text;  /* … and what is shown of it, if it does not */
	uint64_t line;
};

struct batch {
	uint32_t count;
	struct pending events[BATCH];
};

struct filter {
	struct filter_options options;
	struct flat_claims *claims;
	struct recipe_scratch scratch;
	struct filter_output output;
	struct filter_stats stats;
	const struct filter_input *input;
	struct filter_split split;
	uint64_t now_ms; /* of the last event that has a time, or of the clock */
	struct batch batches[2];
	struct batch *filling; /* the other one waits for memory */
	struct buf words;      /* of a claim, for the rejected */
	struct filter_envelope envelope;
	char *bytes; /* ROOM_BYTES */
};

int filter_new(const struct filter_options *options, struct filter **ret_filter)
{
	struct filter *filter = mem_zalloc(1, sizeof(*filter));
	if (!filter)
		return -ENOMEM;
	filter->options = *options;
	filter->output.out_fd = options->out_fd;
	filter->output.rejected_fd = options->rejected_fd;
	filter_envelope_init(&filter->envelope);
	filter->filling = &filter->batches[0];
	filter->bytes = mem_map(ROOM_BYTES);
	if (!filter->bytes || flat_claims_new(&filter->claims) != 0) {
		filter_free(filter);
		return -ENOMEM;
	}
	*ret_filter = filter;
	return 0;
}

struct filter *filter_free(struct filter *filter)
{
	if (!filter)
		return NULL;
	flat_claims_free(filter->claims);
	recipe_scratch_free(&filter->scratch);
	filter_output_free(&filter->output);
	buf_free(&filter->words);
	filter_envelope_free(&filter->envelope);
	mem_unmap(filter->bytes, ROOM_BYTES);
	return mem_free(filter);
}

struct filter_stats filter_get_stats(const struct filter *filter)
{
	struct filter_stats stats = filter->stats;
	struct flat_claims_stats claims = flat_claims_get_stats(filter->claims);
	stats.claims = claims.claims;
	stats.claims_bytes = claims.bytes;
	stats.claims_forgotten = claims.forgotten;
	return stats;
}

/* ---- what does not pass ---- */

/* "1.5s earlier" */
static void add_gap(struct buf *reason, const struct flat_event *event,
                    const struct flat_verdict *verdict)
{
	char text[TEXT_DURATION_MAX];
	uint64_t first = verdict->first_time_ms;
	if (event->time_ms == first) {
		buf_append_span(reason, SPAN(", of the same time"));
		return;
	}
	bool earlier = first < event->time_ms;
	text_duration(text, earlier ? event->time_ms - first : first - event->time_ms);
	buf_printf(reason, ", %s %s", text, earlier ? "earlier" : "later");
}

static void write_reason(const struct pending *pending, const struct flat_verdict *verdict,
                         struct buf *reason)
{
	static const char *const words[VERDICT_COUNT] = {
		[VERDICT_DUPLICATE] = "the same key as event",
		[VERDICT_CONFLICT] = "the same key with other content as event",
		[VERDICT_STALE] = "older than event",
	};
	const struct claim *claim = &pending->event.claims[verdict->matched];
	const char *word = words[verdict->verdict];
	CHECK(word);
	if (claim->kind == CLAIM_CONTENT)
		word = "the same content as event";
	buf_printf(reason, "%s ", word);
	buf_append_u64(reason, verdict->first);
	add_gap(reason, &pending->event, verdict);
}

/* What the recipe is given of an event. */
static int open_event(struct filter *filter, struct span text, struct recipe_input *ret_input,
                      struct error_text *ret_problem)
{
	if (filter->options.envelope)
		return filter_envelope_open(&filter->envelope, text, ret_input, ret_problem);
	*ret_input = (struct recipe_input){ .body = text };
	return 0;
}

static int reject(struct filter *filter, const struct pending *pending,
                  const struct flat_verdict *verdict)
{
	char memory[REASON_MAX];
	struct buf reason = buf_on(memory, sizeof(memory));
	struct recipe_input input;
	struct recipe_words words = { .rule = SPAN_EMPTY };
	if (filter->options.rejected_fd < 0)
		return 0;
	write_reason(pending, verdict, &reason);
	buf_clear(&filter->words);
	if (open_event(filter, pending->text, &input, NULL) < 0 ||
	    !recipe_words(filter->options.recipe, &filter->scratch, &input, verdict->matched,
	                  &filter->words, &words))
		words = (struct recipe_words){ .rule = SPAN_EMPTY };
	struct filter_rejection rejection = {
		.number = pending->event.number,
		.line = pending->line,
		.first = verdict->first,
		.file = filter->input->name,
		.verdict = verdict_name(verdict->verdict),
		.rule = words.rule,
		.parts = words.parts,
		.reason = buf_span(&reason),
		.event = pending->text,
		.json = filter->options.envelope || pending->result.event.json,
	};
	return filter_output_reject(&filter->output, &rejection);
}

static void complain(struct filter *filter, uint64_t line, const char *reason)
{
	struct error_text text;
	if (!filter->options.complain)
		return;
	error_fill(&text, 0, "%s:%llu: %s", filter->input->name ? filter->input->name : "-",
	           (unsigned long long)line, reason);
	filter->options.complain(filter->options.user, text.text);
}

/* ---- decisions ---- */

static int settle(struct filter *filter, const struct pending *pending,
                  const struct flat_verdict *verdict)
{
	struct filter_stats *stats = &filter->stats;
	stats->verdicts[verdict->verdict]++;
	if (!verdict->passes)
		return reject(filter, pending, verdict);
	stats->passed++;
	stats->would += verdict->would != VERDICT_NONE;
	return filter_output_pass(&filter->output, pending->whole);
}

/*
 * All fetches are started together: each has to find its page first, which a
 * processor does for several at a time, but lets nothing pass meanwhile that stands
 * behind it. One after each event, they would take 90 ns of it.
 */
static void fetch_batch(struct filter *filter, const struct batch *batch)
{
	for (uint32_t i = 0; i < batch->count; i++)
		flat_claims_prefetch(filter->claims, &batch->events[i].event);
}

static int decide_batch(struct filter *filter, struct batch *batch)
{
	int error = 0;
	for (uint32_t i = 0; i < batch->count; i++)
		flat_claims_prefetch_known(filter->claims, &batch->events[i].event);
	for (uint32_t i = 0; i < batch->count && error == 0; i++) {
		struct flat_verdict verdict;
		const struct pending *pending = &batch->events[i];
		error = flat_claims_decide(filter->claims, &pending->event, &verdict);
		if (error == 0)
			error = settle(filter, pending, &verdict);
	}
	batch->count = 0;
	return error;
}

static struct batch *other_batch(struct filter *filter)
{
	return &filter->batches[filter->filling == &filter->batches[0]];
}

/* A batch is full: it waits until the next one is, and memory has answered by then. */
static int turn_batches(struct filter *filter)
{
	struct batch *other = other_batch(filter);
	fetch_batch(filter, filter->filling);
	int error = decide_batch(filter, other);
	filter->filling = other;
	return error;
}

/* All that is not decided yet. */
static int decide_all(struct filter *filter)
{
	fetch_batch(filter, filter->filling);
	int error = decide_batch(filter, other_batch(filter));
	return error == 0 ? decide_batch(filter, filter->filling) : error;
}

static int add_bad(struct filter *filter, const struct filter_piece *piece, struct span event,
                   const char *reason)
{
	int error = decide_all(filter); /* the rejected stay in order */
	filter->stats.read++;
	filter->stats.bad++;
	complain(filter, piece->line, reason);
	if (error != 0)
		return error;
	struct filter_rejection rejection = {
		.number = filter->stats.read,
		.line = piece->line,
		.file = filter->input->name,
		.verdict = "bad",
		.reason = span_str(reason),
		.event = event,
		.cut = event.len > FILTER_EVENT_MAX,
	};
	return filter_output_reject(&filter->output, &rejection);
}

/* Events without a time are judged at that of the one before. */
static uint64_t time_of(struct filter *filter, const struct event *event)
{
	uint64_t ms;
	if (filter->options.arrival)
		return filter->now_ms;
	if (event->time.coding != EVENT_TEXT_NONE && event_time_ms(event->time, &ms) == 0)
		filter->now_ms = ms;
	else
		filter->stats.undated++;
	return filter->now_ms;
}

/* The batch's next place has the result; it becomes an event to decide. */
static int add_event(struct filter *filter, const struct filter_piece *piece, bool several)
{
	struct batch *batch = filter->filling;
	struct pending *pending = &batch->events[batch->count];
	struct recipe_result *result = &pending->result;
	filter->stats.read++;
	pending->line = piece->line;
	pending->whole = several ? result->payload : piece->whole;
	pending->text = filter->options.envelope ? piece->event : result->payload;
	pending->event = (struct flat_event){
		.claims = result->claims,
		.claim_count = result->claim_count,
		.on_conflict = filter->options.on_conflict,
		.time_ms = time_of(filter, &result->event),
		.number = filter->stats.read,
	};
	return ++batch->count == BATCH ? turn_batches(filter) : 0;
}

static void begin_items(struct filter *filter, const struct recipe_input *input,
                        struct recipe_items *ret_items)
{
	recipe_items_begin(ret_items, filter->options.recipe, &filter->scratch, input);
	ret_items->items_max = UINT32_MAX;
}

/* Whether an array is one is known at its end only, and what was decided stands: so
 * it is read through first. Objects are read wholly before their first item is. */
static bool is_broken_array(struct filter *filter, const struct recipe_input *input,
                            struct recipe_items *items, struct error_text *ret_problem)
{
	struct recipe_result result;
	enum recipe_step step;
	if (input->body.len == 0 || input->body.ptr[0] != '[')
		return false;
	begin_items(filter, input, items);
	do
		step = recipe_items_next(items, &result, ret_problem);
	while (step == RECIPE_EVENT || step == RECIPE_REFUSED);
	return step == RECIPE_BROKEN;
}

static int add_broken(struct filter *filter, const struct filter_piece *piece, int error,
                      const struct error_text *problem)
{
	return error == -ENOMEM ? error : add_bad(filter, piece, piece->event, problem->text);
}

/* One piece may hold several events: Records, entities, an array on a line. */
static int add_items(struct filter *filter, const struct filter_piece *piece,
                     struct recipe_items *items)
{
	struct error_text problem;
	int error = 0;
	while (error == 0) {
		struct batch *batch = filter->filling;
		struct recipe_result *result = &batch->events[batch->count].result;
		enum recipe_step step = recipe_items_next(items, result, &problem);
		/* There is one envelope to write on. */
		if (filter->options.envelope && items->batch)
			return add_bad(filter, piece, piece->event,
			               "expected one event in an envelope, found several");
		switch (step) {
		case RECIPE_END: return 0;
		case RECIPE_EVENT: error = add_event(filter, piece, items->batch); break;
		case RECIPE_REFUSED:
			error = add_bad(filter, piece,
			                filter->options.envelope ? piece->event : result->payload,
			                problem.text);
			break;
		case RECIPE_BROKEN: return add_broken(filter, piece, items->error, &problem);
		}
	}
	return error;
}

static int add_piece(struct filter *filter, const struct filter_piece *piece)
{
	struct recipe_input input;
	struct recipe_items items;
	struct error_text problem;
	int error = open_event(filter, piece->event, &input, &problem);
	if (error != 0)
		return add_broken(filter, piece, error, &problem);
	if (is_broken_array(filter, &input, &items, &problem))
		return add_broken(filter, piece, items.error, &problem);
	begin_items(filter, &input, &items);
	return add_items(filter, piece, &items);
}

/* ---- blocks ---- */

/* In texts an event may have line breaks, between its tokens only: they become
 * blanks, right where they stand. */
static void make_one_line(struct filter *filter, const struct filter_piece *piece)
{
	char *p = filter->bytes + (piece->event.ptr - filter->bytes);
	char *end = p + piece->event.len;
	for (char *at = p; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++)
		*at = ' ';
	for (char *at = p; (at = memchr(at, '\r', (size_t)(end - at))) != NULL; at++)
		*at = ' ';
}

static int take_step(struct filter *filter, enum filter_step step, const struct filter_piece *piece,
                     struct error_text *ret_text)
{
	struct error_text reason;
	switch (step) {
	case FILTER_EVENT:
		if (filter->split.form == FILTER_TEXTS)
			make_one_line(filter, piece);
		return add_piece(filter, piece);
	case FILTER_TOO_LONG:
		error_fill(&reason, 0, "an event of more than %u MiB", FILTER_EVENT_MAX >> 20);
		return add_bad(filter, piece, piece->event, reason.text);
	default:
		return error_fill(ret_text, ERR_INVALID,
		                  "line %llu: expected %s; the rest cannot be read",
		                  (unsigned long long)piece->line, piece->expected);
	}
}

/* All events of the block; `block` is then what is left of it. */
static int take_block(struct filter *filter, struct span *block, bool last,
                      struct error_text *ret_text)
{
	struct filter_piece piece;
	int error = 0;
	if (filter->options.arrival)
		filter->now_ms = clock_read(filter->options.clock).wall_ms;
	while (error == 0) {
		enum filter_step step = filter_split_next(&filter->split, block, last, &piece);
		if (step == FILTER_MORE || step == FILTER_END)
			break;
		error = take_step(filter, step, &piece, ret_text);
	}
	/* What was found stands, even before what is broken. */
	if (error == 0 || error == ERR_INVALID) {
		int written = decide_all(filter);
		if (written == 0)
			written = filter_output_flush(&filter->output);
		error = written != 0 ? written : error;
	}
	return error;
}

/* An error of ours, or of the one who reads; the text says which. */
static int fail(const struct filter *filter, int error, struct error_text *ret_text)
{
	if (error == 0 || error == ERR_INVALID)
		return error;
	if (error == -ENOMEM)
		return error_fill(ret_text, error, "there is not enough memory for the claims");
	return error_fill(ret_text, error, "%s: %s",
	                  filter->output.rejected_failed ? "the rejected" : "standard output",
	                  error_name(error));
}

/* Of an input: what tells how many claims it will have. */
struct sample {
	uint64_t size;   /* of the input; 0: nobody knows, or it was asked for */
	uint64_t read;   /* bytes of it */
	uint64_t before; /* claims that were there already */
};

static struct sample begin_sample(const struct filter *filter, int fd)
{
	return (struct sample){
		.size = stream_size(fd),
		.before = flat_claims_get_stats(filter->claims).claims,
	};
}

/* An index that need not grow, by what was in the first bytes of an input: a little
 * more than by them, since one that is too small by little grows by much. */
static void add_to_sample(struct filter *filter, struct sample *sample, uint64_t len)
{
	sample->read += len;
	if (sample->read < SAMPLE_BYTES || sample->size == 0)
		return;
	uint64_t found = flat_claims_get_stats(filter->claims).claims - sample->before;
	if (sample->size > sample->read)
		flat_claims_expect(filter->claims,
		                   sample->before + (found + found / 16) *
		                                            (sample->size / sample->read + 1));
	sample->size = 0;
}

int filter_run(struct filter *filter, const struct filter_input *input, struct error_text *ret_text)
{
	struct span block = { filter->bytes, 0 };
	bool last = false;
	int error = 0;
	struct sample sample = begin_sample(filter, input->fd);
	filter->input = input;
	filter->split = (struct filter_split){ .event_max = FILTER_EVENT_MAX };
	while (!last && error == 0) {
		CHECK(block.len + BLOCK_BYTES <= ROOM_BYTES);
		if (block.len > 0 && block.ptr != filter->bytes)
			memmove(filter->bytes, block.ptr, block.len);
		int64_t n = stream_read(input->fd, filter->bytes + block.len, BLOCK_BYTES);
		if (n < 0)
			return error_fill(ret_text, (int)n, "%s", error_name((int)n));
		last = n == 0;
		filter->stats.bytes += (uint64_t)n;
		block = span_of(filter->bytes, block.len + (size_t)n);
		error = take_block(filter, &block, last, ret_text);
		add_to_sample(filter, &sample, (uint64_t)n);
		if (filter->options.progress)
			filter->options.progress(filter->options.user, &filter->stats);
	}
	return fail(filter, error, ret_text);
}
